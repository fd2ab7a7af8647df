"""minidp: a tensor and autograd engine with data parallelism built in.

>>> import minidp as dp
>>> x = dp.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
"""

import importlib
from typing import TYPE_CHECKING, Any

from minidp import ops  # gives Tensor its methods
from minidp.autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from minidp.create import (
    arange,
    as_tensor,
    empty,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
from minidp.device import Device, device, device_list
from minidp.io.checkpoint import load, save
from minidp.mode import get_default_dtype, set_default_dtype
from minidp.op import op
from minidp.ops.collective import mean
from minidp.ops.elementwise import (
    abs,
    add,
    clamp,
    cos,
    div,
    eq,
    exp,
    ge,
    gt,
    isfinite,
    isnan,
    le,
    log,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    pow,
    relu,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    sub,
    tanh,
    where,
)
from minidp.ops.index import gather, take_along_dim
from minidp.ops.layout import (
    cat,
    chunk,
    flatten,
    split,
    squeeze,
    stack,
    t,
    transpose,
    unsqueeze,
)
from minidp.ops.layout import permuted as permute
from minidp.ops.layout import reshaped as reshape
from minidp.ops.linalg import product as matmul
from minidp.ops.reduce import (
    all,
    allclose,
    amax,
    amin,
    any,
    argmax,
    argmin,
    max,
    min,
    norm,
    std,
    var,
)
from minidp.ops.reduce import sum_of as sum
from minidp.ops.softmax import log_softmax, softmax
from minidp.parameter import Buffer, Parameter
from minidp.random import Generator, default_generator, manual_seed
from minidp.tensor import Tensor
from minidp.types import bool_ as bool
from minidp.types import float16, float32, float64, int8, int16, int32, int64, uint8
from minidp.types import float32 as float
from minidp.types import float64 as double
from minidp.types import int64 as long

if TYPE_CHECKING:
    from minidp import cuda, data, nn, optim
    from minidp.parallel.launch import launch as launch
    from minidp.parallel.replica import World
    from minidp.parallel.scheduler import Scheduler

LATER = {"cuda": "", "data": "", "nn": "", "optim": "",
         "Scheduler": "parallel", "World": "parallel", "launch": "parallel"}  # fmt: skip
"""Names that are imported when first used: half of the time that ``import minidp`` would take."""


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'minidp' has no attribute {name!r}")
    module = importlib.import_module(f"minidp.{LATER[name] or name}")
    value = globals()[name] = getattr(module, name) if LATER[name] else module
    return value


__version__ = "0.1.0"

__all__ = [
    "Buffer", "Device", "Generator", "Parameter", "Scheduler", "Tensor", "World", "abs", "add",
    "all", "allclose", "amax", "amin", "any", "arange", "argmax", "argmin", "as_tensor", "bool",
    "cat",
    "chunk", "clamp", "cos", "cuda", "data", "default_generator", "device", "device_list", "div",
    "double", "empty", "enable_grad", "eq", "exp", "eye", "flatten", "float", "float16",
    "float32", "float64", "from_numpy", "full", "full_like", "gather", "ge",
    "get_default_dtype", "grad", "gt", "int16", "int32", "int64", "int8", "is_grad_enabled",
    "isfinite", "isnan", "launch", "le", "linspace", "load", "log", "log_softmax", "long", "lt",
    "manual_seed", "matmul", "max", "maximum", "mean", "min", "minimum", "mul", "ne", "neg",
    "nn", "no_grad", "norm", "ones", "ones_like", "op", "ops", "optim", "permute", "pow",
    "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "relu", "reshape",
    "rsqrt", "save", "set_default_dtype", "set_grad_enabled", "sigmoid", "sign", "sin",
    "softmax", "split", "sqrt", "square", "squeeze", "stack", "std", "sub", "sum", "t",
    "take_along_dim", "tanh", "tensor", "transpose", "uint8", "unsqueeze", "var", "where",
    "zeros", "zeros_like",
]  # fmt: skip
