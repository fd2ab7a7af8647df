"""Rows of a table by number: alone, or each bag of them as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.autograd import no_grad
from minidp.create import as_tensor, ones_like
from minidp.errors import ArgumentError, DTypeError, ReplicaError, ShapeError
from minidp.functional.ranks import alike
from minidp.functions import cat
from minidp.functions.weighted import everywhere
from minidp.mode import mode as running
from minidp.ops import index as ops
from minidp.ops.comparison import where
from minidp.tensor import Tensor
from minidp.types import category

__all__ = ["embedding", "embedding_bag"]


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` (rows, c) that ``input`` numbers: (...) -> (..., c).

    ``padding_idx`` gets no gradient. Rows longer than ``max_norm`` are first scaled to it, in
    place. ``scale_grad_by_freq`` divides a row's gradient by how often it was asked for, in the
    whole batch. ``sparse`` changes nothing: gradients are whole tables.
    """
    if category(input.dtype) != 1:
        raise DTypeError(f"embedding: expected integers, got {input.dtype}")
    padding = checked_padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        _limit(input, weight, max_norm, norm_type)
    y = ops.embedding(input, weight, padding_idx=padding)
    if scale_grad_by_freq and input.numel():
        ones = ones_like(input, dtype="float64")
        counts = everywhere(ops.put(ones, shape=(len(weight),), key=input.array), "rows asked for")
        share = 1 / counts[input].unsqueeze(-1).to(y.dtype)
        y = y * share + (y * (1 - share)).detach()
    return y


def checked_padding(padding_idx: int | None, rows: int) -> int | None:
    """The row that is padding, counted from the front."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ArgumentError(f"Padding_idx must be within num_embeddings: {padding_idx} of {rows}")
    return padding_idx % rows


def _limit(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are asked for and longer than ``max_norm`` down to it, in place."""
    if running.replica is not None:
        raise ReplicaError("embedding with max_norm changes its weight, which all replicas share, "
                           "in forward: scale the rows after the step instead")  # fmt: skip
    with no_grad():
        chosen = ops.embedding(input, weight)
        norm = chosen.norm(norm_type, -1, True)
        weight[input] = where(norm > max_norm, chosen * (max_norm / (norm + 1e-7)), chosen)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Any = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or max of each bag of rows: (bags, c).

    ``input`` (bags, n), or flat with ``offsets``, where each bag starts (and, with
    ``include_last_offset``, where the last one ends). ``padding_idx`` is left out; an empty bag
    gives 0. ``per_sample_weights`` (like ``input``) multiply the rows of a sum.
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"embedding_bag: mode has to be one of sum, mean or max, not {mode!r}")
    if per_sample_weights is not None and (mode, per_sample_weights.shape) != ("sum", input.shape):
        raise ShapeError("embedding_bag: per_sample_weights are for mode='sum', and of the shape "
                         f"of input {input.shape}")  # fmt: skip
    numbers, padding = input.reshape(-1), checked_padding(padding_idx, weight.shape[0])
    rows = embedding(numbers, weight, padding, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        alike("embedding_bag", weight, per_sample_weights)
        rows = rows * per_sample_weights.reshape(-1, 1)
    if offsets is None and padding is None and input.ndim == 2 and rows.numel():  # side by side
        values = rows.reshape(*input.shape, -1)
        return values.max(1)[0] if mode == "max" else getattr(values, mode)(1)
    sizes, count = _sizes(input, offsets, include_last_offset), len(rows)
    column, starts = np.arange(max(1, sizes.max(initial=0))), (np.cumsum(sizes) - sizes)[:, None]
    bags = as_tensor(np.where(column < sizes[:, None], starts + column, count), device=rows.device)
    if padding is not None:
        bags = where(cat([numbers == padding, rows.new_ones(1) > 0])[bags], count, bags)
    rest = rows.new_full((1, weight.shape[1]), -np.inf if mode == "max" else 0.0)
    values = ops.embedding(bags, cat([rows, rest]))
    counts = (bags < count).sum(1, keepdim=True)
    if mode == "max":
        return where(counts > 0, values.max(1)[0], 0.0)
    return values.sum(1) if mode == "sum" else values.sum(1) / counts.clamp(min=1).to(values.dtype)


def _sizes(input: Tensor, offsets: Any, include_last_offset: bool) -> Any:
    """How many numbers each bag has."""
    if input.ndim == 2 and offsets is None:
        return np.full(input.shape[0], input.shape[1])
    starts = np.asarray(offsets.cpu() if isinstance(offsets, Tensor) else offsets)
    if input.ndim != 1 or starts.ndim != 1:
        raise ShapeError(f"embedding_bag(input {input.shape}): expected (bags, n) without offsets, "
                         "or one axis, and as one axis where each bag starts")  # fmt: skip
    sizes = np.diff(starts if include_last_offset else [*starts, input.shape[0]])
    if starts[:1].any() or (sizes < 0).any() or sizes.sum() != input.shape[0] * bool(len(sizes)):
        raise ArgumentError("embedding_bag: offsets[0] has to be 0, and offsets may not fall or be "
                            f"more than the {input.shape[0]} numbers")  # fmt: skip
    return sizes.astype(int)
