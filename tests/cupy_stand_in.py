"""A stand-in for CuPy, which is no GPU and no CuPy: NumPy computes, the emulator runs kernels.

What is handed over is checked, as CuPy and CUDA would not; stream_stand_in.py checks the order.
"""

from types import SimpleNamespace

import numpy as np
from array_stand_in import NAMES, Array, wait
from stream_stand_in import WORLD, Event, Pool, Stream

from minidp.backend import emulated
from minidp.kernels.cuda import emulate, signature

SAYS = "STAND-IN: CuPy was imitated and nothing ran on a GPU"


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
        wait()


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
        arguments = tuple(value.host if isinstance(value, Array) else value for value in args)
        groups = [[value for one, value in zip(self.kernel.parameters, args, strict=True)
                   if isinstance(value, Array) and one.written is written]
                  for written in (False, True)]  # fmt: skip
        WORLD.work(self.name, *groups,
                   lambda: self.kernel(grid, block, arguments, shared_mem=shared_mem))  # fmt: skip


def asnumpy(array):
    """cupy.asnumpy: waits for the current stream."""
    return array.get() if isinstance(array, Array) else np.asarray(array)


def alloc_pinned_memory(size):
    """Page-locked memory."""
    memory = np.zeros(size, np.uint8)
    WORLD.pinned[memory.ctypes.data] = memory
    return memory


def stand_in(devices=2):
    """A module that plays CuPy with so many GPUs, in a fresh world."""
    WORLD.__init__()
    WORLD.pinned = {}
    properties = {"name": b"a stand-in for a GPU", "major": 9, "minor": 0}
    runtime = SimpleNamespace(
        getDeviceCount=lambda: devices, getDeviceProperties=lambda index: properties,

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
        **vars(NAMES) | {"RawModule": RawModule, "asnumpy": asnumpy, "cuda": cuda, "_core": core},
        get_default_memory_pool=lambda: WORLD.pool,
        get_default_pinned_memory_pool=lambda: Pool(WORLD),
    )  # fmt: skip
