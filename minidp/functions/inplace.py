"""Arithmetic in place, with PyTorch's meaning, and NumPy's operators on Tensors.

A tensor outside the graph, or any under ``no_grad()``, is written to. A recorded tensor is
written to and takes over the node of what was computed, so its gradient is right. A leaf that
requires a gradient is refused while autograd records: its value would no longer be a leaf's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minidp.errors import DTypeError, GraphError, ShapeError
from minidp.functions.linalg import matmul
from minidp.mode import mode
from minidp.op import OPS
from minidp.placement import place
from minidp.tensor import Tensor, method
from minidp.types import category

UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow",
    "negative": "neg", "absolute": "abs", "exp": "exp", "log": "log", "sqrt": "sqrt",
    "tanh": "tanh", "sin": "sin", "cos": "cos", "sign": "sign", "maximum": "maximum",
    "minimum": "minimum", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge",
}  # fmt: skip
"""NumPy's names of the ops that it may ask a Tensor for."""


def take_over(self: Tensor, result: Tensor, name: str) -> Tensor:
    """Give ``self`` the values of ``result``, and its node when that was recorded."""
    if mode.grad and self.node is not None and self.is_leaf:
        raise GraphError(
            f"{name}: a leaf that requires a gradient would be changed in place; do it in a "
            "`with no_grad():` block, or write x = x + ... for a new tensor"
        )
    if result.shape != self.shape:
        raise ShapeError(f"{name}: the result has shape {result.shape}, the tensor {self.shape}")
    if category(result.dtype) > category(self.dtype):
        raise DTypeError(f"{name}: a result of {result.dtype} does not fit into {self.dtype}")
    self.data[...] = result.data
    self.changed()
    if mode.grad and result.node is not None:
        self.node = result.node
    return self


def _in_place(name: str) -> Callable[..., Tensor]:
    def change(self: Tensor, other: Any) -> Tensor:
        before = self
        if mode.grad and isinstance(other, Tensor) and other.node is not None:
            before = Tensor(self.data.copy())  # a rule may keep what is about to be overwritten
            before.node = self.node
        return take_over(self, OPS[name](before, other), f"{name}_")

    change.__doc__ = f"``{name}`` in place."
    return change


for _name, _sign in (("add", "iadd"), ("sub", "isub"), ("mul", "imul"), ("div", "itruediv")):
    method(f"__{_sign}__", f"{_name}_")(_in_place(_name))


@method()
def zero_(self: Tensor) -> Tensor:
    return fill_(self, 0)


@method()
def fill_(self: Tensor, value: float) -> Tensor:
    self._writable("fill_")
    self.data[...] = value
    return self


@method()
def copy_(self: Tensor, source: Any) -> Tensor:
    self._writable("copy_")
    array = source.data if isinstance(source, Tensor) else source
    self.data[...] = place(array, self.device) if hasattr(array, "dtype") else array
    return self


@method("__array_ufunc__")
def array_ufunc(self: Tensor, ufunc: Any, how: str, *inputs: Any, **options: Any) -> Any:
    """``array + tensor`` and NumPy's functions of a Tensor are ops; with ``out=`` an array, as in
    ``array += tensor``, the values are written there."""
    out = options.get("out")
    if how != "__call__" or (out is None and options):
        return NotImplemented
    if out is not None:
        values = [x.data if isinstance(x, Tensor) else x for x in inputs]
        return NotImplemented if isinstance(out[0], Tensor) else ufunc(*values, **options)
    if ufunc.__name__ == "matmul":
        return matmul(*(x if isinstance(x, Tensor) else Tensor(x) for x in inputs))
    name = UFUNCS.get(ufunc.__name__)
    return NotImplemented if name is None else OPS[name](*inputs)
