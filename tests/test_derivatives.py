"""Derivatives of functions, and functions that are computed again in backward.

Literal expectations follow from the formulas; signs, shapes and nesting are PyTorch 2.13's.
"""

import gc
import weakref

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim
from minidp.errors import GraphError, ShapeError
from minidp.testing import gradcheck, gradgradcheck


def close(x, expected):
    assert x.shape == np.shape(expected)
    np.testing.assert_allclose(x.detach().numpy(), expected, rtol=1e-12, atol=1e-14)


# vjp, jvp, jacobian, hessian ------------------------------------------------------------------

A, B = wave(2, 3), wave(3, phase=2)


def product(a, b):
    return a @ b


def two(a, b):
    return (a * b).sum(), b * b


def test_jacobians_are_nested_like_inputs_and_outputs():
    a, b = dp.tensor(A), dp.tensor(B)
    da, db = dp.jacobian(product, (a, b))
    close(da, np.einsum("ij,k->ijk", np.eye(2), B))
    close(db, A)
    (sa, sb), (ya, yb) = dp.jacobian(two, (a, b))
    close(sa, np.tile(B, (2, 1)))
    close(sb, A.sum(0))
    close(ya, np.zeros((3, 2, 3)))
    close(yb, np.diag(2 * B))
    close(dp.jacobian(lambda b: b**3, b), np.diag(3 * B**2))
    assert not a.requires_grad and a.grad is None and not da.requires_grad
    assert dp.jacobian(lambda x: x * x, dp.ones(0)).shape == (0, 0)
    with dp.no_grad():
        close(dp.jacobian(lambda b: b * b, b), np.diag(2 * B))
    there = dp.jacobian(lambda b: b * b, b.to("emu:0"))
    assert str(there.device) == "emu:0"
    close(there.cpu(), np.diag(2 * B))


def test_products_with_vectors():
    a, b, v = dp.tensor(A), dp.tensor(B), dp.tensor(wave(2, phase=5))
    y, (ga, gb) = dp.vjp(product, (a, b), v)
    close(y, A @ B)
    close(ga, np.outer(v.numpy(), B))
    close(gb, v.numpy() @ A)
    y, dy = dp.jvp(product, (a, b), (a + 1, b - 1))
    close(y, A @ B)
    close(dy, (A + 1) @ B + A @ (B - 1))
    _, (ds, dsquare) = dp.jvp(two, (a, b), (a, b))
    close(ds, 2 * (A * B).sum())
    close(dsquare, 2 * B * B)
    close(dp.vjp(lambda b: (b**3).sum(), b)[1], 3 * B**2)
    close(dp.jvp(lambda b: b * 2, b, b)[1], 2 * B)


def test_hessians():
    b = dp.tensor(B)
    close(dp.hessian(lambda b: (b**3).sum(), b), np.diag(6 * B))
    (haa, hab), (hba, hbb) = dp.hessian(lambda a, b: (a @ b).sum() + (b**2).sum(),
                                        (dp.tensor(A), b))  # fmt: skip
    close(haa, np.zeros((2, 3, 2, 3)))
    close(hab, np.tile(np.eye(3), (2, 1, 1)))
    close(hba, np.transpose(np.tile(np.eye(3), (2, 1, 1)), (1, 0, 2)).transpose(2, 1, 0))
    close(hbb, 2 * np.eye(3))
    for function in (dp.vhp, dp.hvp):
        y, product = function(lambda b: (b**3).sum(), b, b + 1)
        close(y, (B**3).sum())
        close(product, 6 * B * (B + 1))


def test_derivatives_have_derivatives_with_create_graph():
    b = leaf(3)
    dp.hessian(lambda b: (b**4).sum(), b, create_graph=True).sum().backward()
    close(b.grad, 24 * wave(3))
    b = leaf(3)
    dp.jvp(lambda b: b**3, b, dp.ones(3, dtype="float64"), create_graph=True)[1].sum().backward()
    close(b.grad, 6 * wave(3))
    assert gradcheck(lambda b: dp.jacobian(lambda x: x.exp() * x, b, create_graph=True), leaf(3))


def test_what_does_not_depend_is_zero_or_with_strict_an_error():
    a, b = dp.tensor(A), dp.tensor(B)
    close(dp.jacobian(lambda a, b: (a * a).sum(), (a, b))[1], np.zeros(3))
    close(dp.jacobian(lambda b: dp.ones(2), b), np.zeros((2, 3)))
    close(dp.hessian(lambda b: b.sum(), b), np.zeros((3, 3)))
    close(dp.jvp(lambda b: b.detach() * 1, b, b)[1], np.zeros(3))
    for call in (lambda: dp.jacobian(lambda a, b: (a * a).sum(), (a, b), strict=True),
                 lambda: dp.vjp(lambda b: b.detach().sum(), b, strict=True),
                 lambda: dp.jvp(lambda b: b.detach(), b, b, strict=True),
                 lambda: dp.hessian(lambda b: b.sum(), b, strict=True)):  # fmt: skip
        with pytest.raises(GraphError, match="does not depend on an input"):
            call()


def test_vectors_and_functions_that_do_not_fit():
    b = dp.tensor(B)
    cases = [
        (lambda: dp.vjp(lambda b: b, b), ShapeError, "vjp: the vector v can only be left out"),
        (lambda: dp.jvp(lambda b: b, b), ShapeError, "jvp: the vector v"),
        (lambda: dp.vjp(lambda b: b, b, dp.ones(2)), ShapeError, r"\(2,\).*expected.*\(3,\)"),
        (lambda: dp.hessian(lambda b: b, b), ShapeError, "hessian: .*a single element"),
        (lambda: dp.vhp(lambda b: (b.sum(), b), b, b), ShapeError, "vhp: .*one Tensor"),
        (lambda: dp.jacobian(lambda b: 3.0, b), TypeError, "must give a Tensor"),
        (lambda: dp.jacobian(lambda b: b, [1.0]), TypeError, "inputs must be"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()


# checkpoint -----------------------------------------------------------------------------------


def gradients(function, *leaves):
    for each in leaves:
        each.grad = None
    function().backward()
    return [each.grad.numpy().copy() for each in leaves]


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_are_those_without_a_checkpoint():
    """Of arguments, of what the function refers to, leaf or computed, and through keywords."""
    x, w = leaf(4, 3), leaf(3, 3, phase=1)

    def total(run):
        z = w * w

        def part(x, power=1.0):
            return ((x @ w).tanh() @ z).exp() ** power, x.sum()

        a, b = run(part, x, power=2.0)
        return (a * a).sum() + b

    def direct(function, *args, **kwargs):
        return function(*args, **kwargs)

    same(gradients(lambda: total(direct), x, w), gradients(lambda: total(dp.checkpoint), x, w))
    first, second = (
        dp.grad(sum((g**3).sum() for g in dp.grad(total(run), [x, w], create_graph=True)), [x, w])
        for run in (direct, dp.checkpoint)
    )
    same([g.numpy() for g in first], [g.numpy() for g in second])
    assert gradgradcheck(lambda x: dp.checkpoint(lambda x: x.tanh() * x.exp(), x), leaf(3))


def test_checkpoints_nest():
    x, w = leaf(4, 3), leaf(3)

    def inner(t):
        return (t.tanh() * w).exp()

    def outer(t):
        return dp.checkpoint(inner, t.sin(), use_reentrant=False) * dp.checkpoint(dp.cos, t)

    same(gradients(lambda: ((x.sin().tanh() * w).exp() * x.cos()).sum(), x, w),
         gradients(lambda: dp.checkpoint(outer, x).sum(), x, w))  # fmt: skip


def test_intermediate_values_live_only_while_they_are_needed():
    kept, calls = [], []

    def part(x):
        hidden = x.exp()
        kept.append(weakref.ref(hidden.array))
        calls.append(1)
        return hidden.sin()

    x = leaf(5)
    gc.disable()
    try:
        y = dp.checkpoint(part, x)
        assert kept[0]() is None and len(calls) == 1
        y.sum().backward()
        assert kept[1]() is not None or len(calls) == 2
        del y
        assert kept[1]() is None
    finally:
        gc.enable()
    with dp.no_grad():
        assert not dp.checkpoint(part, x).requires_grad
    assert not dp.checkpoint(part, x.detach()).requires_grad


def test_a_kept_graph_can_be_walked_twice():
    x = leaf(3)
    y = dp.checkpoint(lambda x: x.exp().sin(), x).sum()
    y.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * once)
    with pytest.raises(GraphError, match="was freed"):
        y.backward()


def test_random_numbers_are_drawn_again_as_they_were():
    x, w = leaf(6, 3), leaf(3)

    def part(x):
        return nn.functional.dropout(nn.functional.dropout(x, 0.5) * w, 0.3)

    results = []
    for run in (part, lambda x: dp.checkpoint(part, x)):
        dp.manual_seed(3)
        results.append([*gradients(lambda run=run: run(x).sum(), x, w), dp.rand(2).numpy()])
    same(*results)
    dp.manual_seed(3)
    dp.checkpoint(part, x, preserve_rng_state=False).sum().backward()


def test_a_function_that_computes_something_else_is_found_out():
    calls = []

    def part(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x.exp().sin()

    with pytest.raises(GraphError, match="recorded 2 ops in backward and 1 in forward"):
        dp.checkpoint(part, leaf(2)).sum().backward()

    def changed(x):
        return x.exp()

    x = leaf(3).detach().requires_grad_()
    y = dp.checkpoint(lambda x: (x * x).exp(), x)
    with dp.no_grad():
        x.fill_(1.0)
    with pytest.raises(GraphError, match="changed in place"):
        y.sum().backward()


class Net(nn.Module):
    """Three layers with dropout, the middle ones under a checkpoint or not."""

    def __init__(self, again):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)
        self.middle = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.4), nn.LayerNorm(8))
        self.again = again

    def forward(self, x):
        x = self.first(x).tanh()
        return self.last(dp.checkpoint(self.middle, x) if self.again else self.middle(x))


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0-2", "emu:0-1"])
def test_parameters_in_a_checkpoint_are_trained_in_replicas(devices):
    results = []
    for again in (False, True):
        dp.manual_seed(0)
        model = Net(again).double()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        train = dp.Scheduler(model, nn.MSELoss(), optimizer, devices)
        for i in range(3):
            train(wave(7, 4, phase=i), wave(7, 2))
        results.append([p.detach().cpu().numpy().copy() for p in model.parameters()])
    same(*results)


# gradcheck ------------------------------------------------------------------------------------


def test_gradcheck_has_pytorchs_arguments():
    assert gradcheck(lambda x: x**2, (leaf(3),), eps=1e-6, atol=1e-5, rtol=1e-3,
                     raise_exception=False)  # fmt: skip
    assert gradgradcheck(lambda x: x**3, leaf(3), grad_outputs=dp.ones(3, dtype="float64"))
    assert not gradcheck(lambda x: x * x.detach(), leaf(3), raise_exception=False)
    assert not gradgradcheck(lambda x: x**2 * x.detach(), leaf(3), raise_exception=False)


def test_a_sequential_in_checkpointed_parts():
    from minidp.utils.checkpoint import checkpoint_sequential

    dp.manual_seed(0)
    model, x = nn.Sequential(*[nn.Linear(3, 3) for _ in range(5)]), dp.rand(2, 3)
    whole = dp.grad(model(x).sum(), list(model.parameters()))
    for functions, segments in ((model, 2), (list(model), 5), (model, 1)):
        y = checkpoint_sequential(functions, segments, x, use_reentrant=False)
        parts = dp.grad(y.sum(), list(model.parameters()))
        assert all(dp.equal(a, b) for a, b in zip(whole, parts, strict=True))
    for segments in (6, 0):
        with pytest.raises(ValueError, match=f"{segments} segments"):
            checkpoint_sequential(model, segments, x)
