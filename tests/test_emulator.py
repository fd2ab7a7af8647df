"""The emulator: it runs CUDA's words, and reports what CUDA would refuse or leave undefined."""

import subprocess
import sys
import threading
from functools import cache

import numpy as np
import pytest

from minidp.kernels.cuda import emulate, runtime

EmulatorError = emulate.EmulatorError

WORDS = r"""
extern "C" __global__ void minidp_reverse(const int *x, int *y) {
    extern __shared__ int cells[];
    cells[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
}
__device__ int warp_sum(int value) {
    for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffffu, value, by);
    return value;
}
extern "C" __global__ void minidp_votes(const int *x, int *sums, unsigned *votes, int *butterfly) {
    int value = x[threadIdx.x], total = warp_sum(value);
    unsigned odd = __ballot_sync(0xffffffffu, value & 1);
    for (int bit = 1; bit < 32; bit *= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
    butterfly[threadIdx.x] = value;
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total, votes[threadIdx.x / 32] = odd;
}
extern "C" __global__ void minidp_where(int *x, long long big) {
    long long block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    x[block * blockDim.x * blockDim.y * blockDim.z + thread] = thread + int(big >> 40);
}
extern "C" __global__ void minidp_count(int *total, const float *maybe) {
    atomicAdd(total, maybe ? 1 : 2);
}
"""
FAULTS = r"""extern "C" __global__ void minidp_divergent(float *x) {
    if (threadIdx.x < 8) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}
extern "C" __global__ void minidp_early(float *x) {
    if (threadIdx.x >= 8) return;
    __syncthreads();
}
extern "C" __global__ void minidp_overrun(float *x) {
    __shared__ float cells[16];
    cells[threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void minidp_mixed(float *x) {
    if (threadIdx.x == 5) __syncthreads();
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}
extern "C" __global__ void minidp_greedy(float *x) {
    __shared__ double cells[20000];
    cells[threadIdx.x] = x[threadIdx.x];
}
"""


@cache
def module(text, name="words.cu", seed=0, fibers=False):
    return emulate.Module(text, name, seed=seed, fibers=fibers)


@pytest.mark.parametrize("seed", [0, 7])
def test_shared_memory_shuffles_and_votes(seed):
    x, words = np.arange(64, dtype=np.int32) * 3, module(WORDS, seed=seed)
    y = np.empty_like(x)
    words.get_function("minidp_reverse")((1,), (64,), (x, y), shared_mem=256)
    assert (y == x[::-1]).all()
    sums, votes, butterfly = np.empty(2, np.int32), np.empty(2, np.uint32), np.empty(64, np.int32)
    words.get_function("minidp_votes")((1,), (64,), (x, sums, votes, butterfly))
    assert sums.tolist() == x.reshape(2, 32).sum(1).tolist()
    assert votes.tolist() == [0xAAAAAAAA] * 2
    assert (butterfly.reshape(2, 32) == sums[:, None]).all()


@pytest.mark.parametrize("fibers", [False, True])
@pytest.mark.parametrize("seed", [0, 3])
def test_indices_are_cudas_with_and_without_fibers(seed, fibers):
    x = np.zeros((2, 3, 2, 24), np.int32)
    where = module(WORDS, seed=seed, fibers=fibers).get_function("minidp_where")
    assert where.plain is not fibers
    where((2, 3, 2), (4, 3, 2), (x, np.int64(5 << 40)))
    assert (x == np.arange(24) + 5).all()


def test_null_pointers_and_atomics():
    total, count = np.zeros((), np.int32), module(WORDS).get_function("minidp_count")
    count((4,), (50,), (total, np.uintp(0)))
    count((1,), (1,), (total, np.ones(1, np.float32)))
    assert total == 401


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("divergent", r"faults\.cu:3: block \(0,0,0\): divergent __syncthreads.*faults\.cu:5"),
        ("early", r"faults\.cu:10: block \(0,0,0\): 24 of 32 threads returned"),
        ("overrun", r"faults\.cu:14: thread \(16,0,0\): index 16 is outside"),
        ("mixed", r"deadlock: 1 threads wait at __syncthreads, 31 at a warp"),
        ("greedy", r"faults\.cu:21: __shared__ array of 160000 bytes"),
    ],
)
def test_faults_are_reported_with_file_and_line(kernel, message):
    fault = module(FAULTS, "faults.cu").get_function(f"minidp_{kernel}")
    with pytest.raises(EmulatorError, match=message):
        fault((1,), (32,), (np.zeros(32, np.float32),))
    fault = module(WORDS).get_function("minidp_where")  # and the next launch is sound
    fault((1,), (1,), (np.zeros(1, np.int32), np.int64(0)))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [
        ((0,), (1,), 0, "at least one block"),
        ((1,), (0,), 0, "1 to 1024 threads"),
        ((1,), (64, 32), 0, "1 to 1024 threads"),
        ((1, 70000), (1,), 0, "65535"),
        ((2**31,), (1,), 0, "2\\*\\*31 - 1"),
        ((-1,), (1,), 0, "sizes are from 1"),
        ((1,), (1,), 2**20, "227 KiB"),
    ],
)
def test_an_invalid_configuration_is_refused(grid, block, shared, message):
    kernel = module(WORDS).get_function("minidp_where")
    with pytest.raises(EmulatorError, match=message):
        kernel(grid, block, (np.zeros(1, np.int32), np.int64(0)), shared_mem=shared)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(1, np.int32),), r"takes 2 arguments \(x: int32\*, big: int64\), 1 were given"),
        ((np.zeros(1, np.int64), np.int64(0)), r"x: int32\* was given an array of int64"),
        ((np.zeros((4, 4), np.int32).T[1:], np.int64(0)), "not C-contiguous"),
        ((np.zeros(1, np.int32), np.int32(0)), r"big: int64 was given a int32"),
        ((np.zeros(1, np.int32), 0), r"pass numpy\.int64\(value\)"),
        ((np.int32(0), np.int64(0)), "takes an array"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(EmulatorError, match=message):
        module(WORDS).get_function("minidp_where")((1,), (1,), arguments)


def test_a_compile_error_names_file_and_line():
    with pytest.raises(EmulatorError, match=r"bad\.cu does not compile: bad\.cu:2:\d+: error"):
        emulate.Module(
            'extern "C" __global__ void minidp_bad(float *x) {\n    y[0] = 1;\n}', "bad.cu"
        )
    with pytest.raises(EmulatorError, match="holds no kernel"):
        emulate.Module("int x;", "none.cu")
    with pytest.raises(EmulatorError, match="one array or value a __shared__ declaration"):
        emulate.Module(WORDS + "__device__ void f() { __shared__ int a[2], b[2]; }", "two.cu")
    with pytest.raises(EmulatorError, match=r"has no kernel 'nothing': it has minidp_reverse"):
        module(WORDS).get_function("nothing")


def test_without_a_compiler_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("MINIDP_CACHE", str(tmp_path))
    with pytest.raises(
        EmulatorError, match=r"'no-such-compiler', which is not there: install g\+\+"
    ):
        emulate.Module(WORDS, "words.cu")


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIDP_CACHE", str(tmp_path / "mine"))
    assert emulate.cache_folder() == tmp_path / "mine" / "emulated"
    monkeypatch.delenv("MINIDP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert emulate.cache_folder() == tmp_path / "xdg" / "minidp" / "emulated"
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINIDP_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert emulate.cache_folder().parent == tmp_path  # a file is in the way: a temporary folder


def test_two_processes_may_build_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIDP_CACHE", str(tmp_path))
    program = (
        "from minidp.kernels.cuda import emulate; import sys; emulate.Module(sys.argv[1], 'w.cu')"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, WORDS]) for _ in range(2)]
    assert [each.wait(60) for each in both] == [0, 0]
    assert [path.suffix for path in (tmp_path / "emulated").iterdir()] == [".so"]


def test_threads_launch_at_once():
    x, results = np.arange(256, dtype=np.int32), {}

    def work(number):
        reverse = module(WORDS).get_function("minidp_reverse")
        same = True
        for _ in range(200):
            y = np.empty_like(x)
            reverse((1,), (256,), (x + number, y), shared_mem=1024)
            same = same and bool((y == (x + number)[::-1]).all())
        results[number] = same

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == dict.fromkeys(range(4), True)


def run_sum(text, seed, checks="none"):
    """Whether the sum kernel of `text` is right."""
    x, y = np.random.default_rng(0).standard_normal((3, 1000)), np.empty(3)
    args = (x, y, *map(np.int64, (3, 1000, 1000, 4096, 1)))
    sums = emulate.Module(text, "reduce.cu", seed=seed, checks=checks)
    sums.get_function("minidp_sum_chunks_f64")((3,), (256,), args)
    return np.allclose(y, x.sum(1))


def run_softmax(text, seed, checks="none"):
    """Whether the softmax kernel of `text` is right."""
    x = np.random.default_rng(0).standard_normal((4, 300))
    y, e = np.empty_like(x), np.exp(x)
    rows = emulate.Module(text, "softmax.cu", seed=seed, checks=checks)
    rows.get_function("minidp_softmax_f64")((4,), (256,), (x, y, np.int64(300)))
    return np.allclose(y, e / e.sum(1, keepdims=True))


def without_barrier(name):
    """The text of NAME.cu, once without each barrier of block.cuh that a launch needs."""
    barrier, text = "__syncthreads();", runtime.source(name)
    parts = text.split(barrier)
    count = (runtime.HERE / "block.cuh").read_text().count(barrier)  # which come first
    assert count == 3
    # the last barrier protects the next reduction, and a sum makes only one
    for mutant in range(1, count + 1 if name == "softmax" else count):
        yield barrier.join(parts[:mutant]) + ";" + barrier.join(parts[mutant:])


def quick(*names):
    """The kernels and what runs them; those that are not named here are for the slow set."""
    return [pytest.param(name, run, marks=() if name in names else pytest.mark.slow)
            for name, run in (("reduce", run_sum), ("softmax", run_softmax))]  # fmt: skip


@pytest.mark.parametrize(("name", "run"), quick("reduce"))
def test_a_missing_barrier_shows_in_the_results_of_two_orders(name, run):
    text = runtime.source(name)
    assert run(text, 0) and run(text, 1)
    for number, broken in enumerate(without_barrier(name)):
        assert not (run(broken, 0) and run(broken, 1)), f"barrier {number} of {name}.cu"


@pytest.mark.parametrize(("name", "run"), quick("softmax"))
def test_a_missing_barrier_is_a_race_that_names_both_places(name, run):
    for seed in (0, 1):
        assert run(runtime.source(name), seed, "own")
        for broken in without_barrier(name):
            with pytest.raises(EmulatorError, match=r"block\.cuh:\d+: .* since the last barrier"):
                run(broken, seed, "own")
