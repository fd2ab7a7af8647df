"""Weight normalisation: a weight as direction and length, w = g v / |v|.

Salimans and Kingma 2016, arXiv 1602.07868. The weight is computed wherever it is read, so nothing
is kept that replicas would have to share.
"""

from __future__ import annotations

from typing import Any

from minidp.functions.reduce import norm
from minidp.nn.container import ModuleDict
from minidp.nn.module import Module
from minidp.parameter import Parameter
from minidp.tensor import Tensor

__all__ = ["remove_weight_norm", "weight_norm"]


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """The module with ``name_g`` and ``name_v`` for its parameter ``name``.

    Each slice along ``dim`` has a length of its own; with None (or -1) there is one for all.
    """
    return _normed(module, name, "", dim)


def parametrized_weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """The same with PyTorch's newer names: g and v are ``parametrizations.name.original0`` and
    ``original1``."""
    return _normed(module, name, "parametrizations", dim)


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """The module with its parameter again, as it is now."""
    computed = vars(type(module)).get(name)
    if not isinstance(computed, property) or f"{name}_g" not in vars(module):
        raise ValueError(f"weight_norm of {name!r} not found in {module}")
    value = getattr(module, name).detach()
    module.__class__ = type(module).__bases__[0]
    delattr(module, f"{name}_g")
    delattr(module, f"{name}_v")
    module.register_parameter(name, Parameter(value))
    return module


def _lengths(v: Tensor, dim: int | None) -> Tensor:
    if dim is None or dim == -1:
        return norm(v)
    return norm(v, 2, tuple(axis for axis in range(v.ndim) if axis != dim), keepdim=True)


def _parts(module: Module, name: str, folder: str) -> tuple[Module, tuple[str, str]]:
    """The module that has g and v, and their names there."""
    if folder:
        return vars(module)[folder][name], ("original0", "original1")
    return module, (f"{name}_g", f"{name}_v")


def _normed(module: Module, name: str, folder: str, dim: int | None) -> Module:
    """The module with the lengths of a parameter, and itself, in the place of the parameter."""
    v = module.get_parameter(name).detach()
    delattr(module, name)
    if folder:
        setattr(module, folder, ModuleDict({name: Module()}))
    holder, names = _parts(module, name, folder)
    for each, value in zip(names, (_lengths(v, dim), v), strict=True):
        holder.register_parameter(each, Parameter(value))
    title = f"{'Parametrized' * bool(folder)}{type(module).__name__}"
    module.__class__ = _computing(type(module), title, name, folder, dim)
    return module


def _computing(cls: type, title: str, name: str, folder: str, dim: int | None) -> type:
    """A subclass whose attribute ``name`` is computed from g and v; made again when unpickled."""

    def weight(self: Any) -> Tensor:
        holder, names = _parts(self, name, folder)
        g, v = (getattr(holder, each) for each in names)
        return v * (g / _lengths(v, dim))

    def reduce(self: Any, protocol: Any) -> Any:
        return _again, (cls, title, name, folder, dim), vars(self)

    return type(title, (cls,), {name: property(weight), "__reduce_ex__": reduce})


def _again(*what: Any) -> Module:
    made: Any = _computing(*what)
    return made.__new__(made)
