"""Steps along the gradient (SGD), over the root of its mean square (RMSprop, Adadelta), or over the
root of the sum of its squares (Adagrad)."""

from typing import Any

from minidp.arguments import refuse
from minidp.op import op
from minidp.ops.comparison import full_like
from minidp.optim.optimizer import Counted, Group, Optimizer
from minidp.tensor import Tensor
from minidp.types import Array


@op("..., ..., ... -> ", writes="p m")
def sgd(xp: Any, p: Array, g: Array, m: Array = None, *, lr: float, momentum: float,
        dampening: float, weight_decay: float, nesterov: bool, maximize: bool,
        first: bool) -> None:  # fmt: skip
    """In place: d = g + weight_decay p; m = momentum m + (1 - dampening) d, or d at ``first``;
    p -= lr m, or lr (d + momentum m) if ``nesterov``. ``maximize`` turns g round.

    Without momentum m may be None and p -= lr d. Sources: Polyak 1964; Nesterov in the form of
    Sutskever, Martens, Dahl and Hinton 2013."""
    d = -g if maximize else g
    d = d + weight_decay * p if weight_decay else d
    if momentum:
        m[...] = d if first else momentum * m + (1 - dampening) * d
        d = d + momentum * m if nesterov else m
    p[...] -= lr * d


class SGD(Optimizer, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False,
          named="maximize foreach differentiable fused"):  # fmt: skip
    """Stochastic gradient descent; see ``sgd``.

    >>> p = nn.Parameter(dp.tensor([1.0]))
    >>> (p ** 2).sum().backward(); optim.SGD([p], lr=0.1).step()
    >>> p.detach()
    tensor([0.8000])
    """

    rule, arrays, counts = sgd, ("momentum_buffer if momentum",), {}

    def check(self, group: Group) -> None:
        super().check(group)
        refuse(group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0),
               "Nesterov momentum requires a momentum and zero dampening")  # fmt: skip

    def steps_taken(self, parameter: Tensor) -> Counted:
        """Whether there is a momentum buffer: the rule asks no more."""
        return (float(self.kept(parameter, "momentum_buffer") is not None),)

    def after(self, group: Group, taken: Counted) -> Counted:
        return (float(bool(group["momentum"])),)

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        return {"first": not taken[0]}


@op("..., ..., ..., ..., ... -> ", writes="p v c m")
def rmsprop(xp: Any, p: Array, g: Array, v: Array, c: Array = None, m: Array = None, *,
            lr: float, alpha: float, rest: float, eps: float, weight_decay: float,
            momentum: float, centered: bool, maximize: bool) -> None:  # fmt: skip
    """In place: d = g + weight_decay p; v = alpha v + rest d d; c += rest (d - c);
    r = d / (sqrt(v) + eps), or with ``centered`` d / (sqrt(v - c c) + eps); m = momentum m + r;
    p -= lr m, or without momentum lr r. ``maximize`` turns g round."""
    d = -g if maximize else g
    d = d + weight_decay * p if weight_decay else d
    v[...] = alpha * v + rest * d * d
    if centered:
        c += rest * (d - c)
    r = d / (xp.sqrt(v - c * c if centered else v) + eps)
    if momentum:
        m[...] = momentum * m + r
    p -= lr * (m if momentum else r)


class RMSprop(Optimizer, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
              capturable=False, foreach=None, maximize=False, differentiable=False):  # fmt: skip
    """Gradients over the root of their running mean square; see ``rmsprop``.

    Sources: Tieleman and Hinton 2012, lecture 6.5; Graves 2013, arXiv 1308.0850 (centered)."""

    rule = rmsprop
    arrays = ("square_avg", "grad_avg if centered", "momentum_buffer if momentum")

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        return {"rest": 1 - group["alpha"]}


class Adagrad(Optimizer, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0,
              eps=1e-10, foreach=None, named="maximize differentiable fused"):  # fmt: skip
    """``rmsprop`` with the sum of the squares, v += d d, and a rate that may fall by itself:
    lr / (1 + (t - 1) lr_decay) in step t. Source: Duchi, Hazan and Singer 2011."""

    rule, arrays = rmsprop, ("sum",)

    def add_param_group(self, param_group: Group) -> None:
        """The sums begin here, with ``initial_accumulator_value``."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            start = full_like(p.detach(), value=float(self.defaults["initial_accumulator_value"]))
            self.advance(p, {"sum": start.array}, self.param_groups[-1], steps=0)

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        lr = group["lr"] / (1 + taken[0] * group["lr_decay"])
        return {"lr": lr, "alpha": 1.0, "rest": 1.0, "momentum": 0.0, "centered": False}


@op("..., ..., ..., ... -> ", writes="p v u")
def adadelta(xp: Any, p: Array, g: Array, v: Array, u: Array, *, lr: float, rho: float,
             eps: float, weight_decay: float, maximize: bool) -> None:  # fmt: skip
    """In place: d = g + weight_decay p; v = rho v + (1 - rho) d d;
    r = sqrt((u + eps) / (v + eps)) d; u = rho u + (1 - rho) r r; p -= lr r."""
    d = -g if maximize else g
    d = d + weight_decay * p if weight_decay else d
    v[...] = rho * v + (1 - rho) * d * d
    r = xp.sqrt(u + eps) / xp.sqrt(v + eps) * d
    u[...] = rho * u + (1 - rho) * r * r
    p -= lr * r


class Adadelta(Optimizer, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None,
               named="capturable maximize differentiable"):  # fmt: skip
    """Steps as large as the last ones were, in the parameters' own units; see ``adadelta``.

    Source: Zeiler 2012, arXiv 1212.5701."""

    rule, arrays = adadelta, ("square_avg", "acc_delta")

    def check(self, group: Group) -> None:
        super().check(group)
        refuse(not 0 <= group["rho"] <= 1, f"Invalid rho value: {group['rho']}; not in [0, 1]")
