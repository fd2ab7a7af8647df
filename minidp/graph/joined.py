"""Lines that a kernel does in one, so that what is between them never is in memory as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from minidp.backend import CPU
from minidp.graph.line import Line, Value
from minidp.types import Array


class Joined:
    """Stands for an op in a line on the CPU that does the work of ``lines``: the kernel ``name``,
    or where it declines the lines one after the other."""

    own, writes, exchanges, variadic = True, (), False, False
    line = SimpleNamespace(elementwise=False)

    def __init__(self, name: str, lines: Sequence[Line], inputs: Sequence[Any],
                 outputs: Sequence[Value]) -> None:  # fmt: skip
        self.name, self.lines, self.inputs, self.outputs = name, lines, inputs, outputs
        self.defaults: dict[str, Any] = {}
        self.valued = [i for i, each in enumerate(inputs)
                       if isinstance(each, Value) and each.dtype.kind == "f"]  # fmt: skip

    def body(self, xp: Any, *arrays: Array, **constants: Any) -> tuple[Array, ...]:
        """What the lines give; ``constants`` are the kernel's."""
        known: dict[Any, Any] = dict(zip(self.inputs, arrays, strict=True))
        for line in self.lines:
            given = [known[x] if isinstance(x, Value) else x for x in line.inputs]
            y = _computed(line.op, xp, given, line.constants)
            known |= zip(line.outputs, y if isinstance(y, tuple) else (y,), strict=True)
        return tuple(known[y] for y in self.outputs)

    def compute(self, arrays: Sequence[Array], constants: dict[str, Any]) -> Any:
        """As ``Op.compute``."""
        return _computed(self, np, arrays, constants)


def _computed(op: Any, xp: Any, given: Sequence[Any], constants: dict[str, Any]) -> Any:
    kernel = CPU.kernel(op.name)
    y = NotImplemented if kernel is None else kernel(*given, **constants)
    return op.body(xp, *given, **constants) if y is NotImplemented else y
