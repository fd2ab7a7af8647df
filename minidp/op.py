"""An op is declared once, as one paragraph: a shape line, a body over ``xp``, a rule per argument.

::

    @op("..., ... -> ...",
        a=lambda g, b: g * b,
        b=lambda g, a: g * a)
    def mul(xp, a, b):
        \"\"\"Product: y = a b.\"\"\"
        return a * b

A rule (the argument's vector-Jacobian product) is given what it names: ``g`` the cotangent of
the output, ``y`` the output, an argument by its name, ``x_shape`` only a shape, a constant by
its name, ``i`` the position in a variadic argument. What no rule names is not kept. Rules are
written in the library's own ops: on arrays they compute, on Tensors they are recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from minidp import shapes
from minidp.backend import backend_of
from minidp.errors import DTypeError, ShapeError
from minidp.mode import mode
from minidp.node import Node
from minidp.tensor import Tensor
from minidp.types import Array, DType, category, promote

Rule = Callable[..., Any]
OPS: dict[str, Op] = {}


class Plan:
    """For one set of arguments that need a gradient: what to keep, and how to call the rules.

    ``keep`` lists (kind, position) with kind ``input``, ``output``, ``shape`` or
    ``output_shape``; ``calls`` lists (argument, rule, sources), a source being an index into
    what was kept, or the name ``g``, ``i`` or that of a constant.
    """

    __slots__ = ("keep", "calls")

    def __init__(self, op: Op, needed: tuple[bool, ...]) -> None:
        self.keep: list[tuple[str, int]] = []
        self.calls: list[tuple[int, Rule, tuple[int | str, ...]]] = []
        for position in range(len(needed)):
            rule = op.rule_of(position) if needed[position] else None
            if rule is not None:
                sources = tuple(self._source(op, name) for name in op.asks(rule))
                self.calls.append((position, rule, sources))

    def _source(self, op: Op, name: str) -> int | str:
        item = op.meaning(name)
        if isinstance(item, str):
            return item
        if item not in self.keep:
            self.keep.append(item)
        return self.keep.index(item)


class Op:
    """A primitive of the engine; calling it dispatches, computes and records."""

    def __init__(
        self, body: Callable[..., Any], line: str, rules: dict[str, Rule], outputs: str,
        quiet: bool,
    ) -> None:  # fmt: skip
        self.body, self.name, self.__doc__ = body, body.__name__, body.__doc__
        self.line = shapes.parse(line)
        self.quiet = quiet
        self.outputs = tuple(outputs.split())
        self.differentiable = [i for i, t in enumerate(self.line.outputs) if t.kind not in ("i", "b")]
        self._read_signature()
        self.rules = rules
        self.plans: dict[tuple[bool, ...], Plan] = {}
        self._checked: set[Any] = set()
        self._valued = [i for i, t in enumerate(self.line.inputs) if t.kind not in ("i", "b")]
        self._floats = any(term.kind == "f" for term in self.line.inputs)
        for name, rule in rules.items():
            if name not in self.arguments:
                raise TypeError(f"op {self.name}: a rule for {name!r}, which is no argument")
            for asked in self.asks(rule):
                self.meaning(asked)

    def _read_signature(self) -> None:
        parameters = list(inspect.signature(self.body).parameters.values())[1:]
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        count = len(self.line.inputs)
        self.arguments = [p.name for p in parameters[:count]]
        constants = parameters[count:]
        self.constants = [p.name for p in constants]
        self.defaults = {p.name: p.default for p in constants if p.default is not p.empty}
        self.optional = {p.name for p in parameters[:count] if p.default is None}
        self.complete = len(self.defaults) == len(constants)

    @staticmethod
    def asks(rule: Rule) -> list[str]:
        """The names a rule asks for, in order."""
        return list(inspect.signature(rule).parameters)

    def rule_of(self, position: int) -> Rule | None:
        last = len(self.arguments) - 1
        return self.rules.get(self.arguments[min(position, last)])

    def meaning(self, name: str) -> str | tuple[str, int]:
        """What a name in a rule stands for; a TypeError, at import, when for nothing."""
        if name in ("g", "i") or name in self.constants:
            return name
        for kind, suffix in (("input", ""), ("shape", "_shape")):
            for position, argument in enumerate(self.arguments):
                if name == argument + suffix:
                    return kind, -1 if self.variadic else position
        for kind, suffix in (("output", ""), ("output_shape", "_shape")):
            for position, output in enumerate(self.outputs):
                if name == output + suffix:
                    return kind, position
        known = ["g", *self.arguments, *(f"{a}_shape" for a in self.arguments)]
        known += [*self.outputs, *self.constants]
        raise TypeError(f"op {self.name}: a rule asks for {name!r}; known are {', '.join(known)}")

    def __repr__(self) -> str:
        return f"<op {self.name}: {self.line.text}>"

    def __call__(self, *inputs: Any, **constants: Any) -> Any:
        count = len(self.arguments)
        if constants or len(inputs) != count or not self.complete:
            inputs, constants = self.bind(inputs, constants)
        else:
            constants = self.defaults
        return apply(self, inputs, constants)

    def bind(
        self, inputs: tuple[Any, ...], given: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Sort a call's arguments into arrays and constants, as Python would."""
        constants = dict(self.defaults)
        if not self.variadic:
            count = len(self.arguments)
            constants.update(zip(self.constants, inputs[count:], strict=False))
            rest = [given.pop(n, None) for n in self.arguments[len(inputs) : count]]
            inputs = (*inputs[:count], *rest)
        constants.update(given)
        if len(constants) != len(self.constants) or not self._complete(inputs):
            signature = inspect.signature(self.body)
            raise TypeError(f"{self.name}: expected {self.name}{signature}, without xp")
        return inputs, constants

    def _complete(self, inputs: tuple[Any, ...]) -> bool:
        if self.variadic:
            return True
        named = zip(self.arguments, inputs, strict=True)
        return all(x is not None or name in self.optional for name, x in named)

    def compute(self, arrays: list[Array], constants: dict[str, Any]) -> Any:
        """Check, promote, and run the kernel or the body; arrays in, arrays out."""
        backend = backend_of(next((a for a in arrays if hasattr(a, "strides")), 0))
        self._check(arrays)
        arrays = self._promoted(arrays)
        try:
            kernel = backend.kernel(self.name)
            if kernel is not None:
                result = kernel(*arrays, **constants)
                if result is not NotImplemented:
                    return result
            if self.quiet:
                with np.errstate(all="ignore"):
                    return self.body(backend.xp, *arrays, **constants)
            return self.body(backend.xp, *arrays, **constants)
        except ValueError as error:
            raise self._explained(error, arrays) from error

    def _check(self, arrays: list[Array]) -> None:
        if self.line.elementwise:
            return
        given = tuple([None if a is None else getattr(a, "shape", ()) for a in arrays])
        if given not in self._checked:
            shapes.check(self.name, self.line, given)
            self._check_kinds(arrays)
            if len(self._checked) < 4096:
                self._checked.add(given)

    def _check_kinds(self, arrays: list[Array]) -> None:
        for array, term in zip(arrays, self.line.inputs, strict=False):
            if term.kind == "i" and array is not None and category(np.asarray(array).dtype) == 2:
                raise DTypeError(f"{self.name}: expected integers, got {array.dtype}")

    def _promoted(self, arrays: list[Array]) -> list[Array]:
        """The arrays in one dtype, by PyTorch's rule; untouched when they already are."""
        dtype, weak = None, False
        for position in self._valued if not self.variadic else range(len(arrays)):
            array = arrays[position]
            found = getattr(array, "dtype", None)
            if found is None:
                weak = weak or type(array) is float
            elif dtype is None:
                dtype = found
            elif found is not dtype:
                return self._promote(arrays)
        if dtype is not None and (dtype.kind == "f" or not (weak or self._floats)):
            return arrays
        return self._promote(arrays)

    def _promote(self, arrays: list[Array]) -> list[Array]:
        """Arrays with axes decide; those without, and numbers, only by a higher category."""
        valued = range(len(arrays)) if self.variadic else self._valued
        chosen = [i for i in valued if arrays[i] is not None]
        dtypes = [_dtype(arrays[i]) for i in chosen]
        if not (self.line.elementwise or self.variadic) and len(set(dtypes)) > 1:
            raise DTypeError(
                f"{self.name}: arguments of {' and '.join(map(str, dict.fromkeys(dtypes)))}; "
                "expected one dtype: convert with .float(), .double() or .to(dtype)"
            )
        result = result_type([arrays[i] for i in chosen])
        if self._floats and category(result) < 2:
            result = mode.default_dtype
        cast = list(arrays)
        for i in chosen:
            if hasattr(arrays[i], "dtype") and arrays[i].dtype != result:
                cast[i] = arrays[i].astype(result)
        return cast

    def _explained(self, error: ValueError, arrays: list[Array]) -> ValueError:
        if isinstance(error, ShapeError) or not self.line.elementwise:
            return error
        given = [np.shape(a) for a in arrays if a is not None]
        return ShapeError(shapes.broadcast_message(self.name, given))


def result_type(values: list[Any]) -> DType:
    """The dtype of an operation on ``values``, by PyTorch's rule.

    Arrays with axes decide; arrays without, then Python numbers, only by a higher category.
    """
    groups: list[list[DType]] = [[], [], []]
    for value in values:
        rank = 2 if not hasattr(value, "dtype") else 1 if value.ndim == 0 else 0
        groups[rank].append(_dtype(value))
    result: DType | None = None
    for dtypes in groups:
        if dtypes and (result is None or max(map(category, dtypes)) > category(result)):
            result = promote([*dtypes, *([result] if result is not None else [])])
    return result if result is not None else mode.default_dtype


def _dtype(value: Any) -> DType:
    if hasattr(value, "dtype"):
        return np.dtype(value.dtype)
    if isinstance(value, bool):
        return np.dtype(bool)
    return np.dtype("int64") if isinstance(value, int) else mode.default_dtype


def apply(op: Op, inputs: tuple[Any, ...], constants: dict[str, Any]) -> Any:
    """Run ``op``; when an input is a Tensor, wrap the result and record how it was made."""
    tensors = False
    arrays: list[Array] = []
    sources: list[Tensor | None] = []
    for x in inputs:
        if isinstance(x, Tensor):
            tensors = True
            if type(x) is not Tensor and mode.replica is not None:
                x = mode.replica.local(x)
            arrays.append(x.data)
            sources.append(x)
        else:
            arrays.append(x)
            sources.append(None)
    if any([isinstance(x, np.generic) for x in arrays]):
        arrays = _without_scalars(arrays, tensors)
    result = op.compute(arrays, constants)
    if not tensors:
        return result
    record = mode.grad and any(s is not None and s.node is not None for s in sources)
    node = _record(op, arrays, sources, constants, result) if record and op.rules else None
    return _wrap(op, result, node)


def _without_scalars(values: list[Any], tensors: bool) -> list[Any]:
    """NumPy's scalars beside Tensors as Python numbers; in rules on arrays, as arrays."""
    return [
        x if not isinstance(x, np.generic) else x.item() if tensors else np.asarray(x)
        for x in values
    ]


def _record(
    op: Op, arrays: list[Array], sources: list[Tensor | None], constants: dict[str, Any], result: Any
) -> Node | None:  # fmt: skip
    parents = tuple([s.node if s is not None else None for s in sources])
    needed = tuple([p is not None for p in parents])
    plan = op.plans.get(needed)
    if plan is None:
        plan = op.plans[needed] = Plan(op, needed)
    if not plan.calls:
        return None
    main = result[op.differentiable[0]] if isinstance(result, tuple) else result
    node = Node(np.shape(main), getattr(main, "dtype", mode.default_dtype))
    node.op, node.plan, node.parents, node.constants = op, plan, parents, constants
    saved, versions = [], []
    for kind, position in plan.keep:
        saved.append(_kept(kind, position, arrays, result, op))
        source = sources[position] if kind == "input" and position >= 0 else None
        if source is not None:
            versions += [source.version, source.version[0], op.arguments[position]]
    node.saved, node.versions = tuple(saved), tuple(versions)
    return node


def _kept(kind: str, position: int, arrays: list[Array], result: Any, op: Op) -> Any:
    if kind == "input":
        return arrays if position < 0 else arrays[position]
    if kind == "shape":
        return [np.shape(a) for a in arrays] if position < 0 else np.shape(arrays[position])
    output = result[position] if len(op.outputs) > 1 else result
    return output if kind == "output" else np.shape(output)


def _wrap(op: Op, result: Any, node: Node | None) -> Any:
    if len(op.outputs) == 1 and not isinstance(result, tuple):
        tensor = Tensor(result)
        if node is not None:
            tensor.node = node
            if node.plan.keep and ("output", 0) in node.plan.keep:
                node.versions += (tensor.version, 0, op.outputs[0])
        return tensor
    several = len(op.differentiable) > 1 or op.line.outputs[0].variadic
    tensors = tuple([Tensor(array) for array in result])
    for i, tensor in enumerate(tensors):
        if node is not None and (several or i in op.differentiable):
            tensor.node = _pick(node, tensor, i) if several else node
    return tensors


def _pick(node: Node, tensor: Tensor, slot: int) -> Node:
    """The node of one output of several: it hands its cotangent on into a slot."""
    pick = Node(tensor.shape, tensor.dtype)
    pick.op, pick.parents, pick.slot, pick.constants = node.op, (node,), slot, {}
    return pick


def op(
    line: str, *, outputs: str = "y", quiet: bool = False, **rules: Rule
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an op. ``outputs`` names what the body returns; ``quiet`` silences NumPy's
    floating-point warnings.
    """

    def declare(body: Callable[..., Any]) -> Op:
        declared = Op(body, line, rules, outputs, quiet)
        OPS[declared.name] = declared
        return declared

    return declare
