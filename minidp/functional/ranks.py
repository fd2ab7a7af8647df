"""What functions of sequences (n, c, l), images (n, c, h, w) and volumes (n, c, d, h, w) share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from minidp.arguments import expect_tensors
from minidp.errors import DTypeError, ShapeError
from minidp.shapes import sizes
from minidp.tensor import Tensor
from minidp.types import category, float16, float32

AXES = {1: "l", 2: "h, w", 3: "d, h, w"}


def each_rank(function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """A function whose first argument is the number of spatial axes, as three: for 1, 2 and 3."""
    _, *parameters = inspect.signature(function).parameters.values()

    def fixed(n: int) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(n, *args, **kwargs)

        call.__name__ = call.__qualname__ = f"{function.__name__.strip('_')}{n}d"
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call

    return fixed(1), fixed(2), fixed(3)


def batched(name: str, input: Tensor, n: int) -> Tensor:
    """The input with a batch axis; a ShapeError where it has not n spatial axes."""
    expect_tensors(name, input)
    if input.ndim not in (n + 1, n + 2):
        raise ShapeError(f"{name}: expected (n, c, {AXES[n]}) or (c, {AXES[n]}), "
                         f"got {input.shape}")  # fmt: skip
    return input if input.ndim == n + 2 else input.unsqueeze(0)


def checked(name: str, n: int, **given: Any) -> list[tuple[int, ...]]:
    """Each size as one for each of n axes; paddings are at least 0, all others at least 1."""
    found = {what: sizes(value, n, f"{name}: {what}") for what, value in given.items()}
    if any(min(value) < ("padding" not in what) for what, value in found.items()):
        raise ShapeError(f"{name}: {found}: expected paddings of at least 0, all else at least 1")
    return list(found.values())


def floating(name: str, input: Tensor) -> Tensor:
    """The input; a DTypeError where it is not of floating point."""
    if category(input.dtype) < 2:
        raise DTypeError(f"{name}: expected floating point, got {input.dtype}: use .float()")
    return input


def alike(name: str, input: Tensor, *others: Tensor | None) -> None:
    """A DTypeError where another tensor's dtype is neither ``input``'s nor float32 with float16."""
    dtype = input.dtype
    wide = float32 if dtype == float16 else dtype
    for each in others:
        if each is not None and each.dtype is not dtype and each.dtype not in (dtype, wide):
            raise DTypeError(f"{name}: input of {input.dtype} with {each.dtype}; expected one "
                             "dtype: convert with .float(), .double() or .to(dtype)")  # fmt: skip


def like(y: Tensor, input: Tensor, n: int) -> Tensor:
    """The result without the batch axis that ``input`` did not have."""
    return y if input.ndim == n + 2 else y.squeeze(0)
