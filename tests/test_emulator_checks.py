"""What the emulator sees of memory: overruns, null pointers, misalignment, races."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from minidp.backend.cpu import keep_freed_memory
from minidp.kernels.cuda import emulate

TEXT = r"""
extern "C" __global__ void minidp_shift(const float *x, float *y, long long by) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i + by];
}
extern "C" __global__ void minidp_scatter(const int *where, double *y, float *rest) {
    y[where[threadIdx.x]] = threadIdx.x;
}
extern "C" __global__ void minidp_four(const float *x, float *y, int from) {
    ((float4 *)y)[threadIdx.x] = *(const float4 *)(x + from + 4 * threadIdx.x);
}
extern "C" __global__ void minidp_arena(float *y, int from) {
    extern __shared__ float cells[];
    cells[from + threadIdx.x] = 1;
    y[threadIdx.x] = cells[from + threadIdx.x];
}
extern "C" __global__ void minidp_table(const int *at, float *y) {
    float mine[4] = {1, 2, 3, 4};
    y[threadIdx.x] = mine[at[threadIdx.x]];
}
extern "C" __global__ void minidp_next(float *y, int sync) {
    __shared__ float cells[64];
    cells[threadIdx.x] = threadIdx.x;
    if (sync == 1) __syncthreads();
    if (sync == 2) __syncwarp();
    y[threadIdx.x] = cells[(threadIdx.x + 1) % blockDim.x];
}
extern "C" __global__ void minidp_overwrite(float *y) {
    __shared__ float cells[64];
    cells[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = cells[0] + cells[5];
    cells[threadIdx.x] = 2;
}
extern "C" __global__ void minidp_tally(int *y, int plain) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    if (plain && threadIdx.x == 3) total += 1; else atomicAdd(&total, 1);
    __syncthreads();
    y[threadIdx.x] = total;
}
extern "C" __global__ void minidp_lost(int *y, int by) {
    atomicAdd(y + by, 1);
}
"""
ROWS = np.arange(64, dtype=np.float32)


@cache
def kernel(name, seed=0, checks="own"):
    return emulate.Module(TEXT, "text.cu", seed=seed, checks=checks).get_function(f"minidp_{name}")


def inner(size, dtype=np.float32):
    """An array inside of a larger one: what lies beside it may not be touched either."""
    return np.zeros(3 * size, dtype)[size : 2 * size]


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(
    ("by", "thread", "place"),
    [(1, "31", r"x\[64\]"), (-1, "0", r"x\[-1\]"), (64, r"\d+", r"x\[\d+\]")],
)
def test_an_overrun_names_the_line_the_thread_and_the_array(by, thread, place, seed):
    whole = np.arange(192, dtype=np.float32)
    x, y = whole[64:128], inner(64)
    kernel("shift", seed)((2,), (32,), (x, y, np.int64(0)))
    assert (y == x).all()
    message = rf"text\.cu:4: thread \({thread},0,0\) of block \(\d,0,0\) reads 4 bytes at {place}: "
    with pytest.raises(emulate.EmulatorError, match=message + "x has 64 elements of float32"):
        kernel("shift", seed)((2,), (32,), (x, y, np.int64(by)))


def test_a_write_an_empty_array_and_a_wild_address():
    where, y = np.array([0, 8], np.int32), inner(8, np.float64)
    scatter = kernel("scatter")
    with pytest.raises(emulate.EmulatorError, match=r"text\.cu:7: .* writes 8 bytes at y\[8\]"):
        scatter((1,), (2,), (where, y, np.zeros(1, np.float32)))
    with pytest.raises(emulate.EmulatorError, match="behind a null pointer"):
        scatter((1,), (2,), (where, y[:0], np.zeros(1, np.float32)))
    with pytest.raises(emulate.EmulatorError, match="which is in none of its arrays"):
        scatter((1,), (1,), (np.array([2**30], np.int32), y, np.zeros(1, np.float32)))
    with pytest.raises(emulate.EmulatorError, match=r"changes atomically 4 bytes at y\[2\]"):
        kernel("lost")((1,), (1,), (np.zeros(2, np.int32), np.int32(2)))
    assert y.base[:8].tolist() == y.base[16:].tolist() == [0] * 8 and y[0] == 0


def aligned(size):
    """Zeros that begin at a multiple of 16 bytes."""
    raw = np.zeros(size + 4, np.float32)
    start = -raw.ctypes.data % 16 // 4
    return raw[start : start + size]


def test_vectors_must_be_aligned_and_inside():
    x, y = aligned(64), aligned(64)
    x[:] = ROWS
    kernel("four")((1,), (16,), (x, y, np.int32(0)))
    assert (x == y).all()
    with pytest.raises(emulate.EmulatorError, match=r"text\.cu:10: .*misaligned.*float4.* 4 bytes"):
        kernel("four")((1,), (8,), (x, y, np.int32(1)))
    with pytest.raises(emulate.EmulatorError, match=r"x\[64\]: x has 64"):
        kernel("four")((1,), (16,), (x, y, np.int32(4)))


def test_dynamic_shared_memory_and_local_arrays_end():
    y = np.zeros(16, np.float32)
    kernel("arena")((1,), (16,), (y, np.int32(0)), shared_mem=64)
    with pytest.raises(emulate.EmulatorError, match=r"text\.cu:14: .* outside of every __shared__"):
        kernel("arena")((1,), (16,), (y, np.int32(1)), shared_mem=64)
    with pytest.raises(emulate.EmulatorError, match=r"text\.cu:19: .*index 4 is outside"):
        kernel("table")((1,), (1,), (np.array([4], np.int32), y))


@pytest.mark.parametrize("seed", [0, 3])
def test_races(seed):
    y, one = np.zeros(64, np.float32), np.int32(1)
    following = kernel("next", seed)
    following((1,), (64,), (y, one))
    following((1,), (32,), (y, np.int32(2)))  # one warp in step with itself
    assert y[:32].tolist() == [*range(1, 32), 0]
    line = r"text\.cu:26: thread .* reads 4 bytes of shared memory that thread \d+ touched at text"
    with pytest.raises(emulate.EmulatorError, match=line + r"\.cu:23 since the last barrier"):
        following((1,), (64,), (y, np.int32(2)))
    with pytest.raises(emulate.EmulatorError, match="since the last barrier"):
        following((1,), (32,), (y, np.int32(0)))
    with pytest.raises(emulate.EmulatorError, match=r"text\.cu:3[23]: .*touched at text\.cu:3[23]"):
        kernel("overwrite", seed)((1,), (64,), (y,))


def test_a_first_launch_knows_nothing_of_what_its_memory_held():
    keep_freed_memory()  # so that it may be given what others have left
    for epoch in range(1, 5):
        left = [np.full(2**20, epoch << 32, np.uint64) for _ in range(8)]
        del left
        fresh = emulate.Module(f"{TEXT}// {epoch}", "text.cu").get_function("minidp_next")
        with pytest.raises(emulate.EmulatorError, match="since the last barrier"):
            fresh((1,), (32,), (np.zeros(64, np.float32), np.int32(0)))


@pytest.mark.parametrize("seed", [0, 3])
def test_atomic_operations_do_not_race_with_each_other(seed):
    y = np.zeros(64, np.int32)
    kernel("tally", seed)((1,), (64,), (y, np.int32(0)))
    assert (y == 64).all()
    with pytest.raises(emulate.EmulatorError, match=r"text\.cu:39: .*since the last barrier"):
        kernel("tally", seed)((1,), (64,), (y, np.int32(1)))


def test_without_checks_an_overrun_goes_unseen():
    x, y = np.zeros(3 * 64, np.float32), inner(64)
    kernel("shift", checks="none")((2,), (32,), (x[64:128], y, np.int64(1)))


def under_address_sanitizer(*arguments):
    """A finished process of its own that runs tests/address_run.py under AddressSanitizer."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    asked = [compiler, "-print-file-name=libasan.so"]
    library = compiler and subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    if not library or not os.path.isabs(library):
        pytest.skip("no libasan: install the compiler's sanitiser library (libasan)")
    settings = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    program = Path(__file__).with_name("address_run.py")
    return subprocess.run(
        [sys.executable, str(program), *arguments], env=os.environ | settings,
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip


@pytest.mark.slow
def test_address_sanitizer_finds_nothing_in_the_kernels():
    done = under_address_sanitizer()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "kernels ran under AddressSanitizer" in done.stdout


def test_address_sanitizer_finds_an_overrun():
    done = under_address_sanitizer("--overrun")
    assert done.returncode != 0 and "heap-buffer-overflow" in done.stderr
