"""Normalisation, softmax, dropout."""

import numpy as np

from cases.table import Sample, normal, positive, row


@row("batch_norm")
def _batch_norm(rng):
    def of(shape, weight=True):
        c = shape[1]
        scale = [normal(rng, c), normal(rng, c)] if weight else [None, None]
        arrays = [normal(rng, *shape), normal(rng, c), positive(rng, c), *scale]
        return Sample(arrays, {"eps": 1e-5})

    return [of((4, 3)), of((2, 3, 4)), of((2, 3, 4, 5), False), of((2, 1, 3, 1)), of((0, 3, 2, 2))]


BATCHES = (4, 3), (3, 2, 5), (2, 3, 2, 3), (5, 1), (2, 17)  # fmt: skip


@row("batch_norm_own")
def _batch_norm_own(rng):
    return [Sample([normal(rng, *s), *(normal(rng, s[1]) if has else None for has in given)],
                   {"eps": 0.1})
            for s in BATCHES
            for given in ((True, True), (False, False), (True, False))]  # fmt: skip


@row("batch_norm_own_back", broadcasts=False)
def _batch_norm_own_back(rng):
    return [Sample([normal(rng, *s), normal(rng, *s), normal(rng, s[1]), positive(rng, s[1]),
                    normal(rng, s[1]) if has else None], {"eps": 0.1})
            for s in BATCHES for has in (True, False)]  # fmt: skip


@row("batch_norm_own_relu")
def _batch_norm_own_relu(rng):
    return _batch_norm_own(rng)


@row("batch_norm_own_relu_back", broadcasts=False)
def _batch_norm_own_relu_back(rng):
    found = _batch_norm_own_back(rng)
    for sample in found:
        sample.arrays.insert(4, normal(rng, sample.arrays[2].shape[0]))
    return found


@row("batch_moments")
def _batch_moments(rng):
    return [Sample([normal(rng, *s)]) for s in BATCHES]


@row("merged_moments", broadcasts=False)
def _merged_moments(rng):
    return [Sample([positive(rng, k, 2 * c + 1)]) for k, c in ((1, 1), (3, 2), (2, 5))]


def _shared(rng, s, has, rectify):
    affine = [normal(rng, s[1]), normal(rng, s[1])] if has else [None, None]
    moments = [normal(rng, s[1]), positive(rng, s[1])]
    return moments, affine, {"eps": 0.1, "rectify": rectify}


CASES = [(s, has, rectify) for s in BATCHES for has in (True, False) for rectify in (True, False)]


@row("batch_norm_shared")
def _batch_norm_shared(rng):
    """Not compared with differences: mean and var are those of x. See test_shared_norm."""
    found = []
    for s, has, rectify in CASES:
        x, (_, affine, constants) = normal(rng, *s), _shared(rng, s, has, rectify)
        axes = (0, *range(2, x.ndim))
        arrays = [x, x.mean(axis=axes), x.var(axis=axes), np.array([x.size / s[1]]), *affine]
        found.append(Sample(arrays, constants, smooth=False))
    return found


@row("batch_norm_sums", broadcasts=False)
def _batch_norm_sums(rng):
    found = []
    for s, has, rectify in CASES:
        moments, affine, constants = _shared(rng, s, has, rectify)
        arrays = [normal(rng, *s), normal(rng, *s), *moments, *affine]
        found.append(Sample(arrays, constants))
    return found


@row("batch_norm_back", broadcasts=False)
def _batch_norm_back(rng):
    found = []
    for s, has, rectify in CASES:
        moments, affine, constants = _shared(rng, s, has, rectify)
        sums = [normal(rng, 2 * s[1]), positive(rng, 1)]
        arrays = [normal(rng, *s), normal(rng, *s), *moments, *sums, *affine]
        found.append(Sample(arrays, constants))
    return found


POOLS = (  # x, kernel, stride, padding, dilation, size
    ((2, 3, 4, 6), (2, 2), (2, 2), (0, 0), (1, 1), (2, 3)),
    ((1, 17, 5, 4), (3, 2), (2, 1), (1, 0), (1, 2), (3, 2)),
    ((2, 2, 3, 3), (2, 2), (1, 1), (0, 0), (1, 1), (2, 2)),
)


def _pool(rng, case, has):
    """x, its normalisation, a cotangent of the pool, places, and what says where windows lie."""
    shape, kernel, stride, padding, dilation, size = case
    c, pooled = shape[1], (*shape[:2], *size)
    affine = [normal(rng, c) if given else None for given in has]
    moments = [normal(rng, c), positive(rng, c)]
    grid = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    places = rng.integers(0, kernel[0] * kernel[1], pooled).astype("uint8")
    return normal(rng, *shape), moments, affine, normal(rng, *pooled), places, grid


@row("batch_norm_pool")
def _batch_norm_pool(rng):
    found = []
    for case in POOLS:
        for has in ((True, True), (False, False)):
            x, moments, affine, _, _, grid = _pool(rng, case, has)
            found.append(Sample([x, *moments, *affine], {"eps": 0.1, **grid, "size": case[-1]}))
    return found


def _pool_backs(rng, arrays):
    """Calls of a way back; ``arrays(moments, weight)`` are those behind x."""
    found = []
    for case in POOLS:
        for has in (True, False):
            x, moments, (weight,), g, places, grid = _pool(rng, case, (has,))
            constants = {"eps": 0.1, "shape": x.shape, **grid}
            found.append(Sample([g, places, x, *arrays(moments, weight)], constants))
    return found


@row("batch_norm_own_pool_back", broadcasts=False)
def _batch_norm_own_pool_back(rng):
    return _pool_backs(rng, lambda moments, weight: [*moments, weight])


@row("batch_norm_pool_sums", broadcasts=False)
def _batch_norm_pool_sums(rng):
    return _pool_backs(rng, lambda moments, weight: moments)


@row("batch_norm_pool_back", broadcasts=False)
def _batch_norm_pool_back(rng):
    def arrays(moments, weight):
        return [*moments, normal(rng, 2 * len(moments[0])), positive(rng, 1), weight]

    return _pool_backs(rng, arrays)


GROUPS = (((4, 3), 1, True), ((2, 6, 4), 3, True), ((2, 4, 3, 2), 2, False), ((3, 5), 1, False),
          ((0, 4), 2, True), ((2, 3, 0), 1, True), ((3, 37), 1, True), ((2, 3, 5), 3, True),
          ((1, 40, 3), 5, True))  # fmt: skip
UNDIVIDED = Sample([np.zeros((2, 3)), np.zeros(3), np.zeros(3)], {"groups": 2})


@row("group_norm", wrong=(UNDIVIDED,))
def _group_norm(rng):
    found = [
        Sample([normal(rng, *s), *(normal(rng, s[1]) if has else None for has in given)],
               {"groups": g, "eps": 0.1, "center": c})
        for s, g, c in GROUPS for given in ((True, True), (False, False))
    ]  # fmt: skip
    more = [Sample([normal(rng, 3, 4), normal(rng, 4), None], {"groups": 2, "eps": 0.1}),
            Sample([normal(rng, 3, 4), None, normal(rng, 4)], {"eps": 0.1})]  # fmt: skip
    return [*found, *more, Sample([normal(rng, 3, 1), None, None], {"eps": 1e-2}, smooth=False)]


@row("group_norm_back", broadcasts=False, wrong=(
    Sample([np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 2)), np.zeros((2, 2)), None]),
))  # fmt: skip
def _group_norm_back(rng):
    return [Sample([normal(rng, *s), normal(rng, *s), normal(rng, s[0], g), positive(rng, s[0], g),
                    normal(rng, s[1]) if has else None], {"center": c})
            for s, g, c in GROUPS for has in (True, False)]  # fmt: skip


@row("layer_norm", broadcasts=False)
def _layer_norm(rng):
    cases = (((3, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 2, 4), 3), ((4,), 1),
             ((5, 3, 1), 2))  # fmt: skip
    return [Sample([normal(rng, *s), *(normal(rng, *s[-n:]) if has else None for has in given)],
                   {"axes": n, "eps": 0.1, "center": center})
            for s, n in cases for center in (True, False)
            for given in ((True, True), (False, False), (True, False))]  # fmt: skip


@row("softmax", "log_softmax", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _softmax(rng):
    cases = (((2, 3), 1), ((2, 3), 0), ((2, 3, 4), -1), ((2, 3, 4, 5), 1), ((5,), 0), ((3, 1), 1),
             ((0, 3), 1), ((2, 0), 1))  # fmt: skip
    large = Sample([np.array([[1000.0, 999.0], [-1000.0, -1001.0]])], {"dim": 1})
    return [*(Sample([normal(rng, *s)], {"dim": d}) for s, d in cases), large]


@row("softmax_input", "log_softmax_input", broadcasts=False)
def _softmax_input(rng):
    cases = ((2, 3), 1), ((2, 3), 0), ((2, 3, 4), -1), ((2, 3, 4, 5), 1), ((5,), 0), ((0, 3), 1)
    return [Sample([normal(rng, *s), normal(rng, *s)], {"dim": d}) for s, d in cases]


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


@row("cross_entropy_mean", broadcasts=False)
def _cross_entropy_mean(rng):
    return [sample for sample in _cross_entropy(rng) if sample.arrays[1].size]


@row("cross_entropy_mean_input")
def _cross_entropy_mean_input(rng):
    found = [Sample([normal(rng), *s.arrays], s.constants) for s in _cross_entropy_mean(rng)]
    skipped = {"ignore_index": int(found[0].arrays[2][0])}
    return [*found, Sample(found[0].arrays, skipped)]


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


@row("noise")
def _noise(rng):
    key = (2**40 + 3, 5, 7)
    cases = (((4, 6), 0, 0), ((4, 6), 3, 1), ((3, 2, 3), 2, -1), ((7,), 0, None), ((0, 3), 0, 0),
             ((), 0, None))  # fmt: skip
    return [Sample([normal(rng, *s)], {"key": key, "row": r, "batch_dim": b}) for s, r, b in cases]


@row("binary_cross_entropy")
def _binary_cross_entropy(rng):
    within = lambda *s: 0.1 + 0.8 * rng.random(s)  # noqa: E731
    edge = Sample([np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])], smooth=False)
    shapes = ((3, 4), (1,), (), (0, 3))
    return [*(Sample([within(*s), within(*s)]) for s in shapes), edge]
