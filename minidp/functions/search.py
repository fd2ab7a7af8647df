"""Where values are, and whether: searches under PyTorch's names."""

from __future__ import annotations

from typing import Any

from minidp.functions.join import unbind
from minidp.functions.layout import reshape
from minidp.ops import index as ops
from minidp.ops.comparison import ne
from minidp.tensor import Tensor, method

__all__ = ["argwhere", "bucketize", "isin", "nonzero", "searchsorted"]


@method()
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, one row each."""
    input._read()
    return ops.argwhere(input)


@method()
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero, one row each, or one vector per axis."""
    input._read()
    if as_tuple:
        return unbind(ops.argwhere(reshape(input, input.shape or (1,))), 1)
    return ops.argwhere(input)


def searchsorted(sorted_sequence: Tensor, input: Any, *, out_int32: bool = False,
                 right: bool = False, side: str | None = None) -> Tensor:  # fmt: skip
    """Where each value goes so that the sequence stays sorted; with ``right`` behind equals."""
    found = ops.searchsorted(sorted_sequence, input, right=right or side == "right")
    return found.type("int32") if out_int32 else found


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
              ) -> Tensor:  # fmt: skip
    """Which of the intervals between ``boundaries`` each value is in."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
         ) -> Tensor:  # fmt: skip
    """Whether each element is (or, inverted, is not) among ``test_elements``."""
    found = ops.isin(elements, test_elements)
    return ne(found, True) if invert else found
