"""Run every CUDA kernel on its sample inputs in this process, which runs under AddressSanitizer.

test_emulator_checks.py starts it with the sanitiser's library preloaded. With --overrun it runs a
kernel that is wrong instead.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from cases import names, samples

from minidp.backend.emulated import EmulatedBackend
from minidp.kernels.cuda import emulate
from minidp.op import OPS

WRONG = """
extern "C" __global__ void minidp_wrong(float *x) { x[threadIdx.x + 1] = 1; }
"""


def run(backend, name, sample, dtype):
    """Whether the kernel took the sample."""
    arrays = [
        backend.put(a.astype(dtype) if a.dtype.kind == "f" else a, 0)
        if isinstance(a, np.ndarray) else a
        for a in sample.arrays
    ]  # fmt: skip
    constants = {**OPS[name].defaults, **sample.constants}
    with np.errstate(all="ignore"):
        return backend.kernel(name)(*arrays, **constants) is not NotImplemented


def main():
    if "--overrun" in sys.argv:
        wrong = emulate.Module(WRONG, "wrong.cu", checks="address").get_function("minidp_wrong")
        wrong((1,), (64,), (np.zeros(64, np.float32),))
        return
    backend = EmulatedBackend(checks="address")
    ours = sorted(set(names()) & set(backend.kernel_names()))
    for name in ours:
        for sample in samples(name):
            if all(a is None or isinstance(a, np.ndarray) for a in sample.arrays):
                run(backend, name, sample, np.float32)
    print(f"{len(ours)} kernels ran under AddressSanitizer")


if __name__ == "__main__":
    main()
