"""What all optimisers share: groups of parameters, their state, one step.

A subclass says which state arrays a parameter needs (``slots``) and how one array of parameters
is updated (``update``), in place, element by element. So the same rule serves a single parameter
and a slice of a flat bucket that holds many: see ``minidp.parallel``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from minidp.autograd import enable_grad, no_grad
from minidp.mode import mode
from minidp.ops.elementwise import full_like
from minidp.optim import state
from minidp.tensor import Tensor
from minidp.types import Array

Group = dict[str, Any]
Params = Iterable[Tensor] | Iterable[Group]


class Optimizer:
    """The base of optimisers. ``defaults`` are the options of groups that do not set them.

    ``params`` are tensors, or groups: ``[{"params": [...], "lr": 0.1}, {"params": [...]}]``.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of "
                            f"Tensors or dicts, but got {type(params).__name__}")  # fmt: skip
        self.defaults = defaults
        self.state: dict[Any, dict[str, Any]] = {}
        self.param_groups: list[Group] = []
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def slots(self, group: Group) -> tuple[str, ...]:
        """The names of the state arrays that ``update`` needs for this group."""
        raise NotImplementedError(f"{type(self).__name__}.slots")

    def steps_taken(self, parameter: Tensor) -> int:
        """How many steps the parameter's state has seen, as far as the update needs to know."""
        raise NotImplementedError(f"{type(self).__name__}.steps_taken")

    def update(
        self, data: Array, grad: Array, state: dict[str, Array], group: Group, steps_taken: int
    ) -> None:
        """Move ``data`` and ``state`` (by slot name) one step, in place: arrays of one shape."""
        raise NotImplementedError(f"{type(self).__name__}.update")

    def advance(self, parameter: Tensor, arrays: dict[str, Array]) -> None:
        """Record that the parameter took a step which left its state in ``arrays``."""
        if arrays:
            found = self.state.setdefault(parameter, {})
            found.update({name: Tensor(array) for name, array in arrays.items()})

    def check(self, group: Group) -> None:
        """A ValueError when an option of the group is out of its range."""

    def add_param_group(self, param_group: Group) -> None:
        """Train more parameters, with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, (set, frozenset)):
            raise TypeError("optimizer parameters need to be organized in ordered collections, "
                            "but the ordering of tensors in sets will change")  # fmt: skip
        params = [given] if isinstance(given, Tensor) else list(given)
        for each in params:
            _check_leaf(each)
        group = {**self.defaults, **param_group, "params": params}
        taken = {each: None for other in self.param_groups for each in other["params"]}
        if any(each in taken for each in params):
            raise ValueError("some parameters appear in more than one parameter group")
        if len(dict.fromkeys(params)) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; each "
                          "is taken once", stacklevel=3)  # fmt: skip
            group["params"] = list(dict.fromkeys(params))
        self.check(group)
        self.param_groups.append(group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient; returns what ``closure`` gave.

        ``closure``, if given, computes the gradients anew and returns the loss. In a replica the
        update is that of the whole step, over all replicas.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if mode.replica is not None:
            mode.replica.update(self)
        else:
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._step_one(parameter, group)
        return loss

    def _step_one(self, parameter: Tensor, group: Group) -> None:
        assert parameter.grad is not None
        grad = parameter.grad.data.astype(parameter.dtype, copy=False)
        arrays = self._arrays(parameter, group)
        self.update(parameter.data, grad, arrays, group, self.steps_taken(parameter))
        parameter.changed()
        self.advance(parameter, arrays)

    def _arrays(self, parameter: Tensor, group: Group) -> dict[str, Array]:
        """The parameter's state arrays; zeros before the first step."""
        arrays = {}
        for name in self.slots(group):
            present = self.state.get(parameter, {}).get(name)
            if present is None:
                present = full_like(parameter.detach(), value=0.0)
            arrays[name] = present.to(parameter.device, parameter.dtype).data
        return arrays

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or fill them with zeros."""
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if set_to_none:
                        parameter.grad = None
                    elif parameter.grad is not None:
                        parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's layout: ``state`` by the number of the parameter, ``param_groups``."""
        return state.saved(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and copies of the state; parameters are matched by their order."""
        state.load(self, state_dict)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {index}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
            lines.append("")
        return "\n".join([*lines[:-1], ")"])


def _check_leaf(parameter: Any) -> None:
    if not isinstance(parameter, Tensor):
        raise TypeError("optimizer can only optimize Tensors, but one of the params is "
                        f"{type(parameter).__name__}")  # fmt: skip
    if not parameter.is_leaf:
        raise ValueError("can't optimize a non-leaf Tensor")


def check_range(name: str, value: Any, low: float = 0.0, high: float = float("inf")) -> None:
    """A ValueError unless low <= value < high."""
    if not low <= value < high:
        raise ValueError(f"Invalid {name}: {value}; expected at least {low} and below {high}")
