"""``minidp.data`` by PyTorch's path."""

from minidp.data import *  # noqa: F403
