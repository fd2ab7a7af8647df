"""Indexing under PyTorch's names."""

from __future__ import annotations

from typing import Any

from minidp.ops.index import get, take_along_dim
from minidp.tensor import Tensor, method

__all__ = ["gather", "take_along_dim"]


def plain(key: Any) -> Any:
    """A key in the form that NumPy takes; index arrays are copied, since backward needs them."""
    if isinstance(key, tuple):
        return tuple(plain(part) for part in key)
    array = key.data if isinstance(key, Tensor) else key
    return array.copy() if hasattr(array, "strides") else array


@method("__getitem__")
def getitem(self: Tensor, key: Any) -> Tensor:
    """The elements that ``key`` names."""
    result: Tensor = get(self, key=plain(key))
    return result


@method("__setitem__")
def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Write the elements that ``key`` names, in place; for tensors outside the graph."""
    self._writable("indexed assignment")
    self.data[plain(key)] = value.data if isinstance(value, Tensor) else value


@method()
def gather(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """y[i][j] = x[index[i][j]][j] for dim 0, and so on for other axes."""
    axis = dim % max(self.ndim, 1)
    key = tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(index.shape))
    result: Tensor = take_along_dim(get(self, key=key), index, dim=axis)
    return result
