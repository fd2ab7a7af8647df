"""One row per op: sample inputs, and calls that must be refused. A new op needs a row here.

Samples keep away from kinks and ties (`smooth`), so that derivatives can be compared with
differences; those that do not are marked `smooth=False` and serve every other property.
"""

from dataclasses import dataclass, field

import numpy as np

from minidp.op import OPS


@dataclass
class Sample:
    """One call: arrays (None: left out) in float64 where they are real, and constants."""

    arrays: list
    constants: dict = field(default_factory=dict)
    smooth: bool = True

    def __post_init__(self):
        self.arrays = [np.asarray(a) if isinstance(a, np.generic) else a for a in self.arrays]


@dataclass
class Row:
    """``samples(rng)`` gives the calls of an op; ``wrong`` those that must raise ShapeError."""

    samples: object
    wrong: tuple = ()
    broadcasts: bool = True
    """Whether an op of several ``...`` arguments gives the shape they broadcast to."""


ROWS = {}
EXEMPT = {
    "broadcast": "needs a bucket: tests/test_bucket.py",
    "unpack": "needs a bucket: tests/test_bucket.py",
    "function": "needs a Function: tests/test_custom.py",
    "sgd": "changes its arguments: tests/test_optim_rules.py",
    "adam": "changes its arguments: tests/test_optim_rules.py",
    "rmsprop": "changes its arguments: tests/test_optim_rules.py",
    "adadelta": "changes its arguments: tests/test_optim_rules.py",
    "adamax": "changes its arguments: tests/test_optim_rules.py",
}


def row(*names, **options):
    def declare(samples):
        for name in names:
            ROWS[name] = Row(samples, **options)
        return samples

    return declare


def names():
    """The ops of the library that need a row; those of tests and users have their own."""
    own = [n for n, op in OPS.items() if op.body.__module__.startswith("minidp.")]
    return [n for n in own if n not in EXEMPT]


def samples(name):
    return ROWS[name].samples(np.random.default_rng(7))


def differentiable(name, sample):
    """The positions of a sample that have a rule and are real arrays."""
    op = OPS[name]
    return [
        i for i, a in enumerate(sample.arrays)
        if isinstance(a, np.ndarray) and a.dtype.kind == "f" and op.rule_of(i) is not None
    ]  # fmt: skip


# Values


def normal(rng, *shape):
    return rng.standard_normal(shape)


def away(rng, *shape):
    """Values of both signs, not near 0."""
    x = rng.uniform(0.3, 2, shape)
    return np.where(rng.random(shape) < 0.5, x, -x)


def positive(rng, *shape):
    return rng.uniform(0.3, 2, shape)


def distinct(rng, *shape):
    """Values no two of which are near each other."""
    count = int(np.prod(shape, dtype=int))
    return rng.permutation(count).reshape(shape) * 0.25 - count / 8


# Layouts: the same values under other strides


def rows(x):
    return np.array(x, order="C")


def columns(x):
    return np.array(x, order="F")


def channels_last(x):
    """Axis 1 innermost in memory, as the kernels make images."""
    if x.ndim < 3:
        return x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def backwards(x):
    """Negative strides on every axis."""
    flip = (..., *(slice(None, None, -1),) * x.ndim)
    return x[flip].copy()[flip]


def gapped(x):
    """Every second place of a larger array, starting at 1."""
    wide = np.full([2 * n + 1 for n in x.shape], 99, x.dtype)
    view = wide[(..., *(slice(1, 1 + 2 * n, 2) for n in x.shape))]
    view[...] = x
    return view


LAYOUTS = {f.__name__: f for f in (rows, columns, channels_last, backwards, gapped)}
