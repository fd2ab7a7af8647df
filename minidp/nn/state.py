"""The state of a module by name: what is saved, and loading it whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from minidp.autograd import no_grad
from minidp.errors import CheckpointError
from minidp.parameter import Buffer, Parameter
from minidp.tensor import Tensor

if TYPE_CHECKING:
    from minidp.nn.module import Module


class StateDictError(CheckpointError, RuntimeError):
    """Names or shapes of a state dict that are not those of the module."""


class Keys(NamedTuple):
    """What a state dict that was loaded with ``strict=False`` lacked, and had too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def entries(module: Module, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """(key, tensor) of every parameter and persistent buffer; tied ones under each name.

    Of each module first its parameters, then its buffers, then its children: PyTorch's order.
    """
    for path, each in module.named_modules(remove_duplicate=False):
        start = prefix + (f"{path}." if path else "")
        for kind in (Parameter, Buffer):
            for name, value in vars(each).items():
                if isinstance(value, kind) and each._persistent.get(name, True):
                    yield start + name, value


def load(module: Module, given: Mapping[str, Any], strict: bool) -> Keys:
    """Copy ``given`` into the module's own arrays, so that every reference stays valid.

    A StateDictError lists all that does not fit, before anything has changed; missing and
    unexpected names only when ``strict``.
    """
    own = dict(entries(module))
    keys = Keys([k for k in own if k not in given], [k for k in given if k not in own])
    problems = _names(keys) if strict else []
    common = [(name, own[name], value) for name, value in given.items() if name in own]
    problems += [_misfit(*each) for each in common if _differs(*each[1:])]
    if problems:
        text = "\n\t".join(problems)
        raise StateDictError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{text}\n"
            "Nothing was loaded. strict=False ignores missing and unexpected keys."
        )
    with no_grad():
        for _, tensor, value in common:
            tensor.copy_(value)
    return keys


def _names(keys: Keys) -> list[str]:
    pairs = zip(("Missing", "Unexpected"), keys, strict=True)
    return [
        f"{kind} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + "."
        for kind, names in pairs
        if names
    ]


def _differs(tensor: Tensor, value: Any) -> bool:
    return not hasattr(value, "shape") or tuple(value.shape) != tensor.shape


def _misfit(name: str, tensor: Tensor, value: Any) -> str:
    given = f"shape {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
    return f"size mismatch for {name}: {given} in the state dict, {tensor.shape} in the module."
