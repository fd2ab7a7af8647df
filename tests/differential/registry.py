"""The table of random calls: ``CALLS[name](draw)`` is a Call of ``dp.name``, or of
``dp.Tensor.name`` for names that start with "Tensor."; files named ``calls_*`` fill it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from differential.random_values import Draw
from differential.twins import Call, Leaf

CALLS: dict[str, Callable[[Draw], Call]] = {}


def calls(names: str) -> Callable[[Any], Any]:
    """Register a generator, which is given the draw and the name, for several names."""

    def register(generator: Any) -> Any:
        for name in names.split():
            CALLS[name] = lambda draw, name=name: generator(draw, name)
        return generator

    return register


def either(draw: Draw, name: str, *args: Any, **named: Any) -> Call:
    """As a function, or where the first argument is a tensor as its method; now and then with the
    first named arguments by position."""
    named = {k: v for k, v in named.items() if v is not None}
    if isinstance(args[0], Leaf) and hasattr_tensor(name) and draw.chance(0.4):
        return Call(f"Tensor.{name}", args, named)
    return Call(name, args, named)


def hasattr_tensor(name: str) -> bool:
    import minidp as dp

    return "." not in name and hasattr(dp.Tensor, name)


def maybe(draw: Draw, p: float = 0.5, **named: Any) -> dict[str, Any]:
    return {k: v for k, v in named.items() if draw.chance(p)}


def forms(draw: Draw, name: str, x: Any, **named: Any) -> Call:
    """Named arguments, a leading part of them by position."""
    count = draw.number(0, len(named)) if draw.chance(0.6) else 0
    items = list(named.items())
    return either(draw, name, x, *(v for _, v in items[:count]), **dict(items[count:]))
