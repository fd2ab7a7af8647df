"""What a launcher needs from a GPU, real or emulated: arrays, and kernels by name."""

import re
import threading
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)
KINDS = {"float16": "f16", "float32": "f32", "float64": "f64"}
THREADS = 256  # a block's, where nothing speaks for another number
SHARED = 48 * 1024  # bytes of shared memory that a kernel may have without asking for more


@cache
def source(name):
    """The text of NAME.cu with its .cuh files put in; lines keep their files and numbers."""
    lines = []
    for number, line in enumerate((HERE / f"{name}.cu").read_text().splitlines(), 1):
        include = INCLUDE.match(line)
        if include:
            header = (HERE / include.group(1)).read_text().replace("#pragma once\n", "\n")
            lines += [f'#line 1 "{include.group(1)}"', header, f'#line {number + 1} "{name}.cu"']
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def argument(value):
    """A launch argument with its C type: None is the null pointer, an int is `long long`."""
    if value is None:
        return np.uintp(0)
    if isinstance(value, float):  # float32 or float64? numpy.float64 is a float too, and says so
        if not isinstance(value, np.float64):
            raise TypeError(f"launch argument {value}: say which float it is: x.dtype.type(value)")
    elif isinstance(value, int):
        return np.int64(value)
    return value


class Gpu:
    """Arrays from `xp`, kernels from `compile_module(text, file name)`, which is like RawModule.

    A launcher takes one first: `def relu(gpu, x): y = gpu.empty(...); gpu.launch(...); return y`.
    """

    def __init__(self, xp, compile_module):
        self.xp, self._compile = xp, compile_module
        self._modules, self._kernels, self._lock = {}, {}, threading.Lock()

    def empty(self, shape, dtype):
        """An array of any values on the current device."""
        return self.xp.empty(shape, dtype)

    def zeros(self, shape, dtype):
        """An array of zeros on the current device."""
        return self.xp.zeros(shape, dtype)

    def contiguous(self, x):
        """x if its elements lie in C order without gaps, else a copy: kernels know no strides."""
        return self.xp.ascontiguousarray(x)

    @property
    def capturing(self):
        """Whether work is noted for a CUDA graph, so that nothing may wait for the GPU."""
        stream = getattr(getattr(self.xp, "cuda", None), "get_current_stream", None)
        return stream is not None and stream().is_capturing()

    def kernel(self, file, name):
        """The kernel `minidp_NAME` of FILE.cu, compiled on first use."""
        found = self._kernels.get((file, name))
        if found is None:
            with self._lock:
                if file not in self._modules:
                    self._modules[file] = self._compile(source(file), f"{file}.cu")
                found = self._modules[file].get_function(f"minidp_{name}")
                self._kernels[file, name] = found
        return found

    def written(self, text, name):
        """The kernel `minidp_NAME` of a text that was written for the occasion, a `NAME.cu`."""
        return self._compile(text, f"{name}.cu").get_function(f"minidp_{name}")

    def run_each(self, kernel, count, args):
        """Run a written kernel with a thread for each of `count` elements."""
        kernel((blocks(count),), (THREADS,), tuple(map(argument, args)), shared_mem=0)

    def launch(self, file, name, grid, block, args, shared=0):
        """Run `minidp_NAME` of FILE.cu; no blocks: do nothing.

        grid: blocks, block: threads in each (an int or up to three); shared: bytes of dynamic
        shared memory.
        """
        grid, block = (size if isinstance(size, tuple) else (size,) for size in (grid, block))
        if 0 in grid:
            return
        kernel = self.kernel(file, name)
        if shared > SHARED:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel(grid, block, tuple(map(argument, args)), shared_mem=shared)

    def launch_each(self, file, name, count, args):
        """Run a kernel with a thread for each of `count` elements; it checks the last block."""
        self.launch(file, name, blocks(count), THREADS, args)


def blocks(count, threads=THREADS):
    """How many blocks of `threads` threads cover `count` elements."""
    return -(-count // threads)


def threads_for(length, most=THREADS):
    """Threads for a tree over `length` values: a power of two from 32 to `most`."""
    return min(most, max(32, 1 << max(length - 1, 0).bit_length()))


def suffix(*arrays):
    """The ending of the kernels for these arrays (None aside), f16, f32 or f64; None: no kernel."""
    types = {array.dtype.name for array in arrays if array is not None}
    return KINDS.get(types.pop()) if len(types) == 1 else None


def number(x):
    """The NumPy type of the numbers that kernels compute in for x: float32 for float16."""
    return np.float32 if x.dtype == np.float16 else x.dtype.type


def int32(*values):
    """Values passed as C `int`: sizes inside one image, as 32-bit division is faster."""
    return [np.int32(value) for value in values]
