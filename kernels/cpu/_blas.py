"""Matrix products inside compiled loops, by the BLAS that NumPy itself uses.

A loop over images that calls `np.matmul` returns to Python, and gives back and takes the GIL, for
every image: replicas in threads then wait for each other more than they compute. A compiled
function can call C directly, if it knows an address. `blas()` looks up, once in each process,

    void cblas_sgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)

in NumPy's own library, and kernels take what it returns as their first argument. So an address is
never part of compiled code, which may be cached on disk and used by processes where libraries lie
elsewhere. Where the function has no known name, the address leads to a Python function that calls
`np.matmul`: slower by some microseconds, and not free of the GIL.
"""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

ROW_MAJOR, PLAIN, TURNED = 101, 111, 112  # CBLAS's names for layouts
ILP64 = ("scipy_cblas_{}64_", "cblas_{}64_", "cblas_{}$NEWLAPACK$ILP64")  # 64-bit integers
LP64 = ("scipy_cblas_{}", "cblas_{}", "cblas_{}$NEWLAPACK")  # 32-bit integers


@cache
def blas():
    """(address of sgemm, address of dgemm, whether their integers have 64 bits)."""
    for library in _libraries():
        for names, is_wide in ((ILP64, True), (LP64, False)):
            for name in names:
                found = [getattr(library, name.format(kind), None) for kind in ("sgemm", "dgemm")]
                if all(found):
                    return (*(_address(function) for function in found), is_wide)
    return (*(_address(function) for function in _substitutes()), True)


def _libraries():
    """The module that holds `np.matmul`, which finds names in what it links to; wheels' own."""
    module = Path(np._core._multiarray_umath.__file__)
    for path in (module, *sorted(module.parents[2].glob("numpy.libs/*openblas*"))):
        try:
            yield ctypes.CDLL(str(path))
        except OSError:  # not a library
            continue


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


@cache
def _substitutes():
    """C functions like sgemm and dgemm that call NumPy; kept for as long as the process lives."""
    whole, kinds = ctypes.c_int64, (ctypes.c_float, ctypes.c_double)
    return [
        ctypes.CFUNCTYPE(
            None, *[ctypes.c_int32] * 3, *[whole] * 3, real, *[whole] * 4, real, whole, whole
        )(_Product(real))
        for real in kinds
    ]


class _Product:
    """c += a @ b on addresses of `real` numbers, called like CBLAS with alpha = beta = 1."""

    def __init__(self, real):
        self.real = real

    def __call__(self, _, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        first = self.matrix(a, (m, k), lda, turn_a == TURNED)
        second = self.matrix(b, (k, n), ldb, turn_b == TURNED)
        add_product(None, first, second, self.matrix(c, (m, n), ldc, False))

    def matrix(self, address, shape, step, is_turned):
        """The matrix of `shape` whose rows, or columns if turned, are `step` values apart."""
        rows, length = shape[::-1] if is_turned else shape
        size = (rows - 1) * step + length
        values = np.frombuffer((self.real * size).from_address(address), self.real)
        item = values.itemsize
        lines = np.lib.stride_tricks.as_strided(values, (rows, length), (step * item, item))
        return lines.T if is_turned else lines


def add_product(blas, a, b, c):
    """c += a @ b for matrices with dense rows; a and b may also have dense columns. Steps along
    axes of one place may be any.

    This is what runs when Numba's compiler is switched off; compiled functions call BLAS.
    """
    c += a @ b


@overload(add_product)
def _compiled_product(blas, a, b, c):
    place, real = (0 if a.dtype == types.float32 else 1), a.dtype

    def product(blas, a, b, c):
        (m, k), n, item = a.shape, b.shape[1], a.itemsize
        if m and n and k:
            turn_a = a.strides[1] != item or a.strides[0] < k * item
            turn_b = b.strides[1] != item or b.strides[0] < n * item
            _gemm(
                blas[place], blas[2], TURNED if turn_a else PLAIN, TURNED if turn_b else PLAIN,
                m, n, k,
                real(1), a.ctypes.data,
                max(m if turn_a else k, a.strides[1 if turn_a else 0] // item), b.ctypes.data,
                max(k if turn_b else n, b.strides[1 if turn_b else 0] // item),
                c.ctypes.data, max(n, c.strides[0] // item),
            )  # fmt: skip

    return product


@intrinsic
def _gemm(typing, address, is_wide, turn_a, turn_b, m, n, k, one, a, lda, b, ldb, c, ldc):
    """Call the function at `address`, with integers of 64 bits if `is_wide`, else of 32."""
    integer = types.int64
    given = (integer, types.boolean, *[integer] * 5, one, *[integer] * 6)

    def generate(context, builder, signature, arguments):
        function, wide, *numbers = arguments
        with builder.if_else(wide) as (then, otherwise):
            with then:
                _emit(builder, function, 64, numbers)
            with otherwise:
                _emit(builder, function, 32, numbers)
        return context.get_dummy_value()

    return types.void(*given), generate


def _emit(builder, function, bits, numbers):
    """The call itself, as instructions of LLVM."""
    turn_a, turn_b, m, n, k, one, a, lda, b, ldb, c, ldc = numbers
    flag, integer, pointer = ir.IntType(32), ir.IntType(bits), ir.IntType(8).as_pointer()
    real = one.type
    kinds = [flag] * 3 + [integer] * 3 + [real, *[pointer, integer] * 2, real, pointer, integer]
    kind = ir.FunctionType(ir.VoidType(), kinds).as_pointer()
    values = [flag(ROW_MAJOR), turn_a, turn_b, m, n, k, one, a, lda, b, ldb, one, c, ldc]
    fitted = [_fit(builder, value, wanted) for value, wanted in zip(values, kinds, strict=True)]
    builder.call(builder.inttoptr(function, kind), fitted)


def _fit(builder, value, wanted):
    if isinstance(wanted, ir.PointerType):
        return builder.inttoptr(value, wanted)
    is_narrower = isinstance(wanted, ir.IntType) and wanted.width < value.type.width
    return builder.trunc(value, wanted) if is_narrower else value
