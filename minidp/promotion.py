"""The dtype of an operation on arrays and numbers of several dtypes: PyTorch's rule."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.errors import DTypeError
from minidp.mode import mode
from minidp.types import BY_NAME, NUMBERS, Array, DType, bool_, category, int64, promote

if TYPE_CHECKING:
    from minidp.op import Op


def result_type(values: list[Any]) -> DType:
    """The dtype of an operation on ``values``, by PyTorch's rule.

    Arrays with axes decide; arrays without, then Python numbers, only by a higher category.
    """
    ranked = []
    for value in values:
        rank = 2 if not hasattr(value, "dtype") else 1 if value.ndim == 0 else 0
        ranked.append((rank, dtype_of(value)))
    return _of_ranked(tuple(ranked)) if ranked else mode.default_dtype


@lru_cache(1024)
def _of_ranked(ranked: tuple[tuple[int, DType], ...]) -> DType:
    """The same from what decides first (0), and each value's dtype."""
    groups: list[list[DType]] = [[], [], []]
    for rank, dtype in ranked:
        groups[rank].append(dtype)
    result: DType | None = None
    for dtypes in groups:
        if dtypes and (result is None or max(map(category, dtypes)) > category(result)):
            result = promote([*dtypes, *([result] if result is not None else [])])
    assert result is not None
    if result.char not in NUMBERS:
        raise DTypeError(f"arrays of {result}: expected one of {', '.join(BY_NAME)}")
    return result


def dtype_of(value: Any) -> DType:
    if hasattr(value, "dtype"):
        dtype: DType = value.dtype
        return dtype
    if isinstance(value, bool):
        return bool_
    return int64 if isinstance(value, int) else mode.default_dtype


def promoted(op: Op, arrays: list[Array]) -> list[Array]:
    """The arguments of ``op`` in one dtype; untouched when they already are."""
    dtype, weak = None, False
    for position in op.valued if not op.variadic else range(len(arrays)):
        array = arrays[position]
        found = getattr(array, "dtype", None)
        if found is None:
            if type(array) is float or type(array) is int:
                weak = True
            elif not (isinstance(array, (int, float)) or (array is None and op.optional)):
                raise DTypeError(
                    f"{op.name}: expected tensors, arrays or numbers, got a {type(array).__name__}"
                )
        elif dtype is None:
            dtype = found
        elif found is not dtype:
            return _promote(op, arrays)
    if dtype is not None and (dtype.kind == "f" or not (weak or op.floats)):
        return arrays
    return _promote(op, arrays)


def _wrapped(number: int, dtype: DType) -> Any:
    """A number that ``dtype`` does not hold, wrapped, where NumPy would refuse."""
    if 0 <= number < 128:
        return number
    limits = np.iinfo(dtype)
    fits = limits.min <= number <= limits.max
    return number if fits else np.asarray(number).astype(dtype)[()]


def _check_one_dtype(op: Op, dtypes: list[DType]) -> None:
    if len(set(dtypes)) > 1:
        raise DTypeError(
            f"{op.name}: arguments of {' and '.join(map(str, dict.fromkeys(dtypes)))}; "
            "expected one dtype: convert with .float(), .double() or .to(dtype)"
        )


def _promote(op: Op, arrays: list[Array]) -> list[Array]:
    valued = range(len(arrays)) if op.variadic else op.valued
    chosen = [i for i in valued if arrays[i] is not None]
    if not (op.line.elementwise or op.variadic):
        _check_one_dtype(op, [dtype_of(arrays[i]) for i in chosen])
    result = result_type([arrays[i] for i in chosen])
    if op.floats and category(result) < 2:
        result = mode.default_dtype
    cast = list(arrays)
    for i in chosen:
        if type(arrays[i]) is int and result.kind in "iu":
            cast[i] = _wrapped(arrays[i], result)
        if hasattr(arrays[i], "dtype") and arrays[i].dtype != result:
            cast[i] = arrays[i].astype(result)
    return cast
