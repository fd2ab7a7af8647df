"""Random calls of public functions: one generator of awkward arguments per kind of function."""

from differential import (
    calls_create,
    calls_elementwise,
    calls_index,
    calls_layout,
    calls_matrices,
    calls_places,
    calls_reduce,
)
from differential.calls_index import key
from differential.registry import CALLS

__all__ = [
    "CALLS",
    "key",
    "calls_create",
    "calls_elementwise",
    "calls_index",
    "calls_layout",
    "calls_matrices",
    "calls_places",
    "calls_reduce",
]
