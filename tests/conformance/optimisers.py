"""One step of an optimiser from a given state: in ONNX a function of all that it changes."""

import minidp as dp
from minidp import nn, optim

LONG_AGO = 10**9
"""A number of steps after which Adam corrects no bias: what ONNX means by step 0."""


def stepped(make, names, step, xs, gs, states):
    """The new parameters and their states after a step of the optimiser that ``make`` gives."""
    parameters = [nn.Parameter(dp.clone(x)) for x in xs]
    for parameter, gradient in zip(parameters, gs):
        parameter.grad = dp.clone(gradient)
    optimizer = make(parameters)
    state = {
        i: {"step": dp.tensor(float(step)), **dict(zip(names, [dp.clone(s[i]) for s in states]))}
        for i in range(len(xs))
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    optimizer.step()
    kept = [optimizer.state[p][name] for name in names for p in parameters]
    return *(p.detach() for p in parameters), *kept


def parts(tensors, count):
    """All parameters, all gradients, and all values of each state."""
    size = len(tensors) // count
    return [tensors[i * size : (i + 1) * size] for i in range(count)]


def adagrad(rate, step, *tensors, decay_factor=0.0, epsilon=0.0, norm_coefficient=0.0):
    def make(parameters):
        return optim.Adagrad(parameters, lr=rate.item(), lr_decay=decay_factor, eps=epsilon,
                             weight_decay=norm_coefficient)  # fmt: skip

    xs, gs, *states = parts(tensors, 3)
    return stepped(make, ["sum"], step.item(), xs, gs, states)


def adam(rate, step, *tensors, alpha=0.9, beta=0.999, epsilon=0.0, norm_coefficient=0.0):
    def make(parameters):
        return optim.Adam(parameters, lr=rate.item(), betas=(alpha, beta), eps=epsilon,
                          weight_decay=norm_coefficient)  # fmt: skip

    xs, gs, *states = parts(tensors, 4)
    step = step.item() or LONG_AGO
    return stepped(make, ["exp_avg", "exp_avg_sq"], step, xs, gs, states)


def momentum(rate, step, *tensors, alpha, beta, mode, norm_coefficient):
    """ONNX's ``beta`` is what PyTorch calls 1 - dampening, and counts from the second step on."""
    def make(parameters):
        share = beta if step.item() > 0 else 1
        return optim.SGD(parameters, lr=rate.item(), momentum=alpha, dampening=1 - share,
                         weight_decay=norm_coefficient, nesterov=mode == "nesterov")  # fmt: skip

    xs, gs, *states = parts(tensors, 3)
    return stepped(make, ["momentum_buffer"], step.item(), xs, gs, states)


OPERATORS = {"Adagrad": adagrad, "Adam": adam, "Momentum": momentum}
