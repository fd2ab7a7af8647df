"""Normalisation layers, and dropout where it drops nothing."""

import minidp as dp
from minidp.nn import functional as F


def batch(x, scale, bias, mean, variance, *, epsilon=1e-5, momentum=0.9, training_mode=0):
    """The running variance that ONNX gives is the biased one: it is asked for on its own."""
    if not training_mode:
        return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
    y = F.batch_norm(x, None, None, scale, bias, True, 0.0, epsilon)
    dims = (0, *range(2, x.ndim))
    mean = momentum * mean + (1 - momentum) * dp.mean(x, dims)
    return y, mean, momentum * variance + (1 - momentum) * dp.var(x, dims, correction=0)


def layer(x, weight, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
    dims = tuple(range(axis % x.ndim, x.ndim))
    y = F.layer_norm(x, x.shape[dims[0] :], weight, bias, epsilon)
    variance = dp.var(x, dims, correction=0, keepdim=True)
    return y, dp.mean(x, dims, keepdim=True), dp.rsqrt(variance + epsilon)


def root_mean_square(x, weight, *, axis=-1, epsilon=1e-5, stash_type=1):
    return F.rms_norm(x, x.shape[axis % x.ndim :], weight, epsilon)


def instance(x, scale, bias, epsilon=1e-5):
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def group(x, scale, bias, *, epsilon=1e-5, num_groups, stash_type=1):
    return F.group_norm(x, num_groups, scale, bias, epsilon)


def dropout(x, ratio=None, training=None, seed=None):
    """Cases that drop are listed: which elements go depends on the generator."""
    share = 0.5 if ratio is None or not isinstance(ratio, dp.Tensor) else ratio.item()
    training = training is not None and bool(training.item())
    y = F.dropout(x, share, training)
    return y, dp.ones_like(x, dtype=dp.bool)


OPERATORS = {
    "BatchNormalization": batch,
    "LayerNormalization": layer,
    "RMSNormalization": root_mean_square,
    "InstanceNormalization": instance,
    "GroupNormalization": group,
    "Dropout": dropout,
}
