"""Where layers and losses differ from PyTorch 2.13.0 on purpose: whose, what is seen, and why.

``lines.DIFFERENT`` is the same for single lines, most of them wrong calls.
"""

from __future__ import annotations

import re

# fmt: off
# ruff: noqa: E501
DEVIATIONS = [
    # PyTorch's own numbers
    ("Hardsigmoid|Hardswish", r"gradient",
     "PyTorch's derivative has 1/6 in float32, whatever the dtype"),
    ("KLDivLoss|PoissonNLLLoss", r"gradient 1 .*not np.float\d\d\((nan|inf|-inf)\)",
     "the gradient by a target of 0 is finite; PyTorch's is NaN"),
    ("EmbeddingBag", r"gradient",
     "scale_grad_by_freq divides by the number's own count; PyTorch reads another number's"),
    # empty batches, of which PyTorch checks little
    ("ConvTranspose.d|conv_transpose.d", r"expected an output.*torch works|forward: ours (AxisError|ShapeError|DTypeError).*torch works",
     "an output without places is refused; PyTorch gives it for float32 and for empty batches"),
    ("InstanceNorm.d", r"buffer.*not np.float\d\d\(nan\)|IndexError: select",
     "running statistics stay as they are when the batch is empty; PyTorch's become NaN"),
    ("GroupNorm", r"first gradient . np.float\d\d\(0.0\).*not np.float\d\d\(nan\)",
     "an empty batch has gradient 0; PyTorch's is NaN"),
    ("BatchNorm.d|PixelUnshuffle|ReplicationPad.d|AvgPool.d|Unfold|Conv.d",
     r"\(0, .*ours|ours (Shape|DType)Error.*\(0, |output.*\b0, |\[0, ",
     "shapes and channels are checked and rearranged all the same"),
    # wrong arguments
    (".*", r"dtype (float32|float64), not int64 .*spoiled",
     "integers are refused or give floating point, where PyTorch has kernels for some"),
    ("CosineSimilarity", r"norm of int64", "integers are refused"),
    ("BCEWithLogitsLoss|HuberLoss|SoftMarginLoss|PoissonNLLLoss|BCELoss|GaussianNLLLoss", r"(dtype|cast|gradient 1).*spoiled",
     "mixed dtypes promote; some of PyTorch's losses take the first one's, or the second one's"),
    ("BatchNorm.d|InstanceNorm.d", r"(mixed dtype|batch_norm: arguments of|DTypeError).*spoiled",
     "mixed dtypes of input and statistics: PyTorch's kernels do not agree"),
    ("AdaptiveAvgPool.d|Dropout[23]d", r"ours (Axis|Shape)Error.*spoiled",
     "other numbers of axes are refused; PyTorch warns, or takes some"),
    ("EmbeddingBag", r"offsets\[0\] has to be 0", "the last offset is checked too"),
    ("MultiLabelMarginLoss|MultiMarginLoss|NLLLoss|CrossEntropyLoss", r"ours (Axis|Shape)Error.*torch works.*spoiled",
     "the target of one sample has no axes"),
    ("RNNCell|LSTMCell|GRUCell", r"ours (Axis|Shape)Error.*torch works.*spoiled",
     "a state with an axis of size 1 too many is refused"),
    ("MaxUnpool.d|MultiMarginLoss|ReplicationPad.d|GaussianNLLLoss|CTCLoss", r"ours works.*spoiled",
     "shapes that fit by broadcasting are taken, and lengths that are whole numbers"),
    ("MultiLabelSoftMarginLoss", r"spoiled", "targets of other shapes broadcast"),
]
# fmt: on


def reason(name: str, seen: str) -> str:
    """Why a difference is accepted; "" if it is not."""
    for layers, text, why in DEVIATIONS:
        if re.fullmatch(layers, name) and re.search(text, seen, re.DOTALL):
            return why
    return ""
