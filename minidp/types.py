"""Names for the values that travel through the engine: arrays, shapes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.errors import DTypeError

Array = Any
"""A NumPy array, a CuPy array or an emulated array; which one, only its backend knows."""

Shape = tuple[int, ...]

DType = np.dtype[Any]

float16: DType = np.dtype("float16")
float32: DType = np.dtype("float32")
float64: DType = np.dtype("float64")
uint8: DType = np.dtype("uint8")
int8: DType = np.dtype("int8")
int16: DType = np.dtype("int16")
int32: DType = np.dtype("int32")
int64: DType = np.dtype("int64")
bool_: DType = np.dtype("bool")

BY_NAME: dict[str, DType] = {
    "float16": float16, "half": float16, "float32": float32, "float": float32,
    "float64": float64, "double": float64, "uint8": uint8, "int8": int8, "int16": int16,
    "short": int16, "int32": int32, "int": int32, "int64": int64, "long": int64, "bool": bool_,
}  # fmt: skip


def as_dtype(dtype: Any) -> DType:
    """The NumPy dtype that ``dtype`` means; names are PyTorch's (``"float"`` is float32)."""
    if isinstance(dtype, str) and dtype in BY_NAME:
        return BY_NAME[dtype]
    dtype = getattr(dtype, "dtype", dtype) if not isinstance(dtype, type) else dtype
    try:
        result: DType = np.dtype(dtype)
    except TypeError:
        result = np.dtype(object)
    if result.kind not in "biuf":
        raise DTypeError(f"dtype {dtype!r}: expected one of {', '.join(BY_NAME)}")
    return result


def numeric(array: Array) -> Array:
    """The array; a DTypeError where it is not of numbers that ops compute with."""
    if array.dtype.char not in NUMBERS:
        raise DTypeError(f"an array of {array.dtype}: expected one of {', '.join(BY_NAME)}: "
                         "convert it with .astype(...)")  # fmt: skip
    return array


NUMBERS = frozenset("?bBhHiIlLqQefd")
"""NumPy's letters for them."""


def exactly(value: Any) -> Any:
    """What tells values apart that Python holds equal, 1 and 1.0, 0.0 and -0.0; NaN equals NaN."""
    return type(value), repr(value) if isinstance(value, (float, np.floating)) else value


CATEGORIES = {"b": 0, "i": 1, "u": 1}


def category(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floating point: a higher one wins a promotion."""
    return CATEGORIES.get(dtype.kind, 2)


def promote(dtypes: list[DType]) -> DType:
    """PyTorch's promotion: the highest category decides, widths count only inside it."""
    top = max(map(category, dtypes))
    result = None
    for dtype in dtypes:
        if category(dtype) == top:
            result = dtype if result is None else np.promote_types(result, dtype)
    assert result is not None
    return result
