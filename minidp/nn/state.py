"""The state of a module by name: what may be registered, what is saved, and loading it whole or
not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from minidp.autograd import no_grad
from minidp.create import as_tensor
from minidp.errors import CheckpointError
from minidp.parameter import Buffer, Parameter
from minidp.tensor import Tensor
from minidp.types import category

__all__ = ["StateDictError"]

if TYPE_CHECKING:
    from minidp.nn.module import Module


OLD = "num_batches_tracked"  # which files of old versions lack


class StateDictError(CheckpointError, RuntimeError):
    """Names or shapes of a state dict that are not those of the module."""


class Keys(NamedTuple):
    """What a state dict that was loaded with ``strict=False`` lacked, and had too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        lists = f"missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys}"
        return f"_IncompatibleKeys({lists})" if any(self) else "<All keys matched successfully>"


def read_only(kind: Any) -> property:
    """A module's attributes of one kind, by name, under PyTorch's name for the dict of them."""
    return property(lambda module: MappingProxyType(
        {name: x for name, x in vars(module).items() if isinstance(x, kind)}))  # fmt: skip


def check_kind(module: Module, name: str, value: Any, *registered: type) -> None:
    """Refuse to lose a parameter, module or buffer by giving its name to something else."""
    present = vars(module).get(name)
    kinds = [kind for kind in registered if isinstance(present, kind)]
    kinds += [Tensor] if not kinds and name in vars(module).get("_persistent", ()) else []
    for kind in kinds:
        if not (value is None or isinstance(value, kind)):
            wanted = kind.__name__
            raise TypeError(f"cannot assign {type(value).__name__} as {wanted.lower()} {name!r} "
                            f"({wanted} or None expected); to change its values in place: "
                            f"with no_grad(): module.{name}.copy_(...)")  # fmt: skip


def check_name(module: Module, name: Any, kind: type, value: Any) -> None:
    """Refuse a value of another kind, and a name that is no word or taken by another kind."""
    fits = hasattr(value, "shape") if kind is Buffer else isinstance(value, kind)
    word, own, given = kind.__name__, type(module).__name__, type(value).__name__
    if not fits and value is not None:
        raise TypeError(f"{own}: a {given} is not a {word} subclass; expected {word.lower()}s one "
                        "by one, such as nn.ReLU() or nn.Parameter(x)")  # fmt: skip
    if not isinstance(name, str) or name == "" or "." in name:
        wrong = KeyError if isinstance(name, str) else TypeError
        raise wrong(f"{word.lower()} name {name!r}: expected text without a dot")
    if hasattr(module, name) and not isinstance(vars(module).get(name, 0), (kind, type(None))):
        raise KeyError(f"attribute {name!r} already exists")


def held(module: Module, name: str, kind: type) -> Any:
    """The attribute ``name``, or an AttributeError where it is not of this kind."""
    found = vars(module).get(name)
    if not isinstance(found, kind):
        raise AttributeError(f"{type(module).__name__} has no {kind.__name__.lower()} {name!r}")
    return found


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


def load(module: Module, given: Mapping[str, Any], strict: bool, assign: bool = False) -> Keys:
    """Copy ``given`` into the module's own arrays, so that every reference stays valid.

    ``assign``: the parameters and buffers take over the given arrays. A StateDictError lists all
    that does not fit, before anything has changed; missing and unexpected names if ``strict``.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{type(module).__name__}.load_state_dict({type(given).__name__}): expected"
                        " a dict of tensors, as state_dict() and dp.load(file) give")  # fmt: skip
    own = dict(entries(module))
    missing = [k for k in own if k not in given and not k.endswith(OLD)]
    keys = Keys(missing, [k for k in given if k not in own])
    problems = [
        f"{kind} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + "."
        for kind, names in zip(("Missing", "Unexpected"), keys, strict=True) if names and strict
    ]  # fmt: skip
    common = [(name, own[name], value) for name, value in given.items() if name in own]
    for name, tensor, value in common:
        shape = tuple(value.shape) if hasattr(value, "shape") else None
        if shape != tensor.shape:
            told = type(value).__name__ if shape is None else f"shape {shape}"
            problems.append(f"size mismatch for {name}: {told} in the state dict, {tensor.shape} "
                            "in the module.")  # fmt: skip
    if problems:
        title = f"Error(s) in loading state_dict for {type(module).__name__}:"
        raise StateDictError("\n\t".join([title, *problems]) + "\nNothing was loaded. "
                             "strict=False ignores missing and unexpected keys.")  # fmt: skip
    with no_grad():
        for _, tensor, value in common:
            replace(tensor, as_tensor(value)) if assign else tensor.copy_(value)
    return keys


def convert(tensor: Tensor, *args: Any, **kwargs: Any) -> None:
    """Move a parameter or buffer as ``Tensor.to`` says; a dtype only where it is floating-point."""
    moved = tensor.detach().to(*args, **kwargs)
    if category(tensor.dtype) < 2:
        moved = tensor.detach().to(moved.device)
    elif category(moved.dtype) < 2:
        raise TypeError(f"Module.to({moved.dtype}): expected a floating-point dtype")
    replace(tensor, moved)


def replace(tensor: Tensor, moved: Tensor) -> None:
    """Give a leaf another array, and its gradient the same device and dtype."""
    if moved.array is tensor.array:
        return
    tensor.array = moved.array
    tensor.version[0] += 1
    if tensor.node is not None:
        tensor.node.dtype = moved.dtype
        if tensor.node.grad is not None:
            tensor.node.grad = tensor.node.grad.detach().to(moved.device, moved.dtype)
