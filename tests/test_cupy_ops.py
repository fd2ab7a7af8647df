"""Every op on the stand-in for CuPy, whose arrays are as little NumPy's as CuPy's are.

What an op's body or rule does that CuPy would refuse, or that waits for the GPU in secret, shows
here. Nothing runs on a GPU.
"""

import cupy_stand_in
import numpy as np
import pytest
from cases import Sample, differentiable, names, samples
from cupy_stand_in import Array
from test_ops import GPUS, body, close, compute, first_derivatives, placed, put

from minidp import backend as backends
from minidp.backend.cuda import CudaBackend


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """The CUDA backend on a stand-in."""
    backend, patch = CudaBackend(cupy_stand_in.stand_in()), pytest.MonkeyPatch()
    patch.setitem(backends._loaded, "cuda", backend)
    patch.setitem(backends._by_array, Array, backend)
    yield backend
    patch.undo()
    print(cupy_stand_in.SAYS)


@pytest.mark.skipif("emu" not in GPUS, reason="the emulator needs g++")
@pytest.mark.parametrize("name", [name for name in names() if name != "to_device"])
def test_results_and_derivatives(gpu, name):
    for sample in samples(name):
        there = Sample([put("cuda", a) for a in sample.arrays], placed(sample.constants, "cuda"))
        for actual, expected in zip(compute(name, there), body(name, sample), strict=True):
            assert type(actual) is Array and gpu.index(actual) == 0
            close(gpu.get(actual), expected, 1e-12)
        if differentiable(name, sample):
            here, moved = (first_derivatives(name, s, False)[2] for s in (sample, there))
            for a, b in zip(here, moved, strict=True):
                assert str(b.device) == "cuda:0"
                close(b.numpy(), a.numpy(), 1e-12)


def test_the_arrays_are_no_numpy_arrays(gpu):
    x = gpu.put(np.ones(3), 0)
    for use in (np.asarray, lambda x: x + np.ones(3), lambda x: gpu.xp.add(np.ones(3), x),
                lambda x: x.__setitem__(slice(None), np.ones(3))):  # fmt: skip
        with pytest.raises(TypeError, match=r"NumPy array|numpy\.ndarray"):
            use(x)
    assert type(np.exp(x)) is type(np.where(x > 0, x, 0.0)) is type(x[0]) is Array
