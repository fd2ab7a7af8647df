"""A Node remembers one application of an op: the graph that backward walks is made of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minidp.types import DType, Shape

if TYPE_CHECKING:
    from minidp.op import Op
    from minidp.record import Plan
    from minidp.tensor import Tensor


class Node:
    """One application of an op, or a leaf (``op`` is None) that collects a gradient.

    ``parents`` are the nodes of the arguments (None where no gradient flows), ``saved`` what the
    rules asked for, ``versions`` which of it must not have changed. ``slot`` says which output
    of the only parent a node picks, for ops with several differentiable outputs.
    """

    __slots__ = (
        "__weakref__",
        "constants",
        "dtype",
        "grad",
        "op",
        "parents",
        "plan",
        "retains",
        "saved",
        "shape",
        "slot",
        "versions",
    )  # fmt: skip

    op: Op | None
    plan: Plan
    parents: tuple[Node | None, ...]
    constants: dict[str, Any]
    saved: tuple[Any, ...] | None
    versions: list[Any]

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.op = None
        self.parents = ()
        self.saved = ()
        self.shape = shape
        self.dtype = dtype
        self.grad: Tensor | None = None
        self.slot: int | None = None
        self.retains = False

    def __repr__(self) -> str:
        return f"<{self.op.name if self.op else 'leaf'} -> {self.dtype}{list(self.shape)}>"
