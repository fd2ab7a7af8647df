"""Module: a piece of a model that owns parameters, buffers and other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from minidp.autograd import no_grad
from minidp.mode import mode
from minidp.nn import state
from minidp.parameter import Buffer, Parameter, Shared
from minidp.tensor import Tensor
from minidp.types import category, float16, float32, float64

Hook = Callable[["Module", tuple[Any, ...], Any], Any]


class Module:
    """The base of all layers and models; PyTorch's, in plain Python.

    Parameters, buffers and child modules are plain attributes: what ``vars(self)`` holds of these
    three kinds is registered, in the order of first assignment. So reading one needs no
    ``__getattr__``, a module prints and pickles like any object, and nothing can get out of step.
    Only which buffers are saved is noted apart. ``forward`` says what the module computes.
    """

    training: bool

    def __init__(self) -> None:
        self.training = True
        self._persistent: dict[str, bool] = {}
        self._forward_hooks: dict[Handle, Hook] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode.modules.append(self)
        try:
            output = self.forward(*args, **kwargs)
        finally:
            mode.modules.pop()
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, output)
            output = output if changed is None else changed
        return output

    def register_forward_hook(self, hook: Hook) -> Handle:
        """Call ``hook(module, args, output)`` after each forward; what it returns, unless None,
        replaces the output. ``remove()`` of the returned handle ends that."""
        handle = Handle(self._forward_hooks)
        self._forward_hooks[handle] = hook
        return handle

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, Buffer, Module)) and "training" not in vars(self):
            raise AttributeError(
                f"cannot assign {type(value).__name__} {name!r} before Module.__init__() call: "
                f"begin {type(self).__name__}.__init__ with super().__init__()"
            )
        self._check_kind(name, value)
        if isinstance(value, Tensor) and name in vars(self).get("_persistent", ()):
            value = value if isinstance(value, Shared) else Buffer(value)
        elif isinstance(value, Buffer):
            self._persistent[name] = True
        super().__setattr__(name, value)

    def _check_kind(self, name: str, value: Any) -> None:
        """Refuse to lose a parameter, module or buffer by giving its name to something else."""
        present = vars(self).get(name)
        kinds: list[type] = [kind for kind in (Parameter, Module) if isinstance(present, kind)]
        kinds += [Tensor] if not kinds and name in vars(self).get("_persistent", ()) else []
        for kind in kinds:
            if not (value is None or isinstance(value, kind)):
                raise TypeError(
                    f"cannot assign {type(value).__name__} as {kind.__name__.lower()} {name!r} "
                    f"({kind.__name__} or None expected); to change its values in place: "
                    f"with no_grad(): module.{name}.copy_(...)"
                )

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._persistent.pop(name, None)

    def _check_name(self, name: str, kind: type) -> None:
        if not isinstance(name, str) or name == "" or "." in name:
            raise KeyError(f"{kind.__name__.lower()} name {name!r}: expected text without a dot")
        own = name in vars(self) and isinstance(vars(self)[name], (kind, type(None)))
        if hasattr(self, name) and not own:
            raise KeyError(f"attribute {name!r} already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name made at run time; None marks it as absent."""
        self._check_name(name, Parameter)
        setattr(self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; ``persistent`` ones are in state_dict."""
        self._check_name(name, Buffer)
        self._persistent[name] = persistent
        setattr(self, name, None if tensor is None else Buffer(tensor))

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name made at run time."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, Module)
        setattr(self, name, module)

    register_module = add_module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, each once."""
        seen: dict[Module, None] = {}
        for name, value in list(vars(self).items()):
            if isinstance(value, Module) and value not in seen:
                seen[value] = None
                yield name, value

    def children(self) -> Iterator[Module]:
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: dict[Module, None] | None = None, prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:  # fmt: skip
        """This module and all below it with their dotted paths, parents first."""
        memo = {} if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo[self] = None
        yield prefix, self
        for name, child in list(vars(self).items()):
            if isinstance(child, Module):
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def _tensors(
        self, kind: type, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        """Every Parameter or Buffer with its dotted name, tied ones only at their first."""
        seen: dict[Any, None] = {}
        below = self.named_modules(None, prefix, remove_duplicate)
        for path, module in below if recurse else [(prefix, self)]:
            for name, value in list(vars(module).items()):
                if isinstance(value, kind) and not (remove_duplicate and value in seen):
                    seen[value] = None
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        return self._tensors(Parameter, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters; tied ones once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Buffer]]:
        return self._tensors(Buffer, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; "" is this one."""
        found = self
        for name in target.split(".") if target else []:
            child = vars(found).get(name)
            if not isinstance(child, Module):
                raise AttributeError(f"{type(self).__name__}: no module {target!r} (at {name!r})")
            found = child
        return found

    def train(self, mode: bool = True) -> Self:
        """Switch dropout and batch statistics on (or off), here and below."""
        if not isinstance(mode, bool):
            raise ValueError(f"train({mode!r}): training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch dropout off and use running statistics: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train or freeze all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or fill them with zeros."""
        with no_grad():
            for parameter in self.parameters():
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call ``function`` on every module below, then on this one."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``: move all parameters
        and buffers, in place; a dtype applies to the floating-point ones and must be one."""
        with no_grad():
            for tensor in [*self.parameters(), *self.buffers()]:
                moved = tensor.detach().to(*args, **kwargs)
                if category(tensor.dtype) < 2:
                    moved = tensor.detach().to(moved.device)
                elif category(moved.dtype) < 2:
                    raise TypeError(f"Module.to({moved.dtype}): expected a floating-point dtype")
                _replace(tensor, moved)
        return self

    def half(self) -> Self:
        return self.to(float16)

    def float(self) -> Self:
        return self.to(float32)

    def double(self) -> Self:
        return self.to(float64)

    def cpu(self) -> Self:
        return self.to("cpu:0")

    def cuda(self, device: int = 0) -> Self:
        return self.to(f"cuda:{device}")

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Names to parameters and persistent buffers (sharing memory), PyTorch's keys."""
        found = {} if destination is None else destination
        for name, tensor in state.entries(self, prefix):
            found[name] = tensor if keep_vars else tensor.detach()
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> state.Keys:
        """Copy values into the existing parameters and buffers; all of them, or an error."""
        return state.load(self, state_dict, strict)

    def extra_repr(self) -> str:
        """What ``print`` shows between the parentheses of this module."""
        return ""

    def __repr__(self) -> str:
        children = [(n, c) for n, c in vars(self).items() if isinstance(c, Module)]
        parts = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in children]
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        if len(extra) == 1 and not parts:
            return f"{type(self).__name__}({extra[0]})"
        inside = "\n  ".join(extra + parts)
        return f"{type(self).__name__}(\n  {inside}\n)" if inside else f"{type(self).__name__}()"


class Handle:
    """Ends a registration, such as that of a hook."""

    def __init__(self, registry: dict[Handle, Any]) -> None:
        self.registry = registry

    def remove(self) -> None:
        self.registry.pop(self, None)


def _replace(tensor: Tensor, moved: Tensor) -> None:
    """Give a leaf another array, and its gradient the same device and dtype."""
    if moved.data is tensor.data:
        return
    tensor.data = moved.data
    tensor.changed()
    if tensor.node is not None:
        tensor.node.dtype = moved.dtype
        if tensor.node.grad is not None:
            tensor.node.grad = tensor.node.grad.detach().to(moved.device, moved.dtype)
