"""Where a case's gradient is checked: its inputs in float64, moved off kinks and ties."""

from dataclasses import replace

import numpy as np

import minidp as dp
from conformance.operators import call

BITS = "reads the bits"
STEPS = "rounds to fewer digits, in steps that a difference quotient sees"
SIZES = "its inputs are sizes and numbers"
RECORDED = "a step of an optimiser is not recorded"
CONSTANT = "piecewise constant"
ORDER = "takes its inputs apart; PyTorch gives it no gradient"

WITHOUT = {
    "Adagrad": RECORDED, "Adam": RECORDED, "Momentum": RECORDED, "BitCast": BITS,
    "Binarizer": CONSTANT, "Ceil": CONSTANT, "Floor": CONSTANT, "Hardmax": CONSTANT,
    "Round": CONSTANT, "Sign": CONSTANT, "DynamicQuantizeLinear": CONSTANT, "Cast": STEPS,
    "Range": SIZES, "Unique": ORDER,
}  # fmt: skip
"""Operators whose gradient is not checked, each with the reason."""

PLACES = {
    "BatchNormalization": (0, 1, 2), "Dropout": (0,),
    "NegativeLogLikelihoodLoss": (0,), "OneHot": (2,), "Pad": (0,), "Resize": (0,),
    "SoftmaxCrossEntropyLoss": (0,), "Upsample": (0,),
}  # fmt: skip
"""Inputs that have a gradient, where not all real ones have: the others are constants or state."""


def inside(low, high):
    """Values squeezed into an interval."""
    return lambda x, rng: low + (high - low) / (1 + np.exp(-x - rng.normal(0, 0.1, x.shape)))


def away_from_zero(x, rng):
    x = np.where(np.isfinite(x), x, 2.5)
    return np.sign(x + 1e-9) * (np.abs(x) + 0.3 + rng.uniform(0, 0.1, x.shape))


def ranked(x, rng):
    """The same order with gaps, so that no window's maximum changes hands."""
    order = np.argsort(x + rng.normal(0, 0.02, x.shape), axis=None)
    y = np.empty(x.size)
    y[order] = np.arange(x.size) * 0.01
    return y.reshape(x.shape)


MOVES = {
    "Acos": inside(-0.9, 0.9), "Asin": inside(-0.9, 0.9), "Atanh": inside(-0.9, 0.9),
    "Acosh": inside(1.2, 9.0), "Pow": inside(0.5, 3.0), "Div": away_from_zero,
    "Mod": away_from_zero, "Reciprocal": away_from_zero, "MaxPool": ranked,
}  # fmt: skip
"""Ways to move an operator's inputs that are not a little noise."""


def places(case):
    """The inputs whose gradient is checked; none of a case without real outputs."""
    if case.operator in WITHOUT or not any(_real(y) for y in case.outputs):
        return []
    named = PLACES.get(case.operator, range(len(case.inputs)))
    return [i for i in named if i < len(case.inputs) and _real(case.inputs[i])]


def _real(x):
    return x is not None and x.dtype.kind == "f" and x.size > 0


def start(case):
    """The inputs as tensors, real ones in float64; those of ``places`` moved and recorded."""
    rng = np.random.default_rng(0)
    wanted = places(case)
    move = MOVES.get(case.operator, lambda x, rng: x + rng.normal(0, 0.02, x.shape))
    inputs = []
    for i, x in enumerate(case.inputs):
        if x is not None and x.dtype.kind == "f":
            x = x.astype(np.float64)
            x = move(x, rng) if i in wanted else x
        inputs.append(None if x is None else dp.tensor(x, requires_grad=i in wanted))
    return inputs


def function(case):
    """The case's real outputs, minus infinities left out, at inputs that gradcheck gives.

    Softmax in float32 would round: the attribute that asks for it is not used.
    """
    kept = {k: v for k, v in case.attributes.items() if k != "softmax_precision"}
    case = replace(case, attributes=kept)

    def outputs(*inputs):
        found = call(case, inputs)[: len(case.outputs)]
        named = [y for y, right in zip(found, case.outputs) if right is not None]
        return [dp.where(dp.isfinite(y), y, dp.zeros_like(y)) for y in named
                if y.is_floating_point()]  # fmt: skip

    return outputs
