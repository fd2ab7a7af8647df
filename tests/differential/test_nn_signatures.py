"""Names, order and defaults of the arguments of all public classes and functions."""

import inspect

import pytest

from differential.common import torch
from minidp import nn, optim

pytestmark = pytest.mark.slow

PAIRS = {
    "nn": (nn, torch.nn),
    "F": (nn.functional, torch.nn.functional),
    "init": (nn.init, torch.nn.init),
    "utils": (nn.utils, torch.nn.utils),
    "rnn": (nn.utils.rnn, torch.nn.utils.rnn),
    "optim": (optim, torch.optim),
    "sched": (optim.lr_scheduler, torch.optim.lr_scheduler),
    "swa": (optim.swa_utils, torch.optim.swa_utils),
}
OLD = {"size_average", "reduce", "_stacklevel", "out", "min_value", "max_value"}
"""PyTorch's, long deprecated or internal."""
OWN = {"batch_dim": "the axis of the batch, by whose rows masks are drawn",
       "sync": "whether statistics are those of all replicas"}  # fmt: skip
"""minidp's own."""
OTHER = {
    "nn.Buffer": "requires_grad, which copies pass",
    "nn.Conv1d": "output_padding, which the transposed ones take",
    "nn.Conv2d": "the same",
    "nn.Conv3d": "the same",
    "nn.RNNCellBase": "the mode says how many gates there are",
    "F.upsample": "is interpolate",
    "rnn.PackedSequence": "made by functions, always with batch_sizes",
}


def parameters(thing):
    try:
        given = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in given):
        return None
    return {p.name: p.default for p in given if p.name not in OLD and p.name not in OWN}


def default(value):
    name = getattr(value, "__name__", None)
    if value is inspect.Parameter.empty:
        return "none"
    return name or (float(value) if isinstance(value, (int, float)) else value)


NAMES = [
    f"{part}.{name}"
    for part, (ours, theirs) in PAIRS.items()
    for name, value in vars(ours).items()
    if name[0] != "_" and callable(value) and hasattr(theirs, name)
]


@pytest.mark.parametrize("name", NAMES)
def test_signature(name):
    part, _, word = name.partition(".")
    mine, right = (parameters(getattr(library, word)) for library in PAIRS[part])
    if mine is None or right is None or name in OTHER:
        pytest.skip(OTHER.get(name, "PyTorch's cannot be read, or takes anything"))
    if word in ("Parameter", "Buffer", "ModuleList", "Adam"):
        assert sorted(mine) == sorted(right)
        return
    assert list(mine) == list(right)
    assert list(map(default, mine.values())) == list(map(default, right.values()))
