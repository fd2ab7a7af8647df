"""``minidp.checkpoint`` by PyTorch's path."""

from minidp.functions import checkpoint as checkpoint
