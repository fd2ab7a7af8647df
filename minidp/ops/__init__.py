"""The ops, each one paragraph: the primitives of the engine."""

from minidp.ops import (
    collective,
    conv,
    dropout,
    elementwise,
    index,
    layout,
    linalg,
    normalize,
    pool,
    reduce,
    softmax,
)

__all__ = ["collective", "conv", "dropout", "elementwise", "index", "layout", "linalg",
           "normalize", "pool", "reduce", "softmax"]  # fmt: skip
