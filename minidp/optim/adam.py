"""Adam, and AdamW, whose weight decay does not pass through the moments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minidp.op import op
from minidp.optim.optimizer import Group, Optimizer, Params, check_range
from minidp.tensor import Tensor
from minidp.types import Array


@op("..., ..., ..., ..., ... -> ", writes="p m v vmax")
def adam(xp: Any, p: Array, g: Array, m: Array, v: Array, vmax: Array = None, *, lr: float,
         beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool,
         maximize: bool, amsgrad: bool, step: int) -> None:  # fmt: skip
    """In place: m += (1 - beta1) (d - m); v = beta2 v + (1 - beta2) d d;
    p -= lr m / (1 - beta1^step) / (sqrt(a / (1 - beta2^step)) + eps).

    a is v, or with ``amsgrad`` vmax = max(vmax, v). d is g (turned round to ``maximize``) plus
    weight_decay p; ``decoupled``, p is first shrunk by 1 - lr weight_decay instead. ``step`` counts
    from 1. Sources: Kingma and Ba 2015, arXiv 1412.6980; Reddi, Kale and Kumar 2018 (amsgrad);
    Loshchilov and Hutter 2019, arXiv 1711.05101.
    """
    d = -g if maximize else g
    if decoupled:
        p *= 1 - lr * weight_decay
    elif weight_decay:
        d = d + weight_decay * p
    m += (1 - beta1) * (d - m)
    v[...] = beta2 * v + (1 - beta2) * d * d
    if amsgrad:
        vmax[...] = xp.maximum(vmax, v)
    root = xp.sqrt(vmax if amsgrad else v) / math.sqrt(1 - beta2**step)
    p -= lr / (1 - beta1**step) * m / (root + eps)


class Adam(Optimizer):
    """Steps in units of each element's own typical gradient; see ``adam``. ``foreach``,
    ``capturable`` and ``fused``, which choose among PyTorch's implementations, are kept and mean
    nothing here; ``differentiable`` is not offered.
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def check(self, group: Group) -> None:
        check_range("learning rate", group["lr"])
        check_range("epsilon value", group["eps"])
        check_range("weight_decay value", group["weight_decay"])
        for index, beta in enumerate(group["betas"]):
            check_range(f"beta parameter at index {index}", beta, high=1.0)
        if group["differentiable"]:
            raise ValueError("differentiable=True is not offered: steps are not recorded")

    def slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if group["amsgrad"] else ())

    def steps_taken(self, parameter: Tensor) -> int:
        return int(self.state.get(parameter, {}).get("step", 0))

    def update(
        self, data: Array, grad: Array, state: dict[str, Array], group: Group, steps_taken: int
    ) -> None:
        beta1, beta2 = group["betas"]
        adam(
            data, grad, state["exp_avg"], state["exp_avg_sq"], state.get("max_exp_avg_sq"),
            lr=float(group["lr"]), beta1=beta1, beta2=beta2, eps=group["eps"],
            weight_decay=group["weight_decay"], decoupled=group["decoupled_weight_decay"],
            maximize=group["maximize"], amsgrad=group["amsgrad"], step=steps_taken + 1,
        )  # fmt: skip

    def advance(self, parameter: Tensor, arrays: dict[str, Array]) -> None:
        """As for every optimiser, and count the step (a float32 scalar, as in PyTorch)."""
        step = np.asarray(self.steps_taken(parameter) + 1, np.float32)
        self.state.setdefault(parameter, {})["step"] = Tensor(step)
        super().advance(parameter, arrays)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters directly."""

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip
