"""Streams, staging, memory and graphs of the CUDA backend, against a stand-in for CuPy.

No GPU takes part: what is checked is who waits for whom, and which memory is used when.
"""

import threading
import warnings

import cupy_stand_in
import numpy as np
import pytest
from cupy_stand_in import Array
from stream_stand_in import WORLD, Misuse, Stream
from training import adam, batches, flat, mlp, scheduler, sgd

import minidp as dp
from minidp import backend as backends
from minidp.backend import staging
from minidp.backend.cuda import CudaBackend
from minidp.backend.staging import LEAST, Staging
from minidp.errors import DeviceError

LARGE = LEAST // 8 + 100


@pytest.fixture
def gpus(monkeypatch):
    """The CUDA backend on a fresh stand-in of two GPUs; Tensors can be put on ``cuda:0``."""
    backend = CudaBackend(cupy_stand_in.stand_in())
    monkeypatch.setitem(backends._loaded, "cuda", backend)
    monkeypatch.setitem(backends._by_array, Array, backend)
    yield backend
    warnings.warn(cupy_stand_in.SAYS, stacklevel=1)


def rows(value, size=LARGE):
    return np.full(size, float(value))


def test_host_arrays_arrive_in_order_and_whole(gpus):
    arrived = [gpus.put(rows(i, LARGE + i), i % 2) for i in range(7)]
    for i, array in enumerate(arrived):
        assert gpus.index(array) == i % 2
        assert (gpus.get(array) == i).all() and array.size == LARGE + i
    small = gpus.put(np.arange(3), 1)
    with gpus.activate(1):
        assert gpus.get(small + small).tolist() == [0, 2, 4]
    with pytest.raises(Misuse, match="of an array of device 1"):
        small + small


def test_a_pinned_buffer_is_not_filled_before_it_was_read(gpus, monkeypatch):
    def hasty(self, array):
        self.copied = None
        return fill(self, array)

    fill = staging.PinnedBuffer.fill
    monkeypatch.setattr(staging.PinnedBuffer, "fill", hasty)
    arrived = [gpus.put(rows(i), 0) for i in range(3)]
    assert (gpus.get(arrived[0]) == 2).all()  # so the stand-in would show it


def test_memory_of_a_staged_array_is_used_again_only_behind_its_last_use(gpus, monkeypatch):
    def steps():
        total = gpus.put(np.zeros(LARGE), 0)
        for i in range(6):
            batch = gpus.put(rows(i), 0)
            half = batch[: LARGE // 2]
            del batch
            total[: LARGE // 2] += half
            del half
        return gpus.get(total)[0]

    assert steps() == 15
    monkeypatch.setattr(Staging, "retire", lambda self, memory, computing: None)
    with pytest.raises(Misuse, match="no event was waited for"):
        steps()


def test_the_computing_stream_waits_for_the_copy(gpus, monkeypatch):
    monkeypatch.setattr(Stream, "wait_event", lambda self, event: None)
    array = gpus.put(rows(1), 0)
    with pytest.raises(Misuse, match=r"add on .* touches memory that stream"):
        array + array


def test_arrays_move_between_gpus(gpus, monkeypatch):
    there = dp.tensor(np.arange(6.0).reshape(2, 3), device="cuda:1")
    moved = (there * 2).T.to("cuda:0")
    assert str(moved.device) == "cuda:0" and moved.tolist() == [[0, 6], [2, 8], [4, 10]]
    with monkeypatch.context() as patch, pytest.raises(Misuse, match="a peer copy"):
        patch.setattr(Stream, "wait_event", lambda self, event: None)
        (there * 3).to("cuda:0")
    with pytest.raises(DeviceError, match="its arrays are on cuda:0 and cuda:1"):
        gpus.kernel("relu_input")(moved.array, there.array)


def test_threads_have_ways_of_their_own(gpus):
    results = {}

    def work(number):
        with gpus.activate(number % 2):
            arrays = [gpus.put(rows(i + number), number % 2) for i in range(5)]
            results[number] = [float(gpus.get(array * 2)[0]) for array in arrays]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
        each.join()
    assert results == {n: [2.0 * (i + n) for i in range(5)] for n in range(4)}


def test_memory_is_counted(gpus):
    assert dp.cuda.memory_allocated() == dp.cuda.max_memory_allocated() == 0
    with gpus.activate(0):
        arrays = [gpus.xp.zeros(1000) for _ in range(3)]
    assert dp.cuda.memory_allocated("cuda:0") == 24000 == dp.cuda.memory_reserved(0)
    del arrays[1:]
    assert dp.cuda.memory_allocated() == 8000 and dp.cuda.max_memory_allocated() == 24000
    assert dp.cuda.max_memory_reserved() == 24000
    dp.cuda.empty_cache()
    dp.cuda.reset_peak_memory_stats()
    assert dp.cuda.max_memory_allocated() == dp.cuda.memory_reserved() == 8000
    assert dp.cuda.mem_get_info() == (2**29, 2**30)
    dp.cuda.set_per_process_memory_fraction(16000 / 2**30)
    with pytest.raises(MemoryError):
        gpus.xp.zeros(2000)
    with pytest.raises(ValueError, match="from 0 to 1"):
        dp.cuda.set_per_process_memory_fraction(2.0)


def test_what_is_told_of_gpus(gpus):
    assert dp.cuda.is_available() and dp.cuda.device_count() == 2
    assert dp.cuda.current_device() == 0
    assert dp.cuda.get_device_name("cuda:1") == "a stand-in for a GPU"
    assert dp.cuda.get_device_capability() == (9, 0)
    with dp.cuda.nvtx.range("forward"):
        dp.cuda.nvtx.range_push("inner")
        dp.cuda.nvtx.range_pop()
    assert WORLD.ranges == ["forward", "inner", None, None]
    start, end = dp.cuda.Event(enable_timing=True), dp.cuda.Event(enable_timing=True)
    start.record()
    gpus.put(rows(1), 0)
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    dp.cuda.synchronize("cuda:1")
    with pytest.raises(DeviceError, match="cpu:0 is no GPU"):
        dp.cuda.synchronize("cpu:0")


def test_tf32_is_a_choice(gpus):
    matmul, settings = dp.backends.cuda.matmul, gpus.xp._core.settings
    assert matmul.allow_tf32 is False and settings == {}
    matmul.allow_tf32 = True
    assert matmul.allow_tf32 is True and settings == {np.dtype(np.float32): 4}
    matmul.allow_tf32 = False
    assert settings == {np.dtype(np.float32): 0}


@pytest.mark.parametrize("optimizer", [sgd, adam])
def test_replicas_train_on_gpus_as_on_the_cpu(gpus, optimizer):
    ours = {}
    for devices in ("cpu:0-1", "cuda:0-1"):
        model = mlp("float32")
        train = scheduler(model, optimizer=optimizer, devices=devices)
        losses = [float(train(x, y)) for x, y in batches(10, 4, "float32")]
        ours[devices] = np.concatenate([losses, flat(model)])
    stats = train.stats()
    assert [*stats["device_memory"]] == ["cuda:0", "cuda:1"]
    least = sum(p.numel() * p.element_size() for p in model.parameters())
    for index, most in enumerate(stats["device_memory"].values()):
        assert most == dp.cuda.max_memory_allocated(index) > 2 * least  # values, gradients
    assert "MiB on cuda:" in train._stats.metrics().line()
    np.testing.assert_allclose(ours["cuda:0-1"], ours["cpu:0-1"], 1e-4, 1e-5)


def test_without_a_gpu_what_counts_is_zero_and_the_rest_says_why():
    if dp.cuda.is_available():
        pytest.skip("there is a GPU")
    assert dp.cuda.memory_allocated() == dp.cuda.max_memory_allocated() == 0
    assert dp.cuda.memory_reserved() == dp.cuda.max_memory_reserved() == 0
    dp.cuda.reset_peak_memory_stats()
    for call in (dp.cuda.current_device, dp.cuda.Event, dp.cuda.CUDAGraph, dp.cuda.mem_get_info,
                 dp.cuda.get_device_name, lambda: dp.cuda.nvtx.range_push("x")):  # fmt: skip
        with pytest.raises(DeviceError, match="cuda: ") as caught:
            call()
        assert "\n" not in str(caught.value)
    before = dp.backends.cuda.matmul.allow_tf32
    dp.backends.cuda.matmul.allow_tf32 = True
    assert dp.backends.cuda.matmul.allow_tf32
    dp.backends.cuda.matmul.allow_tf32 = before
