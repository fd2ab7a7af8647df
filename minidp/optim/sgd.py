"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from minidp.op import op
from minidp.optim.declared import refuse
from minidp.optim.optimizer import Declared, Group
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


class SGD(Declared, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False,
          named="maximize foreach differentiable fused"):  # fmt: skip
    """Stochastic gradient descent; see ``sgd``.

    >>> p = nn.Parameter(dp.tensor([1.0]))
    >>> (p ** 2).sum().backward(); optim.SGD([p], lr=0.1).step()
    >>> p.detach()
    tensor([0.8000])
    """

    rule = sgd
    arrays = ("momentum_buffer if momentum",)

    def check(self, group: Group) -> None:
        super().check(group)
        refuse(group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0),
               "Nesterov momentum requires a momentum and zero dampening")  # fmt: skip

    def steps_taken(self, parameter: Tensor) -> int:
        """1 once there is a momentum buffer, else 0: the rule asks no more."""
        return int(self.kept(parameter, "momentum_buffer") is not None)

    def numbers(self, group: Group, steps_taken: int) -> dict[str, Any]:
        return {"first": steps_taken == 0}

    def after(self, group: Group, steps_taken: int) -> int:
        return int(bool(group["momentum"]))

    def advance(self, parameter: Tensor, arrays: dict[str, Array], steps: int = 1) -> None:
        """Keep the arrays; steps are not counted."""
        self.stepped = True
        if arrays:
            self.keep(parameter, **arrays)
