"""Normalisation layers."""

from __future__ import annotations

from typing import Any, ClassVar

from minidp import functional as F
from minidp.create import empty
from minidp.errors import ArgumentError, ShapeError
from minidp.functional import norm
from minidp.nn.layer import Layer, Stateless
from minidp.nn.module import Module
from minidp.parameter import Buffer, Parameter
from minidp.tensor import Tensor
from minidp.types import int64

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d",
           "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
           "SyncBatchNorm"]  # fmt: skip


class Scaled(Layer):
    """What layers with a weight, 1 at first, and a bias, 0 at first, share."""

    weight: Parameter | None
    bias: Parameter | None

    def _scale(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        self._make(device, dtype, weight=shape if weight else None,
                   bias=shape if weight and bias else None)  # fmt: skip
        Scaled.reset_parameters(self)

    def _fill(self, **values: float) -> None:
        for name, value in values.items():
            if getattr(self, name) is not None:
                getattr(self, name).detach().fill_(value)

    def reset_parameters(self) -> None:
        """Begin again: weight 1, bias 0."""
        self._fill(weight=1, bias=0)


class Tracking(Scaled):
    """What batch and instance normalisation share: statistics of each channel (axis 1), which
    running ones may follow. Inputs have one of the ``allowed`` numbers of axes."""

    shows = ("{num_features}, eps={eps}, momentum={momentum}, affine={affine}, bias={bias}, "
             "track_running_stats={track_running_stats}")  # fmt: skip
    allowed: ClassVar[tuple[int, ...]] = ()
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
        self._scale(num_features, affine, bias, device, dtype)
        made = {"running_mean": (num_features, dtype), "running_var": (num_features, dtype),
                "num_batches_tracked": ((), int64)}  # fmt: skip
        for name, (shape, kind) in made.items():
            value = empty(shape, dtype=kind, device=device) if track_running_stats else None
            self.register_buffer(name, value)
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Begin the running statistics again: mean 0, variance 1, no batches."""
        self._fill(running_mean=0, running_var=1, num_batches_tracked=0)

    def reset_parameters(self) -> None:
        """Begin again: running statistics, weight 1, bias 0."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check(self, input: Tensor) -> None:
        if input.ndim not in self.allowed:
            expected = " or ".join(f"{n}D" for n in self.allowed)
            raise ShapeError(f"{type(self).__name__}: expected {expected} input "
                             f"(got {input.ndim}D input of shape {input.shape})")  # fmt: skip


class BatchNorm(Tracking):
    """What BatchNorm1d, 2d and 3d share: each channel (axis 1) normalised over the batch.

    In training by the statistics of the whole batch, over all replicas; ``running_mean`` and
    ``running_var`` (unbiased) follow them by ``momentum`` (None: as their plain average) when a
    step is accepted. In evaluation, or ``track_running_stats=False``, see ``forward``.
    ``sync=False``: each replica normalises by its own rows, as several devices do elsewhere; no
    exchange is needed then, and the result depends on the split. Running statistics are still
    those of all rows. Source: Ioffe and Szegedy 2015, arXiv 1502.03167.
    """

    hides: ClassVar[dict[str, Any]] = {"sync": True}

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, bias: bool = True, *, sync: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)  # fmt: skip
        self.sync = sync

    def forward(self, input: Tensor) -> Tensor:
        """Normalise by batch statistics in training and where there are no running ones."""
        self._check(input)
        return norm.by_layer(self, input)


class BatchNorm1d(BatchNorm, allowed=(2, 3)):
    """Batch normalisation of (n, c) or (n, c, l)."""


class BatchNorm2d(BatchNorm, allowed=(4,)):
    """Batch normalisation of images (n, c, h, w).

    >>> nn.BatchNorm2d(3)(dp.rand(4, 3, 8, 8)).shape
    (4, 3, 8, 8)
    """


class BatchNorm3d(BatchNorm, allowed=(5,)):
    """Batch normalisation of volumes (n, c, d, h, w)."""


class SyncBatchNorm(BatchNorm, allowed=(2, 3, 4, 5)):
    """Batch normalisation of (n, c, ...): the same as BatchNorm1d, 2d and 3d, which use the
    statistics of all replicas too, unless they are told ``sync=False``."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias)  # fmt: skip

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module, all of whose batch normalisations now use statistics of all replicas."""
        for each in module.modules():
            if isinstance(each, BatchNorm):
                each.sync = True
        return module


class InstanceNorm(Tracking):
    """Each channel of each row normalised over its places; see ``functional.instance_norm``."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = False, track_running_stats: bool = False, *more: Any, **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, *more, **named)

    def forward(self, input: Tensor) -> Tensor:
        """By the row's own statistics in training and where there are no running ones."""
        self._check(input)
        rows = input if input.ndim == self.allowed[1] else input.unsqueeze(0)
        if self.affine and rows.shape[1] != self.num_features:
            raise ShapeError(f"{type(self).__name__}: expected {self.num_features} channels, got "
                             f"input of shape {input.shape}")  # fmt: skip
        own = self.training or not self.track_running_stats
        y = F.instance_norm(rows, self.running_mean, self.running_var, self.weight, self.bias,
                            own, self.momentum or 0.0, self.eps)  # fmt: skip
        return y if rows is input else y.squeeze(0)


class InstanceNorm1d(InstanceNorm, allowed=(2, 3)): ...


class InstanceNorm2d(InstanceNorm, allowed=(3, 4)): ...


class InstanceNorm3d(InstanceNorm, allowed=(4, 5)): ...


class LayerNorm(Scaled):
    """The last axes, of ``normalized_shape``, normalised together: ``functional.layer_norm``.

    >>> nn.LayerNorm(3)(dp.tensor([[1.0, 1.0, 1.0]]))
    tensor([[0., 0., 0.]], grad_fn=<group_norm>)
    """

    shows = "{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}, bias={bias}"

    def __init__(
        self, normalized_shape: Any, eps: float | None = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        one = hasattr(normalized_shape, "__index__")
        self.normalized_shape = (int(normalized_shape),) if one else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._scale(self.normalized_shape, elementwise_affine, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps or 0.0)


class RMSNorm(LayerNorm):
    """The last axes divided by their root mean square; see ``functional.rms_norm``."""

    shows = "{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}"

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps, elementwise_affine, False, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Scaled):
    """Channels in groups, each normalised as a whole; see ``functional.group_norm``."""

    shows = "{num_groups}, {num_channels}, eps={eps}, affine={affine}, bias={bias}"

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, bias: bool = True,
    ) -> None:  # fmt: skip
        if num_channels % num_groups:
            raise ArgumentError(f"num_channels ({num_channels}) must be divisible by num_groups "
                                f"({num_groups})")  # fmt: skip
        super().__init__()
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._scale(num_channels, affine, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class LocalResponseNorm(
    Stateless, of=F.local_response_norm, shows="{size}, alpha={alpha}, beta={beta}, k={k}"
): ...
