"""A captured step as a Python function: one call a line, each value let go after its last use.

What an eager step does around its ops (finding kernels, recording nodes, walking them) is done
once. The bytes are those of the eager step: the same kernels and bodies run in the same order.
"""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minidp.backend import CPU
from minidp.formula import Fused
from minidp.graph import Graph
from minidp.line import COMPUTED, GRADIENT, STATE, Key, Line, Value
from minidp.mode import mode, quiet, quietly, switched
from minidp.op import Op
from minidp.tape import content
from minidp.tensor import Tensor, wrap
from minidp.types import Array


class Program:
    """A runnable graph. ``text`` is its Python source."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._names: dict[str, Any] = {}
        self._known: dict[tuple[str, int], str] = {}
        text = [f"def step({', '.join(map(self._name, graph.arguments))}):"]
        self._places: list[Line | None] = [None]
        self._copied = dict.fromkeys(graph.copied())
        self._constants: dict[Value, Array] = {}
        text += [f"    {self._name(v)} = {self._global('n', v.node)}.grad.array"
                 for v in graph.gradients()]  # fmt: skip
        text += [f"    {self._name(v)} = {self._constant(v)}.copy('K')"
                 for v in self._copied]  # fmt: skip
        self._places += [None] * (len(text) - 1)
        keys = [(f"    {key} = {self._global('d', key.generator.next_key)}()", None)
                for key in graph.keys]  # fmt: skip
        drawn = 0
        for line, dead in zip(graph.lines, graph.last_uses(), strict=True):
            # as the eager step: what an error leaves undrawn is drawn in the next one
            wanted = max([key.number + 1 for key in _keys(line)], default=drawn)
            parts: list[tuple[str, Line | None]] = [*keys[drawn:wanted]]
            drawn = max(drawn, wanted)
            parts.append((f"    {self._source(line)}", line))
            if dead:
                parts.append((f"    del {', '.join(map(self._name, dead))}", line))
            text += [part for part, _ in parts]
            self._places += [place for _, place in parts]
        text += [part for part, _ in keys[drawn:]]
        self._places += [None] * len(keys[drawn:])
        results = [f"{self._global('w', wrap)}({self._name(value)}), " for value in graph.results]
        text.append(f"    return ({''.join(results)})")
        self.text, self._file = "\n".join(text), f"<captured step {id(self):#x}>"
        linecache.cache[self._file] = (len(self.text), None, self.text.splitlines(True), self._file)
        weakref.finalize(self, linecache.cache.pop, self._file, None)
        exec(compile(self.text, self._file, "exec"), self._names)
        self._step = self._names["step"]
        self._shared = [(tensor, *known) for tensor, known in graph.shared.items()]
        self._copies, self._modules = [*graph.copies.items()], [*graph.modules.items()]
        self._present = [(node, has) for node, has in graph.present.items() if has is not None]
        self._reads = list(graph.reads.items())
        self.rests = not (self._shared or self._modules or self._present or self._reads)
        """Whether nothing that the program relies on can change."""
        self._own = all(line.op.own if line.op is not None else line.call is None
                        for line in graph.lines)  # fmt: skip

    def __call__(self, arrays: Sequence[Array]) -> tuple[Tensor, ...]:
        """Run the step on the arrays of its arguments."""
        try:
            if self._own:
                run = mode.context.run
                return self._step(*arrays) if quiet.get() else run(self._step, *arrays)
            with switched(grad=False):
                return quietly(self._step, *arrays)
        except Exception as error:
            error.add_note(self._where(error))
            raise

    def valid(self) -> bool:
        """Whether all is as the program expects it: parameters and buffers lie where they lay and
        are trained or not, modules train or not, leaves have a gradient or none, and what Python
        looked at holds the same."""
        for tensor, array, node in self._shared:
            if tensor.array is not array or tensor.node is not node:
                return False
        for tensor, moment in self._copies:
            if tensor.version[0] != moment:
                return False
        for module, training in self._modules:
            if module.training is not training:
                return False
        for leaf, has in self._present:
            if (leaf.grad is not None) is not has:
                return False
        return all(content(tensor) == seen for tensor, seen in self._reads)

    def _where(self, error: BaseException) -> str:
        trace, found = error.__traceback__, None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                found = self._places[min(trace.tb_lineno, len(self._places)) - 1]
            trace = trace.tb_next
        where = f", of module {found.path}" if found is not None and found.path else ""
        return f"in the captured step, at {found}{where}"

    def _name(self, value: Value) -> str:
        """The Python name of a value: a local, or a global for what comes from outside."""
        if value.kind == STATE and value not in self._copied:
            return self._constant(value)
        letters = {COMPUTED: "v", GRADIENT: "g", STATE: "c"}
        return f"{letters.get(value.kind, 'x')}{value.number}"

    def _constant(self, value: Value) -> str:
        if value.made and value not in self._constants:
            self._constants[value] = value.constant()
        return self._global("s", self._constants.get(value, value.array))

    def _global(self, letter: str, thing: Any) -> str:
        """The name of a thing that the program uses, the same each time."""
        key = letter, id(thing)  # self._names keeps the thing alive
        name = self._known.setdefault(key, f"{letter}{len(self._known)}")
        self._names[name] = thing
        return name

    def _source(self, line: Line) -> str:
        if line.node is not None:
            target, value = self._global("n", line.node), line.inputs[0]
            made = "None" if value is None else f"{self._global('w', wrap)}({self._name(value)})"
            return f"{target}.grad = {made}"
        live = {k: c for k, c in line.constants.items() if _live(c)}
        fixed = {k: c for k, c in line.constants.items() if k not in live}
        given = [self._text(each) for each in line.inputs]
        given += [f"{name}={self._text(constant)}" for name, constant in live.items()]
        if isinstance(line.op, Fused):
            function: Callable[..., Any] = line.op
        else:
            function = _caller(line, fixed) if line.call is None else _aside(line)
        call = f"{self._global('f', function)}({', '.join(given)})"
        targets = ", ".join(map(self._name, line.outputs))
        tuples = isinstance(line.op, Op) and line.op.line.outputs[0].variadic
        targets += "," * bool(tuples)
        return f"{targets} = {call}" if targets else call

    def _text(self, given: Any) -> str:
        if isinstance(given, Value):
            return self._name(given)
        if isinstance(given, Key):
            return str(given)
        if isinstance(given, tuple):
            return f"({''.join(self._text(each) + ', ' for each in given)})"
        return "None" if given is None else self._global("k", given)


def _keys(line: Line) -> list[Key]:
    """The random keys that a line is given."""
    parts = [part for each in line.constants.values()
             for part in (each if type(each) is tuple else (each,))]  # fmt: skip
    return [part for part in parts if isinstance(part, Key)]


def _live(constant: Any) -> bool:
    """Whether a constant is found anew in each step: a random key, or one that holds arrays."""
    if isinstance(constant, (Key, Value)):
        return True
    return isinstance(constant, tuple) and any(map(_live, constant))


def _aside(line: Line) -> Callable[..., Any]:
    """The piece of Python of a line, as a function of arrays that gives an array or nothing."""
    function = line.call
    assert function is not None
    if not (any(line.tensors) or line.outputs):
        return function

    def call(*arguments: Any) -> Any:
        given = zip(arguments, line.tensors, strict=True)
        y = function(*[Tensor(a) if wrapped else a for a, wrapped in given])
        return y.array if isinstance(y, Tensor) else y

    return call


def _caller(line: Line, constants: dict[str, Any]) -> Callable[..., Any]:
    """The quickest way to compute a line: the kernel or body itself where nothing is converted."""
    op = line.op
    assert op is not None
    if not _plain(line):
        return lambda *arrays, **live: op.compute(list(arrays), {**constants, **live})
    body = partial(op.body, np, **constants)
    kernel = CPU.kernel(op.name)
    compute = body if kernel is None else _either(partial(kernel, **constants), body)
    if line.outputs and line.outputs[0].shape == ():
        return lambda *arrays, **live: np.asarray(compute(*arrays, **live))
    return compute


def _either(kernel: Callable[..., Any], body: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, or the body where it declines."""

    def call(*arrays: Array, **live: Any) -> Any:
        y = kernel(*arrays, **live)
        return body(*arrays, **live) if y is NotImplemented else y

    return call


def _plain(line: Line) -> bool:
    """Whether all that is given are float arrays of one dtype on the CPU, or integers in place."""
    op = line.op
    assert op is not None
    arrays = [value for value in line.inputs if isinstance(value, Value)]
    valued = arrays if op.variadic else [
        value for i in op.valued if isinstance(value := line.inputs[i], Value)
    ]
    return (
        line.device == "cpu" and len(line.outputs) == 1
        and len({value.dtype for value in valued}) == 1 and valued[0].dtype.kind == "f"
    )  # fmt: skip
