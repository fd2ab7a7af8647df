"""How long each line of a captured step takes, run one by one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of, get_backend
from minidp.errors import GraphError
from minidp.graph.line import GRADIENT, STATE, Key, Line, Value
from minidp.mode import quietly, switched
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.graph.graph import Graph


def seconds(
    graph: Graph, arguments: Sequence[Any], repeats: int, effects: bool
) -> dict[Line, float]:
    """The median time of each line that is run; see ``Graph.profile``."""
    given = arrays(graph, arguments)
    with switched(grad=False):
        runs = [quietly(Run(graph, given, effects).times) for _ in range(repeats + 1)][1:]
    return {line: median([run[line] for run in runs]) for line in runs[0]} if runs else {}


def arrays(graph: Graph, arguments: Sequence[Any]) -> list[Array]:
    """The arrays to run the step with: those of ``arguments``, or made-up ones without any."""
    if not arguments:
        return [made_up(graph, value) for value in graph.arguments]
    given = [each.array if isinstance(each, Tensor) else each for each in arguments]
    expected = [(value.shape, value.dtype) for value in graph.arguments]
    found = [(np.shape(each), getattr(each, "dtype", None)) for each in given]
    if found != expected:
        types = ", ".join(f"{value}: {value.type()}" for value in graph.arguments)
        shown = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in found)
        raise GraphError(f"the step takes ({types}), got ({shown}); without arguments it is run "
                         "with made-up ones")  # fmt: skip
    return given


def made_up(graph: Graph, value: Value) -> Array:
    """Normal numbers (positive ones where there is no dimension: counts, weights); zeros for
    integers, such as labels."""
    shape, kind = value.shape, value.dtype.kind
    numbers = np.random.default_rng(0).standard_normal(shape) if shape else np.ones(())
    array = np.asarray(numbers if kind == "f" else np.zeros(shape), value.dtype)
    backend = get_backend(next((x.device for x in graph.lines if value in x.values()), "cpu"))
    there = [v.array for v in graph.outside() if isinstance(v.array, backend.array_types)]
    return backend.put(array, backend.index(there[0]) if there else 0)


class Run:
    """One run of the lines, with the arrays that are alive."""

    def __init__(self, graph: Graph, given: Sequence[Array], effects: bool) -> None:
        self.graph, self.effects = graph, effects
        self.known: dict[Value, Array] = dict(zip(graph.arguments, given, strict=True))
        self.keys = [(0, 0, key.number) for key in graph.keys]

    def times(self) -> dict[Line, float]:
        """Run all lines; the seconds of those that are run."""
        found: dict[Line, float] = {}
        last = self.graph.last_uses()
        for number, line in enumerate(self.graph.lines):
            if line.op is not None or self.effects:
                found[line] = self._timed(line)
            else:
                self._stand_in(line.outputs)
            for value in last[number]:
                self.known.pop(value, None)
        return found

    def _timed(self, line: Line) -> float:
        given = [self._value(each) for each in line.inputs]
        if line.op is not None and line.op.writes and not self.effects:
            given = [each.copy() if hasattr(each, "strides") else each for each in given]
        constants = {name: self._value(each) for name, each in line.constants.items()}
        begin = time.perf_counter()
        result = _run(line, given, constants)
        _wait(given)
        taken = time.perf_counter() - begin
        results = result if isinstance(result, tuple) else (result,)
        arrays = [np.asarray(y) if isinstance(y, np.generic) else y for y in results]
        self.known |= zip(line.outputs, arrays, strict=False)
        return taken

    def _stand_in(self, outputs: Iterable[Value]) -> None:
        """Memory in the place of what a line that is not run would have given."""
        for value in outputs:
            self.known[value] = np.zeros(value.shape, value.dtype)

    def _value(self, given: Any) -> Any:
        if isinstance(given, Key):
            return self.keys[given.number]
        if isinstance(given, tuple):
            return tuple(map(self._value, given))
        if not isinstance(given, Value):
            return given
        if given.kind == STATE:
            return given.array
        if given.kind == GRADIENT and given not in self.known:
            grad = given.node.grad if given.node is not None else None
            missing = np.zeros(given.shape, given.dtype)
            self.known[given] = missing if grad is None else grad.array
        return self.known[given]


def _run(line: Line, given: list[Any], constants: dict[str, Any]) -> Any:
    if line.op is not None:
        return line.op.compute(given, constants)
    if line.node is not None:
        line.node.grad = None if given[0] is None else Tensor(given[0])
        return None
    assert line.call is not None
    pairs = zip(given, line.tensors, strict=True)
    result = line.call(*[Tensor(each) if tensor else each for each, tensor in pairs])
    return result.array if isinstance(result, Tensor) else result


def _wait(given: Sequence[Any]) -> None:
    """Until the device has done its work."""
    array = next((each for each in given if hasattr(each, "strides")), None)
    if array is not None:
        backend = backend_of(array)
        with backend.activate(backend.index(array)):
            backend.synchronize()
