"""NumPy's names of arguments, which PyTorch's functions answer to as well."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from minidp.arguments import expect_tensors

F = TypeVar("F", bound=Callable[..., Any])

ALSO = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction", "out": ""}
"""NumPy's names of arguments, and PyTorch's."""


def translated(function: str, named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, by PyTorch's names; a TypeError where something is to be ``out``."""
    if named.keys().isdisjoint(ALSO):
        return named
    if named.get("out") is not None:
        raise TypeError(f"{function}: out= is not taken")
    return {ALSO.get(name, name): value for name, value in named.items()
            if name != "out" and (name != "dtype" or value is not None)}  # fmt: skip


def numpy_names(function: F) -> F:
    """A function of ``dim``, so that it answers to ``axis`` and ``keepdims`` too, and to what
    NumPy's functions say when they call a method, as ``np.sum(x)`` does; others as they are."""
    code = getattr(function, "__code__", None)
    if code is None or "dim" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return function

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **translated(function.__name__, named) if named else named)
        except AttributeError:
            expect_tensors(function.__name__, *args[:1])  # a list, in place of a tensor
            raise

    return cast(F, call)
