"""The two backends that run CUDA text: emulated arrays, in-place kernels, and the CuPy path with a stand-in.

The stand-in is no GPU and no CuPy: it checks what launchers hand to CuPy and lets the emulator compute.
"""

import ctypes
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from minidp.backend import cuda, emulated
from minidp.errors import DeviceError, KernelError
from minidp.kernels.cuda import KERNELS, emulate, runtime, signature

EMU = emulated.EmulatedBackend()
random = np.random.default_rng(2).standard_normal


def test_results_stay_on_their_device():
    x = EMU.put(random((3, 4)), 2)
    for y in (x + 1, np.exp(x), x.sum(), x[1:, None], x[0, 0], np.where(x > 0, x, 0), np.split(x, 3)[1],
              x.T.reshape(-1), np.concatenate([x, x]), x @ x.T, EMU.xp.zeros_like(x), x.astype("float32"),
              EMU.xp.asarray(x), np.linalg.qr(x)[0], x.max(axis=1), np.add.reduce(x)):  # fmt: skip
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
    for use in (lambda y: x + y, lambda y: y * x, lambda y: np.concatenate([x, y]), lambda y: x.__iadd__(y),
                lambda y: np.add(x, x, out=y), lambda y: x.__setitem__(slice(None), y), lambda y: np.where(x > 0, x, y)):  # fmt: skip
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


POOL = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "size": (3, 3)}
SGD = {
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.3,
    "weight_decay": 0.01,
    "nesterov": False,
    "maximize": False,
}
ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.02, "maximize": True}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "change", [{}, {"nesterov": True, "dampening": 0}, {"maximize": True}, {"momentum": 0}]
)
def test_sgd(change, dtype):
    how = SGD | change
    p, gradients = random(300).astype(dtype), random((3, 300)).astype(dtype)
    ours, velocity, expected = EMU.put(p, 0), EMU.put(np.zeros_like(p), 0), p.astype(float)
    m = 0
    for step, g in enumerate(gradients):
        memory = velocity if how["momentum"] else None
        assert EMU.kernel("sgd")(ours, EMU.put(g, 0), memory, **how, first=step == 0) is ours
        d = (-g if how["maximize"] else g) + 0.01 * expected
        m = d if step == 0 else how["momentum"] * m + (1 - how["dampening"]) * d
        move = d if not how["momentum"] else d + how["momentum"] * m if how["nesterov"] else m
        expected = expected - 0.1 * move
    np.testing.assert_allclose(EMU.get(ours), expected.astype(dtype), 1e-5, 1e-6)
    assert EMU.kernel("sgd")(ours[::2], ours[::2], None, **how, first=True) is NotImplemented


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam(decoupled, amsgrad, dtype):
    p, gradients = random(300).astype(dtype), random((3, 300)).astype(dtype)
    ours, expected = [EMU.put(x, 0) for x in (p, *np.zeros((3, 300), dtype))], p.astype(float)
    m, v, largest = 0, 0, 0
    for step, g in enumerate(gradients, 1):
        arrays = (ours[0], EMU.put(g, 0), ours[1], ours[2], ours[3] if amsgrad else None)
        EMU.kernel("adam")(*arrays, **ADAM, decoupled=decoupled, amsgrad=amsgrad, step=step)
        d = -g.astype(float)
        if decoupled:
            expected = expected * (1 - 0.1 * 0.02)
        else:
            d = d + 0.02 * expected
        m, v = 0.9 * m + 0.1 * d, 0.99 * v + 0.01 * d * d
        largest = np.maximum(largest, v)
        root = np.sqrt((largest if amsgrad else v) / (1 - 0.99**step)) + 1e-8
        expected = expected - 0.1 * m / (1 - 0.9**step) / root
    np.testing.assert_allclose(EMU.get(ours[0]), expected.astype(dtype), 1e-4, 1e-5)


# The CuPy path, with a stand-in ------------------------------------------------------------------


class Array(emulated.EmulatedArray):
    """The stand-in's cupy.ndarray."""

    device = property(lambda self: SimpleNamespace(id=self.device_index))


class Device:
    """The stand-in's cupy.cuda.Device."""

    def __init__(self, index=0):
        self.context = emulated.activated(index)

    def __enter__(self):
        return self.context.__enter__()

    def __exit__(self, *failure):
        return self.context.__exit__(*failure)


class RawModule:
    """The stand-in's cupy.RawModule: each launch is checked as CuPy and CUDA would not, then emulated."""

    launched = {}

    def __init__(self, *, code, options):
        assert options == ("-std=c++17",)
        self.module = emulate.Module(code, code[3:].split(":")[0])  # its first line names the file

    def get_function(self, name):
        kernel = self.module.get_function(name)

        def launch(grid, block, args, *, shared_mem=0):
            assert all(type(size) is int and size > 0 for size in (*grid, *block))
            assert isinstance(grid, tuple) and isinstance(block, tuple) and isinstance(args, tuple)
            for value in args:
                assert isinstance(value, Array | np.generic), f"{name}: CuPy takes no {type(value)}"
                if isinstance(value, Array):
                    assert value.device_index == emulated.current(), (
                        f"{name}: not on the current device"
                    )
            signature.check(name, kernel.parameters, args)
            self.launched[name] = self.launched.get(name, 0) + 1
            kernel(grid, block, args, shared_mem=shared_mem)

        return launch


@pytest.fixture(scope="module")
def stand_in():
    """A CudaBackend on a module that plays CuPy with two GPUs."""
    names = vars(emulated.namespace(Array)) | {"RawModule": RawModule, "asnumpy": np.array}
    counted = SimpleNamespace(getDeviceCount=lambda: 2)
    cupy = SimpleNamespace(**names, cuda=SimpleNamespace(Device=Device, runtime=counted))
    yield cuda.CudaBackend(cupy)
    warnings.warn(
        f"STAND-IN: CuPy was imitated and nothing ran on a GPU; the launches of {len(RawModule.launched)} "
        "CUDA kernels were checked and emulated", stacklevel=1,
    )  # fmt: skip


def calls(dtype):
    """One call of every kernel: name, arrays, constants."""
    x, w, row = (random(s).astype(dtype) for s in ((2, 4, 6, 6), (4, 2, 3, 3), (4,)))
    images = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1)}
    conv, pool = images | {"groups": 2}, {**POOL, "dilation": (1, 1)}
    wide, target = (
        pool | {"kernel": (17, 17), "padding": (8, 8), "size": (3, 3)},
        np.array([[1, 2], [3, 0]]),
    )
    logits, g = random((2, 4, 2)).astype(dtype), random((2, 4, 3, 3)).astype(dtype)
    pairs = [(name, (x, x), {}) for name in ("add", "sub", "mul", "div", "relu_input")]
    single = [
        (name, (np.abs(x),), {})
        for name in ("relu", "neg", "exp", "log", "tanh", "sigmoid", "sqrt")
    ]
    without_size = {key: value for key, value in pool.items() if key != "size"}
    average = {key: value for key, value in POOL.items() if key != "size"} | {
        "count_include_pad": False
    }
    index, wide_index = np.zeros((2, 4, 3, 3), np.uint8), np.zeros((2, 4, 3, 3), np.int32)
    wide_without = {key: value for key, value in wide.items() if key != "size"}
    return pairs + single + [
        ("sum", (x,), {"dim": (0, 2, 3), "keepdim": False}), ("sum", (x,), {"dim": (1,), "keepdim": True}),
        ("softmax", (x,), {"dim": 1}), ("log_softmax", (x,), {"dim": -1}),
        ("cross_entropy", (logits, target), {"ignore_index": 0}),
        ("cross_entropy_input", (logits[:, 0].copy(), logits, target), {"ignore_index": 0}),
        ("conv2d", (x, w, row), conv), ("conv2d_input", (x, w), conv | {"shape": x.shape}),
        ("conv2d_weight", (x, x), conv | {"shape": w.shape}),
        ("max_pool2d", (x,), pool), ("max_pool2d", (x,), wide),
        ("max_pool2d_input", (g, index), without_size | {"shape": x.shape}),
        ("max_pool2d_input", (g, wide_index), wide_without | {"shape": x.shape}),
        ("max_pool2d_gather", (x, index), without_size), ("max_pool2d_gather", (x, wide_index), wide_without),
        ("avg_pool2d", (x,), POOL | {"count_include_pad": True}), ("avg_pool2d_input", (g,), average | {"shape": x.shape}),
        ("dropout", (x,), {"p": 0.5, "key": (1, 2, 3), "row": 4, "batch_dim": 0}),
        ("batch_norm", (x, row, np.abs(row), None, row), {"eps": 1e-5}),
        ("sgd", (x, x, None), SGD | {"first": True}),
        ("adam", (x, x, x, np.abs(x), None), ADAM | {"decoupled": True, "amsgrad": False, "step": 1}),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_launch_is_what_cupy_takes_checked_by_a_stand_in(stand_in, dtype):
    for name, arrays, constants in calls(dtype):
        got = [backend.kernel(name)(*(backend.put(x, 1) if isinstance(x, np.ndarray) else x for x in arrays), **constants)
               for backend in (stand_in, EMU)]  # fmt: skip
        for one, other in zip(*(y if isinstance(y, tuple) else (y,) for y in got), strict=True):
            assert type(one) is Array and stand_in.index(one) == 1
            np.testing.assert_array_equal(stand_in.get(one), EMU.get(other))


def test_the_stand_in_saw_every_kernel(stand_in):
    names = {name for file in KERNELS for name in emulate.Module(runtime.source(file)).kernels}
    assert names == set(RawModule.launched)


def test_the_stand_in_refuses_a_device_that_is_not_there(stand_in):
    with pytest.raises(DeviceError, match="cuda:2: this machine has 2 GPUs"):
        stand_in.put(np.zeros(1), 2)


@pytest.mark.parametrize(
    ("driver", "installed", "message"),
    [
        (None, True, "no NVIDIA driver .* install it, or use devices='emu'"),
        ((3, 0), True, r"driver does not start \(error 3\): check nvidia-smi"),
        ((100, 0), True, "finds no GPU: check nvidia-smi"),
        ((0, 0), True, "finds no GPU"),
        ((0, 1), False, r"pip install 'cupy-cuda13x\[ctk\]'"),
    ],
)
def test_one_line_says_what_cuda_lacks(monkeypatch, driver, installed, message):
    def load(name):
        if driver is None:
            raise OSError(name)
        code, count = driver
        return SimpleNamespace(
            cuInit=lambda _: code, cuDeviceGetCount=lambda c: setattr(c._obj, "value", count) or 0
        )

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: installed or None)
    backend = cuda.CudaBackend()
    assert backend.count() == 0 and backend.array_types == ()
    with pytest.raises(DeviceError, match=message) as caught:
        backend.put(np.zeros(1), 0)
    assert "\n" not in str(caught.value)
