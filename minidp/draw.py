"""Random tensors: every draw is counted by the generator (``minidp.random``), so that it can be
repeated. All take ``generator``, and what creation takes: ``dtype``, ``device``, ``requires_grad``.

Those of a shape take ``batch_dim``, the axis of the batch's rows: what is drawn for a row then
depends on its place in the batch of all replicas, as with dropout. Without it every replica draws
the same numbers, as weights of a model want them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp import random
from minidp.arguments import refuse
from minidp.create import alike, float_dtype, like, make, shape_of
from minidp.errors import ArgumentError, DTypeError
from minidp.mode import aside, mode, told_as
from minidp.shapes import axis_of
from minidp.tensor import Tensor, method
from minidp.types import Array, int64

__all__ = [
    "bernoulli", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm",
]  # fmt: skip
Maybe = random.Generator | None
At = tuple[random.Key, int, int | None]
"""Which random numbers: a key, the global row of the first row here, and the axis of rows."""


def _drawn(
    function: Any, generator: Maybe, batch_dim: int | None, *given: Any, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the array that ``function(at, device, *given)`` makes, where ``at`` tells which
    random numbers: the key of this thread's generator, or of the given one, the global row of the
    first row here, and the axis of rows. A captured step that is replayed calls it again."""
    key = (generator or random.generator_here()).next_key()
    first = 0 if batch_dim is None or mode.replica is None else mode.replica.first_row
    return Tensor(aside(function, (key, first, batch_dim), device, *given), requires_grad)


def _numbers(draw: Any, at: At, shape: tuple[int, ...]) -> Array:
    """float64 numbers, as ``draw`` makes them."""
    key, first, batch_dim = at
    if batch_dim is None:
        return draw(key, int(np.prod(shape, dtype=int))).reshape(shape)
    axis = axis_of("batch_dim", batch_dim, len(shape))
    rest = *shape[:axis], *shape[axis + 1 :]
    values = draw(key, int(np.prod(rest, dtype=int)), first, shape[axis])
    return np.ascontiguousarray(np.moveaxis(values.reshape(shape[axis], *rest), 0, axis))


def _made(values: Array, dtype: Any, device: Any) -> Array:
    return make(values, dtype, device).array


@told_as("rand")
def _uniform(at: At, device: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    values = _numbers(random.uniforms, at, shape)
    # rounding up to 1 would leave the half-open interval
    return _made(np.minimum(values, 1 - float(np.finfo(dtype).epsneg)), dtype, device)


@told_as("randn")
def _normal(at: At, device: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    return _made(_numbers(random.normals, at, shape), dtype, device)


@told_as("randint")
def _integers(at: At, device: Any, shape: tuple[int, ...], low: int, high: int, dtype: Any
              ) -> Array:  # fmt: skip
    values = _numbers(random.uniforms, at, shape)
    return _made(np.floor(values * (high - low)) + low, dtype, device)


@told_as("randperm")
def _order(at: At, device: Any, n: int, dtype: Any) -> Array:
    return _made(np.argsort(_numbers(random.uniforms, at, (n,)), kind="stable"), dtype, device)


@told_as("bernoulli")
def _hits(at: At, device: Any, like: Tensor, chance: Any) -> Array:
    chance = np.asarray(chance)
    if chance.size and not (chance.min() >= 0 and chance.max() <= 1):
        raise ArgumentError("bernoulli: expected probabilities from 0 to 1")
    return _made(_numbers(random.uniforms, at, like.shape) < chance, like.dtype, device)


@told_as("exponential_")
def _waits(at: At, device: Any, shape: tuple[int, ...], rate: float, dtype: Any) -> Array:
    return _made(-np.log1p(-_numbers(random.uniforms, at, shape)) / rate, dtype, device)


def _real(name: str, dtype: Any) -> Any:
    kind = float_dtype(dtype)
    refuse(kind.kind != "f", f"{name} of {kind}: expected a floating-point dtype", DTypeError)
    return kind


def rand(
    *sizes: Any, size: Any = None, generator: Maybe = None, dtype: Any = None,
    batch_dim: int | None = None, **options: Any,
) -> Tensor:  # fmt: skip
    """Uniform random numbers in [0, 1)."""
    shape, kind = shape_of(sizes, size), _real("rand", dtype)
    return _drawn(_uniform, generator, batch_dim, shape, kind, **options)


def randn(
    *sizes: Any, size: Any = None, generator: Maybe = None, dtype: Any = None,
    batch_dim: int | None = None, **options: Any,
) -> Tensor:  # fmt: skip
    """Random numbers of the standard normal distribution."""
    shape, kind = shape_of(sizes, size), _real("randn", dtype)
    return _drawn(_normal, generator, batch_dim, shape, kind, **options)


def randint(
    low: Any = 0, high: Any = None, size: Any = None, *, generator: Maybe = None,
    dtype: Any = None, batch_dim: int | None = None, **options: Any,
) -> Tensor:  # fmt: skip
    """Random integers from ``low`` (0 if left out) up to, not including, ``high``."""
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None or high is None:
        raise TypeError(f"randint: expected a size: randint({low or high}, (2, 3))")
    if not low < high:
        raise ArgumentError(f"randint: expected low < high, got low={low} and high={high}")
    given = shape_of((size,)), low, int(high), dtype or int64
    return _drawn(_integers, generator, batch_dim, *given, **options)


def randperm(n: int, *, generator: Maybe = None, dtype: Any = None, **options: Any) -> Tensor:
    """The numbers 0 .. n-1 in random order."""
    (n,) = shape_of((n,))
    return _drawn(_order, generator, None, n, dtype or int64, **options)


def rand_like(input: Tensor, **options: Any) -> Tensor:
    """Uniform random numbers in the shape, dtype and device of ``input``."""
    return rand(**alike("rand_like", input, options))


def randn_like(input: Tensor, **options: Any) -> Tensor:
    """Normal random numbers in the shape, dtype and device of ``input``."""
    return randn(**alike("randn_like", input, options))


def randint_like(input: Tensor, low: Any = 0, high: Any = None, **options: Any) -> Tensor:
    """Random integers in the shape, dtype and device of ``input``."""
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, **alike("randint_like", input, options))


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Maybe = None, **options: Any
) -> Tensor:
    """Normal random numbers with this mean and standard deviation, which may be tensors."""
    given = [x.detach() for x in (mean, std) if isinstance(x, Tensor)]
    aside(_check_deviation, std.detach() if isinstance(std, Tensor) else std)
    if given:
        size, options = np.broadcast_shapes(*(x.shape for x in given)), like(given[0], options)
    found = randn(shape_of((size or (),)), generator=generator, **options)
    mean, std = (x.detach() if isinstance(x, Tensor) else x for x in (mean, std))
    return found * std + mean


def _check_deviation(std: Any) -> None:
    if np.asarray(std).min(initial=0) < 0:
        raise ArgumentError("normal: a standard deviation is negative")


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Maybe = None, batch_dim: int | None = None
) -> Tensor:
    """1 with the probabilities ``input`` (or with ``p`` everywhere), else 0."""
    x = input.detach()
    return _drawn(_hits, generator, batch_dim, x, x if p is None else p, device=x.device)


@method()
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Maybe = None
) -> Tensor:
    """Indices drawn with probabilities in proportion to ``input``, from each row on its own.

    With replacement by the inverse of the cumulated weights, without by the largest of weight /
    exponential number (Efraimidis and Spirakis 2006).
    """
    return _drawn(_chosen, generator, None, input.detach(), num_samples, replacement,
                  device=input.device)  # fmt: skip


@told_as("multinomial")
def _chosen(at: At, device: Any, input: Tensor, num_samples: int, replacement: bool) -> Array:
    weights = np.asarray(input, dtype=np.float64)
    count = weights.shape[-1] if weights.ndim in (1, 2) else 0
    total = weights.sum(axis=-1, keepdims=True)
    if not count or num_samples < 1 or not (weights >= 0).all() or not (
            (total > 0) & np.isfinite(total)).all():  # fmt: skip
        raise ArgumentError(
            f"multinomial({input.shape}, {num_samples}): expected rows of finite weights, "
            "not negative and not all 0, and one sample or more"
        )
    if replacement:
        draws = _numbers(random.uniforms, at, (*weights.shape[:-1], num_samples)) * total
        bounds = np.cumsum(weights, axis=-1)[..., None, :]
        found = np.minimum((draws[..., None] >= bounds).sum(axis=-1), count - 1)
        return _made(found, int64, device)
    if num_samples > (weights > 0).sum(axis=-1).min():
        raise ArgumentError(f"multinomial: {num_samples} samples without replacement are more than "
                            "there are positive weights")  # fmt: skip
    waits = -np.log1p(-_numbers(random.uniforms, at, weights.shape))
    with np.errstate(divide="ignore"):
        order = np.argsort(np.where(weights > 0, waits / weights, np.inf), axis=-1, kind="stable")
    return _made(order[..., :num_samples], int64, device)


# In place


@method("uniform_")
def uniform_(self: Tensor, low: float = 0, high: float = 1, *, generator: Maybe = None) -> Tensor:
    """Uniform random numbers in [low, high), in place."""
    refuse(low > high, f"uniform_: expected low <= high, got low={low} and high={high}")
    return self.copy_(rand(self.shape, generator=generator, dtype=self.dtype) * (high - low) + low)


@method("normal_")
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Maybe = None) -> Tensor:
    """Normal random numbers, in place."""
    aside(_check_deviation, std)
    if self.dtype.kind != "f":
        raise DTypeError(f"normal_: expected floating-point numbers, got {self.dtype}")
    return self.copy_(randn(self.shape, generator=generator, dtype=self.dtype) * std + mean)


@method("bernoulli_")
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Maybe = None) -> Tensor:
    """1 with probability ``p`` (a number, or a tensor of them), else 0, in place."""
    if isinstance(p, Tensor):
        return self.copy_(bernoulli(p.expand(self.shape), generator=generator))
    return self.copy_(bernoulli(self, p, generator=generator))


@method("random_")
def random_(self: Tensor, low: Any = 0, high: Any = None, *, generator: Maybe = None) -> Tensor:
    """Random integers from ``low`` up to, not including, ``high``, in place; without bounds all
    that the dtype can count to."""
    low, high = (0, low or None) if high is None else (low, high)
    if high is None:
        floats = {"e": 2**11, "f": 2**24, "d": 2**53, "?": 1}
        high = floats.get(self.dtype.char) or np.iinfo(self.dtype).max
        high += self.dtype.kind in "bf"
    return self.copy_(randint(low, high, self.shape, generator=generator))


@method("exponential_")
def exponential_(self: Tensor, lambd: float = 1, *, generator: Maybe = None) -> Tensor:
    """Random numbers with the density lambd e^(-lambd x), in place."""
    return self.copy_(_drawn(_waits, generator, None, self.shape, lambd, self.dtype))
