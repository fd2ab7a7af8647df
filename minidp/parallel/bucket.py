"""Buckets: runs of parameters that lie in one flat array, are reduced together and updated at once.

A bucket never spans parameter groups or dtypes, and its bounds are fixed per model. Behind the
parameters, a replica's gradient memory has one place per parameter that says whether the backward
pass reached it: added over replicas, it tells which parameters were used anywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from minidp.backend import backend_of, get_backend
from minidp.device import Device
from minidp.tensor import Parameter, Tensor
from minidp.types import Array, DType

ALIGN = 16
"""Parameters begin at multiples of this many elements."""

FIRST_KIB, LIMIT_KIB = 64, 1024


class Memory:
    """One copy of a bucket's parameters, with the optimiser's state for it, in one place."""

    def __init__(self, data: Array) -> None:
        self.data = data
        self._lock = threading.Lock()
        self._states: WeakKeyDictionary[Any, dict[str, Array]] = WeakKeyDictionary()

    def state(self, optimizer: Any, names: Sequence[str], bucket: Bucket) -> dict[str, Array]:
        """Flat arrays of the optimiser's state, by name, made from its state per parameter."""
        with self._lock:
            found = self._states.setdefault(optimizer, {})
            for name in names:
                if name not in found:
                    found[name] = backend_of(self.data).xp.zeros_like(self.data)
                    bucket.load_state(optimizer, name, found[name])
            return found


class Bucket:
    """Which parameters lie where, and the master copy of their values."""

    def __init__(self, index: int, parameters: Sequence[Parameter], group: int, home: Device) -> None:
        self.index, self.parameters, self.group, self.home = index, list(parameters), group, home
        self.dtype: DType = parameters[0].dtype
        self.shapes = [p.shape for p in parameters]
        self.offsets = [0]
        for parameter in parameters:
            self.offsets.append(self.offsets[-1] + -(-parameter.numel() // ALIGN) * ALIGN)
        self.size = self.offsets[-1]
        self.master = Memory(get_backend(home.type).put(aligned(self.size, self.dtype), home.index))
        self._views = self.views(self.master.data)
        self.refresh()

    def views(self, flat: Array) -> tuple[Array, ...]:
        """Each parameter as a view of a flat array laid out like this bucket."""
        return tuple(
            flat[start : start + int(np.prod(shape, dtype=int))].reshape(shape)
            for start, shape in zip(self.offsets, self.shapes, strict=False)
        )

    def refresh(self) -> None:
        """Make every parameter a view of the master copy again, taking over its values."""
        for parameter, view in zip(self.parameters, self._views, strict=True):
            if parameter.data is not view:
                backend = get_backend(self.home.type)
                view[...] = backend.put(backend_of(parameter.data).get(parameter.data), self.home.index)
                parameter.data = view

    def load_state(self, optimizer: Any, name: str, flat: Array) -> None:
        """Take over what the optimiser already keeps for these parameters."""
        for parameter, view in zip(self.parameters, self.views(flat), strict=True):
            kept = optimizer.state.get(parameter, {}).get(name)
            if kept is not None:
                view[...] = get_backend(self.home.type).put(
                    backend_of(kept.data).get(kept.data), self.home.index
                )

    def used(self, reduced: Array) -> list[bool]:
        """Which parameters some replica's backward reached, from the reduced gradient memory."""
        flags = backend_of(reduced).get(reduced[self.size :])
        return [bool(flag) for flag in flags]

    def runs(self, used: Sequence[bool], steps: Sequence[int]) -> list[tuple[int, int, int]]:
        """(start, stop, steps taken) of stretches that one update kernel may treat alike."""
        result: list[tuple[int, int, int]] = []
        for i, step in enumerate(steps):
            start, stop = self.offsets[i], self.offsets[i + 1]
            if not used[i]:
                continue
            if result and result[-1][1] == start and result[-1][2] == step:
                result[-1] = (result[-1][0], stop, step)
            else:
                result.append((start, stop, step))
        return result


def aligned(size: int, dtype: DType) -> Array:
    """Zeros that begin at a multiple of 64 bytes."""
    raw = np.zeros(size * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * dtype.itemsize].view(dtype)


def make_buckets(
    groups: Sequence[Sequence[Parameter]], home: Device,
    first_kib: float = FIRST_KIB, limit_kib: float = LIMIT_KIB,
) -> list[Bucket]:  # fmt: skip
    """Cut the trainable parameters into buckets, the last registered first.

    The first bucket is small, so that the first reduction starts early; a bucket closes when it
    has reached its limit.
    """
    owner = {id(p): g for g, group in enumerate(groups) for p in group}
    ordered = [p for group in groups for p in group if p.requires_grad][::-1]
    buckets: list[Bucket] = []
    run: list[Parameter] = []
    for parameter in ordered:
        limit = 1024 * (first_kib if not buckets else limit_kib)
        if run and (
            _bytes(run) >= limit
            or owner[id(parameter)] != owner[id(run[0])]
            or parameter.dtype != run[0].dtype
        ):
            buckets.append(Bucket(len(buckets), run, owner[id(run[0])], home))
            run = []
        run.append(parameter)
    if run:
        buckets.append(Bucket(len(buckets), run, owner[id(run[0])], home))
    return buckets


def _bytes(parameters: Sequence[Tensor]) -> int:
    return sum(p.numel() * p.element_size() for p in parameters)
