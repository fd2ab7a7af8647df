"""Parameters and buffers: the tensors of a module, which all replicas share."""

from __future__ import annotations

from typing import Any

from minidp.tensor import Tensor
from minidp.types import Array

_DATA: Any = Tensor.__dict__["data"]
"""Where a Tensor keeps its array: Shared tensors look after what is put there."""


class Shared(Tensor):
    """A tensor of a module that all replicas share: a Parameter or a Buffer.

    Where an op meets one inside a replica, it takes that replica's own tensor for it. Its array
    may be assigned, also from a Tensor: ``p.data = p.data * 2``.
    """

    __slots__ = ()

    @property
    def data(self) -> Array:
        return _DATA.__get__(self)

    @data.setter
    def data(self, array: Any) -> None:
        _DATA.__set__(self, array.data if isinstance(array, Tensor) else array)


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
