"""What the differential tests share: the same call in PyTorch and in minidp, and what differs."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

import minidp as dp

VERSION = "2.13.0"
torch = pytest.importorskip("torch", reason=f"differential tests need torch {VERSION}")
if torch.__version__.partition("+")[0] != VERSION:
    pytest.skip(
        f"differential tests need torch {VERSION}, found {torch.__version__}",
        allow_module_level=True,
    )
torch.set_num_threads(1)

TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2}


class Refused(Exception):
    """A library raised, which the other one then has to do too."""


def generator(*words: Any) -> np.random.Generator:
    """A generator that depends on the words alone."""
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def ours(value: Any, grad: bool = False) -> Any:
    """Arrays (also inside of tuples, lists and dicts) as minidp's tensors; the rest as it is."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(ours(each, grad) for each in value)
    if isinstance(value, dict):
        return {key: ours(each, grad) for key, each in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    return dp.tensor(value.copy(), requires_grad=grad and value.dtype.kind == "f")


def theirs(value: Any, grad: bool = False) -> Any:
    """The same as PyTorch's tensors."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(theirs(each, grad) for each in value)
    if isinstance(value, dict):
        return {key: theirs(each, grad) for key, each in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    return torch.tensor(value, requires_grad=grad and value.dtype.kind == "f")


def arrays(value: Any) -> list[Any]:
    """The tensors in a result, flat, as arrays; None and other things as they are."""
    if isinstance(value, (dp.Tensor, torch.Tensor)):
        array = value.detach()
        return [
            np.array(array.numpy() if isinstance(array, dp.Tensor) else array.numpy(force=True))
        ]
    if isinstance(value, dict):
        return [array for key in sorted(value) for array in arrays(value[key])]
    if isinstance(value, (tuple, list)):
        return [array for each in value for array in arrays(each)]
    return [value]


def tensors(value: Any) -> list[Any]:
    """The floating-point tensors in a result, flat."""
    if isinstance(value, (dp.Tensor, torch.Tensor)):
        return [value] if "float" in str(value.dtype) else []
    if isinstance(value, dict):
        return [each for key in sorted(value) for each in tensors(value[key])]
    if isinstance(value, (tuple, list)):
        return [each for item in value for each in tensors(item)]
    return []


def difference(mine: Any, right: Any, tolerance: float | None = None) -> str:
    """What differs between two results; "" if nothing does."""
    if isinstance(mine, np.generic):
        mine = np.asarray(mine)
    if isinstance(right, np.generic):
        right = np.asarray(right)
    if not isinstance(right, np.ndarray) or not isinstance(mine, np.ndarray):
        return "" if type(mine) is type(right) and mine == right else f"{mine!r}, not {right!r}"
    if mine.dtype != right.dtype:
        return f"dtype {mine.dtype}, not {right.dtype}"
    if mine.shape != right.shape:
        return f"shape {mine.shape}, not {right.shape}"
    if right.dtype.kind != "f":
        return "" if np.array_equal(mine, right) else f"{mine}, not {right}"
    tolerance = TOLERANCE[right.dtype.name] if tolerance is None else tolerance
    finite = np.isfinite(right)
    scale = max(1.0, float(np.abs(right[finite]).max(initial=0)))
    with np.errstate(all="ignore"):
        far = np.abs(mine.astype(np.float64) - right.astype(np.float64)) > tolerance * scale
    same = np.where(
        finite & np.isfinite(mine), ~far, (mine == right) | (np.isnan(mine) & np.isnan(right))
    )
    if same.all():
        return ""
    place = np.unravel_index(int(np.argmin(same)), same.shape)
    return f"{mine[place]!r} at {tuple(map(int, place))}, not {right[place]!r} (of {right.shape})"


def differences(mine: Any, right: Any, tolerance: float | None = None) -> str:
    """The first difference between two nested results."""
    a, b = arrays(mine), arrays(right)
    if len(a) != len(b):
        return f"{len(a)} results, not {len(b)}"
    found = [(index, difference(x, y, tolerance)) for index, (x, y) in enumerate(zip(a, b))]
    return next((f"[{index}] {text}" for index, text in found if text), "")


def attempt(call: Any, *args: Any, **kwargs: Any) -> Any:
    """What the call gives, or Refused with the error's text. Warnings are not compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return call(*args, **kwargs)
        except RuntimeWarning:
            raise
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
