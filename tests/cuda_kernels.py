"""What tests of CUDA kernels share: run by the emulator, compared with their ops' bodies."""

import numpy as np
import pytest

from minidp.backend.emulated import EmulatedArray, EmulatedBackend, current, place
from minidp.kernels.cuda import runtime
from minidp.op import OPS

ZONE = 512  # bytes before and after each array, all bits set: NaN, or -1


def guarded(shape, dtype, index):
    """An array on emu:index between two zones, and all that memory as bytes."""
    dtype, shape = np.dtype(dtype), (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    memory = np.full(size + 2 * ZONE, 0xFF, np.uint8)
    middle = memory[ZONE : ZONE + size].view(dtype).reshape(shape)
    return place(middle, EmulatedArray, index), memory


class Guarded(runtime.Gpu):
    """A Gpu whose arrays lie between zones that a kernel must not write."""

    def __init__(self, backend):
        super().__init__(backend.xp, backend.compile)
        self.memories = []

    def empty(self, shape, dtype):
        array, memory = guarded(shape, dtype, current())
        self.memories.append(memory)
        return array

    def zeros(self, shape, dtype):
        array = self.empty(shape, dtype)
        array[...] = 0
        return array

    def contiguous(self, x):
        if x.flags.c_contiguous:
            return x
        y, _ = guarded(x.shape, x.dtype, x.device_index)
        y[...] = x
        return y

    def check(self):
        """No zone was written since the last call."""
        memories, self.memories = self.memories, []
        for memory in memories:
            assert (memory[:ZONE] == 0xFF).all() and (memory[-ZONE:] == 0xFF).all(), "an overrun"


def backend_with_zones(**options):
    backend = EmulatedBackend(**options)
    backend.__dict__["gpu"] = Guarded(backend)  # before its first use makes one without zones
    return backend


BACKENDS = {"loops": backend_with_zones(),
            "shuffled fibers": backend_with_zones(seed=5, fibers=True)}  # fmt: skip
BOTH = pytest.mark.parametrize("backend", BACKENDS.values(), ids=list(BACKENDS))
TYPES = [np.float16, np.float32, np.float64]
EACH = pytest.mark.parametrize("dtype", TYPES)
TOLERANCE = {np.dtype(np.float16): 4e-3, np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}


def arrays(values, dtype):
    """The real arrays among values in dtype."""
    real = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in values]
    return [x.astype(dtype) if is_real else x for x, is_real in zip(values, real, strict=True)]


def call(backend, name, *values, **constants):
    """A kernel's result for NumPy arrays, put on emu:1 and read-only, as NumPy arrays."""
    ours = [put(x) if isinstance(x, np.ndarray) else x for x in values]
    y = backend.kernel(name)(*ours, **constants)
    backend.gpu.check()
    if y is NotImplemented:
        return y
    for array in y if isinstance(y, tuple) else (y,):
        assert isinstance(array, EmulatedArray) and array.device_index == 1
    return tuple(map(backend.get, y)) if isinstance(y, tuple) else backend.get(y)


def put(x):
    """A copy on emu:1, between zones and read-only."""
    y, _ = guarded(x.shape, x.dtype, 1)
    np.asarray(y)[...] = x
    y.setflags(write=False)
    return y


def put_state(backend, x):
    """A copy on emu:1 that kernels may change; `backend.gpu.check()` looks at its zones."""
    y, memory = guarded(x.shape, x.dtype, 1)
    np.asarray(y)[...] = x
    backend.gpu.memories.append(memory)
    return y


def check(backend, name, *values, dtype=np.float64, **constants):
    """A kernel's result is that of its op's body in float64, and of the body's dtype; give it."""
    given = arrays(values, dtype)
    found = call(backend, name, *given, **constants)
    assert found is not NotImplemented, f"{name} declined {constants}"
    with np.errstate(all="ignore"):
        wanted = OPS[name].body(np, *arrays(given, np.float64), **constants)
    pairs = [(found, wanted)] if not isinstance(found, tuple) else zip(found, wanted, strict=True)
    for one, other in pairs:
        close(one, np.asarray(other), dtype)
    return found


def close(found, wanted, dtype):
    """Equal up to rounding in dtype, or exactly where they are no real numbers."""
    assert found.shape == wanted.shape
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    assert found.dtype == dtype
    tolerance, finite = TOLERANCE[found.dtype], np.abs(wanted[np.isfinite(wanted)])
    np.testing.assert_allclose(found, wanted, tolerance, tolerance * max(finite, default=1))
