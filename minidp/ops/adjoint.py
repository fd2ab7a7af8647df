"""What rules share that find the cotangents of all arguments at once.

Such a rule runs one op where it only computes, and is composed of many where it is recorded, to be
differentiated again: then it needs no rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from minidp.mode import mode
from minidp.ops.comparison import full_like
from minidp.tensor import Tensor


def each(adjoint: Callable[..., Any], names: str) -> dict[str, Any]:
    """One rule per argument from a function that gives the cotangents of all.

    It runs once: what it gave waits in ``g``, the table of this node's cotangents by output.
    """

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


def recorded(g: Any, *values: Any) -> bool:
    """Whether what a rule does is recorded, to be differentiated again."""
    return mode.grad and any(isinstance(each, Tensor) for each in (*g.values(), *values))
