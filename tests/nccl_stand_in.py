"""A stand-in for the parts of CuPy that the NCCL communicator calls. No GPU takes part.

It plays streams, events and collectives in memory, late and in any legal order, and raises where
CUDA or NCCL would hang, mix buffers or read freed memory.
"""

import random
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np

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


class Device:
    """Each thread has a device of its own at first."""

    def __init__(self, gpus, index):
        self.gpus = gpus
        if not hasattr(gpus.local, "device"):
            gpus.local.device = next(gpus.devices)
        self.id = gpus.local.device if index is None else index

    def __enter__(self):
        self.before, self.gpus.local.device = self.gpus.local.device, self.id

    def __exit__(self, *failure):
        self.gpus.local.device = self.before


class Gpus:
    """Streams, memory and collectives of all ranks; ``play`` does one piece of work at a time."""

    def __init__(self, size, seed=0):
        self.size, self.streams, self.members, self.memory = size, [], {}, {}
        self.problem, self.local, self.random = None, threading.local(), random.Random(seed)
        self.log, self.silent, self.devices = [], set(), iter(range(100))
        self.cuda = SimpleNamespace(
            Stream=lambda non_blocking: Stream(self, non_blocking), nccl=self,
            get_current_stream=self.current, Device=lambda index=None: Device(self, index))
        self.NcclCommunicator = lambda *given: Member(self, *given)
        self.NcclCommunicator.initAll = self.init_all  # fmt: skip
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

    def init_all(self, devices):
        if len(set(devices)) < self.size:
            raise NcclError("two ranks on one GPU")
        return [Member(self, self.size, bytes(128), rank) for rank in range(self.size)]

    def groupStart(self):
        self.local.group = [*getattr(self.local, "group", []), []]

    def groupEnd(self):
        *self.local.group, calls = self.local.group
        names = [name for _, (name, *_) in calls]
        whole = len(calls) == self.size or sorted(names) == ["recv", "send"] or not calls
        if not whole:
            raise NcclError(f"a group of {names} for {self.size} ranks: it would wait for ever")
        for stream, call in calls:
            stream.queue.append(("collective", call))

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
        queues = {r: m.stream.queue for r, m in self.members.items() if m.stream and m.stream.queue}
        heads = {r: queue[0][1] for r, queue in queues.items() if queue[0][0] == "collective"}
        ranks = sorted(r for r in heads if r not in self.silent)
        senders = [r for r in ranks if heads[r][0] == "send"]
        pairs = [(r, heads[r][3]) for r in senders if heads.get(heads[r][3], "?")[0] == "recv"]
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
        gpus.members[rank] = self

    def queue(self, name, buffers, count, extra, kind, pointer):
        assert self.state == "open"
        (stream,) = [s for s in self.gpus.streams if s.ptr == pointer]
        if not stream.non_blocking or self.stream not in (None, stream):
            raise NcclError("collectives belong on one stream that does not block")
        if not stream.queue or stream.queue[-1][0] != "wait":
            raise NcclError("a collective that does not wait for the computing stream")
        if not getattr(self.gpus.local, "group", []):
            raise NcclError("a call for one of several ranks of a thread, outside of a group")
        assert type(count) is int and all(type(p) is int for p in buffers)
        self.stream = stream
        self.gpus.local.group[-1].append((stream, (name, buffers, count, extra, kind)))

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
        assert self.state == "open"
        self.state = "aborted"
        if self.stream:
            self.stream.queue.clear()

    def destroy(self):
        self.abort()
        self.state = "destroyed"
