"""One-line calls, most of them wrong: both libraries refuse, or both give the same."""

import re
import warnings

import numpy as np
import pytest

import minidp as dp
from differential.common import Refused, attempt, torch
from differential.lines import DIFFERENT, DRAWN, LINES
from minidp import nn, optim

pytestmark = pytest.mark.slow


def names(library, layers, optimisers, tensor):
    """What the lines are written in."""
    return {
        "nn": layers,
        "F": layers.functional,
        "init": layers.init,
        "utils": layers.utils,
        "optim": optimisers,
        "sched": optimisers.lr_scheduler,
        "np": np,
        "T": lambda values: tensor(np.array(values)),
        "i": lambda *values: tensor(np.array(values)),
        "P": lambda *shape: layers.Parameter(tensor(np.ones(shape, "float32"))),
        "x": lambda *shape: tensor(
            np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape) / 10
        ),
    }


OURS = names(dp, nn, optim, dp.tensor)
THEIRS = names(torch, torch.nn, torch.optim, torch.tensor)


def described(value):
    if isinstance(value, (dp.Tensor, torch.Tensor)):
        array = value.detach().numpy()
        return str(array.dtype), array.shape, np.round(array.astype(float), 4).tolist()
    if isinstance(value, (tuple, list)):
        return tuple(described(each) for each in value)
    return re.sub(r"<.*\.(\w+) object at 0x\w+>", r"\1", repr(value))


def result(line, known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return described(attempt(eval, line, known))
        except Refused:
            return "refused"


@pytest.mark.parametrize("line", LINES)
def test_line(line):
    mine, right = result(line, OURS), result(line, THEIRS)
    if line in DIFFERENT:
        assert repr(mine) != repr(right), "no longer different"
        return
    if re.search(DRAWN, line):
        mine, right = mine == "refused", right == "refused"
    assert repr(mine) == repr(right)  # NaN is NaN
