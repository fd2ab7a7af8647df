"""Groups of parameters: which parameter is in which one, and whether its options are right."""

from __future__ import annotations

from operator import is_
from typing import Any

from minidp.tensor import Tensor

NUMBERS = "params", "lr"
"""What of a group of parameters may change from step to step."""
PLAIN = bool, int, float, str, tuple, type(None)
"""Types of options that are not changed in place."""


def check_options(optimizer: Any) -> None:
    """What the optimiser says of options that were changed since; an lr that a schedule left a
    rounding below 0 is none of its business."""
    for number, group in enumerate(optimizer.param_groups):
        try:
            lr = float(group["lr"])
            optimizer.check({**group, "lr": 0.0 if lr < 0 else lr})
        except (TypeError, ValueError, KeyError) as error:
            error.add_note(f"in param_groups[{number}] of the optimizer; nothing has changed")
            raise


def groups_of(optimizer: Any) -> dict[Tensor, int]:
    """The number of the group of each of the optimiser's parameters."""
    return {p: g for g, group in enumerate(optimizer.param_groups) for p in group["params"]}


class Groups:
    """The groups of an optimiser, looked at before each step."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self._lists: list[list[Tensor]] = []
        self._checked: list[list[tuple[str, Any]]] = []
        self.owner: dict[Tensor, int] = {}
        """The number of each parameter's group."""
        self.options: list[list[tuple[str, Any]]] = []
        """What the update of each group depends on, but for NUMBERS."""

    def look(self) -> None:
        """See what has changed; an error where options are wrong."""
        groups = self.optimizer.param_groups
        lists = [group["params"] for group in groups]
        if [*map(len, lists)] != [*map(len, self._lists)] or not all(
            all(map(is_, *pair)) for pair in zip(lists, self._lists, strict=True)
        ):
            self._lists, self.owner = [[*each] for each in lists], groups_of(self.optimizer)
        options = [[each for each in group.items() if each[0] != "params"] for group in groups]
        if options != self._checked:
            check_options(self.optimizer)
            plain = all(type(value) in PLAIN for each in options for _, value in each)
            self._checked = options if plain else []
            self.options = [[each for each in own if each[0] not in NUMBERS] for own in options]
