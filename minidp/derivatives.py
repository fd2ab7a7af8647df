"""Derivatives of functions of Tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minidp.autograd import enable_grad, grad
from minidp.create import ones_like, zeros, zeros_like
from minidp.errors import GraphError, ShapeError
from minidp.functions.join import stack
from minidp.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]
Several = Tensor | Sequence[Tensor]


def vjp(
    func: Function, inputs: Several, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """(``func(*inputs)``, v^T J): the gradient of v . func with respect to each input.

    ``v`` may be left out for one output of one element. ``strict``: an output that does not depend
    on an input is an error, not a zero.
    """
    with enable_grad():
        starts, ends, shape = _call("vjp", func, inputs, create_graph, strict)
        pulled = _pull("vjp", ends, starts, _given("vjp", v, ends), create_graph, strict)
        return shape(ends, create_graph), _like(inputs, pulled, create_graph)


def jvp(
    func: Function, inputs: Several, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """(``func(*inputs)``, J v): how the outputs change along v, by two backward passes: u^T J is
    linear in u, and its derivative with respect to u, along v, is J v."""
    with enable_grad():
        starts, ends, shape = _call("jvp", func, inputs, create_graph, strict)
        along = _given("jvp", v, starts)
        cotangents = [zeros_like(y).requires_grad_() for y in ends]
        pulled = _pull("jvp", ends, starts, cotangents, True, strict)
        pushed = _pull("jvp", pulled, cotangents, along, create_graph, False)
        return shape(ends, create_graph), shape(pushed, create_graph)


def jacobian(
    func: Function, inputs: Several, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """d output / d input, of shape (\\*output.shape, \\*input.shape); a tuple of them for several
    inputs, and of those for several outputs. One backward pass for each element of the outputs;
    ``vectorize`` and ``strategy`` are taken and mean nothing.

    >>> dp.jacobian(lambda x: x ** 2, dp.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    with enable_grad():
        starts, ends, shape = _call("jacobian", func, inputs, create_graph, strict)
        blocks = [_rows(y, starts, create_graph, strict) for y in ends]
        return shape([_like(inputs, block, create_graph) for block in blocks], True)


def _rows(y: Tensor, starts: list[Tensor], create_graph: bool, strict: bool) -> list[Tensor]:
    """The derivatives of one output, row by row."""
    rows = []
    for i in range(y.numel()):
        unit = zeros(y.numel(), dtype=y.dtype, device=y.device)
        unit.array[i] = 1
        rows.append(_pull("jacobian", [y], starts, [unit.reshape(y.shape)], create_graph, strict))
    columns = zip(*rows, strict=True) if rows else [()] * len(starts)
    return [
        stack(column).reshape(*y.shape, *x.shape) if column
        else zeros(*y.shape, *x.shape, dtype=x.dtype, device=x.device)
        for x, column in zip(starts, columns, strict=True)
    ]  # fmt: skip


def hessian(
    func: Function, inputs: Several, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a function that gives one number: for inputs x and z a block of
    shape (\\*x.shape, \\*z.shape); a tuple of tuples for several inputs."""

    def gradient(*values: Tensor) -> Any:
        y = _scalar("hessian", func(*values))
        found = _pull("hessian", [y], list(values), [ones_like(y)], True, strict)
        return _like(inputs, found, True)

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(
    func: Function, inputs: Several, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """(``func(*inputs)``, v^T H) for a function that gives one number; H is its Hessian."""
    with enable_grad():
        starts, ends, shape = _call("vhp", func, inputs, create_graph, strict)
        y = _scalar("vhp", ends[0] if len(ends) == 1 else ends)
        slopes = _pull("vhp", [y], starts, [ones_like(y)], True, strict)
        pulled = _pull("vhp", slopes, starts, _given("vhp", v, starts), create_graph, strict)
        return shape(ends, create_graph), _like(inputs, pulled, create_graph)


hvp = vhp
"""(``func(*inputs)``, H v): the Hessian is symmetric."""


def _call(
    name: str, func: Function, inputs: Several, create_graph: bool, strict: bool
) -> tuple[list[Tensor], list[Tensor], Callable[[Any, bool], Any]]:
    """Inputs that begin a graph, the outputs, and a function that shapes results like these."""
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if not all(isinstance(x, Tensor) for x in given):
        raise TypeError(f"{name}: the inputs must be a Tensor or a tuple of Tensors")
    starts = [
        x.clone() if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in given
    ]
    result = func(*starts)
    ends = list(result) if isinstance(result, (tuple, list)) else [result]
    if not all(isinstance(y, Tensor) for y in ends):
        raise TypeError(f"{name}: the function must give a Tensor or a tuple of Tensors")

    def shaped(values: Sequence[Any], recorded: bool) -> Any:
        values = list(values) if recorded else [value.detach() for value in values]
        return values[0] if isinstance(result, Tensor) else tuple(values)

    return starts, ends, shaped


def _like(inputs: Several, values: list[Tensor], recorded: bool) -> Any:
    values = values if recorded else [value.detach() for value in values]
    return values[0] if isinstance(inputs, Tensor) else tuple(values)


def _given(name: str, v: Any, like: Sequence[Tensor]) -> list[Tensor]:
    """The vector ``v``, one Tensor for each of ``like``; 1 for a single number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ShapeError(f"{name}: the vector v can only be left out for a single element")
        return [ones_like(like[0])]
    values = [v] if isinstance(v, Tensor) else list(v)
    shapes = [x.shape for x in values], [x.shape for x in like]
    if shapes[0] != shapes[1]:
        raise ShapeError(f"{name}: v has shapes {shapes[0]}, expected {shapes[1]}")
    return values


def _scalar(name: str, y: Any) -> Tensor:
    if not isinstance(y, Tensor) or y.numel() != 1:
        raise ShapeError(f"{name}: the function must give one Tensor with a single element")
    return y


def _pull(
    name: str, ends: Sequence[Tensor], starts: Sequence[Tensor], cotangents: Sequence[Tensor],
    create_graph: bool, strict: bool,
) -> list[Tensor]:  # fmt: skip
    """The cotangents of ``starts``; zeros, or with ``strict`` an error, where nothing flows."""
    pairs = [(y, u) for y, u in zip(ends, cotangents, strict=True) if y.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(starts)
    if pairs:
        found = grad([y for y, _ in pairs], starts, [u for _, u in pairs], True, create_graph,
                     allow_unused=True)  # fmt: skip
    if strict and (len(pairs) < len(ends) or any(g is None for g in found)):
        raise GraphError(f"{name}: an output does not depend on an input (strict=True)")
    return [zeros_like(x) if g is None else g for x, g in zip(starts, found, strict=True)]
