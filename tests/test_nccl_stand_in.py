"""The NCCL communicator against a stand-in: no GPU and no NCCL take part in these tests.

The stand-in plays streams, events and collectives in memory, late and in any legal order, and
raises where CUDA or NCCL would hang, mix buffers or read freed memory.
"""

import importlib
import random
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from training import replica_threads

import minidp as dp
from minidp.errors import ReplicaError
from minidp.parallel.host import SMALL
from minidp.parallel.nccl import NcclCommunicator

launching = importlib.import_module("minidp.parallel.launch")
LARGE = SMALL + 100
SAYS = "stand-in for NCCL (no GPU took part): "


class NcclError(RuntimeError):
    def __init__(self, message):
        super().__init__(SAYS + message)


class Array(np.ndarray):
    """The stand-in's cupy.ndarray: ``data.ptr`` is an address."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def copy(self):
        made = self.gpus.keep(np.full(self.shape, 99, self.dtype))
        self.gpus.current().queue.append(("compute", lambda: np.copyto(made, self)))
        return made


class Event:
    def __init__(self):
        self.done = False


class Stream:
    """Work that is done later, in order."""

    def __init__(self, gpus, non_blocking=False):
        self.gpus, self.queue, self.non_blocking = gpus, [], non_blocking
        self.ptr = 1000 + len(gpus.streams)
        gpus.streams.append(self)

    def record(self):
        event = Event()
        self.queue.append(("record", event))
        return event

    def wait_event(self, event):
        self.queue.append(("wait", event))


class Gpus:
    """Streams, memory and collectives of all ranks; ``play`` does one piece of work at a time."""

    def __init__(self, size, seed=0):
        self.size, self.streams, self.members, self.memory = size, [], {}, {}
        self.problem, self.local, self.random = None, threading.local(), random.Random(seed)
        self.gate, self.log, self.silent = threading.Barrier(size), [], set()
        self.cuda = SimpleNamespace(
            Stream=lambda non_blocking: Stream(self, non_blocking), nccl=self,
            get_current_stream=self.current)  # fmt: skip
        self.ndarray, self.NcclError = Array, NcclError
        self.NCCL_SUM, self.NCCL_FLOAT32, self.NCCL_FLOAT64 = 0, 7, 8
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def current(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = Stream(self)
        return self.local.stream

    def get_unique_id(self):
        """CuPy 14.2 gives bytes (earlier releases a tuple): it must be handed on as it is."""
        return bytes(range(128))

    def NcclCommunicator(self, size, identity, rank):
        return Member(self, size, identity, rank)

    def empty(self, shape, dtype):
        return self.keep(np.empty(shape, dtype))

    def keep(self, values):
        array = np.array(values).view(Array)
        array.gpus = self
        self.memory[array.ctypes.data] = weakref.ref(array)
        return array

    def buffer(self, pointer):
        array = self.memory[pointer]()
        if array is None:
            raise NcclError("a buffer was freed before its event had passed")
        return array.view(np.ndarray)

    def run(self):
        while not self.ending.is_set():
            time.sleep(2e-4)
            streams = list(self.streams)
            self.random.shuffle(streams)
            try:
                for stream in streams:
                    self.play(stream)
                self.meet()
            except Exception as problem:
                self.problem = NcclError(repr(problem))

    def play(self, stream):
        if not stream.queue or self.random.random() < 0.3:
            return
        kind, what = stream.queue[0]
        if kind == "record":
            what.done = True
        elif kind == "compute":
            what()
        elif kind == "collective" or not what.done:
            return
        stream.queue.pop(0)

    def meet(self):
        """Carry out a collective when every rank's stream has come to it."""
        heads = {r: m.stream.queue[0][1] for r, m in self.members.items()
                 if m.stream and m.stream.queue and m.stream.queue[0][0] == "collective"}  # fmt: skip
        ranks = sorted(r for r in heads if r not in self.silent)
        pairs = [(a, b) for a in ranks for b in ranks
                 if heads[a][0] == "send" and heads[b][0] == "recv" and heads[a][3] == b]  # fmt: skip
        if pairs:
            ranks = list(pairs[0])
        elif len(ranks) < self.size or any(heads[r][0] in ("send", "recv") for r in ranks):
            return
        elif len({(h[0], *h[2:]) for h in heads.values()}) > 1:
            raise NcclError(f"collectives do not match: {sorted(h[0] for h in heads.values())}")
        self.carry_out(heads, ranks)
        for rank in ranks:
            self.members[rank].stream.queue.pop(0)

    def carry_out(self, heads, ranks):
        name, _, count, extra, _ = heads[ranks[0]]
        given = {r: [self.buffer(p).reshape(-1) for p in heads[r][1]] for r in ranks}
        self.log.append(name)
        for position, rank in enumerate(ranks):
            target = given[rank][-1]
            if name == "allReduce":
                given[rank].append(sum(given[r][0].copy() for r in reversed(ranks)))
            elif name == "reduceScatter":
                total = sum(given[r][0] for r in ranks)
                target[:] = total[position * count : (position + 1) * count]
            elif name == "allGather":
                target[:] = np.concatenate([given[r][0] for r in ranks])
            elif name == "bcast":
                target[:] = given[extra][0]
            elif rank == ranks[1]:
                target[:] = given[ranks[0]][0]
        for rank in ranks if name == "allReduce" else ():
            given[rank][0][:] = given[rank].pop()


class Member:
    """The stand-in's NcclCommunicator, with CuPy 14.2's names and order of arguments."""

    def __init__(self, gpus, size, identity, rank):
        if type(identity) is not bytes or len(identity) != 128:
            raise TypeError(f"{SAYS}commId has incorrect type (expected bytes)")
        assert size == gpus.size and rank not in gpus.members
        self.gpus, self.rank, self.state, self.stream = gpus, rank, "open", None
        self.thread = threading.get_ident()
        gpus.members[rank] = self
        gpus.gate.wait(5)  # as NCCL, which waits for all ranks

    def queue(self, name, buffers, count, extra, kind, pointer):
        assert self.state == "open" and self.thread == threading.get_ident()
        (stream,) = [s for s in self.gpus.streams if s.ptr == pointer]
        if not stream.non_blocking or self.stream not in (None, stream):
            raise NcclError("collectives belong on one stream that does not block")
        if not stream.queue or stream.queue[-1][0] != "wait":
            raise NcclError("a collective that does not wait for the computing stream")
        assert type(count) is int and all(type(p) is int for p in buffers)
        self.stream = stream
        stream.queue.append(("collective", (name, buffers, count, extra, kind)))

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        assert sendbuf == recvbuf and op == self.gpus.NCCL_SUM
        self.queue("allReduce", (sendbuf,), count, None, datatype, stream)

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        assert op == self.gpus.NCCL_SUM
        self.queue("reduceScatter", (sendbuf, recvbuf), recvcount, None, datatype, stream)

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        self.queue("allGather", (sendbuf, recvbuf), count, None, datatype, stream)

    def bcast(self, buff, count, datatype, root, stream):
        self.queue("bcast", (buff,), count, root, datatype, stream)

    def send(self, sendbuf, count, datatype, peer, stream):
        self.queue("send", (sendbuf,), count, peer, datatype, stream)

    def recv(self, recvbuf, count, datatype, peer, stream):
        self.queue("recv", (recvbuf,), count, peer, datatype, stream)

    def check_async_error(self):
        """Returns None; CuPy raises NcclError."""
        assert self.state == "open"
        if self.gpus.problem:
            raise self.gpus.problem

    def abort(self):
        assert self.state == "open" and self.thread == threading.get_ident()
        self.state = "aborted"
        if self.stream:
            self.stream.queue.clear()

    def destroy(self):
        self.abort()
        self.state = "destroyed"


@pytest.fixture
def launch(monkeypatch):
    """Launch a program whose communicators are NCCL's, on a fresh stand-in."""
    print(SAYS + "streams, events and collectives are played in memory")
    made = []

    def run(program, size, seed=0, **options):
        gpus = Gpus(size, seed)
        made.append(gpus)
        monkeypatch.setattr(launching, "communicator",
                            lambda rank, exchange, *_: NcclCommunicator(rank, exchange, gpus))  # fmt: skip
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
        works = [comm.all_reduce(b, f"bucket {i}", in_place=True) for i, b in enumerate(buckets)]
        del buckets  # the works keep them
        fresh = computed(gpus, LARGE, 1.0)
        scattered = comm.reduce_scatter(computed(gpus, (size * 4, 3), rank), "s")
        gathered = comm.all_gather(computed(gpus, 5, rank, "float64"), "g")
        handed = comm.broadcast(computed(gpus, 5, rank), "b", root=1)
        total = size * (size - 1) / 2
        for i, work in enumerate(works):
            assert (work.wait() == total + size * i).all()
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


def test_what_nccl_cannot_add(launch):
    with pytest.raises(ReplicaError, match="not bool"):
        launch(lambda w, g: w.comm.all_reduce(g.keep(np.zeros(LARGE, bool)), "a"), 2)
    with pytest.raises(ReplicaError, match="contiguous"):
        launch(lambda w, g: w.comm.all_reduce(g.keep(np.zeros((LARGE, 2)))[:, 0], "a", None, True), 2)


def test_the_stand_in_notices_misuse():
    gpus = Gpus(1)
    try:
        member, stream = Member(gpus, 1, bytes(128), 0), Stream(gpus, True)
        with pytest.raises(NcclError, match=r"stand-in .*does not wait for the computing stream"):
            member.bcast(1, 1, 7, 0, stream.ptr)
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
    for name in ("allReduce", "reduceScatter", "allGather", "bcast", "send", "recv"):
        code = getattr(Member, name).__code__
        names = list(code.co_varnames[1 : code.co_argcount])
        text = getattr(real.NcclCommunicator, name).__doc__.split("(self, ")[1].split(")")[0]
        assert [part.split()[-1] for part in text.split(",")] == names
    assert issubclass(real.NcclError, RuntimeError) and real.NCCL_SUM == 0
