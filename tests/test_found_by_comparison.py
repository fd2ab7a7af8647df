"""What a comparison with PyTorch 2.13.0 found: each kind of difference once, with its values.

The comparison itself is tests/differential/, for which PyTorch must be installed.
"""

import math

import numpy as np
import pytest

import minidp as dp
from minidp.errors import DTypeError, GraphError, MinidpError, ShapeError

NAN, INF = math.nan, math.inf


def gradient(function, *values, weights=None):
    """Of the sum, or of a weighted one, with respect to the first value."""
    x = [dp.tensor(v, requires_grad=True) for v in values]
    y = function(*x)
    return dp.grad(y, x[0], dp.ones_like(y) if weights is None else dp.tensor(weights))[0].tolist()


def test_numbers_that_an_integer_dtype_does_not_hold_wrap():
    x = dp.tensor([1, 200], dtype=dp.uint8)
    assert (x * 300).tolist() == [44, 96] and (x * -1).tolist() == [255, 56]
    assert (x > -1).tolist() == [False, False]
    assert x.clamp(min=-3).tolist() == [253, 253]
    assert x.index_fill(0, dp.tensor([0]), -1).tolist() == [255, 200]
    assert dp.zeros(2, dtype=dp.uint8).fill_(-1).tolist() == [255, 255]


def test_powers():
    assert (dp.tensor([2, -1, 1, 0]) ** dp.tensor([-1, -3, -2, -1])).tolist() == [0, -1, 1, 0]
    with pytest.raises(ValueError):
        dp.tensor([2]) ** -1
    assert (dp.tensor([True, False]) ** True).dtype == bool
    exponent = dp.tensor([0], dtype=dp.uint8)
    assert gradient(lambda x: x**exponent, [INF]) == [0]
    assert dp.square(dp.tensor([True])).dtype == np.int64


def test_arguments_by_their_names():
    x = dp.tensor([1.0, 4.0])
    assert dp.mul(input=x, other=x).tolist() == x.mul(other=x).tolist() == [1, 16]
    assert dp.pow(input=x, exponent=2).tolist() == x.pow(exponent=2).tolist() == [1, 16]
    assert dp.sqrt(input=x).tolist() == [1, 2]
    for call in (lambda: x.mul(), lambda: x.mul(foo=x), lambda: dp.mul(x, wrong=x)):
        with pytest.raises(TypeError, match="mul: expected"):
            call()


def test_names_of_numpy():
    x = dp.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert x.sum(axis=0).tolist() == dp.sum(x, axis=0).tolist() == [4, 8]
    assert x.amax(axis=1, keepdims=True).tolist() == [[2], [6]]
    assert dp.cat([x, x], axis=1).shape == (2, 4)
    assert np.sum(x).item() == 12 and np.mean(x, axis=1, keepdims=True).tolist() == [[1.5], [4.5]]
    assert np.std(x, axis=0).tolist() == [1, 2] and np.std(x, axis=0, ddof=1)[0] > 1.4
    assert np.square(x).tolist() == [[1, 4], [9, 36]] and np.all(x > 0)
    with pytest.raises(TypeError):
        x.sum(axis=0, out=x)


def test_gradients_beside_nan():
    """Where nothing flows there is 0, not 0 times NaN."""
    def root(x):
        return dp.minimum(x, dp.tensor([-1.0])) ** 0.5

    assert gradient(root, [3.0]) == [0]
    assert gradient(lambda x: x.max() * NAN, [1.0, 2.0])[0] == 0
    assert gradient(lambda x: x.median() * NAN, [1.0, 2.0])[1] == 0


def test_copysign_and_xlogy():
    x, y = dp.tensor([0, -2]), dp.tensor([1.0, -1.0], requires_grad=True)
    assert dp.copysign(x, y).requires_grad
    assert gradient(dp.copysign, [0.0, 2.0], [1.0, -1.0]) == [0, -1]
    assert dp.xlogy(x, 3).dtype == np.float32
    assert gradient(dp.xlogy, [0.0, 0.0, 2.0], [math.e, 0.0, 1.0]) == pytest.approx([1, 0, 0])


def test_versions_as_pytorch_counts_them():
    """reciprocal keeps its result, not its argument."""
    x = dp.tensor([1.0, 4.0], requires_grad=True)
    y = x * 1
    z = y.reciprocal()
    y.zero_()
    assert dp.grad(z.sum(), x)[0].tolist() == [-1, -0.0625]
    z = (x * 1).reciprocal()
    z.mul_(2)
    with pytest.raises(GraphError, match="reciprocal"):
        z.sum().backward()


def test_results_lie_in_memory_of_their_own():
    x = dp.tensor([[2.0]])
    for y in (x.prod(0), x.prod(), x.cumprod(0), x.logcumsumexp(1), dp.take(x, dp.tensor(0)),
              dp.nan_to_num(dp.tensor([1])), dp.ravel(dp.ones(3, 2).T)):  # fmt: skip
        y.zero_()
    assert x.tolist() == [[2]]
    y = dp.ones(3, 2)[:, [0, 0]]
    y.reshape(-1).zero_()  # what index arrays gather lies in C order: a view
    assert y.sum() == 0
    z = dp.ones(3)
    assert z.flatten() is z


def test_detach_in_place():
    x = dp.ones(2, requires_grad=True)
    y = x * 2
    assert y.detach_() is y and not y.requires_grad
    with pytest.raises(GraphError, match="view"):
        (x * 2)[:1].detach_()


def test_no_axes_and_nothing():
    x = dp.tensor([[1, 0], [2, 3]])
    assert x.all(dim=()).tolist() == [[True, False], [True, True]] == x.any(dim=[]).tolist()
    assert dp.median(dp.zeros(0, dtype=dp.int32)).item() == -(2**31)
    assert math.isnan(dp.median(dp.zeros(0, requires_grad=True)).item())
    number = dp.tensor(2.0)
    index = dp.tensor([0])
    assert number.index_fill(0, index, 5).item() == number.index_copy(0, index, number + 3).item()
    assert number.index_add(0, index, number).item() == 4 and number.mT is number
    assert number.topk(0).values.item() == 2
    assert (dp.zeros(0, dtype=dp.int64) // 0).shape == (0,)
    assert dp.block_diag(dp.zeros(0), dp.ones(1, 1)).shape == (2, 1)
    assert dp.bincount(dp.zeros(0, dtype=dp.int64), minlength=2).tolist() == [0, 0]
    y = dp.tensor([1.0, 2.0])
    y[True, 1] = 5
    assert y.tolist() == [1, 5]


@pytest.mark.parametrize("call", [
    lambda: dp.add(dp.tensor([1]), dp.tensor([1]), alpha=0.5),
    lambda: dp.where(dp.tensor([1]), 1.0, 2.0),
    lambda: dp.nanmean(dp.tensor([1])),
    lambda: dp.transpose(dp.tensor(1), 0, 1),
    lambda: dp.rot90(dp.ones(2, 2), dims=(0, -2)),
    lambda: dp.tensor_split(dp.ones(3), 0),
    lambda: dp.index_select(dp.tensor(1), 0, dp.tensor([0, 0])),
    lambda: dp.unique(dp.zeros(2, 0, 3), dim=2),
    lambda: dp.ones(2).copy_(dp.ones(1, 2)),
    lambda: dp.ones(2, 3, 2).fill_diagonal_(1),
    lambda: dp.norm(dp.zeros(0), -1),
    lambda: dp.as_tensor(None),
    lambda: dp.as_tensor("a"),
])  # fmt: skip
def test_what_is_refused(call):
    with pytest.raises((MinidpError, ValueError, TypeError)):
        call()


def test_dtypes_of_ranges_and_sums():
    assert dp.arange(0.5, -6.5, -1, dtype=dp.int8).tolist() == [0, -1, -2, -3, -4, -5, -6]
    assert dp.arange(0.5, 5, 1, dtype=dp.int64).tolist() == [0, 1, 2, 3, 4]
    assert dp.linspace(-3, -1.5, 3, dtype=dp.int64).tolist() == [-3, -2, -1]
    assert dp.add(dp.ones(1, dtype=dp.float16), dp.tensor([1]), alpha=0.5).dtype == np.float16
    assert dp.round(dp.tensor([-0.655], dtype=dp.float16), decimals=2).item() == np.float16(-0.65)
    assert dp.lerp(dp.tensor([1.0]), dp.tensor([-INF]), dp.tensor([-2.0])).isnan().all()
    assert dp.histc(dp.tensor([0.0, 1.0]), 1, -1, -1).tolist() == [2]


def test_softmax_in_another_dtype():
    x = dp.tensor([0.0, 0.0])
    assert x.softmax(-1, dtype=dp.float64).dtype == dp.float64
    assert x.log_softmax(0).exp().tolist() == dp.softmax(x, dim=0).tolist() == [0.5, 0.5]
    assert dp.mode(dp.tensor([3, 1, 3])).values.item() == 3


def test_quantile_and_diff():
    x = dp.tensor([[3.0, 1.0, 2.0], [NAN, 0.0, 1.0]])
    assert dp.quantile(x[0], dp.tensor([0.0, 0.25, 1.0])).tolist() == [1, 1.5, 3]
    assert x.quantile(0.5, dim=1, keepdim=True)[0].tolist() == [2]
    assert math.isnan(x.quantile(0.5).item())
    assert gradient(lambda x: x.quantile(0.75), [1.0, 2.0, 4.0]) == [0, 0.5, 0.5]
    assert x[0].diff(2).tolist() == [3] and dp.tensor([True, False]).diff().tolist() == [True]
    with pytest.raises(ValueError):
        x.quantile(1.5)


def test_diagonals_in_place():
    x = dp.zeros(5, 2, dtype=dp.int64)
    assert x.fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert dp.zeros(2, 2, 2).fill_diagonal_(1).sum() == 2


def test_printing_counts_the_width_of_finite_values():
    assert repr(dp.tensor([0.0, -0.0] * 15)).splitlines()[0].count(",") == 24


def test_conditions_are_bool():
    with pytest.raises(DTypeError, match="where"):
        dp.ones(2).where(dp.tensor([1, 0]), dp.zeros(2))
    with pytest.raises(ShapeError, match="copy_"):
        dp.ones(2).copy_(dp.ones(1, 2))


def raises(kind, function):
    """Whether it raises this kind of error, and one of minidp's own."""
    with pytest.raises(kind) as caught:
        function()
    return isinstance(caught.value, MinidpError)


def test_errors_are_those_that_a_lesson_catches():
    """NumPy's kind of error, and PyTorch's."""
    x, whole = dp.ones(2, 3), dp.tensor([1, 2])
    for kind in (ValueError, RuntimeError):
        assert raises(kind, lambda: x @ x)
        assert raises(kind, lambda: whole**-1)
        assert raises(kind, lambda: dp.arange(0, 5, -1))
        assert raises(kind, lambda: dp.div(x, 2, rounding_mode="up"))
        assert raises(kind, lambda: dp.tensor([300], dtype=dp.uint8))
        assert raises(kind, lambda: dp.tensor([2**63]))
        assert raises(kind, lambda: float(x))
        assert raises(kind, lambda: dp.tensor([[1], [2, 3]]))
        assert raises(kind, lambda: dp.nn.functional.binary_cross_entropy(x * 2, x))
    for kind in (TypeError, RuntimeError):
        assert raises(kind, lambda: whole.float().mean() + whole.mean())
        assert raises(kind, lambda: dp.linalg.norm(whole))
        assert raises(kind, lambda: -dp.tensor([True]))
        assert raises(kind, lambda: dp.tensor([True]) - dp.tensor([True]))
        assert raises(kind, lambda: whole.requires_grad_())
        assert raises(kind, lambda: whole.div_(2))
    for kind in (ZeroDivisionError, RuntimeError):
        assert raises(kind, lambda: whole // 0)
    for kind in (IndexError, ValueError):
        assert raises(kind, lambda: x.sum(2))
        assert raises(kind, lambda: dp.zeros(0).argmax())
        assert raises(kind, lambda: dp.tensor(1.0).unbind())


def test_what_is_no_number_is_unequal_to_every_tensor():
    x = dp.tensor([1.0, 2.0])
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "a") is False and (x != [1.0, 2.0]) is True
    assert (x == 1).tolist() == (x == np.array([1.0, 0.0])).tolist() == [True, False]


def test_numbers_are_shifted_by_tensors():
    assert (1 << dp.tensor([1, 2])).tolist() == [2, 4]
    assert (8 >> dp.tensor([1, 2])).tolist() == [4, 2]


def test_small_negative_numbers_wrap_in_uint8():
    assert dp.tensor([-1, -255, 255], dtype=dp.uint8).tolist() == [255, 1, 255]
    for number in (-256, 256, -1.5):
        with pytest.raises(ValueError):
            dp.tensor(number, dtype=dp.uint8)


def test_values_that_are_none():
    x = dp.ones(2)
    for value in (None, "a"):
        with pytest.raises(TypeError, match="no value"):
            x[0] = value
    with pytest.raises(TypeError):
        f"{x:.2f}"
    assert f"{x}" == "tensor([1., 1.])" and f"{x[0]:.2f}" == "1.00" and x.tolist() == [1, 1]


def test_casts_of_nan_do_not_warn():
    with np.errstate(all="raise"):
        dp.tensor([NAN, 1.0], requires_grad=True).type(dp.int64)
        dp.tensor([-1])[0] = dp.tensor(NAN, requires_grad=True)


def test_masks_axes_and_matrices():
    x = dp.ones(2, 2)
    with pytest.raises(DTypeError, match="masked_select"):
        x.masked_select(dp.tensor([1, 0]))
    assert x.flip(()).shape == (2, 2)
    for call in (lambda: x.flip(0, 0), lambda: dp.block_diag(dp.ones(2, 2, 2))):
        with pytest.raises(ShapeError):
            call()


def test_keywords_of_linalg_and_of_moves():
    a, b = dp.tensor([[2.0, 0.0], [0.0, 4.0]]), dp.tensor([[1.0], [2.0]])
    linalg = dp.linalg
    assert linalg.det(A=a).item() == linalg.slogdet(A=a).sign.item() * 8 == 8
    assert linalg.inv(A=a).tolist() == linalg.pinv(input=a).tolist() == [[0.5, 0], [0, 0.25]]
    assert linalg.norm(input=b).item() == linalg.vector_norm(x=b).item()
    assert linalg.matrix_norm(input=a, ord=2).item() == 4 and linalg.cond(input=a).item() == 2
    assert linalg.matrix_rank(input=a).item() == 2
    assert linalg.cholesky(input=a * 2).tolist()[0] == [2, 0]
    assert linalg.eigvalsh(input=a).tolist() == linalg.eigh(input=a)[0].tolist() == [2, 4]
    assert linalg.svdvals(A=a, driver=None).tolist() == [4, 2]
    assert linalg.solve_triangular(input=a, B=b, upper=True).tolist() == [[0.5], [0.5]]
    assert linalg.lstsq(input=a, b=b).solution.tolist() == [[0.5], [0.5]]
    x = dp.ones(1, requires_grad=True)
    assert x.numpy(force=True).tolist() == [1] and x.type(dp.float64, non_blocking=True).sum() == 1
    assert x.to("cpu", non_blocking=True).device.type == "cpu"
    with pytest.raises(TypeError):
        x.to(devcie="cpu")


def test_grad_is_checked_when_it_is_set():
    x = dp.ones(2, requires_grad=True)
    with pytest.raises(TypeError):
        x.grad = 3
    with pytest.raises(RuntimeError, match="float64"):
        x.grad = dp.ones(2, dtype=dp.float64)
    y = x * 2
    assert not (x.retains_grad or y.retains_grad)
    y.retain_grad()
    assert y.retains_grad


def test_recording_inside_a_generator():
    x = dp.ones(1, requires_grad=True)

    @dp.no_grad()
    def numbers():
        got = yield (x * 2).requires_grad
        yield (got, (x * 2).requires_grad)
        return 3

    generator = numbers()
    assert next(generator) is False and (x * 2).requires_grad
    assert generator.send(5) == (5, False)
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == 3

    @dp.set_grad_enabled(False)
    def silent():
        return (x * 2).requires_grad

    assert dp.is_grad_enabled() and silent() is False
    with dp.set_grad_enabled(mode=False):
        assert not dp.is_grad_enabled()
    assert dp.is_grad_enabled()


def test_what_is_drawn_has_sensible_bounds():
    with pytest.raises(ValueError):
        dp.randperm(-1)
    for call in (lambda x: x.uniform_(2, 1), lambda x: x.normal_(0, -1),
                 lambda x: dp.nn.init.uniform_(x, 2, 1), lambda x: dp.nn.init.normal_(x, 0, -1),
                 lambda x: dp.normal(0.0, -1.0, (2,))):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"negative|low <= high"):
            call(dp.ones(2))
    with pytest.raises(DTypeError):
        dp.zeros(2, dtype=dp.int64).normal_()
    state = dp.get_rng_state()
    with dp.random.fork_rng():
        dp.rand(3)
    assert dp.get_rng_state() == state


def test_sinc_and_det_at_their_edges():
    tiny = [0.0, 1e-30, 1e-20, -1e-6, 3.1e-3, 0.5, 2.0]
    for dtype, near in ((dp.float32, 2e-3), (dp.float64, 1e-9)):
        x = dp.tensor(tiny, dtype=dtype, requires_grad=True)
        (slope,) = dp.grad(dp.sinc(x).sum(), x)
        t = np.array(tiny[3:], np.longdouble) * np.pi
        exact = (np.cos(t) * t - np.sin(t)) / t**2 * np.pi
        assert np.abs(slope.numpy()[:3]).max() < 1e-18
        assert np.allclose(slope.numpy()[3:], exact.astype(float), near, near * 1e-2)
        assert np.allclose(dp.sinc(x).detach().numpy(), np.sinc(tiny), 1e-6, 1e-6)
    assert gradient(dp.sinc, [INF, 0.0])[1] == 0
    assert math.isnan(dp.linalg.det(dp.tensor([[NAN, 1.0], [1.0, 1.0]])).item())
    assert dp.linalg.det(dp.tensor([[[NAN, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]]))[1] == 2


def test_classes_and_places_that_are_not_there():
    x, wrong = dp.ones(2, 3), dp.tensor([0, 3])
    losses = dp.nn.functional
    for kind in (IndexError, ValueError, RuntimeError):
        assert raises(kind, lambda: losses.cross_entropy(x, wrong))
        assert raises(kind, lambda: losses.nll_loss(x, wrong))
        assert raises(kind, lambda: x.gather(1, wrong.unsqueeze(1)))
        assert raises(kind, lambda: x[wrong])
    with pytest.raises(IndexError, match=r"^cross_entropy.* 3 .*ignore_index"):
        losses.cross_entropy(x, wrong)
