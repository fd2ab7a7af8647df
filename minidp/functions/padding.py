"""Padding under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.create import full
from minidp.errors import ArgumentError, ShapeError
from minidp.ops.index import get, put, set_at
from minidp.placement import place
from minidp.tensor import Tensor

__all__: list[str] = []
MODES = {"reflect": "reflect", "replicate": "", "circular": "wrap"}
"""PyTorch's names and NumPy's."""


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    """More places around x: ``pad`` is (before, after) of the last axis, then of the one before
    it, and so on; negative ones crop. Filled with ``value`` (0), or by "reflect", "replicate" or
    "circular".

    >>> F.pad(dp.ones(1, 2), (1, 2))
    tensor([[0., 1., 1., 0., 0.]])
    """
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad) - 1, 2)][::-1]
    known = mode == "constant" or (
        mode in MODES and len(pairs) < 4 and input.ndim - len(pairs) in (1, 2)
    )
    if len(pad) % 2 or len(pairs) > input.ndim or not known:
        raise ShapeError(f"pad({input.shape}, {tuple(pad)}, {mode!r}): expected two widths for "
                         "each of the last axes, and a mode of constant, reflect, replicate or "
                         "circular (these three for all axes but (n, c) or (c))")  # fmt: skip
    if mode != "constant" and value:
        raise ArgumentError(f"pad: mode {mode!r} takes no value, got {value}")
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs
    if mode == "replicate":
        for axis, (n, (a, b)) in enumerate(zip(input.shape, widths, strict=True)):
            if n == 0 != a + b or n + a + b < 0:
                raise ShapeError(f"pad({input.shape}, {tuple(pad)}): nothing to repeat in axis "
                                 f"{axis}")  # fmt: skip
            rows = place(np.clip(np.arange(n + a + b) - a, 0, max(n - 1, 0)), input.device)
            input = get(input, key=(slice(None),) * axis + (rows,)) if a or b else input
        return input
    if any(n + min(a, 0) + min(b, 0) < 0 for n, (a, b) in zip(input.shape, widths, strict=True)):
        raise ShapeError(f"pad({input.shape}, {tuple(pad)}): crops more than there is")
    ends = [slice(max(0, -a), n - max(0, -b)) for n, (a, b) in
            zip(input.shape, widths, strict=True)]  # fmt: skip
    if min(pad, default=0) < 0:
        input = get(input, key=tuple(ends))
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        return _surrounded(input, widths, value)
    for axis, width in enumerate(widths):
        if max(width):
            input = get(input, key=(slice(None),) * axis + (_places(input, axis, width, mode),))
    return input


def _surrounded(x: Tensor, widths: Sequence[tuple[int, int]], value: Any) -> Tensor:
    """``value`` (None: 0) put around x: ``widths`` places before and after each axis."""
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
    key = tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True))
    if not value:
        return put(x, shape=shape, key=key)
    return set_at(full(shape, value, dtype=x.dtype, device=x.device), x, key=key)


def _places(x: Tensor, axis: int, width: tuple[int, int], mode: str) -> Any:
    """Which places of an axis the padded one repeats."""
    size = x.shape[axis]
    if max(width) > {"reflect": size - 1, "circular": size}.get(mode, max(width)) or size == 0:
        raise ShapeError(f"pad: {width} places are more than {mode!r} finds in {size} of axis "
                         f"{axis}")  # fmt: skip
    return place(np.pad(np.arange(size), width, mode=MODES[mode]), x.device)  # type: ignore[call-overload]
