"""Padding under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.create import full
from minidp.errors import ArgumentError, ShapeError
from minidp.ops.index import get, put, set_at
from minidp.ops.windows import resample
from minidp.tensor import Tensor

__all__: list[str] = []
MODES = ("reflect", "replicate", "circular")


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
    if mode in ("constant", "circular"):  # these crop first
        if any(n + min(a, 0) + min(b, 0) < 0 for n, (a, b) in
               zip(input.shape, widths, strict=True)):  # fmt: skip
            raise ShapeError(f"pad({input.shape}, {tuple(pad)}): crops more than there is")
        ends = [slice(max(0, -a), n - max(0, -b)) for n, (a, b) in
                zip(input.shape, widths, strict=True)]  # fmt: skip
        input = get(input, key=tuple(ends)) if min(pad, default=0) < 0 else input
        widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        return _surrounded(input, widths, value)
    for axis, (n, (a, b)) in enumerate(zip(input.shape, widths, strict=True)):
        most = {"reflect": n - 1, "circular": n}.get(mode, max(a, b))
        if (a or b) and (n == 0 or n + a + b < 0 or max(a, b) > most):
            raise ShapeError(f"pad: {a, b} places are more than {mode!r} crops or finds in {n} of "
                             f"axis {axis}")  # fmt: skip
        if a or b:
            at = np.arange(-a, n + b)
            rows = {"reflect": n - 1 - abs(n - 1 - abs(at)), "circular": at % n,
                    "replicate": np.clip(at, 0, n - 1)}[mode]  # fmt: skip
            input = resample(input, dim=axis, index=rows[:, None], weight=None)
    return input


def _surrounded(x: Tensor, widths: Sequence[tuple[int, int]], value: Any) -> Tensor:
    """``value`` (None: 0) put around x: ``widths`` places before and after each axis."""
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
    key = tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True))
    if not value:
        return put(x, shape=shape, key=key)
    return set_at(full(shape, value, dtype=x.dtype, device=x.device), x, key=key)
