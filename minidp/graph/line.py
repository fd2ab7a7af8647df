"""The lines of a captured step, and the values that they are given and give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from minidp.backend import backend_of
from minidp.mode import mode
from minidp.random import Draw, default_generator
from minidp.types import exactly

if TYPE_CHECKING:
    from minidp.node import Node
    from minidp.op import Op
    from minidp.types import Array, DType, Shape

ARGUMENT, STATE, GRADIENT, COMPUTED = "argument", "state", "gradient", "computed"


@dataclass(eq=False)
class Value:
    """One array of a step.

    ``kind`` says where it comes from: an argument of the step, an array that lives on from step to
    step (or a constant: which of the two, two recordings tell), a leaf's gradient, or a line.
    """

    number: int
    shape: Shape
    dtype: DType
    kind: str
    array: Array = None
    node: Node | None = None
    name: str = ""
    base: Value | None = None
    """The value whose memory this one lies in, if it is a view."""
    strides: tuple[int, ...] = ()
    first: bytes | None = None
    """What an array from outside held when it was met, if it may be a constant."""
    made: bool = False
    """Whether it is a constant that the step makes anew each time."""

    def constant(self) -> Array:
        """A constant as it was made: who has the recorded one may have changed it."""
        assert self.first is not None
        backend, result = backend_of(self.array), self.array.copy("K")
        values = np.frombuffer(self.first, self.dtype).reshape(self.shape)
        result[...] = backend.put(values, backend.index(self.array))
        return result

    def __str__(self) -> str:
        if self.kind == GRADIENT:
            return f"grad{self.number}"
        return self.name or f"{'v' if self.kind == COMPUTED else 's'}{self.number}"

    def type(self) -> str:
        """Dtype and shape, ``float32[64, 10]``."""
        return f"{self.dtype}{list(self.shape)}"

    @property
    def nbytes(self) -> int:
        """Its size in bytes, also of a view that repeats itself."""
        return int(self.dtype.itemsize * math.prod(self.shape))

    @property
    def root(self) -> Value:
        """The value whose memory it is."""
        return self if self.base is None else self.base.root


class Source(Protocol):
    """What a random key is asked of."""

    def next_key(self) -> Any: ...


@dataclass(frozen=True)
class Key:
    """A random key that the step draws: which draw of the step it is, and of which generator."""

    number: int
    generator: Source

    def __str__(self) -> str:
        return f"key{self.number}"


@dataclass(frozen=True)
class InReplica:
    """The generator of whichever replica replays the step: each launch makes new ones."""

    def next_key(self) -> Any:
        """The next random key of the running replica."""
        replica = mode.replica
        return (default_generator if replica is None else replica.generator).next_key()


@dataclass(eq=False)
class Line:
    """One op of a step: what it was given and what it gave.

    Without an op, a line sets the gradient of the leaf ``node``, or makes a ``call`` in Python, in
    which ``tensors`` says which arguments are Tensors.
    """

    op: Op | None
    inputs: list[Any]
    constants: dict[str, Any]
    outputs: list[Value]
    path: str = ""
    phase: str = "forward"
    device: str = "cpu"
    node: Node | None = None
    call: Callable[..., Any] | None = None
    tensors: Sequence[bool] = ()
    text: str = ""

    @property
    def lasting(self) -> bool:
        """Whether the line does more than give its outputs."""
        return self.op is None or bool(self.op.writes)

    def values(self) -> list[Value]:
        """What the line is given, in its constants too."""
        return values_in([self.inputs, list(self.constants.values())])

    def parts(self) -> list[Any]:
        """All that two recordings of the line must agree on."""
        return [self.inputs, self.constants, self.outputs, self.text, self.call, self.node]

    def type(self) -> str:
        return ", ".join(output.type() for output in self.outputs)

    def __str__(self) -> str:
        if self.node is not None:
            return f"{self.text} = {self.inputs[0]}"
        given = [told(each) for each in self.inputs if each is not None]
        given += [f"{name}={told(value)}" for name, value in self.constants.items()]
        targets = ", ".join(map(str, self.outputs))
        name = self.op.name if self.op is not None else self.text
        return f"{targets}{' = ' * bool(targets)}{name}({', '.join(given)})"


def told(given: Any) -> str:
    """What a line is given, for people to read."""
    if type(given) is tuple:
        return f"({', '.join(map(told, given))}{',' * (len(given) == 1)})"
    return str(given)


def values_in(given: Any) -> list[Value]:
    if isinstance(given, Value):
        return [given]
    if isinstance(given, (list, tuple)):
        return [value for each in given for value in values_in(each)]
    return []


def source(draw: Draw) -> Source:
    """Where a replay gets the random key that a recording had from ``draw``."""
    ours = mode.replica is not None and draw.generator is mode.replica.generator
    return InReplica() if ours else draw.generator


def keys_of(line: Line) -> list[Key]:
    """The random keys that a line is given."""
    parts = [part for each in [*line.inputs, *line.constants.values()]
             for part in (each if type(each) is tuple else (each,))]  # fmt: skip
    return [part for part in parts if isinstance(part, Key)]


def agree(a: Any, b: Any, values: Callable[[Value, Value], bool]) -> bool:
    """Whether two parts of lines are the same in type and value; Values as ``values`` says."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Value):
        return values(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(agree(a[key], b[key], values) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(agree(x, y, values) for x, y in zip(a, b, strict=True))
    return a is b or bool(exactly(a) == exactly(b))
