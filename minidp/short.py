"""The short way of an op: one or two plain arrays of the CPU, without check or conversion.

What ``record.apply`` does with any arguments is done here for the most frequent ones in a third of
the time. So ``short`` calls no function that it can do without, and asks for nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.mode import mode, quiet
from minidp.node import Node, Version, clock, recorded
from minidp.record import apply, share_version
from minidp.tensor import Tensor, wrap
from minidp.types import Array, float32

if TYPE_CHECKING:
    from minidp.op import Op

NOTHING = object()
"""In place of the second argument of an op that has one."""
NUMBERS: dict[float, Array] = {}
"""Numbers as arrays of float32: NumPy computes with these twice as fast as with Python's."""
ARITHMETIC = dict.fromkeys((np.add, np.subtract, np.multiply, np.true_divide, np.equal, np.less,
                            np.not_equal, np.less_equal, np.greater, np.greater_equal))  # fmt: skip
"""What is given those: no rule of these computes with the number alone, as Python does."""
ndarray, ufunc, new = np.ndarray, np.ufunc, object.__new__


def operator(op: Op) -> Callable[..., Any]:
    """``op`` between operands: of what is no tensor, array or number NotImplemented, so that Python
    asks the other operand."""
    if op.short is not None:
        return short(op, asks=True)

    def call(a: Any, *b: Any) -> Any:
        return NotImplemented if foreign(*b) else op(a, *b)

    return call


def foreign(b: Any = NOTHING) -> bool:
    return not (isinstance(b, (int, float)) or hasattr(b, "dtype") or b is NOTHING)


def short(op: Op, asks: bool = False) -> Callable[..., Any]:
    """``op`` as a function of a Tensor, or of a Tensor and another, an array or a number."""
    plans, rules, single = op.plans, bool(op.rules), len(op.arguments) == 1

    def long(*inputs: Any) -> Any:
        if asks and foreign(inputs[-1]):
            return NotImplemented
        given = tuple([x for x in inputs if x is not NOTHING])
        whole = (given, {}) if len(given) == op.counts[0] else op.bind(given, {})
        return apply(op, *whole)

    def call(a: Any, b: Any = NOTHING) -> Any:
        now, function = mode.short, op.plain
        if now is None or function is None:
            return long(a, b)
        if type(a) is not Tensor:
            a = tensor_of(a, b) if function in ARITHMETIC else a
            if type(a) is not Tensor:
                return long(a, b)
        x, left, z = a.array, a.node, b
        right: Node | None = None
        version: Version | None = None
        dtype = x.dtype
        if single:
            fits = b is NOTHING
        elif type(b) is Tensor:
            z, right, version = b.array, b.node if b.base is None else b.fresh().node, b.version
            fits = type(z) is ndarray and z.dtype is dtype
        elif type(b) is float or type(b) is int:
            fits = True
            if dtype is float32 and function in ARITHMETIC:
                z = NUMBERS.get(b)
                z = number(b) if z is None else z
        else:
            fits = type(z) is ndarray and z.dtype is dtype
        if not fits or type(x) is not ndarray or (dtype is not float32 and dtype.kind != "f"):
            return long(a, b)
        if a.base is not None:
            left = a.fresh().node
        run, grad = now
        try:
            y = run(function, x) if single else run(function, x, z)
        except (ValueError, TypeError, RuntimeError):  # what does not fit; a body's own ops
            return long(a, b)
        result = new(Tensor)
        result.array = y if type(y) is ndarray else Tensor(y).array
        result.node = result.base = None
        result.version = [0]
        if (left is not None or right is not None) and grad and rules:
            like: Any = result.array
            parents: Sequence[Node | None]
            if single:
                plan, parents = plans[3] or op.plan((left,)), (left,)
                like = left if type(function) is ufunc else like
            else:
                key = 7 if left is not None is not right else 5 if left is None else 6
                plan, parents = plans[key] or op.plan((left, right)), (left, right)
            if not plan.calls or (type(function) is not ufunc and like.dtype.kind != "f"):
                return result
            node = result.node = Node()
            if not plan.keep:
                node.saved = node.versions = ()
            elif single:
                node.saved, node.versions = plan.pick(x, result.array), (a.version, result.version)
            else:
                node.saved = plan.pick(x, z, result.array)
                node.versions = a.version, version, result.version
            node.parents = parents
            node.shape, node.dtype, node.op, node.plan = like.shape, like.dtype, op, plan
            node.moment = next(clock)
            node.constants = node.grad = node.hooks = node.slot = None
        return result

    return call


def tensor_of(a: Any, b: Any) -> Any:
    """A number before a Tensor as another one of its dtype; anything else as it is."""
    if (type(a) is float or type(a) is int) and type(b) is Tensor:
        given = number(a, b.array)
        return a if given is a else wrap(given)
    return a


def number(value: float, like: Any = None) -> Any:
    """``value`` as an array of float32, to compute with ``like`` if that is one; else as it is."""
    if like is not None and (type(like) is not ndarray or like.dtype is not float32):
        return value
    found = NUMBERS.get(value)
    if found is None and 1e-30 < abs(value) < 1e4 and len(NUMBERS) < 1000:  # 0.0 and -0.0 are equal
        found = NUMBERS[value] = np.array(value, float32)
        found.setflags(write=False)
    return value if found is None else found


def function_of(op: Op, kernel: Callable[..., Any] | None) -> Callable[..., Any]:
    """What the short way calls: the kernel and where it declines the body; without one NumPy's
    function, if the body only hands its arguments on to that."""
    body = partial(op.body, np)
    if kernel is not None:

        def function(*arrays: Any) -> Any:
            y = kernel(*arrays)
            return body(*arrays) if y is NotImplemented else y

        return function
    given = tuple([object() for _ in op.arguments])
    try:
        name, handed_on = op.body(_Asked(), *given) if op.short and op.own else ("", ())
    except (TypeError, AttributeError):
        return body
    return getattr(np, name) if handed_on == given else body


class _Asked:
    """An array module that tells which of its functions is called, with what."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given: (name, given)


def view(op: Op, x: Any, constants: dict[str, Any]) -> Any:
    """What ``op`` gives of a Tensor or array, where that is a view of it, likewise."""
    now, array = mode.short, x.array if type(x) is Tensor else x
    if now is None or not op.bare or type(array) is not ndarray:
        return apply(op, (x,), constants)
    try:
        if "dtype" in constants and not quiet.get():  # a cast may overflow; other views only look
            y = now[0](op.body, np, array, **constants)
        else:
            y = op.body(np, array, **constants)
    except ValueError:
        return apply(op, (x,), constants)  # which says what does not fit
    if x is array:
        return y
    parent, tensor = x.node if x.base is None else x.fresh().node, wrap(y)
    share_version(op, x, constants, tensor)
    if parent is not None and op.rules and now[1] and y.dtype.kind == "f":
        plan, versions = op.plans[3] or op.plan((parent,)), (x.version, tensor.version)
        saved = plan.pick(array, y)
        tensor.node = recorded(y, op, plan, (parent,), saved, versions, constants)
    return tensor
