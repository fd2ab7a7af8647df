"""The communicator by copies between GPUs, against a stand-in for CuPy that checks the order."""

import importlib
import warnings

import cupy_stand_in
import numpy as np
import pytest
from cupy_stand_in import Array
from stream_stand_in import Misuse, Stream
from training import batches, flat, gradient, mlp, replica_threads, scheduler

import minidp as dp
from minidp import backend as backends
from minidp.backend.cuda import CudaBackend
from minidp.errors import ReplicaError
from minidp.parallel.host import SMALL
from minidp.parallel.peer import PeerCommunicator

launching = importlib.import_module("minidp.parallel.launch")
LARGE = SMALL + 100


@pytest.fixture
def gpus(monkeypatch):
    """Three GPUs without NCCL, played by a stand-in."""
    backend = CudaBackend(cupy_stand_in.stand_in(3))
    monkeypatch.setitem(backends._loaded, "cuda", backend)
    monkeypatch.setitem(backends._by_array, Array, backend)
    monkeypatch.setattr(launching, "nccl_available", lambda: False)
    yield backend
    warnings.warn(cupy_stand_in.SAYS, stacklevel=1)
    assert replica_threads() == []


def program(world, random):
    """Several sums under way at once, as in a step; a GPU changes what it gave afterwards."""
    assert type(world.comm) is PeerCommunicator or world.device.type == "cpu"
    there = [dp.tensor(r, device=world.device).array for r in random[world.rank]]
    works = [world.comm.sum_bucket(x, f"bucket {i}", [1.0]) for i, x in enumerate(there[:3])]
    kept = world.comm.all_reduce(there[3], "all")
    sums = [work.wait() for work in works]
    assert all(work.numbers.tolist() == [world.size] for work in works)
    sums.append(kept.wait())
    for x in there if world.device.type == "cuda" else ():
        x += 1
    backend = backends.backend_of(there[0])
    return [np.array(backend.get(x)) for x in sums]


@pytest.mark.parametrize("size", [2, 3])
def test_sums_have_the_host_communicators_bytes(gpus, size):
    random = np.random.default_rng(0).standard_normal((size, 4, LARGE)).astype("f4")
    here = dp.launch(program, size, args=(random,))
    there = dp.launch(program, f"cuda:0-{size - 1}", args=(random,), store="device")
    for rank in range(size):
        for ours, theirs in zip(there[rank], here[rank], strict=True):
            assert ours.tobytes() == theirs.tobytes()


def test_a_copy_that_does_not_wait_is_noticed(gpus, monkeypatch):
    monkeypatch.setattr(Stream, "wait_event", lambda self, event: None)
    random = np.zeros((2, 4, LARGE), "f4")
    with pytest.raises(Misuse):
        dp.launch(program, "cuda:0-1", args=(random,), store="device")


def test_calls_that_do_not_match_raise(gpus):
    def differ(world):
        array = dp.zeros(LARGE + world.rank, device=world.device).array
        world.comm.all_reduce(array, "a").wait()

    with pytest.raises(ReplicaError, match=r"(?s)replica \d called .* replica \d called"):
        dp.launch(differ, "cuda:0-1", store="device")


@pytest.mark.parametrize("replicas", [2, 3])
def test_training_has_the_bytes_of_the_local_store(gpus, replicas):
    ours = {}
    for store in ("local", "device"):
        model = mlp("float32", 99)
        train = scheduler(model, devices=f"cuda:0-{replicas - 1}", store=store)
        losses = [float(train(x, y)) for x, y in batches(12, 3, "float32")]
        ours[store] = losses, flat(model).tobytes(), gradient(model).tobytes()
    assert ours["device"] == ours["local"]
