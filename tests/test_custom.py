"""autograd.Function as PyTorch's lessons use it."""

import gc
import weakref

import numpy as np
import pytest

import minidp as dp
from minidp import backward, nn, optim
from minidp.autograd import Function
from minidp.custom import Context, once_differentiable
from minidp.errors import GraphError, ShapeError
from minidp.node import Node
from minidp.testing import gradcheck, gradgradcheck


class ExpOfProduct(Function):
    """Saves arguments, a result and a number; two results."""

    @staticmethod
    def forward(ctx, x, y, k):
        z = (x * y).exp() * k
        ctx.save_for_backward(x, y, z)
        ctx.k = k
        return z, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y, z = ctx.saved_tensors
        return g * y * z + h, g * x * z + h, None


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.strength * g, None


class Step(Function):
    """The straight-through estimator, with setup_context."""

    @staticmethod
    def forward(x):
        return (x > 0).float()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, None)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return g * (x.abs() < 1)


def leaf(*shape):
    return dp.randn(*shape, dtype=dp.float64, requires_grad=True)


def test_derivatives_of_both_orders():
    x, y = leaf(3), leaf(3)
    gradcheck(lambda x, y: ExpOfProduct.apply(x, y, 2.0)[0], (x, y))
    gradcheck(lambda x, y: ExpOfProduct.apply(x, y, 2.0)[1], (x, y))
    gradcheck(lambda x: dp.stack(ExpOfProduct.apply(x, x, 2.0)).sum(0), (x,))
    gradgradcheck(lambda x, y: ExpOfProduct.apply(x, y, 2.0)[0], (x, y))


def test_idioms():
    x = dp.tensor([0.5, -2.0, 3.0], requires_grad=True)
    (Reverse.apply(x, 0.5) * dp.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [-0.5, -1.0, -1.5]
    x.grad = None
    y = Step.apply(x)
    y.sum().backward()
    assert y.tolist() == [1, 0, 1] and x.grad.tolist() == [1, 0, 0]
    with dp.no_grad():
        assert not Step.apply(x).requires_grad
    assert not Step.apply(x.detach()).requires_grad
    assert dp.autograd.Function is Function


def test_what_is_not_differentiable_and_what_is_not_used():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            values, places = x.sort()
            mask = (values > 0).double()
            ctx.mark_non_differentiable(places, mask)
            ctx.save_for_backward(places)
            return values, places, mask, values * 2

        @staticmethod
        def backward(ctx, g, h, *rest):
            assert h is None
            (places,) = ctx.saved_tensors
            return dp.zeros_like(g).scatter(0, places, g)

    x = dp.tensor([3.0, 1.0, 2.0], dtype=dp.float64, requires_grad=True)
    values, places, mask, _ = Both.apply(x)
    assert not places.requires_grad and not mask.requires_grad
    (values * dp.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 1.0, 2.0]


def test_needs_input_grad_and_arguments_that_need_none():
    asked = []

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            asked.append(ctx.needs_input_grad)
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g * 5, None

    x = leaf(2)
    Product.apply(x, dp.ones(2)).sum().backward()
    assert asked == [(True, False)] and x.grad.tolist() == [5, 5]


def test_mistakes():
    class Few(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(ShapeError, match=r"Few.backward returned 1 gradient\(s\) for 2 argument"):
        Few.apply(leaf(2), leaf(2)).sum().backward()
    x = leaf(2)
    z = ExpOfProduct.apply(x, leaf(2), 1.0)[0]
    with dp.no_grad():
        x.add_(1)
    with pytest.raises(GraphError, match="changed in place"):
        z.sum().backward()
    with pytest.raises(NotImplementedError, match="static method forward"):
        Function.apply(x)

    class Wide(Few):
        @staticmethod
        def backward(ctx, g):
            return dp.ones(7, dtype=dp.float64), None

    with pytest.raises(ShapeError, match="function: a rule gave a cotangent of shape"):
        Wide.apply(leaf(2), leaf(2)).sum().backward()


def test_no_cycle_is_left():
    def run():
        x = leaf(3)
        z, s = ExpOfProduct.apply(x, x, 1.0)
        (z.sum() + s.sum()).backward(retain_graph=True)
        return weakref.ref(z)

    run()  # what compiles kernels may leave cycles
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert run()() is None
        gc.collect()  # other threads may leave something, too
        assert not [each for each in gc.garbage if isinstance(each, (dp.Tensor, Node, Context))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_in_a_model_under_the_scheduler_and_in_a_captured_step():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x):
            return Reverse.apply(self.linear(x), -2.0)

    def trained(**options):
        dp.manual_seed(0)
        model = Net()
        train = dp.Scheduler(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1), **options)
        rng = np.random.default_rng(0)
        for _ in range(4):
            train(rng.random((6, 3), np.float32), rng.random((6, 2), np.float32))
        return [p.tolist() for p in model.parameters()]

    assert trained(devices=1, replicas=2) == trained(devices=2)
    np.testing.assert_array_equal(trained(devices=1)[1], trained(devices=1, capture=True)[1])


def test_a_gradient_handed_on_as_it_is_has_memory_of_its_own():
    class Same(dp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    for function in (Same.apply, lambda x: x + 0.0, lambda x: x, lambda x: x.reshape(3)):
        x, g = dp.ones(3, requires_grad=True), dp.tensor([1.0, 2.0, 3.0])
        function(x).backward(g)
        x.grad.zero_()
        assert g.tolist() == [1.0, 2.0, 3.0]
        (again,) = dp.grad(function(x), x, g)
        again.zero_()
        assert g.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("fills", [True, False])
def test_backward_is_given_something_for_every_result(fills):
    """Zeros (or None) for those without a gradient, None for what is no tensor."""
    class Several(dp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            positive, places = x > 0, x.long()
            ctx.mark_non_differentiable(positive)
            ctx.set_materialize_grads(fills)
            return positive, x * 2, "a", places

        @staticmethod
        def backward(ctx, *gs):
            given.extend(gs)
            return gs[1] * 2

    given = []
    x = dp.tensor([1.0, -1.0], requires_grad=True)
    positive, y, _, places = Several.apply(x)
    assert y.requires_grad and not positive.requires_grad and not places.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 2] and given[1].tolist() == [1, 1] and given[2] is None
    if fills:
        assert given[0].tolist() == [False, False] and given[3].dtype == np.int64
    else:
        assert given[0] is given[3] is None


def test_a_gradient_in_another_order_of_axes_is_copied_only_if_others_have_its_memory(monkeypatch):
    copies, plain = [], backward._own
    monkeypatch.setattr(backward, "_own", lambda g: copies.append(g) or plain(g))
    x, w = dp.ones(2, 3, 5, 5, requires_grad=True), dp.ones(4, 3, 3, 3)
    y = dp.nn.functional.conv2d(x, w)
    y.backward(dp.ones_like(y))
    assert x.grad.array.base is not None and not copies  # channels-last: a view of fresh memory
    held = []

    class Kept(dp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            held.append(g * 2)
            return held[-1].t()

    x = dp.ones(2, 2, requires_grad=True)
    Kept.apply(x).backward(dp.ones(2, 2))
    x.grad.zero_()
    assert len(copies) == 1 and held[0].tolist() == [[2.0, 2.0], [2.0, 2.0]]
