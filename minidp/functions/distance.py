"""Distances and angles between vectors, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.functions.layout import broadcast_tensors
from minidp.functions.reduce import norm
from minidp.tensor import Tensor

__all__ = ["cdist", "cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along ``dim``; the gradient takes each maximum for
    the norm, as PyTorch's does."""
    units = []
    for x in broadcast_tensors(x1, x2):
        length = norm(x, 2, dim, keepdim=True)
        units.append(x / (length + (length.clamp(min=eps) - length).detach()))
    return (units[0] * units[1]).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    """The p-norm of each row of x1 less each of x2: (..., i, k), (..., j, k) to (..., i, j)."""
    if x1.shape[-1:] != x2.shape[-1:]:
        raise ShapeError(f"cdist({x1.shape}, {x2.shape}): expected rows of one length")
    return norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows (n, k), the first of a pair leading."""
    if input.ndim != 2:
        raise ShapeError(f"pdist: expected rows (n, k), got {input.shape}")
    first, second = np.triu_indices(len(input), 1)
    return norm(input[first] - input[second], p, -1)
