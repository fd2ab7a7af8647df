"""Tensors and other libraries: NumPy's protocols, DLPack, copies, pickles."""

import copy
import pickle

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim
from minidp.errors import DTypeError, GraphError

# NumPy ----------------------------------------------------------------------------------------


def test_numpy_asks_for_an_array():
    x = dp.tensor(wave(3))
    assert np.asarray(x) is x.array and np.asarray(x, copy=False) is x.array
    assert not np.shares_memory(np.array(x), x.array)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="avoid copy"):
        np.asarray(x, dtype=np.float32, copy=False)
    assert np.asarray(dp.tensor(True)).shape == () and np.asarray(leaf(2)).shape == (2,)
    there = np.asarray(x.to("emu:1"))
    assert type(there) is np.ndarray and np.array_equal(there, wave(3))


# DLPack ---------------------------------------------------------------------------------------

DTYPES = ["float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_shares_memory_both_ways(dtype):
    array = np.ones((2, 3), dtype).T
    x = dp.from_dlpack(array)
    assert x.dtype == dtype and x.shape == (3, 2) and not x.is_contiguous()
    assert np.shares_memory(x.array, array)
    back = np.from_dlpack(x)
    assert np.shares_memory(back, array) and back.strides == array.strides
    assert x.__dlpack_device__() == (1, 0)
    assert dp.from_dlpack(x).array.dtype == dtype


def test_dlpack_takes_what_is_empty_or_has_no_axes():
    assert dp.from_dlpack(np.ones((0, 3))).shape == (0, 3)
    assert dp.from_dlpack(np.array(2.0)).item() == 2.0
    assert np.from_dlpack(dp.ones(())).shape == ()


def test_what_requires_a_gradient_or_is_emulated_is_not_exported():
    for x, text in [
        (leaf(2), "require gradient, use tensor.detach"),
        (dp.ones(2, device="emu:0"), r"emu:0 cannot be exported.*tensor.cpu\(\)"),
    ]:
        for call in (np.from_dlpack, dp.from_dlpack):
            with pytest.raises(BufferError, match=text):
                call(x)
    np.testing.assert_array_equal(np.from_dlpack(leaf(2).detach()), wave(2))


def test_memory_that_is_read_only_stays_so():
    array = wave(3)
    array.flags.writeable = False
    x = dp.from_dlpack(array)
    assert np.shares_memory(x.array, array)
    with pytest.raises(ValueError, match="read-only"):
        x += 1
    np.testing.assert_array_equal(array, wave(3))
    assert not np.from_dlpack(x).flags.writeable


def test_copies_and_moves_on_request():
    array = wave(3)
    assert not np.shares_memory(dp.from_dlpack(array, copy=True).array, array)
    assert np.shares_memory(dp.from_dlpack(array, copy=False, device="cpu").array, array)
    assert str(dp.from_dlpack(array, device="emu:1").device) == "emu:1"
    with pytest.raises(ValueError, match="needs a copy"):
        dp.from_dlpack(array, device="emu:1", copy=False)


def test_what_is_no_tensor_is_refused():
    class Elsewhere:
        def __dlpack_device__(self):
            return 7, 0

    with pytest.raises(TypeError, match="list has no __dlpack__"):
        dp.from_dlpack([1.0])
    with pytest.raises(BufferError, match="device type 7"):
        dp.from_dlpack(Elsewhere())
    with pytest.raises(DTypeError, match="complex64"):
        dp.from_dlpack(np.ones(2, np.complex64))


# Copies and pickles ---------------------------------------------------------------------------


def pickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickled])
def test_kind_dtype_device_and_the_wish_for_a_gradient_are_kept(twin):
    for x in (dp.tensor([1, 2]), leaf(2), nn.Parameter(dp.ones(2)), nn.Buffer(dp.ones(2)),
              nn.Parameter(dp.ones(2), requires_grad=False), dp.ones(2, device="emu:1"),
              dp.tensor(3.0), dp.ones(0, 2)):  # fmt: skip
        y = twin(x)
        assert y is not x and type(y) is type(x) and y.dtype == x.dtype and y.shape == x.shape
        assert y.requires_grad == x.requires_grad and y.device == x.device and y.is_leaf
        assert y.tolist() == x.tolist()
        assert (y.array is x.array) == (twin is copy.copy)


def test_a_shallow_copy_shares_its_memory_and_the_count_of_changes():
    x = leaf(3)
    y = (x * x).sum()
    with dp.no_grad():
        copy.copy(x).fill_(1.0)
    assert x.tolist() == [1.0] * 3
    with pytest.raises(GraphError, match="changed in place"):
        y.backward()


def test_gradients_of_plain_leaves_are_copied_deeply():
    x, p = leaf(2), nn.Parameter(dp.ones(2))
    (x * x).sum().backward()
    (p * p).sum().backward()
    y = copy.deepcopy(x)
    np.testing.assert_array_equal(y.grad.numpy(), 2 * wave(2))
    y.grad.zero_()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * wave(2))
    assert copy.deepcopy(p).grad is None and pickled(x).grad is None  # as in PyTorch
    with pytest.raises(GraphError, match="detach"):
        copy.deepcopy(x * 2)
    assert pickled(x * 2).is_leaf
    both = copy.deepcopy([x, x])
    assert both[0] is both[1]


def trained():
    dp.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[3].weight = nn.Parameter(model[3].weight.detach())
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    one_step(model, optimizer)
    return model, optimizer


def one_step(model, optimizer):
    dp.manual_seed(5)
    optimizer.zero_grad()
    model(dp.tensor(wave(6, 3), dtype="float32")).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("twin", [copy.deepcopy, pickled])
def test_model_and_optimizer_go_on_as_their_originals(twin):
    model, optimizer = trained()
    other, its = twin((model, optimizer))
    assert its.param_groups[0]["params"][0] is other[0].weight
    one_step(model, optimizer)
    one_step(other, its)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        assert not np.shares_memory(a.array, b.array)
    np.testing.assert_array_equal(model[1].running_var.numpy(), other[1].running_var.numpy())


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickled])
def test_a_generator_counts_on_from_where_it_was(twin):
    generator = dp.Generator().manual_seed(7)
    dp.rand(3, generator=generator)
    other = twin(generator)
    assert other.get_state() == generator.get_state() and other.initial_seed() == 7
    assert other.next_key() == generator.next_key()
    other.next_key()
    assert other.get_state() != generator.get_state()
