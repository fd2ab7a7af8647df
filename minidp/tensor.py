"""A Tensor is an array and a node.

The array holds the values. The node remembers which op made them, from which nodes, and the
arrays that its rules asked for, never Tensors: so there are no reference cycles, and an
intermediate value dies with the last loss that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of
from minidp.device import Device
from minidp.errors import DTypeError, GraphError
from minidp.mode import mode
from minidp.naming import F, numpy_names
from minidp.node import RETAIN, Base, Handle, Node, clock
from minidp.placement import as_array
from minidp.types import Array, DType, Shape, category


class Tensor:
    """An array on some device, with the node that made it when a gradient may be asked for.

    ``Tensor(array)`` wraps without a copy; ``minidp.tensor(values)`` copies.
    """

    __slots__ = ("__weakref__", "base", "data", "node", "version")
    data: Array
    node: Node | None
    version: list[int]
    base: Base | None

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        if isinstance(data, Tensor):
            data = data.data
        if isinstance(data, np.generic) or not hasattr(data, "strides"):
            data = as_array(data)
        self.data = data
        self.node = self.base = None
        self.version = [0]
        if requires_grad:
            self.requires_grad_()

    @property
    def shape(self) -> Shape:
        """The length of every axis."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> DType:
        """The kind of the values."""
        dtype: DType = self.data.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return int(self.data.ndim)

    @property
    def device(self) -> Device:
        """Where the values are; an array on the CPU is on the running replica's CPU device."""
        backend = backend_of(self.data)
        if backend.name == "cpu":
            here = mode.replica.device if mode.replica else None
            return here if here is not None and here.type == "cpu" else Device("cpu", 0)
        return Device(backend.name, backend.index(self.data))

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it: ``backward()`` collects gradients in leaves."""
        return self.node is None or self.node.op is None

    @property
    def requires_grad(self) -> bool:
        """Whether ops on it are recorded, so that a gradient can be asked for."""
        return self.fresh().node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def grad(self) -> Tensor | None:
        """The gradient collected by ``backward()``; None before the first."""
        return self.node.grad if self.node is not None else None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if self.node is None:
            if value is not None:
                raise GraphError("grad can be set only on a tensor that requires a gradient")
            return
        if value is not None and value.shape != self.shape:
            raise GraphError(f"grad has shape {value.shape}, its tensor {self.shape}")
        self.node.grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start or stop collecting a gradient here; in place."""
        if requires_grad and category(self.dtype) < 2:
            raise DTypeError(f"a tensor of {self.dtype} has no gradient; use a float dtype")
        if not self.is_leaf:
            if not requires_grad:
                raise GraphError("requires_grad_(False) on a computed tensor; use detach()")
        elif requires_grad and self.node is None:
            self.node = Node(self.shape, self.dtype)
        elif not requires_grad:
            self.node = None
        return self

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in ``.grad`` too."""
        if self.node is None:
            raise GraphError("retain_grad() on a tensor that requires no gradient")
        self.node.hooks = {**(self.node.hooks or {}), RETAIN: None}

    def register_hook(self, hook: Callable[[Tensor], Any]) -> Handle:
        """Call ``hook(gradient)`` when the gradient of this tensor is whole, before it goes on or
        into ``.grad``; what it returns, unless None, replaces it. ``remove()`` ends that."""
        if self.node is None:
            raise GraphError("register_hook() on a tensor that requires no gradient")
        self.node.hooks = {} if self.node.hooks is None else self.node.hooks
        return Handle(self.node.hooks, hook)

    def detach(self) -> Tensor:
        """The same values, outside the graph (shared memory)."""
        result = Tensor(self.data)
        result.version = self.version
        return result

    def detach_(self) -> Tensor:
        """Leave the graph, in place."""
        if self.base is not None and self.base.source is not None:
            raise GraphError("detach_() of a view; use detach()")
        self.node = None
        return self

    def numpy(self) -> Array:
        """The values as a NumPy array: shared memory on the CPU, a copy elsewhere."""
        if self.node is not None:
            raise GraphError("numpy() on a tensor that requires a gradient; use detach().numpy()")
        self._read()
        return backend_of(self.data).get(self.data)

    def _read(self) -> None:
        if mode.watch is not None:
            mode.watch.read(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.detach().numpy(), dtype=dtype, copy=copy)

    def item(self) -> Any:
        """The one value as a Python number."""
        if self.data.size != 1:
            raise GraphError(f"item() needs one element, this tensor has shape {self.shape}")
        self._read()
        return self.data.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        self._read()
        return backend_of(self.data).get(self.data).tolist()

    def numel(self) -> int:
        """How many values there are."""
        return int(self.data.size)

    def dim(self) -> int:
        """How many axes there are."""
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """The shape as a tuple, or the length of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    def is_contiguous(self) -> bool:
        """Whether the values lie in memory row by row, without gaps."""
        return bool(self.data.flags["C_CONTIGUOUS"])

    def changed(self) -> None:
        """Note that the array was changed in place: graphs that kept it are no longer valid."""
        self.version[0] = next(clock)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if category(self.dtype) == 2:
            raise TypeError(f"a tensor of {self.dtype} cannot be an index")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        return bool((self.data == Tensor(value).data).any())

    __hash__ = object.__hash__

    def __format__(self, spec: str) -> str:
        number = self.ndim == 0 or (spec and self.data.size == 1)
        return format(self.item(), spec) if number else repr(self)

    def __repr__(self) -> str:
        from minidp.printing import tensor_text

        return tensor_text(self)

    if TYPE_CHECKING:  # given by the ops, each in its own paragraph: see ``method``
        T: Tensor

        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __iadd__(self, other: Any) -> Tensor: ...
        def __isub__(self, other: Any) -> Tensor: ...
        def __imul__(self, other: Any) -> Tensor: ...
        def __itruediv__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...


def wrap(data: Array) -> Tensor:
    """``Tensor(data)`` of what an op computed; a third of the time."""
    tensor = _new(Tensor)
    tensor.data = data if type(data) is np.ndarray else Tensor(data).data
    tensor.node = tensor.base = None
    tensor.version = [0]
    return tensor


_new = object.__new__


def method(*names: str) -> Callable[[F], F]:
    """Make a function a method of Tensor, under its own name or under ``names``."""

    def attach(function: F) -> F:
        function = numpy_names(function)
        if names and not hasattr(function, "body"):
            function.__qualname__ = f"Tensor.{names[0]}"  # what error messages call it
        for name in names or (getattr(function, "name", None) or function.__name__,):
            setattr(Tensor, name, _bound(function))
        return function

    return attach


def _bound(function: Any) -> Any:
    """A plain function that Python binds to ``self``; an op is wrapped in one."""
    if not hasattr(function, "body"):
        return function

    def call(self: Tensor, *args: Any, **constants: Any) -> Any:
        return function(self, *args, **constants)

    bound = function.short or call
    bound.__name__, bound.__doc__ = function.name, function.__doc__
    return bound
