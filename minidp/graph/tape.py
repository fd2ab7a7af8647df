"""A tape notes what a step does, op by op, while it runs eagerly: the lines of a Graph.

It keeps every array it meets until the step is over, so that an array is known by its identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minidp.backend import backend_of
from minidp.errors import GraphError
from minidp.graph.line import ARGUMENT, COMPUTED, GRADIENT, STATE, Key, Line, Value, source
from minidp.graph.watch import Watch, line_outside
from minidp.mode import mode, switched
from minidp.node import clock
from minidp.random import Draw
from minidp.tensor import Tensor

if TYPE_CHECKING:
    from minidp.node import Node
    from minidp.op import Op
    from minidp.types import Array

CONSTANT = 2**20
"""Up to so many bytes, an array made anew in each step may be taken for a constant."""


class Tape(Watch):
    """Records one run of a step with ``arguments``, which are Tensors."""

    tensors = True

    def __init__(self, arguments: Sequence[Tensor], apart: Sequence[Any] = ()) -> None:
        """``apart`` are leaves that stand for arguments which were computed outside."""
        self.lines: list[Line] = []
        self.values: list[Value] = []
        self.draws: list[Draw] = []
        self.moment = next(clock)
        """When the step began: leaves that are older live on from step to step."""
        self.shared: dict[Tensor, tuple[Array, Node | None]] = {}
        """Tensors from outside whose memory and node the step relies on."""
        self.copies: dict[Tensor, int] = {}
        """Those of which a replica has a copy of its own, and their version then."""
        self.modules: dict[Any, bool] = {}
        """The modules that ran, and those in them, and whether they were training."""
        self.reads: dict[Tensor, bytes] = {}
        """Tensors from outside that Python looked at, and what it saw."""
        self.present: dict[Node, bool | None] = {}
        """Whether leaves had a gradient when the step began; None where it does not matter."""
        self._found: dict[int, Value] = {}  # by id: self.values keeps the arrays alive
        self._names: dict[Tensor, str] = {}
        self._paths: dict[Node, str] = {}
        self._phase, self._explained = "forward", 0
        self._apart = apart
        self._leaves = {a.node: "an argument" for a in arguments if a.node is not None}
        self.arguments = [
            self._new(tensor.array, ARGUMENT, name=f"x{i}") for i, tensor in enumerate(arguments)
        ]

    def _new(self, array: Array, kind: str, node: Node | None = None, name: str = "") -> Value:
        number = len(self.values)
        value = Value(number, array.shape, array.dtype, kind, array, node, name)
        value.strides = array.strides
        self.values.append(value)
        self._found[id(array)] = value
        return value

    def value(self, array: Array, lasting: bool = False) -> Value:
        """The value that an array is; one from outside when it was not met before. Small ones may
        be constants that the step makes, unless they are known to be ``lasting``."""
        found = self._found.get(id(array))
        if found is None:
            found = self._new(array, STATE)
            if not lasting and array.nbytes <= CONSTANT:
                found.first = content(Tensor(array))
        return found

    def input(self, given: Any) -> Any:
        return self.value(given) if is_array(given) else given

    def ran(
        self, op: Op, inputs: Sequence[Any], constants: dict[str, Any], results: Sequence[Array],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        given = [self.input(each) for each in inputs]
        kept = {name: self._constant(value) for name, value in constants.items()}
        outputs = [self._new(y, COMPUTED) for y in results]
        device = next((backend_of(a).name for a in inputs if is_array(a)), "cpu")
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
            same = [value == draw and value.generator is draw.generator for draw in self.draws]
            if True not in same:  # else drawn again, after the generator was set back
                self.draws.append(value)
                same.append(True)
            return Key(same.index(True), source(value))
        if type(value) is tuple:
            return tuple(map(self._constant, value))
        if isinstance(value, Tensor):
            raise GraphError(
                f"an op of the captured step was given a tensor {value.shape} as a constant, "
                f"{line_outside()}: declare it as an argument of the op, in its shape line"
            )
        return self.value(value) if is_array(value) else value

    def met(self, tensor: Tensor) -> None:
        node, plain = tensor.node, type(tensor) is Tensor
        if plain and (node is None or node.moment > self.moment or node in self._leaves):
            return
        if tensor in self.shared:
            return
        self.shared[tensor] = tensor.array, node
        if plain and node is not None:
            self._leaves[node] = ""  # others may have its node while backward runs
            return
        if mode.modules and tensor not in self._names:
            self._names |= {t: name for name, t in _tensors_of(mode.modules[0])}
        name = self.value(tensor.array, lasting=True).name = self._names.get(tensor, "")
        if mode.replica is not None:
            local = mode.replica.local(tensor)
            if node is None and local.array is not tensor.array:
                self.copies[tensor] = tensor.version[0]
            self.value(local.array, lasting=node is not None).name = name
        if node is not None:
            self._leaves[node] = name

    def replaces(self, tensor: Tensor) -> None:
        self.shared.setdefault(tensor, (tensor.array, tensor.node))  # which will not hold again

    def enters(self, module: Any) -> None:
        for each in (module,) if module in self.modules else module.modules():
            self.modules.setdefault(each, each.training)

    def seeds(self) -> None:
        raise GraphError(
            f"a generator was seeded in a captured step, {line_outside()}: it would be the same "
            "random numbers in each step. Seed it outside"
        )

    def begins(self, outputs: Sequence[Tensor]) -> None:
        self._phase, self._explained = "backward", len(self.lines)

    def gave(self, node: Node, position: int, cotangent: Any) -> None:
        """What a rule computed belongs to the module that its op ran in."""
        for line in self.lines[self._explained :]:
            line.path = line.path or self._paths.get(node, "")
        self._explained = len(self.lines)

    def gathers(self, node: Node) -> None:
        if node.moment < self.moment and node not in self._apart:
            self.present.setdefault(node, node.grad is not None)
        if node.grad is not None and id(node.grad.array) not in self._found:
            self._new(node.grad.array, GRADIENT, node)

    def gathered(self, node: Node) -> None:
        if node in self._apart:
            raise GraphError(
                "backward() in a captured step reached an argument that was computed outside: "
                "its graph is not part of the step. Compute it inside, or give its detach()"
            )
        if node.moment > self.moment:
            return  # a leaf that the step has made goes with it
        self.present.setdefault(node, None)
        value = None if node.grad is None else self.value(node.grad.array)
        self.lines.append(Line(None, [value], {}, [], _path(), self._phase, node=node))

    def title(self, node: Node) -> str:
        """What a line that sets the gradient of a leaf is called."""
        return f"gradient of {self._leaves.get(node) or 'a leaf'}"

    def state(self) -> tuple[Any, ...]:
        """What the step found in Python that may be otherwise in another run, to be known again:
        which tensors were leaves, which modules trained, which leaves had a gradient."""
        leaves = [node is not None for _, node in self.shared.values()]
        return tuple(leaves), tuple(self.modules.values()), tuple(self.present.values())

    def read(self, tensor: Tensor) -> None:
        found = self._found.get(id(tensor.array))
        if found is not None and (found.kind != STATE or self._changed(found)):
            raise GraphError(
                f"a value of the captured step was read in Python, {line_outside()}: it may be "
                "another in the next step, which the graph could not know. Return the tensor and "
                "read it outside, or compute with it: dp.where, tensor indices"
            )

        if tensor not in self.reads:
            self.reads[tensor] = content(tensor)

    def _changed(self, state: Value) -> bool:
        """Whether the step may have changed an array from outside by now."""
        return any(
            value.root is state for line in self.lines
            if line.lasting and line.node is None for value in line.values()
        )  # fmt: skip

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run it unrecorded now, and again each time the graph is replayed.

        Its arguments that are Tensors or arrays, alone or in tuples, and what it returns if that
        is one, are values; random keys among them are drawn anew.
        """
        for shared in [a for a in arguments if isinstance(a, Tensor) and type(a) is not Tensor]:
            self.met(shared)
        given = [self._constant(a.array if isinstance(a, Tensor) else a) for a in arguments]
        with switched(watch=None):
            result = function(*arguments)
        if getattr(function, "told_as", "") == "update":
            self._phase = "update"
        array = result.array if isinstance(result, Tensor) else result
        outputs = [self._new(array, COMPUTED)] if is_array(array) else []
        path = _path()
        if self._phase == "backward" and self.lines:
            path = path or self.lines[-1].path
        line = Line(None, given, {}, outputs, path, self._phase, call=function)
        line.text = getattr(function, "__qualname__", repr(function))
        line.tensors = [isinstance(a, Tensor) for a in arguments]
        self.lines.append(line)
        return result


def is_array(thing: Any) -> bool:
    """Whether it is an array; a module or the type of a number may have strides too."""
    return hasattr(thing, "strides") and isinstance(getattr(thing, "nbytes", None), int)


def content(tensor: Tensor) -> bytes:
    """The values of a tensor."""
    held: bytes = backend_of(tensor.array).get(tensor.array).tobytes()
    return held


def _tensors_of(module: Any) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _overlap(a: Array, b: Array) -> bool:
    backend = backend_of(a)
    if a is b or backend is not backend_of(b) or backend.index(a) != backend.index(b):
        return a is b
    return bool(backend.xp.may_share_memory(a, b))


def _path() -> str:
    """The module that runs, as the outermost one names it; that one by its type."""
    if not mode.modules:
        return ""
    outer, inner = mode.modules[0], mode.modules[-1]
    named = (name for name, module in outer.named_modules() if module is inner)
    return next(named, "") or type(outer).__name__
