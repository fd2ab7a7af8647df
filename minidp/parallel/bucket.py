"""Buckets: runs of parameters that lie in one flat array, are reduced together and updated at once.

A bucket never spans parameter groups or dtypes, and its bounds are fixed per model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minidp.backend import get_backend
from minidp.device import Device
from minidp.node import latest
from minidp.parallel.memory import Layout, Memory, moved
from minidp.parameter import Parameter, hook_refused
from minidp.tensor import Tensor
from minidp.types import DType

FIRST_KIB, LIMIT_KIB = 64, 1024
NO_NAMES: Mapping[Parameter, str] = {}


class Bucket:
    """Which parameters lie where, and the master copy of their values."""

    def __init__(
        self, index: int, parameters: Sequence[Parameter], home: Device,
        names: Mapping[Parameter, str] = NO_NAMES,
    ) -> None:  # fmt: skip
        self.index, self.parameters, self.home = index, list(parameters), home
        self.names = [names.get(p, f"of shape {p.shape}") for p in parameters]
        self.check_hooks()
        self.dtype: DType = parameters[0].dtype
        self.layout = Layout([p.shape for p in parameters])
        self.size, self.views = self.layout.size, self.layout.views
        flat = get_backend(home.type).zeros(self.size, self.dtype, home.index)
        self.master = Memory(flat, self.layout)
        self.refresh()

    def check_hooks(self) -> None:
        """A ReplicaError for hooks of parameters, whose gradient no replica knows in backward."""
        for p, name in zip(self.parameters, self.names, strict=True):
            if p.node is not None and any((p.node.hooks or {}).values()):
                raise hook_refused(name)

    def refresh(self) -> None:
        """Make every parameter a view of the master copy again, taking over its values."""
        for parameter, view in zip(self.parameters, self.master.views, strict=True):
            if parameter.array is not view:
                view[...] = moved(parameter.array, view)
                parameter.array = view
        self.master.touch()

    def moments(self, state: Mapping[Any, Mapping[str, Any]]) -> list[tuple[int, int]]:
        """What is another list when a parameter, or its ``state`` in an optimiser, was changed or
        given another array; or may have been, through ``.data``."""
        held = [each for p in self.parameters for each in (p, *state.get(p, {}).values())]
        found = [(id(t.array), t.version[0]) for t in held if isinstance(t, Tensor)]
        return [(latest.exposed, 0), *found]

    def runs(self, kinds: Sequence[Any]) -> list[tuple[int, int, Any]]:
        """(start, stop, kind) of stretches that one update may treat alike.

        ``kinds`` has an entry per parameter; None: it is not to be updated.
        """
        result: list[tuple[int, int, Any]] = []
        for i, kind in enumerate(kinds):
            start, stop = self.layout.offsets[i], self.layout.offsets[i + 1]
            if kind is None:
                continue
            if result and result[-1][1:] == (start, kind):
                start = result.pop()[0]
            result.append((start, stop, kind))
        return result


def make_buckets(
    groups: Sequence[Sequence[Parameter]], home: Device, names: Mapping[Parameter, str] = NO_NAMES,
    first_kib: float = FIRST_KIB, limit_kib: float = LIMIT_KIB,
) -> list[Bucket]:  # fmt: skip
    """Cut the trainable parameters into buckets, the last registered first.

    The first bucket is small, so that the first reduction starts early; a bucket closes when it
    has reached its limit.
    """
    owner = {p: g for g, group in enumerate(groups) for p in group}
    ordered = [p for group in groups for p in group if p.requires_grad][::-1]
    buckets: list[Bucket] = []
    run: list[Parameter] = []
    for parameter in ordered:
        limit = 1024 * (first_kib if not buckets else limit_kib)
        if run and (
            _bytes(run) >= limit
            or owner[parameter] != owner[run[0]]
            or parameter.dtype != run[0].dtype
        ):
            buckets.append(Bucket(len(buckets), run, home, names))
            run = []
        run.append(parameter)
    if run:
        buckets.append(Bucket(len(buckets), run, home, names))
    return buckets


def _bytes(parameters: Sequence[Tensor]) -> int:
    return sum(p.numel() * p.element_size() for p in parameters)
