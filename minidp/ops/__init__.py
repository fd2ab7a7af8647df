"""The ops, each one paragraph: the primitives of the engine."""

from minidp.ops import (
    activation,
    adjoint,
    arithmetic,
    attention,
    collective,
    comparison,
    conv,
    dropout,
    elementwise,
    embedding,
    error_function,
    exponential,
    folded,
    gru,
    index,
    layout,
    linalg,
    lstm,
    normalize,
    pool,
    recurrent,
    reduce,
    softmax,
    trigonometric,
    windows,
)

__all__ = ["activation", "adjoint", "arithmetic", "attention", "collective", "comparison", "conv",
           "dropout", "elementwise", "embedding", "error_function", "exponential", "folded", "gru",
           "index", "layout", "linalg", "lstm", "normalize", "pool", "recurrent", "reduce",
           "softmax", "trigonometric", "windows"]  # fmt: skip
