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
its name, ``constants`` all of them, ``i`` the position in a variadic argument. What no rule names
is not kept. Rules are written in the library's own ops: on arrays they compute, on Tensors they
are recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import call
from typing import Any

import numpy as np

from minidp import shapes
from minidp.backend import CPU, backend_of_first
from minidp.errors import ArgumentError, DTypeError, MinidpError, PlaceError, ShapeError
from minidp.mode import mode, quiet
from minidp.naming import translated
from minidp.node import Node
from minidp.promotion import promoted
from minidp.record import Plan, apply
from minidp.shapes import Term
from minidp.short import function_of, operator, short, view
from minidp.tensor import Tensor
from minidp.types import Array, category

Rule = Callable[..., Any]
Check = Callable[..., Any]
OPS: dict[str, Op] = {}
NAMES = ("input", "other", *[""] * 16)
"""PyTorch's names of arguments, which the engine's own ops answer to as well."""


class Op:
    """A primitive of the engine; calling it dispatches, computes and records."""

    def __init__(
        self, body: Callable[..., Any], line: str, rules: dict[str, Rule], outputs: str,
        view: bool, writes: str, check: Check | None, exchanges: bool,
    ) -> None:  # fmt: skip
        self.body, self.name, self.__doc__ = body, body.__name__, body.__doc__
        self.own = (body.__module__ or "").startswith("minidp.")  # then kernels are meant for it
        self.line = shapes.parse(line)
        self.view, self.writes, self.check = view, tuple(writes.split()), check
        self.exchanges = exchanges
        self.outputs = tuple(outputs.split())
        terms = self.line.outputs
        self.differentiable = [i for i, t in enumerate(terms) if t.kind not in ("i", "b")]
        self.several = len(self.differentiable) > 1 or self.line.outputs[0].variadic
        self._read_signature()
        self.rules = rules
        self.plans: dict[int, Plan | None] = dict.fromkeys((3, 5, 6, 7))
        self._checked: set[Any] = set()
        self.valued = [i for i, t in enumerate(self.line.inputs) if t.kind not in ("i", "b")]
        self._integers = [i for i, t in enumerate(self.line.inputs) if t.kind == "i"]
        self.floats = any(term.kind == "f" for term in self.line.inputs)
        self._free = self.line.elementwise and check is None and not self._integers
        self.plain: Callable[..., Any] | None = None
        self.bare = False
        self.short = self._short(terms)
        self.operator = operator(self)
        for name, rule in rules.items():
            if name not in self.arguments:
                raise TypeError(f"op {self.name}: a rule for {name!r}, which is no argument")
            for asked in self.asks(rule):
                self.meaning(asked)

    def _short(self, terms: tuple[Term, ...]) -> Callable[..., Any] | None:
        """The short way to call the op, see ``minidp.short``, if it may have one.

        It is taken once ``plain`` says what it calls.
        """
        plain = self._free and not (self.constants or self.variadic or self.view or self.writes)
        if not plain or self.optional or len(terms) != 1 or len(self.arguments) > 2:
            return None
        return short(self)

    def _read_signature(self) -> None:
        parameters = list(inspect.signature(self.body).parameters.values())[1:]
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        count = len(self.line.inputs)
        self.arguments = [p.name for p in parameters[:count]]
        constants = parameters[count:]
        self.constants = [p.name for p in constants]
        self.counts = len(self.arguments), len(self.constants)
        self.defaults = {p.name: p.default for p in constants if p.default is not p.empty}
        self.optional = {p.name for p in parameters[:count] if p.default is None}

    @staticmethod
    def asks(rule: Rule) -> list[str]:
        """The names a rule asks for, in order."""
        if inspect.isfunction(rule) and not hasattr(rule, "__wrapped__"):  # ten times as quick
            return list(rule.__code__.co_varnames[: rule.__code__.co_argcount])
        return list(inspect.signature(rule).parameters)

    def argument(self, position: int) -> str:
        """The name of an argument; variadic ones share theirs."""
        return self.arguments[min(position, len(self.arguments) - 1)]

    def rule_of(self, position: int) -> Rule | None:
        return self.rules.get(self.argument(position))

    def meaning(self, name: str) -> str | tuple[str, int]:
        """What a name in a rule stands for; a TypeError, at import, when for nothing."""
        if name in ("g", "i", "constants") or name in self.constants:
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
        if self.short is not None and not constants and len(inputs) == self.counts[0] and (
                type(inputs[0]) is Tensor or type(inputs[-1]) is Tensor):  # fmt: skip
            return self.short(*inputs)
        counts = 1 if self.variadic else len(inputs), len(constants)
        if counts != self.counts or "axis" in constants:
            inputs, constants = self.bind(inputs, constants)
        if self.view and self._free:
            return view(self, inputs[0], constants)
        return apply(self, inputs, constants)

    def bind(
        self, inputs: tuple[Any, ...], given: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Sort a call's arguments into arrays and constants, as Python would."""
        given = translated(self.name, given) if self.own else given
        constants, count = {**self.defaults, **given}, len(self.arguments)
        surplus = not self.variadic and len(inputs) > count + len(self.constants)
        if not self.variadic and len(inputs) > count:
            constants.update(zip(self.constants, inputs[count:], strict=False))
            inputs = inputs[:count]
        elif not self.variadic and len(inputs) < count:
            rest = self.arguments[len(inputs) :]
            named = zip(rest, NAMES[len(inputs) :] if self.own else rest, strict=False)
            inputs = (*inputs, *[constants.pop(name, constants.pop(also, None))
                                 for name, also in named])  # fmt: skip
        if surplus or len(constants) != len(self.constants) or not self._complete(inputs):
            raise TypeError(f"{self.name}: expected {self._signature()}")
        return inputs, constants

    def _signature(self) -> str:
        """How the op is called, for error messages."""
        parameters = list(inspect.signature(self.body).parameters.values())[1:]
        plain = [p.replace(annotation=p.empty) for p in parameters]
        return f"{self.name}{inspect.Signature(plain)}"

    def _complete(self, inputs: tuple[Any, ...]) -> bool:
        if self.variadic:
            return True
        named = zip(self.arguments, inputs, strict=True)
        return all(x is not None or name in self.optional for name, x in named)

    def plan(self, parents: Sequence[Node | None]) -> Plan:
        """What to keep when these parents (not None) need a gradient; made once for each set."""
        key = 1
        for parent in parents:
            key = 2 * key + (parent is not None)
        found = self.plans.get(key)
        if found is None:
            found = self.plans[key] = Plan(self, [parent is not None for parent in parents])
        return found

    def compute(self, arrays: list[Array], constants: dict[str, Any]) -> Any:
        """Check, promote, and run the kernel or the body; arrays in, arrays out."""
        backend = backend_of_first(arrays)
        if not self._free:
            self._check(arrays, constants)
        arrays = promoted(self, arrays)
        kernel = backend.kernel(self.name) if self.own else None
        run = call if quiet.get() else mode.run
        if backend is CPU and not (self.plain or self.bare):
            self.plain, self.bare = function_of(self, kernel), kernel is None
        try:
            if kernel is not None:
                result = run(kernel, *arrays, **constants)
                if result is not NotImplemented:
                    return result
            if backend is CPU:
                return run(self.body, np, *arrays, **constants)
            with backend.activate(backend.index_of(arrays)):
                return run(self.body, backend.xp, *arrays, **constants)
        except (TypeError, ValueError, IndexError) as error:
            explained = self._explained(error, arrays)
            if explained is error:
                raise
            raise explained from error

    def _check(self, arrays: list[Array], constants: dict[str, Any]) -> None:
        for position in self._integers:
            self._check_integers(arrays[position])
        if self.line.elementwise and self.check is None:
            return
        given = tuple([None if a is None else getattr(a, "shape", ()) for a in arrays])
        if not self.line.elementwise and given not in self._checked:
            shapes.check(self.name, self.line, given)
            if len(self._checked) < 4096:
                self._checked.add(given)
        if self.check is not None:
            self.check(*given, **constants)

    def _check_integers(self, array: Array) -> None:
        if array is None:
            return
        dtype = array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype
        if category(dtype) == 2:
            raise DTypeError(f"{self.name}: expected integers, got {dtype}")

    def _explained(self, error: Exception, arrays: list[Array]) -> Exception:
        """What NumPy says of shapes and of bools, naming the op, and what a kernel says of places;
        an error of a user's own op as it is."""
        if isinstance(error, TypeError):
            bools = self.own and "numpy boolean" in str(error)
            return DTypeError(f"{self.name}: {error}") if bools else error
        if isinstance(error, IndexError):
            told = not self.own or isinstance(error, MinidpError)
            return error if told else PlaceError(str(error))
        given = [np.shape(a) for a in arrays if a is not None]
        if self.line.elementwise and not shapes.broadcasts(given):
            return ShapeError(shapes.broadcast_message(self.name, given))
        if not self.own or isinstance(error, MinidpError) or str(error).startswith(self.name):
            return error
        values = self.line.elementwise and len(given) > 1  # then it is not about shapes
        kind = ArgumentError if values else ShapeError
        return kind(f"{self.name}({', '.join(map(str, given))}): {error}")


def op(
    line: str, *, outputs: str = "y", view: bool = False, writes: str = "",
    check: Check | None = None, exchanges: bool = False, **rules: Rule,
) -> Callable[[Callable[..., Any]], Op]:  # fmt: skip
    """Declare an op. ``outputs`` names what the body returns; ``view``: it may share memory with
    the first argument; ``writes`` names arguments that are changed in place; ``check`` is given
    the arguments' shapes and the constants, and raises ShapeError for what the line cannot say;
    ``exchanges``: it meets other replicas, so each takes part in every one that its peers do.
    """

    def declare(body: Callable[..., Any]) -> Op:
        declared = Op(body, line, rules, outputs, view, writes, check, exchanges)
        if declared.own or declared.name not in OPS or not OPS[declared.name].own:
            OPS[declared.name] = declared  # a user's op may be called as one of the engine's is
        return declared

    return declare
