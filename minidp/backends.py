"""PyTorch's switches, under its names; they change nothing: results are the same in every run."""

from types import SimpleNamespace

cudnn = SimpleNamespace(enabled=False, benchmark=False, deterministic=True)
mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
