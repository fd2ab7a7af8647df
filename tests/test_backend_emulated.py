"""Emulated arrays and their backend: results stay on their device, devices do not mix."""

import numpy as np
import pytest

from minidp.backend import emulated
from minidp.errors import DeviceError, KernelError

EMU = emulated.EmulatedBackend()
POOL = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "size": (3, 3)}
random = np.random.default_rng(2).standard_normal


def test_results_stay_on_their_device():
    x = EMU.put(random((3, 4)), 2)
    methods = (x.sum(), x.max(axis=1), x.T.reshape(-1), x.astype("float32"), x[1:, None], x[0, 0])
    functions = (np.exp(x), np.where(x > 0, x, 0), np.concatenate([x, x]), np.add.reduce(x))
    functions += (*np.split(x, 3), *np.linalg.qr(x), EMU.xp.zeros_like(x), EMU.xp.asarray(x))
    for y in (x + 1, x @ x.T, *methods, *functions):
        assert isinstance(y, emulated.EmulatedArray) and EMU.index(y) == 2, y
    x += x
    assert EMU.index(x) == 2 and type(EMU.get(x)) is np.ndarray


def test_creation_is_on_the_current_device():
    xp, names = EMU.xp, ("zeros", "ones", "empty")
    with EMU.activate(1):
        made = [getattr(xp, name)((2, 2)) for name in names]
        made += [
            xp.arange(3),
            xp.eye(2),
            xp.full((2,), made[0][0, 0]),
            xp.array([1, 2]),
            xp.asarray(3.0),
        ]
        with EMU.activate(0):
            assert EMU.index(xp.zeros(1)) == 0
        assert {EMU.index(x) for x in made} == {1}
    assert EMU.index(xp.zeros(1)) == 0


def test_put_asarray_and_get_are_copies():
    x = np.zeros(3)
    y, z = EMU.put(x, 0), EMU.xp.asarray(x)
    y += 1
    z += 1
    EMU.get(y)[:] = 5
    assert x.tolist() == [0] * 3 and y.tolist() == [1] * 3


def test_devices_do_not_mix():
    x, other, host = EMU.put(random(3), 0), EMU.put(random(3), 1), random(3)
    for use in (
        lambda y: x + y,
        lambda y: y * x,
        lambda y: x.__iadd__(y),
        lambda y: x.__setitem__(slice(None), y),
        lambda y: np.add(x, x, out=y),
        lambda y: np.where(x > 0, x, y),
        lambda y: np.concatenate([x, y]),
    ):
        with pytest.raises(DeviceError, match=r"on emu:[01] meets one \(3,\) on emu:[01]"):
            use(other)
        with pytest.raises(DeviceError, match=r"on emu:0 meets one \(3,\) on the CPU"):
            use(host)
    with pytest.raises(DeviceError, match="emu:0 and emu:1: move them"):
        EMU.kernel("add")(x, other)
    with pytest.raises(DeviceError, match="add: an array of the CPU"):
        EMU.kernel("add")(x, host)


def test_what_the_emulator_finds_is_a_kernel_error():
    def faulty(gpu, x):
        gpu.launch("elementwise", "relu_f64", 1, 32, (x, x))

    with pytest.raises(KernelError, match="faulty: minidp_relu_f64 takes 3 arguments"):
        EMU.bind(faulty)(EMU.put(random(3), 0))


def test_kernels_take_any_strides():
    x = random((2, 4, 6, 6))
    for y in (
        x.transpose(0, 1, 3, 2),
        x[:, ::2],
        np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1),
    ):
        ours, same = EMU.put(y, 0), EMU.put(np.ascontiguousarray(y), 0)
        assert ours.strides == same.strides or not ours.flags.c_contiguous
        for name, how in [
            ("sum", {"dim": (1,), "keepdim": False}),
            ("softmax", {"dim": 1}),
            ("avg_pool2d", {**POOL, "count_include_pad": True}),
            ("dropout", {"p": 0.5, "key": (1, 2, 3), "row": 0, "batch_dim": 0}),
        ]:
            np.testing.assert_array_equal(
                EMU.kernel(name)(ours, **how), EMU.kernel(name)(same, **how)
            )
