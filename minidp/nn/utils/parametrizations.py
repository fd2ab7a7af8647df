"""Parameters that are computed from others, under PyTorch's newer names."""

from minidp.nn.utils.weight_norm import parametrized_weight_norm as weight_norm

__all__ = ["weight_norm"]
