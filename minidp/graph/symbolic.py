"""Formulas read off the bodies of ops: a body is run on Symbols, which write down what it asks for.

A body that asks for more than functions of single elements, such as a shape, is none.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from minidp.types import DType, exactly

Source = int | float
"""Where a number comes from: the step of that number, or itself."""
BOOL = np.dtype(bool)
TO_BOOL = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan",
           "isfinite", "signbit")  # fmt: skip
OF_BOOL = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")
FUNCTIONS = (
    *("add", "subtract", "multiply", "true_divide", "negative", "abs", "maximum", "minimum"),
    *("floor", "ceil", "trunc", "rint", "sqrt", "copysign", "fmod", "remainder", "floor_divide"),
    *("exp", "expm1", "log", "log1p", "log2", "log10", "logaddexp", "power", "hypot", "arctan2"),
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
)  # fmt: skip


class NoFormulaError(Exception):
    """The body asks for something that is no function of single elements."""


class Sheet:
    """Steps written down so far, each once; numbers are of ``dtype``."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.steps: list[tuple[Any, ...]] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self.xp = names(self)

    def step(self, leaf: str, *sources: Any) -> int:
        """The number of a step, which is a new one unless it was written down before."""
        key = (leaf, *map(exactly, sources))
        if key not in self._known:
            self._known[key] = len(self.steps)
            self.steps.append((leaf, *sources))
        return self._known[key]

    def apply(self, leaf: str, *given: Any) -> Symbol:
        """A leaf function of Symbols and numbers; what is known already is computed."""
        symbols = [each if isinstance(each, Symbol) else self.literal(each) for each in given]
        dtype = BOOL if leaf in TO_BOOL or leaf in OF_BOOL else self.dtype
        values = symbols[1:] if leaf == "where" else symbols
        wanted = BOOL if leaf in OF_BOOL or leaf == "convert" else self.dtype
        if any(s.dtype != wanted for s in values) or (leaf == "where" and symbols[0].dtype != BOOL):
            raise NoFormulaError(f"{leaf} of {', '.join(str(s.dtype) for s in symbols)}")
        sources = [s.source for s in symbols]
        if all(type(s) is float for s in sources):
            return Symbol(self, self._computed(leaf, symbols), dtype)
        return Symbol(self, self.step(leaf, *sources), dtype)

    def _computed(self, leaf: str, symbols: list[Symbol]) -> float:
        if leaf == "convert":
            return symbols[0].source
        with np.errstate(all="ignore"):
            arrays = [np.full(1, s.source).astype(s.dtype) for s in symbols]
            return float(getattr(np, leaf)(*arrays)[0])

    def literal(self, value: Any) -> Symbol:
        """A Python number in the sheet's dtype."""
        if type(value) is bool:
            return Symbol(self, float(value), BOOL)
        if type(value) not in (int, float):
            raise NoFormulaError(f"a {type(value).__name__}")
        with np.errstate(all="ignore"):
            return Symbol(self, float(self.dtype.type(value)), self.dtype)


class Symbol:
    """A number of a formula, as bodies see it: an array without a shape."""

    def __init__(self, sheet: Sheet, source: Source, dtype: DType) -> None:
        self.sheet, self.source, self.dtype = sheet, source, dtype

    def astype(self, dtype: Any, copy: bool = True) -> Symbol:
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        if wanted == self.sheet.dtype:
            return self.sheet.apply("convert", self)
        if wanted == BOOL:
            return self.sheet.apply("not_equal", self, 0.0)
        raise NoFormulaError(f"{self.dtype} as {wanted}")

    def copy(self) -> Symbol:
        return self

    def reshape(self, shape: Any) -> Symbol:
        return self  # whatever its shape, it is one element

    def __bool__(self) -> bool:
        raise NoFormulaError("a value decides")

    def __pow__(self, power: Any) -> Symbol:
        """As NumPy's operator, which knows some powers better."""
        if type(power) in (int, float):
            if power == 2:
                return self.sheet.apply("multiply", self, self)
            if power == 1:
                return self
            if power == 0.5:
                return self.sheet.apply("sqrt", self)
            if power == -1:
                return self.sheet.apply("true_divide", 1.0, self)
        return self.sheet.apply("power", self, power)

    def __rpow__(self, base: Any) -> Symbol:
        return self.sheet.apply("power", base, self)

    def __neg__(self) -> Symbol:
        return self.sheet.apply("negative", self)

    def __abs__(self) -> Symbol:
        return self.sheet.apply("abs", self)

    def __invert__(self) -> Symbol:
        return self.sheet.apply("invert", self)


def _operator(leaf: str, swapped: bool = False) -> Callable[[Symbol, Any], Symbol]:
    def apply(self: Symbol, other: Any) -> Symbol:
        pair = (other, self) if swapped else (self, other)
        return self.sheet.apply(leaf, *pair)

    return apply


for _name, _leaf in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}.items():  # fmt: skip
    setattr(Symbol, f"__{_name}__", _operator(_leaf))
    setattr(Symbol, f"__r{_name}__", _operator(_leaf, swapped=True))
for _name, _leaf in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}.items():  # fmt: skip
    setattr(Symbol, f"__{_name}__", _operator(_leaf))


def names(sheet: Sheet) -> SimpleNamespace:
    """What a body finds in its ``xp``."""

    def function(leaf: str) -> Callable[..., Symbol]:
        return lambda *given: sheet.apply(leaf, *given)

    def full(shape: Any, value: Any, dtype: Any) -> Symbol:
        if shape != () or np.dtype(dtype) not in (sheet.dtype, BOOL):
            raise NoFormulaError(f"an array {dtype}{shape}")
        return sheet.literal(bool(value) if np.dtype(dtype) == BOOL else value)

    def array(x: Any, dtype: Any = None, order: str = "C", copy: bool = True) -> Symbol:
        if isinstance(x, Symbol):
            return x if dtype is None else x.astype(dtype)
        return full((), x, sheet.dtype if dtype is None and type(x) is not bool else dtype or bool)

    leaves = (*FUNCTIONS, *TO_BOOL, *OF_BOOL, "where")
    return SimpleNamespace(
        **{leaf: function(leaf) for leaf in leaves},
        **{kind: np.dtype(kind) for kind in ("float16", "float32", "float64")},
        inf=float("inf"), nan=float("nan"), pi=float(np.pi),
        array=array, asarray=array, full=full,
        zeros=lambda shape, dtype: full(shape, 0.0, dtype),
        ones=lambda shape, dtype: full(shape, 1.0, dtype),
        full_like=lambda x, value: full((), value, x.dtype),
        zeros_like=lambda x: full((), 0.0, x.dtype), ones_like=lambda x: full((), 1.0, x.dtype),
        broadcast_to=lambda x, shape: x,
    )  # fmt: skip
