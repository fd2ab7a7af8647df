"""Machine code for this computer's CPU from LLVM's instructions, kept on disk between runs.

Numba compiles loops over values; where every register counts we write the instructions ourselves,
as functions of 64-bit integers (numbers and addresses) only, and the loops around these are nests
(see `_nests`). `address` compiles such a function once for each machine, in some 10 to 50
milliseconds, and loads it from a file of some kilobytes afterwards, in one. Compiled loops get
the address as a number, and `call` it: so they serve every shape.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite
import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

INTEGER = ir.IntType(64)
PACKAGE = __name__.rpartition(".")[0]
KEPT = "tiles"  # folder of machine code
ENOUGH = 2  # LLVM's level of optimisation: the instructions come in the right order already


@dataclass(frozen=True, eq=False)
class Target:
    """A kind of CPU: its name and features as LLVM calls them, and the registers it has.

    There is one of each (``eq=False``), as what was compiled for it is looked up in each call.
    """

    cpu: str
    features: str
    bytes: int
    """Of a vector."""
    rows: int
    """Of the tallest register tile; see `_microkernel`."""

    @property
    def foresees(self):
        """Whether it fetches what is read and written in order soon enough by itself. Zen does, and
        takes longer when it is asked as well: up to Zen 4 twice as long."""
        return self.cpu.startswith("znver")

    @property
    def foresees_reads(self):
        """The same of what is read alone: Zen 5 is slower at that than if it is asked."""
        return self.foresees and self.cpu <= "znver4"

    def lanes(self, dtype):
        """How many values of `dtype` a vector holds."""
        return self.bytes // dtype.itemsize


@cache
def host():
    """The `Target` of this computer; None if it lacks AVX2, or if Numba's compiler is off."""
    if numba.config.DISABLE_JIT:
        return None
    features = binding.get_host_cpu_features()
    given = binding.get_host_cpu_name(), features.flatten()
    if all(features.get(name) for name in ("avx512f", "avx512vl", "avx512dq", "avx512bw")):
        return Target(*given, bytes=64, rows=14)
    if features.get("avx2") and features.get("fma"):
        return Target(*given, bytes=32, rows=6)
    return None


@cache
def anyhow():
    """The `Target` of this computer, whatever it has: for what needs no vectors."""
    features = binding.get_host_cpu_features().flatten()
    return host() or Target(binding.get_host_cpu_name(), features, bytes=16, rows=1)


@cache
def address(target, write, *parameters, improved=False):
    """Where the function lies that `write(target, *parameters)` gives LLVM's text of.

    `write` is a plain function of a module; the function in its text is called "kernel". Where it
    is to be `improved` LLVM rearranges it first; instructions in the right order are left alone.
    """
    with _one_at_a_time:  # two engines for the same code would be one too many: it would be freed
        return _engine(target, write, parameters, improved).get_function_address("kernel")


_one_at_a_time = threading.Lock()


@cache
def _engine(target, write, parameters, improved):
    """What owns the machine code, for as long as the process lives."""
    name = _name(target, write, parameters)
    code = _kept(name)
    machine = _machine(target)
    if code is None:
        module = binding.parse_assembly(write(target, *parameters))
        module.verify()
        if improved:
            _improve(module, machine)
        code = machine.emit_object(module)
        _keep(name, code)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _improve(module, machine):
    """Put variables in registers, and compute once what is the same: LLVM's whole list of passes
    takes eight times as long, unrolls loops that call machine code, and gains nothing by it."""
    options = binding.create_pipeline_tuning_options(speed_level=ENOUGH)
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    passes.add_aggressive_dce_pass()
    passes.run(module, binding.create_pass_builder(machine, options))


def _machine(target):
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    kind = binding.Target.from_default_triple()
    return kind.create_target_machine(target.cpu, target.features, ENOUGH, jit=True)


def _name(target, write, parameters):
    """Of the file: what the machine code depends on, in short."""
    words = (llvmlite.__version__, _source(write), target, write.__qualname__, parameters)
    return hashlib.sha256(repr(words).encode()).hexdigest()


@cache
def _source(write):
    """A digest of what writes LLVM's text, and of what is imported there by name: a changed
    generator does not find old machine code."""
    names = {getattr(each, "__module__", None) or "" for each in write.__globals__.values()}
    modules = {__name__, write.__module__, *(name for name in names if name.startswith(PACKAGE))}
    paths = [sys.modules[name].__file__ for name in sorted(modules)]
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


def _kept(name):
    """Machine code from a file that is whole; None if there is none."""
    for folder in _folders():
        with contextlib.suppress(OSError):
            content = (folder / name).read_bytes()
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return content[32:]
    return None


def _keep(name, code):
    """Write a file in the first folder that lets us; nothing happens where none does."""
    for folder in _folders():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            handle, unfinished = tempfile.mkstemp(dir=folder)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(unfinished, folder / name)
            return


def _folders():
    """Where machine code may be kept: where Numba is told to, beside the source, at the user's."""
    told = numba.config.CACHE_DIR
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    beside, users = Path(__file__).parent / "__pycache__", Path(home) / "minidp"
    return [Path(folder) / KEPT for folder in ([told] if told else [beside, users])]


@intrinsic
def call(typing, address, arguments):
    """In compiled code: call the function at `address` with a tuple of integers."""
    given = types.UniTuple(types.int64, len(arguments))

    def generate(context, builder, signature, values):
        count = signature.args[1].count
        kind = ir.FunctionType(ir.VoidType(), [INTEGER] * count).as_pointer()
        numbers = [builder.extract_value(values[1], k) for k in range(count)]
        builder.call(builder.inttoptr(values[0], kind), numbers)
        return context.get_dummy_value()

    return types.void(types.int64, given), generate


@intrinsic
def move(typing, source, target, size):
    """In compiled code: copy `size` bytes between addresses."""

    def generate(context, builder, signature, values):
        source, target, size = values
        pointer = ir.IntType(8).as_pointer()
        places = [builder.inttoptr(place, pointer) for place in (target, source)]
        cgutils.raw_memcpy(builder, *places, size, 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def fetch(typing, place):
    """In compiled code: ask for the line of memory at an address. It is in the second cache some
    time later, and nobody waits; an address where nothing is does no harm."""

    def generate(context, builder, signature, values):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        reads, second, data = number(0), number(2), number(1)
        builder.call(function, [builder.inttoptr(values[0], pointer), reads, second, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate
