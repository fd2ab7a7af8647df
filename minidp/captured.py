"""``capture(function)``: run a step a few times, then replay what it did.

A step is recorded while it runs eagerly. Once two recordings in a row agree, op for op and
constant for constant, it is replayed without running its Python. Now and then it is recorded again,
to notice Python that has changed its mind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minidp.fusion import fused
from minidp.graph import Graph
from minidp.mode import switched
from minidp.program import Program
from minidp.tape import Tape
from minidp.tensor import Tensor

SIGNATURES = 8
"""How many kinds of arguments a captured step keeps programs for."""


class Plan:
    """What is known of a step for one kind of arguments."""

    def __init__(self, fuse: bool) -> None:
        self.fuse = fuse
        self.graph: Graph | None = None
        self.program: Program | None = None
        self.form: Any = None
        self.calls, self.next_check = 0, 16
        self.reason = "it has run only once"

    def due(self) -> bool:
        """Whether the step is to be recorded now: at first, when its parameters have moved, and in
        calls 16, 32, 64 and so on."""
        self.calls += 1
        program = self.program
        if program is not None and self.calls >= self.next_check:
            self.next_check *= 2
            return True
        return program is None or not (program.rests or program.valid())

    def learn(self, graph: Graph, form: Any) -> None:
        """Compare a new recording with the one before."""
        before, self.graph, self.form = self.graph, graph, form
        reason = before.difference(graph) if before is not None else self.reason
        if reason is not None:
            self.program, self.reason = None, reason
        elif self.program is None or not self.program.valid():
            self.program = Program(fused(graph) if self.fuse else graph)


class Captured:
    """A step that is replayed once it is known; see ``capture``."""

    def __init__(self, function: Callable[..., Any], fuse: bool = False) -> None:
        self.function, self.fuse = function, fuse
        self._plans: dict[Any, Plan] = {}
        self._key: Any = None
        self.last = Plan(fuse)
        """What is known for the kind of arguments that was given last."""
        self.allowed = True
        """Whether it may be replayed now; a scheduler asks all replicas."""

    def __call__(self, *arguments: Any) -> Any:
        tensors: list[Tensor] = []
        form = _form(arguments, tensors) if arguments else _NOTHING
        key = form, [_kind(tensor) for tensor in tensors]
        if key != self._key:
            self._key, self.last = key, self._plan((form, tuple(key[1])))
        plan = self.last
        if plan.due() or not self.allowed:
            return self._record(plan, form, tensors)
        assert plan.program is not None
        results = plan.program([tensor.data for tensor in tensors])
        if plan.form is _Place:
            return results[0]
        return None if plan.form is None else _filled(plan.form, iter(results))

    @property
    def graph(self) -> Graph | None:
        """The last recording; None before the first call."""
        return self.last.graph

    @property
    def replayed(self) -> Graph | None:
        """The graph that is replayed, with ``fuse`` in groups; None while it runs eagerly."""
        return self.last.program.graph if self.last.program is not None else None

    @property
    def replays(self) -> bool:
        """Whether the step is replayed, for the kind of arguments that was given last."""
        return self.last.program is not None

    def _plan(self, key: Any) -> Plan:
        found = self._plans.pop(key, None) or Plan(self.fuse)
        self._plans[key] = found  # the last used is the last
        if len(self._plans) > SIGNATURES:
            del self._plans[next(iter(self._plans))]
        return found

    def _record(self, plan: Plan, form: Any, tensors: list[Tensor]) -> Any:
        tape = Tape(tensors)
        with switched(watch=tape):
            result = self.function(*_filled(form, iter(tensors)))
        found: list[Tensor] = []
        returned = _form(result, found)
        plan.learn(Graph(tape, found), returned)
        return _filled(returned, iter([tensor.detach() for tensor in found]))


def capture(function: Callable[..., Any], fuse: bool = True) -> Captured:
    """``function`` as a step that is replayed once two runs in a row have done the same.

    Its arguments are Tensors (or arrays) and constants; it may compute gradients and call an
    optimiser's ``step``; it returns Tensors, also in tuples, lists and dicts. They come without a
    graph. To read a value in Python inside the step raises a GraphError.

    With ``fuse`` chains of element-wise ops run as one kernel, without memory for what lies
    between; results agree with the eager step's within rounding (1e-6 in float32). Without it,
    every byte is the eager step's.

    >>> step = dp.capture(lambda x: (x * 2 + 1).tanh())
    >>> [step(dp.zeros(2)).tolist() == [0.7615941762924194] * 2 for _ in range(3)]
    [True, True, True]
    >>> print(step.replayed.lines[0])
    v2 = fused(x0): v0 = mul(x0, 2); v1 = add(v0, 1); v2 = tanh(v1)
    """
    return Captured(function, fuse)


def _kind(tensor: Tensor) -> Any:
    """What programs are kept for: shape, dtype, place and layout of arrays."""
    array = tensor.data
    place = np.ndarray if type(array) is np.ndarray else (type(array), tensor.device)
    return place, array.shape, array.dtype, array.strides


class _Place:
    """Where a Tensor stood."""


_NOTHING = (tuple, ())


def _form(given: Any, found: list[Tensor]) -> Any:
    """``given`` with its Tensors and arrays moved to ``found``; hashable if the rest is."""
    if isinstance(given, Tensor):
        found.append(given)
        return _Place
    if isinstance(given, (list, tuple)):
        return type(given), tuple([_form(each, found) for each in given])
    if isinstance(given, dict):
        return dict, tuple([(key, _form(value, found)) for key, value in given.items()])
    if hasattr(given, "strides"):
        found.append(Tensor(given))
        return _Place
    return given


def _filled(form: Any, tensors: Iterator[Tensor]) -> Any:
    """The form with the next tensors in the places of Tensors."""
    if form is _Place:
        return next(tensors)
    if isinstance(form, tuple):
        kind, parts = form
        if kind is dict:
            return {key: _filled(part, tensors) for key, part in parts}
        return kind(_filled(part, tensors) for part in parts)
    return form
