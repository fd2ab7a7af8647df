"""The shape language: one line says what an op takes and gives.

``"n c h w, k d i j, k -> n k o p"`` names every axis by a letter, as einsum does; equal letters
are equal sizes, ``...`` is any number of axes that broadcast, a letter that appears only behind
the arrow is computed by the op. ``*`` before a term means any number of such arguments, whose
``...`` are their own. Before a term may stand what its dtype must be: ``i:`` integers (never
promoted), ``b:`` bool, ``f:`` floating point (integers are converted to the default dtype).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import numpy as np

from minidp.errors import AxisError, ShapeError
from minidp.types import Shape


@dataclass(frozen=True)
class Term:
    """One argument or result of a shape line."""

    axes: tuple[str, ...]
    kind: str = ""
    variadic: bool = False

    @property
    def broadcasts(self) -> bool:
        return "..." in self.axes


@dataclass(frozen=True)
class Line:
    """A parsed shape line."""

    text: str
    inputs: tuple[Term, ...]
    outputs: tuple[Term, ...]

    @cached_property
    def elementwise(self) -> bool:
        """Whether every argument is ``...``: NumPy's own broadcasting then checks the shapes."""
        return all(term.axes == ("...",) for term in self.inputs)


def parse(text: str) -> Line:
    """Read a shape line such as ``"f:n c, i:n -> n"``."""
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ShapeError(f"shape line {text!r} has no '->'")
    return Line(text, _terms(left), _terms(right))


def _terms(text: str) -> tuple[Term, ...]:
    return tuple(_term(part.strip()) for part in text.split(","))


def _term(text: str) -> Term:
    kind, colon, axes = text.rpartition(":")
    variadic = axes.startswith("*")
    return Term(tuple(axes.lstrip("*").split()), kind if colon else "", variadic)


def check(op: str, line: Line, shapes: Sequence[Shape | None]) -> dict[str, int]:
    """Bind the letters of ``line`` to ``shapes``, or raise a ShapeError that says what differs.

    ``None`` stands for an argument that was left out.
    """
    sizes: dict[str, int] = {}
    terms = _spread(line.inputs, len(shapes))
    for term, shape in zip(terms, shapes, strict=True):
        if shape is not None:
            _bind(op, line, shapes, term, shape, sizes)
    met = [(t, s) for t, s in zip(terms, shapes, strict=True) if s and not t.variadic]
    rest = [_unnamed(term, shape) for term, shape in met if term.broadcasts]
    if not broadcasts(rest):
        raise ShapeError(_message(op, line, shapes, f"the axes {rest} do not broadcast"))
    return sizes


def _spread(terms: tuple[Term, ...], count: int) -> list[Term]:
    """Repeat the variadic term so that there is one term per argument."""
    extra = count - len(terms)
    result: list[Term] = []
    for term in terms:
        result += [term] * (1 + extra if term.variadic else 1)
    return result


def _bind(
    op: str,
    line: Line,
    shapes: Sequence[Shape | None],
    term: Term,
    shape: Shape,
    sizes: dict[str, int],
) -> None:
    named = [axis for axis in term.axes if axis != "..."]
    if len(shape) < len(named) or (len(shape) > len(named) and not term.broadcasts):
        raise ShapeError(_message(op, line, shapes, f"{shape} has no axes {' '.join(term.axes)!r}"))
    where = term.axes.index("...") if term.broadcasts else len(named)
    pairs = list(zip(named[:where], shape, strict=False))
    tail = len(named) - where
    pairs += zip(named[where:], shape[len(shape) - tail :], strict=True)
    for axis, size in pairs:
        if sizes.setdefault(axis, size) != size:
            rule = f"axis {axis!r} is {sizes[axis]} in one argument and {size} in another"
            raise ShapeError(_message(op, line, shapes, rule))


def _unnamed(term: Term, shape: Shape) -> Shape:
    """The axes of ``shape`` that ``...`` stands for."""
    where = term.axes.index("...")
    return shape[where : len(shape) - (len(term.axes) - 1 - where)]


def broadcasts(shapes: Sequence[Shape]) -> bool:
    """Whether arrays of these shapes broadcast together."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _message(op: str, line: Line, shapes: Sequence[Shape | None], rule: str) -> str:
    given = ", ".join("none" if shape is None else str(shape) for shape in shapes)
    return f"{op}({given}): {rule}; expected {line.text}"


def broadcast_message(op: str, shapes: Sequence[Shape]) -> str:
    """Which axis keeps ``shapes`` from broadcasting together, counted from the right."""
    given = ", ".join(map(str, shapes))
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(sizes) > 1:
            return (
                f"{op}({given}): the shapes do not broadcast, axis {-axis} has sizes "
                f"{sorted(sizes)}; each must be equal or 1"
            )
    return f"{op}({given}): the shapes do not broadcast"


def axis_of(op: str, dim: int, ndim: int) -> int:
    """``dim`` counted from the front; an AxisError when ``ndim`` axes do not have it."""
    count = max(ndim, 1)
    place = whole(dim)
    if place is None or not -count <= place < count:
        raise AxisError(
            f"{op}: dim {dim!r} is not an axis of an array with {ndim} axes; "
            f"expected an integer from {-count} to {count - 1}"
        )
    return place % count


def whole(value: Any) -> int | None:
    """An integer, NumPy's or that of a tensor too, as Python's; None for anything else."""
    try:
        return int(index(value))
    except (TypeError, ValueError):
        return None


def axes_of(op: str, dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Every axis that ``dim`` means (None or an empty tuple: all), sorted, each once."""
    dims = () if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) == 0:
        return tuple(range(ndim))
    axes = sorted(axis_of(op, each, ndim) for each in dims)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op}: dim {dim} names an axis twice")
    return tuple(axes) if ndim else ()


def sizes(value: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """One size for each of ``count`` axes, from one number for all or from that many."""
    if type(value) is int:
        return (value,) * count
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    values = values * count if len(values) == 1 else values
    found = [whole(each) for each in values]
    if len(values) != count or None in found:
        number = {1: "", 2: " or two", 3: " or three"}.get(count, f" or {count}")
        raise ShapeError(f"{what} must be one integer{number}, not {value!r}")
    return tuple(each for each in found if each is not None)


def resolve(shape: Sequence[int], size: int, op: str = "reshape") -> Shape:
    """``shape`` with its one -1 replaced, so that it holds ``size`` elements."""
    known, holes = math.prod(shape), shape.count(-1)
    if known == size and not holes and min(shape, default=0) >= 0:
        return tuple(shape)
    if holes != 1 or known >= 0 or size % known or min(shape) < -1:
        raise ShapeError(f"{op}: {size} elements do not fill the shape {tuple(shape)}")
    return tuple([-size // known if each == -1 else each for each in shape])
