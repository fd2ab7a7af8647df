"""Layers without a state of their own, and initialisation: PyTorch's values.

Literal expectations were computed once with PyTorch 2.13 from the inputs that `wave` makes.
"""

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn
from minidp.nn import functional as F
from minidp.testing import gradcheck


def test_default_initialisation_has_pytorchs_bounds():
    dp.manual_seed(3)
    linear, conv = nn.Linear(400, 300), nn.Conv2d(16, 32, 5)
    for layer, fan_in in ((linear, 400), (conv, 400)):
        for p in (layer.weight, layer.bias):
            assert 0.9 / fan_in**0.5 < abs(p.array).max() <= 1 / fan_in**0.5
        assert abs(layer.weight.array.std() * (3 * fan_in) ** 0.5 - 1) < 0.02
    dp.manual_seed(3)
    np.testing.assert_array_equal(nn.Linear(400, 300).weight.array, linear.weight.array)


def test_initialisers():
    w = nn.Parameter(dp.empty(60, 40, 3, 3))
    for call, std in (
        (nn.init.kaiming_normal_, (2 / 360) ** 0.5),
        (lambda t: nn.init.kaiming_uniform_(t, 0, "fan_out", "relu"), (2 / 540) ** 0.5),
        (nn.init.xavier_normal_, (2 / 900) ** 0.5),
        (lambda t: nn.init.xavier_uniform_(t, gain=2.0), 2 * (2 / 900) ** 0.5),
        (lambda t: nn.init.normal_(t, 0.0, 3.0), 3.0),
        (lambda t: nn.init.uniform_(t, -1.0, 1.0), 3**-0.5),
    ):
        assert call(w) is w
        assert abs(w.array.std() / std - 1) < 0.02 and abs(w.array.mean() / std) < 0.03
    assert (nn.init.ones_(w).array == 1).all() and (nn.init.constant_(w, 0.3).array.std()) < 1e-6
    assert not nn.init.zeros_(w).array.any() and w.requires_grad
    assert nn.init.calculate_gain("leaky_relu", 0.2) == pytest.approx(1.3867504905630728)
    with pytest.raises(ValueError, match="fan in"):
        nn.init.kaiming_uniform_(dp.empty(3))
    with pytest.raises(ValueError, match="Unsupported"):
        nn.init.calculate_gain("step")


def test_initialisers_of_a_certain_form():
    assert nn.init.eye_(dp.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    w = nn.init.dirac_(nn.Parameter(dp.empty(4, 2, 3)), groups=2)
    assert w.detach().nonzero().tolist() == [[0, 0, 1], [1, 1, 1], [2, 0, 1], [3, 1, 1]]
    for shape in ((3, 5), (5, 3), (4, 2, 3)):
        q = nn.init.orthogonal_(dp.empty(shape, dtype="float64"), 2.0).numpy()
        q = q.reshape(shape[0], -1)
        product = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
        np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)
    q = nn.init.orthogonal_(dp.empty(3, 0))
    assert (nn.init.sparse_(dp.empty(10, 40), 0.25).numpy() == 0).sum(0).tolist() == [3] * 40
    x = nn.init.trunc_normal_(dp.empty(100_000), 1.0, 2.0, -1.0, 2.5).numpy()
    assert -1 <= x.min() < -0.99 and 2.49 < x.max() <= 2.5
    assert abs(x.mean() - 0.806) < 0.01 and abs(x.std() - 0.960) < 0.01  # PyTorch's
    for call in (lambda: nn.init.eye_(dp.empty(3)), lambda: nn.init.dirac_(dp.empty(2, 2)),
                 lambda: nn.init.dirac_(dp.empty(3, 2, 1), 2),
                 lambda: nn.init.orthogonal_(dp.empty(3)),
                 lambda: nn.init.sparse_(dp.empty(2), 0.5)):  # fmt: skip
        with pytest.raises(ValueError):
            call()


def test_bilinear():
    layer = nn.Bilinear(3, 4, 2).double()
    assert repr(layer) == "Bilinear(in1_features=3, in2_features=4, out_features=2, bias=True)"
    a, b = leaf(5, 2, 3), leaf(5, 2, 4)
    y = np.einsum("...i,kij,...j->...k", a.array, layer.weight.array, b.array) + layer.bias.array
    np.testing.assert_allclose(layer(a, b).detach().numpy(), y, rtol=1e-12)
    assert abs(layer.weight.array).max() <= 3**-0.5 and gradcheck(layer, [a, b])
    with pytest.raises(ValueError, match=r"weight \(2, 3, 4\)"):
        layer(b, a)


def test_distances_as_layers():
    a, b = dp.tensor([[3.0, 4.0]]), dp.tensor([[4.0, 3.0]])
    assert nn.CosineSimilarity()(a, b).tolist() == [pytest.approx(0.96)]
    assert nn.PairwiseDistance(1.0, keepdim=True)(a, b).tolist() == [[pytest.approx(2)]]
    assert repr(nn.CosineSimilarity(0)) == "CosineSimilarity()"


def test_linear_takes_any_number_of_axes():
    layer = nn.Linear(4, 3).double()
    rows = wave(2, 5, 4)
    expected = rows @ layer.weight.array.T + layer.bias.array
    for x, y in ((rows, expected), (rows[0], expected[0]), (rows[0, 0], expected[0, 0])):
        np.testing.assert_allclose(layer(dp.tensor(x)).detach().numpy(), y, rtol=1e-12)
    assert layer(dp.zeros(0, 7, 4, dtype="float64")).shape == (0, 7, 3)
    with pytest.raises(ValueError, match=r"linear\(\(2, 5\)"):
        layer(dp.zeros(2, 5, dtype="float64"))


def test_conv_same_padding_puts_the_odd_column_right():
    y = F.conv2d(leaf(1, 2, 4, 5), leaf(4, 1, 2, 3), padding="same", groups=2)
    row = [0.3175012407108306, 1.6959256581529134, -1.110588142868631, -1.4097393228758828,
           0.6316796823498668]  # fmt: skip
    column = [0.4073505786394569, -0.3746900049363955, 0.043785106938033946, -0.7231471219752383]
    np.testing.assert_allclose(y.array[0, 0, 3], row, rtol=1e-12)
    np.testing.assert_allclose(y.array[0, 3, :, 4], column, rtol=1e-12)
    one = F.conv2d(leaf(2, 4, 5), leaf(4, 1, 2, 3), padding="same", groups=2)
    np.testing.assert_array_equal(one.array, y.array[0])
    assert gradcheck(lambda x, w, b: F.conv2d(x, w, b, padding="same", dilation=(1, 2)),
                     [leaf(2, 1, 4, 5), leaf(2, 1, 2, 2), leaf(2)])  # fmt: skip


def test_conv_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="strided"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same")
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="at least 1"):
        F.conv2d(dp.ones(1, 1, 3, 3), dp.ones(1, 1, 2, 2), stride=0)


def test_max_pool_gives_pytorchs_places():
    y, places = nn.MaxPool2d(2, 2, 1, return_indices=True)(leaf(1, 1, 4, 5))
    assert places.dtype == np.int64
    assert places.tolist() == [[[[0, 1, 4], [10, 11, 8], [15, 16, 18]]]]
    np.testing.assert_array_equal(y.array.ravel(), wave(20)[places.array.ravel()])
    with pytest.raises(ValueError, match="at most half"):
        F.max_pool2d(dp.ones(1, 1, 4, 4), 2, padding=2)
    with pytest.raises(ValueError, match="no output"):
        F.max_pool2d(dp.ones(1, 1, 4, 4), 5)
    with pytest.raises(ValueError, match=r"\(n, c, h, w\)"):
        F.max_pool2d(dp.ones(4, 4), 2)


@pytest.mark.parametrize("ceil, size", [(False, (3, 3)), (True, (4, 4))])
def test_pooled_size_rounds_as_asked(ceil, size):
    assert F.max_pool2d(dp.ones(1, 1, 8, 8), 3, 2, ceil_mode=ceil).shape[2:] == size
    assert F.avg_pool2d(dp.ones(1, 8, 8), 3, 2, ceil_mode=ceil).shape[1:] == size


def test_a_window_that_would_begin_behind_the_image_is_dropped():
    assert F.max_pool2d(dp.ones(1, 1, 5, 3), 2, 3, padding=1, ceil_mode=True).shape[2:] == (2, 2)
    assert F.avg_pool2d(dp.ones(1, 1, 3, 4), 1, 4, ceil_mode=True).shape[2:] == (1, 1)


def test_average_pools():
    x = leaf(1, 1, 4, 5)
    y = nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)(x)
    np.testing.assert_allclose(y.array[0, 0], [
        [-0.14547202285123456, -0.008246192910979897, 0.18198588625328885],
        [-0.028930367304279763, 0.0018281018316814723, 0.02083559420260106],
        [0.14681786083821335, -0.18022340607989087, 0.6512052878431223]], rtol=1e-12)  # fmt: skip
    y = F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=2)
    column = [-0.024738578732939692, 0.008226458242566626, -0.2703351091198363]
    np.testing.assert_allclose(y.array[0, 0, :, 1], column)
    y = nn.AdaptiveAvgPool2d((3, 2))(x)
    np.testing.assert_allclose(y.array[0, 0], [
        [-0.10809015981269582, 0.1102151129236531], [0.047217882321719064, -0.07114529850636978],
        [0.05123870545820417, -0.024554479881853775]], rtol=1e-12)  # fmt: skip
    np.testing.assert_allclose(F.adaptive_avg_pool2d(x, 1).item(), x.array.mean())
    assert F.adaptive_avg_pool2d(x, (None, 5)).shape == (1, 1, 4, 5)
    for pool in (lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
                 lambda x: F.avg_pool2d(x, 3, 2, 1, True, True, 2)):  # fmt: skip
        assert gradcheck(pool, leaf(2, 2, 4, 5))


def test_one_hot():
    y = F.one_hot(dp.tensor([[1, 0], [2, 1]]))
    assert y.tolist() == [[[0, 1, 0], [1, 0, 0]], [[0, 0, 1], [0, 1, 0]]] and y.dtype == np.int64
    assert F.one_hot(dp.tensor([1]), 4).shape == (1, 4)
    for bad, count in (([-1, 1], -1), ([3], 3)):
        with pytest.raises(IndexError, match=f"one_hot: index {bad[0]} is out of range"):
            F.one_hot(dp.tensor(bad), count)
    for bad, count in (([-1], -1), ([], -1), ([1], 0)):
        with pytest.raises(ValueError, match="at least one class"):
            F.one_hot(dp.tensor(bad, dtype=dp.int64), count)
    with pytest.raises(TypeError):
        F.one_hot(dp.ones(2))


def test_flatten_and_unflatten():
    x = dp.ones(2, 3, 4)
    assert nn.Flatten()(x).shape == (2, 12) and nn.Flatten(0, 1)(x).shape == (6, 4)
    assert nn.Unflatten(1, (3, -1))(dp.ones(2, 12)).shape == (2, 3, 4)
