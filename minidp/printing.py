"""How a Tensor looks when printed: PyTorch's form.

Four digits behind the point, all values equally wide; in powers of ten where the values differ a
thousandfold, or are very large or small. Of more than a thousand values, three at each end of each
axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of
from minidp.mode import mode
from minidp.types import Array, bool_, int64

if TYPE_CHECKING:
    from minidp.tensor import Tensor

WIDTH, DIGITS, THRESHOLD, EDGE = 80, 4, 1000.0, 3
"""Characters in a line, digits, how many values are shown in full, and else at each end."""
POWERS: bool | None = None
"""Whether values are shown in powers of ten; None: where they ask for it."""
PROFILES = {"default": (80, 4, 1000.0, 3), "short": (80, 2, 1000.0, 2),
            "full": (80, 4, float("inf"), 3)}  # fmt: skip


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """How tensors are printed: digits, how many values in full, how many at each end otherwise,
    characters in a line; a profile ("default", "short", "full") sets all four.

    >>> dp.set_printoptions(precision=2)
    >>> dp.tensor([0.12345])
    tensor([0.12])
    >>> dp.set_printoptions(profile="default")
    """
    global WIDTH, DIGITS, THRESHOLD, EDGE, POWERS
    if profile is not None:
        WIDTH, DIGITS, THRESHOLD, EDGE = PROFILES[profile]
    WIDTH = WIDTH if linewidth is None else linewidth
    DIGITS = DIGITS if precision is None else precision
    THRESHOLD = THRESHOLD if threshold is None else threshold
    EDGE = EDGE if edgeitems is None else edgeitems
    POWERS = sci_mode


def tensor_text(tensor: Tensor) -> str:
    """``tensor([1., 2.], requires_grad=True)``."""
    head = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    values = np.asarray(backend_of(tensor.array).get(tensor.array))
    text = "tensor(" + ("[]" if values.size == 0 else values_text(values, len("tensor(")))
    for note in _notes(tensor):
        last = len(text) - text.rfind("\n") + 1
        text += (",\n       " if last + len(note) + 2 > WIDTH else ", ") + note
    return f"{head}{text})"


def _notes(tensor: Tensor) -> list[str]:
    """What follows the values: whatever is not as usual."""
    notes = [f"size={tensor.shape}"] if tensor.numel() == 0 and tensor.ndim != 1 else []
    if backend_of(tensor.array).name != "cpu":
        notes.append(f"device='{tensor.device}'")
    usual = (mode.default_dtype,) if tensor.numel() == 0 else (mode.default_dtype, int64, bool_)
    if tensor.dtype not in usual:
        notes.append(f"dtype=minidp.{tensor.dtype}")
    if tensor.node is not None:
        op = tensor.node.op
        notes.append(f"grad_fn=<{op.name}>" if op else "requires_grad=True")
    return notes


def values_text(values: Array, indent: int) -> str:
    """Nested brackets, behind ``indent`` characters of the first line."""
    short = values.size > THRESHOLD
    shown = values
    for axis, size in enumerate(values.shape if short else ()):
        if size > 2 * EDGE:
            shown = np.take(shown, [*range(EDGE), *range(size - EDGE, size)], axis)
    words, width = _words(shown.astype(np.float64) if shown.dtype.kind == "f" else shown)
    return _nested(values, indent, short, words, width)


def _nested(x: Array, indent: int, short: bool, words: Callable[[Any], str], width: int) -> str:
    if x.ndim == 0:
        return words(x.item())
    cut = short and len(x) > 2 * EDGE
    rows = [*x[:EDGE], *x[-EDGE:]] if cut else list(x)
    if x.ndim > 1:
        parts = [_nested(row, indent + 1, short, words, width) for row in rows]
        parts[EDGE:EDGE] = ["..."] if cut else []
        gap = "," + "\n" * int(x.ndim - 1) + " " * (indent + 1)
        return f"[{gap.join(parts)}]"
    parts = [words(each.item()) for each in rows]
    per_line = max(1, (WIDTH - indent) // (width + 2))
    parts[EDGE:EDGE] = [" ..."] if cut else []
    lines = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
    gap = ",\n" + " " * (indent + 1)
    return f"[{gap.join(lines)}]"


def _words(values: Array) -> tuple[Callable[[Any], str], int]:
    """How to write one value, and how wide; zeros, infinities and NaN may be wider."""
    if values.dtype.kind != "f":
        width = max(len(str(each)) for each in values.reshape(-1).tolist())
        return (lambda each: str(each).rjust(width)), width
    known = np.abs(values[np.isfinite(values) & (values != 0)])
    whole = bool((known == np.ceil(known)).all())
    powers = known.size > 0 and bool(
        float(known.max()) / float(known.min()) > 1000 or known.max() > 1e8
        or (not whole and known.min() < 1e-4)
    ) if POWERS is None else POWERS  # fmt: skip
    form = f".{DIGITS}e" if powers else ".0f" if whole else f".{DIGITS}f"
    point = "." if whole and not powers else ""

    def word(each: float) -> str:
        return format(each, form) + (point if np.isfinite(each) else "")

    width = max((len(word(each)) for each in values[np.isfinite(values) & (values != 0)].tolist()),
                default=1)  # fmt: skip
    return (lambda each: word(each).rjust(width)), width


def table(cells: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows of cells: a head, a rule, rows, a rule, a foot. The ``left`` first columns of words are
    flush left, those of numbers flush right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    head, *lines, foot = [
        "  ".join(f"{text:{'<' if i < left else '>'}{widths[i]}}" for i, text in enumerate(row))
        for row in cells
    ]
    return "\n".join([head, "-" * len(head), *lines, "-" * len(head), foot])
