"""``minidp.checkpoint`` by PyTorch's path."""

from minidp.recompute import checkpoint as checkpoint
from minidp.recompute import checkpoint_sequential as checkpoint_sequential
