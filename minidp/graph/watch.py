"""A Watch is told what the ops of a thread do, while it is ``mode.watch``.

The detection of anomalies is one, the tape that captures a step another.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from minidp.types import Array

if TYPE_CHECKING:
    from minidp.node import Node
    from minidp.op import Op
    from minidp.tensor import Tensor

T = TypeVar("T")
PACKAGE = str(Path(__file__).parents[1])


class Watch:
    """What can be told; a subclass says what it wants to hear."""

    tensors = False
    """Whether rules are to run on Tensors, so that what backward does is told too."""

    def ran(
        self, op: Op, inputs: Sequence[Any], constants: dict[str, Any], results: Sequence[Array],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        """``op`` has computed ``results``, wrapped as ``tensors`` where an input was one."""

    def met(self, tensor: Tensor) -> None:
        """An op or Python has met a Parameter, a Buffer, or another leaf."""

    def replaces(self, tensor: Tensor) -> None:
        """Another array is about to take the place of a tensor's."""

    def read(self, tensor: Tensor) -> None:
        """A value is about to be read in Python."""

    def begins(self, outputs: Sequence[Tensor]) -> None:
        """Backward begins from ``outputs``."""

    def gave(self, node: Node, position: int, cotangent: Any) -> None:
        """The rule of an argument of ``node`` has given its cotangent."""

    def gathers(self, node: Node) -> None:
        """``node.grad`` is about to be read, or added to."""

    def gathered(self, node: Node) -> None:
        """It was set."""

    def enters(self, module: Any) -> None:
        """A module is called."""

    def seeds(self) -> None:
        """A random generator is about to be seeded."""

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """A piece of Python that ``minidp.mode.aside`` sets apart is to run."""
        return function(*arguments)


class Relay(Watch):
    """Tells another watch, if there is one, all that it is told."""

    def __init__(self, outer: Watch | None) -> None:
        self.outer = outer or Watch()
        self.tensors = self.outer.tensors

    def ran(
        self, op: Op, inputs: Sequence[Any], constants: dict[str, Any], results: Sequence[Array],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        self.outer.ran(op, inputs, constants, results, tensors)

    def met(self, tensor: Tensor) -> None:
        self.outer.met(tensor)

    def replaces(self, tensor: Tensor) -> None:
        self.outer.replaces(tensor)

    def read(self, tensor: Tensor) -> None:
        self.outer.read(tensor)

    def begins(self, outputs: Sequence[Tensor]) -> None:
        self.outer.begins(outputs)

    def gave(self, node: Node, position: int, cotangent: Any) -> None:
        self.outer.gave(node, position, cotangent)

    def gathers(self, node: Node) -> None:
        self.outer.gathers(node)

    def gathered(self, node: Node) -> None:
        self.outer.gathered(node)

    def enters(self, module: Any) -> None:
        self.outer.enters(module)

    def seeds(self) -> None:
        self.outer.seeds()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        return self.outer.call(function, *arguments)


def line_outside() -> str:
    """The nearest line of the program that is not minidp's own."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return f"at {frame.f_code.co_filename}:{frame.f_lineno}"
