"""How a line of a captured step is called from Python, as quickly as may be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minidp.backend import CPU
from minidp.graph.formula import Fused
from minidp.graph.line import Key, Line, Value
from minidp.tensor import Tensor
from minidp.types import Array


def callable_of(line: Line) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What computes a line from its inputs and, by name, from those of its constants that are
    found anew in each step."""
    live = {name: c for name, c in line.constants.items() if is_live(c)}
    fixed = {name: c for name, c in line.constants.items() if name not in live}
    if isinstance(line.op, Fused):
        return line.op, live
    return _caller(line, fixed) if line.call is None else _aside(line), live


def is_live(constant: Any) -> bool:
    """Whether a constant is found anew in each step: a random key, or one that holds arrays."""
    if isinstance(constant, (Key, Value)):
        return True
    return isinstance(constant, tuple) and any(map(is_live, constant))


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
        return lambda *arrays, **live: _array_of(compute(*arrays, **live))
    return compute


def _array_of(y: Any) -> Any:
    """A number as an array; a tuple as it is, which some ops give of one output, too."""
    return y if isinstance(y, tuple) else np.asarray(y)


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
