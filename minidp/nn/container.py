"""Modules that hold modules: in a row, as a list, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from minidp.nn.module import Module


class Numbered(Module):
    """Children under the names "0", "1", ...: what Sequential and ModuleList share."""

    def _all(self) -> list[Module]:
        return [value for value in vars(self).values() if isinstance(value, Module)]

    def _names(self) -> list[str]:
        return [name for name, value in vars(self).items() if isinstance(value, Module)]

    def _name(self, index: int) -> str:
        names = self._names()
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range: there are {len(names)} modules")
        return names[index]

    def _renumber(self, modules: Iterable[Module]) -> None:
        for name in self._names():
            delattr(self, name)
        for index, module in enumerate(modules):
            self.add_module(str(index), module)

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._all()
        del modules[index]
        self._renumber(modules)

    def append(self, module: Module) -> Self:
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        modules = self._all()
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, index: int = -1) -> Module:
        module = self._all()[index]
        del self[index]
        return module


class Sequential(Numbered):
    """Modules in a row: each is called with what the one before returned.

    ``Sequential(a, b)`` names them "0", "1"; ``Sequential({"first": a, "second": b})`` by its keys.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], Mapping)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(str(name), module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)({name: vars(self)[name] for name in self._names()[index]})
        return vars(self)[self._name(index)]

    def forward(self, input: Any) -> Any:
        for module in self._all():
            input = module(input)
        return input


class ModuleList(Numbered):
    """A list whose modules are registered; it has no forward."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._all()[index])
        return vars(self)[self._name(index)]


class ModuleDict(Module):
    """A dict whose modules are registered; it has no forward."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Module:
        return dict(self.items())[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self.items())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        return [name for name, _ in self.items()]

    def values(self) -> list[Module]:
        return [module for _, module in self.items()]

    def items(self) -> list[tuple[str, Module]]:
        return [(n, value) for n, value in vars(self).items() if isinstance(value, Module)]

    def update(self, modules: Any) -> None:
        """Add from a mapping or from (name, module) pairs."""
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module

    def pop(self, key: str) -> Module:
        module = self[key]
        delattr(self, key)
        return module

    def clear(self) -> None:
        for key in self.keys():
            delattr(self, key)
