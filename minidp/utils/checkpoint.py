"""``minidp.checkpoint`` by PyTorch's path."""

from minidp.recompute import checkpoint as checkpoint
