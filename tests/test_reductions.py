"""Reductions and comparisons: axes, dtypes, values and gradients at special points."""

import numpy as np
import pytest

import minidp as dp
from minidp import create
from minidp.autograd import grad
from minidp.create import tensor
from minidp.errors import ShapeError
from minidp.functions.reduce import vector_norm
from minidp.testing import gradcheck, gradgradcheck

SOURCE = np.random.default_rng(0).standard_normal((4, 3, 2))
NAN, INF = float("nan"), float("inf")


def leaf(values):
    return tensor(values, dtype="float64", requires_grad=True)


def equal(actual, expected):
    """The same shape, dtype and values."""
    expected = np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(actual.detach().numpy(), expected)


# Comparisons


def test_comparisons_are_element_by_element():
    a, b = np.array([1.0, 2.0, np.nan]), np.array([1.0, 3.0, np.nan])
    x, y = tensor(a), tensor(b)
    pairs = ((x == y, a == b), (x != y, a != b), (x < y, a < b), (x <= y, a <= b), (x > y, a > b),
             (x >= 2, a >= 2), (np.float64(2) >= x, a <= 2), (a == y, a == b),
             (x.isnan(), np.isnan(a)), (x.isfinite(), np.isfinite(a)))  # fmt: skip
    for actual, expected in pairs:
        equal(actual, expected)
    assert (x[:2] > 0).all() and (x == 2).any() and not (x == y).all()


# Reductions

DIMS = [None, 0, 1, -1, (0,), (0, 2), (-1, 0), (0, 1, 2), [1]]


def axes(dim):
    return tuple(dim) if isinstance(dim, list) else dim


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "amax", "amin", "norm"])
def test_reductions(name, dim, keepdim):
    x, options = leaf(SOURCE), {"axis": axes(dim), "keepdims": keepdim}
    expected = {
        "sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min,
        "var": lambda a, **o: np.var(a, ddof=1, **o), "std": lambda a, **o: np.std(a, ddof=1, **o),
        "norm": lambda a, **o: np.sqrt(np.sum(a * a, **o)),
    }[name](SOURCE, **options)  # fmt: skip

    def reduce(x):
        return getattr(x, name)(dim=dim, keepdim=keepdim)

    y = reduce(x)
    assert (y.shape, y.dtype) == (np.shape(expected), np.float64)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12)
    gradcheck(reduce, x, directions=1)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_max_and_min_with_places(dim, keepdim):
    x = leaf(SOURCE)
    for name, choose in (("max", np.argmax), ("min", np.argmin)):
        values, places = getattr(x, name)(dim, keepdim)
        equal(places, choose(SOURCE, axis=dim, keepdims=keepdim))
        equal(values, getattr(np, name)(SOURCE, axis=dim, keepdims=keepdim))
        gradcheck(lambda x, name=name: getattr(x, name)(dim, keepdim)[0], x, directions=1)


def test_max_of_everything_and_of_pairs():
    x, y = leaf([1.0, 3.0]), leaf([2.0, 1.0])
    assert x.max().item() == 3 and x.min().item() == 1 and tensor(2.0).max(0)[0].item() == 2
    equal(x.max(y), np.array([2.0, 3.0]))
    equal(x.min(y), np.array([1.0, 1.0]))
    assert (x.argmax().item(), x.argmin().item()) == (1, 0)


def test_ties_share_the_cotangent():
    x = leaf([2.0, 2.0, 1.0])
    x.amax().backward()
    equal(x.grad, np.array([0.5, 0.5, 0]))
    (g,) = grad(x.maximum(tensor([2.0, 0.0, 5.0], dtype="float64")).sum(), x)
    equal(g, np.array([0.5, 1, 0]))


def test_reductions_of_integers_and_nothing():
    equal(tensor([[1, 2], [3, 4]]).sum(0), np.array([4, 6]))
    equal(tensor([True, True]).sum(), np.array(2))
    equal(tensor([1, 2], dtype="int32").sum(dtype="float64"), np.array(3.0))
    equal(create.zeros(0).sum(), np.float32(0))
    assert create.zeros(0).mean().isnan().item() and tensor([1.0]).var().isnan().item()
    with pytest.raises(TypeError, match=r"int64.*float"):
        tensor([1, 2]).mean()
    for call in (lambda x: x.max(), lambda x: x.argmin(), lambda x: x.amin(dim=0)):
        with pytest.raises(ShapeError, match="nothing to choose from"):
            call(create.zeros(0, 2))


def test_half_precision_sums_do_not_saturate():
    assert create.ones(4096, dtype="float16").sum().item() == 4096


# Values and gradients of sum over rows, with a zero row and ties; PyTorch's numbers

ROWS = [[1.0, 2.0, 2.0], [0.0, 3.0, 0.0]]


def derived(function, values):
    """What the function gives, and the gradient of its sum."""
    x = leaf(values)
    y = function(x)
    return y.tolist(), dp.grad(y.sum(), x)[0].tolist()


def agrees(function, values, expected, slopes):
    for found, wanted in zip(derived(function, values), (expected, slopes), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("function,expected,slopes", [
    (lambda x: x.prod(1), [4, 0], [[4, 2, 2], [0, 0, 0]]),
    (lambda x: x.prod(), 0, [[0, 0, 0], [0, 0, 0]]),
    (lambda x: x[1, :2].prod(), 0, [[0, 0, 0], [3, 0, 0]]),
    (lambda x: x.cumprod(1), [[1, 2, 4], [0, 0, 0]], [[7, 3, 2], [4, 0, 0]]),
    (lambda x: x.cumsum(1), [[1, 3, 5], [0, 3, 3]], [[3, 2, 1], [3, 2, 1]]),
    (lambda x: x.logcumsumexp(1), [[1, 2.313262, 2.861995], [0, 3.048587, 3.094923]],
     [[1.424304, 1.153377, 0.4223188], [1.092704, 1.862017, 0.0452785]]),
    (lambda x: x.std(1), [0.5773503, 1.732051],
     [[-0.5773503, 0.2886751, 0.2886751], [-0.2886751, 0.5773503, -0.2886751]]),
    (lambda x: x.var(0), [0.5, 0.5, 2], [[1, -1, 2], [-1, 1, -2]]),
    (lambda x: x.amax(1), [2, 3], [[0, 0.5, 0.5], [0, 1, 0]]),
    (lambda x: x.max(), 3, [[0, 0, 0], [0, 1, 0]]),
    (lambda x: x.min(), 0, [[0, 0, 0], [0.5, 0, 0.5]]),
    (lambda x: x.max(1).values, [2, 3], [[0, 1, 0], [0, 1, 0]]),
    (lambda x: x.median(), 1, [[1, 0, 0], [0, 0, 0]]),
    (lambda x: x.logsumexp(1), [2.861995, 3.094923],
     [[0.1553624, 0.4223188, 0.4223188], [0.0452785, 0.909443, 0.0452785]]),
])  # fmt: skip
def test_gradients(function, expected, slopes):
    agrees(function, ROWS, expected, slopes)


@pytest.mark.parametrize("p,expected,slopes", [
    (0, [3, 1], [[0, 0, 0], [0, 0, 0]]), (1, [5, 3], [[1, 1, 1], [0, 1, 0]]),
    (2, [3, 3], [[1 / 3, 2 / 3, 2 / 3], [0, 1, 0]]),
    (3, [2.571282, 3], [[0.1512519, 0.6050074, 0.6050074], [0, 1, 0]]),
    (0.5, [14.65685, 3], [[3.828427, 2.707107, 2.707107], [0, 1, 0]]),
    (-1, [0.5, 0], [[0.25, 0.0625, 0.0625], [0, 0, 0]]),
    (INF, [2, 3], [[0, 0.5, 0.5], [0, 1, 0]]), (-INF, [1, 0], [[1, 0, 0], [0, 0, 0]]),
])  # fmt: skip
def test_norms(p, expected, slopes):
    agrees(lambda x: vector_norm(x, p, 1), ROWS, expected, slopes)
    agrees(lambda x: x.norm(p), [0.0, 0.0], 0, [0, 0])


@pytest.mark.parametrize("function,values,expected,slopes", [
    (lambda x: x.std(), [2.0, 2.0], 0, [0, 0]), (lambda x: x.std(), [2.0], NAN, [NAN]),
    (lambda x: x.std(correction=0), [2.0], 0, [0]), (lambda x: x.var(), [2.0], NAN, [NAN]),
    (lambda x: x.max(), [1, NAN, NAN], NAN, [0, 0.5, 0.5]),
    (lambda x: x.amax(), [1, NAN], NAN, [NAN, NAN]),
    (lambda x: x.nansum(), [1, NAN], 1, [1, 0]),
    (lambda x: x.nanmean(), [1, NAN, 3], 2, [0.5, 0, 0.5]),
    (lambda x: x.median(), [1, NAN, 3], NAN, [0, 1, 0]),
    (lambda x: x.nanmedian(), [1, NAN, 3], 1, [1, 0, 0]),
    (lambda x: x.logsumexp(1), [[-INF, -INF], [INF, 1], [-INF, 1]], [-INF, INF, 1],
     [[NAN, NAN], [NAN, 0], [0, 1]]),
    (lambda x: x.logsumexp(0), [1000.0, 1000.0], 1000.6931472, [0.5, 0.5]),
])  # fmt: skip
def test_gradients_at_special_points(function, values, expected, slopes):
    agrees(function, values, expected, slopes)


def test_products_with_zeros_have_second_derivatives():
    for values in ([0.0, 2, 3, -1], [0.0, 0, 2, 3], [0.0, 0, 0, 1]):
        for function in (lambda x: x.prod(), lambda x: x.cumprod(0)):
            gradcheck(function, leaf(values))
            gradgradcheck(function, leaf(values))


def test_nothing_at_all():
    x = create.zeros(2, 0)
    for name, expected in (
        ("sum", [0, 0]), ("prod", [1, 1]), ("mean", [NAN] * 2), ("nanmean", [NAN] * 2),
        ("logsumexp", [-INF] * 2), ("norm", [0, 0]), ("all", [True] * 2), ("any", [False] * 2),
        ("count_nonzero", [0, 0]), ("std", [NAN] * 2),
    ):  # fmt: skip
        np.testing.assert_equal(getattr(x, name)(dim=1).tolist(), expected)
    assert x.amax(0).tolist() == x.max(0).values.tolist() == x.cumsum(1).reshape(-1).tolist() == []


def test_dtypes_of_sums_and_products():
    for dtype, wide in (("bool", "int64"), ("uint8", "int64"), ("int32", "int64"),
                        ("float16", "float16"), ("float64", "float64")):  # fmt: skip
        x = tensor([1, 0, 1], dtype=dtype)
        for name in ("sum", "prod", "nansum"):
            assert getattr(x, name)().dtype == wide
        assert x.cumsum(0).dtype == x.cumprod(0).dtype == wide
        assert x.count_nonzero().dtype == x.argmax().dtype == "int64"
        assert x.amax().dtype == x.max(0).values.dtype == x.sort().values.dtype == dtype
        assert x.any().dtype == x.all().dtype == ("uint8" if dtype == "uint8" else "bool")


def test_half_precision_adds_in_single():
    x = create.full((70_000,), 3.0, dtype="float16")
    assert (x.mean().item(), x.cumsum(0)[4000].item(), x.norm().item()) == (3, 12000, 793.5)
    assert tensor([300.0, -300.0] * 500, dtype="float16").std().item() == 300.25
    assert create.zeros(9000, dtype="float16").logsumexp(0).item() == 9.1015625


def test_variance_and_deviation_beside_the_mean():
    x = tensor([[1.0, 3.0], [5.0, 9.0]])
    assert [y.tolist() for y in dp.var_mean(x, 1)] == [[2, 8], [2, 7]]
    assert [y.tolist() for y in dp.std_mean(x, 0, keepdim=True)] == [
        [[2.8284270763397217, 4.242640495300293]], [[3, 6]]]  # fmt: skip
    assert x.var(unbiased=False).item() == x.var(correction=0).item() == 8.75


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_extremes_and_logarithms_of_sums_at_special_points(dim):
    """NaN wins; a row of infinities is no NaN."""
    x = SOURCE.astype("float32")
    x[0, 0], x[1], x[2, 1, 1], x[3, 2, 0] = NAN, -INF, INF, -INF
    with np.errstate(all="ignore"):
        for values in (x, np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0)):
            for keepdim in (False, True):
                place = {"axis": dim, "keepdims": keepdim}
                equal(dp.amax(tensor(values), dim, keepdim), x.max(**place))
                equal(dp.amin(tensor(values), dim, keepdim), x.min(**place))
                found = dp.logsumexp(tensor(values), dim, keepdim)
                want = np.log(np.exp(x.astype("float64")).sum(**place))
                np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-6)


def test_cubes_are_products():
    """C's power of a negative number takes a hundred times as long."""
    x = SOURCE.astype("float32")
    for exponent in (3, 3.0):
        equal(tensor(x) ** exponent, x * x * x)
