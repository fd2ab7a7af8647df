"""A captured step as a function: Python, a call a line, or bound to memory, native.

What an eager step does around its ops (finding kernels, recording nodes, walking them) is done
once. The bytes are those of the eager step: the same kernels and bodies run in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minidp.backend import CPU
from minidp.graph.bound import Binding
from minidp.graph.bound_source import BoundSource
from minidp.graph.gpu_source import GraphSource, graph_device
from minidp.graph.graph import Graph
from minidp.graph.line import STATE, Value
from minidp.graph.noted import FirstRun, may_be_noted, whereabouts
from minidp.graph.placing import Placing
from minidp.graph.source import Source
from minidp.graph.tape import content
from minidp.mode import mode, quiet, quietly, switched
from minidp.tensor import Tensor
from minidp.types import Array

KEPT = 2**24
"""Up to so many bytes, a program that does not run keeps the memory that it is bound to."""


class Program:
    """A runnable graph. ``text`` is its Python source; ``binding`` its native part, if it has one,
    which its first run makes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._constants = constants_of(graph)
        device = graph_device(graph)
        self._source = (Source(graph, self._constants) if device is None else
                        GraphSource(graph, self._constants, device)).written()  # fmt: skip
        self._step: Callable[..., Any] = self._source.compiled()
        self.binding: Binding | None = None
        self.bindable = any(map(may_be_noted, graph.lines))
        """Whether its next run shall bind it."""
        self._shared = [(tensor, *known) for tensor, known in graph.shared.items()]
        self._copies = [*graph.copies.items()]
        self._modules = [(module, training, module._changes, _hooks(module))
                         for module, training in graph.modules.items()]  # fmt: skip
        self._present = [(node, has) for node, has in graph.present.items() if has is not None]
        self._reads = list(graph.reads.items())
        self.rests = not (self._shared or self._modules or self._present or self._reads)
        """Whether nothing that the program relies on can change."""
        self._own = all(line.op.own if line.op is not None else line.call is None
                        for line in graph.lines)  # fmt: skip

    @property
    def text(self) -> str:
        return self._source.text

    def __call__(self, arrays: Sequence[Array]) -> tuple[Tensor, ...]:
        """Run the step on the arrays of its arguments."""
        step = self._bind if self.bindable else self._step
        try:
            if self._own:
                run = mode.run
                return step(*arrays) if quiet.get() else run(step, *arrays)
            with switched(grad=False):
                return quietly(step, *arrays)
        except Exception as error:
            if not any("in the captured step" in note for note in getattr(error, "__notes__", ())):
                error.add_note(self._where(error))
            raise

    def _bind(self, *arrays: Array) -> Any:
        """The first run: what it does can be repeated natively from then on."""
        native = native_calls()
        if native is None:
            self.bindable = False
            return self._step(*arrays)
        first = FirstRun(self.graph, native, self._constants)
        results = first.run(arrays)
        self.bindable = False
        placing = Placing(first.recording, native)
        if placing.notes and placing.possible:
            self.binding = Binding(placing)
            source = BoundSource(self.graph, self._constants, self.binding).written()
            self._step, self._source = source.compiled(), source
        return results

    @property
    def graphs(self) -> list[Any]:
        """Its stretches that are CUDA graphs, as ``Backend.captured`` made them."""
        return self._source.replayed

    def nbytes(self) -> int:
        """The memory that the bound copies of the step, or its CUDA graphs, hold between runs."""
        held = self.graphs if self.binding is None else self.binding.free
        return sum(each.nbytes() for each in held)

    def let_go(self) -> None:
        """Let the memory go that it is bound to, if it is much: another program runs now."""
        if self.nbytes() <= KEPT:
            return
        for each in self.graphs:
            each.let_go()
        if self.binding is not None:
            self.binding.free.clear()

    def valid(self) -> bool:
        """Whether all is as the program expects it: parameters and buffers lie where they lay and
        are trained or not, modules train or not, hold what they held and have the hooks that they
        had, leaves have a gradient or none, and what Python looked at holds the same."""
        for tensor, array, node in self._shared:
            if tensor.array is not array or tensor.node is not node:
                return False
        for tensor, moment in self._copies:
            if tensor.version[0] != moment:
                return False
        for module, training, changes, hooks in self._modules:
            if module.training is not training or module._changes != changes:
                return False
            if _hooks(module) != hooks:
                return False
        for leaf, has in self._present:
            if (leaf.grad is not None) is not has:
                return False
        return all(content(tensor) == seen for tensor, seen in self._reads)

    def _where(self, error: BaseException) -> str:
        trace, found = error.__traceback__, None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._source.file:
                found = self._source.line_at(trace.tb_lineno)
            trace = trace.tb_next
        return whereabouts(found)


def native_calls() -> Any:
    """The module that makes tables of native calls; None where it cannot be used."""
    found = CPU.kernel("native")
    return None if found is None else found()


def constants_of(graph: Graph) -> dict[Value, Array]:
    """The constants that the step makes anew each time, as they were made."""
    return {value: value.constant() for value in graph.outside()
            if value.kind == STATE and value.made}  # fmt: skip


def _hooks(module: Any) -> list[Any]:
    """The handles of a module's hooks, in order."""
    return [*module._forward_pre_hooks, *module._forward_hooks, *module._backward_hooks]
