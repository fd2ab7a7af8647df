"""ONNX's ways to say how an image is padded, in the numbers that minidp takes."""

from minidp.nn import functional as F


def pads_of(x, kernel, auto_pad, pads, strides, dilations):
    """Begins and then ends, one per spatial axis; SAME gives ceil(size / stride) outputs."""
    if auto_pad in ("NOTSET", "VALID"):
        return list(pads) if pads else [0] * (2 * len(kernel))
    begins, ends = [], []
    for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(large if auto_pad == "SAME_LOWER" else small)
        ends.append(small if auto_pad == "SAME_LOWER" else large)
    return begins + ends


def flat(begins, ends):
    """The order of torch.nn.functional.pad: the last axis first, begin and end together."""
    return [n for pair in list(zip(begins, ends))[::-1] for n in pair]


def padded(x, pads, value=0, limits=None):
    """The image and the padding that is left to the layer: all of it when both ends are equal."""
    rank = x.ndim - 2
    begins, ends = pads[:rank], pads[rank:]
    allowed = limits is None or all(n <= m for n, m in zip(begins, limits))
    if begins == ends and allowed:
        return x, begins
    return F.pad(x, flat(begins, ends), value=value), [0] * rank


def ceil_pads(x, kernel, pads, strides, dilations):
    """What ends must grow by so that the windows that ceil_mode adds fit in."""
    rank, more = x.ndim - 2, []
    for i, (size, k, s, d) in enumerate(zip(x.shape[2:], kernel, strides, dilations)):
        free = size + pads[i] + pads[i + rank] - ((k - 1) * d + 1)
        more.append(-(-free // s) * s - free)
    return more
