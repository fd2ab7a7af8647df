"""Parameters and buffers: the tensors of a module, which all replicas share."""

from __future__ import annotations

from typing import Any

from minidp.mode import mode
from minidp.tensor import Tensor


class Shared(Tensor):
    """A tensor of a module that all replicas share: a Parameter or a Buffer.

    Where an op meets one inside a replica, it takes that replica's own tensor for it.
    """

    __slots__ = ()


class Parameter(Shared):
    """A tensor that is trained: a leaf that requires a gradient unless it is frozen."""

    __slots__ = ()

    def __init__(self, data: Any = (), requires_grad: bool = True) -> None:
        super().__init__(data, requires_grad)


class Buffer(Shared):
    """A tensor that belongs to a module's state and is not trained, such as a running mean.

    As an attribute of a module it is in its state_dict if ``persistent``.
    """

    __slots__ = ("persistent",)

    def __init__(
        self, data: Any = (), requires_grad: bool = False, *, persistent: bool = True
    ) -> None:
        super().__init__(data, requires_grad)
        self.persistent = persistent


def successor(old: Any, value: Tensor) -> Buffer:
    """The buffer that a module has in place of ``old`` when ``value`` is assigned to its name."""
    mode.check_change(old)
    return Buffer(value)
