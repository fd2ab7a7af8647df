"""What PyTorch's own sample inputs, and random calls by its signatures, found: each kind of
difference once, with PyTorch 2.13's values. The comparison itself is tests/differential/."""

import math
import warnings

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.errors import DTypeError, GraphError, MinidpError, ReplicaError, ShapeError
from minidp.nn import functional as F

NAN = math.nan


def close(result, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(result), expected, rtol=tolerance, atol=tolerance)


def gradient(function, x, weights=1.0):
    x = dp.tensor(x, dtype=dp.float64, requires_grad=True)
    return dp.grad((function(x) * dp.tensor(weights)).sum(), x)[0].tolist()


# Arguments


def test_weights_of_covariances():
    x = dp.tensor([[0.0, 2.0, 4.0], [1.0, 0.0, 3.0]])
    often, much = dp.tensor([1, 2, 1]), dp.tensor([0.5, 1.0, 1.0])
    close(dp.cov(x, fweights=often), np.cov(x.numpy(), fweights=often.numpy()))
    both = dp.cov(x, correction=0, fweights=often, aweights=much)
    close(both, np.cov(x.numpy(), ddof=0, fweights=often.numpy(), aweights=much.numpy()))
    for bad in (dp.tensor([1, 2]), dp.tensor([1, -2, 1])):
        with pytest.raises(ShapeError):
            dp.cov(x, fweights=bad)


def test_quantiles_between_neighbours():
    x = dp.tensor([4.0, 1.0, 2.0, 8.0])
    found = {how: dp.quantile(x, 0.5, interpolation=how).item()
             for how in ("linear", "lower", "higher", "midpoint", "nearest")}  # fmt: skip
    assert found == {"linear": 3, "lower": 2, "higher": 4, "midpoint": 3, "nearest": 4}
    spoiled = dp.tensor([[1.0, NAN, 3.0], [NAN, NAN, NAN]])
    close(dp.nanquantile(spoiled, 0.5, dim=1), [2, NAN])
    close(dp.quantile(spoiled, 0.5, dim=1), [NAN, NAN])
    with pytest.raises(ValueError, match="interpolation='up'"):
        dp.quantile(x, 0.5, interpolation="up")
    with pytest.raises(ValueError, match="real numbers"):
        dp.quantile(dp.tensor([1, 2]), 0.5)


def test_searches():
    values = dp.tensor([3.0, 1.0, 2.0])
    assert dp.searchsorted(values, dp.tensor([2.5]), sorter=values.argsort()).tolist() == [2]
    with pytest.raises(ValueError):
        dp.searchsorted(values, dp.tensor([2.5]), side="left", right=True)
    with pytest.raises(ShapeError):
        dp.bucketize(dp.tensor([1.0]), dp.ones(2, 2))
    places = dp.unravel_index(dp.tensor([5, 0]), (2, 3))
    assert [x.tolist() for x in places] == [[1, 0], [2, 0]]


def test_factorisations_take_all_arguments():
    x = dp.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 4.0]], dtype=dp.float64)
    U, S, Vh = dp.linalg.svd(x)
    assert (U.shape, Vh.shape) == ((2, 2), (3, 3))
    close(Vh @ Vh.mT, np.eye(3))
    close(U @ dp.diag(S) @ Vh[:2], x)
    Q, R = dp.linalg.qr(x.mT, mode="complete")
    assert Q.shape == (3, 3)
    close(Q @ R, x.mT)
    assert dp.linalg.qr(x, mode="r").Q.shape == (0,)
    wide = gradient(lambda x: dp.linalg.qr(x).R, x.tolist(), [[1.0, 2.0, 3.0], [0, 4.0, 5.0]])
    close(wide, [[1, 2, 3], [-9, 4, 5]])
    flat = dp.tensor([[1.0, 0.0], [0.0, 0.1]])
    assert dp.linalg.matrix_rank(flat, atol=0.5).item() == 1
    assert dp.linalg.matrix_rank(flat, rtol=dp.tensor(0.01)).item() == 2
    close(dp.linalg.pinv(flat, atol=0.5), [[1, 0], [0, 0]])
    close(dp.linalg.pinv(dp.stack([flat, 9 * flat]), rtol=dp.tensor([0.5, 0.0]))[1, 1, 1], 1 / 0.9)
    assert dp.linalg.lstsq(x.mT, dp.ones(3, 1, dtype=dp.float64), driver="gels").rank.shape == (0,)
    close(dp.linalg.cond(flat, -2), 0.1)
    close(dp.linalg.cond(flat, 1), 10)
    close(dp.norm(flat, "nuc"), 1.1)
    close(gradient(lambda x: dp.linalg.norm(x, 2), [[1.0, 0.0], [0.0, 1.0]]), np.eye(2) / 2)


def test_matrix_functions():
    turn = dp.tensor([[0.0, -3.0], [3.0, 0.0]], dtype=dp.float64)
    close(dp.linalg.matrix_exp(turn), [[math.cos(3), -math.sin(3)], [math.sin(3), math.cos(3)]])
    assert dp.linalg.vander(dp.tensor([2, 3]), N=3).tolist() == [[1, 2, 4], [1, 3, 9]]
    close(dp.linalg.vecdot(turn, turn), [9, 9])
    with pytest.raises(ShapeError):
        dp.matrix_power(dp.ones(2, 3), 1)
    triangle = dp.tensor([[2.0, 7.0], [0.0, 1.0]])  # whose upper half is not looked at
    close(dp.cholesky_solve(dp.tensor([[4.0], [1.0]]), triangle), [[1], [1]])


def test_rest_of_arguments():
    x = dp.tensor([1.0, 3.0])
    assert dp.max(x, other=dp.tensor([2.0, 2.0])).tolist() == [2, 3]
    assert dp.std(x, correction=None).item() == dp.std(x).item()
    assert dp.nan_to_num(dp.tensor([NAN]), nan=None).tolist() == [0]
    assert dp.nanmean(x, dtype=dp.float64).dtype == dp.float64
    assert [y.tolist() for y in dp.tensor_split(x, dp.tensor(2))] == [[1], [3]]
    assert dp.scatter(dp.tensor([1, 2]), 0, dp.tensor([1]), 2, reduce="multiply").tolist() == [1, 4]
    with pytest.raises(ValueError, match="reduce='max'"):
        dp.scatter(x, 0, dp.tensor([0]), 1.0, reduce="max")
    assert x.view(size=(2, 1)).shape == (2, 1) and x.repeat(repeats=(2,)).shape == (4,)
    assert dp.logspace(0.9, 2.7, 3, dtype=dp.int64).tolist() == [1, 10, 100]
    assert F.linear(dp.ones(2, 2), x).tolist() == [4, 4]


# Values


def test_integers_stay_integers():
    x = dp.ones(2, 2, dtype=dp.int8)
    assert dp.addmv(dp.zeros(2, dtype=dp.int8), x, x[0], alpha=1.7).tolist() == [2, 2]
    assert dp.addbmm(x, x[None], x[None]).dtype == dp.int8
    assert dp.addr(x.bool(), x[0].bool(), x[0].bool(), alpha=2).dtype == dp.bool
    assert dp.einsum("ik,j->ij", x, x[0]).dtype == dp.int8
    assert dp.index_add(x, 0, dp.tensor([0]), x[:1], alpha=1.5).tolist() == [[2, 2], [1, 1]]
    flags = dp.tensor([True, False])
    low = flags.scatter_reduce(0, dp.tensor([0]), dp.tensor([False]), "amin", include_self=False)
    assert low.tolist() == [False, False]


def test_places_named_twice_count_once():
    value = dp.tensor(5.0, requires_grad=True)
    y = dp.zeros(3).index_fill(0, dp.tensor([1, 1, -2]), value)
    assert dp.grad(y.sum(), value)[0].item() == 1


def test_axes_of_length_one_go_with_any():
    a, b = dp.ones(1, 2), dp.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert dp.tensordot(a, b, dims=([0], [0])).tolist() == [[4, 6], [4, 6]]


def test_differences_of_order_zero():
    x = dp.tensor([1, 2])
    assert dp.diff(x, n=0, prepend=x).tolist() == [1, 2]


def test_numbers_are_added_in_the_wider_dtype():
    big = dp.tensor([16777217.0], dtype=dp.float64)
    close(dp.addcmul(big, dp.tensor([1.1]), dp.tensor([1.1])) - big, [float(np.float32(1.1)) ** 2])


def test_pads_repeat_what_negative_widths_leave():
    x = dp.tensor([[[1.0, 2.0, 3.0]]])
    assert F.pad(x, (-3, 5), "replicate").tolist() == [[[3, 3, 3, 3, 3]]]
    assert F.pad(x, (-1, 1), "replicate").tolist() == [[[2, 3, 3]]]


def test_sizes_that_stay_are_not_resampled():
    x = dp.tensor([[[[1.0, 2.0, 3.0]] * 3]])
    for mode in ("bilinear", "nearest"):
        assert F.interpolate(x, scale_factor=1.25, mode=mode).tolist() == x.tolist()


def test_antialias():
    x = dp.tensor([[[[0.0, 0.0, 8.0, 0.0, 0.0, 0.0]]]], dtype=dp.float64)
    half = F.interpolate(x, size=(1, 3), mode="bilinear", antialias=True)
    close(half, [[[[8 / 7, 3.0, 0]]]])
    cubic = F.interpolate(x, size=(1, 3), mode="bicubic", antialias=True)
    close(cubic, [[[[0.9707112970711297, 3.3893129770992365, -0.301255230125523]]]])
    with pytest.raises(ValueError):
        F.interpolate(x, size=(1, 3), antialias=True)


def test_losses_of_one_sample():
    x = dp.tensor([0.5, 1.0])
    assert F.multi_margin_loss(x, dp.tensor([1]), reduction="none").shape == (1,)
    assert F.multi_margin_loss(x, dp.tensor(1)).item() == 0.25
    assert F.multi_margin_loss(dp.tensor(2.0), dp.tensor(0)).shape == ()
    assert F.multilabel_margin_loss(dp.tensor(2.0), dp.tensor(0)).item() == 0
    var = dp.ones(1, 2) * 4
    close(F.gaussian_nll_loss(dp.ones(3, 2), dp.zeros(3, 2), var), math.log(2) + 1 / 8)


def test_other_order_of_matrix_products_is_recorded():
    a, b = (dp.ones(2, 2, requires_grad=True) for _ in range(2))
    close(dp.grad(a.__rmatmul__(b).sum(), [a, b])[1], [[2, 2], [2, 2]])


def test_in_place_methods_keep_what_keywords_need():
    x, y = dp.tensor([2.0]), dp.tensor([3.0], requires_grad=True)
    assert dp.grad(x.mul_(other=y).sum(), y)[0].tolist() == [2]


# Names


NAMES = [
    (lambda: dp.deg2rad(dp.tensor([180])), [math.pi]),
    (lambda: dp.rad2deg(dp.tensor([math.pi])), [180]),
    (lambda: dp.float_power(dp.tensor([2]), 3), [8]),
    (lambda: dp.ldexp(dp.tensor([3.0]), dp.tensor([2])), [12]),
    (lambda: dp.logaddexp2(dp.tensor([3.0]), dp.tensor([3.0])), [4]),
    (lambda: dp.sinc(dp.tensor([0.0, 0.5])), [1, 2 / math.pi]),
    (lambda: dp.rsub(dp.tensor([1]), 5, alpha=2), [3]),
    (lambda: dp.hsplit(dp.arange(4), 2)[1], [2, 3]),
    (lambda: dp.vsplit(dp.arange(4).reshape(2, 2), [1])[1], [[2, 3]]),
    (lambda: dp.dsplit(dp.arange(4).reshape(1, 2, 2), 2)[1], [[[1], [3]]]),
    (lambda: dp.row_stack([dp.arange(2), dp.arange(2)]), [[0, 1], [0, 1]]),
    (lambda: dp.diagflat(dp.tensor([[1, 2]])), [[1, 0], [0, 2]]),
    (lambda: dp.diagonal_scatter(dp.zeros(2, 2), dp.ones(1), 1), [[0, 1], [0, 0]]),
    (lambda: dp.select_scatter(dp.zeros(2, 2), dp.ones(2), 1, 0), [[1, 0], [1, 0]]),
    (lambda: dp.slice_scatter(dp.zeros(3), dp.ones(2), start=0, step=2), [1, 0, 1]),
    (lambda: dp.combinations(dp.tensor([1, 2, 3])), [[1, 2], [1, 3], [2, 3]]),
    (lambda: dp.combinations(dp.tensor([1, 2]), 2, True), [[1, 1], [1, 2], [2, 2]]),
    (lambda: dp.cumulative_trapezoid(dp.tensor([1.0, 3.0, 5.0]), dx=2), [4, 12]),
    (lambda: F.relu_(dp.tensor([-1.0, 1.0])), [0, 1]),
    (lambda: dp.conv1d(dp.ones(1, 1, 3), dp.ones(1, 1, 2)), [[[2, 2]]]),
    (lambda: dp.tensor([1.0]).addmv_(dp.ones(1, 1), dp.ones(1)), [2]),
]


@pytest.mark.parametrize("place", range(len(NAMES)))
def test_names(place):
    call, expected = NAMES[place]
    close(call(), expected)


def test_names_of_dtypes_and_memory():
    x = dp.arange(6)
    assert dp.result_type(x, 1.0) == dp.promote_types(dp.float32, dp.int64) == dp.float32
    assert dp.can_cast(dp.int64, dp.float16) and not dp.can_cast(dp.float16, dp.int64)
    assert x[2:].storage_offset() == 2 and x[2:].data_ptr() == x.data_ptr() + 16
    assert x.pin_memory() is x and x.get_device() == -1 and dp.is_nonzero(x[1])


def test_scattered_slices_have_gradients():
    x, y = (dp.ones(3, requires_grad=True) for _ in range(2))
    z = dp.slice_scatter(x, y[:1], start=1, end=2) * dp.tensor([1.0, 2.0, 3.0])
    assert [g.tolist() for g in dp.grad(z.sum(), [x, y])] == [[1, 0, 3], [2, 0, 0]]


def test_path_of_derivatives():
    from minidp.autograd.functional import jacobian

    assert jacobian is dp.jacobian


def test_slopes_far_below_zero_with_a_graph():
    x = dp.tensor([-math.inf, NAN], requires_grad=True)
    slopes = dp.grad(F.leaky_relu(x, 0.25).sum(), x, create_graph=True)[0]
    assert slopes.tolist() == [0.25, 0.25]


def test_backward_of_several():
    x = dp.ones(2, requires_grad=True)
    dp.autograd.backward([x.sum(), x * 2], [None, dp.tensor([1.0, 0.0])])
    assert x.grad.tolist() == [3, 1]
    with pytest.raises(GraphError, match="1 cotangents for 2 tensors"):
        dp.autograd.backward([x.sum(), x.sum()], [None])
    unused = dp.ones(1, requires_grad=True)
    assert dp.grad(x.sum(), [unused], materialize_grads=True)[0].tolist() == [0]
    with pytest.raises(ValueError, match="materialize_grads"):
        dp.grad(x.sum(), [unused], allow_unused=False, materialize_grads=True)


def test_the_graph_can_be_walked():
    x = dp.ones(2, requires_grad=True)
    (first, place), (none, _) = (x.exp() * dp.ones(2)).grad_fn.next_functions
    assert (first.name(), place, none) == ("exp", 0, None)
    assert first.next_functions[0][0].name() == "leaf"
    largest = dp.linalg.eigh(dp.ones(2, 2, requires_grad=True)).eigenvectors.exp()
    assert largest.grad_fn.next_functions[0][1] == 1


def test_hooks_in_front_of_others():
    layer, order = nn.ReLU(), []
    for kind in (layer.register_forward_hook, layer.register_forward_pre_hook):
        kind(lambda *_: order.append("second"))
        kind(lambda *_: order.append("first"), prepend=True)
    layer(dp.ones(1))
    assert order == ["first", "second"] * 2
    tied = nn.Sequential(layer, layer)
    assert (len([*tied.modules()]), len([*tied.modules(remove_duplicate=False)])) == (2, 3)
    tied.apply(fn=lambda module: order.append(module))
    assert order[-1] is tied


# Messages


MODEL = nn.Linear(2, 1)
SGD = optim.SGD(MODEL.parameters(), lr=0.1)

MISTAKES = [
    (lambda: dp.ones_like([1]), DTypeError, "ones_like: expected a tensor, got a list"),
    (lambda: dp.randn_like(1.0), DTypeError, "randn_like: expected a tensor"),
    (lambda: dp.sort([3, 1]), DTypeError, "sort: expected a tensor, got a list"),
    (lambda: dp.block_diag([dp.ones(1)]), DTypeError, "block_diag: expected a tensor"),
    (lambda: dp.broadcast_tensors([dp.ones(1)]), DTypeError, "broadcast_tensors"),
    (lambda: dp.cat((dp.ones(1), None)), DTypeError, "cat: expected a tensor, got a NoneType"),
    (lambda: nn.Dropout("0.5"), ValueError, "between 0 and 1, but got '0.5'"),
    (lambda: nn.LSTM(3, 4, num_layers="2"), ValueError, "LSTM: num_layers='2'; expected an int"),
    (lambda: nn.LSTM(3, 4, dropout="0.5"), ValueError, "between 0 and 1, but got '0.5'"),
    (lambda: nn.MultiheadAttention(4, "2"), ValueError, "num_heads='2'; expected an integer, 1"),
    (lambda: dp.Scheduler(None, nn.MSELoss(), SGD), ReplicaError, "Scheduler.None.*a model"),
    (lambda: dp.Scheduler(MODEL, nn.MSELoss(), SGD, "cpu:0")([[1.0, 2.0]], [0]), ReplicaError,
     "no rows to split: a list is several things.*dp.tensor"),
    (lambda: dp.arange(0, math.inf), ValueError, "no step leads to the end"),
    (lambda: dp.movedim(dp.ones(2, 3, 4), (1, 0, -2), (0, 1, 2)), ShapeError, "each once"),
    (lambda: dp.index_copy(dp.ones(3), 0, dp.tensor([0, 1]), dp.ones(1)), ShapeError, "a slice"),
    (lambda: dp.cdist(dp.ones(2, 5), dp.ones(2, 1)), ShapeError, "rows of one length"),
    (lambda: dp.zeros(2, dtype=dp.uint8).__setitem__(0, -1.5), DTypeError, "does not fit"),
    (lambda: dp.hsplit(dp.ones(3), 2), ShapeError, "equal parts"),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(MISTAKES)))
def test_messages(place):
    call, kind, message = MISTAKES[place]
    with pytest.raises(kind, match=message):
        call()


def test_no_warning_leaks():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dp.isnan(dp.linspace(0, math.inf, 3))[0].item()
    assert issubclass(ShapeError, MinidpError)
