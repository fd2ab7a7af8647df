"""One call described once and made in both libraries; what differs in its results.

A call is described by a path ("sum", "Tensor.add_", "linalg.inv") and arguments in which a ``Leaf``
stands for a tensor and a ``DType`` for a dtype. Leaves are made in each library from the same
values, then viewed by the same methods, so that strides are alike and gradients pass through views.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minidp as dp
from minidp.errors import MinidpError

try:
    import torch
except ImportError:
    torch = None

VERSION = "2.13.0"
MISSING = (
    None
    if torch is not None and torch.__version__.split("+")[0] == VERSION
    else (f"PyTorch {VERSION} is not installed: nothing to compare with")
)
TOLERANCES = {"float16": (6e-3, 6e-3), "float32": (3e-5, 1e-5), "float64": (1e-9, 1e-11)}
"""Relative to the value, and to the largest finite value of the result (at least 1)."""
SENSIBLE = (MinidpError, ValueError, TypeError, RuntimeError, IndexError, ArithmeticError,
            AttributeError, NotImplementedError, BufferError, np.exceptions.AxisError)  # fmt: skip


@dataclass(frozen=True)
class DType:
    """A dtype by name."""

    name: str

    def __repr__(self) -> str:
        return f"dp.{self.name}"


@dataclass
class Leaf:
    """A tensor of the given values, after some methods that give views of it."""

    values: np.ndarray
    views: list[tuple[Any, ...]] = field(default_factory=list)
    grad: bool = False

    def __repr__(self) -> str:
        text = np.array2string(self.values, separator=",", threshold=30).replace("\n", "")
        views = "".join(f".{name}({', '.join(map(repr, args))})" for name, *args in self.views)
        wants = ", grad" if self.grad else ""
        return f"<{text} {self.values.dtype}{list(self.values.shape)}{views}{wants}>"


def build(lib: Any, value: Any, leaves: list[Any]) -> Any:
    """Arguments in one library; ``leaves`` gathers the tensors that want a gradient."""
    if isinstance(value, Leaf):
        x = lib.tensor(value.values.copy())
        if value.grad:
            leaves.append(x.requires_grad_())
        for name, *args in value.views:
            x = x[build(lib, args[0], [])] if name == "getitem" else getattr(x, name)(*args)
        return x
    if isinstance(value, DType):
        return getattr(lib, value.name)
    if isinstance(value, (list, tuple)):
        return type(value)(build(lib, each, leaves) for each in value)
    if isinstance(value, dict):
        return {name: build(lib, each, leaves) for name, each in value.items()}
    return value


def resolve(lib: Any, path: str) -> Any:
    if path == "assigned":
        return lambda x, key, value: _assigned(x, key, value)
    kind, _, name = path.partition("_" if path.startswith("getattr_") else ".")
    if kind == "getattr":
        return lambda x: getattr(x, name)
    if path == "linalg.eigh_values":
        return lambda x: lib.linalg.eigh(x)[0]
    if path == "linalg.qr_product":
        return lambda x: _abs_product(*lib.linalg.qr(x))
    if kind == "inplace":
        getattr(lib.Tensor, name)
        return lambda x, *args: _in_place(x, name, args)
    for part in path.split("."):
        lib = getattr(lib, part)
    return lib


def _assigned(x: Any, key: Any, value: Any) -> Any:
    """x after an assignment; recorded when the value is."""
    x = x.clone()
    x[key] = value
    return x


def _in_place(x: Any, name: str, args: Any) -> Any:
    """A view of a computed tensor, changed, and the tensor."""
    base = x.clone()
    view = base if x.ndim == 0 else base[:1] if name.startswith(("neg", "exp")) else base
    result = getattr(view, name)(*args)
    return base, result


def _abs_product(q: Any, r: Any) -> Any:
    return q @ r, abs(q), abs(r)


def flattened(result: Any) -> list[Any]:
    """Tensors and numbers in a result, however nested."""
    if isinstance(result, (list, tuple)) and not (torch and isinstance(result, torch.Size)):
        return [leaf for each in result for leaf in flattened(each)]
    return [result]


def is_tensor(value: Any) -> bool:
    return isinstance(value, (dp.Tensor, torch.Tensor))


def array(value: Any) -> np.ndarray:
    lazily_zero = isinstance(value, torch.Tensor)
    return np.asarray(value.detach().numpy(**({"force": True} if lazily_zero else {})))


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def unlike(ours: Any, theirs: Any, exact_grad: bool = True, least: str | None = None
           ) -> str | None:  # fmt: skip
    """What two values differ in; ``theirs`` is PyTorch's. ``least`` is the least exact dtype that
    had a part in them."""
    if is_tensor(ours) != is_tensor(theirs):
        return f"{type(ours).__name__} instead of {type(theirs).__name__}"
    if not is_tensor(ours):
        if isinstance(theirs, torch.dtype):
            return None if name_of(ours) == name_of(theirs) else f"{ours} instead of {theirs}"
        if isinstance(theirs, torch.Size):
            theirs = tuple(theirs)
        if isinstance(theirs, float):
            return None if np.isclose(ours, theirs, 1e-5, 1e-7, equal_nan=True) else (
                f"{ours} instead of {theirs}")  # fmt: skip
        same = type(ours) is type(theirs) and ours == theirs
        return None if same else f"{ours!r} instead of {theirs!r}"
    if name_of(ours.dtype) != name_of(theirs.dtype):
        return f"dtype {ours.dtype} instead of {name_of(theirs.dtype)}"
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"shape {ours.shape} instead of {tuple(theirs.shape)}"
    if exact_grad and ours.requires_grad != theirs.requires_grad:
        return f"requires_grad {ours.requires_grad}"
    return values_unlike(array(ours), array(theirs), least)


def values_unlike(ours: np.ndarray, theirs: np.ndarray, least: str | None = None) -> str | None:
    if ours.size == 0:
        return None
    if theirs.dtype.kind != "f":
        fits = ours == theirs
    else:
        relative, absolute = TOLERANCES[min(theirs.dtype.name, least or "float64",
                                            key=list(TOLERANCES).index)]  # fmt: skip
        finite = np.abs(theirs[np.isfinite(theirs)].astype(float))
        # the sum of what is large has the error of what is large
        scale = min(1e3, max(1.0, finite.max(initial=0)))
        with np.errstate(all="ignore"):
            fits = np.isclose(ours.astype(float), theirs.astype(float), relative,
                              absolute * scale, equal_nan=True)  # fmt: skip
    if fits.all():
        return None
    where = np.argwhere(~fits)[0] if ours.ndim else ()
    place = tuple(int(i) for i in where)
    return f"values: at {place} {ours[place]} instead of {theirs[place]}"


@dataclass
class Call:
    """A function of one library and its arguments."""

    path: str
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    values_only: bool = False
    """Whether only shapes and dtypes are compared (of what is not determined, such as empty)."""

    def __repr__(self) -> str:
        parts = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.named.items())]
        return f"{self.path}({', '.join(parts)})"

    def run(self, lib: Any) -> tuple[Any, list[Any]]:
        leaves: list[Any] = []
        args, named = (build(lib, given, leaves) for given in (self.args, self.named))
        return resolve(lib, self.path)(*args, **named), leaves


UNSUPPORTED = ("not implemented for", "not supported for", "is not implemented",
               "not yet supported", "not support", "unsupported", "only supports", "derivative for",
               "expected a floating",
               "on CPU", "Low precision", "not available", "Unsupported")  # fmt: skip


def attempt(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return function(), None
    except Exception as error:
        return None, error


def ours(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Our side: no warning of NumPy may leak."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return attempt(function)


def theirs(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attempt(function)


def brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"


def errors_unlike(mine: Exception | None, other: Exception | None) -> str | None:
    """Whether one raised and the other did not, or ours is no error for users."""
    if mine is not None and other is None:
        return f"raises {brief(mine)}"
    if mine is not None and not isinstance(mine, SENSIBLE):
        return f"raises an odd {brief(mine)}"
    if isinstance(mine, AttributeError) and not isinstance(other, AttributeError):
        return f"raises an odd {brief(mine)}"
    if mine is None and other is not None and not any(t in str(other) for t in UNSUPPORTED):
        return f"does not raise {brief(other)}"
    return None


def compare(call: Call, seed: int, second: bool = False) -> str | None:
    """The first difference between the two libraries for one call, or None."""
    mine, error = ours(lambda: call.run(dp))
    other, wrong = theirs(lambda: call.run(torch))
    if error is not None or wrong is not None:
        return errors_unlike(error, wrong)
    (results, starts), (wanted, leaves) = mine, other
    wanted = tuple(wanted) if isinstance(wanted, torch.Size) else wanted
    a, b = flattened(results), flattened(wanted)
    least = least_exact([*leaves, *b])
    if len(a) != len(b):
        return f"{len(a)} results instead of {len(b)}"
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if call.values_only and is_tensor(x) and is_tensor(y):
            x, y = x.detach() * 0 == 1, y.detach() * 0 == 1
        difference = unlike(x, y, least=least)
        if difference:
            return f"result {i}: {difference}" if len(a) > 1 else difference
        if is_tensor(y) and shared(x, starts) != shared(y, leaves):
            return f"result {i}: memory is {'' if shared(x, starts) else 'not '}shared"
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if is_tensor(y) and y.requires_grad]
    if not pairs or not leaves:
        return None
    return gradients_unlike(pairs, starts, leaves, np.random.default_rng(seed), second, least)


def least_exact(tensors: list[Any]) -> str | None:
    names = [name_of(x.dtype) for x in tensors if is_tensor(x) and x.dtype.is_floating_point]
    return min(names, key=list(TOLERANCES).index, default=None)


def shared(x: Any, leaves: list[Any]) -> bool:
    """Whether a result lies in the memory of a leaf."""
    if isinstance(x, dp.Tensor):
        return any(np.may_share_memory(x.data, leaf.data) for leaf in leaves)
    places = [leaf.untyped_storage().data_ptr() for leaf in leaves]
    return x.numel() > 0 and x.untyped_storage().data_ptr() in places


def gradients_unlike(
    pairs: Any, starts: Any, leaves: Any, rng: Any, second: bool, least: str | None
) -> str | None:
    """Cotangents of all inputs for random ones of the outputs, and second derivatives."""
    seeds = [np.asarray(rng.standard_normal(tuple(y.shape))).astype(name_of(y.dtype))
             for _, y in pairs]  # fmt: skip
    first, error = ours(lambda: dp.grad(
        [x for x, _ in pairs], starts, [dp.tensor(s) for s in seeds], create_graph=second,
        allow_unused=True))  # fmt: skip
    wanted, wrong = theirs(lambda: torch.autograd.grad(
        [y for _, y in pairs], leaves, [torch.tensor(s) for s in seeds], create_graph=second,
        allow_unused=True))  # fmt: skip
    if error is not None or wrong is not None:
        found = errors_unlike(error, wrong)
        return found and f"backward {found}"
    for i, (x, y) in enumerate(zip(first, wanted, strict=True)):
        if (x is None) != (y is None):
            if (x is None and not array(y).any()) or (y is None and not array(x).any()):
                continue  # no gradient and a gradient of zeros are the same
            return f"gradient {i}: {x} instead of {y}"
        found = x is not None and unlike(x, y, False, least)
        if found:
            return f"gradient {i}: {found}"
    if not second:
        return None
    both = [(x, y) for x, y in zip(first, wanted, strict=True) if y is not None and x is not None]
    if not all(np.isfinite(array(y)).all() for _, y in both):
        return None  # what is computed on from there has no meaning
    if not any(y.requires_grad for _, y in both):
        return None
    ends = [(x, y) for x, y in both if y.requires_grad]
    if not all(x.requires_grad for x, _ in ends):
        constant = [y for x, y in ends if not x.requires_grad]
        again, wrong = theirs(lambda: torch.autograd.grad(
            constant, leaves, [torch.ones_like(y) for y in constant], retain_graph=True,
            allow_unused=True))  # fmt: skip
        if wrong is None and any(g is not None and g.abs().sum() > 1e-4 for g in again):
            return "second derivative is missing"
        ends = [(x, y) for x, y in ends if x.requires_grad]
    if not ends:
        return None
    found = gradients_unlike(ends, starts, leaves, rng, False, least)
    return found and f"second {found}"


def available(name: str) -> bool:
    """Whether minidp has what a path names."""
    try:
        resolve(dp, name)
    except AttributeError:
        return False
    return True
