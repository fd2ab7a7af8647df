"""Convolution, pooling and windows."""

import numpy as np

from cases.table import Sample, distinct, normal, row
from minidp.op import OPS


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


@row("conv2d", "conv2d_relu", wrong=(
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


@row("max_pool2d", "max_pool2d_relu")
def _max_pool2d(rng):
    ties = np.zeros((1, 1, 4, 4))
    ties[0, 0, 0, 1] = ties[0, 0, 1, 0] = ties[0, 0, 3, 3] = np.nan
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


@row("completed", broadcasts=False)
def _completed(rng):
    return [Sample([normal(rng, 3, 2), normal(rng, 3, 2)], {"factor": 1.0}),
            Sample([normal(rng, 0), normal(rng, 0)], {"factor": 1.0})]  # fmt: skip


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


def along():
    """(shape, dim, size, stride, dilation) of windows along one axis."""
    return [((2, 5), 1, 3, 1, 1), ((7, 2, 2), 0, 2, 3, 1), ((2, 9, 2), 1, 3, 2, 2),
            ((4,), 0, 1, 2, 1), ((3, 1), 1, 1, 1, 1), ((0, 4), 1, 2, 1, 1),
            ((2, 4, 0), 1, 4, 1, 1)]  # fmt: skip


@row("windows")
def _windows(rng):
    return [
        Sample([normal(rng, *s)], {"dim": d, "size": n, "stride": step, "dilation": dilation})
        for s, d, n, step, dilation in along()
    ]


@row("overlap")
def _overlap(rng):
    found = []
    for s, d, n, step, dilation in along():
        count = (s[d] - dilation * (n - 1) - 1) // step + 1
        dy = normal(rng, *s[:d], n, count, *s[d + 1 :])
        found.append(Sample([dy], {"shape": s, "dim": d, "stride": step, "dilation": dilation}))
    return found


def taps():
    """(shape, dim, index, weight): places that occur often, never, and by turns."""
    once = np.array([[0], [2], [2], [2], [4]])
    both = np.array([[0, 0], [0, 1], [1, 3], [3, 3]])
    weight = np.array([[1.0, 0.5], [0.25, 0.75], [-1.0, 2.0], [0.0, 1.0]])
    return [((2, 5), 1, once, None), ((4, 3, 2), 0, both, weight), ((2, 4), 1, both, weight),
            ((3, 0), 0, both[:3] // 2, weight[:3]), ((5,), 0, once[:0], None)]  # fmt: skip


@row("resample")
def _resample(rng):
    return [Sample([normal(rng, *s)], {"dim": d, "index": i, "weight": w}) for s, d, i, w in taps()]


@row("resample_input")
def _resample_input(rng):
    return [
        Sample([normal(rng, *s[:d], len(i), *s[d + 1 :])],
               {"length": s[d], "dim": d, "index": i, "weight": w})
        for s, d, i, w in taps()
    ]  # fmt: skip
