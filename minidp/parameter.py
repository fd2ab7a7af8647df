"""Parameters and buffers: the tensors of a module, which all replicas share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minidp.errors import ReplicaError
from minidp.mode import mode
from minidp.node import Handle
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

    def register_hook(self, hook: Callable[[Tensor], Any]) -> Handle:
        """As of any tensor; a ReplicaError in replicas, none of which has the whole gradient."""
        if mode.replica is not None:
            raise hook_refused(f"of shape {self.shape}")
        return super().register_hook(hook)


def hook_refused(name: str) -> ReplicaError:
    """Why replicas have no hooks of parameters."""
    return ReplicaError(
        f"parameter {name} has a hook, which replicas would not call, for none of them has the "
        "whole gradient: remove it, and hook an activation, use a function of the parameter in "
        "forward, or use clip_norm"
    )


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
