"""Checks of gradients against differences, for the engine's own tests and for a user's ops; faults
on purpose.

A gradient is compared along random directions: for a random v and a random cotangent u,
d/dt u . f(x + t v) at t = 0 must be v . (J^T u). One direction tests every entry at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minidp.autograd import enable_grad, grad
from minidp.errors import ArgumentError, DTypeError, MinidpError
from minidp.mode import mode, switched
from minidp.parallel.faults import Fault
from minidp.tensor import Tensor
from minidp.types import Array, category

Function = Callable[..., Any]


class GradientError(MinidpError, AssertionError):
    """A gradient that differs from the difference quotient, or cannot be computed."""


def gradcheck(
    func: Function, inputs: Tensor | Sequence[Any], *, eps: float = 1e-4, atol: float = 1e-7,
    rtol: float = 1e-6, directions: int = 3, seed: int = 0, raise_exception: bool = True,
) -> bool:  # fmt: skip
    """Whether the gradients of ``func(*inputs)`` agree with central differences.

    Every float64 tensor among ``inputs`` that requires a gradient is moved by ``eps`` along
    ``directions`` random directions. Raises a GradientError that names the input and the
    difference, or returns False with ``raise_exception=False``. The function must be smooth
    within 2 ``eps`` of the inputs.

    >>> from minidp.testing import gradcheck
    >>> gradcheck(dp.exp, dp.rand(3, dtype=dp.float64).requires_grad_())
    True
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    try:
        _check(func, given, eps, atol, rtol, directions, np.random.default_rng(seed))
    except GradientError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function, inputs: Tensor | Sequence[Any], grad_outputs: Any = None, *, seed: int = 0,
    **options: Any,
) -> bool:  # fmt: skip
    """Whether second derivatives agree with differences of first ones.

    The function that is checked takes ``inputs`` and a cotangent per output (``grad_outputs``, or
    random ones), and gives the gradients of ``func``; so the derivative with respect to the
    cotangent is checked too. ``options`` are those of ``gradcheck``.
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    rng = np.random.default_rng(seed + 1)
    cotangents = [Tensor(rng.standard_normal(y.shape)).to(y.device).requires_grad_()
                  for y in _outputs(func, given)]  # fmt: skip
    if grad_outputs is not None:
        several = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
        cotangents = [u.detach().requires_grad_() for u in several]
    count = len(given)

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        starts = [x for x in values[:count] if _wanted(x)]
        ends = _outputs(func, list(values[:count]))
        found = grad(ends, starts, list(values[count:]), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(gradients, [*given, *cotangents], seed=seed, **options)


def assert_close(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_dtype: bool = True, msg: str | None = None,
) -> None:  # fmt: skip
    """Raise an AssertionError unless |actual - expected| <= atol + rtol |expected| everywhere, and
    shapes and dtypes are equal; in sequences and dicts, of each part. Tolerances go by the dtype.

    >>> from minidp.testing import assert_close
    >>> assert_close(dp.ones(2), dp.ones(2) + 1e-7)
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError("assert_close: give both rtol and atol, or neither")
    options: Any = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype}
    if isinstance(expected, (dict, list, tuple)):
        parts: Any = expected if isinstance(expected, dict) else dict(enumerate(expected))
        found: Any = actual if isinstance(actual, dict) else dict(enumerate(actual))
        if parts.keys() != found.keys():
            raise AssertionError(msg or f"assert_close: parts {[*found]} and {[*parts]}")
        for key in parts:
            assert_close(found[key], parts[key], msg=msg, **options)
        return
    arrays: Any = [_host(x) if isinstance(x, Tensor) else x for x in (actual, expected)]
    a, b = map(np.asarray, arrays)
    named = hasattr(actual, "dtype") and hasattr(expected, "dtype")
    if a.shape != b.shape or (check_dtype and named and a.dtype != b.dtype):
        raise AssertionError(msg or f"assert_close: {a.dtype}{a.shape} and {b.dtype}{b.shape}")
    usual: Any = np.max([TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (a, b)], axis=0)
    limits: Any = usual if rtol is None else (rtol, atol)
    far = np.asarray(a != b)
    if max(limits) > 0 or equal_nan:
        with np.errstate(all="ignore"):
            far = ~np.isclose(a.astype("d"), b.astype("d"), limits[0], limits[1], equal_nan)
    if far.any():
        place = tuple(np.argwhere(far)[0].tolist())
        raise AssertionError(msg or f"assert_close: {far.sum()} of {far.size} values differ, first "
                             f"at {place}: {a[place]} and {b[place]}")  # fmt: skip


TOLERANCES = {"float16": (1e-3, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}
"""Of ``assert_close``, relative and absolute; other dtypes must be equal."""


def _check(
    func: Function, given: list[Any], eps: float, atol: float, rtol: float, directions: int,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    places = [i for i, x in enumerate(given) if _wanted(x)]
    if not places:
        raise GradientError("gradcheck: none of the inputs is a tensor that requires a gradient")
    for i in places:
        if given[i].dtype != np.float64:
            raise DTypeError(f"gradcheck: input {i} is {given[i].dtype}; convert it with .double()")
    outputs = _outputs(func, given)
    weights = [rng.standard_normal(y.shape) for y in outputs]
    gradients = _gradients(outputs, [given[i] for i in places], weights)
    for i, gradient in zip(places, gradients, strict=True):
        for _ in range(directions):
            direction = rng.standard_normal(given[i].shape)
            expected = _slope(func, given, i, direction, weights, eps)
            found = float(np.sum(gradient * direction))
            if not abs(found - expected) <= atol + rtol * max(abs(expected), abs(found)):
                raise GradientError(
                    f"gradcheck: along a random direction of input {i}, of shape "
                    f"{given[i].shape}, the gradient is {found:.10g} and the difference quotient "
                    f"{expected:.10g}; they differ by {abs(found - expected):.3g}"
                )


@contextmanager
def inject(
    kind: str, *, replica: int = 0, step: int = 1, at: str = "", bucket: int = 0,
    seconds: float = 0.0, error: BaseException | None = None,
) -> Iterator[None]:  # fmt: skip
    """In this block a scheduler's step goes wrong: for tests, and to see what happens.

    ``kind``: ``"raise"`` (an InjectedFault, or ``error``), ``"delay"`` by ``seconds``, ``"nan"`` in
    a gradient, ``"drop"``: a bucket is never given. ``step`` is counted from 1 over the life of the
    process, as error messages do. ``at``: ``"loader"``, ``"forward"``, ``"bucket"`` (when that
    ``bucket`` is whole) or ``"update"``.

    >>> from minidp.testing import inject
    >>> model, steps = nn.Linear(2, 1), dp.random.default_generator.step
    >>> train = dp.Scheduler(model, nn.MSELoss(), optim.SGD(model.parameters()), devices=2)
    >>> with inject("delay", replica=1, step=steps + 1, at="forward", seconds=0.1):
    ...     loss = train(dp.rand(4, 2), dp.rand(4, 1))
    """
    place = at or ("bucket" if kind in ("nan", "drop") else "forward")
    fault = Fault(kind, replica, step, place, bucket, seconds, error)
    with switched(faults=(*mode.faults, fault)):
        yield
    if not fault.happened:
        warnings.warn(f"inject: no replica came by {fault}", stacklevel=3)


def _wanted(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _outputs(func: Function, given: list[Any]) -> list[Tensor]:
    """The floating-point outputs of one call, recorded."""
    with enable_grad():
        result = func(*given)
    several = result if isinstance(result, (tuple, list)) else [result]
    return [y for y in several if isinstance(y, Tensor) and category(y.dtype) == 2]


def _gradients(outputs: list[Tensor], starts: list[Tensor], weights: list[Array]) -> list[Array]:
    """J^T u for each input, zeros where an output does not depend on it."""
    pairs = [(y, Tensor(u).to(y.device))
             for y, u in zip(outputs, weights, strict=True) if y.requires_grad]  # fmt: skip
    if not pairs:
        return [np.zeros(x.shape) for x in starts]
    found = grad([y for y, _ in pairs], starts, [u for _, u in pairs], allow_unused=True)
    return [np.zeros(x.shape) if g is None else _host(g)
            for x, g in zip(starts, found, strict=True)]  # fmt: skip


def _host(x: Tensor) -> Array:
    return x.detach().numpy()


def _slope(
    func: Function, given: list[Any], i: int, direction: Array, weights: list[Array], eps: float
) -> float:
    """d/dt u . f(x + t v) by the four-point central difference, whose error is O(eps^4)."""
    x = given[i]

    def moved(t: float) -> float:
        values = list(given)
        values[i] = Tensor(_host(x) + t * direction).to(x.device).requires_grad_()
        outputs = _outputs(func, values)
        return float(sum(np.sum(u * _host(y)) for u, y in zip(weights, outputs, strict=True)))

    return (8 * (moved(eps) - moved(-eps)) - (moved(2 * eps) - moved(-2 * eps))) / (12 * eps)
