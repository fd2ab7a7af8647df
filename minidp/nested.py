"""Walks over what is nested in tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def mapped(function: Callable[[Any], Any], given: Any) -> Any:
    """``given`` with ``function`` of every leaf in the leaf's place; named tuples stay what they
    are."""
    if isinstance(given, dict):
        return {name: mapped(function, each) for name, each in given.items()}
    if isinstance(given, (tuple, list)):
        values = [mapped(function, each) for each in given]
        return type(given)(*values) if hasattr(given, "_fields") else type(given)(values)
    return function(given)


def leaves(given: Any) -> Iterator[Any]:
    """Every leaf, in order."""
    if isinstance(given, dict):
        given = tuple(given.values())
    if isinstance(given, (tuple, list)):
        for each in given:
            yield from leaves(each)
    else:
        yield given
