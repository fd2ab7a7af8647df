"""What PyTorch has under ``torch.utils``, by its paths."""

from minidp.utils import checkpoint, data
