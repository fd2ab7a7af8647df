"""The one way CPU kernels are compiled: serial, without the GIL, cached on disk if possible."""

import gc
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numba
from numba import types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic, overload, typeof_impl

from ._notes import noting
from ._traced import Traced, plain

WIDEST = '"prefer-vector-width"="512"'


class WideLower(Lower):
    """Lowers a function that may use the widest vectors of its CPU.

    For Intel's, LLVM's own choice is half of AVX-512: the first of them ran slower while they used
    all of it. Tiles use it anyway, and loops over elements gain up to a third.
    """

    def setup_function(self, fndesc):
        super().setup_function(fndesc)
        set.add(self.function.attributes, WIDEST)  # llvmlite's `add` refuses what it does not know


@register_pass(mutates_CFG=True, analysis_only=False)
class WideLowering(NativeLowering):
    """The pass that does so."""

    _name = "wide_lowering"

    @property
    def lowering_class(self):
        return WideLower


class WideCompiler(Compiler):
    """Numba's compiler with that pass."""

    def define_pipelines(self):
        pipelines = super().define_pipelines()
        for each in pipelines:
            each.passes = [(WideLowering if kind is NativeLowering else kind, description)
                           for kind, description in each.passes]  # fmt: skip
            each.finalize()
        return pipelines


OPTIONS = {"_nrt": False, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True,
           "pipeline_class": WideCompiler}  # fmt: skip
"""Without `_nrt` arrays are not counted: kernels make none, and there is less to compile."""


class TracedType(types.Type):
    """The type that Numba is told a traced array has: one that nothing is compiled for."""


TRACED = TracedType("traced array")


@typeof_impl.register(Traced)
def _traced_type(array, context):
    return TRACED


class Function(CPUDispatcher):
    """A compiled function, which notes its calls with traced arrays.

    Numba asks for a version for their type, and is given one that has run already.
    """

    def _compile_for_args(self, *arguments, **named):
        if not any(isinstance(each, Traced) for each in _parts(arguments)):
            with _uncollected():
                return super()._compile_for_args(*arguments, **named)
        result = self(*plain(arguments))
        if noting.notes is not None:
            noting.notes.compiled(self, arguments, plain(arguments), result)
        return lambda *again: result


class Kept(FunctionCache):
    """Numba's cache on disk, which lets compiled functions be loaded without what compiles others:
    to fill the tables for that takes longer than to load all functions of a training step."""

    def load_overload(self, sig, target_context):
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


@contextmanager
def _uncollected():
    """Without the garbage collector, which would look through the compiler's objects for long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _parts(arguments):
    """The arguments, and what is in tuples."""
    for each in arguments:
        if isinstance(each, tuple):
            yield from _parts(each)
        else:
            yield each


def compiled(function, **options):
    """Compile `function` with Numba when it is first called with new argument types.

    Machine code is kept in `__pycache__` beside the source, else in the user's cache folder; where
    neither can be written, each process compiles anew. `function` must be a plain module-level
    function: Numba never finds closures again in its cache.
    """
    try:
        result = numba.njit(**OPTIONS, **options, cache=True)(function)
    except RuntimeError:  # no folder for the cache
        result = numba.njit(**OPTIONS, **options)(function)
    if isinstance(result, CPUDispatcher):
        result.__class__ = Function
        if isinstance(result._cache, FunctionCache):
            result._cache.__class__ = Kept
            result._cache._cache_file._source_stamp = _sources()
    return result


@cache
def _sources():
    """What tells whether a file of kernels has changed. Numba looks at a function's own file only,
    and would go on calling what another file has changed: with other arguments, it may be."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def part(function):
    """Compile `function` for other compiled ones, which alone may call it: a little sooner."""
    return compiled(function, no_cpython_wrapper=True)


def summing(function):
    """A part whose sums may be taken in several lanes at once; how depends on lengths alone."""
    return compiled(function, no_cpython_wrapper=True, fastmath={"reassoc", "nsz"})


def copy(source, target):
    """Fill the vector `target` from the start of `source`, both contiguous.

    C's memcpy: a compiled loop copies what does not fill its 32 lanes value by value.
    """
    target[:] = source[: len(target)]


@overload(copy)
def _compiled_copy(source, target):
    return lambda source, target: _memcpy(source, target)


@intrinsic
def _memcpy(typing, source, target):
    def generate(context, builder, signature, arguments):
        kinds = [context.make_array(kind) for kind in signature.args]
        origin, place = (k(context, builder, v) for k, v in zip(kinds, arguments, strict=True))
        size = context.get_abi_sizeof(context.get_data_type(target.dtype))
        cgutils.raw_memcpy(builder, place.data, origin.data, place.nitems, size)
        return context.get_dummy_value()

    return types.void(source, target), generate
