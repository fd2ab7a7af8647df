"""Along one axis: which target places a convolution or its input gradient writes, by which taps.

The words *source*, *target*, *frame* and *phase* are explained in `_tiling`. An axis has `count`
places on a grid with target places `step` apart and source places `move` apart; `before` is how
many zeros a frame needs before the source, `reach` over how many places a grid place's taps spread.
"""

import math


class Forward:
    """One axis of a convolution: target o reads source o * stride - padding + i * dilation."""

    def __init__(self, size, output, kernel, stride, padding, dilation):
        self.count, self.move, self.step, self.before = output, stride, 1, padding
        self.reach = (kernel - 1) * dilation + 1
        self.phases = [Phase(0, output, 0, range(kernel), dilation)]

    def needs(self, size):
        """How long the frame must be."""
        return (self.count - 1) * self.move + self.reach


class Backward:
    """One axis of an input gradient: x at q * stride + phase gets from g at q + offsets.

    Of x = o * stride - padding + i * dilation, the taps i of a phase are those for which o is
    whole; they lie stride / gcd(stride, dilation) apart, and read g in turned order.
    """

    def __init__(self, size, output, kernel, stride, padding, dilation):
        self.count, self.move, self.step = -(-size // stride), 1, stride
        found = [
            [(i, (phase + padding - i * dilation) // stride) for i in reversed(range(kernel))
             if (phase + padding - i * dilation) % stride == 0]
            for phase in range(min(stride, size))
        ]  # fmt: skip
        offsets = [offset for taps in found for _, offset in taps] or [0]
        self.before, last = max(0, -min(offsets)), max(0, *offsets)
        self.reach = self.before + last + 1
        spread = dilation // math.gcd(stride, dilation)
        self.phases = [
            Phase(phase, -(-(size - phase) // stride), self.before + taps[0][1] if taps else 0,
                  [i for i, _ in taps], spread)
            for phase, taps in enumerate(found)
        ]  # fmt: skip

    def needs(self, size):
        return self.count - 1 + self.reach


class Phase:
    """Every `step`-th place of a target from `start` on, and the taps that reach it."""

    def __init__(self, start, count, offset, taps, spread):
        self.start, self.count, self.offset = start, count, offset
        self.taps, self.spread = list(taps), spread


def along(kind, layer):
    """Both axes of a layer."""
    lengths = zip(layer.image, layer.output, layer.kernel, layer.stride, layer.padding,
                layer.dilation, strict=True)  # fmt: skip
    return [kind(*axis) for axis in lengths]
