"""The CuPy path with a stand-in for CuPy, which is no GPU and no CuPy.

It checks what launchers hand over, as CuPy and CUDA would not, and lets the emulator compute.
"""

import ctypes
import warnings
from types import SimpleNamespace

import cupy_stand_in
import numpy as np
import pytest
from cupy_stand_in import Array, RawModule

from minidp.backend import cuda, emulated
from minidp.errors import DeviceError
from minidp.kernels.cuda import KERNELS, emulate, runtime

EMU = emulated.EmulatedBackend()
random = np.random.default_rng(2).standard_normal
POOL = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "size": (3, 3)}
SGD = {
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.3,
    "weight_decay": 0.01,
    "nesterov": False,
    "maximize": False,
}
ADAM = {
    **{"rate": 0.1, "nudge": 0.1, "root": 0.3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8},
    **{"weight_decay": 0.02, "shrink": 0.9, "maximize": True, "amsgrad": False},
}
RMSPROP = {
    **{"lr": 0.1, "alpha": 0.9, "rest": 0.1, "eps": 1e-8, "weight_decay": 0.02},
    **{"momentum": 0.9, "centered": False, "maximize": True},
}
ADADELTA = {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.02, "maximize": True}
ADAMAX = {"rate": 0.1, "beta1": 0.9, "beta2": 0.9, "eps": 1e-6, "weight_decay": 0.0,
          "maximize": True}  # fmt: skip


@pytest.fixture(scope="module")
def stand_in():
    """A CudaBackend on a module that plays CuPy with two GPUs."""
    yield cuda.CudaBackend(cupy_stand_in.stand_in())
    warnings.warn(
        f"{cupy_stand_in.SAYS}; the launches of {len(RawModule.launched)} CUDA kernels were "
        "checked and emulated", stacklevel=1,
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
    formula = SimpleNamespace(
        size=x.size, dtype=x.dtype, order=(), kinds=("whole",), layouts=(None,), compiled=None,
        steps=(("input", 0), ("tanh", 0), ("multiply", 1, 0.5)), outputs=((2, x.dtype, x.shape),),
    )  # fmt: skip
    return pairs + single + [
        ("fused", (x,), {"formula": formula}),
        ("sum", (x,), {"dim": (0, 2, 3), "keepdim": False}),
        ("sum", (x,), {"dim": (1,), "keepdim": True}),
        ("softmax", (x,), {"dim": 1}), ("log_softmax", (x,), {"dim": -1}),
        ("cross_entropy", (logits, target), {"ignore_index": 0}),
        ("cross_entropy_input", (logits[:, 0].copy(), logits, target), {"ignore_index": 0}),
        ("conv2d", (x, w, row), conv), ("conv2d_input", (x, w), conv | {"shape": x.shape}),
        ("conv2d_weight", (x, x), conv | {"shape": w.shape}),
        ("max_pool2d", (x,), pool), ("max_pool2d", (x,), wide),
        ("max_pool2d_input", (g, index), without_size | {"shape": x.shape}),
        ("max_pool2d_input", (g, wide_index), wide_without | {"shape": x.shape}),
        ("max_pool2d_gather", (x, index), without_size),
        ("max_pool2d_gather", (x, wide_index), wide_without),
        ("avg_pool2d", (x,), POOL | {"count_include_pad": True}),
        ("avg_pool2d_input", (g,), average | {"shape": x.shape}),
        ("dropout", (x,), {"p": 0.5, "key": (1, 2, 3), "row": 4, "batch_dim": 0}),
        ("batch_norm", (x, row, np.abs(row), None, row), {"eps": 1e-5}),
        ("sgd", (x, x, None), SGD | {"first": True}),
        ("adam", (x, x, x, np.abs(x), None), ADAM),
        ("rmsprop", (x, x, np.abs(x), None, x), RMSPROP),
        ("adadelta", (x, x, np.abs(x), np.abs(x)), ADADELTA),
        ("adamax", (x, x, x, np.abs(x)), ADAMAX),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_launch_is_what_cupy_takes_checked_by_a_stand_in(stand_in, dtype):
    for name, arrays, constants in calls(dtype):
        got = []
        for backend in (stand_in, EMU):
            ours = [backend.put(x, 1) if isinstance(x, np.ndarray) else x for x in arrays]
            got.append(backend.kernel(name)(*ours, **constants))
        for one, other in zip(*(y if isinstance(y, tuple) else (y,) for y in got), strict=True):
            assert type(one) is Array and stand_in.index(one) == 1
            np.testing.assert_array_equal(stand_in.get(one), EMU.get(other))


def test_the_stand_in_sees_every_kernel(stand_in):
    for name, arrays, constants in (*calls(np.float32), *calls(np.float64)):
        ours = [stand_in.put(x, 0) if isinstance(x, np.ndarray) else x for x in arrays]
        stand_in.kernel(name)(*ours, **constants)
    modules = [emulate.Module(runtime.source(file), f"{file}.cu") for file in KERNELS]
    assert {name for module in modules for name in module.kernels} == set(RawModule.launched)


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
