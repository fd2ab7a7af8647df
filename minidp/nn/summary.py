"""A table of a model's layers: output shapes, parameters, floating-point operations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minidp import random
from minidp.autograd import no_grad
from minidp.create import zeros
from minidp.nn.conv import Conv2d
from minidp.nn.linear import Linear
from minidp.nn.module import Module
from minidp.tensor import Tensor
from minidp.types import Shape


@dataclass(frozen=True)
class Row:
    """One call of one layer. ``flops`` counts a multiplication and an addition as two."""

    path: str
    kind: str
    shape: Shape | None
    parameters: int
    flops: int


@dataclass(frozen=True)
class Summary:
    """The table; ``print`` it. Parameters are counted once, however often their layer is called."""

    rows: tuple[Row, ...]
    parameters: int
    trainable: int
    flops: int

    def __str__(self) -> str:
        head = ("layer", "type", "output shape", "parameters", "flops")
        body = [(r.path, r.kind, "-" if r.shape is None else str(r.shape), f"{r.parameters:,}",
                 f"{r.flops:,}") for r in self.rows]  # fmt: skip
        foot = ("total", "", "", f"{self.parameters:,}", f"{self.flops:,}")
        widths = [max(len(row[i]) for row in (head, *body, foot)) for i in range(5)]
        lines = [_line(row, widths) for row in (head, *body, foot)]
        rule = "-" * len(lines[0])
        note = f"{self.trainable:,} of {self.parameters:,} parameters are trained"
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], note])

    __repr__ = __str__


def _line(row: Sequence[str], widths: list[int]) -> str:
    left = [text.ljust(width) for text, width in zip(row[:3], widths, strict=False)]
    right = [text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True)]
    return "  ".join(left + right)


def summary(model: Module, example: Any) -> Summary:
    """Run ``model`` once and tell what each layer gave.

    ``example`` is an input, a tuple of inputs, or the shape of one, batch included: zeros are
    used then. Layers are those without children, and others with parameters of their own. The
    model runs in evaluation mode, without recording: its statistics and the random numbers that
    come next are left as they were. ``flops`` are those of linear and convolution layers.
    """
    rows: list[Row] = []
    seen: dict[Any, None] = {}
    handles = [
        module.register_forward_hook(_recorder(path or type(model).__name__, rows, seen))
        for path, module in model.named_modules()
        if not any(module.children()) or any(True for _ in module.parameters(recurse=False))
    ]
    try:
        with no_grad(), _untouched(model):
            model(*_inputs(model, example))
    finally:
        for handle in handles:
            handle.remove()
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    trained = sum(size for size, trains in sizes if trains)
    flops = sum(row.flops for row in rows)
    return Summary(tuple(rows), sum(size for size, _ in sizes), trained, flops)


def _recorder(path: str, rows: list[Row], seen: dict[Any, None]) -> Any:
    def record(module: Module, inputs: Any, output: Any) -> None:
        own = [p for p in module.parameters(recurse=False) if p not in seen]
        seen.update(dict.fromkeys(own))
        first = output[0] if isinstance(output, tuple) else output
        shape = first.shape if isinstance(first, Tensor) else None
        count = sum(p.numel() for p in own)
        rows.append(Row(path, type(module).__name__, shape, count, _flops(module, shape)))

    return record


def _flops(module: Module, shape: Shape | None) -> int:
    """2 x multiply-adds of a linear or convolution layer, and the additions of its bias."""
    if shape is None or not isinstance(module, (Linear, Conv2d)):
        return 0
    terms = math.prod(module.weight.shape[1:])
    return math.prod(shape) * (2 * terms + (module.bias is not None))


def _inputs(model: Module, example: Any) -> tuple[Any, ...]:
    if isinstance(example, Tensor):
        return (example,)
    if all(isinstance(size, int) for size in example):
        like = next(model.parameters(), None)
        given = zeros(tuple(example))
        return (given if like is None else given.to(like.device, like.dtype),)
    return tuple(example)


@contextmanager
def _untouched(model: Module) -> Iterator[None]:
    """Evaluation mode for a while; then each module's own mode and the random state again."""
    modes = [(module, module.training) for module in model.modules()]
    state = random.default_generator.get_state()
    model.eval()
    try:
        yield
    finally:
        random.default_generator.set_state(state)
        for module, training in modes:
            module.training = training
