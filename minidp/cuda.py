"""Whether there are GPUs, by PyTorch's names."""

from minidp.backend import get_backend


def is_available() -> bool:
    """Whether CUDA can be used here; ``python -m minidp`` says why not."""
    return get_backend("cuda").problem() is None


def device_count() -> int:
    """How many GPUs there are."""
    return get_backend("cuda").count() if is_available() else 0
