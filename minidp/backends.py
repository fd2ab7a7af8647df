"""PyTorch's switches, under its names: ``cuda.matmul.allow_tf32`` and, which PyTorch does not have,
``cpu.winograd``. Results are the same in every run, whatever they say."""

from types import SimpleNamespace
from typing import Any

from minidp.backend import get_backend
from minidp.backend.cpu import switches


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


class Cpu:
    """Choices for kernels on the CPU."""

    @property
    def winograd(self) -> bool:
        """Whether float32 convolutions of 3 x 3 and 5 x 5 may use Winograd's transforms.

        They take a third to a half of the time. Results have relative errors of 1 to 4e-6 (rms)
        instead of 2 to 7e-7, and one value that is not finite spoils its neighbours up to seven
        pixels away. Change it between steps; captured steps keep what they were recorded with.
        """
        return bool(switches().winograd)

    @winograd.setter
    def winograd(self, value: bool) -> None:
        switches().winograd = bool(value)


def set_float32_matmul_precision(precision: str) -> None:
    """PyTorch's other switch for TF32: "highest", or "high" and "medium", which allow it."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision({precision!r}): expected 'highest', 'high' "
                         "or 'medium'")  # fmt: skip
    cuda.matmul.allow_tf32 = precision != "highest"


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` said: "highest" or "high"."""
    return "high" if cuda.matmul.allow_tf32 else "highest"


cpu = Cpu()
cuda = SimpleNamespace(matmul=MatmulSettings())
cudnn = SimpleNamespace(enabled=False, benchmark=False, deterministic=True)
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
