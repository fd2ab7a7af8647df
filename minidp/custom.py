"""``autograd.Function``: an op of one's own as PyTorch's lessons write it, forward and backward.

Where a lesson is not being ported, ``@dp.op`` says the same in one paragraph, and can be captured.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from minidp.backend import backend_of
from minidp.errors import GraphError, ShapeError
from minidp.mode import mode, switched
from minidp.node import Version
from minidp.op import op
from minidp.record import pick
from minidp.tensor import Tensor
from minidp.types import Array


class Context:
    """What ``forward`` hands to ``backward``: tensors by ``save_for_backward``, and any attributes.

    ``needs_input_grad`` says of each argument whether its gradient is asked for.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._kept: list[tuple[Any, int | None, Version]] = []
        self._constant: tuple[Tensor, ...] = ()
        self._fills = True
        self._moments: list[int] = []
        self._node: Any = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep arguments or results (or None) for ``saved_tensors``."""
        self._kept = [(x, None, [0] if x is None else x.version) for x in tensors]
        self._moments = [version[0] for _, _, version in self._kept]

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` is given zeros (else None) for results that nothing depends on."""
        self._fills = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Not offered: forward may not change its arguments."""
        raise GraphError("mark_dirty: a Function may not change its arguments in place: return new "
                         "tensors, or use Tensor's own methods that do")  # fmt: skip

    def _has_gradient(self, x: Any) -> bool:
        real = isinstance(x, Tensor) and x.dtype.kind == "f"
        return real and not any(x is each for each in self._constant)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, tied to the graph as it was."""
        for (_, _, version), moment in zip(self._kept, self._moments, strict=True):
            if version[0] != moment:
                raise GraphError("backward: a tensor kept by save_for_backward was changed in "
                                 "place since. Save a clone(), or change it later")  # fmt: skip
        return tuple([x if place is None else self._tied(x, place) for x, place, _ in self._kept])

    def _tied(self, array: Array, place: int) -> Tensor:
        """A result: kept without its node, which keeps this context."""
        tensor, node = Tensor(array), self._node()
        if node is not None:
            tensor.node = pick(node, tensor, place)
        return tensor

    def _let_go(self, results: list[Tensor]) -> None:
        """Keep of the results their arrays only."""
        place = {id(x): i for i, x in enumerate(results)}
        self._kept = [(x, None, v) if id(x) not in place else (x.array, place[id(x)], v)
                      for x, _, v in self._kept]  # fmt: skip


class Function:
    """The base of functions with a ``forward`` and a ``backward``; called by ``apply``.

    ``forward(ctx, *args)`` computes without recording; ``backward(ctx, *gradients)``, given the
    cotangent of each result, returns one for each argument, None where there is none. Or
    ``forward(*args)`` with ``setup_context(ctx, inputs, output)``.

    >>> class Square(dp.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = dp.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError("a Function needs a static method backward(ctx, *gradients)")

    setup_context: Any = None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """``forward`` of the arguments, recorded as one op that goes back by ``backward``."""
        ctx = Context()
        ctx.needs_input_grad = tuple([isinstance(x, Tensor) and x.requires_grad for x in args])
        with switched(grad=False):
            output = cls.forward(*args) if cls.setup_context else cls.forward(ctx, *args)
            if cls.setup_context:
                cls.setup_context(ctx, args, output)
        results = list(output) if isinstance(output, (tuple, list)) else [output]
        if not (mode.grad and any(ctx.needs_input_grad)):
            return output
        places = [i for i, x in enumerate(results) if ctx._has_gradient(x)]
        if not places:
            return output
        tied = _tie(cls, ctx, args, results, places)
        for i, tensor in zip(places, tied, strict=True):
            results[i] = tensor
        return type(output)(results) if isinstance(output, (tuple, list)) else results[0]


def _tie(
    cls: type[Function], ctx: Context, args: tuple[Any, ...], every: list[Any], places: list[int]
) -> Any:
    """The results at ``places`` as those of one node, whose parents are those of the tensors among
    ``args``."""
    results = [every[i] for i in places]
    fresh = [x.clone() if x.base is not None or any(x is a for a in args) else x for x in results]
    given = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
    slots = {place: slot for slot, place in enumerate(places)}
    kinds = [(slots.get(i), x.shape, x.dtype) if isinstance(x, Tensor) else None
             for i, x in enumerate(every)]  # fmt: skip
    call = _Call(cls, ctx, given, len(args), kinds)
    tied = function(*[args[i] for i in given], call=call, arrays=[x.array for x in fresh])
    ctx._let_go(results)
    ctx._node = weakref.ref(tied[0].node.parents[0])
    return tied


class _Call:
    """One application: it asks ``backward`` once for the cotangents of all arguments."""

    def __init__(
        self, cls: type[Function], ctx: Context, given: list[int], count: int, kinds: list[Any]
    ) -> None:
        self.cls, self.ctx, self.given, self.count, self.kinds = cls, ctx, given, count, kinds
        self.waiting: dict[int, Any] = {}

    def gradient(self, slots: dict[int, Any], i: int) -> Any:
        """The cotangent of the i-th tensor among the arguments, as what ``slots`` holds: arrays, or
        Tensors while backward is recorded."""
        if not self.waiting:
            self.waiting = dict(enumerate(self._ask(slots)))
        found = self.waiting.pop(i)
        recorded = any(isinstance(g, Tensor) for g in slots.values())
        return found if found is None or recorded else found.array

    def _ask(self, slots: dict[int, Any]) -> list[Any]:
        gs = [None if kind is None else self._cotangent(slots, *kind) for kind in self.kinds]
        answer = self.cls.backward(self.ctx, *gs)
        each = list(answer) if isinstance(answer, (tuple, list)) else [answer]
        if len(each) != self.count:
            raise ShapeError(f"{self.cls.__name__}.backward returned {len(each)} gradient(s) for "
                             f"{self.count} argument(s) of forward")  # fmt: skip
        return [each[i] for i in self.given]

    def _cotangent(self, slots: dict[int, Any], slot: int | None, shape: Any, dtype: Any) -> Any:
        """That of one result: zeros (or None) where it has none; ``slot`` is None where it may
        have none."""
        if slot in slots:
            return slots[slot] if isinstance(slots[slot], Tensor) else Tensor(slots[slot])
        if not self.ctx._fills:
            return None
        some = next(iter(slots.values()))
        some = some.array if isinstance(some, Tensor) else some
        return Tensor(backend_of(some).xp.zeros_like(some, shape=shape, dtype=dtype))


@op("*... -> *...", xs=lambda g, i, call: call.gradient(g, i))
def function(xp: Any, *xs: Array, call: Any, arrays: Any) -> tuple[Array, ...]:
    """What ``Function.apply`` has computed of xs already."""
    return tuple(arrays)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A ``backward`` that is not recorded: there are no second derivatives."""

    @wraps(backward)
    def call(*args: Any) -> Any:
        with switched(grad=False):
            return backward(*args)

    return call
