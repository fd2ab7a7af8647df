"""What all optimisers share: groups of parameters, their state, one step.

A subclass names its ``rule``, an op that updates arrays in place, element by element, and the state
``arrays`` that the rule takes after the parameters and their gradient. So the same rule serves a
single parameter and a slice of a flat bucket that holds many: see ``minidp.parallel``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from inspect import Parameter
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from minidp.autograd import enable_grad, no_grad
from minidp.mode import aside, mode, told_as
from minidp.op import Op
from minidp.ops.elementwise import full_like
from minidp.optim import state
from minidp.optim.declared import constructor, parameter, refuse
from minidp.tensor import Tensor, wrap
from minidp.types import Array

Group = dict[str, Any]
Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[Group]
LABELS = {"lr": "learning rate", "eps": "epsilon value"}
COMMON = {"maximize": False, "foreach": None, "capturable": False, "differentiable": False,
          "fused": None, "decoupled_weight_decay": False}  # fmt: skip
TYPES = {bool: "bool", tuple: "tuple[float, float]", type(None): "bool | None"}


class Optimizer:
    """The base of optimisers. ``params`` are tensors, named ones, or groups: ``[{"params": [...],
    "lr": 0.1}, ...]``; ``defaults`` are the options of groups that do not set them.

    ``foreach``, ``fused`` and ``capturable``, which choose among PyTorch's implementations, are
    kept and mean nothing here; ``differentiable`` is not offered."""

    rule: Op
    arrays: tuple[str, ...] = ()
    """The names of the rule's state arrays; "NAME if OPTION" where an option asks for it."""
    nonnegative: tuple[str, ...] = ("lr", "eps", "weight_decay", "momentum", "alpha", "lr_decay",
                                    "initial_accumulator_value", "momentum_decay")  # fmt: skip
    """Options that must not be below 0."""
    stepped = False
    """Whether a step was taken: schedules are to move after it."""

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        name, given_type = type(self).__name__, type(params).__name__
        wrong = isinstance(params, (Tensor, dict, str)) or not isinstance(params, Iterable)
        refuse(wrong, f"{name}({given_type}, ...): expected an iterable of Tensors or dicts, such "
               "as model.parameters()", TypeError)  # fmt: skip
        self.defaults = defaults
        self.state: dict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        given: list[Any] = list(params)
        refuse(not given, f"{name}: optimizer got an empty parameter list: the model has none, or "
               "what gives them was read before")  # fmt: skip
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Train more parameters, with options of their own."""
        wrong = f"param_group must be a dict, but got {type(param_group)}"
        refuse(not isinstance(param_group, dict), wrong, TypeError)
        group = {**self.defaults, **param_group, **state.parameters(param_group["params"])}
        refuse(not {*group["params"]}.isdisjoint(state.numbered(self)),
               "some parameters appear in more than one parameter group")  # fmt: skip
        self.check(group)
        self.param_groups.append(group)

    def check(self, group: Group) -> None:
        """A ValueError when an option of the group is out of its range."""
        for name in self.nonnegative:
            value: Any = group.get(name, 0.0)
            label = LABELS.get(name, f"{name} value")
            if not isinstance(value, (Real, Tensor)):
                raise TypeError(f"Invalid {label}: {value!r}; expected a number")
            if not 0 <= float(value) < np.inf:  # each step looks here
                raise ValueError(f"Invalid {label}: {value}; expected 0 or more")
        betas = group.get("betas", ())
        refuse(not isinstance(betas, (tuple, list)), f"Invalid betas: {betas!r}; expected two "
               "numbers", TypeError)  # fmt: skip
        for i, beta in enumerate(betas):
            refuse(not 0 <= beta < 1, f"Invalid beta parameter at index {i}: {beta}; not in [0, 1)")
        refuse(group.get("differentiable"),
               "differentiable=True is not offered: steps are not recorded")  # fmt: skip

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient; returns what ``closure`` gave, which
        computes the gradients anew. In a replica the update is that of all replicas."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self.stepped = True
        if mode.replica is not None:
            mode.replica.update(self)
        else:
            aside(self._step_all)
        return loss

    @told_as("update")  # so a captured step, printed, calls this piece of it
    def _step_all(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    grad, arrays = p.grad.array.astype(p.dtype, copy=False), self._arrays(p, group)
                    self.update(p.array, grad, arrays, group, self.steps_taken(p))
                    p.changed()
                    self.advance(p, arrays)

    def _arrays(self, parameter: Tensor, group: Group) -> dict[str, Array]:
        """The parameter's state arrays; zeros before the first step."""
        arrays = {}
        for name in self.slots(group):
            present = self.kept(parameter, name)
            if present is None:
                present = full_like(parameter.detach(), value=0.0)
            arrays[name] = present.to(parameter.device, parameter.dtype).array
        return arrays

    def slots(self, group: Group) -> tuple[str, ...]:
        """The names of the state arrays that ``update`` needs for this group."""
        parts = [text.partition(" if ") for text in self.arrays]
        return tuple([name for name, _, option in parts if not option or group[option]])

    def steps_taken(self, parameter: Tensor) -> Any:
        """How many steps the parameter's state has seen, as far as the update needs to know."""
        return int(self.kept(parameter, "step", 0))

    def after(self, group: Group, steps_taken: Any) -> Any:
        """What ``steps_taken`` gives one step later."""
        return steps_taken + 1

    def update(
        self, data: Array, grad: Array, state: dict[str, Array], group: Group, steps_taken: Any
    ) -> None:
        """Move ``data`` and ``state`` (by slot name) one step, in place: arrays of one shape."""
        arrays = self.given(state)
        self.rule(data, grad, *arrays, **self.constants(group, steps_taken))

    def given(self, state: dict[str, Array]) -> list[Array | None]:
        """The state arrays as the rule takes them; None for those that the group has not."""
        return [state.get(text.partition(" if ")[0]) for text in self.arrays]

    def constants(self, group: Group, steps_taken: Any) -> dict[str, Any]:
        """What the rule takes by name."""
        group = {**group, "lr": float(group["lr"])}
        known = {**group, **self.numbers(group, steps_taken)}
        return {name: known[name] for name in self.rule.constants}

    def numbers(self, group: Group, steps_taken: Any) -> dict[str, Any]:
        """The rule's constants that are not options of the group."""
        return {}

    def advance(self, parameter: Tensor, arrays: dict[str, Array], steps: int = 1) -> None:
        """Count steps of the parameter (in float32, as PyTorch), and keep its state ``arrays``."""
        step = np.float32(float(self.kept(parameter, "step", 0)))
        for _ in range(steps):  # from 2**24 on float32 counts no further
            step += np.float32(1)
        self.keep(parameter, step=np.asarray(step), **arrays)

    def keep(self, parameter: Tensor, **arrays: Array) -> None:
        """Put arrays into the parameter's state."""
        self.stepped = True
        held = {name: wrap(array) for name, array in arrays.items()}
        self.state.setdefault(parameter, {}).update(held)

    def kept(self, parameter: Tensor, name: str, default: Any = None) -> Any:
        """What the parameter's state has under a name."""
        return self.state.get(parameter, {}).get(name, default)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or fill them with zeros."""
        with no_grad():
            for each in state.numbered(self):
                each.grad = None if set_to_none or each.grad is None else each.grad.zero_()

    state_dict, load_state_dict = state.state_dict, state.load_state_dict

    def __repr__(self) -> str:
        text = ""
        for i, group in enumerate(self.param_groups):
            lines = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += "".join([f"\nParameter Group {i}\n", *lines])
        return f"{type(self).__name__} ({text})"


class Declared(Optimizer):
    """An optimiser whose class statement lists the options with their defaults, and in ``named``
    those of COMMON that are given by name only: ``class Mine(Declared, lr=0.1, named="fused")``."""

    fixed: ClassVar[Group] = {}
    """Options that the constructor does not take."""

    def __init_subclass__(cls, named: str = "", **options: Any) -> None:
        rest = {name: COMMON[name] for name in named.split()}
        takes = [parameter("params", Parameter.empty, "Params")] + [
            parameter(name, default, TYPES.get(type(default), "float"), named=name in rest)
            for name, default in {**options, **rest}.items()
        ]  # fmt: skip
        if options:
            cls.__init__ = constructor(takes, Declared.__init__)  # type: ignore[method-assign]

    def __init__(self, params: Params, *args: Any, **options: Any) -> None:
        super().__init__(params, {**options, **self.fixed})
