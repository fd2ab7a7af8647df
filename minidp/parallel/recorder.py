"""Notes when each module's forward and backward runs, for the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from minidp.graph.watch import Watch
from minidp.mode import mode
from minidp.parallel.events import Event, Recording

if TYPE_CHECKING:
    from minidp.node import Node
    from minidp.op import Op
    from minidp.tensor import Tensor
    from minidp.types import Array


WHOLE = ("",)


class Recorder(Watch):
    """Tells a recording of the ops of one replica's step, by the modules that they run in."""

    def __init__(self, recording: Recording, replica: int, step: int) -> None:
        self.recording, self.replica, self.step = recording, replica, step
        self._open: list[tuple[str, int]] = []  # the spans under way, outermost first
        self._kind, self._last = "forward", perf_counter_ns()
        self._paths: dict[Node, tuple[str, ...]] = {}
        self._names: dict[Any, str] = {}
        self._types: dict[str, str] = {"": ""}
        self._model: Any = None

    def enters(self, module: Any) -> None:
        self._move(self._running())

    def ran(
        self, op: Op, inputs: Sequence[Any], constants: dict[str, Any], results: Sequence[Array],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        if self._kind == "backward":
            return
        paths = self._running()
        self._move(paths)
        for node in [tensor.node for tensor in tensors if tensor.node is not None]:
            made = node.parents if node.slot is not None else (node,)
            self._paths |= {each: paths for each in made if each is not None}

    def begins(self, outputs: Sequence[Tensor]) -> None:
        self._move(())
        self._kind = "backward"

    def gave(self, node: Node, position: int, cotangent: Any) -> None:
        self._move(self._paths.get(node, WHOLE))

    def close(self) -> None:
        """The step's computation is over; what followed the last rule belongs to the whole."""
        self._move(WHOLE)
        self._last = perf_counter_ns()
        self._move(())

    def _running(self) -> tuple[str, ...]:
        """The paths of the modules that run. The first that was called is the model, and the
        whole; others, such as the loss, lie inside of it by the names of their types."""
        if self._model is None and mode.modules:
            self._model = mode.modules[0]
        return WHOLE + tuple(self._name(m) for m in mode.modules if m is not self._model)

    def _name(self, module: Any) -> str:
        if module not in self._names:
            self._learn(mode.modules[0])
        return self._names.setdefault(module, type(module).__name__)

    def _learn(self, root: Any) -> None:
        """The names and types of the modules in ``root``."""
        start = "" if root is self._model else type(root).__name__
        for name, module in root.named_modules():
            path = ".".join(filter(None, (start, name)))
            self._names[module], self._types[path] = path, type(module).__name__

    def _move(self, paths: tuple[str, ...]) -> None:
        """What ran since the last moment belongs to ``paths`` in backward, to what was open in
        forward; spans that are left end."""
        now = perf_counter_ns()
        began = self._last if self._kind == "backward" else now
        kept = 0
        while kept < min(len(paths), len(self._open)) and self._open[kept][0] == paths[kept]:
            kept += 1
        ended = began if self._kind == "backward" else now
        for name, start in reversed(self._open[kept:]):
            detail = self._types.get(name, "")
            self.recording.events.append(
                Event(self.replica, self.step, self._kind, name, start, ended, 0, detail)
            )
        self._open[kept:] = [(name, began) for name in paths[kept:]]
        self._last = now
