"""Element-wise ops on C-contiguous arrays of one shape and float type; one may be a scalar.

They decline everything else: strides, broadcasting, other types.
"""

import numpy as np

from .runtime import suffix


def unary(name):
    """The launcher of a formula of one array."""

    def launch(gpu, x):
        kind = suffix(x)
        if kind is None or not x.flags.c_contiguous:
            return NotImplemented
        y = gpu.empty(x.shape, x.dtype)
        gpu.launch_each("elementwise", f"{name}_{kind}", x.size, (x, y, x.size))
        return y

    launch.__name__ = name
    return launch


def binary(name):
    """The launcher of a formula of two arrays, or of an array and a scalar on either side."""

    def launch(gpu, a, b):
        arrays = [x for x in (a, b) if isinstance(x, gpu.xp.ndarray)]
        if not served(arrays, a, b):
            return NotImplemented
        like = arrays[0]
        scalar = like.dtype.type(0 if len(arrays) == 2 else b if like is a else a)
        pointers = [x if isinstance(x, gpu.xp.ndarray) else None for x in (a, b)]
        y = gpu.empty(like.shape, like.dtype)
        args = (*pointers, scalar, y, y.size)
        gpu.launch_each("elementwise", f"{name}_{suffix(like)}", y.size, args)
        return y

    launch.__name__ = name
    return launch


def served(arrays, a, b):
    """Whether the kernels serve these operands: the result is like the first array."""
    if not arrays or suffix(*arrays) is None:
        return False
    same = all(x.shape == arrays[0].shape and x.flags.c_contiguous for x in arrays)
    scalars = [x for x in (a, b) if not any(x is array for array in arrays)]
    return same and all(scalar_fits(x, arrays[0].dtype) for x in scalars)


def scalar_fits(x, dtype):
    """Whether the scalar leaves the type as it is: Python numbers do, NumPy's if of that type."""
    return x.dtype == dtype if isinstance(x, np.generic) else isinstance(x, int | float)


relu, neg, exp, log = unary("relu"), unary("neg"), unary("exp"), unary("log")
tanh, sigmoid, sqrt, erf = unary("tanh"), unary("sigmoid"), unary("sqrt"), unary("erf")
add, sub, mul, div = binary("add"), binary("sub"), binary("mul"), binary("div")
relu_input = binary("relu_input")  # (g, y): where(y > 0, g, 0), and a NaN in y passes g
