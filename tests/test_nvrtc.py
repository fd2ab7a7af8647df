"""NVRTC, CUDA's own compiler, takes every .cu file without spills; it needs no GPU."""

import pytest
from occupancy import Needs, read, table

from minidp.backend.cuda import OPTIONS
from minidp.kernels.cuda import KERNELS, runtime, signature

compiler = pytest.importorskip(
    "cupy.cuda.compiler", reason="CuPy is not installed: pip install cupy-cuda13x"
)
LATER = [pytest.param(name, marks=pytest.mark.slow)
         for name in ("sm_75", "sm_80", "sm_100", "sm_120")]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def nvrtc():
    """Skip, saying why, where the compiler's library is missing."""
    try:
        compiler._NVRTCProgram('extern "C" __global__ void nothing() {}').compile(())
    except Exception as problem:  # CuPy raises several kinds for a library that does not load
        extra = "pip install 'cuda-toolkit[nvrtc,cudart,cccl]==13.*'"
        pytest.skip(f"NVRTC does not run here ({problem}): {extra}")


class Log:
    """Where NVRTC's messages are written."""

    text = ""

    def write(self, text):
        self.text += text


def compiled(text, name, architecture):
    """The size of the compiled text in bytes, and what each of its kernels needs."""
    program, log = compiler._NVRTCProgram(text, name, method="cubin"), Log()
    binary = program.compile((f"-arch={architecture}", *OPTIONS, "--ptxas-options=-v"), log)
    return len(binary[0] if isinstance(binary, tuple) else binary), read(log.text)


@pytest.mark.parametrize("architecture", ["sm_90", *LATER])
def test_nvrtc_compiles_every_kernel_without_spills(architecture):
    needs = []
    for name in KERNELS:
        size, found = compiled(runtime.source(name), f"{name}.cu", architecture)
        assert size > 1000 and found, name
        declared = runtime.source(name).count('extern "C" __global__')
        assert len(found) >= declared, f"{name}.cu: the compiler's log was not understood"
        needs += found
    print(f"\n{table(needs)}")  # python -m pytest tests/test_nvrtc.py -s
    assert {one.architecture for one in needs} == {architecture}
    assert [one for one in needs if one.spilled] == []
    assert max(one.registers for one in needs) <= 128  # so that two blocks of 256 fit
    assert max(one.shared for one in needs) <= runtime.SHARED
    assert min(one.occupancy(256) for one in needs) > 0


def test_a_spill_is_noticed():
    lines = ["extern \"C\" __global__ void __launch_bounds__(1024) minidp_spill(float *x) {",
             "float v[200]; for (int i = 0; i < 200; ++i) v[i] = x[i * 1024 + threadIdx.x];",
             "for (int k = 0; k < 9; ++k) for (int i = 0; i < 200; ++i)",
             "v[i] = v[i] * v[(i * 7 + 3) % 200] + 1;",
             "for (int i = 0; i < 200; ++i) x[i * 1024 + threadIdx.x] = v[i]; }"]  # fmt: skip
    text = "\n".join(lines).replace("for (int", "_Pragma(\"unroll\") for (int")
    _, (found,) = compiled(text, "spill.cu", "sm_80")
    assert found.kernel == "minidp_spill" and found.spilled > 0
    assert signature.kernels(text)["minidp_spill"] == "float *x"


@pytest.mark.parametrize(("needs", "threads", "expected"), [
    # by hand, from NVIDIA's occupancy calculator
    (Needs("k", "sm_80", 0, 0, 32, 0), 256, 1.0),
    (Needs("k", "sm_80", 0, 0, 64, 0), 256, 0.5),
    (Needs("k", "sm_80", 0, 0, 255, 0), 256, 0.125),
    (Needs("k", "sm_90", 0, 0, 32, 100 * 1024), 256, 0.25),
    (Needs("k", "sm_75", 0, 0, 32, 33 * 1024), 1024, 1.0),
    (Needs("k", "sm_120", 0, 0, 32, 0), 32, 0.5),
    (Needs("k", "sm_80", 0, 0, 65, 0), 1024, 0.0),
])  # fmt: skip
def test_occupancy(needs, threads, expected):
    assert needs.occupancy(threads) == expected
