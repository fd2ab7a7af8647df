"""What rules share that find the cotangents of all arguments at once, and ops made of ops."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from minidp.mode import mode, switched
from minidp.op import op
from minidp.ops.comparison import full_like
from minidp.tensor import Tensor


def composite(line: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a composition of ops that is one op, with kernels of its own, where it only
    computes; where it is recorded, to be differentiated again, it is its parts: so it needs no
    rules. ``xp`` is None there; the parts know their own."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def body(xp: Any, *arrays: Any, **constants: Any) -> Any:
            with switched(watch=None):  # the parts are no lines of a captured step
                return function(xp, *arrays, **constants)

        whole = op(line, **options)(body)

        @wraps(function)
        def call(*inputs: Any, **constants: Any) -> Any:
            if recorded(*inputs):
                return function(None, *inputs, **constants)
            return whole(*inputs, **constants)

        return call

    return declare


def recorded(*values: Any) -> bool:
    """Whether what is done with these is recorded, to be differentiated again."""
    return mode.grad and any(isinstance(each, Tensor) for each in values)


def each(adjoint: Callable[..., Any], names: str) -> dict[str, Any]:
    """One rule per argument from a function that gives the cotangents of all.

    It runs once: what it gave waits in ``g``, the table of this node's cotangents by output."""

    def rule(place: int) -> Any:
        @wraps(adjoint)
        def chosen(g: Any, *values: Any) -> Any:
            if "all" not in g:
                g["all"] = adjoint(g, *values)
            return g["all"][place]

        return chosen

    return {name: rule(place) for place, name in enumerate(names.split())}


def given(g: Any, output: int, like: Any) -> Any:
    """The cotangent of an output, zeros when nothing used it."""
    return g[output] if output in g else full_like(like, value=0.0)
