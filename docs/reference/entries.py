"""What is public, and what can be said of it: names, homes, signatures, facts of ops."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from pages import ELSEWHERE, OWN, PAGES, SPACES, TORCH

from minidp.backend import get_backend
from minidp.errors import MinidpError
from minidp.nn.module import Module
from minidp.op import NAMES, OPS, Op
from minidp.tensor import Tensor


@dataclass(frozen=True)
class Entry:
    """A public name: ``space`` is the module that users reach it in."""

    space: str
    name: str
    value: Any

    @property
    def full(self) -> str:
        return f"{self.space}.{self.name}"

    @property
    def home(self) -> str:
        """The file that it is written in, as a module without ``minidp.``."""
        return home(self.value)

    @property
    def kind(self) -> str:
        """The kind of object, in the words of sphinx."""
        if inspect.isclass(self.value) and self.home != "types":
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if callable(self.value) and self.home != "types" else "data"

    @property
    def doc(self) -> str:
        """The docstring; a class without one says what its own base says, but not Module's."""
        if self.kind == "data":
            return repr(self.value)
        text = self.value.__doc__
        if self.kind == "class" and not text:
            bases = self.value.__mro__[: -1 - (Module in self.value.__mro__)]
            text = next((base.__doc__ for base in bases if base.__doc__), "")
        return inspect.cleandoc(text or "")

    @property
    def op(self) -> Op | None:
        """The op that this is, or whose name it has."""
        if isinstance(self.value, Op):
            return self.value
        return OPS.get(self.name) if self.kind == "function" else None

    @property
    def torch(self) -> str | None:
        """What PyTorch calls it, if it has it."""
        there = TORCH.get(self.space)
        return ELSEWHERE.get(self.full) or (
            f"{there}.{self.name}" if there and self.full not in OWN else None)  # fmt: skip

    @property
    def methods(self) -> list[str]:
        """The methods of Tensor with this name, in place too."""
        if self.space not in ("minidp", "minidp.nn.functional"):
            return []
        return [name for name in (self.name, f"{self.name}_") if name in vars(Tensor)]


def home(value: Any) -> str:
    if isinstance(value, Op):
        value = value.body
    module = getattr(value, "__module__", None) or type(value).__module__
    return "types" if module.startswith("numpy") else module.removeprefix("minidp.")


def public(space: str) -> list[str]:
    """The names that users reach in a module: ``__all__``, or what is defined in it or below."""
    module = importlib.import_module(space)
    if hasattr(module, "__all__"):
        return list(module.__all__)
    found = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    here = (space.removeprefix("minidp."), *(["parameter"] if hasattr(module, "__path__") else []))
    return [name for name, v in found.items() if callable(v) and home(v).startswith(here)]


@cache
def entries() -> list[Entry]:
    """Every public name of every module in ``SPACES``."""
    return [
        Entry(space, name, value) for space in SPACES
        for name in sorted(public(space), key=lambda n: (n.lower(), n))
        if not isinstance(value := getattr(importlib.import_module(space), name), ModuleType)
    ]  # fmt: skip


@cache
def originals() -> dict[Any, Entry]:
    """For each thing and name the entry of the first module that has it."""
    found: dict[Any, Entry] = {}
    for entry in entries():
        found.setdefault((entry.name, id(entry.value)), entry)
    return found


def original(entry: Entry) -> Entry:
    return originals()[entry.name, id(entry.value)]


@cache
def placed() -> dict[str, dict[str, list[list[Entry]]]]:
    """Page, section, and its entries; other names of one thing stand together."""
    return {
        page: {title: _together([e for place in places.split() for e in entries()
                                 if _in(original(e), place)])
               for title, places in sections.items()}
        for page, (_, _, sections) in PAGES.items()
    }  # fmt: skip


def _in(entry: Entry, place: str) -> bool:
    """Whether a place is the entry's ``file``, ``space:file`` or ``space:*``."""
    if place.startswith("="):
        return entry.full == f"minidp.{place[1:]}"
    space, _, file = place.rpartition(":")
    here = entry.space == (f"minidp.{space}" if space else "minidp")
    return here and file in ("*", entry.home) and entry.full not in named()


@cache
def named() -> set[str]:
    """The names that have a place of their own."""
    places = [p for _, _, sections in PAGES.values() for text in sections.values()
              for p in text.split()]  # fmt: skip
    return {f"minidp.{place[1:]}" for place in places if place.startswith("=")}


def _together(chosen: list[Entry]) -> list[list[Entry]]:
    groups: dict[Any, list[Entry]] = {}
    for entry in chosen:
        kept = original(entry)
        key = kept.full if entry.kind == "data" else (kept.space, id(entry.value))
        groups.setdefault(key, []).append(entry)
    for group in groups.values():
        value = group[0].value
        own = value.name if isinstance(value, Op) else getattr(value, "__name__", "")
        group.sort(key=lambda e: (e.name != own, e.name, SPACES.index(e.space)))
    return sorted(groups.values(), key=lambda group: group[0].name.lower())


# Signatures


class _Shown:
    """A default as it is shown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


PLAIN = ("Any", "Array", "Tensor", "Self", "None", "Callable[..., Any]")


def signature(value: Any, skip: int = 0) -> str:
    """How it is called: PyTorch's names, types where they say something."""
    op = value if isinstance(value, Op) else None
    try:
        whole = inspect.signature(op.body if op else value)
    except (TypeError, ValueError):
        return "()"
    shown = [_parameter(p) for p in list(whole.parameters.values())[1 if op else skip :]]
    if op and op.own and not op.variadic:  # its letters are for formulas; callers may say "input"
        letters = op.arguments[: len(shown)]
        shown[: len(letters)] = [p.replace(name=name) if len(p.name) == 1 and name else p
                                 for p, name in zip(shown, NAMES[: len(letters)])]  # fmt: skip
    back = whole.return_annotation
    back = whole.empty if back is whole.empty or _text(back) in PLAIN else _Shown(_text(back))
    return str(inspect.Signature(shown, return_annotation=back))


def _text(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def _parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, default = parameter.annotation, parameter.default
    if kind is not parameter.empty:
        kind = parameter.empty if _text(kind) in PLAIN else _Shown(_text(kind))
    if default is not parameter.empty and not re.fullmatch(r"[^<>\n]{1,40}", repr(default)):
        default = _Shown(getattr(default, "__name__", "..."))
    return parameter.replace(annotation=kind, default=default)


# Ops


@cache
def kernels(op: str) -> list[str]:
    """The backends that have a kernel of this name."""
    tables = {"cpu": "cpu", "cuda": "emu"}
    return [shown for shown, name in tables.items() if op in get_backend(name).kernel_names()]


def slopes(op: Op) -> list[str]:
    """The arguments that an op is differentiable with respect to."""
    return [name for name in op.arguments if name in op.rules]


# Docstrings

FORMULA = re.compile(r"=|\bd\w*\s*/\s*d\w|derivative|gradient", re.IGNORECASE)


def members(cls: type) -> dict[str, Any]:
    """The public methods and properties that a class adds to its bases', in order."""
    return {
        name: value for name, value in vars(cls).items()
        if not name.startswith("_") and name != "function"
        and isinstance(value, (FunctionType, property, classmethod, staticmethod))
        and (value.__doc__ if name == "forward" else not hasattr(super(cls, cls), name))
        and (not isinstance(value, FunctionType) or _own(value, cls))
    }  # fmt: skip


def _own(function: Any, cls: type) -> bool:
    """Whether a function stands in the body of the class."""
    there = f"minidp.{home(function)}" == cls.__module__
    return there and "<locals>" not in function.__qualname__


def lacking() -> list[tuple[str, str, str]]:
    """(file, name, what is missing) of every public docstring that says too little."""
    found = []
    for entry in entries():
        if entry.kind == "data":
            continue
        if not entry.doc:
            found.append((entry.home, entry.full, "no docstring"))
        elif isinstance(entry.value, Op) and slopes(entry.value) and not FORMULA.search(entry.doc):
            found.append((entry.home, entry.full, "no formula"))
        if entry.kind == "class" and not issubclass(entry.value, MinidpError):
            found += [(entry.home, f"{entry.full}.{name}", "no docstring")
                      for name, value in members(entry.value).items()
                      if not inspect.getdoc(value)]  # fmt: skip
    found += [(home(value), f"minidp.Tensor.{name}", "no docstring")
              for name, value in vars(Tensor).items()
              if not name.startswith("_") and callable(value) and not value.__doc__]  # fmt: skip
    return sorted(set(found))
