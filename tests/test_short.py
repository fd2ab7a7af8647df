"""The short way of ops gives what ``apply`` gives, byte for byte, and what is added up on the way
back belongs to nobody else."""

import math
import threading

import numpy as np
import pytest

import minidp as dp
from minidp.errors import DTypeError
from minidp.op import OPS
from minidp.record import apply
from minidp.short import NUMBERS, number
from minidp.tensor import Tensor

NAMES = sorted(name for name, op in OPS.items() if op.own and op.short is not None)
UNARY = [name for name in NAMES if len(OPS[name].arguments) == 1]
BINARY = [
    name for name in NAMES if name not in UNARY and not name.startswith(("b", "chosen", "relu"))
]
SPECIAL = (0.0, -0.0, 0, 1, 2, 0.1, -0.5, 1e-40, 1e38, 70000.0, 16777217, math.inf, math.nan)


def leaf(dtype, *shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return Tensor(values, requires_grad=True)


def told(call, *leaves):
    """The bytes of what a call gives, and of its gradients."""
    y = call()
    for each in leaves:
        each.grad = None
    if y.requires_grad:
        y.backward(dp.ones_like(y))
    grads = [None if x.grad is None else x.grad.numpy().tobytes() for x in leaves]
    return y.dtype, y.shape, y.detach().numpy().tobytes(), grads


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", UNARY)
def test_one_argument(name, dtype):
    op, x = OPS[name], leaf(dtype, 3, 4)
    if name.startswith("bitwise"):
        return
    expected = told(lambda: apply(op, (x,), {}), x)
    for call in (op, op.short, getattr(Tensor, name, op)):
        assert told(lambda call=call: call(x), x) == expected


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", BINARY)
def test_two_arguments(name, dtype):
    op, x = OPS[name], leaf(dtype, 3, 4)
    for other in (leaf(dtype, 3, 4, seed=1), leaf(dtype, 4, seed=1), leaf(dtype, seed=1)):
        expected = told(lambda z=other: apply(op, (x, z), {}), x, other)
        assert told(lambda z=other: op(x, z), x, other) == expected


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", BINARY)
def test_numbers(name, dtype):
    """On either side: also those that NumPy is given as arrays."""
    op, x = OPS[name], leaf(dtype, 3, 4)
    x.data[0] = dp.tensor([0.0, -0.0, math.inf, math.nan])
    for value in SPECIAL:
        for given in ((x, value), (value, x)):
            try:
                expected = told(lambda given=given: apply(op, given, {}), x)
            except (TypeError, ValueError, OverflowError) as error:
                with pytest.raises(type(error)):
                    op(*given)
            else:
                for _ in range(2):
                    assert told(lambda given=given: op(*given), x) == expected, (value, given)


def test_numbers_that_are_kept_are_exact_and_never_written():
    assert number(0.3) is number(0.3) and not number(0.3).flags.writeable
    assert all(kept.dtype == np.float32 and kept == np.float32(v) for v, kept in NUMBERS.items())
    assert math.copysign(1, number(-0.0)) == -1 and 0.0 not in NUMBERS
    assert number(1, np.ones(2)) == 1 and type(number(1, np.ones(2))) is int


def test_second_derivatives_with_numbers_on_either_side():
    x = leaf("float32", 5)
    (g,) = dp.grad((1 - x * 0.5) * x, x, dp.ones(5), create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), 1 - x.detach().numpy(), rtol=1e-6)
    np.testing.assert_array_equal(dp.grad(g, x, dp.ones(5))[0].numpy(), -np.ones(5))


def test_an_op_of_ones_own_may_give_another_shape_or_dtype():
    @dp.op("... -> ...", x=lambda g, x_shape: g * np.ones(x_shape, "float32"))
    def total_of_all(xp, x):
        return x.sum()

    @dp.op("... -> ...", x=lambda g: g)
    def whole_part(xp, x):
        return x.astype("int64")

    for _ in range(2):
        x = leaf("float32", 3)
        y = total_of_all(x)
        y.backward()
        assert y.shape == y.node.shape == () and x.grad.tolist() == [1, 1, 1]
        assert whole_part(x).node is None


def test_gradients_of_what_is_used_often_are_apart():
    a, b = leaf("float32", 3), leaf("float32", 3)
    s = leaf("float32")
    y = a + b
    (y + y + a + b + s * a + s + s).backward(dp.ones(3))
    np.testing.assert_allclose(s.grad.item(), a.detach().numpy().sum() + 6, rtol=1e-6)
    a.grad.zero_()
    assert b.grad.tolist() == [3, 3, 3]


def test_a_change_by_another_thread_is_noticed():
    x = leaf("float32", 3)
    kept = x * 2.0
    y = kept * kept
    thread = threading.Thread(target=lambda: kept.detach().add_(1.0))
    thread.start()
    thread.join()
    with pytest.raises(dp.errors.GraphError, match="changed in place"):
        y.sum().backward()


def test_modes_belong_to_threads():
    x, found = leaf("float32", 3), []
    with dp.no_grad():
        thread = threading.Thread(target=lambda: found.append((x * x).requires_grad))
        thread.start()
        thread.join()
        assert not (x * x).requires_grad
    assert found == [True] and (x * x).requires_grad


def test_the_body_of_an_op_may_compute_with_tensors():
    @dp.op("... -> ...", x=lambda g: g)
    def by_tensors(xp, x):
        t = Tensor(x)
        return (1 - t * t + t.tanh() * 0.5).numpy()

    x = leaf("float32", 4)
    expected = (1 - x * x + x.tanh() * 0.5).tolist()
    with np.errstate(all="raise"):
        assert by_tensors(x).tolist() == by_tensors(x).tolist() == expected
        assert (x / 0.0).tolist() == [math.copysign(math.inf, each) for each in x.tolist()]


def test_a_wrong_number_of_arguments_is_told():
    x = leaf("float32", 4)
    for call in (lambda: x.tanh(x), lambda: dp.tanh(x, x), lambda: x.mul(), lambda: dp.mul(x)):
        with pytest.raises(TypeError, match="expected"):
            call()


def test_a_cast_inside_of_an_op_that_is_quiet_already():
    x = dp.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=dp.float16)
    loss = dp.nn.functional.cross_entropy(x, dp.tensor([0, 1]), label_smoothing=0.1)
    assert loss.dtype is dp.float16 and abs(float(loss) - 0.7451) < 2e-3


def test_a_dtype_that_does_not_fit_is_refused_in_the_same_words_however_often():
    assert (~dp.tensor([1])).tolist() == [-2]
    for _ in range(3):
        with pytest.raises(DTypeError, match="bitwise_not: expected integers or bools"):
            ~dp.ones(2)
