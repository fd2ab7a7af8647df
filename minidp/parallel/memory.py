"""The memory behind a bucket: parameters and optimiser state, one copy per place.

The master copy is what ``Parameter.array`` and ``optimizer.state`` show. It takes over what the
caller put there instead (``load_state_dict``, an assignment); copies on other devices follow it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

from minidp.backend import backend_of
from minidp.types import Array, Shape

ALIGN = 16
"""Parameters begin at multiples of this many elements."""


class Layout:
    """Where parameters of some shapes lie in a flat array of ``size`` elements."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.shapes, self.sizes = shapes, [math.prod(shape) for shape in shapes]
        self.offsets = [0]
        for size in self.sizes:
            self.offsets.append(self.offsets[-1] + -(-size // ALIGN) * ALIGN)
        self.size = self.offsets[-1]

    def views(self, flat: Array) -> tuple[Array, ...]:
        """Each parameter as a view of a flat array."""
        return tuple([
            flat[start : start + size].reshape(shape)
            for start, size, shape in zip(self.offsets, self.sizes, self.shapes, strict=False)
        ])  # fmt: skip


class Slot:
    """A flat array of parameters or of one kind of optimiser state; counts changes from outside."""

    def __init__(self, flat: Array, views: tuple[Array, ...]) -> None:
        self.flat, self.views = flat, views
        self.changes = 0
        self.seen: list[Any] = [self] * len(views)

    def touch(self) -> None:
        """Let everything be looked at anew: the caller may have changed it."""
        self.changes, self.seen = self.changes + 1, [self] * len(self.views)

    def take_over(self, kept: Sequence[Array | None]) -> None:
        """Copy what is kept elsewhere; where nothing is kept (any more) there are zeros."""
        for i, (array, view) in enumerate(zip(kept, self.views, strict=True)):
            if array is not view and array is not self.seen[i]:
                view[...] = 0 if array is None else moved(array, view)
                self.changes += 1
            self.seen[i] = array

    @property
    def kept(self) -> bool:
        """Whether at the last look what was kept elsewhere was these arrays themselves."""
        return all(map(is_, self.seen, self.views))

    def follow(self, other: Slot) -> None:
        """Copy ``other`` unless it is as it was at the last look."""
        if other is not self and self.changes != other.changes:
            self.flat[...] = moved(other.flat, self.flat)
            self.changes = other.changes


class Memory:
    """One copy of a bucket's parameters, with each optimiser's state for it."""

    def __init__(self, data: Array, layout: Layout) -> None:
        self.data, self.views = data, layout.views(data)
        self._layout, self._backend = layout, backend_of(data)
        self._index = self._backend.index(data)
        self._values = Slot(data, self.views)
        self._lock = threading.Lock()
        self._states: WeakKeyDictionary[Any, dict[str, Slot]] = WeakKeyDictionary()

    def touch(self) -> None:
        """Say that the caller may have changed the values, or some optimiser's state."""
        for slot in [self._values, *(s for slots in self._states.values() for s in slots.values())]:
            slot.touch()

    def follow(self, master: Memory) -> None:
        """Take the master's values, unless it has them already."""
        with self._lock, self._backend.activate(self._index):
            self._values.follow(master._values)

    def state(
        self, optimizer: Any, names: Sequence[str], parameters: Sequence[Any], master: Memory
    ) -> dict[str, Slot]:
        """The optimiser's state by name, as it stands in ``optimizer.state``."""
        if self is not master:
            masters = master.state(optimizer, names, parameters, master)
        with self._lock, self._backend.activate(self._index):
            slots = self._states.setdefault(optimizer, {})
            for name in names:
                slot = slots.get(name) or slots.setdefault(name, self._new_slot())
                if self is master:
                    kept = [optimizer.state.get(p, {}).get(name) for p in parameters]
                    slot.take_over([None if each is None else each.array for each in kept])
                else:
                    slot.follow(masters[name])
            return slots

    def _new_slot(self) -> Slot:
        flat = self._backend.zeros(self._layout.size, self.data.dtype, self._index)
        return Slot(flat, self._layout.views(flat))


def moved(array: Array, like: Array) -> Array:
    """The array where ``like`` is."""
    source, target = backend_of(array), backend_of(like)
    if source is target and source.index(array) == target.index(like):
        return array
    return target.put(source.get(array), target.index(like))
