"""Covariances, distances and integrals of samples under PyTorch's names."""

from __future__ import annotations

from minidp.functions.reduce import mean, norm, sum
from minidp.shapes import axis_of
from minidp.tensor import Tensor, method

__all__ = ["corrcoef", "cov", "dist", "trapezoid", "trapz"]


@method()
def cov(input: Tensor, *, correction: int = 1) -> Tensor:
    """Covariances of the rows, whose columns are observations."""
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    apart = rows - mean(rows * 1.0, 1, True)
    return (apart @ apart.T / float(max(rows.shape[1] - correction, 0))).squeeze()


@method()
def corrcoef(input: Tensor) -> Tensor:
    """Correlations of the rows: cov_ij / sqrt(cov_ii cov_jj)."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviations = c.diagonal().sqrt()
    return (c / deviations[:, None] / deviations[None, :]).clip(-1, 1)


@method()
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return norm(input - other, p)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """The integral of samples by the trapezoidal rule; they lie at ``x``, or ``dx`` apart."""
    count = y.shape[dim]
    steps = dx if x is None else x.diff(dim=dim if x.ndim > 1 else -1)
    if isinstance(steps, Tensor) and steps.ndim == 1 and y.ndim > 1:
        steps = steps.reshape(-1, *(1,) * (y.ndim - 1 - axis_of("trapezoid", dim, y.ndim)))
    if count == 0:
        return sum(y.detach(), dim)
    pairs = y.narrow(dim, 0, count - 1) + y.narrow(dim, 1, count - 1)
    return sum(pairs * steps, dim) / 2


trapz = trapezoid
