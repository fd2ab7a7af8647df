"""Groups of parameters: which parameter is in which one, and whether its options are right."""

from __future__ import annotations

from typing import Any

from minidp.tensor import Tensor


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
