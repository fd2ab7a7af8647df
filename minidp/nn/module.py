"""Module: a piece of a model that owns parameters, buffers and other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

from minidp.arguments import expect_tensors
from minidp.autograd import no_grad
from minidp.mode import mode
from minidp.nn import hooks, state
from minidp.node import Handle
from minidp.parameter import Buffer, Parameter, Shared, successor
from minidp.tensor import Tensor
from minidp.types import float16, float32, float64

__all__ = ["Module"]

Hook = Callable[..., Any]


class Module:
    """The base of all layers and models; PyTorch's, in plain Python.

    Parameters, buffers and child modules are plain attributes: what ``vars(self)`` holds of these
    three kinds is registered, in the order of first assignment. So reading one needs no
    ``__getattr__``, a module prints and pickles like any object, and nothing can get out of step.
    Only which buffers are saved is noted apart. ``forward`` says what the module computes.

    >>> [name for name, _ in nn.Linear(2, 1).named_parameters()]
    ['weight', 'bias']
    """

    training: bool
    _changes = 0
    """How often an attribute was set by who is no forward: captured steps look at it."""
    _parameters, _buffers = state.read_only(Parameter), state.read_only(Buffer)
    _modules: ClassVar[property]

    def __init__(self) -> None:
        self.training = True
        self._persistent: dict[str, bool] = {}
        self._forward_pre_hooks: dict[Handle, tuple[Hook, bool]] = {}
        self._forward_hooks: dict[Handle, tuple[Hook, bool]] = {}
        self._backward_hooks: dict[Handle, Hook] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines it."""
        name = type(self).__name__
        raise NotImplementedError(f'Module [{name}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        (modules := mode.modules).append(self)
        if mode.watch is not None:
            mode.watch.enters(self)
        try:
            if self._forward_pre_hooks or self._forward_hooks or self._backward_hooks:
                return hooks.call(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except AttributeError as error:
            if any(error.obj is given for given in args):
                expect_tensors(type(self).__name__, error.obj)
            raise
        finally:
            modules.pop()

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False,
                                  with_kwargs: bool = False) -> Handle:  # fmt: skip
        """Call ``hook(module, args)`` before each forward; what it returns, unless None, replaces
        the arguments. ``with_kwargs``: ``hook(module, args, kwargs)``, which may return both.
        ``prepend``: before other hooks. ``remove()`` of the handle ends that, here and below."""
        return Handle(self._forward_pre_hooks, (hook, with_kwargs), prepend)

    def register_forward_hook(self, hook: Hook, *, prepend: bool = False,
                              with_kwargs: bool = False) -> Handle:  # fmt: skip
        """Call ``hook(module, args, output)`` after each forward; what it returns, unless None,
        replaces the output. ``with_kwargs``: ``hook(module, args, kwargs, output)``."""
        return Handle(self._forward_hooks, (hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call ``hook(module, grad_input, grad_output)``, two tuples, in each backward; what it
        returns, unless None, replaces the gradient of the only argument."""
        return Handle(self._backward_hooks, hook, prepend)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, Buffer, Module)) and "training" not in vars(self):
            kind, own = type(value).__name__, type(self).__name__
            raise AttributeError(f"cannot assign {kind} {name!r} before Module.__init__() call: "
                                 f"begin {own}.__init__ with super().__init__()")  # fmt: skip
        state.check_kind(self, name, value, Parameter, Module)
        if isinstance(value, Tensor) and name in vars(self).get("_persistent", ()):
            value = value if isinstance(value, Shared) else successor(vars(self).get(name), value)
        elif isinstance(value, Buffer):
            self._persistent[name] = value.persistent
        super().__setattr__(name, value)
        if name != "training" and mode.watch is None and not mode.modules:
            vars(self)["_changes"] = self._changes + 1

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        vars(self)["_changes"] = self._changes + 1
        self._persistent.pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name made at run time; None marks it as absent."""
        state.check_name(self, name, Parameter, param)
        setattr(self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; ``persistent`` ones are in state_dict."""
        state.check_name(self, name, Buffer, tensor)
        self._persistent[name] = persistent
        setattr(self, name, None if tensor is None else Buffer(tensor))

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name made at run time."""
        state.check_name(self, name, Module, module)
        setattr(self, name, module)

    register_module = add_module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, each once."""
        return self._found(Module, "", recurse=False)

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
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

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules(None, "", remove_duplicate))

    def _found(
        self, kind: type, prefix: str, recurse: bool, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Every attribute of one kind with its dotted name, tied ones only at their first."""
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
        """(name, parameter) of all parameters, tied ones once."""
        return self._found(Parameter, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters; tied ones once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Buffer]]:
        """(name, buffer) of all buffers."""
        return self._found(Buffer, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        """All buffers."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; "" is this one."""
        found = self
        for name in target.split(".") if target else []:
            found = state.held(found, name, Module)
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path; with ``strict`` only where there is one."""
        path, _, name = target.rpartition(".")
        self.get_submodule(target if strict else path)
        self.get_submodule(path).add_module(name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        return state.held(self.get_submodule(path), name, Parameter)

    def get_buffer(self, target: str) -> Buffer:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        return state.held(self.get_submodule(path), name, Buffer)

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
            for each in self.parameters():
                each.grad = None if set_to_none or each.grad is None else each.grad.zero_()

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` on every module below, then on this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``: move all parameters
        and buffers, in place; a dtype applies to the floating-point ones and must be one."""
        with no_grad():
            for tensor in [*self.parameters(), *self.buffers()]:
                state.convert(tensor, *args, **kwargs)
        return self

    def half(self) -> Self:
        """Its floating-point tensors as float16."""
        return self.to(float16)

    def float(self) -> Self:
        """Its floating-point tensors as float32."""
        return self.to(float32)

    def double(self) -> Self:
        """Its floating-point tensors as float64."""
        return self.to(float64)

    def cpu(self) -> Self:
        """Move it to the CPU."""
        return self.to("cpu:0")

    def cuda(self, device: Any = None) -> Self:
        """Move it to a GPU."""
        return self.to(f"cuda:{device or 0}" if type(device or 0) is int else device)

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Names to parameters and persistent buffers (sharing memory), PyTorch's keys."""
        found = {} if destination is None else destination
        for name, tensor in state.entries(self, prefix):
            found[name] = tensor if keep_vars else tensor.detach()
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.Keys:
        """Copy values into the existing parameters and buffers; all of them, or an error.

        ``assign`` takes over the given arrays with their dtypes, instead of their values.
        """
        return state.load(self, state_dict, strict, assign)

    def extra_repr(self) -> str:
        """What ``print`` shows between the parentheses of this module."""
        return ""

    def _printed(self) -> list[tuple[str, str]]:
        """The children's names and texts."""
        return [(n, repr(c)) for n, c in vars(self).items() if isinstance(c, Module)]

    def __repr__(self) -> str:
        parts = [f"({name}): {text}".replace("\n", "\n  ") for name, text in self._printed()]
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        if len(extra) == 1 and not parts:
            return f"{type(self).__name__}({extra[0]})"
        inside = "\n  ".join(extra + parts)
        return f"{type(self).__name__}(\n  {inside}\n)" if inside else f"{type(self).__name__}()"


Module._modules = state.read_only(Module)
