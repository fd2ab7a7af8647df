"""Arguments: what is refused wherever it is met, and constructors made of declarations."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature
from math import prod
from typing import Any, TypeVar

from minidp.errors import ArgumentError, DTypeError

T = TypeVar("T")
MOST = 4096  # results that a function remembers
NEEDED = Parameter.empty
"""In place of a default: there is none."""


def refuse(wrong: Any, message: str, kind: type[Exception] = ArgumentError) -> None:
    """Raise an error if something is wrong."""
    if wrong:
        raise kind(message)


def unit(name: str, value: Any) -> None:
    """An ArgumentError for what is not between 0 and 1."""
    refuse(not 0 <= value <= 1, f"{name} expected to be between 0 and 1, but got {value}")


def positive(**named: Any) -> int:
    """The product of integers, all above 0; an ArgumentError when one is not."""
    for name, value in named.items():
        wrong = not isinstance(value, int) or value <= 0
        refuse(wrong, f"Expected positive integer {name}, but got {value}")
    return prod(named.values())


def expect_tensors(name: str, *values: Any) -> None:
    """A DTypeError for what is often given in place of a tensor, and is none."""
    for value in values:
        if value is None or isinstance(value, (list, tuple, dict, str, int, float)):
            raise DTypeError(f"{name}: expected a tensor, got a {type(value).__name__}; make one "
                             "with dp.tensor(...)")  # fmt: skip


def expect_counts(name: str, least: int = 0, **given: Any) -> None:
    """An ArgumentError for a number of features that is no integer, or below ``least``."""
    for what, value in given.items():
        if not hasattr(value, "__index__") or value < least:
            raise ArgumentError(f"{name}: {what}={value!r}; expected an integer, {least} or more")


def remembered(function: Callable[..., T]) -> Callable[..., T]:
    """Compute what a function gives of shapes and options once for those that look alike: lists
    may be among them, and 2.0 is not taken for 2."""
    kept: dict[str, T] = {}

    @wraps(function)
    def call(*arguments: Any) -> T:
        key = repr(arguments)
        found = kept.get(key)
        if found is None:
            found = function(*arguments)
            if len(kept) < MOST:
                kept[key] = found
        return found

    return call


def constructor(begin: Callable[..., None], options: dict[str, Any], **named: Any) -> Any:
    """An ``__init__`` that takes ``options`` with these defaults, and the ``named`` ones by name
    only, and calls ``begin`` with all of them by name."""
    place, keyword = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    takes = [Parameter(name, place, default=default) for name, default in options.items()]
    takes += [Parameter(name, keyword, default=default) for name, default in named.items()]
    signature = Signature([Parameter("self", place), *takes])

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        try:
            given = signature.bind(self, *args, **named)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        given.apply_defaults()
        begin(**given.arguments)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
