"""Gradients: ``backward()``, ``grad()``, and whether anything is recorded at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any

import numpy as np

from minidp.anomaly import detect_anomaly as detect_anomaly
from minidp.anomaly import set_detect_anomaly as set_detect_anomaly
from minidp.backward import Cotangents, run
from minidp.custom import Function as Function
from minidp.errors import GraphError, ShapeError
from minidp.mode import mode, switched
from minidp.node import RETAIN
from minidp.op import OPS
from minidp.record import apply
from minidp.tensor import Tensor, method, wrap


def backward(
    tensors: Tensor | Sequence[Tensor], grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:  # fmt: skip
    """``Tensor.backward`` of one tensor or of several, each with its cotangent in ``grad_tensors``;
    the gradients add up."""
    ends = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    part = 1.0 if mode.replica is None else mode.replica.seed()
    seeds = _seeds("backward", ends, grad_tensors, lambda end: part)
    if inputs is None:
        run(ends, seeds, None, retain_graph, create_graph)
        return
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if not inputs:
        raise GraphError("backward: inputs=[]: expected at least one tensor, or None for all")
    for leaf, g in zip(inputs, grad(ends, inputs, seeds, retain_graph, create_graph,
                                    allow_unused=True), strict=True):  # fmt: skip
        if g is not None:
            leaf.grad = g if leaf.grad is None else leaf.grad + g


@method("backward")
def _backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:  # fmt: skip
    """Add d self / d leaf to the ``.grad`` of every leaf (or of ``inputs`` only).

    ``gradient`` is the cotangent of ``self``; it may be left out for one element. In a replica it
    is then this replica's share of the rows, so that the sum over replicas is the mean over all.
    """
    backward(self, gradient, retain_graph, create_graph, inputs)


def _seeds(
    name: str, ends: list[Tensor], given: Any, value: Callable[[Tensor], float]
) -> list[Tensor]:
    """A cotangent for each of ``ends``; ``value`` is that of one that is not given."""
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    several = [None] * len(ends) if given is None else several
    if len(several) != len(ends):
        raise GraphError(f"{name}: {len(several)} cotangents for {len(ends)} tensors")
    return [_seed(end, g, value(end)) for end, g in zip(ends, several, strict=True)]


def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Any = None,
    retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True,
    allow_unused: bool | None = None, *, materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of ``outputs`` with respect to ``inputs``, without touching ``.grad``. Inputs
    that no output depends on are refused, or get None (``allow_unused``) or zeros
    (``materialize_grads``).

    Nothing else gets a gradient, and a replica exchanges none. In a replica a mean over the rows of
    all replicas is differentiated as such, any other output as what this replica computed alone.

    >>> x = dp.tensor(3.0, requires_grad=True)
    >>> dp.grad(x ** 2, x)
    (tensor(6.),)
    """
    ends = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    starts = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    seeds = _seeds("grad", ends, grad_outputs, _part)
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: allow_unused=False goes against materialize_grads=True")
    if any(start.node is None for start in starts):
        raise GraphError("grad: one of the inputs does not require a gradient")
    wanted: Cotangents = {start.node: None for start in starts if start.node is not None}
    run(ends, seeds, wanted, retain_graph, create_graph)
    results = [wanted[start.node] for start in starts if start.node is not None]
    if materialize_grads:
        pairs = zip(results, starts, strict=True)
        results = [OPS["full_like"](x.detach(), value=0.0) if g is None else g for g, x in pairs]
    if not allow_unused and any(g is None for g in results):
        place = [g is None for g in results].index(True)
        raise GraphError(
            f"grad: input {place} was not used in the graph of the outputs; "
            "set allow_unused=True to get None for it"
        )
    return tuple(g if g is None or isinstance(g, Tensor) else Tensor(g) for g in results)


Tensor.grad_fn = property(  # type: ignore[attr-defined]
    lambda self: None if self.is_leaf else self.fresh().node, doc="The node that computed it.")
Tensor.retains_grad = property(  # type: ignore[attr-defined]
    lambda self: not self.is_leaf and RETAIN in (self.node.hooks or {}),
    doc="Whether ``retain_grad()`` was called on this computed tensor.")  # fmt: skip


def no_grad(function: Callable[..., Any] | None = None) -> Any:
    """Do not record, in this thread, for the length of a ``with`` block; or of ``function``.

    >>> x = dp.ones(2, requires_grad=True)
    >>> with dp.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    return Recorded(False) if function is None else Recorded(False)(function)


def inference_mode(mode: bool | Callable[..., Any] = True) -> Any:
    """``no_grad`` under its stricter name: what is made in it may be used like any other tensor."""
    return no_grad(mode) if callable(mode) else Recorded(not mode)


def enable_grad(function: Callable[..., Any] | None = None) -> Any:
    """Record again inside ``no_grad()``."""
    return Recorded(True) if function is None else Recorded(True)(function)


class Recorded:
    """Record or not, in this thread, for the length of a ``with`` block, of a function, or of each
    step of a generator."""

    def __init__(self, grad: bool) -> None:
        self._grad, self._before = bool(grad), list[bool]()

    def __enter__(self) -> None:
        self._before.append(mode.grad)
        mode.grad = self._grad

    def __exit__(self, *error: object) -> None:
        mode.grad = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            with switched(grad=self._grad):
                return function(*args, **named)

        @wraps(function)
        def steps(*args: Any, **named: Any) -> Any:
            generator = function(*args, **named)
            go, given = generator.send, None
            while True:
                with switched(grad=self._grad):
                    try:
                        found = go(given)
                    except StopIteration as end:
                        return end.value
                try:
                    go, given = generator.send, (yield found)
                except BaseException as error:  # also the end of a loop that leaves it early
                    go, given = generator.throw, error

        return steps if isgeneratorfunction(function) else call


class set_grad_enabled(Recorded):
    """Record or not, in this thread, from now on; as a ``with`` block or decorator, only there."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        super().__enter__()
        self._is_entered = True

    def __enter__(self) -> None:
        if not self._is_entered:
            super().__enter__()
        self._is_entered = False

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        with self:
            pass
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether this thread records what is computed."""
    return mode.grad


def _part(output: Tensor) -> float:
    """This replica's part of the cotangents that all replicas give ``output``: its share of the
    rows if that is a mean over all of them, or computed from such by numbers alone."""
    replica = mode.replica
    return replica.fraction if replica is not None and _is_of_all(output) else 1.0


def _is_of_all(output: Tensor) -> bool:
    """Whether numbers that were added over replicas lead to a number, by way of numbers."""
    seen, stack = dict[Any, None](), [output.fresh().node]
    while stack:
        node = stack.pop()
        if node is not None and node.op in (OPS["all_reduce"], OPS["completed"]):
            return True
        if node is not None and node.shape == () and node not in seen:
            seen[node] = None
            stack += node.parents
    return False


def _seed(output: Tensor, gradient: Any, value: float) -> Tensor:
    if gradient is not None:
        seed = gradient if isinstance(gradient, Tensor) else Tensor(gradient)
        if seed.shape != output.shape:
            raise ShapeError(f"backward: gradient of shape {seed.shape} for output {output.shape}")
        return seed
    if output.array.size != 1:
        raise ShapeError(
            f"backward: the tensor has shape {output.shape}; give its gradient, "
            "or reduce it to one element first"
        )
    if mode.watch is None and type(output.array) is np.ndarray:  # a third of the time
        return wrap(np.full_like(output.array, value))
    result: Tensor = apply(OPS["full_like"], (output.detach(),), {"value": value})
    return result


def Variable(data: Any, requires_grad: bool = False) -> Tensor:
    """``data`` outside the graph, in the same memory: what tensors with gradients once were."""
    return Tensor(data, requires_grad)
