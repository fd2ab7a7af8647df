"""How many floating-point operations an op needs, by its name.

The convention: a multiplication and an addition count 2, as everywhere; the algorithm is the
direct one, whatever a kernel does. An element-wise op counts 1 for each element of its result, a
function such as exp or tanh 10; a reduction 1 for each element of its argument. What only moves or
compares places (views, indexing, casts, concatenation) counts 0. Decompositions are by the usual
leading term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minidp.types import Shape

FUNCTION = 10
"""What one value of exp, log, tanh, sin, ... counts."""


def products(results: int, terms: int, bias: bool = False) -> int:
    """``results`` sums of ``terms`` products each, and perhaps a bias added."""
    return results * (2 * terms + bias)


def flops(
    op: str, inputs: Sequence[Shape | None], outputs: Sequence[Shape], constants: dict[str, Any]
) -> int:
    """The operations of one call; ``inputs`` has None where there is no array."""
    if op in MATRIX:
        return int(MATRIX[op](inputs, outputs, constants))
    if op in STILL:
        return 0
    given = max((math.prod(shape) for shape in inputs if shape is not None), default=0)
    made = math.prod(outputs[0]) if outputs else given
    if op in PER_ARGUMENT:
        return PER_ARGUMENT[op] * given
    return PER_RESULT.get(op, 1) * made


_still = """reshape permute expand concat stack diagonal put_diagonal triangle copy
    cast full_like to_device thirds broadcast unpack get put set_at take_along_dim windows embedding
    max_pool2d_gather argwhere"""
STILL = frozenset(_still.split())
"""Ops that move values, or make constants."""

_functions = """exp expm1 log log1p log2 log10 logaddexp log1pexp sigmoid erf erfc erfinv sin cos
    tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow activation activation_input"""
PER_RESULT = dict.fromkeys(_functions.split(), FUNCTION) | {
    "batch_norm": 4, "batch_norm_own": 8, "batch_norm_own_back": 10, "batch_norm_own_relu": 9,
    "batch_norm_own_relu_back": 13, "batch_norm_shared": 4, "batch_norm_back": 6,
    "batch_norm_own_pool_back": 11, "batch_norm_pool_back": 7,
    "group_norm": 9, "layer_norm": 9,
    "group_norm_back": 14, "softmax": FUNCTION + 4,
    "log_softmax": FUNCTION + 4, "softmax_input": 4, "log_softmax_input": FUNCTION + 3,
    "cross_entropy_input": FUNCTION + 6, "cross_entropy_mean_input": FUNCTION + 6,
    "dropout": 2, "hypot": 4, "binary_cross_entropy": 2 * FUNCTION + 4, "lstm_back": 20,
}  # fmt: skip
"""For each element of the result, where it is not 1."""

_reductions = """sum amax amin argmax argmin all any cumsum cumprod overlap
    embedding_weight unique isin scatter_along max_pool2d_input all_reduce"""
PER_ARGUMENT = dict.fromkeys(_reductions.split(), 1) | {
    "logsumexp": FUNCTION + 3, "cross_entropy": FUNCTION + 3, "cross_entropy_mean": FUNCTION + 3,
    "cumprod_input": 4, "batch_moments": 4,
    "batch_norm_sums": 4, "batch_norm_pool": 6, "batch_norm_pool_sums": 4,
}  # fmt: skip
"""For each element of the largest argument."""


def _size(shape: Sequence[int]) -> int:
    return math.prod(shape)


def _pooled(inputs: Any, outputs: Any, constants: Any) -> int:
    return _size(outputs[0]) * _size(constants["kernel"])


def _cubic(share: float) -> Callable[..., float]:
    """``share`` n^3 for each matrix of n rows, and 2 n^2 for each column of a right-hand side."""

    def count(inputs: Any, outputs: Any, constants: Any) -> float:
        many: list[int]
        rows: int
        columns: int
        *many, rows, columns = inputs[0]
        right: int = inputs[1][-1] if len(inputs) > 1 and inputs[1] is not None else 0
        small, large = min(rows, columns), max(rows, columns)
        return _size(many) * small * small * (share * large + 2 * right)

    return count


def _gates(inputs: Any, outputs: Any, constants: Any) -> int:
    """A recurrent layer: every step of every row by the matrix of its state."""
    weight = inputs[3] if len(inputs) > 4 else inputs[2]
    return products(inputs[0][0], _size(weight)) + FUNCTION * _size(inputs[0])


MATRIX: dict[str, Callable[..., float]] = {
    "matmul": lambda x, y, c: products(math.prod(y[0]), x[0][-1]),
    "matmul_relu_input": lambda x, y, c: products(math.prod(y[0]), x[0][-1], True),
    "linear": lambda x, y, c: products(math.prod(y[0]), x[0][-1], x[2] is not None),
    "linear_relu": lambda x, y, c: products(math.prod(y[0]), x[0][-1], True),
    "conv2d": lambda x, y, c: products(math.prod(y[0]), math.prod(x[1][1:]), x[2] is not None),
    "conv2d_relu": lambda x, y, c: products(math.prod(y[0]), math.prod(x[1][1:]), True),
    "conv2d_input": lambda x, y, c: products(math.prod(x[0]), math.prod(x[1][1:])),
    "conv2d_weight": lambda x, y, c: products(math.prod(x[0]), math.prod(y[0][1:])),
    "resample": lambda x, y, c: 3 * math.prod(y[0]), "resample_input": lambda x, y, c:
    3 * math.prod(x[0]), "max_pool2d": _pooled, "max_pool2d_relu": _pooled, "avg_pool2d": _pooled,
    "avg_pool2d_input": lambda x, y, c: math.prod(x[0]) * math.prod(c["kernel"]),
    "inv": _cubic(2), "solve": _cubic(2 / 3), "det": _cubic(2 / 3), "cofactors": _cubic(2),
    "slogdet": _cubic(2 / 3), "cholesky": _cubic(1 / 3),
    "qr": _cubic(2), "eigh": _cubic(9), "svd": _cubic(20), "pinv": _cubic(22),
    "rnn": _gates, "lstm": _gates, "gru": _gates,
}  # fmt: skip
"""By shapes of arguments, shapes of results and constants."""
