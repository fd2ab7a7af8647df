"""What a class declares about its constructor, and what a constructor refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Any


def refuse(wrong: Any, message: str, kind: type[Exception] = ValueError) -> None:
    """Raise an error if something is wrong."""
    if wrong:
        raise kind(message)


def parameter(name: str, default: Any, annotation: str, *, named: bool = False) -> Parameter:
    kind = Parameter.KEYWORD_ONLY if named else Parameter.POSITIONAL_OR_KEYWORD
    return Parameter(name, kind, default=default, annotation=annotation)


def constructor(parameters: Iterable[Parameter], begin: Callable[..., None]) -> Any:
    """An ``__init__`` with these parameters, which calls ``begin`` with all of them by name."""
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    signature = Signature([own, *parameters], return_annotation="None")

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        try:
            given = signature.bind(self, *args, **named)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        given.apply_defaults()
        begin(**given.arguments)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
