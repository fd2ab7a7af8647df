"""The form of what a step is given and gives: lists, tuples and dicts around Tensors."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from minidp.device import Device
from minidp.errors import GraphError
from minidp.tensor import Tensor


class Place:
    """Where a Tensor stood."""


class Number:
    """Marks a number, which is told from equal ones of other types or signs."""


class Named:
    """Marks that keyword arguments were given."""


NOTHING = (tuple, ())


def form_of(given: Any, found: list[Tensor]) -> Any:
    """``given`` with its Tensors and arrays moved to ``found``; hashable if the rest is."""
    if isinstance(given, Tensor):
        found.append(given)
        return Place
    if given is None or type(given) is str:
        return given
    if isinstance(given, (bool, int, float, complex, np.generic)):
        return Number, given, type(given), str(given) if given == 0 else ""
    if isinstance(given, (list, tuple)):
        return type(given), tuple([form_of(each, found) for each in given])
    if isinstance(given, dict):
        return dict, tuple([(key, form_of(value, found)) for key, value in given.items()])
    if hasattr(given, "strides"):
        found.append(Tensor(given))
        return Place
    return given


def filled(form: Any, tensors: Iterator[Tensor]) -> Any:
    """The form with the next tensors in the places of Tensors."""
    if form is Place:
        return next(tensors)
    if not isinstance(form, tuple):
        return form
    kind, parts, *_ = form
    if kind is Number:
        return parts
    if kind is dict:
        return {key: filled(part, tensors) for key, part in parts}
    found = [filled(part, tensors) for part in parts]
    return kind(*found) if hasattr(kind, "_fields") else kind(found)


def detached(result: Any) -> Any:
    """What a step returned, without a graph."""
    found: list[Tensor] = []
    form = form_of(result, found)
    return filled(form, iter([tensor.detach() for tensor in found]))


CONSTANTS = (type(None), str, bytes, type, np.dtype, Device, Enum)
"""What a step may return besides Tensors and numbers: things that do not change."""


def check_constants(form: Any) -> None:
    """A GraphError where something in a result may hold what is computed anew in each step."""
    if isinstance(form, tuple):
        kind, parts, *_ = form
        for part in () if kind is Number else parts:
            check_constants(part[1] if kind is dict else part)
    elif not isinstance(form, CONSTANTS):
        raise GraphError(
            f"a captured step returned a {type(form).__name__}, which a replay could not make "
            "anew: return Tensors and numbers, also in tuples, lists and dicts"
        )
