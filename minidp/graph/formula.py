"""Formulas of groups of element-wise lines: how one is read off, and what computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from minidp.backend import CPU, Backend
from minidp.graph.line import Line, Value
from minidp.graph.symbolic import BOOL, NoFormulaError, Sheet, Symbol
from minidp.types import Array, DType, Shape


@dataclass(eq=False)
class Formula:
    """What a group computes; ``kernels/cpu/machine.py`` says what the parts mean."""

    size: int
    dtype: DType
    order: tuple[int, ...]
    kinds: tuple[str, ...]
    layouts: tuple[Any, ...]
    steps: tuple[tuple[Any, ...], ...]
    outputs: tuple[tuple[int, DType, Shape], ...]
    compiled: Any = None


class Fused:
    """Stands for an op in a line that is a group: what computes it."""

    name, own, writes = "fused", True, ()

    def __init__(self, formula: Formula, backend: Backend) -> None:
        self.formula, self.backend = formula, backend
        self.defaults: dict[str, Any] = {}
        self.kernel = backend.kernel(self.name)
        self.plain = backend is CPU

    def __call__(self, *arrays: Array) -> Any:
        """The device's kernel, or the array module's functions step by step."""
        formula = self.formula
        if self.plain and formula.compiled:
            return formula.compiled(*arrays)
        made = NotImplemented if self.kernel is None else self.kernel(*arrays, formula=formula)
        if made is not NotImplemented:
            return made
        with self.backend.activate(self.backend.index_of(list(arrays))):
            return evaluate(formula, arrays, self.backend.xp)

    def compute(self, arrays: Sequence[Array], constants: dict[str, Any]) -> Any:
        """As ``Op.compute``."""
        return self(*arrays)


def written(sheet: Sheet, line: Line, symbol: Callable[[Value], Symbol]) -> Symbol:
    """The result of a line's body on Symbols, written down on a sheet."""
    assert line.op is not None
    given = [symbol(v) if isinstance(v, Value) else v for v in line.inputs]
    result = line.op.body(sheet.xp, *given, **line.constants)
    if not isinstance(result, Symbol):
        raise NoFormulaError(f"{line.op.name} gives no array")
    return result


def pruned(
    steps: list[tuple[Any, ...]], sources: list[Any]
) -> tuple[list[tuple[Any, ...]], list[int], list[int]]:
    """The steps that ``sources`` need, numbered anew, the sources, and the inputs that are left."""
    needed = set(sources)
    for number in reversed(range(len(steps))):
        if number in needed and steps[number][0] != "input":
            needed |= {s for s in steps[number][1:] if type(s) is int}
    kept = [number for number in range(len(steps)) if number in needed]
    new = {old: i for i, old in enumerate(kept)}
    places: list[int] = []
    result: list[tuple[Any, ...]] = []
    for leaf, *rest in (steps[number] for number in kept):
        if leaf == "input":
            places.append(rest[0])
            result.append((leaf, len(places) - 1))
        else:
            result.append((leaf, *[new[s] if type(s) is int else s for s in rest]))
    return result, [new[s] for s in sources], places


def misfit(value: Value, size: int) -> bool:
    """Whether a value fits in no way into a group of ``size`` elements."""
    count = prod(value.shape)
    return count not in (1, size) or (count != size and value.dtype.kind == "b")


def kind_of(value: Value, size: int) -> str:
    """How a group reads a value: whole, as one number, or as a mask."""
    if value.dtype == BOOL:
        return "mask"
    return "whole" if prod(value.shape) == size else "number"


def strides_of(shape: Sequence[int], axes: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of an array without gaps whose axes lie in this order (none: C order)."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(axes or range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def layout(value: Value) -> Any:
    """() for C order, else shape and order of the axes; "gaps"; None if it does not matter."""
    if prod(value.shape) <= 1:
        return None
    axes = [i for i, n in enumerate(value.shape) if n > 1]
    ordered = sorted(axes, key=lambda i: (-value.strides[i], i))
    dense = strides_of([value.shape[i] for i in ordered], (), value.dtype.itemsize)
    if tuple(value.strides[i] for i in ordered) != dense:
        return "gaps"
    alone = [i for i, n in enumerate(value.shape) if n == 1]
    return () if axes == ordered else (value.shape, (*alone, *ordered))


# Without a kernel


def evaluate(formula: Formula, arrays: Sequence[Array], xp: Any) -> Any:
    """The outputs of a formula by the array module's own functions."""
    values: list[Any] = []
    for leaf, *sources in formula.steps:
        if leaf == "input":
            values.append(_flat(arrays[sources[0]], formula.order))
            continue
        given = [values[s] if type(s) is int else formula.dtype.type(s) for s in sources]
        if leaf == "convert":
            values.append(given[0].astype(formula.dtype))
        else:
            values.append(getattr(xp, leaf)(*given))
    made = [_whole(xp, values[s], dtype, shape, formula) for s, dtype, shape in formula.outputs]
    return tuple(made) if len(made) != 1 else made[0]


def _flat(array: Array, order: tuple[int, ...]) -> Array:
    return (array.transpose(order) if order and array.size > 1 else array).reshape(-1)


def _whole(xp: Any, value: Array, dtype: DType, shape: Shape, formula: Formula) -> Array:
    made, order = xp.empty(formula.size, dtype), formula.order
    made[...] = value
    if not order:
        return made.reshape(shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    return made.reshape([shape[axis] for axis in order]).transpose(back)
