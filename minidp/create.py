"""Creation: new tensors from values, sizes, ranges and random numbers.

``dtype`` defaults to float32 (or what the values are), ``device`` to that of the running replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp import random
from minidp.errors import DTypeError
from minidp.mode import mode
from minidp.placement import as_array, place
from minidp.tensor import Tensor
from minidp.types import Array, as_dtype, int64


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor that holds a copy of ``data``.

    Python floats become the default dtype (float32), Python integers int64; NumPy arrays and
    tensors keep theirs.
    """
    source = data.data if isinstance(data, Tensor) else data
    kind = None if dtype is None else as_dtype(dtype)
    array = source.copy() if hasattr(source, "strides") else as_array(source, kind)
    if array.dtype == object:
        raise DTypeError(f"tensor({type(data).__name__}): rows of unequal length or not numbers")
    if kind is not None:
        array = array.astype(kind, copy=False)
    return Tensor(place(array, device), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, sharing its memory where that is possible."""
    array = data.data if isinstance(data, Tensor) else data
    kind = None if dtype is None else as_dtype(dtype)
    array = array if hasattr(array, "strides") else as_array(array, kind)
    array = array if kind is None else array.astype(kind, copy=False)
    array = place(array, device)
    return data if isinstance(data, Tensor) and array is data.data else Tensor(array)


def from_numpy(array: Array) -> Tensor:
    """A tensor that shares the memory of a NumPy array."""
    return Tensor(array)


def _new(array: Array, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if dtype is not None:
        array = array.astype(as_dtype(dtype), copy=False)
    return Tensor(place(array, device), requires_grad)


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], Sequence) else size


def _float(dtype: Any) -> Any:
    return mode.default_dtype if dtype is None else as_dtype(dtype)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return _new(np.zeros(_sizes(size), _float(dtype)), None, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return _new(np.ones(_sizes(size), _float(dtype)), None, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose values are not set."""
    return _new(np.empty(_sizes(size), _float(dtype)), None, device, requires_grad)


def full(
    size: Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor filled with one value, of that value's kind unless ``dtype`` is given."""
    kind = as_array(fill_value).dtype if dtype is None else as_dtype(dtype)
    return _new(np.full(tuple(size), fill_value, kind), None, device, requires_grad)


def zeros_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros in the shape, dtype and device of ``input``."""
    return zeros(input.shape, dtype=dtype or input.dtype, device=input.device,
                 requires_grad=requires_grad)  # fmt: skip


def ones_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones in the shape, dtype and device of ``input``."""
    return ones(input.shape, dtype=dtype or input.dtype, device=input.device,
                requires_grad=requires_grad)  # fmt: skip


def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """One value in the shape, dtype and device of ``input``."""
    return full(input.shape, fill_value, dtype=dtype or input.dtype, device=input.device)


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, ... below ``end``; integers when all three are."""
    start, end = (0, start) if end is None else (start, end)
    whole = all(isinstance(each, (int, np.integer)) for each in (start, end, step))
    kind = dtype or (int64 if whole else mode.default_dtype)
    return _new(np.arange(start, end, step), kind, device, requires_grad)


def linspace(
    start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``steps`` evenly spaced values from ``start`` to ``end``, both included."""
    return _new(np.linspace(start, end, steps), _float(dtype), device, requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The identity matrix, or ones on the diagonal of an n x m matrix."""
    return _new(np.eye(n, m, dtype=_float(dtype)), None, device, False)


def _draw(generator: random.Generator | None) -> random.Key:
    if generator is None:
        replica = mode.replica
        generator = replica.generator if replica is not None else random.default_generator
    return generator.next_key()


def rand(
    *size: Any, generator: random.Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform random numbers in [0, 1)."""
    shape = _sizes(size)
    values = random.uniforms(_draw(generator), int(np.prod(shape, dtype=int))).reshape(shape)
    # rounding up to 1 would leave the half-open interval
    values = np.minimum(values, 1 - float(np.finfo(_float(dtype)).epsneg))
    return _new(values, _float(dtype), device, requires_grad)


def randn(
    *size: Any, generator: random.Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Random numbers of the standard normal distribution."""
    shape = _sizes(size)
    values = random.normals(_draw(generator), int(np.prod(shape, dtype=int))).reshape(shape)
    return _new(values, _float(dtype), device, requires_grad)


def randint(
    low: int, high: int | Sequence[int], size: Any = None, *,
    generator: random.Generator | None = None, dtype: Any = None, device: Any = None,
) -> Tensor:  # fmt: skip
    """Random integers from ``low`` (0 if left out) up to, not including, ``high``."""
    if size is None:
        low, high, size = 0, low, high
    top: Any = high
    if not low < top:
        raise ValueError(f"randint: expected low < high, got low={low} and high={high}")
    count = int(np.prod(size, dtype=int))
    spread: Any = high
    values = np.floor(random.uniforms(_draw(generator), count) * (int(spread) - low)) + low
    return _new(values.reshape(size), dtype or int64, device, False)


def randperm(n: int, *, generator: random.Generator | None = None, device: Any = None) -> Tensor:
    """The numbers 0 .. n-1 in random order."""
    values = random.uniforms(_draw(generator), n)
    return _new(np.argsort(values, kind="stable"), int64, device, False)


def rand_like(input: Tensor) -> Tensor:
    """Uniform random numbers in the shape, dtype and device of ``input``."""
    return rand(input.shape, dtype=input.dtype, device=input.device)


def randn_like(input: Tensor) -> Tensor:
    """Normal random numbers in the shape, dtype and device of ``input``."""
    return randn(input.shape, dtype=input.dtype, device=input.device)
