"""The state of an optimiser as a dict, and back; PyTorch's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minidp.tensor import Tensor

if TYPE_CHECKING:
    from minidp.optim.optimizer import Optimizer


def numbered(optimizer: Optimizer) -> list[Tensor]:
    """All parameters, group by group: their places are the numbers in a state dict."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def saved(optimizer: Optimizer) -> dict[str, Any]:
    """``{"state": {number: {name: value}}, "param_groups": [{..., "params": [numbers]}]}``."""
    number = {parameter: index for index, parameter in enumerate(numbered(optimizer))}
    groups = [
        {**{key: value for key, value in group.items() if key != "params"},
         "params": [number[parameter] for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]  # fmt: skip
    state = {i: dict(optimizer.state[p]) for p, i in number.items() if p in optimizer.state}
    return {"state": state, "param_groups": groups}


def load(optimizer: Optimizer, given: dict[str, Any]) -> None:
    """Check the groups and their options, then take over options and copies of the state."""
    groups = given["param_groups"]
    if len(groups) != len(optimizer.param_groups):
        raise ValueError("loaded state dict has a different number of parameter groups: "
                         f"{len(groups)}, here {len(optimizer.param_groups)}")  # fmt: skip
    for new, own in zip(groups, optimizer.param_groups, strict=True):
        if len(new["params"]) != len(own["params"]):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the "
                             f"size of optimizer's group: {len(new['params'])} parameters, "
                             f"{len(own['params'])} here")  # fmt: skip
    merged = [
        {**own, **new, "params": own["params"]}
        for new, own in zip(groups, optimizer.param_groups, strict=True)
    ]
    for group in merged:
        optimizer.check(group)
    places = [place for group in groups for place in group["params"]]
    parameters = dict(zip(places, numbered(optimizer), strict=True))
    state = {
        parameters[int(place)]: {n: _taken(n, v, parameters[int(place)]) for n, v in values.items()}
        for place, values in given["state"].items()
    }
    optimizer.state = state
    optimizer.param_groups = merged


def _taken(name: str, value: Any, parameter: Tensor) -> Any:
    """A copy of a saved value; arrays in the parameter's dtype and place, but "step" as it was."""
    if not hasattr(value, "shape"):
        return value
    tensor = Tensor(value).detach()
    if name != "step":
        if tensor.shape != parameter.shape:
            raise ValueError(f"loaded state dict: {name} has shape {tensor.shape}, its parameter "
                             f"{parameter.shape}")  # fmt: skip
        tensor = tensor.to(parameter.device, parameter.dtype)
    return tensor.clone()
