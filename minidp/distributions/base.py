"""What distributions share: shapes, and checks of parameters and values."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

from minidp.autograd import no_grad
from minidp.create import as_tensor
from minidp.functions import broadcast_tensors
from minidp.mode import aside, mode
from minidp.tensor import Tensor
from minidp.types import Shape, category


class Distribution:
    """A batch of distributions, one for each element of its parameters.

    ``batch_shape`` is theirs, ``event_shape`` that of one outcome. ``validate_args=False`` leaves
    out the checks of parameters and of the values that ``log_prob`` is given.
    """

    has_rsample = False
    """Whether samples have gradients with respect to the parameters."""

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self.batch_shape, self.event_shape = tuple(batch_shape), tuple(event_shape)
        self._checks = validate_args is not False

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most probable outcome."""
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = (), *, batch_dim: int | None = None) -> Tensor:
        """Outcomes of shape (*sample_shape, *batch_shape, *event_shape), without a gradient.

        ``batch_dim``: the axis of the result that is a batch's rows, for samples that do not depend
        on how replicas split it; see ``minidp.rand``.
        """
        with no_grad():
            return self._draw(self._shape(sample_shape), batch_dim)

    def rsample(self, sample_shape: Any = (), *, batch_dim: int | None = None) -> Tensor:
        """Samples as functions of the parameters, so that gradients pass (Kingma and Welling 2014,
        arXiv 1312.6114)."""
        if not self.has_rsample:
            raise NotImplementedError(f"{type(self).__name__} has no rsample: its outcomes are "
                                      "discrete; use sample and log_prob")  # fmt: skip
        return self._draw(self._shape(sample_shape), batch_dim)

    def _draw(self, shape: Shape, batch_dim: int | None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} cannot be sampled from")

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability (density) of ``value``."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def entropy(self) -> Tensor:
        """The expected -log_prob, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """e to the entropy."""
        return self.entropy().exp()

    def _shape(self, sample_shape: Any) -> Shape:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def _require(self, holds: Any, name: str, values: Tensor, rule: str) -> None:
        """A ValueError for a parameter that breaks a rule."""
        if self._checks:
            told = f"{type(self).__name__}: {name} of shape {values.shape} has to be {rule}; it is"
            aside(_check, holds.detach(), values.detach(), told)

    def _value(self, value: Any, inside: Any = None, support: str = "") -> Tensor:
        """A value as a tensor, seen to be a possible outcome."""
        value = as_tensor(value)
        if self._checks and inside is not None:
            told = f"{type(self).__name__}.log_prob: a value is not {support}:"
            aside(_check, inside(value).detach(), value.detach(), told)
        return value

    def __repr__(self) -> str:
        shown = {n: x for n, x in vars(self).items() if isinstance(x, Tensor) and n[0] != "_"}
        texts = [f"{n}: {x.item() if x.numel() == 1 else x.shape}" for n, x in shown.items()]
        return f"{type(self).__name__}({', '.join(texts)})"

    def _outcomes(self, values: Tensor, expand: bool) -> Tensor:
        """All outcomes, along a new first axis."""
        values = values.reshape(-1, *(1,) * len(self.batch_shape))
        return values.expand(len(values), *self.batch_shape) if expand else values


def _check(holds: Tensor, values: Tensor, told: str) -> None:
    """The ValueError ``told`` unless all ``holds``; a captured step checks in each run."""
    if not bool(holds.all()):
        raise ValueError(f"{told} {values}")


def parameters(*given: Any) -> tuple[Tensor, ...]:
    """Parameters as floating-point tensors of one shape."""
    found = [x if isinstance(x, Tensor) else as_tensor(x, mode.default_dtype) for x in given]
    found = [x if category(x.dtype) == 2 else x.to(mode.default_dtype) for x in found]
    return tuple(broadcast_tensors(*found))


class Independent(Distribution):
    """``base_distribution`` whose last ``reinterpreted_batch_ndims`` axes are one outcome."""

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        count, shape = reinterpreted_batch_ndims, base_distribution.batch_shape
        if not 0 <= count <= len(shape):
            raise ValueError(f"Independent: {count} of the axes of a batch of shape {shape}")
        cut = len(shape) - count
        super().__init__(shape[:cut], (*shape[cut:], *base_distribution.event_shape), validate_args)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        self.has_rsample = base_distribution.has_rsample

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def _draw(self, shape: Shape, batch_dim: int | None) -> Tensor:
        return self.base_dist._draw(shape, batch_dim)

    def log_prob(self, value: Any) -> Tensor:
        return self.over_event(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self.over_event(self.base_dist.entropy())

    def over_event(self, values: Tensor) -> Tensor:
        """The sum over the axes that are one outcome."""
        count = self.reinterpreted_batch_ndims
        return values.sum(dim=tuple(range(-count, 0))) if count else values
