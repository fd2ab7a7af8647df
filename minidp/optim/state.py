"""What an optimiser holds: parameters as they are given, state as a dict in PyTorch's layout."""

import warnings
from typing import Any

from minidp.arguments import refuse
from minidp.tensor import Tensor


def parameters(given: Any) -> dict[str, Any]:
    """What a group holds of its parameters: ``params`` once each, ``param_names`` if given."""
    wrong = "ordered collections, but the ordering of tensors in sets will change"
    refuse(isinstance(given, (set, frozenset)),
           f"optimizer parameters need to be organized in {wrong}", TypeError)  # fmt: skip
    params, names = [given] if isinstance(given, Tensor) else list(given), {}
    if params and all(isinstance(each, tuple) for each in params):
        names, params = {"param_names": [n for n, _ in params]}, [p for _, p in params]
    for each in params:
        refuse(not isinstance(each, Tensor), "optimizer can only optimize Tensors, but one of the "
               f"params is {type(each).__name__}", TypeError)  # fmt: skip
        refuse(not each.is_leaf, "can't optimize a non-leaf Tensor")
    once = list(dict.fromkeys(params))
    if len(once) != len(params):
        warnings.warn("optimizer contains a parameter group with duplicate parameters; each is "
                      "taken once", stacklevel=4)  # fmt: skip
    return {"params": once, **names}


def numbered(optimizer: Any) -> list[Tensor]:
    """All parameters, group by group: their places are the numbers in a state dict."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def state_dict(self: Any) -> dict[str, Any]:
    """``{"state": {number: {name: value}}, "param_groups": [{..., "params": [numbers]}]}``."""
    place = {parameter: i for i, parameter in enumerate(numbered(self))}
    groups = [{**g, "params": [place[p] for p in g["params"]]} for g in self.param_groups]
    state = {i: dict(self.state[p]) for p, i in place.items() if p in self.state}
    return {"state": state, "param_groups": groups}


def load_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
    """Take over options and copies of the state; parameters are matched by their order."""
    groups = state_dict["param_groups"]
    sizes, own = ([len(g["params"]) for g in some] for some in (groups, self.param_groups))
    what = "a different number of parameter groups" if len(sizes) != len(own) else (
        "a parameter group that doesn't match the size of optimizer's group")  # fmt: skip
    refuse(sizes != own, f"loaded state dict has {what}: {sizes} parameters, {own} here")
    merged = [{**old, **new, "params": old["params"]}
              for new, old in zip(groups, self.param_groups)]  # fmt: skip
    for group in merged:
        self.check({**group, "lr": 0.0})  # a schedule may have left it a rounding below 0
    places = [place for group in groups for place in group["params"]]
    parameters, state = dict(zip(places, numbered(self))), {}
    for place, values in state_dict["state"].items():
        parameter = parameters[int(place)]
        state[parameter] = {n: _taken(n, value, parameter) for n, value in values.items()}
    self.state, self.param_groups = state, merged


def _taken(name: str, value: Any, parameter: Tensor) -> Any:
    """A copy of a saved value; an array in the parameter's dtype and place, a scalar as it was."""
    if not hasattr(value, "shape"):
        return value
    tensor = Tensor(value).detach()
    if name not in ("step", "mu_product"):
        wrong = f"{name} has shape {tensor.shape}, its parameter {parameter.shape}"
        refuse(tensor.shape != parameter.shape, f"loaded state dict: {wrong}")
        tensor = tensor.to(parameter.device, parameter.dtype)
    return tensor.clone()
