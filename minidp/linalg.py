"""Factorisations, systems of equations and norms: PyTorch's names in ``torch.linalg``.

Matrices are the last two axes, all others are a batch. Rules are in ``minidp/ops/linalg.py``.
"""

from __future__ import annotations

import math
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from minidp.backend import backend_of
from minidp.create import arange, as_tensor, eye, zeros
from minidp.errors import ArgumentError, LinAlgError, ShapeError
from minidp.functions import layout, reduce
from minidp.functions import linalg as _linalg
from minidp.functions.arrange import diagonal as _diagonal
from minidp.functions.arrange import tril, triu
from minidp.functions.join import atleast_1d, cat
from minidp.functions.layout import axes_in_order, movedim, unsqueeze
from minidp.functions.linalg import cross as _cross
from minidp.functions.linalg import matmul, matrix_power, multi_dot
from minidp.functions.padding import pad
from minidp.ops import linalg as ops
from minidp.ops.elementwise import abs, maximum, where
from minidp.tensor import Tensor

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot",
    "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "vander",
    "vecdot", "vector_norm",
]  # fmt: skip


class Eigh(NamedTuple):
    """What ``eigh`` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """What ``svd`` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class QR(NamedTuple):
    """What ``qr`` gives."""

    Q: Tensor
    R: Tensor


class Lstsq(NamedTuple):
    """What ``lstsq`` gives; residuals and singular values may be empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _of(first: str, function: Any) -> Any:
    """A function whose first argument is called ``first`` here."""
    return wraps(function)(lambda *args, **named: function(
        *args, *[named.pop(name) for name in (first,) if name in named], **named))  # fmt: skip


det, slogdet, inv = (_of("A", each) for each in (_linalg.det, _linalg.slogdet, _linalg.inverse))
vector_norm = _of("x", reduce.vector_norm)


def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L L^T (or ``upper``: L^T), for symmetric positive A."""
    lower = ops.cholesky(input)
    return layout.transpose(lower, -2, -1) if upper else lower


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X with A X = B (X A = B unless ``left``). B is a vector for each matrix of A, if its
    shape says so, or a matrix.

    >>> dp.linalg.solve(dp.tensor([[2.0, 0.0], [0.0, 4.0]]), dp.tensor([1.0, 2.0]))
    tensor([0.5000, 0.5000])
    """
    if not left:
        turned = solve(A.mT, layout.transpose(B, -2, -1))
        return layout.transpose(turned, -2, -1)
    if B.ndim == 1 or B.shape == A.shape[:-1]:
        return ops.solve(A, unsqueeze(B, -1)).squeeze(-1)
    return ops.solve(A, B)


def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The matrix X with A X = B (X A = B unless ``left``), of A one triangle only; with
    ``unitriangular`` its diagonal counts as ones."""
    half = triu(input, int(unitriangular)) if upper else tril(input, -int(unitriangular))
    if unitriangular:
        half = half + eye(half.shape[-1], dtype=half.dtype, device=half.device)
    return ops.solve(half, B) if left else ops.solve(half.mT, B.mT).mT


def eigh(input: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues, ascending, and eigenvectors (columns) of symmetric matrices."""
    return Eigh(*ops.eigh(input if UPLO == "L" else input.mT))


def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return eigh(input, UPLO).eigenvalues


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """A = U diag(S) Vh; with ``full_matrices`` U and Vh are square: what is added has no gradient.
    ``driver``, a GPU's routine in PyTorch, means nothing."""
    U, S, Vh = ops.svd(A)
    return SVD(_square(U), S, _square(Vh.mT).mT) if full_matrices else SVD(U, S, Vh)


def _square(Q: Tensor) -> Tensor:
    """Orthonormal columns, and what completes them to a basis."""
    rows, columns = Q.shape[-2:]
    if rows == columns:
        return Q
    basis = backend_of(Q.array).xp.linalg.qr(Q.array, mode="complete")[0]
    return cat([Q, Tensor(basis[..., columns:])], -1)


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, descending.

    >>> dp.linalg.svdvals(dp.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    return svd(A, False).S


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R: orthonormal columns and an upper triangle. With ``mode`` "complete" Q is square,
    and what is added has no gradient; with "r" Q is empty."""
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"qr: mode={mode!r}; expected 'reduced', 'complete' or 'r'")
    rows, columns = A.shape[-2:]
    if rows < columns:
        Q, R = ops.qr(A[..., :rows])
        R = cat([R, matmul(Q.mT, A[..., rows:])], -1)
    else:
        Q, R = ops.qr(A)
    if mode == "complete" and rows > columns:
        Q, R = _square(Q), pad(R, (0, 0, 0, rows - columns))
    return QR(zeros(0, dtype=A.dtype, device=A.device) if mode == "r" else Q, R)


def _limits(A: Tensor, largest: Tensor, atol: Any, rtol: Any) -> Any:
    """Up to where singular values count as 0: ``atol``, or ``rtol`` of the largest if that is
    more; by default the precision times the larger size, or 0 where there is an ``atol``."""
    if rtol is None:
        rounding = max(A.shape[-2:]) * float(np.finfo(A.dtype).eps)
        rtol = rounding if atol is None else where(as_tensor(atol) > 0, 0.0, rounding)
    return maximum(largest * rtol, 0.0 if atol is None else atol)


def pinv(
    input: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:  # fmt: skip
    """The pseudoinverse; singular values up to ``atol``, or ``rtol`` (also ``rcond``) of the
    largest, count as 0. ``hermitian``: A is symmetric, and its lower triangle counts."""
    input = tril(input) + tril(input, -1).mT if hermitian else input
    rtol = rcond if rtol is None else rtol
    if input.numel() == 0 or (atol is None and not isinstance(rtol, Tensor)):
        rounding = max(input.shape[-2:]) * float(np.finfo(input.dtype).eps)
        return ops.pinv(input, rcond=rounding if rtol is None or input.numel() == 0 else rtol)
    largest = svdvals(input.detach()).amax(-1)
    part = _limits(input, largest, atol, rtol) / where(largest > 0, largest, 1.0)
    part._read()
    return ops.pinv(input, rcond=part.array)


def matrix_rank(
    input: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:  # fmt: skip
    """How many singular values are above ``atol`` (also ``tol``) and ``rtol`` of the largest.
    ``hermitian``: A is symmetric, which changes nothing."""
    s = svdvals(input.detach())
    if s.shape[-1] == 0:
        return s.sum(-1).long()
    limit = _limits(input, s[..., 0], tol if atol is None else atol, rtol)
    return (s > unsqueeze(limit, -1)).sum(-1)


def cond(input: Tensor, p: Any = None) -> Tensor:
    """The norm of A times that of its inverse; for the 2-norm, the largest singular value over the
    smallest."""
    if p not in (None, 2, -2):
        return matrix_norm(input, p) * matrix_norm(inv(input), p)
    s = svdvals(input)
    if s.shape[-1] == 0:
        return s.detach().sum(-1)
    first, last = s.select(-1, 0), s.select(-1, -1)
    return last / first if p == -2 else first / last


def lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: Any = "gelsy") -> Lstsq:
    """The X for which |A X - B| is least (and of these the shortest). ``driver``, LAPACK's routine
    in PyTorch, only says which results beside X are there."""
    if (driver := driver or "gelsy") not in ("gels", "gelsy", "gelsd", "gelss"):
        raise ArgumentError(f"lstsq: driver={driver!r}; expected gels, gelsy, gelsd or gelss")
    vector = b.ndim == 1 or b.shape == input.shape[:-1]
    right = unsqueeze(b, -1) if vector else b
    x = matmul(pinv(input, rcond), right)
    none, rank = zeros(0, dtype=input.dtype, device=input.device), matrix_rank(input, rtol=rcond)
    left = matmul(input, x).detach() - right.detach()
    rows, columns = input.shape[-2:]
    full = rows > columns and bool((rank == columns).all()) and driver != "gelsy"
    return Lstsq(
        x.squeeze(-1) if vector else x, (left * left).sum(-2) if full else none,
        none.long() if driver == "gels" else rank,
        svdvals(input.detach()) if driver in ("gelsd", "gelss") else none,
    )  # fmt: skip


def matrix_norm(input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
                dtype: Any = None) -> Tensor:  # fmt: skip
    """Frobenius ("fro"), nuclear ("nuc": sum of singular values), 2 (the largest) or -2 (the
    smallest), 1 and -1 of the sums of columns, inf and -inf of the sums of rows."""
    axes = axes_in_order("matrix_norm", dim, input.ndim)
    if len(set(axes)) != 2:
        raise ShapeError(f"matrix_norm: expected two axes, got {dim}")
    x = movedim(input if dtype is None else input.to(dtype), axes, [-2, -1])
    if ord == "fro":
        y = vector_norm(x, 2, (-2, -1))
    elif ord == "nuc":
        y = svdvals(x).sum(-1)
    else:
        many = svdvals(x) if ord in (2, -2) else abs(x).sum(-2 if ord in (1, -1) else -1)
        if ord > 0 and not many.shape[-1]:
            many = many.new_zeros((*many.shape[:-1], 1))
        y = (reduce.amax if ord > 0 else reduce.amin)(many, dim=-1)
    for axis in sorted(axes) if keepdim else ():
        y = unsqueeze(y, axis)
    return y


def norm(
    input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:  # fmt: skip
    """The 2-norm of all values; with ``ord`` a vector's or a matrix's, as there are axes."""
    count = input.ndim if dim is None else len(dim) if isinstance(dim, (tuple, list)) else 1
    if ord is not None and dim is None and input.ndim not in (1, 2):
        raise ShapeError(f"norm of order {ord} of {input.shape}: give dim, one axis or two")
    if isinstance(ord, str) or (ord is not None and count == 2):
        return matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def matrix_exp(A: Tensor) -> Tensor:
    """e^A = sum A^k / k!, of A halved so often that few terms suffice, and squared as often."""
    size = float(abs(A.detach()).sum(-2).amax().item()) if A.numel() else 0.0
    if not math.isfinite(size):
        return A * math.nan
    halvings = max(0, math.ceil(math.log2(size)) + 2) if size > 0 else 0
    x = A / 2**halvings
    one = eye(A.shape[-1], dtype=A.dtype, device=A.device)
    y = one + x / 18
    for k in range(17, 0, -1):
        y = one + matmul(x, y) / k
    for _ in range(halvings):
        y = matmul(y, y)
    return y


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The products of vectors along an axis."""
    if x.ndim == y.ndim == 1 and x.shape != y.shape:
        raise ShapeError(f"vecdot({x.shape}, {y.shape}): expected vectors of one length")
    return (x * y).sum(dim)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Vandermonde's matrices: the powers 0 ... N - 1 of each number, as rows."""
    count = x.shape[-1] if N is None else N
    return unsqueeze(atleast_1d(x), -1) ** arange(count, device=x.device)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along an axis of length 3."""
    return _cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of two axes, as the last axis; a view."""
    return _diagonal(A, offset, dim1, dim2)
