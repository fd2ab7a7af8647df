"""A rule's cotangent in the shape and dtype of its argument, which rules need not think of."""

from __future__ import annotations

from typing import Any

from minidp.errors import ShapeError
from minidp.node import Node
from minidp.op import OPS
from minidp.tensor import Tensor
from minidp.types import Shape


def wider(node: Node, cotangent: Any, g: Any) -> bool:
    """Whether NumPy made another dtype of a rule's arrays, of several, than the library does."""
    elementwise = node.op is not None and node.op.line.elementwise and not node.op.several
    return elementwise and bool(cotangent.dtype != g.dtype)


def promoted(call: Any, g: Any, saved: Any, constants: Any, position: int) -> Any:
    """What a rule gives on Tensors: the same bytes as where it is recorded."""
    tensors = [Tensor(each) if hasattr(each, "strides") else each for each in saved]
    return call(Tensor(g), tensors, constants, position).array


def fitted(node: Node, parent: Node, cotangent: Any) -> Any:
    """The cotangent in its argument's shape and dtype."""
    if cotangent.shape != parent.shape:
        cotangent = _unbroadcast(node, cotangent, parent.shape)
    if cotangent.dtype != parent.dtype:
        cotangent = OPS["cast"](cotangent, dtype=parent.dtype)
    return cotangent


def _unbroadcast(node: Node, cotangent: Any, shape: Shape) -> Any:
    """Sum over the axes along which an argument of ``shape`` was broadcast."""
    extra = len(cotangent.shape) - len(shape)
    given = cotangent.shape[max(extra, 0) :]
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, given, strict=True)):
        raise ShapeError(
            f"{node.op.name if node.op else 'leaf'}: a rule gave a cotangent of shape "
            f"{cotangent.shape} for an argument of shape {shape}"
        )
    axes = (*range(extra), *(extra + i for i, n in enumerate(shape) if n == 1 != given[i]))
    result = OPS["sum"](cotangent, dim=axes, keepdim=False) if axes else cotangent
    return OPS["reshape"](result, shape=shape)
