"""Adam and its relatives: steps in units of each element's own typical gradient."""

import math
from typing import Any

import numpy as np

from minidp.op import op
from minidp.optim.optimizer import Counted, Group, Optimizer
from minidp.types import Array


@op("..., ..., ..., ..., ... -> ", writes="p m v vmax")
def adam(xp: Any, p: Array, g: Array, m: Array, v: Array, vmax: Array = None, *, rate: float,
         nudge: float, root: float, beta1: float, beta2: float, eps: float, weight_decay: float,
         shrink: float, maximize: bool, amsgrad: bool) -> None:  # fmt: skip
    """In place: m += (1 - beta1) (d - m); v = beta2 v + (1 - beta2) d d;
    p = shrink p - (rate m + nudge d) / (sqrt(a) / root + eps).

    a is v, or with ``amsgrad`` vmax = max(vmax, v). d is g (turned round to ``maximize``) plus
    weight_decay times the shrunk p."""
    d = -g if maximize else g
    p *= shrink
    d = d + weight_decay * p if weight_decay else d
    m += (1 - beta1) * (d - m)
    v[...] = beta2 * v + (1 - beta2) * d * d
    if amsgrad:
        vmax[...] = xp.maximum(vmax, v)
    move = rate * m + nudge * d if nudge else rate * m
    p -= move / (xp.sqrt(vmax if amsgrad else v) / root + eps)


class Adam(Optimizer, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False,
           named="maximize foreach capturable differentiable fused decoupled_weight_decay",
           ):  # fmt: skip
    """p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) in step t; see ``adam``.

    Sources: Kingma and Ba 2015, arXiv 1412.6980; Reddi, Kale and Kumar 2018 (amsgrad)."""

    rule = adam
    arrays = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq if amsgrad")

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        """Without bias: m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)."""
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        step, decoupled = int(taken[0]) + 1, group["decoupled_weight_decay"]
        return {
            "rate": lr / (1 - beta1**step), "nudge": 0.0, "root": math.sqrt(1 - beta2**step),
            "beta1": beta1, "beta2": beta2, "amsgrad": group.get("amsgrad", False),
            "weight_decay": 0 if decoupled else decay,
            "shrink": 1 - lr * decay if decoupled else 1.0,
        }  # fmt: skip


class AdamW(Adam, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False,
            named="maximize foreach capturable differentiable fused"):  # fmt: skip
    """Adam whose weight decay shrinks the parameters directly.

    Source: Loshchilov and Hutter 2019, arXiv 1711.05101."""

    fixed = {"decoupled_weight_decay": True}  # noqa: RUF012


class RAdam(Adam, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
            decoupled_weight_decay=False,
            named="foreach maximize capturable differentiable"):  # fmt: skip
    """Adam that goes without v while too few steps have been seen to trust it.

    Source: Liu et al. 2020, arXiv 1908.03265."""

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        """rho is the number of steps that v is worth; above 5 the step is rectified."""
        known, beta2, step = super().numbers(group, taken), group["betas"][1], int(taken[0]) + 1
        most = 2 / (1 - beta2) - 1
        rho = most - 2 * step * beta2**step / (1 - beta2**step)
        if rho <= 5:
            return {**known, "root": math.inf, "eps": 1.0}  # divides by 1
        ratio = (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)
        return {**known, "rate": known["rate"] * known["root"] * math.sqrt(ratio), "root": 1.0}


class NAdam(Adam, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
            decoupled_weight_decay=False,
            named="foreach maximize capturable differentiable"):  # fmt: skip
    """Adam with Nesterov's momentum: the step looks ahead by one gradient.

    Source: Dozat 2016, "Incorporating Nesterov momentum into Adam"."""

    counts = {"step": 0.0, "mu_product": 1.0}  # noqa: RUF012
    """Steps, and the product of their momenta."""

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        now, later = (_momentum(group, taken[0] + ahead) for ahead in (1, 2))
        lr, product = group["lr"], self.after(group, taken)[1]
        rate, nudge = lr * later / (1 - product * later), lr * (1 - now) / (1 - product)
        return {**super().numbers(group, taken), "rate": rate, "nudge": nudge}

    def after(self, group: Group, taken: Counted) -> Counted:
        product = np.float32(taken[1]) * np.float32(_momentum(group, taken[0] + 1))
        return *super().after(group, taken), float(product)


def _momentum(group: Group, step: float) -> float:
    return float(group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"])))


@op("..., ..., ..., ... -> ", writes="p m u")
def adamax(xp: Any, p: Array, g: Array, m: Array, u: Array, *, rate: float, beta1: float,
           beta2: float, eps: float, weight_decay: float, maximize: bool) -> None:  # fmt: skip
    """In place: d = g + weight_decay p; m += (1 - beta1) (d - m); u = max(beta2 u, |d| + eps);
    p -= rate m / u."""
    d = -g if maximize else g
    d = d + weight_decay * p if weight_decay else d
    m += (1 - beta1) * (d - m)
    u[...] = xp.maximum(beta2 * u, xp.abs(d) + eps)
    p -= rate * m / u


class Adamax(Optimizer, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None,
             named="maximize differentiable capturable"):  # fmt: skip
    """Adam with the largest gradient for the root mean square; rate = lr / (1 - beta1^t).

    Source: Kingma and Ba 2015, arXiv 1412.6980, section 7."""

    rule, arrays = adamax, ("exp_avg", "exp_inf")

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        (beta1, beta2), step = group["betas"], int(taken[0]) + 1
        return {"rate": group["lr"] / (1 - beta1**step), "beta1": beta1, "beta2": beta2}
