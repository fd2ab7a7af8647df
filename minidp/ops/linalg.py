"""Linear algebra: products of matrices, and the factorisations that systems are solved with.

The rules of factorisations are those of Giles 2008, "An extended collection of matrix derivative
results", and Seeger et al. 2017, arXiv:1710.08717.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from minidp.errors import DTypeError, LinAlgError
from minidp.op import op
from minidp.ops.adjoint import given
from minidp.ops.elementwise import full_like
from minidp.ops.layout import put_diagonal, reshape, triangle
from minidp.ops.reduce import sum
from minidp.types import Array


def flipped(x: Any) -> Any:
    """The last two axes exchanged."""
    return x.swapaxes(-2, -1)


@op("... i k, ... k j -> ... i j",
    a=lambda g, b: matmul(g, flipped(b)), b=lambda g, a: matmul(flipped(a), g))  # fmt: skip
def matmul(xp: Any, a: Array, b: Array) -> Array:
    """Matrix product over the last two axes, the others broadcast: y_ij = sum_k a_ik b_kj."""
    return a * b if a.shape[-1] == 1 and a.dtype.kind == "f" else xp.matmul(a, b)


@op("n c, k c, k -> n k",
    x=lambda g, w: matmul(g, w), w=lambda g, x: matmul(flipped(g), x),
    b=lambda g: sum(g, dim=0, keepdim=False))  # fmt: skip
def linear(xp: Any, x: Array, w: Array, b: Array = None) -> Array:
    """Affine map of rows: y = x w^T + b."""
    y = xp.matmul(x, w.T)
    return y if b is None else y + b


def solved(name: str, function: Callable[..., Any], *arrays: Array) -> Any:
    """What ``function`` of NumPy's linear algebra gives; a LinAlgError that names the op."""
    try:
        return function(*arrays)
    except (np.linalg.LinAlgError, TypeError) as error:
        kind = DTypeError if isinstance(error, TypeError) else LinAlgError
        raise kind(f"{name}: {error}, in {arrays[0].shape}") from error


@op("f:... n n -> ... n n", x=lambda g, y: -matmul(flipped(y), matmul(g, flipped(y))))
def inv(xp: Any, x: Array) -> Array:
    """Inverse: y = x^-1; dy = -y dx y."""
    return solved("inv", xp.linalg.inv, x)


@op("f:... n n, f:... n k -> ... n k",
    a=lambda g, a, y: -matmul(solve(flipped(a), g), flipped(y)),
    b=lambda g, a: solve(flipped(a), g))  # fmt: skip
def solve(xp: Any, a: Array, b: Array) -> Array:
    """The y with a y = b; dy = a^-1 (db - da y)."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # which CuPy leaves to its caller
    wide = (xp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    return solved("solve", xp.linalg.solve, *wide)


@op("f:... n n -> ...", x=lambda g, x: reshape(g, shape=(*g.shape, 1, 1)) * cofactors(x))
def det(xp: Any, x: Array) -> Array:
    """Determinant; its derivative is the matrix of cofactors."""
    return xp.where(xp.isnan(x).any(axis=(-2, -1)), xp.nan, xp.linalg.det(x))  # LAPACK: 0


def _cofactors_rule(g: Any, x: Any) -> Any:
    y = flipped(inv(x))
    inner = reshape(sum(g * y, dim=(-2, -1)), shape=(*g.shape[:-2], 1, 1))
    whole = reshape(det(x), shape=(*g.shape[:-2], 1, 1))
    return whole * (inner * y - matmul(y, matmul(flipped(g), y)))


@op("f:... n n -> ... n n", x=_cofactors_rule)
def cofactors(xp: Any, x: Array) -> Array:
    """det(x) x^-T, also of a singular x: with x = u s v, det(u v) u (prod_j!=i s_j)_i v."""
    u, s, v = solved("det", xp.linalg.svd, x)
    others = xp.where(xp.eye(s.shape[-1], dtype=bool), 1, s[..., None, :]).prod(axis=-1)
    sign = (xp.linalg.det(u) * xp.linalg.det(v))[..., None, None]
    return sign * xp.matmul(u * others[..., None, :], v)


@op("f:... n n -> ..., ...", outputs="sign logabs",
    x=lambda g, x, logabs: reshape(given(g, 1, logabs), shape=(*logabs.shape, 1, 1))
    * flipped(inv(x)))  # fmt: skip
def slogdet(xp: Any, x: Array) -> tuple[Array, Array]:
    """The sign of det x, whose derivative is 0, and log |det x|, without overflow: x^-T."""
    return xp.linalg.slogdet(x)


def _cholesky_rule(g: Any, y: Any) -> Any:
    lower = triangle(matmul(flipped(y), g), offset=0, upper=False)
    middle = 0.5 * (lower + flipped(triangle(lower, offset=-1, upper=False)))
    return solve(flipped(y), flipped(solve(flipped(y), flipped(middle))))


@op("f:... n n -> ... n n", x=_cholesky_rule)
def cholesky(xp: Any, x: Array) -> Array:
    """The lower triangular y with x = y y^T, for symmetric positive definite x."""
    return solved("cholesky", xp.linalg.cholesky, x)


def diagonals(x: Any) -> Any:
    """Square matrices with x on their diagonals."""
    return put_diagonal(x, shape=(*x.shape, x.shape[-1]), offset=0, axes=(-2, -1))


def gaps(values: Any) -> Any:
    """f_ij = 1 / (values_j - values_i), 0 on the diagonal."""
    one = diagonals(full_like(values, 1))
    row, column = row_and_column(values)
    return 1 / (row - column + one) - one


def row_and_column(values: Any) -> tuple[Any, Any]:
    """Vectors as matrices with one row, and with one column."""
    *batch, n = values.shape
    return reshape(values, shape=(*batch, 1, n)), reshape(values, shape=(*batch, n, 1))


def _eigh_rule(g: Any, w: Any, v: Any) -> Any:
    middle = 0.0 if g.get(0) is None else diagonals(g[0])
    if g.get(1) is not None:
        inner = matmul(flipped(v), g[1])
        middle = middle + gaps(w) * (inner - flipped(inner)) / 2
    return matmul(v, matmul(middle, flipped(v)))


@op("f:... n n -> ... n, ... n n", outputs="w v", x=_eigh_rule)
def eigh(xp: Any, x: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors (columns) of symmetric matrices: x v = v w."""
    return solved("eigh", xp.linalg.eigh, x)


def _svd_rule(g: Any, u: Any, s: Any, v: Any) -> Any:
    """With f = gaps(s^2): u (f * skew(u^T gu) s + s f * skew(v gv^T) + gs) v, and what of gu and gv
    lies outside of the spaces that u and v span."""
    row, column = row_and_column(s)
    middle: Any = 0.0 if g.get(1) is None else diagonals(g[1])
    outside: Any = 0.0
    if g.get(0) is not None:
        inner = matmul(flipped(u), g[0])
        middle = middle + gaps(s * s) * (inner - flipped(inner)) * row
        outside = matmul((g[0] - matmul(u, inner)) / row, v)
    if g.get(2) is not None:
        inner = matmul(v, flipped(g[2]))
        middle = middle + column * gaps(s * s) * (inner - flipped(inner))
        outside = outside + matmul(u, (g[2] - matmul(flipped(inner), v)) / column)
    return matmul(u, matmul(middle, v)) + outside


@op("f:... m n -> ... m k, ... k, ... k n", outputs="u s v", x=_svd_rule)
def svd(xp: Any, x: Array) -> tuple[Array, Array, Array]:
    """x = u diag(s) v with orthonormal columns of u, rows of v, and s descending."""
    return solved("svd", lambda a: xp.linalg.svd(a, full_matrices=False), x)


def _qr_rule(g: Any, x_shape: Any, q: Any, r: Any) -> Any:
    if x_shape[-2] < x_shape[-1]:
        raise LinAlgError(f"qr: no derivative for {x_shape}, with more columns than rows")
    dq, dr = given(g, 0, q), given(g, 1, r)
    product = matmul(r, flipped(dr)) - matmul(flipped(dq), q)
    lower = triangle(product, offset=-1, upper=False)
    middle = triangle(product, offset=0, upper=False) + flipped(lower)
    return flipped(solve(r, flipped(matmul(q, middle) + dq)))


@op("f:... m n -> ... m k, ... k n", outputs="q r", x=_qr_rule)
def qr(xp: Any, x: Array) -> tuple[Array, Array]:
    """x = q r, with orthonormal columns of q and an upper triangular r."""
    return solved("qr", xp.linalg.qr, x)


def _pinv_rule(g: Any, x: Any, y: Any) -> Any:
    turned, back = flipped(g), flipped(y)
    left = turned - matmul(x, matmul(y, turned))
    right = turned - matmul(turned, matmul(y, x))
    return (matmul(left, matmul(y, back)) + matmul(back, matmul(y, right))
            - matmul(back, matmul(g, back)))  # fmt: skip


@op("f:... m n -> ... n m", x=_pinv_rule)
def pinv(xp: Any, x: Array, rcond: float) -> Array:
    """Pseudoinverse, with singular values below ``rcond`` of the largest as 0. Source: Golub and
    Pereyra 1973, "The differentiation of pseudo-inverses"."""
    return solved("pinv", lambda a: xp.linalg.pinv(a, rcond), x)
