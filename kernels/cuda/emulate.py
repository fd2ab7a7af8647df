"""Run CUDA text on the CPU, called as CuPy's RawModule is.

`Module(text, name).get_function(kernel)(grid, block, arguments)`. The text is compiled by $CXX or
g++, with emulate.h in front, once: the result is cached by content. Kernels whose threads never
wait for each other run as a plain loop over threads, the others as fibers, one a thread. Every
access to memory is checked (checks.h). Arithmetic is IEEE without contraction to FMA, so last bits
may differ from a GPU's.
"""

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from . import faults, signature

HERE = Path(__file__).parent
STATIC_SHARED = re.compile(r"(?<!extern )__shared__\s+([\w ]+?)\s+(\w+)\s*((?:\[[^\];]*\]\s*)*);")
DYNAMIC_SHARED = re.compile(r"extern\s+__shared__\s+([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;")
COMPILE = (
    *("-std=c++20", "-O2", "-g1", "-fPIC", "-w", "-fno-strict-aliasing", "-ffp-contract=off"),
    *("-fno-optimize-sibling-calls", "-fno-exceptions", "-fvisibility=hidden"),
    "-fsanitize=bounds,alignment",  # checks.h has the handlers: no libubsan
)
CHECKED = (  # checks.h has what is called before each access to memory: no libasan
    *("-DMINIDP_CHECKED", "-fsanitize=kernel-address"),
    *(f"--param=asan-{name}=0" for name in ("instrumentation-with-call-threshold", "globals")),
    "--param=asan-stack=0",
)
WITH_LIBRARY = ("-fsanitize=address", "--param=asan-stack=0", "--param=asan-globals=0")
CHECKS = {"own": CHECKED, "address": WITH_LIBRARY, "none": ()}
PARTS = ("emulate.h", "checks.h", "fibers.h", "emulate.py", "signature.py")


class EmulatorError(RuntimeError):
    """CUDA text that does not compile, or a launch that CUDA would refuse or leave undefined."""


def cache_folder():
    """$MINIDP_CACHE, $XDG_CACHE_HOME/minidp or ~/.cache/minidp; a temporary one if not writable."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(os.environ.get("MINIDP_CACHE") or Path(base, "minidp")) / "emulated"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="minidp-"))


def compiler():
    """The path of the C++ compiler; EmulatorError if there is none."""
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name)
    if not found:
        raise EmulatorError(
            f"the emulated GPU compiles kernels with '{name}', which is not there: install g++ "
            "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or set CXX"
        )
    return found


def compile_step(command, text, name):
    """Run a compiler on `text`; EmulatorError begins with the first error's file and line."""
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        first = errors[0] if errors else done.stderr[-300:]
        raise EmulatorError(f"{name} does not compile: {first}\n{done.stderr}")
    return done.stdout


@cache
def flags(cxx, checks):
    """The compiler's flags; those of `checks` only where it knows them (clang has others)."""
    wanted = CHECKS[checks]
    known = subprocess.run(
        [cxx, *wanted, "-x", "c++", "-fsyntax-only", "-"], input="", capture_output=True, text=True
    )
    return COMPILE + (wanted if known.returncode == 0 else ())


def shared_to_calls(text, name):
    """Make `__shared__ T x[n];` a reference into the launch's arena, `extern` its start."""
    text = text.replace("#pragma unroll", "#pragma GCC unroll 64")
    text = DYNAMIC_SHARED.sub(r"\1 *\2 = (\1 *)emulated::dynamic_shared();", text)
    numbers = iter(range(10**6))

    def rewrite(match):
        kind, array, size = match.groups()
        place = f"emulated::shared<{kind}{size.strip()}, {next(numbers)}>(__FILE__, __LINE__)"
        return f"{kind} (&{array}){size.strip()} = {place};"

    text = STATIC_SHARED.sub(rewrite, text)
    left = re.search(r"__shared__[^;]*;?", text)
    if left:
        raise EmulatorError(
            f"{name}: '{left.group()}': write one array or value a __shared__ declaration"
        )
    return text


def build(text, name, target, checks):
    """Compile CUDA text to `target`; renamed into place, so two builders do not collide."""
    cxx, marked = compiler(), f'#line 1 "{name}"\n{text}'
    plain = compile_step([cxx, "-E", "-x", "c++", "-std=c++20", "-"], marked, name)
    declared, waiting = signature.kernels(plain), signature.waiting(plain)
    if not declared:
        raise EmulatorError(f'{name} holds no kernel: write extern "C" __global__ void name(...)')
    lines = [
        f"{kernel}|{int(kernel in waiting)}|{' '.join(types.split())}"
        for kernel, types in declared.items()
    ]
    whole = [
        f'#include "{HERE / "emulate.h"}"',
        shared_to_calls(plain, name),
        *(f"MINIDP_EXPORT({kernel})" for kernel in declared),
        f'extern "C" VISIBLE const char emulated_kernels[] = R"({chr(10).join(lines)})";',
    ]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made, library = os.path.join(folder, "kernels.o"), os.path.join(folder, "kernels.so")
        command = [cxx, *flags(cxx, checks), "-c", "-x", "c++", "-", "-o", made]
        compile_step(command, "\n".join(whole), name)
        linked = ["-fsanitize=address"] if checks == "address" else []
        compile_step([cxx, "-shared", *linked, made, "-o", library], "", name)
        os.replace(library, target)


def library(text, name, checks="own"):
    """The path of this text's compiled library, from the cache if these tools ever compiled it."""
    tools = [platform.machine(), os.environ.get("CXX", "g++"), checks, name, text, *own_texts()]
    target = cache_folder() / (hashlib.sha256(repr(tools).encode()).hexdigest()[:32] + ".so")
    if not target.exists():
        build(text, name, target, checks)
    return target


@cache
def own_texts():
    """The emulator's own text, on which a compiled kernel depends."""
    return tuple((HERE / part).read_text() for part in PARTS)


class Kernel:
    """A compiled kernel of a Module, called as CuPy's are."""

    def __init__(self, module, name, parameters, plain):
        self.function = module.library["emulated_" + name]
        self.function.restype = ctypes.c_char_p
        pointer, count = ctypes.c_void_p, ctypes.c_int
        self.function.argtypes = [pointer, pointer, ctypes.c_size_t, pointer, count, pointer, count]
        self.function.argtypes += [ctypes.c_uint64, ctypes.c_int]
        self.module, self.name, self.parameters, self.plain = module, name, parameters, plain
        self.max_dynamic_shared_size_bytes = 48 * 1024  # as CuPy's, to be raised before a launch

    def __call__(self, grid, block, args, shared_mem=0):
        """Run all blocks, without the GIL; EmulatorError says where CUDA would be undefined."""
        if self.max_dynamic_shared_size_bytes < shared_mem <= 227 * 1024:
            raise EmulatorError(
                f"{self.name}: {shared_mem} bytes of shared memory: more than 48 KiB must be asked "
                f"for: kernel.max_dynamic_shared_size_bytes = {shared_mem}"
            )
        try:
            signature.check(self.name, self.parameters, args)
        except TypeError as problem:
            raise EmulatorError(str(problem)) from None
        values = [addressed(one, value) for one, value in zip(self.parameters, args, strict=True)]
        addresses = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        arrays = [value for value in args if isinstance(value, np.ndarray) and value.size]
        reach = [part for array in arrays for part in (array.ctypes.data, array.nbytes)]
        problem = self.function(
            *(three(grid), three(block), shared_mem, addresses, len(values)),
            *((ctypes.c_size_t * len(reach))(*reach), len(arrays), self.module.seed, self.plain),
        )
        if problem:
            told = faults.explain(problem.decode(), self.parameters, args, self.module.path)
            raise EmulatorError(f"{self.name}, grid {grid}, block {block}: {told}")


def addressed(one, value):
    """A NumPy array that holds the argument's bytes: the value, or an array's address."""
    if one.pointer and isinstance(value, np.ndarray):
        return np.array(value.ctypes.data if value.size else 0, np.uintp)
    return np.array(value)


def three(sizes):
    """(x,), (x, y) or (x, y, z) as three C unsigned integers."""
    x, y, z = (*sizes, 1, 1, 1)[:3]
    if min(x, y, z) < 0 or max(x, y, z) >= 2**32:
        raise EmulatorError(f"a grid or block of {tuple(sizes)}: sizes are from 1 to 2**31 - 1")
    return (ctypes.c_uint * 3)(x, y, z)


class Module:
    """The kernels of one CUDA text.

    `seed` other than 0 runs blocks from last to first and threads in a shuffled order; `fibers`
    also runs those as fibers that need none. `checks`: "own", "none", or "address", for a process
    that runs under AddressSanitizer.
    """

    def __init__(self, code, name="kernels.cu", *, seed=0, fibers=False, checks="own"):
        self.path, self.name = library(code, name, checks), name
        self.seed, self.fibers = seed, fibers
        self.library = ctypes.CDLL(str(self.path))
        table = (ctypes.c_char * 1).in_dll(self.library, "emulated_kernels")
        lines = ctypes.string_at(ctypes.addressof(table)).decode().splitlines()
        self.kernels = {line.split("|")[0]: line.split("|")[1:] for line in lines}

    def get_function(self, name):
        """The kernel of that name; EmulatorError lists the names there are."""
        if name not in self.kernels:
            raise EmulatorError(
                f"{self.name} has no kernel '{name}': it has {', '.join(self.kernels)}"
            )
        waits, types = self.kernels[name]
        plain = waits == "0" and not self.fibers
        return Kernel(self, name, signature.parameters(types), plain)
