"""minidp: a tensor and autograd engine with data parallelism built in.

>>> import minidp as dp
>>> x = dp.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
"""

import importlib
import sys
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from numpy import finfo, iinfo

from minidp import autograd, create, derivatives, draw, functions
from minidp.autograd import (
    enable_grad,
    grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from minidp.backend.cpu import get_num_threads, set_num_threads
from minidp.create import *
from minidp.derivatives import *
from minidp.device import Device, device, device_list
from minidp.draw import *
from minidp.functions import *  # also gives Tensor its methods
from minidp.functions.order import mode as mode  # not the module of that name
from minidp.io.checkpoint import load, save
from minidp.mode import (
    get_default_device,
    get_default_dtype,
    set_default_device,
    set_default_dtype,
)
from minidp.op import op
from minidp.parameter import Buffer, Parameter
from minidp.printing import set_printoptions
from minidp.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    set_rng_state,
    use_deterministic_algorithms,
)
from minidp.recompute import checkpoint
from minidp.tensor import Tensor
from minidp.types import bool_ as bool
from minidp.types import float16, float32, float64, int8, int16, int32, int64, uint8
from minidp.types import float16 as half
from minidp.types import float32 as float
from minidp.types import float64 as double
from minidp.types import int16 as short
from minidp.types import int32 as int
from minidp.types import int64 as long

if TYPE_CHECKING:
    from minidp import backends, cuda, data, distributions, linalg, nn, optim, testing, utils
    from minidp.cuda import accelerator
    from minidp.graph.captured import capture as capture
    from minidp.parallel.batch import Batch, Whole
    from minidp.parallel.launch import launch as launch
    from minidp.parallel.replica import World
    from minidp.parallel.scheduler import Scheduler

LAYERS = ("adaptive_avg_pool1d", "adaptive_max_pool1d", "avg_pool1d", "bilinear", "celu",
          "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
          "conv_transpose3d", "dropout", "group_norm", "hardshrink", "layer_norm", "max_pool1d",
          "max_pool2d", "max_pool3d", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_",
          "rms_norm", "rrelu", "selu", "threshold")  # fmt: skip
"""Of ``nn.functional`` what PyTorch has here too, with the same arguments."""

LATER = {"backends": "", "cuda": "", "data": "", "distributions": "", "linalg": "", "nn": "",
         "optim": "", "testing": "", "utils": "", "accelerator": "cuda",
         "Batch": "parallel", "Scheduler": "parallel",
         "Whole": "parallel", "World": "parallel",
         "capture": "graph.captured", "launch": "parallel",
         "get_float32_matmul_precision": "backends", "set_float32_matmul_precision": "backends",
         **dict.fromkeys(LAYERS, "functional")}  # fmt: skip
"""Names that are imported when first used: half of the time that ``import minidp`` would take."""


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'minidp' has no attribute {name!r}")
    module = importlib.import_module(f"minidp.{LATER[name] or name}")
    value = globals()[name] = getattr(module, name) if LATER[name] else module
    return value


autograd.functional = derivatives  # type: ignore[attr-defined]  # PyTorch's path
sys.modules["minidp.autograd.functional"] = derivatives  # which can be imported from

newaxis = None
"""What adds an axis, as an index."""

Size: type[tuple[Any, ...]] = tuple
"""What shapes are."""

__version__ = "0.1.0"

__all__ = [
    *create.__all__, *derivatives.__all__, *draw.__all__, *functions.__all__,
    "Batch", "Buffer", "Device", "Generator", "Parameter", "Scheduler", "Tensor", "Whole", "World",
    "bool", "capture", "checkpoint", "cuda", "data", "default_generator", "device", "device_list",
    "double", "enable_grad", "float", "float16", "float32", "float64", "get_default_device",
    "get_default_dtype", "get_num_threads", "get_rng_state", "grad", "inference_mode",
    "initial_seed", "int16", "int32", "int64", "int8", "is_grad_enabled", "launch", "linalg",
    "load", "long", "manual_seed", "mode", "nn", "no_grad", "op", "optim", "save",
    "set_default_device",
    "set_default_dtype", "set_grad_enabled", "set_num_threads", "set_printoptions",
    "set_rng_state", "uint8", "use_deterministic_algorithms",
]  # fmt: skip
