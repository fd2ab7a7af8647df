"""Modules that hold modules or parameters: in a row, as a list, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, Self

from minidp.arguments import refuse
from minidp.nn.module import Module
from minidp.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """What containers share: attributes of one kind, by their names."""

    kind: ClassVar[type] = Module

    def _held(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, self.kind)}

    def _put(self, name: str, value: Any) -> None:
        if self.kind is Module:
            self.add_module(name, value)
        else:
            wraps = hasattr(value, "shape") and not isinstance(value, Parameter)
            self.register_parameter(name, Parameter(value) if wraps else value)

    def __len__(self) -> int:
        return len(self._held())

    def _printed(self) -> list[tuple[str, str]]:
        if self.kind is Module:
            return super()._printed()
        return [(name, f"Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]")
                for name, p in self._held().items()]  # fmt: skip


class Numbered(Container):
    """A list: what it holds has the names "0", "1", ..."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def _name(self, index: int) -> str:
        names = list(self._held())
        if not -len(names) <= index < len(names):
            raise IndexError(f"index {index} is out of range: there are {len(names)} entries")
        return names[index]

    def _renumber(self, values: Iterable[Any]) -> None:
        for name in self._held():
            delattr(self, name)
        for index, value in enumerate(values):
            self._put(str(index), value)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return vars(self)[self._name(index)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held().values())

    def __setitem__(self, index: int, value: Any) -> None:
        self._put(self._name(index), value)

    def __delitem__(self, index: int | slice) -> None:
        values = list(self)
        del values[index]
        self._renumber(values)

    def append(self, value: Any) -> Self:
        self._put(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def insert(self, index: int, value: Any) -> Self:
        values = list(self)
        values.insert(index, value)
        self._renumber(values)
        return self

    def pop(self, index: int = -1) -> Any:
        value = self[index]
        del self[index]
        return value


class Sequential(Numbered):
    """Modules in a row: each is called with what the one before returned.

    ``Sequential(a, b)`` names them "0", "1"; ``Sequential({"first": a, "second": b})`` by its keys.

    >>> nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))(dp.rand(5, 2)).shape
    (5, 1)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], Mapping)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(str(name), module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._held().items())[index]))
        return super().__getitem__(index)

    def insert(self, index: int, module: Module) -> Self:
        refuse(not -len(self) <= index <= len(self), f"Index out of range: {index}", IndexError)
        return super().insert(index, module)

    def __add__(self, other: Iterable[Module]) -> Sequential:
        return Sequential(*self, *other)

    def __mul__(self, other: int) -> Sequential:
        refuse(other < 1, f"Non-positive multiplication factor {other} for Sequential")
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self * other)[len(self) :])

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(Numbered):
    """A list whose modules are registered; it has no forward."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def _printed(self) -> list[tuple[str, str]]:
        """Equal neighbours on one line: (0-2): 3 x ReLU()."""
        runs: list[list[Any]] = []
        for at, (_, text) in enumerate(super()._printed()):
            if runs and runs[-1][2] == text:
                runs[-1][1] = at
            else:
                runs.append([at, at, text])
        return [(str(a), text) if a == b else (f"{a}-{b}", f"{b - a + 1} x {text}")
                for a, b, text in runs]  # fmt: skip


class ParameterList(Numbered):
    """A list of parameters; tensors that are put in become some."""

    kind = Parameter


class Named(Container, MutableMapping[str, Any]):
    """A dict: what it holds has the names of its keys."""

    __hash__, __eq__ = Module.__hash__, Module.__eq__  # one is not another that holds the same

    def __init__(self, values: Any = None) -> None:
        super().__init__()
        self.update(values or {})

    def __getitem__(self, key: str) -> Any:
        return self._held()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._put(key, value)

    def __delitem__(self, key: str) -> None:
        del self._held()[key]
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._held())


class ModuleDict(Named):
    """A dict whose modules are registered; it has no forward."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__(modules)


class ParameterDict(Named):
    """A dict of parameters; tensors that are put in become some."""

    kind = Parameter

    def __init__(self, parameters: Any = None) -> None:
        super().__init__(parameters)

    def update(self, parameters: Any = (), /) -> None:  # type: ignore[override]
        """Take over what another holds: of a plain dict in the order of its keys' letters."""
        super().update(sorted(parameters.items()) if type(parameters) is dict else parameters)

    def setdefault(self, key: str, default: Any = None) -> Any:
        super().setdefault(key, default)
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        last = list(self or [""])[-1]
        return last, self.pop(last)

    def copy(self) -> Self:
        """Another dict of the same parameters."""
        return type(self)(self)

    def __or__(self, other: Any) -> Self:
        return type(self)([*self.items(), *type(self)(other).items()])

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))
