"""Factorisations, systems of equations and norms: PyTorch's names in ``torch.linalg``.

Matrices are the last two axes, all others are a batch. Rules are in ``minidp/ops/linalg.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minidp.create import eye
from minidp.errors import LinAlgError, ShapeError
from minidp.functions import layout, reduce
from minidp.functions.arrange import diagonal as _diagonal
from minidp.functions.arrange import tril, triu
from minidp.functions.layout import axes_in_order, movedim, unsqueeze
from minidp.functions.linalg import cross as _cross
from minidp.functions.linalg import det, inverse, matmul, matrix_power, multi_dot, slogdet
from minidp.functions.reduce import vector_norm
from minidp.ops import linalg as ops
from minidp.ops.elementwise import abs
from minidp.tensor import Tensor

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv",
    "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "vector_norm",
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
    """What ``lstsq`` gives; residuals and singular values are empty, as PyTorch's are."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


inv = inverse


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L L^T (or ``upper``: L^T), for symmetric positive A."""
    lower = ops.cholesky(A)
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
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The matrix X with A X = B (X A = B unless ``left``), of A one triangle only; with
    ``unitriangular`` its diagonal counts as ones."""
    half = triu(A, int(unitriangular)) if upper else tril(A, -int(unitriangular))
    half = half + eye(A.shape[-1], dtype=A.dtype, device=A.device) if unitriangular else half
    return ops.solve(half, B) if left else ops.solve(half.mT, B.mT).mT


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues, ascending, and eigenvectors (columns) of symmetric matrices."""
    return Eigh(*ops.eigh(A if UPLO == "L" else A.mT))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return eigh(A, UPLO).eigenvalues


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """A = U diag(S) Vh; ``full_matrices`` for square A only."""
    if full_matrices and A.shape[-2] != A.shape[-1]:
        raise ShapeError(f"svd({A.shape}): U and Vh are not both square; give full_matrices=False")
    return SVD(*ops.svd(A))


def svdvals(A: Tensor) -> Tensor:
    """The singular values, descending.

    >>> dp.linalg.svdvals(dp.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    return svd(A, False).S


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R: orthonormal columns and an upper triangle."""
    if mode != "reduced":
        raise ValueError(f"qr: mode {mode!r} is not there; expected 'reduced'")
    return QR(*ops.qr(A))


def pinv(A: Tensor, *, rtol: float | None = None) -> Tensor:
    """The pseudoinverse; singular values below ``rtol`` of the largest count as 0."""
    limit = max(A.shape[-2:]) * float(np.finfo(A.dtype).eps) if rtol is None else rtol
    return ops.pinv(A, rcond=limit)


def matrix_rank(A: Tensor, *, rtol: float | None = None) -> Tensor:
    """How many singular values are above ``rtol`` of the largest."""
    limit = max(A.shape[-2:]) * float(np.finfo(A.dtype).eps) if rtol is None else rtol
    s = svdvals(A.detach())
    return (s > s[..., :1] * limit).sum(-1)


def cond(A: Tensor) -> Tensor:
    """The largest singular value over the smallest."""
    s = svdvals(A)
    return s.select(-1, 0) / s.select(-1, -1)


def lstsq(A: Tensor, B: Tensor) -> Lstsq:
    """The X for which |A X - B| is least (and of these the shortest)."""
    vector = B.ndim == 1 or B.shape == A.shape[:-1]
    x = matmul(pinv(A), unsqueeze(B, -1) if vector else B)
    x = x.squeeze(-1) if vector else x
    none = Tensor(np.zeros(0, A.dtype))
    return Lstsq(x, none, matrix_rank(A), none)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """Frobenius ("fro"), nuclear ("nuc": sum of singular values), 2 (the largest) or -2 (the
    smallest), 1 and -1 of the sums of columns, inf and -inf of the sums of rows."""
    axes = axes_in_order("matrix_norm", dim, A.ndim)
    if len(set(axes)) != 2:
        raise ShapeError(f"matrix_norm: expected two axes, got {dim}")
    x = movedim(A, axes, [-2, -1])
    if ord == "fro":
        y = vector_norm(x, 2, (-2, -1))
    elif ord in ("nuc", 2, -2):
        s = svdvals(x)
        y = s.sum(-1) if ord == "nuc" else s.select(-1, 0 if ord > 0 else -1)
    else:
        sums = abs(x).sum(-2 if ord in (1, -1) else -1)
        y = (reduce.amax if ord > 0 else reduce.amin)(sums, dim=-1)
    for axis in sorted(axes) if keepdim else ():
        y = unsqueeze(y, axis)
    return y


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The 2-norm of all values; with ``ord`` a vector's or a matrix's, as there are axes."""
    count = A.ndim if dim is None else len(dim) if isinstance(dim, (tuple, list)) else 1
    if ord is not None and dim is None and A.ndim not in (1, 2):
        raise ShapeError(f"norm of order {ord} of {A.shape}: give dim, one axis or two")
    if isinstance(ord, str) or (ord is not None and count == 2):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along an axis of length 3."""
    return _cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of two axes, as the last axis; a view."""
    return _diagonal(A, offset, dim1, dim2)
