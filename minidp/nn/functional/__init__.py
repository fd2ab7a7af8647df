"""Layers and losses as functions; PyTorch's names and arguments."""

from minidp.nn.functional.activation import (
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    softmax,
    softplus,
    tanh,
)
from minidp.nn.functional.conv import conv2d, same_padding
from minidp.nn.functional.dropout import dropout
from minidp.nn.functional.linear import linear, one_hot
from minidp.nn.functional.loss import (
    binary_cross_entropy_with_logits,
    check_reduction,
    class_weight,
    cross_entropy,
    l1_loss,
    mse_loss,
    nll_loss,
)
from minidp.nn.functional.normalize import batch_norm
from minidp.nn.functional.pool import adaptive_avg_pool2d, avg_pool2d, max_pool2d

__all__ = [
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "check_reduction",
    "class_weight",
    "conv2d",
    "cross_entropy",
    "dropout",
    "l1_loss",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "relu",
    "same_padding",
    "sigmoid",
    "softmax",
    "softplus",
    "tanh",
]
