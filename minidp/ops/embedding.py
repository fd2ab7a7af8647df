"""Rows of a table by number, and their adjoint."""

from typing import Any

import numpy as np

from minidp.op import op
from minidp.ops.index import set_at
from minidp.types import Array, Shape


@op("i:..., v c -> ... c",
    weight=lambda g, input, weight_shape, padding_idx: embedding_weight(
        g, input, shape=weight_shape, padding_idx=padding_idx))  # fmt: skip
def embedding(xp: Any, input: Array, weight: Array, padding_idx: int | None = None) -> Array:
    """y_...c = weight_input,c; the row ``padding_idx`` gets no gradient.

    A number outside 0 .. v-1 raises IndexError.
    """
    wrong = (input < 0) | (input >= weight.shape[0])
    if bool(xp.any(wrong)):
        value, last = int(input[wrong].ravel()[0]), weight.shape[0] - 1
        raise IndexError(f"embedding: index {value} is not a row of the table, 0 to {last}")
    return xp.take(weight, input, axis=0)


@op("... c, i:... -> v c",
    g=lambda g, input, padding_idx: embedding(
        input, g if padding_idx is None else set_at(g, 0.0, key=padding_idx)))  # fmt: skip
def embedding_weight(
    xp: Any, g: Array, input: Array, shape: Shape, padding_idx: int | None = None
) -> Array:
    """The cotangent of the table: zeros of ``shape`` with each row of g added at its number."""
    y = xp.zeros(shape, np.float32 if g.dtype == np.float16 else g.dtype)
    places = input.reshape(-1, 1) * shape[1] + xp.arange(shape[1])
    xp.add.at(y.reshape(-1), places.reshape(-1), g.reshape(-1).astype(y.dtype))
    if padding_idx is not None:
        y[padding_idx] = 0
    return y.astype(g.dtype, copy=False)
