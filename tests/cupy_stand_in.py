"""A stand-in for CuPy, which is no GPU and no CuPy: NumPy computes, the emulator runs kernels.

What is handed over is checked, as CuPy and CUDA would not; stream_stand_in.py checks the order.
"""

from types import SimpleNamespace

import numpy as np
from stream_stand_in import WORLD, Event, Misuse, Pool, Stream

from minidp.backend import emulated
from minidp.kernels.cuda import emulate, signature

SAYS = "STAND-IN: CuPy was imitated and nothing ran on a GPU"


class Array(emulated.EmulatedArray):
    """The stand-in's cupy.ndarray."""

    device = property(lambda self: SimpleNamespace(id=self.device_index))
    source = None

    def __array_finalize__(self, made_from):
        super().__array_finalize__(made_from)
        if isinstance(made_from, Array) and overlap(self, made_from):
            self.source = made_from  # as CuPy's `base`: a view keeps the array alive

    @property
    def data(self):
        return Pointer(self)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return computed(ufunc.__name__, super().__array_ufunc__, (ufunc, method, *inputs), options)

    def __array_function__(self, function, types, args, kwargs):
        def call(*args, **kwargs):
            return super(Array, self).__array_function__(function, types, args, kwargs)

        return computed(function.__name__, call, args, kwargs)

    def __getitem__(self, key):
        return computed("indexing", super().__getitem__, (key,), {}, [self])

    def __setitem__(self, key, value):
        reads = [a for a in emulated.pieces((key, value)) if isinstance(a, Array)]
        target, given = emulated.host(self), emulated.host((key, value))
        emulated.same_device("assignment", self, value)
        WORLD.work("assignment", reads, [self], lambda: target.__setitem__(*given))

    def copy(self, order="C"):
        return computed("copy", super().copy, (order,), {}, [self])

    def reshape(self, *args, **kwargs):
        return computed("reshape", super().reshape, args, kwargs, [self])

    def astype(self, *args, **kwargs):
        return computed("astype", super().astype, args, kwargs, [self])

    def fill(self, value):
        WORLD.work("fill", [], [self], lambda: emulated.host(self).fill(value))


class Pointer:
    """The stand-in's MemoryPointer: it keeps the memory, not the array."""

    def __init__(self, array):
        self.memory, self.device = array.view(np.ndarray), array.device_index
        self.ptr = array.ctypes.data
        WORLD.block_of(self.memory)

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


def overlap(a, b):
    """Whether two arrays may lie in the same memory."""
    return np.may_share_memory(emulated.host(a), emulated.host(b))


def computed(what, function, args, kwargs, more=()):
    """The function's result, made on the current stream."""
    reads = [a for a in (*emulated.pieces((args, kwargs)), *more) if isinstance(a, Array)]
    out = [a for a in emulated.pieces(kwargs.get("out", ())) if isinstance(a, Array)]
    stream = WORLD.current_stream()
    for array in reads:
        WORLD.block_of(array).arrive()
    before = [emulated.host(a).copy() for a in out]
    result = function(*args, **kwargs)
    made = [a for a in emulated.pieces(result) if isinstance(a, Array)]
    views = [any(overlap(a, r) for r in reads) for a in made]
    if all(views) and not out:
        for array in made:
            array.source = reads[0]
        return result
    for array in reads:
        if array.device_index != stream.device:
            raise Misuse(f"{what} on {stream} of an array of device {array.device_index}")
    if stream.recorded is None:
        for array, write in [(a, False) for a in reads] + [(a, True) for a in made]:
            WORLD.block_of(array).touch(stream, write, what)
        return result
    for array, values in zip(out, before, strict=True):
        np.copyto(emulated.host(array), values)  # a capture does nothing yet

    def run():
        again = function(*args, **kwargs)
        for array, value in zip(made, emulated.pieces(again), strict=True):
            if array is not value:
                np.copyto(emulated.host(array), emulated.host(value))

    WORLD.work(what, reads, made, run)
    return result


def made(function, writes):
    """A creation function; `writes`: a kernel fills what it makes."""

    def make(*args, **kwargs):
        if WORLD.current_stream().recorded is not None and args and type(args[0]) is np.ndarray:
            raise Misuse("a copy from the host in a captured stream")
        reads = [a for a in args[:1] if isinstance(a, Array)]
        for array in reads:
            WORLD.block_of(array).arrive()
        result = function(*args, **kwargs)
        WORLD.block_of(result)
        if writes and not any(overlap(result, a) for a in reads):
            again = lambda: emulated.host(function(*args, **kwargs))  # noqa: E731
            WORLD.work("creation", reads, [result],
                       lambda: np.copyto(emulated.host(result), again()))  # fmt: skip
        return result

    return make


class Device:
    """The stand-in's cupy.cuda.Device."""

    mem_info = (2**29, 2**30)

    def __init__(self, index=None):
        self.id = emulated.current() if index is None else index
        self.contexts = []

    def __enter__(self):
        self.contexts.append(emulated.activated(self.id))
        self.contexts[-1].__enter__()
        return self

    def __exit__(self, *failure):
        return self.contexts.pop().__exit__(*failure)

    def synchronize(self):
        WORLD.current_stream().synchronize()


class MemoryHook:
    """The stand-in's hook: it hears what its thread allocates."""

    def __enter__(self):
        WORLD.thread.hooks = [*getattr(WORLD.thread, "hooks", ()), self]
        return self


class RawModule:
    """The stand-in's cupy.RawModule: each launch is checked, then emulated."""

    launched: dict = {}  # noqa: RUF012

    def __init__(self, *, code, options):
        assert options == ("-std=c++17",)
        self.module = emulate.Module(code, code[3:].split(":")[0])  # its first line names the file

    def get_function(self, name):
        return RawKernel(self.module.get_function(name), name)


class RawKernel:
    """The stand-in's cupy.RawKernel."""

    def __init__(self, kernel, name):
        self.kernel, self.name = kernel, name
        self.max_dynamic_shared_size_bytes = 48 * 1024

    def __call__(self, grid, block, args, *, shared_mem=0):
        assert all(type(size) is int and size > 0 for size in (*grid, *block))
        assert isinstance(grid, tuple) and isinstance(block, tuple) and isinstance(args, tuple)
        for value in args:
            assert isinstance(value, Array | np.generic), f"{self.name}: {type(value)}"
            if isinstance(value, Array):
                assert value.device_index == emulated.current(), f"{self.name}: not here"
        signature.check(self.name, self.kernel.parameters, args)
        RawModule.launched[self.name] = RawModule.launched.get(self.name, 0) + 1
        self.kernel.max_dynamic_shared_size_bytes = self.max_dynamic_shared_size_bytes
        groups = [[value for one, value in zip(self.kernel.parameters, args, strict=True)
                   if isinstance(value, Array) and one.written is written]
                  for written in (False, True)]  # fmt: skip
        WORLD.work(self.name, *groups,
                   lambda: self.kernel(grid, block, args, shared_mem=shared_mem))  # fmt: skip


def asnumpy(array):
    """cupy.asnumpy: waits for the current stream."""
    stream = WORLD.current_stream()
    stream.synchronize()
    if isinstance(array, Array):
        WORLD.block_of(array).touch(stream, False, "asnumpy")
    return np.array(emulated.host(array))


def alloc_pinned_memory(size):
    """Page-locked memory."""
    memory = np.zeros(size, np.uint8)
    WORLD.pinned[memory.ctypes.data] = memory
    return memory


def stand_in(devices=2):
    """A module that plays CuPy with so many GPUs, in a fresh world."""
    WORLD.__init__()
    WORLD.pinned = {}
    names = vars(emulated.namespace(Array))
    written = {name: made(names[name], name not in ("empty", "empty_like"))
               for name in emulated.CREATION}  # fmt: skip
    properties = {"name": b"a stand-in for a GPU", "major": 9, "minor": 0}
    runtime = SimpleNamespace(
        getDeviceCount=lambda: devices, getDeviceProperties=lambda index: properties,
        streamCaptureModeThreadLocal=1,
    )  # fmt: skip
    nvtx = SimpleNamespace(RangePush=lambda name: WORLD.ranges.append(name),
                           RangePop=lambda: WORLD.ranges.append(None))  # fmt: skip
    cuda = SimpleNamespace(
        Device=Device, Stream=Stream, Event=Event, MemoryHook=MemoryHook, runtime=runtime,
        get_current_stream=WORLD.current_stream, alloc_pinned_memory=alloc_pinned_memory,
        MemoryPool=WORLD.new_pool, using_allocator=WORLD.using_allocator, nvtx=nvtx,
        get_elapsed_time=lambda a, b: float(b.clock[b.stream] - a.clock[a.stream]),
    )  # fmt: skip
    settings = {}
    linalg = SimpleNamespace(COMPUTE_TYPE_TF32=4, COMPUTE_TYPE_DEFAULT=0)
    core = SimpleNamespace(_routines_linalg=linalg, set_compute_type=settings.__setitem__,
                           settings=settings)  # fmt: skip
    return SimpleNamespace(
        **(names | written | {"RawModule": RawModule, "asnumpy": asnumpy}), cuda=cuda, _core=core,
        get_default_memory_pool=lambda: WORLD.pool,
        get_default_pinned_memory_pool=lambda: Pool(WORLD),
    )  # fmt: skip
