"""Normalisation layers."""

from __future__ import annotations

from typing import Any

from minidp.create import ones, tensor, zeros
from minidp.errors import ShapeError
from minidp.nn.functional import normalize
from minidp.nn.module import Module
from minidp.parameter import Buffer, Parameter
from minidp.tensor import Tensor
from minidp.types import int64


class BatchNorm(Module):
    """What BatchNorm1d and BatchNorm2d share: each channel (axis 1) normalised over the batch.

    In training by the statistics of the whole batch, over all replicas; ``running_mean`` and
    ``running_var`` (unbiased) follow them by ``momentum`` (None: as their plain average) when a
    step is accepted. In evaluation, or ``track_running_stats=False``, see ``forward``.
    Source: Ioffe and Szegedy 2015, arXiv 1502.03167.
    """

    allowed: tuple[int, ...] = ()
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Buffer | None
    running_var: Buffer | None
    num_batches_tracked: Buffer | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        size = {"device": device, "dtype": dtype}
        self.weight = Parameter(ones(num_features, **size)) if affine else None
        self.bias = Parameter(zeros(num_features, **size)) if affine and bias else None
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **size) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **size) if tracked else None)
        count = tensor(0, dtype=int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise by batch statistics in training and where there are no running ones."""
        self._check(input)
        if not self.training and self.running_mean is not None:
            return normalize.batch_norm(input, self.running_mean, self.running_var, self.weight,
                                        self.bias, eps=self.eps)  # fmt: skip
        y, mean, var = normalize.by_batch(input, self.weight, self.bias, self.eps)
        if self.training and self.running_mean is not None:
            normalize.when_accepted(lambda: self._track(mean, var))
        return y

    def _track(self, mean: Tensor, var: Tensor) -> None:
        """Count this batch, and let the running statistics follow it."""
        assert self.running_mean is not None and self.running_var is not None
        share = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.copy_(self.num_batches_tracked.detach() + 1)
            share = 1 / self.num_batches_tracked.item() if share is None else share
        normalize.follow(self.running_mean, mean, share or 0.0)
        normalize.follow(self.running_var, var, share or 0.0)

    def reset_running_stats(self) -> None:
        """Begin the running statistics again: mean 0, variance 1, no batches."""
        for name, value in (("running_mean", 0), ("running_var", 1), ("num_batches_tracked", 0)):
            buffer = getattr(self, name)
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Begin again: running statistics, weight 1, bias 0."""
        self.reset_running_stats()
        for parameter, value in ((self.weight, 1), (self.bias, 0)):
            if parameter is not None:
                parameter.detach().fill_(value)

    def _check(self, input: Tensor) -> None:
        if input.ndim not in self.allowed:
            expected = " or ".join(f"{n}D" for n in self.allowed)
            raise ShapeError(f"{type(self).__name__}: expected {expected} input "
                             f"(got {input.ndim}D input of shape {input.shape})")  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(BatchNorm):
    """Batch normalisation of (n, c) or (n, c, l)."""

    allowed = (2, 3)


class BatchNorm2d(BatchNorm):
    """Batch normalisation of images (n, c, h, w)."""

    allowed = (4,)
