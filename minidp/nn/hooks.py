"""Hooks of modules: called before and after forward, and with the gradients of both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minidp.arguments import refuse
from minidp.errors import GraphError
from minidp.tensor import Tensor

if TYPE_CHECKING:
    from minidp.nn.module import Module


def call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A module's forward between its hooks."""
    for hook, with_kwargs in list(module._forward_pre_hooks.values()):
        given = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if given is not None and with_kwargs:
            refuse(not isinstance(given, tuple) or len(given) != 2, "forward pre-hook must return "
                   f"None or a tuple of (new_args, new_kwargs), but got {given}.", RuntimeError)
            args, kwargs = given
        elif given is not None:
            args = given if isinstance(given, tuple) else (given,)
    backward = list(module._backward_hooks.values())
    args = tuple(map(_passed, args)) if backward else args
    output = module.forward(*args, **kwargs)
    for hook, with_kwargs in list(module._forward_hooks.values()):
        rest = (kwargs, output) if with_kwargs else (output,)
        changed = hook(module, args, *rest)
        output = output if changed is None else changed
    return _watched(module, backward, args, output) if backward else output


def _passed(value: Any) -> Any:
    """The same values as a tensor of its own: its gradient is that of this one use."""
    real = isinstance(value, Tensor) and value.requires_grad
    return value.reshape(value.shape) if real else value


def _watched(module: Module, hooks: list[Any], args: tuple[Any, ...], output: Any) -> Any:
    """The output, such that backward tells the hooks the gradients of output and arguments.

    They are called when the gradient of the first argument is whole: backward meets it last.
    """
    ends = tuple(map(_passed, output)) if isinstance(output, tuple) else (_passed(output),)
    sides: list[list[Any]] = [[None] * len(args), [None] * len(ends)]
    found = [(0, i, x) for i, x in enumerate(args)] + [(1, i, x) for i, x in enumerate(ends)]
    found = [each for each in found if isinstance(each[2], Tensor) and each[2].requires_grad]
    single = sum(side == 0 for side, *_ in found) == 1

    def note(side: int, place: int, last: bool) -> Any:
        def hook(gradient: Tensor) -> Any:
            sides[side][place] = gradient
            for each in hooks if last else ():
                changed = each(module, *map(tuple, sides))
                if changed is not None and not single:
                    raise GraphError("a backward hook can change the gradient of one argument only")
                if changed is not None:
                    sides[0][place] = changed[place] if isinstance(changed, tuple) else changed
            return sides[side][place]

        return hook

    for number, (side, place, tensor) in enumerate(found):
        tensor.register_hook(note(side, place, last=number == 0))
    given = tuple(map(_passed, ends))  # hooks on these run before the module's
    return given if isinstance(output, tuple) else given[0]
