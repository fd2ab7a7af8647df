"""Covariances, quantiles, distances and integrals of samples under PyTorch's names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minidp.arguments import refuse
from minidp.errors import ArgumentError, ShapeError
from minidp.functions.comparison import isnan
from minidp.functions.join import atleast_1d
from minidp.functions.layout import real_axis
from minidp.functions.order import sort
from minidp.functions.reduce import all, cumsum, mean, norm, sum
from minidp.mode import aside
from minidp.ops import elementwise
from minidp.ops.elementwise import where
from minidp.ops.index import take_along_dim
from minidp.shapes import axis_of
from minidp.tensor import Tensor, method

__all__ = ["corrcoef", "cov", "cumulative_trapezoid", "dist", "nanquantile", "quantile",
           "trapezoid", "trapz"]  # fmt: skip


@method()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Covariances of the rows, whose columns are observations: ``fweights`` says how often each
    occurred, ``aweights`` how much it counts."""
    if input.ndim > 2:
        raise ShapeError(f"cov({input.shape}): expected at most two axes")
    x = (input.reshape(1, -1) if input.ndim < 2 else input) * 1.0
    given = [w for w in (fweights, aweights) if w is not None]
    if any(w.shape != x.shape[1:] or bool((w < 0).any()) for w in given):
        raise ShapeError(f"cov: expected {x.shape[1]} weights, none below 0")
    weights: Any = math.prod(given) if given else 1
    total = sum(weights) if given else x.shape[1]
    apart = x - (sum(x * weights, 1, True) / total if given else mean(x, 1, True))
    lost = 1 if aweights is None else sum(weights * aweights) / total
    below = total - correction * lost
    below = below.clamp(min=0) if isinstance(below, Tensor) else float(max(below, 0))
    return (apart @ (apart * weights).T / below).squeeze()


@method()
def corrcoef(input: Tensor) -> Tensor:
    """Correlations of the rows: cov_ij / sqrt(cov_ii cov_jj)."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviations = c.diagonal().sqrt()
    return (c / deviations[:, None] / deviations[None, :]).clip(-1, 1)


PLACING: dict[str, Any] = {
    "linear": lambda place: place, "lower": elementwise.floor, "higher": elementwise.ceil,
    "midpoint": lambda place: (elementwise.floor(place) + elementwise.ceil(place)) / 2,
    "nearest": elementwise.round,
}  # fmt: skip
"""Where between two places a quantile is taken."""


@method()
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """The value below which a part ``q`` of the values along ``dim`` (None: of all) lies; several
    ``q`` along a new first axis. NaN if there is one. Between two neighbours on the line that joins
    them, or ("lower", "higher", "nearest", "midpoint") one of them or their middle.

    >>> dp.quantile(dp.tensor([1.0, 2.0, 4.0]), 0.75)
    tensor(3.)
    """
    return _quantile(input, q, dim, keepdim, interpolation, True)


@method()
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """``quantile`` of the values that are not NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, False)


def _quantile(
    input: Tensor, q: Any, dim: Any, keepdim: bool, between: str, spoiled: bool
) -> Tensor:
    if input.dtype.kind != "f" or input.numel() == 0:
        raise ArgumentError(f"quantile of {input.dtype}{input.shape}: expected some real numbers")
    x, axis = (input.reshape(-1), 0) if dim is None else (atleast_1d(input), dim)
    x = sort(x, axis).values.movedim(axis, -1)
    parts = q if isinstance(q, Tensor) else Tensor(np.asarray(q, x.dtype)).to(x.device)
    wrong = x.dtype != parts.dtype or ~all((parts >= 0) & (parts <= 1))
    aside(refuse, wrong, f"quantile: q must be from 0 to 1 and of {x.dtype}")
    last = sum(~(missing := isnan(x)), dim=-1, keepdim=True).type(x.dtype) - 1
    last = where(missing[..., -1:], x.shape[-1] - 1, last) if spoiled else last.clamp(min=0)
    place = parts.reshape(-1) * last
    place = where(missing[..., -1:], last, place) if spoiled else place
    if between not in PLACING:
        raise ArgumentError(f"quantile: interpolation={between!r}; expected one of {[*PLACING]}")
    place = PLACING[between](place)
    low, high = (take_along_dim(x, each(place).long(), dim=x.ndim - 1)
                 for each in (elementwise.floor, elementwise.ceil))  # fmt: skip
    between_two = low.lerp(high, place - elementwise.floor(place))
    y = (between_two if between in ("linear", "midpoint") else low).movedim(-1, 0)
    if keepdim and input.ndim:
        y = y.unsqueeze(axis + 1 if axis >= 0 else axis) if dim is not None else y.reshape(
            -1, *(1,) * input.ndim)  # fmt: skip
    return y if parts.ndim else y[0]


@method()
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return norm(input - other, p)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """The integral of samples by the trapezoidal rule; they lie at ``x``, or ``dx`` apart."""
    if y.shape[real_axis(y, "trapezoid", dim)] == 0:
        return sum(y.detach(), dim)
    return sum(_trapezes(y, x, dx, dim), dim) / 2


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1
) -> Tensor:
    """``trapezoid`` from the first sample up to each of the others."""
    if y.shape[real_axis(y, "cumulative_trapezoid", dim)] == 0:
        return y.clone()
    return cumsum(_trapezes(y, x, dx, dim), dim) / 2


def _trapezes(y: Tensor, x: Tensor | None, dx: float, dim: int) -> Tensor:
    """Twice the area between each two neighbours."""
    count = y.shape[dim]
    steps = dx if x is None else x.diff(dim=dim if x.ndim > 1 else -1)
    if isinstance(steps, Tensor) and steps.ndim == 1 and y.ndim > 1:
        steps = steps.reshape(-1, *(1,) * (y.ndim - 1 - axis_of("trapezoid", dim, y.ndim)))
    return (y.narrow(dim, 0, count - 1) + y.narrow(dim, 1, count - 1)) * steps


trapz = trapezoid
