"""Arithmetic in place, with PyTorch's meaning, and NumPy's operators on Tensors.

A tensor outside the graph, or any under ``no_grad()``, is written to. A recorded tensor is
written to and takes over the node of what was computed, so its gradient is right. A leaf that
requires a gradient is refused while autograd records: its value would no longer be a leaf's.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import setitem
from typing import Any

import numpy as np

from minidp.errors import ArgumentError, DTypeError, GraphError, ShapeError
from minidp.functions import comparison, elementwise, methods  # noqa: F401  (for Tensor)
from minidp.functions.linalg import matmul
from minidp.mode import aside, mode
from minidp.node import Base
from minidp.op import OPS
from minidp.placement import place
from minidp.tensor import Tensor, method
from minidp.types import category

UFUNCS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "divide": "div", "equal": "eq",
    "greater": "gt", "greater_equal": "ge", "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift", "less": "lt", "less_equal": "le", "multiply": "mul",
    "negative": "neg", "not_equal": "ne", "power": "pow", "right_shift": "bitwise_right_shift",
    "rint": "round", "subtract": "sub",
}  # fmt: skip
"""The ops that NumPy has other names for."""


def take_over(self: Tensor, result: Tensor, name: str) -> Tensor:
    """Give ``self`` the values of ``result``, and its node when that was recorded."""
    mode.check_change(self)
    root, leaf = self.fresh(), self.node is not None and self.is_leaf
    while root.base is not None and root.base.source is not None:
        root = root.base.source
        leaf = leaf or (root.node is not None and root.is_leaf)
    if mode.grad and result.node is not None and root.base is not None:
        raise GraphError(
            f"{name}: a view that was made under no_grad() would be changed by what is recorded; "
            "make the view outside, or change it under no_grad() too"
        )
    if mode.grad and leaf:
        raise GraphError(
            f"{name}: a leaf that requires a gradient would be changed in place; do it in a "
            "`with no_grad():` block, or write x = x + ... for a new tensor"
        )
    if result.shape != self.shape:
        raise ShapeError(f"{name}: the result has shape {result.shape}, the tensor {self.shape}")
    if category(result.dtype) > category(self.dtype):
        raise DTypeError(f"{name}: a result of {result.dtype} does not fit into {self.dtype}")
    if not getattr(self.array.flags, "writeable", True):
        raise ArgumentError(f"{name}: an expanded tensor or a read-only array; take a .clone()")
    aside(setitem, self.array, ..., result.array)
    self.changed()
    if mode.grad:
        self.node = result.node
        _hand_up(self)
    return self


def _hand_up(view: Tensor) -> None:
    """Tell what ``view`` is a view of that it was changed there, which has a node of its own."""
    base = view.base
    if base is None or base.source is None:
        return
    source, base.moment = base.source, view.version[0]
    if source.node is not None or view.node is not None:
        source.node = _written(source, view, base).node
    _hand_up(source)


def _written(source: Tensor, view: Tensor, base: Base) -> Tensor:
    """``source`` with ``view`` in its place, as an op."""
    if base.op.name in ("get", "cast"):
        return OPS["set_at"](source, view, key=base.constants.get("key", ...))
    count = source.numel()
    places = place(np.arange(count).reshape(source.shape), source.device)
    key = base.op.compute([places], base.constants).reshape(-1)
    flat = (OPS["reshape"](x, shape=(x.numel(),)) for x in (source, view))
    return OPS["reshape"](OPS["set_at"](*flat, key=key), shape=source.shape)


def _in_place(name: str) -> Callable[..., Tensor]:
    function = getattr(Tensor, name)

    def change(self: Tensor, *others: Any, **options: Any) -> Tensor:
        before = self
        kept = self.requires_grad and name not in LINEAR
        if mode.grad and (kept or _recorded(*others, *options.values())):
            before = self.detach().clone()  # a rule may keep what is about to be overwritten
            before.node = self.node
        return take_over(self, function(before, *others, **options), f"{name}_")

    change.__doc__ = f"``{name}`` in place."
    return change


def _recorded(*others: Any) -> bool:
    return any(isinstance(other, Tensor) and other.node is not None for other in others)


LINEAR = ("add", "sub", "mul", "div", "neg", "floor_divide", "remainder", "fmod")
"""Methods whose rules for ``self`` do not keep it."""

NEVER = ("fmax", "fmin", "is_floating_point", "isclose", "isfinite", "isinf", "isnan", "isneginf",
         "isposinf", "logaddexp", "logaddexp2", "maximum", "minimum", "positive", "rsub", "signbit",
         "where")  # fmt: skip
METHODS = [
    *[name for name in (*elementwise.__all__, *comparison.__all__) if name not in NEVER],
    "addbmm", "addmm", "addmv", "addr", "baddbmm",
]  # fmt: skip
"""Methods that exist in place too, with an underscore behind their name: of what works element by
element all but ``NEVER``."""

OPERATORS = {
    "add": "iadd", "sub": "isub", "mul": "imul", "div": "itruediv", "floor_divide": "ifloordiv",
    "remainder": "imod", "pow": "ipow", "bitwise_and": "iand", "bitwise_or": "ior",
    "bitwise_xor": "ixor", "bitwise_left_shift": "ilshift", "bitwise_right_shift": "irshift",
}  # fmt: skip

for _name in METHODS:
    method(f"{_name}_")(_in_place(_name))
for _name, _sign in OPERATORS.items():
    method(f"__{_sign}__")(_in_place(_name))


def _other_shape(name: str) -> Callable[..., Tensor]:
    function = getattr(Tensor, name)

    def change(self: Tensor, *axes: Any, **options: Any) -> Tensor:
        if self.requires_grad or self.base is not None:
            raise GraphError(f"{name}_: only a tensor outside the graph that is no view can change "
                             f"its shape in place; write x = x.{name}(...)")  # fmt: skip
        self.data = function(self, *axes, **options)
        return self

    change.__doc__ = f"``{name}`` in place."
    return change


for _name in ("squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"):
    method(f"{_name}_")(_other_shape(_name))


@method("__array_ufunc__")
def array_ufunc(self: Tensor, ufunc: Any, how: str, *inputs: Any, **options: Any) -> Any:
    """``array + tensor`` and NumPy's functions of a Tensor are ops; with ``out=`` an array, as in
    ``array += tensor``, the values are written there."""
    out = options.get("out")
    if how != "__call__" or (out is None and options):
        return NotImplemented
    if out is not None:
        values = [x.array if isinstance(x, Tensor) else x for x in inputs]
        return NotImplemented if isinstance(out[0], Tensor) else ufunc(*values, **options)
    if ufunc.__name__ == "matmul":
        return matmul(*(x if isinstance(x, Tensor) else Tensor(x) for x in inputs))
    op = OPS.get(UFUNCS.get(ufunc.__name__, ufunc.__name__))
    if op is not None and op.own:
        return op(*inputs)
    same = getattr(Tensor, ufunc.__name__, None)  # such as square, which is no op
    given = (x if isinstance(x, Tensor) else Tensor(x) for x in inputs)
    return NotImplemented if same is None else same(*given)
