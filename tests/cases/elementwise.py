"""Element-wise ops."""

import numpy as np

from cases.table import Sample, away, distinct, normal, positive, row


def pairs(a, b):
    """Every pattern of broadcasting, for makers a and b of arrays."""

    def make(rng):
        shapes = [
            ((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((2, 3), ()),
            ((), (2, 3)), ((), ()), ((1, 1), (2, 3)), ((4, 1, 3), (2, 1)), ((0, 3), (3,)),
            ((2, 0), (1, 1)), ((2, 3, 4, 5), (3, 1, 1)),
        ]  # fmt: skip
        found = [Sample([a(rng, *s), b(rng, *t)]) for s, t in shapes]
        found.append(Sample([np.broadcast_to(a(rng, 3), (2, 3)), b(rng, 3, 2).T]))
        return found

    return make


def singles(a):
    def make(rng):
        shapes = ((5,), (2, 3), (), (1,), (0,), (2, 0, 3), (2, 3, 4, 5))
        return [Sample([a(rng, *s)]) for s in shapes]

    return make


def inside(rng, *shape):
    """Values between -1 and 1, not near either."""
    return rng.uniform(-0.9, 0.9, shape)


def beyond(rng, *shape):
    """Values above 1."""
    return rng.uniform(1.2, 3, shape)


def between(rng, *shape):
    """Values in the middle between integers, of both signs."""
    return rng.integers(-3, 3, shape) + rng.uniform(0.2, 0.4, shape)


row("add", "sub", "mul", "logaddexp")(pairs(normal, normal))
row("div", "atan2", "hypot", "copysign")(pairs(normal, away))
row("xlogy")(pairs(away, positive))
row("neg", "exp", "sin", "cos", "tanh", "sigmoid", "log1pexp")(singles(normal))
row("expm1", "sinh", "cosh", "asinh", "atan", "erf", "erfc")(singles(normal))
row("log", "sqrt", "rsqrt", "log1p", "log2", "log10")(singles(positive))
row("tan", "asin", "acos", "atanh", "erfinv")(singles(inside))
row("acosh")(singles(beyond))
row("relu", "abs", "sign", "reciprocal")(singles(away))
row("floor", "ceil", "trunc", "round")(singles(between))


@row("floor_divide", "remainder", "fmod")
def _divided(rng):
    """Quotients that are not near integers."""
    found = pairs(between, lambda rng, *s: np.where(rng.random(s) < 0.5, 1.0, -1.0))(rng)
    numbers = [Sample([between(rng, 3), 2.0]), Sample([7.25, positive(rng, 2)], smooth=False)]
    return [*found, *numbers]


@row("clamp", broadcasts=False)
def _clamp(rng):
    x, low, high = distinct(rng, 2, 3), distinct(rng, 3) - 0.6, distinct(rng, 2, 1) + 0.9
    return [
        Sample([x, low, high]), Sample([x, None, high]), Sample([x, low, None]),
        Sample([x, -0.3, 0.3]), Sample([x, -0.3, None]), Sample([x[0, 0], None, 0.1]),
        Sample([x[:0], low, None]), Sample([x, -0.25, 0.5], smooth=False),
    ]  # fmt: skip


@row("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
     broadcasts=False)  # fmt: skip
def _bits(rng):
    shapes = (((2, 3), (2, 3)), ((2, 1), (3,)), ((), (3,)), ((), ()), ((0, 3), (3,)))
    found = [Sample([rng.integers(-9, 9, s), rng.integers(0, 6, t)]) for s, t in shapes]
    return [*found, Sample([rng.integers(-9, 9, 4), 2])]


row("bitwise_not")(singles(lambda rng, *shape: rng.integers(-9, 9, shape)))


def apart(rng, s, t):
    """Two arrays, no element of which is near one it meets."""
    return Sample([np.round(2 * normal(rng, *s)), np.round(2 * normal(rng, *t)) + 0.5])


@row("maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge")
def _compared(rng):
    same = normal(rng, 2, 3)
    shapes = (((2, 3), (2, 3)), ((2, 1), (3,)), ((), (3,)), ((), ()), ((0, 3), (3,)))
    return [*(apart(rng, s, t) for s, t in shapes), Sample([same, same.copy()], smooth=False)]



@row("pow")
def _pow(rng):
    return [
        *pairs(positive, normal)(rng),
        Sample([away(rng, 2, 3), 2.0]), Sample([normal(rng, 3), 3]), Sample([normal(rng, 3), 1]),
        Sample([away(rng, 3), -2.0]), Sample([normal(rng, 3), 0]), Sample([2.5, normal(rng, 3)]),
        Sample([np.array([0.0, 0.0, 0.0]), np.array([2.0, 3.0, 0.0])], smooth=False),
        Sample([positive(rng, 3), np.array([0.0, 1.0, 2.0])]),
    ]  # fmt: skip


@row("relu_input")
def _relu_input(rng):
    return [
        Sample([normal(rng, *s), np.maximum(away(rng, *s), 0)])
        for s in ((5,), (2, 3), (), (0,), (2, 3, 4, 5))
    ]


@row("where")
def _where(rng):
    mask = rng.random((2, 3)) < 0.5
    return [
        Sample([mask, normal(rng, 2, 3), normal(rng, 2, 3)]),
        Sample([mask, normal(rng, 3), normal(rng, 2, 1)]),
        Sample([mask[0], normal(rng, 2, 3), normal(rng)]),
        Sample([np.array(True), normal(rng), normal(rng, 2)]),
        Sample([mask, normal(rng, 2, 3), 0.0]), Sample([mask, 1.5, normal(rng, 3)]),
        Sample([mask[:0], normal(rng, 0, 3), normal(rng, 3)]),
    ]  # fmt: skip


@row("cast")
def _cast(rng):
    return [Sample([normal(rng, *s)], {"dtype": np.dtype("float64")}) for s in ((2, 3), (), (0,))]


@row("full_like")
def _full_like(rng):
    return [Sample([normal(rng, *s)], {"value": 1.5}) for s in ((2, 3), (), (0,))]
