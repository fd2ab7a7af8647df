"""How a Tensor looks when printed: PyTorch's form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from minidp.backend import backend_of
from minidp.mode import mode
from minidp.types import bool_, int64

if TYPE_CHECKING:
    from minidp.tensor import Tensor


def tensor_text(tensor: Tensor) -> str:
    """``tensor([1., 2.], requires_grad=True)``, long axes shortened."""
    name = "Parameter containing:\ntensor" if type(tensor).__name__ == "Parameter" else "tensor"
    values = np.asarray(backend_of(tensor.data).get(tensor.data))
    text = np.array2string(
        values, separator=", ", precision=4, prefix="tensor(", threshold=1000, floatmode="maxprec"
    )
    notes = []
    if tensor.data.size == 0 and tensor.ndim > 1:
        notes.append(f"size={tensor.shape}")
    if backend_of(tensor.data).name != "cpu":
        notes.append(f"device='{tensor.device}'")
    if tensor.dtype not in (mode.default_dtype, int64, bool_):
        notes.append(f"dtype=minidp.{tensor.dtype}")
    if tensor.node is not None:
        op = tensor.node.op
        notes.append(f"grad_fn=<{op.name}>" if op else "requires_grad=True")
    return f"{name}({', '.join([text, *notes])})"
