"""Streams, events, memory and graphs of a GPU that is not there, for tests of who waits for whom.

Streams are clocks. Work on one stream may touch memory that another has written, or write what
another has used, only if it has waited for an event recorded behind that work; else Misuse is
raised, where a GPU would now and then compute nonsense. Memory that is let go is given at once to
the next array of the stream that had it, as CuPy's pool does, and what was done to it still counts.
Copies from pinned memory are made as late as is allowed. A captured graph runs when it is launched.
(The clocks are Lamport's 1978, as vectors: Fidge 1988, Mattern 1989.)
"""

import threading
import weakref
from contextlib import contextmanager

import numpy as np

from minidp.backend import emulated


class Misuse(AssertionError):
    """What CUDA would leave undefined, or CuPy would refuse."""


class Block:
    """A piece of memory, and who used it when: {stream: its clock}."""

    def __init__(self, size):
        self.size, self.pending = size, []
        self.written, self.used = {}, {}

    def arrive(self):
        """Make the copies into this memory that were put off."""
        for copy in self.pending:
            copy()
        self.pending = []

    def touch(self, stream, write, what):
        if getattr(WORLD.thread, "capturing", None) not in (None, stream):
            raise Misuse(f"{what} on another stream than the one that is captured")
        for other, tick in (self.used if write else self.written).items():
            if max(stream.clock.get(other, 0), WORLD.seen().get(other, 0)) < tick:
                raise Misuse(f"{what} on {stream} touches memory that {other} used: no event "
                             "was waited for")  # fmt: skip
        if stream.device != emulated.current():
            raise Misuse(f"{what} on {stream}, of a device that is not the current one")
        self.arrive()
        tick = stream.advance()
        self.used[stream] = tick
        if write:
            self.written = {stream: tick}


def root_of(array):
    """The NumPy array that has the memory."""
    root = getattr(array, "host", array)
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root


def let_go(pools_own, *what):
    """Tell a pool, if it is still there."""
    if (tell := pools_own()) is not None:
        tell(*what)


class Pool:
    """Memory: live blocks, and those let go, by the stream that had them."""

    def __init__(self, world):
        self.world, self.blocks, self.free, self.limit = world, {}, {}, None
        self.reserved = 0

    def malloc(self, size):
        raise NotImplementedError("the stand-in only passes this function on")

    def block_of(self, array):
        """The block that an array's memory is; new memory is taken on the current stream."""
        return self.world.find(array) or self.take(root_of(array))

    def take(self, root):
        stream, size = self.world.current_stream(), root.nbytes
        if stream.recorded is not None and self is self.world.pool:
            raise Misuse("memory of a graph from the pool that all share")
        if self.limit is not None and self.used_bytes() + size > self.limit:
            raise MemoryError(f"out of memory allocating {size} bytes")
        kept = self.free.setdefault(stream, [])
        block = kept.pop() if kept else Block(size)
        block.size = size
        self.reserved = max(self.reserved, self.used_bytes() + size)
        self.blocks[id(root)] = block
        device, key = emulated.current(), id(root)
        mine = weakref.WeakMethod(self.let_go)  # a pool may go before its memory
        weakref.finalize(root, let_go, mine, key, stream, device).atexit = False
        self.world.tell("malloc_postprocess", device_id=device, size=size, mem_size=size,
                        mem_ptr=root.ctypes.data, pmem_id=key)  # fmt: skip
        return block

    def let_go(self, key, stream, device):
        block = self.blocks.pop(key)
        self.free.setdefault(stream, []).append(block)
        self.world.tell("free_postprocess", device_id=device, mem_size=block.size, mem_ptr=1,
                        pmem_id=key)  # fmt: skip

    def used_bytes(self):
        return sum(block.size for block in list(self.blocks.values()))  # replicas take meanwhile

    def total_bytes(self):
        return self.reserved

    def free_all_blocks(self):
        self.free, self.reserved = {}, self.used_bytes()

    def set_limit(self, size=None, fraction=None):
        self.limit = size if size is not None else int(fraction * 2**30)


class Event:
    """A moment of a stream."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.clock, self.stream, self.timed = {}, None, not disable_timing
        self.captured = None
        self.device = emulated.current()

    def record(self, stream=None):
        (stream or WORLD.current_stream()).record(self)

    def synchronize(self):
        self.stream.carry_out(self.clock[self.stream])
        WORLD.see(self.clock)

    @property
    def done(self):
        self.synchronize()
        return True


class Stream:
    """Work in order: a clock that has seen, of each stream, so much."""

    def __init__(self, non_blocking=False, null=False):
        if not (non_blocking or null):
            raise Misuse("a stream that blocks the null stream")
        self.device, self.tick, self.clock, self.queue = emulated.current(), 0, {}, []
        kind = "the null stream" if null else f"stream {id(self):#x}"
        self.recorded, self.name = None, f"{kind} of device {self.device}"
        self.before = []

    def __repr__(self):
        return self.name

    def advance(self):
        self.tick += 1
        self.clock[self] = self.tick
        return self.tick

    def record(self, event=None):
        event = event or Event()
        if event.device != self.device:
            raise Misuse("an event of another device than the stream's")
        self.advance()
        event.clock, event.stream, event.captured = dict(self.clock), self, self.recorded
        return event

    def wait_event(self, event):
        if self.recorded is not None and event.captured is not self.recorded:
            raise Misuse("a captured stream waits for an event from outside of the capture")
        for other, tick in event.clock.items():
            self.clock[other] = max(self.clock.get(other, 0), tick)

    def carry_out(self, tick):
        """Make the copies that were put off, up to a moment."""
        while self.queue and self.queue[0][0] <= tick:
            self.queue.pop(0)[1]()

    def synchronize(self):
        if self.recorded is not None:
            raise Misuse("a captured stream cannot be waited for")
        self.carry_out(self.tick)
        WORLD.see(self.clock)

    def __enter__(self):
        self.before.append(WORLD.current_stream())
        WORLD.thread.streams[emulated.current()] = self
        return self

    def __exit__(self, *failure):
        WORLD.thread.streams[emulated.current()] = self.before.pop()

    def begin_capture(self, mode=None):
        if mode is not None:
            raise Misuse("capture in relaxed mode, CuPy's own: else no memory can be had meanwhile")
        self.recorded, WORLD.thread.capturing = [], self

    def end_capture(self):
        recorded, self.recorded, WORLD.thread.capturing = self.recorded, None, None
        return Graph(recorded)

    def is_capturing(self):
        return self.recorded is not None


class Graph:
    """Captured work."""

    def __init__(self, recorded):
        self.recorded = recorded

    def launch(self, stream=None):
        for arrays, run in self.recorded:
            for array, write in arrays:
                WORLD.known_block(array).touch(stream, write, "a graph")
            run()


class World:
    """What is current in each thread, all pools and hooks."""

    def __init__(self):
        self.thread = threading.local()
        self.null, self.made, self.ranges = {}, [], []
        self.pool = Pool(self)

    @property
    def pools(self):
        """All that are there."""
        return [self.pool, *(pool for made in self.made if (pool := made()) is not None)]

    def current_stream(self):
        device = emulated.current()
        if not hasattr(self.thread, "streams"):
            self.thread.streams = {}
        if device not in self.null:
            self.null[device] = Stream(null=True)
        return self.thread.streams.setdefault(device, self.null[device])

    def seen(self):
        """What this thread knows to be done: {stream: its clock}."""
        if not hasattr(self.thread, "seen"):
            self.thread.seen = {}
        return self.thread.seen

    def see(self, clock):
        for stream, tick in clock.items():
            self.seen()[stream] = max(self.seen().get(stream, 0), tick)

    def current_pool(self):
        return getattr(self.thread, "pool", None) or self.pool

    def block_of(self, array):
        return self.current_pool().block_of(array)

    def find(self, array):
        """The block of an array, None if no pool knows it."""
        root = id(root_of(array))
        return next((pool.blocks[root] for pool in self.pools if root in pool.blocks), None)

    def known_block(self, array):
        """The same of an array in a graph."""
        found = self.find(array)
        if found is None:
            raise Misuse("the memory of a graph is gone")
        return found

    def tell(self, what, **values):
        for hook in getattr(self.thread, "hooks", ()):
            getattr(hook, what)(**values)

    def new_pool(self):
        pool = Pool(self)
        self.made.append(weakref.ref(pool))
        return pool

    @contextmanager
    def using_allocator(self, allocator):
        before, self.thread.pool = getattr(self.thread, "pool", None), allocator.__self__
        try:
            yield
        finally:
            self.thread.pool = before

    def work(self, what, reads, writes, run):
        """Let the current stream do something, or note it; arrays in `writes` hold the result."""
        stream = self.current_stream()
        arrays = [(a, False) for a in reads] + [(a, True) for a in writes]
        if stream.recorded is not None:
            stream.recorded.append((arrays, run))
            return
        for array, write in arrays:
            self.block_of(array).touch(stream, write, what)
        run()


WORLD = World()


class Pointer:
    """The stand-in's MemoryPointer: it keeps the memory, not the array."""

    def __init__(self, array):
        self.memory, self.ptr = array.host, array.host.ctypes.data

    def copy_from_host_async(self, address, size, stream):
        """As late as may be: what the pinned buffer holds then is what is copied."""
        if stream.recorded is not None:
            raise Misuse("a copy from the host in a captured stream")
        block, target = WORLD.block_of(self.memory), self.memory.reshape(-1).view(np.uint8)
        pinned, done = WORLD.pinned[address], []

        def copy():
            if not done:
                done.append(True)
                target[:] = pinned[:size]

        block.touch(stream, True, "a copy")
        block.pending.append(copy)
        stream.queue.append((stream.tick, copy))

    def copy_from_device_async(self, source, size, stream):
        WORLD.block_of(source.memory).touch(stream, False, "a peer copy")
        WORLD.block_of(self.memory).touch(stream, True, "a peer copy")
        np.copyto(self.memory, source.memory.reshape(self.memory.shape))
