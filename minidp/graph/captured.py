"""``capture(function)``: run a step a few times, then replay what it did.

A step is recorded while it runs eagerly. Once two recordings in a row agree, op for op and
constant for constant, it is replayed without running its Python. Now and then it is recorded again,
to notice Python that has changed its mind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minidp.graph.form import NOTHING, Named, Place, check_constants, detached, filled, form_of
from minidp.graph.graph import Graph
from minidp.graph.program import Program
from minidp.graph.tape import Tape
from minidp.mode import mode, switched
from minidp.tensor import Tensor

SIGNATURES = 8
"""How many kinds of arguments a captured step keeps programs for."""
STATES = 4
"""And for how many states that its modules and leaves are in: training or not, frozen or not, with
a gradient or without."""


class Known:
    """The last recording of a step in one state, and the program if two agreed."""

    def __init__(self, graph: Graph, form: Any) -> None:
        self.graph, self.form = graph, form
        self.program: Program | None = None
        self.reason = "it has run only once"

    def learn(self, graph: Graph, form: Any, fuse: bool) -> None:
        """Compare a new recording with the one before."""
        reason = self.graph.difference(graph)
        if reason is None and form != self.form:
            reason = f"it returned {self.form} in one run, {form} in the next"
        self.graph, self.form = graph, form
        if reason is not None:
            self.program, self.reason = None, reason
        elif self.program is None or not self.program.valid():
            self.program = Program(graph.fused() if fuse else graph)


class Checks:
    """Which calls are recorded again although they could be replayed: 16, 32, 64 and so on."""

    def __init__(self) -> None:
        self.calls, self._next = 0, 16

    def count(self, calls: int = 1) -> bool:
        """Count calls; whether the last one is to be recorded again."""
        self.calls += calls
        if self.calls < self._next:
            return False
        self._next *= 2
        return True

    @property
    def left(self) -> int:
        """How many calls are to come before the next of these."""
        return self._next - 1 - self.calls


class Recordings:
    """What is known of a step for one kind of arguments."""

    def __init__(self, fuse: bool) -> None:
        self.fuse, self.checks = fuse, Checks()
        self.states: dict[Any, Known] = {}
        self.last: Known | None = None

    @property
    def program(self) -> Program | None:
        """What is replayed, in the state that was met last; None while it runs eagerly."""
        return None if self.last is None else self.last.program

    @property
    def reason(self) -> str:
        """Why it is not replayed yet."""
        return "it has not run" if self.last is None else self.last.reason

    @property
    def holds(self) -> bool:
        """Whether what was replayed last can be replayed as things are now."""
        program = self.program
        return program is not None and (program.rests or program.valid())

    def known(self) -> Known | None:
        """What can be replayed now: nothing at first, and when parameters have moved."""
        if self.holds:
            return self.last
        for known in list(self.states.values()):
            if known is not self.last and known.program is not None and known.program.valid():
                self.rest()
                self.last = known
                return known
        return None

    def ready(self) -> Known | None:
        """What is replayed now; nothing in the calls that are recorded again."""
        due = self.checks.count()
        return None if due and self.program is not None else self.known()

    def rest(self) -> None:
        """What is replayed will not be for a while."""
        if self.program is not None:
            self.program.let_go()

    def learn(self, graph: Graph, form: Any) -> None:
        """Compare a new recording with the last one in the same state."""
        known = self.states.pop(graph.state, None)
        if known is None:
            known = Known(graph, form)
        else:
            known.learn(graph, form, self.fuse)
        self.states[graph.state] = self.last = known  # the last used is the last
        if len(self.states) > STATES:
            del self.states[next(iter(self.states))]


class Captured:
    """A step that is replayed once it is known; see ``capture``."""

    def __init__(self, function: Callable[..., Any], fuse: bool = False) -> None:
        self.function, self.fuse = function, fuse
        self._recordings: dict[Any, Recordings] = {}
        self._latest: tuple[Any, Recordings] = None, Recordings(fuse)
        self.last = self._latest[1]
        """What is known for the kind of arguments that was given last."""
        self.allowed: bool | None = None
        """Whether it may be replayed, where somebody else says so: a scheduler, of all replicas."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if mode.watch is not None:  # inside of another captured step, which records it
            return detached(self.function(*arguments, **named))
        tensors: list[Tensor] = []
        form = form_of(arguments, tensors) if arguments else NOTHING
        if named:
            form = Named, form, form_of(named, tensors)
        same = _same(tensors) if len(tensors) > 1 else ()
        key = form, [_kind(tensor) for tensor in tensors], same, mode.grad, mode.default_dtype
        latest, recordings = self._latest  # read once: another thread may call with another kind
        if key != latest:
            recordings.rest()
            recordings = self._recordings_of((form, tuple(key[1]), *key[2:]))
            self._latest = key, recordings
        self.last = recordings
        allowed = self.allowed
        known = recordings.ready() if allowed is None else recordings.known() if allowed else None
        if known is None or known.program is None:
            return self._record(recordings, form, tensors)
        results = known.program([tensor.array for tensor in tensors])
        if known.form is Place:
            return results[0]
        return None if known.form is None else filled(known.form, iter(results))

    def __repr__(self) -> str:
        what = getattr(self.function, "__qualname__", type(self.function).__name__)
        if self.replayed is None:
            return f"Captured({what}: runs eagerly, because {self.last.reason})"
        return f"Captured({what}: replays {len(self.replayed.lines)} line(s))"

    @property
    def graph(self) -> Graph | None:
        """The last recording; None before the first call."""
        return None if self.last.last is None else self.last.last.graph

    @property
    def replayed(self) -> Graph | None:
        """The graph that is replayed, with ``fuse`` in groups; None while it runs eagerly."""
        return self.last.program.graph if self.last.program is not None else None

    @property
    def replays(self) -> bool:
        """Whether the step is replayed, for the kind of arguments that was given last."""
        return self.last.program is not None

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or one that was pickled, knows the function only, and records anew."""
        return {"function": self.function, "fuse": self.fuse}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Captured.__init__(self, **state)

    def _recordings_of(self, key: Any) -> Recordings:
        found = self._recordings.pop(_hashable(key), None) or Recordings(self.fuse)
        self._recordings[key] = found  # the last used is the last
        while len(self._recordings) > SIGNATURES:
            self._recordings.pop(next(iter(self._recordings)), None)
        return found

    def _record(self, recordings: Recordings, form: Any, tensors: list[Tensor]) -> Any:
        views: dict[int, Tensor] = {}
        given = [views.setdefault(id(x.array), _stand_in(x)) for x in tensors]
        apart = [y.node for x, y in zip(tensors, given, strict=True) if x.node is not y.node]
        tape, places = Tape(given, apart), iter(given)
        arguments, named = form, (dict, ())
        if form[0] is Named:
            _, arguments, named = form
        with switched(watch=tape):
            result = self.function(*filled(arguments, places), **filled(named, places))
        found: list[Tensor] = []
        returned = form_of(result, found)
        check_constants(returned)
        recordings.learn(Graph(tape, found), returned)
        return filled(returned, iter([tensor.detach() for tensor in found]))


def kind_of(*arguments: Any) -> Any:
    """What tells arguments of one kind from those of another, as a captured step does."""
    tensors: list[Tensor] = []
    return _hashable((form_of(arguments, tensors), tuple(map(_kind, tensors))))


def _hashable(key: Any) -> Any:
    """The key; a TypeError that says what the arguments of a step may be."""
    try:
        hash(key)
    except TypeError as error:
        raise TypeError(
            f"{error}: the arguments of a captured step are Tensors, arrays and constants that "
            "can be hashed, also in tuples, lists and dicts"
        ) from error
    return key


def capture(function: Callable[..., Any], fuse: bool = True) -> Captured:
    """``function`` as a step that is replayed once two runs in a row have done the same.

    Its arguments are Tensors (or arrays) and constants; it may compute gradients and call an
    optimiser's ``step``; it returns Tensors and numbers, also in tuples, lists and dicts. Tensors
    come without a graph. To read a value in Python inside the step raises a GraphError.

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
    array = tensor.array
    node: Any = tensor.node
    if node is not None and node.op is not None:
        node = Tensor  # any that was computed outside
    place = np.ndarray if type(array) is np.ndarray else (type(array), tensor.device)
    return place, array.shape, array.dtype, array.strides, node


def _stand_in(x: Tensor) -> Tensor:
    """What a recording is given for an argument: a view, which is told from the same array met
    outside; a leaf as it is; and a leaf for what was computed."""
    if type(x) is not Tensor or (x.is_leaf and x.node is not None):
        return x
    result = Tensor(x.array[...])
    result.version = x.version
    return result if x.node is None else result.requires_grad_()


def _same(tensors: list[Tensor]) -> Any:
    """Which arguments are one and the same array."""
    known = [id(tensor.array) for tensor in tensors]
    return () if len(set(known)) == len(known) else tuple(map(known.index, known))
