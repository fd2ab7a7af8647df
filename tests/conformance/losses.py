"""Losses over classes."""

import minidp as dp
from minidp.nn import functional as F


def negative_log_likelihood(x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    return F.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=reduction)


def softmax_cross_entropy(x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    loss = F.cross_entropy(x, target, weight, ignore_index=ignore_index, reduction=reduction)
    return loss, dp.log_softmax(x, 1)


OPERATORS = {
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
