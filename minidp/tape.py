"""A tape notes what a step does, op by op, while it runs eagerly: the lines of a Graph.

It keeps every array it meets until the step is over, so that an array is known by its identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from minidp.backend import backend_of
from minidp.errors import GraphError
from minidp.mode import mode, switched
from minidp.random import Draw, default_generator
from minidp.tensor import Tensor
from minidp.watch import Watch, line_outside

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
        return _values([self.inputs, list(self.constants.values())])

    def parts(self) -> list[Any]:
        """All that two recordings of the line must agree on."""
        return [self.inputs, self.constants, self.outputs, self.text, self.call]

    def type(self) -> str:
        return ", ".join(output.type() for output in self.outputs)

    def __str__(self) -> str:
        if self.node is not None:
            return f"{self.text} = {self.inputs[0]}"
        given = [str(each) for each in self.inputs if each is not None]
        given += [f"{name}={value}" for name, value in self.constants.items()]
        targets = ", ".join(map(str, self.outputs))
        name = self.op.name if self.op is not None else self.text
        return f"{targets}{' = ' * bool(targets)}{name}({', '.join(given)})"


def _values(given: Any) -> list[Value]:
    if isinstance(given, Value):
        return [given]
    if isinstance(given, (list, tuple)):
        return [value for each in given for value in _values(each)]
    return []


class Tape(Watch):
    """Records one run of a step with ``arguments``, which are Tensors."""

    tensors = True

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        self.lines: list[Line] = []
        self.values: list[Value] = []
        self.draws: list[Draw] = []
        self.shared: dict[Tensor, Array] = {}
        self._found: dict[int, Value] = {}  # by id: self.values keeps the arrays alive
        self._names: dict[Tensor, str] = {}
        self._leaves: dict[Node, str] = {}
        self._paths: dict[Node, str] = {}
        self._phase, self._explained = "forward", 0
        self.arguments = [
            self._new(tensor.data, ARGUMENT, name=f"x{i}") for i, tensor in enumerate(arguments)
        ]

    def _new(self, array: Array, kind: str, node: Node | None = None, name: str = "") -> Value:
        number = len(self.values)
        value = Value(number, array.shape, array.dtype, kind, array, node, name)
        value.strides = array.strides
        self.values.append(value)
        self._found[id(array)] = value
        return value

    def value(self, array: Array) -> Value:
        """The value that an array is; one from outside when it was not met before."""
        found = self._found.get(id(array))
        return self._new(array, STATE) if found is None else found

    def input(self, given: Any) -> Any:
        return self.value(given) if hasattr(given, "strides") else given

    def ran(
        self, op: Op, inputs: Sequence[Any], constants: dict[str, Any], results: Sequence[Array],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        given = [self.input(each) for each in inputs]
        kept = {name: self._constant(value) for name, value in constants.items()}
        outputs = [self._new(y, COMPUTED) for y in results]
        device = next((backend_of(a).name for a in inputs if hasattr(a, "strides")), "cpu")
        path = _path()
        self.lines.append(Line(op, given, kept, outputs, path, self._phase, device))
        for node in [tensor.node for tensor in tensors if tensor.node is not None]:
            self._paths |= dict.fromkeys((node.parents if node.slot is not None else (node,)), path)
        known = [each for each in given if isinstance(each, Value)]
        for output in outputs:
            output.base = next((v for v in known if _overlap(output.array, v.array)), None)

    def _constant(self, value: Any) -> Any:
        """A constant; arrays among them, such as indices, are values, and random keys are named."""
        if isinstance(value, Draw):
            if not any(value is draw for draw in self.draws):
                self.draws.append(value)
            return Key([value is draw for draw in self.draws].index(True), source(value))
        if type(value) is tuple:
            return tuple(map(self._constant, value))
        return self.value(value) if hasattr(value, "strides") else value

    def met(self, tensor: Tensor) -> None:
        self.shared[tensor] = tensor.data
        if mode.modules and tensor not in self._names:
            self._names |= {t: name for name, t in _tensors_of(mode.modules[0])}
        name = self.value(tensor.data).name = self._names.get(tensor, "")
        if mode.replica is not None:
            self.value(mode.replica.local(tensor).data).name = name
        if tensor.node is not None:
            self._leaves[tensor.node] = name

    def begins(self, outputs: Sequence[Tensor]) -> None:
        self._phase, self._explained = "backward", len(self.lines)

    def gave(self, node: Node, position: int, cotangent: Any) -> None:
        """What a rule computed belongs to the module that its op ran in."""
        for line in self.lines[self._explained :]:
            line.path = line.path or self._paths.get(node, "")
        self._explained = len(self.lines)

    def gathers(self, node: Node) -> None:
        if node.grad is not None and id(node.grad.data) not in self._found:
            self._new(node.grad.data, GRADIENT, node)

    def gathered(self, node: Node) -> None:
        assert node.grad is not None
        value = self.value(node.grad.data)
        line = Line(None, [value], {}, [], _path(), self._phase, node=node)
        line.text = f"gradient of {self._leaves.get(node, 'a leaf')}"
        self.lines.append(line)

    def read(self, tensor: Tensor) -> None:
        found = self._found.get(id(tensor.data))
        if found is not None and found.kind in (ARGUMENT, COMPUTED):
            raise GraphError(
                f"a value of the captured step was read in Python, {line_outside()}: it may be "
                "another in the next step, which the graph could not know. Return the tensor and "
                "read it outside, or compute with it: dp.where, tensor indices"
            )

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run it unrecorded now, and again each time the graph is replayed.

        Its arguments that are Tensors or arrays, and what it returns if that is one, are values.
        """
        for shared in [a for a in arguments if isinstance(a, Tensor) and type(a) is not Tensor]:
            self.met(shared)
        given = [self.input(a.data if isinstance(a, Tensor) else a) for a in arguments]
        with switched(watch=None):
            result = function(*arguments)
        if getattr(function, "told_as", "") == "update":
            self._phase = "update"
        array = result.data if isinstance(result, Tensor) else result
        outputs = [self._new(array, COMPUTED)] if hasattr(array, "strides") else []
        path = _path()
        if self._phase == "backward" and self.lines:
            path = path or self.lines[-1].path
        line = Line(None, given, {}, outputs, path, self._phase, call=function)
        line.text = getattr(function, "__qualname__", repr(function))
        line.tensors = [isinstance(a, Tensor) for a in arguments]
        self.lines.append(line)
        return result


def _tensors_of(module: Any) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _overlap(a: Array, b: Array) -> bool:
    backend = backend_of(a)
    return backend is backend_of(b) and bool(a is b or backend.xp.may_share_memory(a, b))


def source(draw: Draw) -> Source:
    """Where a replay gets the random key that a recording had from ``draw``."""
    ours = mode.replica is not None and draw.generator is mode.replica.generator
    return InReplica() if ours else draw.generator


def _path() -> str:
    """The module that runs, as the outermost one names it; that one by its type."""
    if not mode.modules:
        return ""
    outer, inner = mode.modules[0], mode.modules[-1]
    named = (name for name, module in outer.named_modules() if module is inner)
    return next(named, "") or type(outer).__name__
