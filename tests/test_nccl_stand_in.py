"""The NCCL communicator against a stand-in: no GPU and no NCCL take part in these tests."""

import importlib
import threading
import time

import numpy as np
import pytest
from nccl_stand_in import SAYS, Gpus, Member, NcclError, Stream
from training import replica_threads

import minidp as dp
from minidp.errors import ReplicaError
from minidp.parallel.host import SMALL
from minidp.parallel.nccl import Links, NcclCommunicator

launching = importlib.import_module("minidp.parallel.launch")
LARGE = SMALL + 100


@pytest.fixture
def launch(monkeypatch):
    """Launch a program whose communicators are NCCL's, on a fresh stand-in."""
    print(SAYS + "streams, events and collectives are played in memory")
    made = []

    def run(program, size, seed=0, **options):
        gpus = Gpus(size, seed)
        made.append(gpus)
        made_of_nccl = lambda rank, exchange, *_: NcclCommunicator(rank, exchange, gpus)  # noqa: E731
        monkeypatch.setattr(launching, "communicator", made_of_nccl)
        return dp.launch(lambda world: program(world, gpus), size, **options)

    run.made = made
    yield run
    for gpus in made:
        gpus.ending.set()
        gpus.thread.join()
    assert replica_threads() == []


def computed(gpus, shape, value, dtype="float32"):
    """An array that its computing stream fills later."""
    array = gpus.keep(np.full(shape, np.nan, dtype))
    gpus.current().queue.append(("compute", lambda: array.fill(value)))
    return array


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [2, 3])
def test_results_order_and_buffers(launch, size, seed):
    def program(world, gpus):
        comm, rank = world.comm, world.rank
        buckets = [computed(gpus, LARGE + i, rank + i) for i in range(3)]
        works = [comm.sum_bucket(b, f"bucket {i}", [i]) for i, b in enumerate(buckets)]
        del buckets  # the works keep them
        fresh = computed(gpus, LARGE, 1.0)
        scattered = comm.reduce_scatter(computed(gpus, (size * 4, 3), rank), "s")
        gathered = comm.all_gather(computed(gpus, 5, rank, "float64"), "g")
        handed = comm.broadcast(computed(gpus, 5, rank), "b", root=1)
        total = size * (size - 1) / 2
        for i, work in enumerate(works):
            assert (work.wait() == total + size * i).all() and work.numbers.tolist() == [size * i]
        assert (comm.all_reduce(fresh, "kept").wait() == size).all() and (fresh == 1).all()
        assert (scattered.wait() == total).all()
        assert (gathered.wait() == np.repeat(np.arange(size), 5)).all()
        assert (handed.wait() == 1).all()
        if rank < 2:
            other = comm.send(computed(gpus, 7, 3), "p", 1) if rank == 0 else comm.recv(
                gpus.keep(np.zeros(7, "f4")), "p", 0)  # fmt: skip
            assert (other.wait() == 3).all()
        comm.barrier("end")
        return comm.all_reduce(np.ones(3), "few numbers").wait().tolist()

    assert launch(program, size, seed) == [[size] * 3] * size
    assert {m.state for m in launch.made[0].members.values()} == {"destroyed"}
    assert launch.made[0].log[:3] == ["allReduce"] * 3


@pytest.mark.parametrize("seed", range(3))
def test_ranks_may_begin_their_lines_in_different_orders(launch, seed):
    def program(world, gpus):
        comm, rank = world.comm, world.rank
        begin = [lambda: comm.sum_bucket(computed(gpus, LARGE, rank), "bucket", []),
                 lambda: comm.all_reduce(computed(gpus, LARGE + 1, 2 * rank), "a")]  # fmt: skip
        first, second = (begin[rank](), begin[1 - rank]())
        works = [first, second] if rank == 0 else [second, first]
        return [float(work.wait()[0]) for work in works]

    assert launch(program, 2, seed) == [[1, 2]] * 2


def test_ranks_of_several_processes_join_in_a_group():
    gpus = Gpus(4)
    try:
        links = Links(gpus, [0, 1], (4, gpus.get_unique_id(), 2))
        assert [member.rank for member in links.members] == [2, 3] == sorted(gpus.members)
        assert len(links.streams) == 2 and all(stream.non_blocking for stream in links.streams)
    finally:
        gpus.ending.set()


MISMATCHES = {
    "size": lambda w, g: w.comm.all_reduce(computed(g, LARGE + w.rank, 1), "a"),
    "name": lambda w, g: w.comm.all_reduce(computed(g, LARGE, 1), "ab"[w.rank]),
    "dtype": lambda w, g: w.comm.all_reduce(computed(g, LARGE, 1, f"f{4 + 4 * w.rank}"), "a"),
    "operation": lambda w, g: w.comm.all_reduce(computed(g, LARGE, 1), "a") if w.rank
    else w.comm.broadcast(computed(g, LARGE, 1), "a"),
}  # fmt: skip


@pytest.mark.parametrize("call", MISMATCHES.values(), ids=MISMATCHES)
def test_calls_that_do_not_match_raise_before_buffers_mix(launch, call):
    with pytest.raises(ReplicaError, match=r"(?s)replica \d called .* replica \d called"):
        launch(lambda world, gpus: call(world, gpus).wait(), 2)
    assert launch.made[0].log == []
    assert {m.state for m in launch.made[0].members.values()} == {"aborted"}


def test_failures_end_waits(launch):
    def program(world, gpus):
        work = world.comm.all_reduce(computed(gpus, LARGE, 1), "a")
        if world.rank == 1:
            raise KeyError("mine")
        work.wait()

    began = time.monotonic()
    with pytest.raises(KeyError):
        launch(program, 2)

    def broken(world, gpus):
        gpus.silent = {0, 1}
        work = world.comm.all_reduce(computed(gpus, LARGE, 1), "a")
        gpus.problem = NcclError("unhandled system error")
        work.wait()

    with pytest.raises(ReplicaError, match=r"NCCL reports stand-in.* in all_reduce\('a'"):
        launch(broken, 2)

    def stuck(world, gpus):
        gpus.silent = {0, 1}
        world.comm.all_reduce(computed(gpus, LARGE, 1), "a").wait()

    with pytest.raises(ReplicaError, match=r"0\.3 s for NCCL to carry out all_reduce\('a'"):
        launch(stuck, 2, deadline=0.3)

    def missing(world, gpus):
        if world.rank == 0:
            world.comm.all_reduce(computed(gpus, LARGE, 1), "a").wait()

    with pytest.raises(ReplicaError, match="replica 1 has ended"):
        launch(missing, 2)
    assert time.monotonic() - began < 5


def test_what_all_have_queued_all_get_after_a_failure_elsewhere(launch):
    ended = []

    def program(world, gpus):
        gpus.silent = {0, 1, 2}
        world.comm.barrier("all are silent")
        work = world.comm.all_reduce(computed(gpus, LARGE, 1), "a")
        if world.rank == 0:
            threading.Timer(0.4, gpus.silent.clear).start()
        assert (work.wait() == 3).all()
        ended.append(world.rank)

    def watch():
        raise KeyError("mine")

    with pytest.raises(KeyError):
        launch(program, 3, watch=watch)
    assert sorted(ended) == [0, 1, 2]


def test_what_nccl_cannot_add(launch):
    with pytest.raises(ReplicaError, match="not bool"):
        launch(lambda w, g: w.comm.all_reduce(g.keep(np.zeros(LARGE, bool)), "a"), 2)
    with pytest.raises(ReplicaError, match="contiguous"):
        columns = np.zeros((LARGE, 2))
        launch(lambda w, g: w.comm.sum_bucket(g.keep(columns)[:, 0], "a", []), 2)


def test_the_stand_in_notices_misuse():
    gpus = Gpus(1)
    try:
        member, stream = Member(gpus, 1, bytes(128), 0), Stream(gpus, True)
        with pytest.raises(NcclError, match=r"stand-in .*does not wait for the computing stream"):
            member.bcast(1, 1, 7, 0, stream.ptr)
        stream.wait_event(gpus.current().record())
        with pytest.raises(NcclError, match=r"stand-in .*outside of a group"):
            member.bcast(1, 1, 7, 0, stream.ptr)
        gpus.size = 2
        gpus.groupStart()
        member.bcast(1, 1, 7, 0, stream.ptr)
        with pytest.raises(NcclError, match=r"a group of \['bcast'\] for 2 ranks"):
            gpus.groupEnd()
        with pytest.raises(NcclError, match="two ranks on one GPU"):
            gpus.NcclCommunicator.initAll([1, 1])
        lost = gpus.keep(np.zeros(3)).ctypes.data
        with pytest.raises(NcclError, match="freed before"):
            gpus.buffer(lost)
        with pytest.raises(TypeError, match="commId"):
            Member(gpus, 1, tuple(range(128)), 1)
    finally:
        gpus.ending.set()


def test_cupy_offers_what_is_called():
    cupy = pytest.importorskip("cupy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *message: None)
        real = importlib.import_module("cupy.cuda.nccl")
    assert cupy.cuda.nccl is real  # only once it has been imported by its name
    if not real.available:
        pytest.skip("CuPy finds no NCCL here")
    assert callable(real.NcclCommunicator.initAll) and callable(real.groupStart) and real.groupEnd
    for name in ("allReduce", "reduceScatter", "allGather", "bcast", "send", "recv"):
        code = getattr(Member, name).__code__
        names = list(code.co_varnames[1 : code.co_argcount])
        text = getattr(real.NcclCommunicator, name).__doc__.split("(self, ")[1].split(")")[0]
        assert [part.split()[-1] for part in text.split(",")] == names
    assert issubclass(real.NcclError, RuntimeError) and real.NCCL_SUM == 0
