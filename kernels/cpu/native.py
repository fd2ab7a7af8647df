"""What a captured step needs to run natively on the CPU; `native()` gives this module.

`note` runs a line on traced arrays and gives the calls that it made; `verified` says whether these
do the same on other values; a `Plan` makes a table of them, a `Bound` one that can be run.
"""

import sys

import numba
import numpy as np

from ._address import extent, low, origin_of, start
from ._arena import placed
from ._finite import all_finite
from ._inner import fields_known
from ._lines import fetched, taken
from ._meeting import Meeting
from ._names import names
from ._native import drive
from ._notes import Memory, Notes, noting
from ._orders import Orders
from ._series import run_all
from ._table import Bound, Plan, aligned, array_at
from ._traced import Traced, made, origin, plain
from ._verify import verified
from .optim import NUMBERS

__all__ = ["Array", "Bound", "Meeting", "Memory", "Orders", "Plan", "aligned", "all_finite",
           "array_at", "as_traced", "drive", "extent", "fetched", "low", "native", "note",
           "numbers_of", "origin", "origin_of", "placed", "plain", "run_all", "start", "taken",
           "usable", "verified"]  # fmt: skip
Array = np.ndarray


def native():
    """This module, for who looks for it among kernels; None where it cannot be used."""
    return sys.modules[__name__] if usable() else None


def usable():
    """Whether tables can be made here: with Numba's compiler, on arrays as we know them."""
    return not numba.config.DISABLE_JIT and fields_known()


def numbers_of(rule):
    """What gives the numbers of an update from its constants, in the order of the kernel's array;
    None for a rule whose kernel takes none."""
    return NUMBERS.get(rule)


def note(function, inputs):
    """Call `function(xp, *inputs)` and take notes: its results, and the notes.

    `inputs` are traced arrays, or other things.
    """
    noting.notes = notes = Notes()
    try:
        result = function(names, *inputs)
        results = result if isinstance(result, tuple) else (result,)
        results = [y if isinstance(y, np.ndarray) else made(y) for y in results]
    except Exception as problem:  # the line is run again, and will say what it has to say
        notes.refuse(f"{type(problem).__name__}: {problem}")
        results = []
    finally:
        noting.notes = None
    return results, notes


def as_traced(y):
    """An array that a line gave, as a traced one."""
    return y if isinstance(y, Traced) else y.view(Traced)
