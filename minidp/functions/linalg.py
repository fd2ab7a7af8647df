"""Products of matrices and vectors under PyTorch's names; factorisations are in minidp.linalg."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from minidp.errors import ShapeError
from minidp.functions.arrange import tril, triu
from minidp.functions.layout import axes_in_order, broadcast_to, movedim, reshape, unsqueeze
from minidp.ops import linalg as ops
from minidp.ops.elementwise import where
from minidp.ops.layout import diagonal
from minidp.ops.reduce import sum
from minidp.shapes import axis_of, whole
from minidp.tensor import Tensor, method

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "cholesky_solve",
           "cross", "det", "dot", "ger", "inner", "inverse", "kron", "logdet", "matmul",
           "matrix_power", "mm", "mv", "outer", "slogdet", "tensordot", "trace",
           "vdot"]  # fmt: skip


@method()
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices."""
    return ops.inv(input)


@method()
def det(input: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return ops.det(input)


@method()
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """The X with L L^T X = input, where ``input2`` is L, or with ``upper`` L^T."""
    lower = input2 - (tril(input2, -1) if upper else triu(input2, 1)).detach()
    lower = lower.mT if upper else lower
    return ops.solve(lower.mT, ops.solve(lower, input))


@method()
def matmul(input: Tensor, other: Any) -> Tensor:
    """Matrix product; a vector on either side is a row or a column whose axis is dropped.

    >>> dp.matmul(dp.ones(5, 2, 3), dp.ones(3, 4)).shape
    (5, 2, 4)
    """
    b = other if isinstance(other, Tensor) else Tensor(other)
    if input.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul({input.shape}, {b.shape}): expected at least one axis each")
    left = unsqueeze(input, 0) if input.ndim == 1 else input
    right = unsqueeze(b, 1) if b.ndim == 1 else b
    y: Tensor = ops.matmul(left, right)
    y = y.squeeze(-1) if b.ndim == 1 else y
    if input.ndim == 1:
        y = y.squeeze(-1 if b.ndim == 1 else -2)
    return y


@method("__matmul__")
def _matmul(self: Tensor, other: Any) -> Any:
    return matmul(self, other) if hasattr(other, "dtype") else NotImplemented


@method("__rmatmul__")
def rmatmul(self: Tensor, other: Any) -> Tensor:
    """other @ self."""
    return matmul(other if isinstance(other, Tensor) else Tensor(other), self)


def _product(name: str, first: int, second: int, text: str) -> Any:
    """``matmul`` for arguments with so many axes only."""

    def product(input: Tensor, other: Tensor) -> Tensor:
        alike = first != 3 or input.shape[:1] == other.shape[:1]
        if (input.ndim, other.ndim) != (first, second) or not alike:
            raise ShapeError(f"{name}({input.shape}, {other.shape}): expected {text}")
        return matmul(input, other)

    product.__name__, product.__doc__ = name, f"Product of {text}."
    return method(name)(product)


def _named(name: str, first: int, second: int, text: str, argument: str) -> Any:
    """A product whose second argument may be given by its own name."""
    product = _product(name, first, second, text)

    def call(input: Tensor, *other: Any, **named: Any) -> Tensor:
        return product(input, *other, *([named.pop(argument)] if argument in named else []),
                       **named)  # fmt: skip

    call.__name__, call.__doc__ = name, product.__doc__
    return method(name)(call)


mm = _named("mm", 2, 2, "two matrices", "mat2")
mv = _named("mv", 2, 1, "a matrix and a vector", "vec")
bmm = _named("bmm", 3, 3, "two batches of as many matrices", "mat2")
dot = _named("dot", 1, 1, "two vectors", "tensor")
vdot = _named("vdot", 1, 1, "two vectors", "other")


@method()
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sum of products over the last axis of both; of numbers, the product."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, ([-1], [-1]))


@method("outer", "ger")
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """y_ij = a_i b_j, of vectors."""
    if (input.ndim, vec2.ndim) != (1, 1):
        raise ShapeError(f"outer({input.shape}, {vec2.shape}): expected two vectors")
    return unsqueeze(input, 1) * vec2


ger = outer


def _plus(input: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta input + alpha product; with ``beta`` 0 not even the NaN of ``input`` counts."""
    if product.dtype.kind != "f":
        alpha, beta = (product.dtype.type(int(each)).item() for each in (alpha, beta))
    start = broadcast_to(input, product.shape)
    product = product if alpha == 1 else product * alpha
    return product + (start if beta == 1 else start * beta) if beta else product


@method()
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
          ) -> Tensor:  # fmt: skip
    """beta input + alpha mat1 mat2."""
    return _plus(input, mm(mat1, mat2), beta, alpha)


@method()
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1
          ) -> Tensor:  # fmt: skip
    """beta input + alpha mat vec."""
    return _plus(input, mv(mat, vec), beta, alpha)


@method()
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1
         ) -> Tensor:  # fmt: skip
    """beta input + alpha vec1 vec2^T."""
    return _plus(input, outer(vec1, vec2), beta, alpha)


@method()
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
            ) -> Tensor:  # fmt: skip
    """beta input + alpha batch1 batch2, matrix by matrix."""
    return _plus(input, bmm(batch1, batch2), beta, alpha)


@method()
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
           ) -> Tensor:  # fmt: skip
    """beta input + alpha times the sum of the products of all matrices."""
    return _plus(input, sum(bmm(batch1, batch2), dim=0).type(batch1.dtype), beta, alpha)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over pairs of axes: the last of ``a`` with the first of ``b``, or lists."""
    if (count := whole(dims)) is not None:
        dims = (list(range(a.ndim - count, a.ndim)), list(range(count)))
    left, right = (axes_in_order("tensordot", each, x.ndim)
                   for x, each in zip((a, b), dims, strict=True))  # fmt: skip
    for i, j in zip(left, right, strict=False):  # an axis of length 1 goes with any
        a = a if b.shape[j] != 1 else sum(a, dim=i, keepdim=True).type(a.dtype)
        b = b if a.shape[i] != 1 else sum(b, dim=j, keepdim=True).type(b.dtype)
    if len(left) != len(right) or [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ShapeError(f"tensordot({a.shape}, {b.shape}): axes {left} and {right} differ")
    rows, columns = ([n for i, n in enumerate(x.shape) if i not in axes]
                     for x, axes in ((a, left), (b, right)))  # fmt: skip
    size, count = math.prod(a.shape[i] for i in left), len(left)
    tall = reshape(movedim(a, left, list(range(-count, 0))), (math.prod(rows), size))
    wide = reshape(movedim(b, right, list(range(count))), (size, math.prod(columns)))
    return reshape(ops.matmul(tall, wide), (*rows, *columns))


@method()
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker's product: each value of ``input`` times all of ``other``."""
    count = max(input.ndim, other.ndim)
    a, b = ((1,) * (count - x.ndim) + x.shape for x in (input, other))
    left = reshape(input, [n for each in a for n in (each, 1)])
    right = reshape(other, [n for each in b for n in (1, each)])
    return reshape(left * right, [n * m for n, m in zip(a, b, strict=True)])


@method()
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input.ndim != 2:
        raise ShapeError(f"trace({input.shape}): expected a matrix")
    return sum(diagonal(input, offset=0, axes=(0, 1)))


@method()
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The vector product along an axis of length 3 (None: the first such)."""
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), 0)
    axis = axis_of("cross", dim, input.ndim)
    if input.ndim != other.ndim or {x.shape[axis] for x in (input, other)} != {3}:
        raise ShapeError(f"cross({input.shape}, {other.shape}): expected 3 places along {dim}")
    a, b = input, other
    return a.roll(-1, axis) * b.roll(-2, axis) - a.roll(-2, axis) * b.roll(-1, axis)


@method()
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix times itself, n times, by repeated squares; n < 0: its inverse."""
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise ShapeError(f"matrix_power({input.shape}): expected square matrices")
    base: Tensor = input if n >= 0 else ops.inv(input)
    power, result = abs(n), None
    while power:
        if power % 2:
            result = base if result is None else ops.matmul(result, base)
        base, power = (ops.matmul(base, base) if power > 1 else base), power // 2
    if result is None:
        result = ops.diagonals(sum(input, dim=-1) * 0 + 1)
    return result if n != 1 else result.clone()


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, in the order that costs least."""
    return multi_dot(matrices)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices (the ends may be vectors), in the order that costs least."""
    count = len(tensors)
    if count < 2:
        return tensors[0]
    sizes = [x.shape[0] for x in tensors] + [tensors[-1].shape[-1]]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(count)}
    for i, j in ((i, i + span) for span in range(1, count) for i in range(count - span)):
        ends = sizes[i] * sizes[j + 1]
        best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + ends * sizes[k + 1], k)
                         for k in range(i, j))  # fmt: skip

    def product(i: int, j: int) -> Tensor:
        k = best[i, j][1]
        return tensors[i] if i == j else matmul(product(i, k), product(k + 1, j))

    return product(0, count - 1)


class Slogdet(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Tensor
    logabsdet: Tensor


@method()
def slogdet(input: Tensor) -> Slogdet:
    """The determinant's sign and the logarithm of its absolute value."""
    return Slogdet(*ops.slogdet(input))


@method()
def logdet(input: Tensor) -> Tensor:
    """log det x; NaN where the determinant is negative."""
    sign, value = slogdet(input)
    return where(sign < 0, float("nan"), value)
