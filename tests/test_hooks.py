"""Hooks on tensors, and the detection of anomalies."""

import gc
import inspect
import weakref

import pytest

import minidp as dp
from minidp import nn
from minidp.autograd import detect_anomaly, set_detect_anomaly
from minidp.errors import GraphError


def leaf(*values):
    return dp.tensor([*values], requires_grad=True)


def test_a_hook_sees_the_whole_gradient_once():
    x, seen = leaf(1.0, 2.0), []
    y = 3 * x
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * y + y).sum().backward()
    assert seen == [[7.0, 13.0]] and x.grad.tolist() == [21.0, 39.0]


def test_what_a_hook_returns_goes_on():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0] and x.grad.tolist() == [21.0, 21.0]


def test_hooks_end_when_removed_and_go_in_order():
    x, order = leaf(1.0), []
    handles = [x.register_hook(lambda g, k=k: order.append(k)) for k in range(3)]
    handles[1].remove()
    handles[1].remove()
    (2 * x).sum().backward()
    assert order == [0, 2]


def test_hooks_run_in_grad_and_are_recorded_with_create_graph():
    x = leaf(2.0)
    x.register_hook(lambda g: g * x)
    (first,) = dp.grad((x * x).sum(), x, create_graph=True)
    assert first.tolist() == [8.0]
    assert dp.grad(first.sum(), x)[0].tolist() == [16.0]  # d(2 x^2)/dx = 8, through the hook again


def test_a_hook_needs_a_gradient():
    with pytest.raises(GraphError, match="register_hook"):
        dp.ones(2).register_hook(print)


def test_hooks_and_retained_gradients_make_no_cycle(no_collector):
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: None)
    y.sum().backward()
    gone = weakref.ref(y)
    del y
    assert gone() is None


def line_here():
    return inspect.currentframe().f_back.f_lineno


def test_the_first_nan_of_the_forward_pass_is_named():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 2)

        def forward(self, x):
            return (-self.first(x).abs() - 1).log().exp() * 2

    with detect_anomaly(), pytest.raises(GraphError) as caught:
        Net()(dp.ones(1, 2)).sum().backward()
    where = f"test_hooks.py:{inspect.getsourcelines(Net.forward)[1] + 1}"
    assert "log gave the first NaN" in str(caught.value) and where in str(caught.value)
    assert "in Net (Net)" in str(caught.value)


def test_a_nan_that_appears_in_a_derivative_is_named():
    x = leaf(0.0, 1.0)
    with detect_anomaly(), pytest.raises(GraphError) as caught:
        line, y = line_here(), x.sqrt()
        (y * 0.0).sum().backward()
    message = str(caught.value)
    assert "the cotangent of 'x' of <sqrt" in message and f"test_hooks.py:{line}" in message


def test_without_it_a_nan_passes():
    x = leaf(0.0)
    (x.sqrt() * 0.0).sum().backward()
    assert str(x.grad.tolist()) == "[nan]"
    set_detect_anomaly(True)
    try:
        with pytest.raises(GraphError):
            (x.sqrt() * 0.0).sum().backward()
    finally:
        set_detect_anomaly(False)
    (x.sqrt() * 0.0).sum().backward()
    with set_detect_anomaly(mode=True), pytest.raises(GraphError):
        (x.sqrt() * 0.0).sum().backward()
    (x.sqrt() * 0.0).sum().backward()


def test_watching_keeps_nothing_alive():
    x = leaf(1.0)
    with detect_anomaly():
        y = x * 2
        gone = weakref.ref(y.node)
        del y
        gc.collect()
        assert gone() is None
