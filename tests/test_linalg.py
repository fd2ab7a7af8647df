"""Products, einsum, factorisations and norms: values, derivatives and errors are PyTorch's."""

import numpy as np
import pytest

import minidp as dp
from minidp import linalg
from minidp.errors import LinAlgError, ShapeError
from minidp.testing import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
A = [[1.0, 2.0], [3.0, 4.0]]
PLACES = ["cpu", "emu:0"]


def random(*shape):
    return dp.tensor(RNG.standard_normal(shape), requires_grad=True)


PRODUCTS = [
    (lambda a, v: a @ a, [[7, 10], [15, 22]]),
    (lambda a, v: dp.mm(input=a, mat2=a), [[7, 10], [15, 22]]),
    (lambda a, v: dp.mv(a, vec=v), [-1, -1]),
    (lambda a, v: v @ a, [-2, -2]),
    (lambda a, v: dp.dot(v, tensor=v), 2),
    (lambda a, v: dp.bmm(a.unsqueeze(0), a.unsqueeze(0)), [[[7, 10], [15, 22]]]),
    (lambda a, v: dp.outer(v, v), [[1, -1], [-1, 1]]),
    (lambda a, v: dp.inner(a, v), [-1, -1]),
    (lambda a, v: dp.addmm(v, a, a, beta=2, alpha=0.5), [[5.5, 3], [9.5, 9]]),
    (lambda a, v: dp.addmm(a * float("nan"), a, a, beta=0), [[7, 10], [15, 22]]),
    (lambda a, v: dp.addmv(v, a, v), [0, -2]),
    (lambda a, v: dp.baddbmm(v, a[None], a[None]), [[[8, 9], [16, 21]]]),
    (lambda a, v: dp.addbmm(v, a[None], a[None]), [[8, 9], [16, 21]]),
    (lambda a, v: dp.tensordot(a, a, dims=1), [[7, 10], [15, 22]]),
    (lambda a, v: dp.tensordot(a, a, dims=([0, 1], [1, 0])), 29),
    (lambda a, v: dp.kron(v, a), [[1, 2, -1, -2], [3, 4, -3, -4]]),
    (lambda a, v: dp.trace(a), 5),
    (lambda a, v: dp.cross(dp.cat([v, v[:1]]), dp.cat([v[:1], v]), dim=0), [0, 2, 2]),
    (lambda a, v: dp.matrix_power(a, 3), [[37, 54], [81, 118]]),
    (lambda a, v: dp.matrix_power(a, 0), [[1, 0], [0, 1]]),
    (lambda a, v: linalg.multi_dot([v, a, a]), [-8, -12]),
    (lambda a, v: dp.einsum("ij,jk", a, a), [[7, 10], [15, 22]]),
    (lambda a, v: dp.einsum("ii->i", a), [1, 4]),
    (lambda a, v: dp.einsum("ba", a), [[1, 3], [2, 4]]),
    (lambda a, v: dp.einsum("i j, j -> i", a, v), [-1, -1]),
    (lambda a, v: dp.einsum("...j,j->...", a, v), [-1, -1]),
    (lambda a, v: dp.einsum("ij,jk,k->i", a, a, v), [-3, -7]),
    (lambda a, v: dp.einsum(a, [0, 1], v, [1], [0]), [-1, -1]),
    (lambda a, v: dp.einsum("ij,ij->j", a, v.unsqueeze(1)), [-2, -2]),
    (lambda a, v: dp.einsum("iij->j", a.expand(2, 2, 2)), [4, 6]),
]


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("case", range(len(PRODUCTS)))
def test_products(case, device):
    function, expected = PRODUCTS[case]
    a, v = dp.tensor(A, device=device), dp.tensor([1.0, -1.0], device=device)
    assert function(a, v).tolist() == expected
    if device == "cpu" and case != 9:
        gradcheck(function, [random(2, 2), random(2)])


@pytest.mark.parametrize("wrong, text", [
    (lambda a, b: dp.mm(a, b[0]), "two matrices"), (lambda a, b: a @ b.T, "axis 'k'"),
    (lambda a, b: dp.dot(a, b), "two vectors"), (lambda a, b: dp.bmm(a, b), "batches"),
    (lambda a, b: dp.tensordot(a, b, 2), "differ"), (lambda a, b: dp.addmm(a[:, :1].T, a, b),
                                                     "only axes of length 1"),
    (lambda a, b: dp.einsum("ij,jk->il", a, b), "the result"),
    (lambda a, b: dp.einsum("ij,kj->ik", a, b), "'j' has"),
    (lambda a, b: dp.einsum("ijk,jk", a, b), "'ijk' for an operand with 2 axes"),
    (lambda a, b: dp.einsum("ij", a, b), r"names 1 operand\(s\), 2 given"),
    (lambda a, b: linalg.inv(a), "inv"), (lambda a, b: dp.trace(a[0]), "expected a matrix"),
])  # fmt: skip
def test_wrong_shapes(wrong, text):
    with pytest.raises(ShapeError, match=text):
        wrong(dp.ones(2, 3), dp.ones(3, 4))


def spread(x):
    """A symmetric positive definite matrix of any x."""
    return x @ x.mT + dp.eye(x.shape[-1], dtype=x.dtype)


def squares(tensors):
    """Of vectors whose signs may change from one x to the next."""
    return [y * y for y in tensors]


FACTORS = {
    "inv": linalg.inv, "det": linalg.det, "qr": linalg.qr, "pinv": linalg.pinv,
    "solve": lambda x: linalg.solve(x, x * 2 + 1), "cond": linalg.cond,
    "solve a vector": lambda x: linalg.solve(x, x[..., 0]),
    "solve from the right": lambda x: linalg.solve(x, x + 1, left=False),
    "slogdet": lambda x: linalg.slogdet(x).logabsdet, "logdet": lambda x: dp.logdet(spread(x)),
    "cholesky": lambda x: linalg.cholesky(spread(x)), "svd": lambda x: squares(linalg.svd(x)),
    "upper": lambda x: linalg.cholesky(spread(x), upper=True),
    "eigh": lambda x: squares(linalg.eigh(spread(x))),
    "eigvalsh": lambda x: linalg.eigvalsh(spread(x)),
    "lstsq": lambda x: linalg.lstsq(x, x[..., :1]).solution,
    "nuclear": lambda x: linalg.norm(x, "nuc", dim=(-2, -1)),
    "matrix norm": lambda x: linalg.matrix_norm(x, 2, keepdim=True),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("shape", [(2, 2), (2, 3, 3)], ids=str)
def test_derivatives_of_factorisations(name, shape):
    x = dp.tensor(np.random.default_rng(1).standard_normal(shape), requires_grad=True)
    gradcheck(FACTORS[name], x)
    gradgradcheck(FACTORS[name], x)


@pytest.mark.parametrize("device", PLACES)
def test_factorisations(device):
    x = dp.tensor([[4.0, 2.0], [2.0, 3.0]], device=device, dtype=dp.float64)
    eye = np.eye(2)
    close = np.testing.assert_allclose
    close((linalg.inv(x) @ x).numpy(), eye, atol=1e-12)
    close(linalg.cholesky(x).tolist(), [[2, 0], [1, 2**0.5]])
    assert linalg.det(x).item() == pytest.approx(8)
    sign, value = (-x).slogdet()
    assert (sign.item(), value.item()) == (1, pytest.approx(np.log(8)))
    w, v = linalg.eigh(x)
    close((v * w @ v.mT).numpy(), x.numpy())
    u, s, vh = linalg.svd(x)
    close((u * s @ vh).numpy(), x.numpy())
    q, r = linalg.qr(x)
    close((q @ r).numpy(), x.numpy(), atol=1e-12)
    close(linalg.solve(x, x[0]).tolist(), [1, 0], atol=1e-12)
    close(linalg.pinv(x[:, :1]).tolist(), [[0.2, 0.1]])
    assert linalg.matrix_rank(x * 0 + 1).item() == 1


def test_norms():
    a = dp.tensor(A)
    expected = {"fro": 30**0.5, 1: 6, -1: 4, float("inf"): 7, -float("inf"): 3, 2: 5.46499}
    for order, value in expected.items():
        assert linalg.matrix_norm(a, order).item() == pytest.approx(value, rel=1e-5)
    assert linalg.norm(a).item() == pytest.approx(30**0.5)
    assert linalg.norm(a, dim=1, keepdim=True).shape == (2, 1)
    assert linalg.vector_norm(a, 1).item() == 10


def test_singular_matrices():
    x = dp.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    with pytest.raises(LinAlgError, match=r"inv: .*ingular.*\(2, 2\)"):
        linalg.inv(x)
    with pytest.raises(LinAlgError, match=r"cholesky: .*positive definite"):
        linalg.cholesky(-x)
    assert [y.item() for y in linalg.slogdet(x.detach())] == [0, -float("inf")]
    linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4, -2], [-2, 1]], atol=1e-5)  # the cofactors
    assert np.isnan(dp.logdet(dp.tensor([[-1.0]])).item())
