"""Layers and losses as functions, under PyTorch's name: what ``minidp.functional`` has."""

from minidp.functional import *  # noqa: F403
from minidp.functional import __all__ as __all__
