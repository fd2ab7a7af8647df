"""A table of a model's layers: output shapes, parameters, floating-point operations."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from minidp import random
from minidp.autograd import no_grad
from minidp.create import zeros
from minidp.graph.tools.flops import products
from minidp.graph.tools.layers import Row, Summary
from minidp.nn.conv import Conv1d, Conv2d, Conv3d
from minidp.nn.linear import Linear
from minidp.nn.module import Module
from minidp.tensor import Tensor

__all__ = ["summary"]


def summary(model: Module, example: Any) -> Summary:
    """Run ``model`` once and tell what each layer gave.

    ``example`` is an input, a tuple of inputs, or the shape of one, batch included: zeros are
    used then. Layers are those without children, and others with parameters of their own. Random
    numbers and statistics are left alone; ``flops`` are those of linear and convolution layers.
    """
    rows: list[Row] = []
    seen: dict[Any, None] = {}
    modes = [(module, module.training) for module in model.modules()]
    handles = [
        module.register_forward_hook(partial(_record, path or type(model).__name__, rows, seen))
        for path, module in model.named_modules()
        if not any(module.children()) or any(True for _ in module.parameters(recurse=False))
    ]
    state = random.default_generator.get_state()
    try:
        with no_grad():
            model.eval()(*_inputs(model, example))
    finally:
        random.default_generator.set_state(state)
        for module, training in modes:
            module.training = training
        for handle in handles:
            handle.remove()
    sizes = [(p.numel(), p.numel() * p.requires_grad) for p in model.parameters()]
    total, trained = map(sum, zip(*sizes, strict=True)) if sizes else (0, 0)
    return Summary(tuple(rows), total, trained, sum(row.flops for row in rows))


def _record(
    path: str, rows: list[Row], seen: dict[Any, None], module: Module, inputs: Any, output: Any
) -> None:
    """Add the row of a call: a layer's own parameters at the first; of linear and convolution
    layers the multiply-adds and the additions of the bias."""
    own = [p for p in module.parameters(recurse=False) if p not in seen]
    seen.update(dict.fromkeys(own))
    first, flops = output[0] if isinstance(output, tuple) else output, 0
    shape = first.shape if isinstance(first, Tensor) else None
    if shape is not None and isinstance(module, (Linear, Conv1d, Conv2d, Conv3d)):
        terms = math.prod(module.weight.shape[1:])
        flops = products(math.prod(shape), terms, module.bias is not None)
    rows.append(Row(path, type(module).__name__, shape, sum(p.numel() for p in own), flops))


def _inputs(model: Module, example: Any) -> tuple[Any, ...]:
    if isinstance(example, Tensor):
        return (example,)
    if all(isinstance(size, int) for size in example):
        like = next(model.parameters(), None)
        given = zeros(tuple(example))
        return (given if like is None else given.to(like.device, like.dtype),)
    return tuple(example)
