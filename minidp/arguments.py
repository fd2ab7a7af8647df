"""Arguments that are refused wherever they are met: lists in place of tensors, sizes that are none.
"""

from __future__ import annotations

from typing import Any

from minidp.errors import DTypeError


def expect_tensors(name: str, *values: Any) -> None:
    """A DTypeError for what is often given in place of a tensor, and is none."""
    for value in values:
        if value is None or isinstance(value, (list, tuple, dict, str, int, float)):
            raise DTypeError(f"{name}: expected a tensor, got a {type(value).__name__}; make one "
                             "with dp.tensor(...)")  # fmt: skip


def expect_counts(name: str, least: int = 0, **given: Any) -> None:
    """A ValueError for a number of features that is no integer, or below ``least``."""
    for what, value in given.items():
        if not hasattr(value, "__index__") or value < least:
            raise ValueError(f"{name}: {what}={value!r}; expected an integer, {least} or more")
