"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from minidp.op import op
from minidp.optim.optimizer import Group, Optimizer, Params, check_range
from minidp.tensor import Tensor
from minidp.types import Array


@op("..., ..., ... -> ", writes="p m")
def sgd(xp: Any, p: Array, g: Array, m: Array = None, *, lr: float, momentum: float,
        dampening: float, weight_decay: float, nesterov: bool, maximize: bool,
        first: bool) -> None:  # fmt: skip
    """In place: d = g + weight_decay p; m = momentum m + (1 - dampening) d, or d at ``first``;
    p -= lr m, or lr (d + momentum m) if ``nesterov``. ``maximize`` turns g round.

    Without momentum m may be None and p -= lr d. Sources: Polyak 1964; Nesterov in the form of
    Sutskever, Martens, Dahl and Hinton 2013.
    """
    d = -g if maximize else g
    d = d + weight_decay * p if weight_decay else d
    if momentum:
        m[...] = d if first else momentum * m + (1 - dampening) * d
        d = d + momentum * m if nesterov else m
    p[...] -= lr * d


class SGD(Optimizer):
    """Stochastic gradient descent; see ``sgd``. ``foreach`` and ``fused``, which choose among
    PyTorch's implementations, are kept and mean nothing here; ``differentiable`` is not offered.
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def check(self, group: Group) -> None:
        check_range("learning rate", group["lr"])
        check_range("momentum value", group["momentum"])
        check_range("weight_decay value", group["weight_decay"])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        if group["differentiable"]:
            raise ValueError("differentiable=True is not offered: steps are not recorded")

    def slots(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def steps_taken(self, parameter: Tensor) -> int:
        """1 once there is a momentum buffer, else 0: the rule asks no more."""
        return int(self.state.get(parameter, {}).get("momentum_buffer") is not None)

    def update(
        self, data: Array, grad: Array, state: dict[str, Array], group: Group, steps_taken: int
    ) -> None:
        sgd(
            data, grad, state.get("momentum_buffer"), lr=float(group["lr"]),
            momentum=group["momentum"], dampening=group["dampening"],
            weight_decay=group["weight_decay"], nesterov=group["nesterov"],
            maximize=group["maximize"], first=steps_taken == 0,
        )  # fmt: skip
