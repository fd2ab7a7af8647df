"""The CuPy path with a stand-in for CuPy, which is no GPU and no CuPy.

It checks what launchers hand over, as CuPy and CUDA would not, and lets the emulator compute.
"""

import ctypes
import warnings
from types import SimpleNamespace

import cupy_stand_in
import numpy as np
import pytest
from cuda_calls import calls, matrices
from cupy_stand_in import Array, RawModule

from minidp.backend import cuda, emulated
from minidp.errors import DeviceError
from minidp.kernels.cuda import KERNELS, emulate, linalg, runtime

EMU = emulated.EmulatedBackend()


@pytest.fixture(scope="module")
def stand_in():
    """A CudaBackend on a module that plays CuPy with two GPUs."""
    yield cuda.CudaBackend(cupy_stand_in.stand_in())
    warnings.warn(
        f"{cupy_stand_in.SAYS}; the launches of {len(RawModule.launched)} CUDA kernels were "
        "checked and emulated", stacklevel=1,
    )  # fmt: skip


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
    for name, arrays, constants in (*calls(np.float16), *calls(np.float32), *calls(np.float64)):
        ours = [stand_in.put(x, 0) if isinstance(x, np.ndarray) else x for x in arrays]
        stand_in.kernel(name)(*ours, **constants)
    for dtype in (np.float16, np.float32, np.float64):
        for pair in matrices(dtype):
            with stand_in.activate(0):
                linalg.product(stand_in.gpu, *[stand_in.put(x, 0) for x in pair])
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
