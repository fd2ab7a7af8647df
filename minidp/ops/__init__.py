"""The ops, each one paragraph; importing this package gives Tensor its methods."""

from minidp.ops import (
    collective,
    conv,
    dropout,
    elementwise,
    index,
    inplace,
    layout,
    linalg,
    normalize,
    pool,
    reduce,
    softmax,
)

__all__ = ["collective", "conv", "dropout", "elementwise", "index", "inplace", "layout", "linalg",
           "normalize", "pool", "reduce", "softmax"]  # fmt: skip
