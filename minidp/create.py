"""Creation: new tensors from values, sizes, ranges and random numbers.

All take ``dtype`` (by default float32, or what the values are), ``device`` (that of the running
replica) and ``requires_grad``. Sizes may be given one by one, as a sequence, or as ``size=``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index as integer
from reprlib import repr as brief
from typing import Any

import numpy as np

from minidp.arguments import expect_counts, expect_tensors
from minidp.errors import ArgumentError, DTypeError, ShapeError
from minidp.mode import mode
from minidp.placement import as_array, ordered_like, place
from minidp.tensor import Tensor, method
from minidp.types import Array, as_dtype, int64, numeric

__all__ = [
    "BoolTensor", "ByteTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_numpy",
    "full", "full_like", "linspace", "logspace", "ones", "ones_like", "tensor", "tril_indices",
    "triu_indices", "zeros", "zeros_like",
]  # fmt: skip


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor that holds a copy of ``data``.

    Python floats become the default dtype (float32), Python integers int64; NumPy arrays and
    tensors keep theirs.

    >>> dp.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    if isinstance(data, Tensor) and mode.watch is not None:  # told, as a captured step must know it
        result: Tensor = _moved(data.detach().clone(), dtype, device)
        return result.requires_grad_() if requires_grad else result
    source = data.array if isinstance(data, Tensor) else data
    kind = None if dtype is None else as_dtype(dtype)
    array = source.copy() if hasattr(source, "strides") else as_array(source, kind)
    if array.dtype.kind not in "biuf":
        raise DTypeError(f"tensor({brief(data)}): expected numbers, in rows of equal length")
    return make(array, kind, device, requires_grad)


def _moved(x: Tensor, dtype: Any, device: Any) -> Tensor:
    """``make`` in ops, of a Tensor outside the graph."""
    x = x if dtype is None else x.type(as_dtype(dtype))
    if device is None and mode.replica is not None and mode.replica.device.type != "cpu":
        device = mode.replica.device
    moved: Tensor = x if device is None else x.to(device)
    return moved


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, sharing its memory where that is possible."""
    if data is None or isinstance(data, str):
        raise TypeError(f"as_tensor: expected numbers, got {data!r}")
    if isinstance(data, Tensor) and mode.watch is not None:
        moved = _moved(data.detach(), dtype, device)
        return data if moved.array is data.array else moved
    array = data.array if isinstance(data, Tensor) else data
    kind = None if dtype is None else as_dtype(dtype)
    array = array if hasattr(array, "strides") else as_array(array, kind)
    array = make(array, kind, device).array
    return data if isinstance(data, Tensor) and array is data.array else Tensor(array)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``as_tensor``, or with ``copy`` a copy in any case."""
    result = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    return result.requires_grad_() if requires_grad else result


def from_numpy(ndarray: Array) -> Tensor:
    """A tensor that shares the memory of a NumPy array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got a {type(ndarray).__name__}")
    return Tensor(ndarray)


def make(array: Array, dtype: Any = None, device: Any = None, requires_grad: bool = False,
         memory: Any = None) -> Tensor:  # fmt: skip
    if dtype is not None:
        with np.errstate(all="ignore"):
            array = numeric(array).astype(as_dtype(dtype), copy=False)
    array = array if memory is None else ordered_like(array, memory)
    return Tensor(place(array, device), requires_grad)


def shape_of(given: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    given = given if size is None else (size,)
    listed = given[0] if len(given) == 1 and isinstance(given[0], Sequence) else given
    try:
        shape = tuple(each if type(each) is int else integer(each) for each in listed)
    except TypeError:
        raise TypeError(f"a tensor of shape {listed!r}: expected integers, or a sequence") from None
    if min(shape, default=0) < 0:
        raise ShapeError(f"a tensor of shape {shape}: a size is negative")
    return shape


def float_dtype(dtype: Any) -> Any:
    return mode.default_dtype if dtype is None else as_dtype(dtype)


def zeros(*sizes: Any, size: Any = None, dtype: Any = None, **options: Any) -> Tensor:
    """A tensor of zeros."""
    return make(np.zeros(shape_of(sizes, size), float_dtype(dtype)), **options)


def ones(*sizes: Any, size: Any = None, dtype: Any = None, **options: Any) -> Tensor:
    """A tensor of ones."""
    return make(np.ones(shape_of(sizes, size), float_dtype(dtype)), **options)


def empty(*sizes: Any, size: Any = None, dtype: Any = None, **options: Any) -> Tensor:
    """A tensor whose values are not set; in a captured step, always the same, 0."""
    new = np.empty if mode.watch is None else np.zeros
    return make(new(shape_of(sizes, size), float_dtype(dtype)), **options)


def full(size: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """A tensor filled with one value, of that value's kind unless ``dtype`` is given.

    >>> dp.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if isinstance(value, (str, list, tuple, type(None))):
        raise TypeError(f"full: fill_value={brief(value)}: expected a number")
    kind = as_array(value).dtype if dtype is None else as_dtype(dtype)
    return make(np.full(shape_of((size,)), as_array(value, kind)), **options)


def like(input: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The dtype and device of ``input``, unless others are given."""
    given = {name: value for name, value in options.items() if value is not None}
    return {"dtype": input.dtype, "device": input.device, **given}


def alike(name: str, input: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """``like``, and the size too; what is no tensor is refused in the name of the function."""
    expect_tensors(name, input)
    return {"size": input.shape, **like(input, options)}


def zeros_like(input: Tensor, **options: Any) -> Tensor:
    """Zeros in the shape, dtype and device of ``input``."""
    return zeros(**alike("zeros_like", input, options), memory=input.array)


def ones_like(input: Tensor, **options: Any) -> Tensor:
    """Ones in the shape, dtype and device of ``input``."""
    return ones(**alike("ones_like", input, options), memory=input.array)


def empty_like(input: Tensor, **options: Any) -> Tensor:
    """Values that are not set, in the shape, dtype and device of ``input``."""
    return empty(**alike("empty_like", input, options), memory=input.array)


def full_like(input: Tensor, fill_value: Any, **options: Any) -> Tensor:
    """One value in the shape, dtype and device of ``input``."""
    given = alike("full_like", input, options)
    return full(fill_value=fill_value, memory=input.array, **given)


def _new_method(make_one: Any) -> Any:
    def call(self: Tensor, *sizes: Any, size: Any = None, **options: Any) -> Tensor:
        made: Tensor = make_one(*sizes, size=size, **like(self, options))
        return made

    call.__doc__ = f"``{make_one.__name__}`` in this dtype and on this device."
    return method(f"new_{make_one.__name__}")(call)


_new_empty, _, _ = map(_new_method, (empty, ones, zeros))


@method("new_full")
def _new_full(self: Tensor, size: Any, fill_value: Any, **options: Any) -> Tensor:
    """One value in this dtype and on this device."""
    return full(size, fill_value, **like(self, options))


@method("new")
def _new(self: Tensor, *given: Any) -> Tensor:
    """``new(2, 3)`` or ``new(x.size())``: values that are not set, in this dtype and on this
    device; of a list or an array its values."""
    sizes = not given or isinstance(given[0], (int, tuple))
    return _new_empty(self, *given or (0,)) if sizes else _new_tensor(self, *given)


@method("new_tensor")
def _new_tensor(self: Tensor, data: Any, **options: Any) -> Tensor:
    """A copy of ``data`` in this dtype and on this device."""
    return tensor(data, **like(self, options))


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None, **options: Any
) -> Tensor:
    """start, start + step, ... below ``end``; integers when all three are.

    >>> dp.arange(5)
    tensor([0, 1, 2, 3, 4])
    >>> dp.arange(0.0, 1.0, 0.25)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (x.item() if hasattr(x, "item") else x for x in (start, end, step))
    if not all(isinstance(each, (int, float)) for each in (start, end, step)):
        raise TypeError(f"arange({start!r}, {end!r}, {step!r}): expected numbers")
    if dtype is not None and as_dtype(dtype) == int64:
        start, end, step = int(start), int(end), int(step)
    if step == 0 or (end - start) * step < 0 or math.isinf(end - start):
        raise ArgumentError(f"arange({start}, {end}, {step}): no step leads to the end")
    whole = all(isinstance(each, int) for each in (start, end, step))
    count = np.arange(math.ceil((end - start) / step) if not whole else -((start - end) // step))
    if dtype is not None and as_dtype(dtype).kind in "iu":
        start, step = int(start), int(step)
    return make(start + step * count, dtype or (int64 if whole else mode.default_dtype), **options)


def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, **options: Any) -> Tensor:
    """``steps`` evenly spaced values from ``start`` to ``end``, both included.

    >>> dp.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    return make(_spaced("linspace", start, end, steps, dtype), float_dtype(dtype), **options)


def _spaced(name: str, start: Any, end: Any, steps: int, dtype: Any) -> Array:
    """Evenly spaced numbers; where integers are wanted, between integers."""
    expect_counts(name, steps=steps)
    start, end = (x.item() if isinstance(x, Tensor) else x for x in (start, end))
    if dtype is not None and as_dtype(dtype).kind in "iu":
        start, end = int(start), int(end)
    with np.errstate(all="ignore"):
        return np.linspace(start, end, steps)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, **options: Any
) -> Tensor:
    """``steps`` values from base^start to base^end, of evenly spaced logarithms."""
    powers = _spaced("logspace", start, end, steps, dtype)
    return make(np.power(float(base), powers), float_dtype(dtype), **options)


def eye(n: int, m: int | None = None, *, dtype: Any = None, **options: Any) -> Tensor:
    """The identity matrix, or ones on the diagonal of an n x m matrix.

    >>> dp.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return make(np.eye(*shape_of((n, n if m is None else m)), dtype=float_dtype(dtype)), **options)


def tril_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    """The rows and the columns of the places on and below a diagonal."""
    return make(np.stack(np.tril_indices(row, offset, col)).astype(int64), **options)


def triu_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    """The rows and the columns of the places on and above a diagonal."""
    return make(np.stack(np.triu_indices(row, offset, col)).astype(int64), **options)


class OfKind:
    """PyTorch's old constructors: ``FloatTensor(2, 3)`` is uninitialised, of a list or an array it
    holds the values in the dtype of that name."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(self, *given: Any) -> Tensor:
        sizes = not given or isinstance(given[0], int)
        make_one = empty if sizes else tensor
        return make_one(*given or (0,), dtype=self.dtype)


BoolTensor, ByteTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor = map(
    OfKind, ("bool", "uint8", "double", "float", "half", "int", "long"))  # fmt: skip
