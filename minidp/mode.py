"""Modes of the running thread: is autograd recording, which replica am I, which dtype is default.

They are per thread, so that ``no_grad`` in one thread does not silence another, and are handed on
to the threads of replicas by ``Mode.handed_on``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from minidp.types import DType, float32

if TYPE_CHECKING:
    from minidp.device import Device
    from minidp.graph.watch import Watch
    from minidp.random import Generator

T = TypeVar("T")


class Replica(Protocol):
    """What the engine asks of the replica that runs in this thread; see ``minidp.parallel``."""

    rank: int
    device: Device
    generator: Generator
    first_row: int
    alone: bool
    fraction: float
    """Rows here / rows everywhere."""
    place: tuple[int, int]
    """Which one it is of the replicas that have rows in this step, and how many these are."""

    def local(self, shared: Any) -> Any:
        """This replica's tensor for a Parameter or Buffer of the one shared module."""

    def check_change(self, tensor: Any) -> None:
        """An error if forward must not change the tensor, for all replicas share it."""

    def seed(self) -> float:
        """What a replica's backward starts from: its fraction, multiplied by a loss scale."""

    def all_reduce(self, array: Any, name: str) -> Any:
        """The sum of ``array`` over the replicas that have rows in this step."""

    def everywhere(self, here: Any, name: str) -> Any:
        """The sum of the Tensor ``here`` over the rows of all replicas, and parts of the step."""

    def at_commit(self, action: Any) -> None:
        """Run ``action()`` once for all replicas, when the step is accepted."""

    def at_commit_sum(self, owner: Any, values: Any, action: Any) -> None:
        """Run ``action(sum of values)`` once for all replicas when the step is accepted; what one
        ``owner`` gives in several parts of a step is added too."""

    def clip_norm(self, limit: float, order: float, among: Any, require_finite: bool) -> float:
        """Wait for the gradients and scale them down to the norm ``limit``; returns the norm."""

    def update(self, optimizer: Any) -> None:
        """Finish the step: wait for the gradients and update this replica's share."""


_set = threading.local.__setattr__


class Mode(threading.local):
    """The modes of one thread. Class attributes are the values a new thread starts with."""

    grad: bool = True
    default_dtype: DType = float32
    default_device: Device | None = None
    """Where new tensors are made; None: in host memory."""
    replica: Replica | None = None
    denominator: Callable[[Any], Any] | None = None
    """What a mean over all replicas divides by, from its local weight, where that is known."""
    generator: Generator | None = None
    """Draws here, in place of the replica's generator or the default one."""
    watch: Watch | None = None
    """Is told of every op that runs; see ``minidp.graph.watch``."""
    faults: tuple[Any, ...] = ()
    """What is to go wrong on purpose; see ``dp.testing.inject``."""

    short: tuple[Callable[..., Any], bool] | None
    """``run`` and ``grad``, which the short way of an op asks for together, as it takes long to
    find anything that belongs to a thread; None while a watch is to be told."""

    def __init__(self) -> None:
        self.modules: list[Any] = []
        """The modules whose forward runs, outermost first."""
        self.run = _quiet(Context()).run
        """Calls a function without NumPy's floating-point warnings."""
        self.grad = self.grad  # which sets ``short``

    def __setattr__(self, name: str, value: Any) -> None:
        _set(self, name, value)
        if name in ("grad", "watch"):
            _set(self, "short", (self.run, self.grad) if self.watch is None else None)

    def check_change(self, tensor: Any) -> None:
        """Called before a tensor is changed in place: not by forward, if all replicas share it."""
        if self.replica is not None and self.modules:
            self.replica.check_change(tensor)

    def handed_on(self) -> dict[str, Any]:
        """The modes that a thread takes over from the one that starts it."""
        names = "grad", "default_dtype", "default_device"
        return {name: getattr(self, name) for name in names}


quiet: ContextVar[bool] = ContextVar("quiet", default=False)
"""Whether NumPy's floating-point warnings are off here already."""


def _quiet(context: Context) -> Context:
    """Turn NumPy's floating-point warnings off in ``context``."""
    for variable, value in _SILENCE:
        context.run(variable.set, value)
    return context


def _silence() -> list[tuple[ContextVar[Any], Any]]:
    """What to set for that, also of NumPy's own variables: its ``seterr`` takes a microsecond."""
    context = Context()
    context.run(np.seterr, all="ignore")
    context.run(quiet.set, True)
    return list(context.items())


_SILENCE = _silence()


def quietly(function: Callable[..., T], *arguments: Any) -> T:
    """Call it without NumPy's floating-point warnings.

    To enter a context costs 30 ns, ``np.errstate`` a microsecond. Ops, which nothing of the
    user's runs in, use ``mode.run``, made once for each thread.
    """
    if quiet.get():
        return function(*arguments)
    return _quiet(copy_context()).run(function, *arguments)


mode = Mode()


def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Run a piece of Python whose ops are its own business, such as an optimiser's update. A step
    that is captured runs it again, with its new arguments, each time it is replayed."""
    return function(*arguments) if mode.watch is None else mode.watch.call(function, *arguments)


def apart(function: Callable[..., T]) -> Callable[..., T]:
    """A function that runs ``aside`` whenever it is called: it counts, or sets something."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> T:
        if mode.watch is None:
            return function(*arguments, **named)
        return aside(partial(function, **named) if named else function, *arguments)

    return call


def told_as(text: str) -> Callable[[T], T]:
    """What a function that is run ``aside`` is called where a captured step is printed."""

    def mark(function: T) -> T:
        function.told_as = text  # type: ignore[attr-defined]
        return function

    return mark


@contextmanager
def switched(**values: Any) -> Iterator[None]:
    """Set modes of this thread for the length of a ``with`` block."""
    before = {name: getattr(mode, name) for name in values}
    for name, value in values.items():
        setattr(mode, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(mode, name, value)


def get_default_dtype() -> DType:
    """The dtype that Python floats become: float32 unless set otherwise in this thread."""
    return mode.default_dtype


def set_default_dtype(dtype: Any) -> None:
    """Let Python floats become ``dtype``, in this thread and the replicas it launches."""
    from minidp.errors import DTypeError
    from minidp.types import as_dtype

    found = as_dtype(dtype)
    if found.kind != "f":
        raise DTypeError(f"set_default_dtype({found}): expected a floating-point dtype")
    mode.default_dtype = found


def get_default_device() -> Device:
    """Where tensors are made unless they are told: ``cpu:0`` unless set otherwise."""
    from minidp.device import Device

    return mode.default_device or Device("cpu", 0)


def set_default_device(device: Any) -> None:
    """Let tensors be made on ``device``, in this thread; replicas make them on their own.

    None: in host memory, as at first. What is made of an array stays where the array is.
    """
    from minidp.device import device as as_device

    mode.default_device = None if device is None else as_device(device)
