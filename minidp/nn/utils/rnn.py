"""Sequences of unequal lengths, under PyTorch's name: what ``minidp.functional.packed`` has."""

from minidp.functional.packed import *  # noqa: F403
from minidp.functional.packed import __all__ as __all__
