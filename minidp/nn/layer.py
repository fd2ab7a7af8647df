"""What layers share; and layers without parameters, in one line each.

::

    class ELU(Stateless, of=F.elu): ...
    class Softmax(Stateless, of=F.softmax, takes="dim"): ...

The function's signature tells the rest. Its arguments annotated ``Tensor`` are those of
``forward``; ``training`` is the module's mode; all others are options: the constructor takes them,
with the function's defaults, and keeps them as attributes of the same names (those annotated
``Tensor | None`` as buffers), and ``forward`` hands them on as they are by then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from minidp.create import empty
from minidp.nn.module import Module
from minidp.parameter import Parameter


class Layer(Module):
    """A module with options.

    ``shows`` is a template of what is printed: ``"{size}, beta={beta}"``; of ``hides`` that is
    added which has not its usual value. ``bias`` stands for whether there is one. Kin differ by
    constants: ``class Conv2d(Convolution, axes=2): ...``
    """

    shows: ClassVar[str | None] = None
    hides: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **constants: Any) -> None:
        super().__init_subclass__()
        for name, value in constants.items():
            setattr(cls, name, value)

    def _make(self, device: Any, dtype: Any, **shapes: Any) -> None:
        """Parameters of these shapes, whose values ``reset_parameters`` sets; None for None."""
        for name, shape in shapes.items():
            value = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, value)

    def extra_repr(self) -> str:
        bias = getattr(self, "bias", None)
        values = {**vars(self), "bias": bias is not None and bias is not False}
        shown = [self.shows.format_map(values)] if self.shows else []
        for key, usual in self.hides.items():
            value = values[key.partition("!")[0]]
            if any(one != usual for one in (value if isinstance(value, tuple) else (value,))):
                shown.append(f"{key.partition('!')[0]}={{{key}}}".format_map(values))
        return ", ".join(shown)


class Stateless(Layer):
    """A layer that is a function with options. A subclass may add what is particular about it.

    ``of`` is the function; ``takes`` names the options, if not all of them are or in another
    order; ``shows`` those that are printed, or is a template: ``shows="{size}, beta={beta}"``.
    """

    function: ClassVar[Callable[..., Any]]
    options: ClassVar[dict[str, inspect.Parameter]] = {}
    made_of: ClassVar[tuple[str, ...]] = ()
    _passed: ClassVar[tuple[str, ...]] = ()
    _has_mode: ClassVar[bool] = False
    __signature__: ClassVar[inspect.Signature | None] = None

    def __init_subclass__(
        cls, of: Callable[..., Any] | None = None, takes: str | None = None,
        shows: str | None = None, **constants: Any,
    ) -> None:  # fmt: skip
        super().__init_subclass__(**constants)
        if "__init__" in vars(cls):
            cls.__signature__ = None  # its own
        if of is not None:
            given = inspect.signature(of).parameters
            names = [n for n, p in given.items() if p.annotation != "Tensor" and n != "training"]
            made = inspect.signature(cls._check).parameters
            names = names if takes is None else takes.split()
            cls.options = {name: made.get(name) or given[name] for name in names}
            cls.made_of, cls._passed = tuple(made)[1:], tuple(n for n in names if n not in made)
            cls.function, cls._has_mode = staticmethod(of), "training" in given
            cls.__doc__ = cls.__doc__ or of.__doc__
            cls.__signature__ = inspect.Signature(list(cls.options.values()))
            if shows is None and cls.shows is None:
                shows = " ".join(name for name in cls.options if name != "inplace")
                cls.hides = {"inplace": False} if "inplace" in cls.options else {}
        if shows is not None:
            pairs = [f"{name}={{{name}!r}}" for name in shows.split()]
            cls.shows = shows if "{" in shows else ", ".join(pairs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        signature = inspect.Signature(list(self.options.values()))
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}{signature}: {error}") from None
        given.apply_defaults()
        options = given.arguments
        made_of = {name: options.pop(name) for name in self.made_of if name in options}
        for name, value in options.items():
            state = self.options[name].annotation == "Tensor | None"
            (self.register_buffer if state else self.__setattr__)(name, value)
        self._check(**made_of)

    def _check(self) -> None:
        """Refuse or complete the options that were given, which are attributes by now. Arguments
        that a subclass adds here are the constructor's too: what parameters are made of."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        for name in self._passed:
            named[name] = getattr(self, name)
        if self._has_mode:
            named["training"] = self.training
        return self.function(*inputs, **named)
