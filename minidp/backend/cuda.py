"""The CUDA backend: CuPy arrays, and the kernels of ``kernels/cuda`` compiled by NVRTC.

CuPy is imported when a first array is made, not before: the driver itself is asked for GPUs.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from abc import abstractmethod
from contextlib import AbstractContextManager
from functools import cached_property, wraps
from typing import Any

import numpy as np

from minidp.backend.base import Backend, Kernel
from minidp.errors import DeviceError
from minidp.types import Array

OPTIONS = ("-std=c++17",)
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE of cuInit


class GpuBackend(Backend):
    """A backend whose kernels are CUDA text, run by launchers that take a ``gpu`` first."""

    table = "cuda"

    @abstractmethod
    def compile(self, text: str, name: str) -> Any:
        """A module of kernels from CUDA text: ``.get_function(name)(grid, block, args, ...)``."""

    @cached_property
    def gpu(self) -> Any:
        """What launchers take as their first argument."""
        runtime = importlib.import_module("minidp.kernels.cuda.runtime")
        return runtime.Gpu(self.xp, self.compile)

    def bind(self, kernel: Kernel) -> Kernel:
        """The launcher as ops call it: it runs with its arrays' device as the current one."""

        @wraps(kernel)
        def launch(*arrays: Array, **constants: Any) -> Any:
            with self.activate(self.device_of(kernel.__name__, arrays)):
                return kernel(self.gpu, *arrays, **constants)

        return launch

    def device_of(self, name: str, arrays: tuple[Array, ...]) -> int:
        """The one device that holds all arrays; a GPU itself would read a wrong address.

        Raises DeviceError for arrays of two devices, or of a device and the host.
        """
        ours = [array for array in arrays if isinstance(array, self.array_types)]
        indices = [self.index(array) for array in ours]
        for array in arrays:
            if (
                isinstance(array, np.ndarray)
                and array.ndim
                and not isinstance(array, self.array_types)
            ):
                raise DeviceError(
                    f"{name}: an array of the CPU among arrays of {self.name}: move it"
                )
        if len(set(indices)) > 1:
            held = " and ".join(f"{self.name}:{index}" for index in sorted(set(indices)))
            raise DeviceError(f"{name}: its arrays are on {held}: move them to one device")
        return indices[0] if indices else 0


class CudaBackend(GpuBackend):
    """NVIDIA GPUs through CuPy. ``cupy``: a stand-in for the module, for tests without a GPU."""

    name = "cuda"

    def __init__(self, cupy: Any = None) -> None:
        super().__init__()
        self._cupy = cupy
        self.array_types = (self.xp.ndarray,) if self.count() else ()

    @property
    def xp(self) -> Any:
        if self._cupy is None:
            problem = missing()
            if problem:
                raise DeviceError(problem)
            self._cupy = importlib.import_module("cupy")
        return self._cupy

    def put(self, array: Array, index: int) -> Array:
        with self.activate(index):
            return self.xp.array(array)

    def get(self, array: Array) -> Array:
        return self.xp.asnumpy(array)

    def index(self, array: Array) -> int:
        return int(array.device.id)

    def count(self) -> int:
        if self._cupy is not None:
            return int(self._cupy.cuda.runtime.getDeviceCount())
        return 0 if missing() else driver_count()[0]

    def problem(self, index: int = 0) -> str | None:
        absent = None if self._cupy is not None else missing()
        if absent is None and not 0 <= index < self.count():
            absent = f"cuda:{index}: this machine has {self.count()} GPU(s), counted from 0"
        return absent

    def activate(self, index: int) -> AbstractContextManager[Any]:
        devices: AbstractContextManager[Any] = self.xp.cuda.Device(index)
        if not 0 <= index < self.count():
            raise DeviceError(f"cuda:{index}: this machine has {self.count()} GPUs, counted from 0")
        return devices

    def synchronize(self) -> None:
        self.xp.cuda.Device().synchronize()

    def compile(self, text: str, name: str) -> Any:
        return self.xp.RawModule(code=text, options=OPTIONS)


def missing() -> str | None:
    """One line that says why CUDA cannot be used here and what to do, or None."""
    count, problem = driver_count()
    if problem:
        return problem
    if count == 0:
        return "cuda: the driver finds no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"
    if importlib.util.find_spec("cupy") is None:
        return "cuda: CuPy is not installed: pip install 'cupy-cuda13x[ctk]'"
    return None


def driver_count() -> tuple[int, str | None]:
    """How many GPUs the driver has, or 0 and what is wrong; asked without CuPy, in milliseconds."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return 0, (
            f"cuda: there is no NVIDIA driver ({library} is not found): install it, or use "
            "devices='emu' to run the CUDA kernels on the CPU"
        )
    count, code = ctypes.c_int(0), int(driver.cuInit(0))
    if code == 0:
        code = int(driver.cuDeviceGetCount(ctypes.byref(count)))
    if code not in (0, NO_DEVICE):
        return 0, f"cuda: the NVIDIA driver does not start (error {code}): check nvidia-smi"
    return count.value, None
