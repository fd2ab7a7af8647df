"""Operators that work element by element."""

import minidp as dp
from conformance.cases import DTYPES
from minidp.nn import functional as F


def same(name):
    """The function of this name, looked up when it is called."""
    return lambda *inputs: getattr(dp, name)(*inputs)


def many(name):
    """A function of two tensors, applied from left to right to any number of them."""
    def fold(first, *rest):
        for other in rest:
            first = getattr(dp, name)(first, other)
        return first
    return fold


def div(x, y):
    return dp.div(x, y) if x.is_floating_point() else dp.div(x, y, rounding_mode="trunc")


def mod(x, y, fmod=0):
    return dp.fmod(x, y) if fmod else dp.remainder(x, y)


def power(x, y):
    return dp.pow(x, y).to(x.dtype)


def clip(x, low=None, high=None):
    return x if low is None and high is None else dp.clamp(x, low, high)


def shift(x, y, direction):
    name = {"LEFT": "bitwise_left_shift", "RIGHT": "bitwise_right_shift"}[direction]
    return getattr(dp, name)(x, y)


def isinf(x, detect_negative=1, detect_positive=1):
    found = dp.isinf(x)
    found = found if detect_negative else dp.logical_and(found, x > 0)
    return found if detect_positive else dp.logical_and(found, x < 0)


def mean(*inputs):
    return dp.mean(dp.stack(inputs), 0)


def cast(x, to, saturate=1, round_mode="up"):
    return x.to(getattr(dp, DTYPES[to]))


def hard_sigmoid(x, alpha=0.2, beta=0.5):
    return dp.clamp(alpha * x + beta, 0, 1)


def selu(x, alpha=None, gamma=None):
    return F.selu(x) if alpha is None else gamma * F.elu(x, alpha)


def shrink(x, bias=0.0, lambd=0.5):
    return F.hardshrink(x, lambd) if not bias else F.softshrink(x, lambd)


def swish(x, alpha=1.0):
    return F.silu(x) if alpha == 1 else x * dp.sigmoid(alpha * x)


ALIKE = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "logical_and",
    "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_not", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Equal": "eq",
    "Erf": "erf", "Exp": "exp", "Floor": "floor", "Greater": "gt", "GreaterOrEqual": "ge",
    "IsNaN": "isnan", "Less": "lt", "LessOrEqual": "le", "Log": "log", "Mul": "mul", "Neg": "neg",
    "Not": "logical_not", "Or": "logical_or", "Reciprocal": "reciprocal", "Relu": "relu",
    "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh",
    "Sqrt": "sqrt", "Sub": "sub", "Tan": "tan", "Tanh": "tanh", "Where": "where",
    "Xor": "logical_xor",
}  # fmt: skip

OPERATORS = {
    **{operator: same(name) for operator, name in ALIKE.items()},
    "Max": many("maximum"),
    "Min": many("minimum"),
    "Sum": many("add"),
    "Mean": mean,
    "Div": div,
    "Mod": mod,
    "Pow": power,
    "Clip": clip,
    "BitShift": shift,
    "IsInf": isinf,
    "Cast": cast,
    "CastLike": lambda x, like, saturate=1, round_mode="up": x.to(like.dtype),
    "BitCast": lambda x, to: x.view(getattr(dp, DTYPES[to])),
    "Binarizer": lambda x, threshold=0.0: (x > threshold).to(x.dtype),
    "Celu": lambda x, alpha=1.0: F.celu(x, alpha),
    "Elu": lambda x, alpha=1.0: F.elu(x, alpha),
    "Gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda x: F.hardswish(x),
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    "Mish": lambda x: F.mish(x),
    "PRelu": lambda x, slope: dp.where(x > 0, x, slope * x),
    "Selu": selu,
    "Shrink": shrink,
    "Softplus": lambda x: F.softplus(x),
    "Softsign": lambda x: F.softsign(x),
    "SwiGLU": lambda a, b, alpha=1.0: swish(a, alpha) * b,
    "Swish": swish,
    "ThresholdedRelu": lambda x, alpha=1.0: F.threshold(x, alpha, 0.0),
}
