"""What a second comparison with PyTorch 2.13.0 found, by cases of its own: each kind once, with
PyTorch's values."""

import math
import warnings

import numpy as np
import pytest

import minidp as dp
from minidp import nn
from minidp.errors import DTypeError, MinidpError
from minidp.nn import functional as F

NAN, INF = math.nan, math.inf


def test_gradients_of_eigenvectors_are_symmetric():
    values = [[2.0, 1.0, 0.5], [1.0, -1.0, 0.0], [0.5, 0.0, 3.0]]
    x = dp.tensor(values, dtype=dp.float64, requires_grad=True)
    part = dp.arange(9.0, dtype=dp.float64).reshape(3, 3)
    part = part**2 - 3 * part
    g = dp.grad((dp.linalg.eigh(x)[1] ** 2 * part).sum(), x)[0]
    assert dp.allclose(g, g.T) and float(abs(g).max()) > 0.1
    step = np.zeros((3, 3))
    step[0, 2] = step[2, 0] = 1e-6
    ends = [(dp.linalg.eigh(x.detach() + s * step)[1] ** 2 * part).sum().item() for s in (1, -1)]
    assert abs((ends[0] - ends[1]) / 2e-6 - 2 * g[0, 2].item()) < 1e-6


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("key", [(0, 0), (slice(None), 0), 5, ([0], 0), [7]])
def test_places_that_are_not_there_are_an_index_error_in_assignments_too(recorded, key):
    x = dp.ones(2, requires_grad=recorded) * 1.0
    with pytest.raises(IndexError) as found:
        x[key] = 1.0
    assert isinstance(found.value, (MinidpError, IndexError))
    assert x.tolist() == [1, 1]


NUMBER = dp.tensor(1.0)
NOTHING_TO_CUT = [
    lambda: NUMBER.split(1), lambda: NUMBER.chunk(1), lambda: dp.tensor_split(NUMBER, 2),
    lambda: NUMBER.unflatten(0, (1, 1)), lambda: F.glu(NUMBER), lambda: dp.diag_embed(NUMBER),
    lambda: dp.ones(3).narrow(0, 2, 2), lambda: NUMBER.index_select(1, dp.tensor([0, 0])),
    lambda: dp.trapezoid(NUMBER), lambda: dp.kthvalue(dp.ones(0), 1),
]  # fmt: skip


@pytest.mark.parametrize("call", NOTHING_TO_CUT)
def test_axes_that_are_not_there_are_errors_of_both_kinds(call):
    with pytest.raises(MinidpError) as found:
        call()
    assert isinstance(found.value, IndexError) and isinstance(found.value, RuntimeError)


def test_other_kinds_of_errors():
    with pytest.raises(RuntimeError, match="broadcast"):
        dp.take_along_dim(dp.ones(2, 3), dp.zeros(3, 1, dtype=dp.int64), 1)
    with pytest.raises(DTypeError, match="alpha"):
        dp.sub(dp.tensor([1]), dp.tensor([1]), alpha=0.5)
    for call in (dp.linalg.inv, lambda x: dp.linalg.matrix_power(x, -1)):
        with pytest.raises(DTypeError, match="float16"):
            call(dp.ones(2, 2, dtype=dp.float16))


def test_quantiles_beside_infinities():
    x = dp.tensor([-INF, 1.0, INF, INF])
    for between, values in {"lower": [-INF, INF], "higher": [-INF, INF], "nearest": [-INF, INF],
                            "midpoint": [NAN, NAN]}.items():  # fmt: skip
        found = dp.quantile(x, dp.tensor([0.0, 1.0]), interpolation=between)
        assert np.array_equal(found.numpy(), np.float32(values), equal_nan=True), between
    assert dp.quantile(x, 0.25, interpolation="midpoint").item() == -INF
    assert dp.nanquantile(dp.tensor([NAN, 1.0, 3.0]), 0.5).item() == 2


def test_numbers_are_taken_wherever_tensors_are():
    x = dp.tensor([1.0, 3.0])
    assert dp.ldexp(x, 2).tolist() == x.ldexp(2).tolist() == [4, 12]
    assert dp.isclose(x, 1).tolist() == x.isclose(1.0).tolist() == [True, False]
    half = dp.ldexp(x.half(), dp.tensor([3, 4], dtype=dp.uint8))
    assert dp.ldexp(x.half(), dp.tensor([-3, 4])).tolist() == [0.125, 48]
    assert half.dtype == dp.ldexp(x.half(), dp.tensor([1])).dtype == np.float16
    assert dp.tensor(1.5).is_nonzero() and not dp.tensor([0]).is_nonzero()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dp.ones(2).copy_(1e39).tolist() == [INF, INF]
        assert dp.ones(2, dtype=dp.int64).copy_(-2.5).tolist() == [-2, -2]


def test_reflection_at_one_end_while_the_other_is_cropped():
    x = dp.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    assert F.pad(x, (-1, 2), mode="reflect").tolist() == [[2, 3, 2, 1]]
    y = F.pad(x, (2, -2), mode="reflect")
    assert y.tolist() == [[3, 2, 1]]
    assert dp.grad(y, x, dp.tensor([[1.0, 2.0, 4.0]]))[0].tolist() == [[4, 2, 1]]
    assert F.pad(x, (-2, 1), mode="circular").tolist() == [[3, 3]]
    assert F.pad(x, (-1, 2), mode="replicate").tolist() == [[2, 3, 3, 3]]
    for width, mode in (((3, 0), "reflect"), ((4, 0), "circular"), ((-2, -2), "replicate")):
        with pytest.raises(ValueError, match="pad"):
            F.pad(x, width, mode=mode)


def test_pools_of_the_infinite_norm():
    x = dp.tensor([[1.0, -3.0, 2.0, -0.5]])
    assert F.lp_pool1d(x, INF, 2).tolist() == nn.LPPool1d(INF, 2)(x).tolist() == [[3, 2]]
    assert F.lp_pool1d(x, -INF, 2).tolist() == [[1, 0.5]]


def test_attention_that_sees_nothing_has_gradients_that_say_so():
    attention = nn.MultiheadAttention(2, 1, batch_first=True)
    x = dp.ones(2, 3, 2, requires_grad=True)
    hidden = dp.tensor([[True] * 3, [False] * 3])
    y, _ = attention(x, x, x, key_padding_mask=hidden)
    y.sum().backward()
    assert np.isnan(y.detach().numpy()[0]).all() and np.isnan(x.grad.numpy()[0]).all()
    assert np.isfinite(x.grad.numpy()[1]).all()


def test_smoothed_images_of_one_place_with_aligned_corners_are_the_first_place():
    x = dp.arange(6.0).reshape(1, 1, 2, 3)
    for size, values in ((1, [[0]]), ((2, 1), [[0], [3]])):
        y = F.interpolate(x, size=size, mode="bilinear", align_corners=True, antialias=True)
        assert y[0, 0].tolist() == values


def test_casts_that_overflow_say_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = dp.tensor([1e76, -1e300], dtype=dp.float64)
        assert x.float().tolist() == x.half().tolist() == x.to(dp.float16).tolist() == [INF, -INF]
        y = (x.requires_grad_() * 1).float()
        assert y.tolist() == [INF, -INF] and dp.grad(y.sum(), x)[0].tolist() == [1, 1]


def test_norms_of_matrices_without_elements():
    for order in (1, 2, INF):
        assert dp.linalg.matrix_norm(dp.ones(0, 0), order).item() == 0
    assert dp.linalg.norm(dp.ones(0, 3), 2).item() == 0
    assert dp.linalg.cond(dp.ones(2, 0, 0)).tolist() == [0, 0]
    assert dp.combinations(dp.ones(3), 0).shape == (0,)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_running_statistics_given_to_functions_follow_in_captured_steps(fuse, channels):
    for normalise in (F.batch_norm, F.instance_norm):
        runs = [(dp.zeros(channels), dp.ones(channels)) for _ in range(2)]
        held = {"use_input_stats" if normalise is F.instance_norm else "training": True}

        def step(x, mean, var, held=held, normalise=normalise):
            return normalise(x, mean, var, **held).sum()

        captured = dp.capture(step, fuse=fuse)
        for i in range(5):
            x = dp.randn(4, channels, 5) + i
            step(x, *runs[0])
            captured(x, *runs[1])
            for mine, its in zip(*runs, strict=True):
                assert mine.tolist() == its.tolist(), (normalise, i)


@pytest.mark.parametrize("fuse", [False, True])
def test_diagonals_can_be_written_to_in_captured_steps(fuse):
    def step(x):
        y = x.t() * 1.0
        y.diagonal().fill_(7.0)
        z = x.diagonal_scatter(dp.zeros(2), 0)
        return y, z, dp.grad((y * y + z * z).sum(), x)[0]

    x = dp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    captured = dp.capture(step, fuse=fuse)
    for _ in range(4):
        assert [y.tolist() for y in captured(x)] == [
            [[7, 3], [2, 7]], [[0, 2], [3, 0]], [[0, 8], [12, 0]]]  # fmt: skip
    frozen = dp.ones(1, 1).expand(2, 2).diagonal()
    with pytest.raises((ValueError, RuntimeError)):
        frozen.fill_(2.0)


def test_names_that_lessons_use():
    from minidp.utils.data.dataset import Dataset, random_split
    from minidp.utils.data.sampler import SubsetRandomSampler

    assert Dataset is dp.utils.data.Dataset is dp.data.Dataset and random_split
    assert SubsetRandomSampler is dp.utils.data.sampler.SubsetRandomSampler
    assert dp.ones(2)[:, dp.newaxis].shape == (2, 1)
    kind = dp.accelerator.current_accelerator() if dp.accelerator.is_available() else None
    assert (kind is not None) == dp.cuda.is_available() == (dp.accelerator.device_count() > 0)
    assert not dp.backends.mps.is_available()


def test_assert_close():
    close, x = dp.testing.assert_close, dp.tensor([1.0, NAN])
    close(x[:1], dp.tensor([1.000001], requires_grad=True))
    close({"a": [1, dp.ones(2)]}, {"a": [1, dp.ones(2)]})
    close(x, x, equal_nan=True)
    close(dp.ones(1), dp.ones(1, dtype=dp.float64), check_dtype=False)
    close(1.0, 1.1, rtol=0.2, atol=0.0)
    for actual, expected in ((x, x), (x[:1], x), (dp.ones(1), dp.ones(1).double()), (1, 2),
                             ([1], [1, 2]), ({"a": 1}, {"b": 1}), (1.0, 1.00001)):  # fmt: skip
        with pytest.raises(AssertionError, match="assert_close"):
            close(actual, expected)
    with pytest.raises(AssertionError, match="mine"):
        close(1, 2, msg="mine")
    with pytest.raises(ValueError, match="both"):
        close(1, 1, rtol=0.1)


def test_modes_of_distributions():
    from minidp import distributions as given

    p = dp.tensor([0.2, 0.7, 0.5])
    assert given.Bernoulli(p).mode.tolist()[:2] == [0, 1]
    assert math.isnan(given.Bernoulli(p).mode[2].item())
    normal = given.Independent(given.Normal(p, dp.ones(3)), 1)
    assert normal.mode.tolist() == p.tolist()
    assert given.Categorical(p).mode.item() == 1
    assert math.isnan(given.Uniform(0.0, dp.tensor(1.0)).mode.item())


@pytest.mark.parametrize("wrong", [5, dp.ones(3), np.ones(2)])
def test_what_a_hook_gives_is_a_gradient(wrong):
    x = dp.ones(2, requires_grad=True)
    x.register_hook(lambda g: wrong)
    with pytest.raises((TypeError, RuntimeError), match="a hook of a gradient of shape"):
        (x * 2).sum().backward()
    assert x.grad is None
