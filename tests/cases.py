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
    "sgd": "changes its arguments: tests/test_optim_rules.py",
    "adam": "changes its arguments: tests/test_optim_rules.py",
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


# Element-wise


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


row("add", "sub", "mul")(pairs(normal, normal))
row("div")(pairs(normal, away))
row("neg", "exp", "sin", "cos", "tanh", "sigmoid", "log1pexp")(singles(normal))
row("log", "sqrt", "rsqrt")(singles(positive))
row("relu", "abs")(singles(away))
row("sign")(singles(away))


def apart(rng, s, t):
    """Two arrays, no element of which is near one it meets."""
    return Sample([np.round(2 * normal(rng, *s)), np.round(2 * normal(rng, *t)) + 0.5])


@row("maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge")
def _compared(rng):
    same = normal(rng, 2, 3)
    shapes = (((2, 3), (2, 3)), ((2, 1), (3,)), ((), (3,)), ((), ()), ((0, 3), (3,)))
    return [*(apart(rng, s, t) for s, t in shapes), Sample([same, same.copy()], smooth=False)]


@row("isnan", "isfinite")
def _special(rng):
    return [Sample([np.array([1.0, np.nan, np.inf, -np.inf, 0.0])]), *singles(normal)(rng)]


@row("pow")
def _pow(rng):
    return [
        *pairs(positive, normal)(rng),
        Sample([away(rng, 2, 3), 2.0]), Sample([normal(rng, 3), 3]), Sample([normal(rng, 3), 1]),
        Sample([away(rng, 3), -2.0]), Sample([normal(rng, 3), 0]), Sample([2.5, normal(rng, 3)]),
        Sample([np.array([-2.0, 0.0, 0.0]), np.array([2.0, 3.0, 0.0])], smooth=False),
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


# Layout


@row("reshape", wrong=(Sample([np.zeros((2, 3))], {"shape": (4,)}),))
def _reshape(rng):
    cases = (((2, 3), (6,)), ((6,), (3, 1, 2)), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0)))
    return [*(Sample([normal(rng, *s)], {"shape": t}) for s, t in cases),
            Sample([normal(rng, 3, 2).T], {"shape": (6,)})]  # fmt: skip


@row("permute", wrong=(Sample([np.zeros((2, 3))], {"axes": (0,)}),))
def _permute(rng):
    cases = (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((), ()), ((0, 2), (1, 0)))
    return [Sample([normal(rng, *s)], {"axes": axes}) for s, axes in cases]


@row("expand", wrong=(Sample([np.zeros((2, 3))], {"shape": (4, 3)}),))
def _expand(rng):
    cases = (((2, 1), (2, 3)), ((3,), (2, 3)), ((), (2, 2)), ((1, 3), (4, 2, 3)), ((1,), (0,)))
    return [Sample([normal(rng, *s)], {"shape": t}) for s, t in cases]


@row("concat", wrong=(Sample([np.zeros((2, 3)), np.zeros((2, 4))], {"dim": 0}),))
def _concat(rng):
    return [
        Sample([normal(rng, 2, 3), normal(rng, 1, 3), normal(rng, 0, 3)], {"dim": 0}),
        Sample([normal(rng, 2, 1), normal(rng, 2, 3)], {"dim": 1}),
        Sample([normal(rng, 3)], {"dim": 0}),
    ]


@row("narrow")
def _narrow(rng):
    return [
        Sample([normal(rng, 4, 3)], {"dim": 0, "start": 1, "length": 2}),
        Sample([normal(rng, 2, 3, 2)], {"dim": 1, "start": 0, "length": 3}),
        Sample([normal(rng, 4)], {"dim": 0, "start": 2, "length": 0}),
    ]


@row("embed", wrong=(Sample([np.zeros((2, 3))], {"shape": (4, 5), "dim": 0, "start": 1}),))
def _embed(rng):
    return [
        Sample([normal(rng, 2, 3)], {"shape": (4, 3), "dim": 0, "start": 1}),
        Sample([normal(rng, 2, 3)], {"shape": (2, 3), "dim": 1, "start": 0}),
        Sample([normal(rng, 0)], {"shape": (4,), "dim": 0, "start": 2}),
    ]


row("copy")(singles(normal))


@row("to_device")
def _to_device(rng):
    return [Sample([normal(rng, *s)], {"device": "cpu:0", "source": "cpu:0"}) for s in ((2, 3), ())]


@row("all_reduce")
def _all_reduce(rng):
    return [Sample([normal(rng, *s)], {"name": "test"}) for s in ((2, 3), (), (0,))]


# Reductions

REDUCTIONS = (
    ((2, 3), None, False), ((2, 3), (0,), False), ((2, 3), (1,), True), ((2, 3, 4), (0, 2), False),
    ((2, 3, 4), -1, True), ((2, 1), 1, False), ((), None, False), ((2, 3, 4, 5), (0, 2, 3), False),
)  # fmt: skip


@row("sum", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}), Sample([np.zeros(2)], {"dim": (0, 0)})))
def _sum(rng):
    empty = [Sample([normal(rng, 0, 3)], {"dim": d}) for d in (None, 0, 1)]
    found = [Sample([normal(rng, *s)], {"dim": d, "keepdim": k}) for s, d, k in REDUCTIONS]
    return [*found, *empty]


@row("amax", "amin", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _extremes(rng):
    ties = Sample([np.array([[1.0, 2.0, 2.0], [2.0, 0.0, 0.0]])], {"dim": 1}, smooth=False)
    empty = Sample([normal(rng, 0, 3)], {"dim": 1})
    found = [Sample([distinct(rng, *s)], {"dim": d, "keepdim": k}) for s, d, k in REDUCTIONS]
    return [*found, ties, empty]


@row("argmax", "argmin", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _places(rng):
    cases = (((2, 3), None, False), ((2, 3), 0, False), ((2, 3), -1, True), ((), None, False))
    ties = Sample([np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 1.0]])], {"dim": 1})
    return [*(Sample([normal(rng, *s)], {"dim": d, "keepdim": k}) for s, d, k in cases), ties]


@row("all", "any", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _truths(rng):
    values = [(rng.random(s) < 0.6, d, k) for s, d, k in REDUCTIONS]
    return [Sample([x], {"dim": d, "keepdim": k}) for x, d, k in values]


# Linear algebra


@row("matmul", wrong=(Sample([np.zeros((2, 3, 4)), np.zeros((5, 4, 2))]),))
def _matmul(rng):
    cases = (((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 1)),
             ((1, 1), (1, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 2)))  # fmt: skip
    return [Sample([normal(rng, *s), normal(rng, *t)]) for s, t in cases]


@row("linear")
def _linear(rng):
    return [
        Sample([normal(rng, 4, 3), normal(rng, 2, 3), normal(rng, 2)]),
        Sample([normal(rng, 4, 3), normal(rng, 2, 3), None]),
        Sample([normal(rng, 1, 1), normal(rng, 1, 1), normal(rng, 1)]),
        Sample([normal(rng, 0, 3), normal(rng, 2, 3), normal(rng, 2)]),
    ]


# Convolution and pooling


def geometries():
    """(x shape, w shape, constants) of convolutions that meet every branch."""

    def of(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
        return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    return [
        ((2, 3, 5, 4), (4, 3, 3, 2), of()),
        ((2, 1, 5, 6), (2, 1, 3, 3), of(padding=(1, 1))),
        ((2, 4, 7, 6), (6, 2, 3, 2), of((2, 1), (1, 2), (1, 2), 2)),
        ((1, 4, 5, 5), (4, 1, 3, 3), of(padding=(1, 1), groups=4)),
        ((3, 2, 4, 4), (5, 2, 1, 1), of()),
        ((2, 2, 7, 8), (3, 2, 2, 3), of(stride=(3, 2))),
        ((0, 3, 5, 4), (4, 3, 3, 2), of()),
    ]


def output_of(x, w, stride, padding, dilation, groups):
    sizes = [
        (x[a] + 2 * padding[a - 2] - dilation[a - 2] * (w[a] - 1) - 1) // stride[a - 2] + 1
        for a in (2, 3)
    ]
    return (x[0], w[0], *sizes)


ONE = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


@row("conv2d", wrong=(
    Sample([np.zeros((1, 3, 5, 5)), np.zeros((2, 2, 3, 3)), None], ONE),
    Sample([np.zeros((1, 2, 2, 5)), np.zeros((2, 2, 3, 3)), None], ONE),
    Sample([np.zeros((1, 4, 5, 5)), np.zeros((3, 2, 3, 3)), None], {**ONE, "groups": 2}),
))  # fmt: skip
def _conv2d(rng):
    return [
        Sample([normal(rng, *x), normal(rng, *w), normal(rng, w[0]) if i % 2 == 0 else None], c)
        for i, (x, w, c) in enumerate(geometries())
    ]


@row("conv2d_input")
def _conv2d_input(rng):
    return [
        Sample([normal(rng, *output_of(x, w, **c)), normal(rng, *w)], {"shape": x, **c})
        for x, w, c in geometries()
    ]


@row("conv2d_weight")
def _conv2d_weight(rng):
    return [
        Sample([normal(rng, *output_of(x, w, **c)), normal(rng, *x)], {"shape": w, **c})
        for x, w, c in geometries()
    ]


def windows():
    """(x shape, constants without dilation, dilation) of poolings."""

    def of(kernel, stride, padding, size):
        return {"kernel": kernel, "stride": stride, "padding": padding, "size": size}

    return [
        ((2, 3, 4, 6), of((2, 2), (2, 2), (0, 0), (2, 3)), (1, 1)),
        ((2, 2, 5, 6), of((3, 2), (1, 2), (1, 1), (5, 4)), (1, 1)),
        ((1, 2, 5, 5), of((2, 2), (2, 2), (0, 0), (3, 3)), (1, 1)),
        ((1, 1, 7, 7), of((3, 3), (2, 2), (1, 1), (3, 3)), (2, 2)),
        ((0, 3, 4, 4), of((2, 2), (2, 2), (0, 0), (2, 2)), (1, 1)),
    ]


def _without(constants, *left_out):
    return {name: value for name, value in constants.items() if name not in left_out}


@row("max_pool2d")
def _max_pool2d(rng):
    ties = np.zeros((1, 1, 4, 4))
    ties[0, 0, 1, 1] = np.nan
    first = {**windows()[0][1], "size": (2, 2), "dilation": (1, 1)}
    found = [Sample([distinct(rng, *x)], {**c, "dilation": d}) for x, c, d in windows()]
    corner = {**windows()[1][1], "size": (3, 2), "dilation": (1, 1)}
    lowest = Sample([np.full((1, 1, 3, 3), -np.inf)], corner, smooth=False)
    return [*found, Sample([ties], first, smooth=False), lowest]


@row("max_pool2d_input")
def _max_pool2d_input(rng):
    return [
        Sample([normal(rng, *x[:2], *c["size"]), chosen(rng, x, c, d)],
               {"shape": x, **_without(c, "size"), "dilation": d})
        for x, c, d in windows()
    ]  # fmt: skip


@row("max_pool2d_places")
def _max_pool2d_places(rng):
    geometry = {"width": 7, "kernel": (2, 3), "stride": (2, 1), "padding": (0, 1),
                "dilation": (1, 2)}  # fmt: skip
    index = rng.integers(0, 6, (2, 3, 4, 5)).astype("uint8")
    return [Sample([index], geometry), Sample([index[:0]], geometry)]


@row("sum_each", broadcasts=False)
def _sum_each(rng):
    return [
        Sample([normal(rng, 3, 2), positive(rng, 5)]), Sample([normal(rng, 4), normal(rng)]),
        Sample([normal(rng, 2, 3), 6]), Sample([normal(rng, 0), positive(rng, 2)]),
        Sample([normal(rng, 3)]),
    ]  # fmt: skip


@row("quotient")
def _quotient(rng):
    return [Sample([positive(rng, 2)])]


@row("max_pool2d_gather")
def _max_pool2d_gather(rng):
    return [
        Sample([normal(rng, *x), chosen(rng, x, c, d)], {**_without(c, "size"), "dilation": d})
        for x, c, d in windows()
    ]


def chosen(rng, x, constants, dilation):
    """The places that max pooling chooses in some image of shape x."""
    return OPS["max_pool2d"].body(np, distinct(rng, *x), **constants, dilation=dilation)[1]


@row("avg_pool2d")
def _avg_pool2d(rng):
    return [Sample([normal(rng, *x)], {**c, "count_include_pad": counted})
            for x, c, _ in windows()[:3] + windows()[4:] for counted in (True, False)]  # fmt: skip


@row("avg_pool2d_input")
def _avg_pool2d_input(rng):
    return [
        Sample([normal(rng, *x[:2], *c["size"])],
               {"shape": x, **_without(c, "size"), "count_include_pad": counted})
        for x, c, _ in windows()[:3] + windows()[4:] for counted in (True, False)
    ]  # fmt: skip


# Normalisation, softmax, dropout


@row("batch_norm")
def _batch_norm(rng):
    def of(shape, weight=True):
        c = shape[1]
        scale = [normal(rng, c), normal(rng, c)] if weight else [None, None]
        arrays = [normal(rng, *shape), normal(rng, c), positive(rng, c), *scale]
        return Sample(arrays, {"eps": 1e-5})

    return [of((4, 3)), of((2, 3, 4)), of((2, 3, 4, 5), False), of((2, 1, 3, 1)), of((0, 3, 2, 2))]


@row("softmax", "log_softmax", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _softmax(rng):
    cases = (((2, 3), 1), ((2, 3), 0), ((2, 3, 4), -1), ((2, 3, 4, 5), 1), ((5,), 0), ((3, 1), 1),
             ((0, 3), 1), ((2, 0), 1))  # fmt: skip
    large = Sample([np.array([[1000.0, 999.0], [-1000.0, -1001.0]])], {"dim": 1})
    return [*(Sample([normal(rng, *s)], {"dim": d}) for s, d in cases), large]


def labels(rng, shape, count):
    """Class labels, about one in four ignored."""
    found = rng.integers(0, count, shape)
    return np.where(rng.random(shape) < 0.25, -100, found)


LOGITS = ((4, 3), (1, 1), (2, 3, 4), (2, 3, 2, 2), (0, 3), (6, 5))


UNEQUAL = Sample([np.zeros((2, 3, 4)), np.zeros((2, 5), int)], {"ignore_index": 0})
FEWER = Sample([np.zeros((2, 3, 4)), np.zeros((2, 1), int)], {"ignore_index": 0})


@row("cross_entropy", wrong=(UNEQUAL, FEWER))
def _cross_entropy(rng):
    return [
        Sample([normal(rng, *s), labels(rng, (s[0], *s[2:]), s[1])], {"ignore_index": -100})
        for s in LOGITS
    ]


@row("cross_entropy_input")
def _cross_entropy_input(rng):
    found = []
    for s in LOGITS:
        target = labels(rng, (s[0], *s[2:]), s[1])
        arrays = [normal(rng, *target.shape), normal(rng, *s), target]
        found.append(Sample(arrays, {"ignore_index": -100}))
    return found


@row("dropout")
def _dropout(rng):
    key = (2**40 + 3, 5, 7)
    cases = (
        ((4, 6), 0.5, 0, 0), ((4, 6), 0.25, 3, 1), ((3, 2, 3), 0.5, 2, 0), ((7,), 0.5, 0, None),
        ((2, 3), 0.0, 0, 0), ((2, 3), 1.0, 0, 0), ((0, 3), 0.5, 0, 0), ((), 0.5, 0, None),
    )  # fmt: skip
    return [
        Sample([normal(rng, *s)], {"p": p, "key": key, "row": r, "batch_dim": b})
        for s, p, r, b in cases
    ]


# Indexing

KEYS = (
    ((4, 3), 1), ((4, 3), slice(1, 3)), ((4, 3), slice(None, None, -2)), ((4, 3), (..., 0)),
    ((4, 3), (None, slice(2))), ((4, 3), np.array([0, 2, 2, -1])), ((3,), 2), ((), ()), ((), None),
    ((4, 3), (np.array([0, 0]), np.array([1, 1]))), ((4, 3), np.arange(12).reshape(4, 3) % 2 == 0),
    ((4, 3), [1, 1, 3]), ((4, 3), np.zeros(4, bool)), ((4, 3), slice(0, 0)),
    ((2, 3, 4), (np.array([[0], [1]]), slice(1, None), np.array([0, 3]))),
)  # fmt: skip


@row("get")
def _get(rng):
    return [Sample([normal(rng, *s)], {"key": key}) for s, key in KEYS]


@row("put")
def _put(rng):
    found = [(np.array(normal(rng, *s)[key]), s, key) for s, key in KEYS]
    return [Sample([x], {"shape": s, "key": key}) for x, s, key in found]


@row("take_along_dim", broadcasts=False)
def _take_along_dim(rng):
    return [
        Sample([normal(rng, 4, 3), rng.integers(0, 4, (2, 3))], {"dim": 0}),
        Sample([normal(rng, 4, 3), rng.integers(0, 3, (4, 5))], {"dim": 1}),
        Sample([normal(rng, 4, 3), rng.integers(0, 3, (1, 5))], {"dim": 1}),
        Sample([normal(rng, 1, 3), rng.integers(0, 3, (4, 2))], {"dim": 1}),
        Sample([normal(rng, 3), np.array([1, 1, 1, 0])], {"dim": 0}),
        Sample([normal(rng, 2, 3), np.zeros((2, 0), int)], {"dim": 1}),
    ]


@row("scatter_along", broadcasts=False)
def _scatter_along(rng):
    return [
        Sample([normal(rng, 2, 3), rng.integers(0, 4, (2, 3))], {"shape": (4, 3), "dim": 0}),
        Sample([normal(rng, 4, 5), rng.integers(0, 3, (1, 5))], {"shape": (4, 3), "dim": 1}),
        Sample([normal(rng, 4), np.array([1, 1, 1, 0])], {"shape": (3,), "dim": 0}),
    ]
