"""NumPy's names of arguments, which PyTorch's functions answer to as well."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

ALSO = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction", "out": ""}
"""NumPy's names of arguments, and PyTorch's."""


def numpy_names(function: F) -> F:
    """A function of ``dim``, so that it answers to ``axis`` and ``keepdims`` too, and to what
    NumPy's functions say when they call a method, as ``np.sum(x)`` does; others as they are."""
    code = getattr(function, "__code__", None)
    if code is None or "dim" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return function

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if not named.keys().isdisjoint(ALSO):
            if named.get("out") is not None:
                raise TypeError(f"{function.__name__}: out= is not taken")
            named = {ALSO.get(name, name): value for name, value in named.items()
                     if name != "out" and (name != "dtype" or value is not None)}  # fmt: skip
        return function(*args, **named)

    return cast(F, call)
