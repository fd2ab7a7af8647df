"""Whether there are GPUs, by PyTorch's names."""

from minidp.backend import get_backend
from minidp.random import manual_seed


def is_available() -> bool:
    """Whether CUDA can be used here; ``python -m minidp`` says why not."""
    return get_backend("cuda").problem() is None


def device_count() -> int:
    """How many GPUs there are."""
    return get_backend("cuda").count() if is_available() else 0


def manual_seed_all(seed: int) -> None:
    """``minidp.manual_seed``: one generator serves all devices."""
    manual_seed(seed)


def synchronize() -> None:
    """Wait until the GPU has done all that it was given."""
    if is_available():
        get_backend("cuda").synchronize()


def empty_cache() -> None:
    """Give memory that no array uses back to the GPU."""
    if is_available():
        get_backend("cuda").xp.get_default_memory_pool().free_all_blocks()
