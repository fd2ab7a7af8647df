"""PyTorch's switches, under its names.

Only ``cuda.matmul.allow_tf32`` changes anything: results are the same in every run.
"""

from types import SimpleNamespace
from typing import Any

from minidp.backend import get_backend


class MatmulSettings:
    """How GPUs multiply matrices."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 matrices may round their inputs to 10 bits (TF32), which
        makes them several times as fast. Off at first. Without a GPU it changes nothing."""
        backend: Any = get_backend("cuda")
        return bool(backend.tf32)

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        backend: Any = get_backend("cuda")
        backend.allow_tf32(bool(allowed))


cuda = SimpleNamespace(matmul=MatmulSettings())
cudnn = SimpleNamespace(enabled=False, benchmark=False, deterministic=True)
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
