"""What tests of CUDA kernels share: run by the emulator, compared with their ops' bodies."""

import numpy as np
import pytest

from minidp.backend.emulated import EmulatedArray, EmulatedBackend
from minidp.op import OPS

BACKENDS = {"loops": EmulatedBackend(), "shuffled fibers": EmulatedBackend(seed=5, fibers=True)}
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
    ours = [backend.put(x, 1) if isinstance(x, np.ndarray) else x for x in values]
    for x in ours:
        if isinstance(x, np.ndarray):
            x.setflags(write=False)
    y = backend.kernel(name)(*ours, **constants)
    if y is NotImplemented:
        return y
    for array in y if isinstance(y, tuple) else (y,):
        assert isinstance(array, EmulatedArray) and array.device_index == 1
    return tuple(map(backend.get, y)) if isinstance(y, tuple) else backend.get(y)


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
