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
from minidp.errors import DTypeError, GraphError, ShapeError
from minidp.mode import mode
from minidp.naming import F, numpy_names
from minidp.node import RETAIN, Base, Handle, Node, latest, leaf
from minidp.placement import as_array
from minidp.types import Array, DType, Shape, category, numeric


class Tensor:
    """An array on some device, with the node that made it when a gradient may be asked for.

    ``Tensor(array)`` wraps without a copy; ``minidp.tensor(values)`` copies. A list's values get
    the default dtype, and ``Tensor(2, 3)`` is uninitialised, as PyTorch's old constructor has it.
    """

    __slots__ = ("__weakref__", "array", "base", "node", "version")
    array: Array
    node: Node | None
    version: list[int]
    base: Base | None

    def __init__(self, data: Any, requires_grad: bool = False, *sizes: int) -> None:
        if isinstance(data, Tensor):
            data = data.array
        elif type(requires_grad) is int:
            data, requires_grad = np.empty((data, requires_grad, *sizes), mode.default_dtype), False
        elif isinstance(data, list):
            data = as_array(data, mode.default_dtype)
        if isinstance(data, np.generic):
            data = np.asarray(data)
        elif not hasattr(data, "strides"):
            data = as_array(data)
        self.array, self.node, self.base, self.version = numeric(data), None, None, [0]
        if requires_grad:
            self.requires_grad_()

    @property
    def shape(self) -> Shape:
        """The length of every axis."""
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph, which notices no change there; may be assigned."""
        latest.exposed += 1
        return wrap(self._met())

    @data.setter
    def data(self, values: Any) -> None:
        mode.check_change(self)
        if mode.watch is not None:
            mode.watch.replaces(self)
        self.array = values.array if isinstance(values, Tensor) else Tensor(values).array
        if self.node is not None and self.is_leaf:
            self.node.shape, self.node.dtype = self.array.shape, self.array.dtype

    @property
    def dtype(self) -> DType:
        """The kind of the values."""
        return self.array.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self.array.ndim  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        """Where the values are; an array on the CPU is on the running replica's CPU device."""
        backend = backend_of(self.array)
        if backend.name == "cpu":
            here = mode.replica.device if mode.replica else None
            return here if here is not None and here.type == "cpu" else Device("cpu", 0)
        return Device(backend.name, backend.index(self.array))

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
        if self.node is not None and mode.watch is not None:
            mode.watch.gathers(self.node)
        return self.node.grad if self.node is not None else None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if self.node is None:
            if value is not None:
                raise GraphError("grad can be set only on a tensor that requires a gradient")
            return
        if not (value is None or isinstance(value, Tensor)):
            raise DTypeError(f"grad: expected a tensor or None, got a {type(value).__name__}")
        if value is not None and (value.shape, value.dtype) != (self.shape, self.dtype):
            raise GraphError(f"grad has shape {value.shape} and dtype {value.dtype}, its tensor "
                             f"{self.shape} and {self.dtype}")  # fmt: skip
        self.node.grad = value
        if mode.watch is not None:
            mode.watch.gathered(self.node)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start or stop collecting a gradient here; in place."""
        if requires_grad and category(self.dtype) < 2:
            raise DTypeError(f"a tensor of {self.dtype} has no gradient; use a float dtype")
        if not self.is_leaf:
            if not requires_grad:
                raise GraphError("requires_grad_(False) on a computed tensor; use detach()")
        elif requires_grad and self.node is None:
            self.node = leaf(self.array)
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
        result = wrap(self._met())
        result.version = self.version
        return result

    def detach_(self) -> Tensor:
        """Leave the graph, in place."""
        if self.base is not None and self.base.source is not None:
            raise GraphError("detach_() of a view; use detach()")
        self.node = None
        return self

    def _met(self) -> Array:
        if mode.watch is not None:
            mode.watch.met(self)
        return self.array

    def numpy(self, *, force: bool = False) -> Array:
        """The values as a NumPy array: shared memory on the CPU, a copy elsewhere."""
        if self.node is not None and not force:
            raise GraphError("numpy() on a tensor that requires a gradient; use detach().numpy()")
        self._read()
        return backend_of(self.array).get(self.array)

    def _read(self) -> None:
        if mode.watch is not None:
            mode.watch.read(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.detach().numpy(), dtype=dtype, copy=copy)

    def item(self) -> Any:
        """The one value as a Python number."""
        if self.array.size != 1:
            raise ShapeError(f"item() needs one element, this tensor has shape {self.shape}")
        self._read()
        return self.array.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        self._read()
        return backend_of(self.array).get(self.array).tolist()

    def numel(self) -> int:
        """How many values there are."""
        return int(self.array.size)

    def dim(self) -> int:
        """How many axes there are."""
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """The shape as a tuple, or the length of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def changed(self) -> None:
        """Note that the array was changed in place: graphs that kept it are no longer valid."""
        self.version[0] = latest.change()
        self._met()

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

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        from minidp.printing import tensor_text

        return tensor_text(self)

    if TYPE_CHECKING:  # given by the ops, each in its own paragraph: see ``method``
        T: Tensor

        def __getattr__(self, name: str) -> Any: ...
        def _operator(self, other: Any) -> Tensor: ...

        __add__ = __iadd__ = __radd__ = __sub__ = __isub__ = __rsub__ = _operator
        __mul__ = __imul__ = __rmul__ = __truediv__ = __itruediv__ = __rtruediv__ = _operator
        __pow__ = __rpow__ = __mod__ = __floordiv__ = __matmul__ = _operator
        __and__ = __or__ = __xor__ = __lt__ = __le__ = __gt__ = __ge__ = _operator
        def __invert__(self) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...


def wrap(data: Array) -> Tensor:
    """``Tensor(data)`` of what an op computed; a third of the time."""
    tensor = _new(Tensor)
    tensor.array = data if type(data) is np.ndarray else Tensor(data).array
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
            setattr(Tensor, name, _bound(function, name.startswith("__")))
        return function

    return attach


def _bound(function: Any, operator: bool) -> Any:
    """A plain function that Python binds to ``self``; of an op, the short way where it can be."""
    if not hasattr(function, "body"):
        return function

    def call(self: Tensor, *args: Any, **constants: Any) -> Any:
        return function(self, *args, **constants)

    alone = function.short if len(function.arguments) == 1 else None
    bound = function.operator if operator else alone or call
    bound.__name__, bound.__doc__ = function.name, function.__doc__
    return bound
