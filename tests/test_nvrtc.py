"""NVRTC, CUDA's own compiler, takes every .cu file without spills; it needs no GPU."""

import re

import pytest

from minidp.backend.cuda import OPTIONS
from minidp.kernels.cuda import KERNELS, runtime

compiler = pytest.importorskip(
    "cupy.cuda.compiler", reason="CuPy is not installed: pip install cupy-cuda13x"
)


@pytest.fixture(scope="module", autouse=True)
def nvrtc():
    """Skip, saying why, where the compiler's library is missing."""
    try:
        compiler._NVRTCProgram('extern "C" __global__ void nothing() {}').compile(())
    except Exception as problem:  # CuPy raises several kinds for a library that does not load
        extra = "pip install 'cuda-toolkit[nvrtc,cudart,cccl]==13.*'"
        pytest.skip(f"NVRTC does not run here ({problem}): {extra}")


QUICK, SLOW = ["sm_80", "sm_90"], ["sm_75", "sm_100", "sm_120"]
ARCHITECTURES = QUICK + [pytest.param(name, marks=pytest.mark.slow) for name in SLOW]


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_compiles_without_spills(name, architecture, capsys):
    program = compiler._NVRTCProgram(runtime.source(name), f"{name}.cu", method="cubin")
    log = Log()
    binary = program.compile((f"-arch={architecture}", *OPTIONS, "--ptxas-options=-v"), log)
    assert len(binary[0] if isinstance(binary, tuple) else binary) > 1000
    spills = [int(count) for count in re.findall(r"(\d+) bytes spill stores", log.text)]
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", log.text)]
    shared = [int(count) for count in re.findall(r"(\d+) bytes smem", log.text)]
    print(
        f"{name}.cu {architecture}: {len(registers)} kernels, at most {max(registers)} registers "
        f"and {max(shared, default=0)} bytes of shared memory, {sum(spills)} bytes spilled"
    )
    assert len(registers) == len(spills) > 0
    assert sum(spills) == 0 and max(registers) <= 128  # so that two blocks of 256 fit
    assert max(shared, default=0) <= 48 * 1024


class Log:
    """Where NVRTC's messages are written."""

    text = ""

    def write(self, text):
        self.text += text
