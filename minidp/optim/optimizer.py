"""What all optimisers share: groups of parameters, their state, one step."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from minidp.arguments import NEEDED, constructor, refuse
from minidp.autograd import enable_grad, no_grad
from minidp.mode import aside, mode, told_as
from minidp.op import Op
from minidp.ops.comparison import full_like
from minidp.optim import state
from minidp.tensor import Tensor, wrap
from minidp.types import Array

Group = dict[str, Any]
Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[Group]
Counted = tuple[float, ...]
Arrays = dict[str, Array]
LABELS = {"lr": "learning rate", "eps": "epsilon value"}
COMMON = {"maximize": False, "foreach": None, "capturable": False, "differentiable": False,
          "fused": None, "decoupled_weight_decay": False}  # fmt: skip


class Optimizer:
    """The base of optimisers. ``params`` are tensors, named ones, or groups: ``[{"params": [...],
    "lr": 0.1}, ...]``; ``defaults``, a dict, are the options of groups that do not set them.

    A class statement may list the options with their defaults, and in ``named`` those of COMMON
    that are given by name only: ``class Mine(Optimizer, lr=0.1, named="fused")``. ``foreach``,
    ``fused`` and ``capturable``, which choose among PyTorch's implementations, are kept and mean
    nothing here; ``differentiable`` is not offered."""

    rule: Op
    """Updates arrays in place, element by element: one parameter, or a slice of a bucket."""
    arrays: tuple[str, ...] = ()
    """What the rule takes after the gradient, by name; "NAME if OPTION" where one asks for it."""
    counts: ClassVar[dict[str, float]] = {"step": 0.0}
    """What else a parameter's state holds, and begins with: numbers that ``after`` moves on."""
    nonnegative: tuple[str, ...] = ("lr", "eps", "weight_decay", "momentum", "alpha", "lr_decay",
                                    "initial_accumulator_value", "momentum_decay")  # fmt: skip
    """Options that must not be below 0."""
    fixed: ClassVar[Group] = {}
    """Options that a constructor made of the class statement does not take."""
    stepped = False
    """Whether a step was taken: schedules are to move after it."""

    def __init_subclass__(cls, named: str = "", **options: Any) -> None:
        if options:
            rest = {name: COMMON[name] for name in named.split()}
            cls.__init__ = constructor(  # type: ignore[method-assign]
                Optimizer.__init__, {"params": NEEDED, **options}, **rest)  # fmt: skip

    def __init__(self, params: Params, *defaults: Any, **options: Any) -> None:
        refuse(isinstance(params, (Tensor, dict, str)) or not isinstance(params, Iterable),
               f"{type(self).__name__}({type(params).__name__}, ...): expected an iterable of "
               "Tensors or dicts, such as model.parameters()", TypeError)  # fmt: skip
        self.defaults = {**dict(*defaults), **options.pop("defaults", {}), **options, **self.fixed}
        self.param_groups: list[Group] = []
        self.state: dict[Any, dict[str, Any]] = defaultdict(dict)
        given: list[Any] = list(params)
        refuse(not given, f"{type(self).__name__}: optimizer got an empty parameter list: the "
               "model has none, or what gives them was read before")  # fmt: skip
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Train more parameters, with options of their own."""
        refuse(not isinstance(param_group, dict),
               f"param_group must be a dict, but got {type(param_group)}", TypeError)  # fmt: skip
        group = {**self.defaults, **param_group, **state.parameters(param_group["params"])}
        refuse(not {*group["params"]}.isdisjoint(state.numbered(self)),
               "some parameters appear in more than one parameter group")  # fmt: skip
        self.check(group)
        self.param_groups.append(group)

    def check(self, group: Group) -> None:
        """An error when an option of the group is out of its range."""
        betas = group.get("betas", ())
        refuse(not isinstance(betas, (tuple, list)) or len(betas) == 1,
               f"Invalid betas: {betas!r}; expected two numbers", TypeError)  # fmt: skip
        limits = [(LABELS.get(name, f"{name} value"), group.get(name, 0.0), np.inf)
                  for name in self.nonnegative]  # fmt: skip
        limits += [(f"beta parameter at index {i}", beta, 1) for i, beta in enumerate(betas)]
        for label, value, limit in limits:
            if not isinstance(value, (Real, Tensor)):
                raise TypeError(f"Invalid {label}: {value!r}; expected a number")
            if not 0 <= float(value) < limit:  # each step looks here
                raise ValueError(f"Invalid {label}: {value}; not in [0, {limit})")
        refuse(group.get("differentiable"),
               "differentiable=True is not offered: steps are not recorded")  # fmt: skip

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient; returns what ``closure`` gave, which
        computes the gradients anew. In a replica the update is that of all replicas."""
        loss = None if closure is None else enable_grad(closure)()
        self.stepped = True
        if mode.replica is not None:
            mode.replica.update(self)
        else:
            aside(self._step_all)
        return loss

    @told_as("update")  # so a captured step, printed, calls this piece of it
    def _step_all(self) -> None:
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                grad, arrays = p.grad.array.astype(p.dtype, copy=False), self._arrays(p, group)
                self.update(p.array, grad, arrays, group, self.steps_taken(p))
                p.changed()
                self.advance(p, arrays, group)

    def _arrays(self, parameter: Tensor, group: Group) -> Arrays:
        """The parameter's state arrays; zeros before the first step."""
        held, device, dtype = self.state.get(parameter, {}), parameter.device, parameter.dtype
        return {name: held[name].to(device, dtype).array if name in held
                else full_like(parameter.array, value=0.0)
                for name in self.slots(group)}  # fmt: skip

    def slots(self, group: Group) -> tuple[str, ...]:
        """The names of the state arrays that ``update`` needs for this group."""
        parts = [text.partition(" if ") for text in self.arrays]
        return tuple([name for name, _, option in parts if not option or group.get(option)])

    def steps_taken(self, parameter: Tensor) -> Counted:
        """The parameter's ``counts``, or what else of its state the update needs to know."""
        return tuple([float(self.kept(parameter, *each)) for each in self.counts.items()])

    def after(self, group: Group, taken: Counted) -> Counted:
        """What ``steps_taken`` gives one step later: PyTorch counts in float32, up to 2^24."""
        return (min(taken[0] + 1, 2.0**24),)

    def update(self, data: Array, grad: Array, state: Arrays, group: Group, taken: Counted) -> None:
        """Move ``data`` and ``state`` (by slot name) one step, in place: arrays of one shape."""
        self.rule(data, grad, *self.given(state), **self.constants(group, taken))

    def given(self, state: Arrays) -> list[Array | None]:
        """The state arrays as the rule takes them; None for those that the group has not."""
        return [state.get(text.partition(" if ")[0]) for text in self.arrays]

    def constants(self, group: Group, taken: Counted) -> dict[str, Any]:
        """What the rule takes by name."""
        group = {**group, "lr": float(group["lr"])}
        known = {**group, **self.numbers(group, taken)}
        return {name: known[name] for name in self.rule.constants}

    def numbers(self, group: Group, taken: Counted) -> dict[str, Any]:
        """The rule's constants that are not options of the group."""
        return {}

    def advance(self, parameter: Tensor, arrays: Arrays, group: Group, steps: int = 1) -> None:
        """Count steps of the parameter, and keep its state ``arrays``."""
        taken, self.stepped = self.steps_taken(parameter), self.stepped or steps > 0
        for _ in range(steps):
            taken = self.after(group, taken)
        held = {name: np.array(n, np.float32) for name, n in zip(self.counts, taken)} | arrays
        if held:
            self.state.setdefault(parameter, {}).update(zip(held, map(wrap, held.values())))

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
        text = [f"\nParameter Group {i}\n" + "".join(
            f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
            for i, group in enumerate(self.param_groups)]  # fmt: skip
        return f"{type(self).__name__} ({''.join(text)})"
