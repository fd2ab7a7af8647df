"""Where the first NaN came from: the op, the modules it ran in, and the line of the program.

While ``detect_anomaly`` is on, every recorded op remembers its place. When backward meets a NaN it
raises an error that names it: a NaN of the forward pass by the first op that gave one, a NaN that
appears in a derivative by the op whose rule gave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from minidp.backend import backend_of
from minidp.errors import GraphError
from minidp.graph.watch import Watch, line_outside
from minidp.mode import mode, switched
from minidp.node import Node
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.op import Op


class Anomalies(Watch):
    """Remembers where every recorded op ran, and raises at the first NaN."""

    def __init__(self) -> None:
        self.places: WeakKeyDictionary[Node, str] = WeakKeyDictionary()
        self.first: tuple[str, str] | None = None

    def ran(
        self, op: Op, inputs: Sequence[Any], constants: dict[str, Any], results: Sequence[Array],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        """Remember where the op ran, and whether it was the first that gave a NaN."""
        place = whereabouts()
        for tensor in tensors:
            if tensor.node is not None:
                self.places[tensor.node] = place
                for parent in tensor.node.parents if tensor.node.slot is not None else ():
                    if parent is not None:
                        self.places[parent] = place
        if self.first is None and any(_has_nan(y) for y in results):
            self.first = op.name, place

    def begins(self, outputs: Sequence[Tensor]) -> None:
        """Raise when what backward begins with is NaN already."""
        if any(_has_nan(output.array) for output in outputs):
            name, place = self.first or ("an op", "before detect_anomaly was on")
            raise GraphError(f"backward: the value is NaN; {name} gave the first NaN, {place}")
        self.first = None

    def gave(self, node: Node, position: int, cotangent: Any) -> None:
        """Raise when the cotangent is NaN."""
        if _has_nan(cotangent.array if isinstance(cotangent, Tensor) else cotangent):
            assert node.op is not None
            argument = node.op.argument(position)
            place = self.places.get(node, "before detect_anomaly was on")
            raise GraphError(f"backward: the cotangent of {argument!r} of {node!r} is NaN; "
                             f"that op ran {place}")  # fmt: skip


def detect_anomaly(check_nan: bool = True) -> AbstractContextManager[None]:
    """Name the op, module and line of the first NaN, in this thread, for a ``with`` block.

    Every op is checked, so it is slow: for looking, not for training.
    """
    return switched(watch=Anomalies() if check_nan else None)


class set_detect_anomaly:
    """The same from now on, or for the length of a ``with`` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _watch(Anomalies() if mode and check_nan else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _watch(self._before)


def _watch(by: Any) -> Any:
    before, mode.watch = mode.watch, by
    return before


def _has_nan(array: Any) -> bool:
    if array.dtype.kind != "f":
        return False
    return bool(backend_of(array).xp.isnan(array).any())


def whereabouts() -> str:
    """The running modules by their path, and the nearest line outside minidp."""
    return f"in {_path()}, {line_outside()}" if mode.modules else line_outside()


def _path() -> str:
    """The module that runs, as the outermost names it: ``Net.layers.0 (Linear)``."""
    outer, inner = mode.modules[0], mode.modules[-1]
    path = next((name for name, module in outer.named_modules() if module is inner), "")
    return f"{type(outer).__name__}{'.' * bool(path)}{path} ({type(inner).__name__})"
