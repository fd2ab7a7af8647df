"""Eight lessons written for PyTorch train here as they do there, with nothing changed but imports.

TWINS and CURVES were measured with PyTorch 2.13.0; `python -m pytest -m slow` measures anew where
PyTorch is installed.  The quick tests need no PyTorch: all eight lessons, three seeds each.
"""

import re

import numpy as np
import pytest
from documentation import ROOT, blocks
from ported import CHANGES, NAMES, curve, ported, result, text

from minidp import default_generator
from minidp.backend.cpu import blas_threads

SEEDS = 32
"""So many were run with PyTorch for TWINS."""

TWINS = {
    "mlp": ((0.2867, 0.014), (0.417, 0.018)),
    "lenet": ((0.3832, 0.019), (0.4228, 0.02)),
    "resnet": ((1.291, 0.1), (1.106, 0.13)),
    "autoencoder": ((0.04914, 0.0065), (0.0475, 0.0066)),
    "char_lstm": ((0.5043, 0.077), (0.3377, 0.059)),
    "gru_lengths": ((0.01799, 0.0059), (0.02184, 0.013)),
    "gpt": ((0.8428, 0.054), (0.6185, 0.051)),
    "dcgan": ((2.205, 0.048), (0.3006, 0.18)),
}  # fmt: skip
"""PyTorch's final loss, mean of the last 20 steps, and its loss held out: (mean, deviation)."""

CURVES = {
    "mlp": [2.64471091, 1.8164865, 0.829401614, 0.541116488, 0.371773822],
    "lenet": [2.22236282, 1.467393, 0.85391742, 0.571987877, 0.405653146],
    "resnet": [2.93843815, 2.37435879, 2.16637192, 1.98226736, 1.9279055],
    "autoencoder": [0.221976968, 0.143434813, 0.100717902, 0.0861148962, 0.0787456275],
    "char_lstm": [3.25996875, 2.78562189, 2.70076586, 2.27101338, 1.96849194],
    "gru_lengths": [0.778541619, 0.414972573, 0.125867698, 0.0721057812, 0.0553065878],
    "gpt": [3.56656309, 2.93194037, 2.60107008, 2.07462073, 1.71955924],
    "dcgan": [2.10943612, 1.88703502, 1.83430156, 1.8669138, 1.91599728],
}
"""PyTorch's losses in steps 1, 5, 10, 15 and 20 from given weights, in float64."""
MEASURED = [0, 4, 9, 14, 19]


@pytest.fixture(autouse=True)
def as_before():
    """One BLAS thread, and the random numbers of other tests left alone."""
    state = default_generator.get_state()
    with blas_threads(1):
        yield
    default_generator.set_state(state)


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="PyTorch is compared with where it is installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


def three(name, library="minidp", wrong=("", "")):
    """Means over three seeds of (final loss, loss held out)."""
    return np.mean([result(name, seed, library, wrong) for seed in range(3)], axis=0)


def off(name, means, others=SEEDS):
    """How many standard errors three seeds are from PyTorch's mean over `others` seeds."""
    expected, deviation = np.array(TWINS[name]).T
    return np.abs(means - expected) / (deviation * np.sqrt(1 / 3 + 1 / others))


# Without PyTorch


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_trains_to_the_loss_of_its_twin(name):
    distance = off(name, three(name))
    assert (distance < 3).all(), distance


@pytest.mark.parametrize("wrong", [
    ("mlp", "momentum=0.9", "momentum=0.8"), ("lenet", "lr=2e-3", "lr=1.5e-3"),
])  # fmt: skip
def test_a_wrong_optimizer_does_not(wrong):
    name, *change = wrong
    assert off(name, three(name, wrong=change))[0] > 3


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_pytorch_step_by_step(name):
    losses, _ = curve(name)
    assert losses[MEASURED] == pytest.approx(CURVES[name], rel=1e-7)


WRONG = [
    ("mlp", "weight_decay=1e-3", "weight_decay=1e-4"), ("mlp", "gamma=0.5", "gamma=0.6"),
    ("lenet", "lr=2e-3", "lr=2e-3, eps=1e-6"), ("resnet", "nesterov=True", "nesterov=False"),
    ("autoencoder", "gamma=0.9", "gamma=0.8"), ("char_lstm", "max_norm=0.5", "max_norm=1.0"),
    ("gru_lengths", "patience=0", "patience=9"), ("gpt", "(0.9, 0.95)", "(0.9, 0.999)"),
    ("gpt", 'approximate="tanh"', 'approximate="none"'),
    ("dcgan", "LeakyReLU(0.2", "LeakyReLU(0.1"),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_small_difference_is_noticed(wrong):
    name, *change = wrong
    losses, _ = curve(name, wrong=change)
    assert losses[MEASURED] != pytest.approx(CURVES[name], rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_only_imports_change(name):
    before, after = (source.splitlines() for source in (text(name), ported(text(name))))
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert changed and all(re.match("(import|from) torch", old) for old, _ in changed)
    assert not [line for line in after if re.match(r"\s*(import|from) torch", line)]


def test_what_the_page_says():
    page = ROOT / "docs/tour/lessons.md"
    row = r"`tests/lessons/(\w+)\.py` \| (\S+) ± (\S+) \|"
    rows = [(n, (float(m), float(s))) for n, m, s in re.findall(row, page.read_text())]
    assert rows == [(name, TWINS[name][0]) for name in NAMES]
    (_, before), (_, after), *_ = blocks(page, "text", "python")
    assert ported(before) == after
    assert all(re.search(pattern, before, re.MULTILINE) for pattern, _ in CHANGES)


# With PyTorch


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_side_by_side(name, torch):
    here, there = three(name), three(name, "torch")
    deviation = np.array(TWINS[name])[:, 1]
    distance = np.abs(here - there) / (deviation * np.sqrt(2 / 3))
    assert (distance < 3).all(), distance
    assert (off(name, there) < 3).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_same_curve(name, torch):
    (here, state), (there, expected) = curve(name), curve(name, "torch")
    assert state == expected  # names and shapes
    np.testing.assert_allclose(here, there, rtol=1e-10)
    np.testing.assert_allclose(there[MEASURED], CURVES[name], rtol=1e-7)
    here, there = (curve(name, library, "float32")[0] for library in ("minidp", "torch"))
    np.testing.assert_allclose(here, there, rtol=1e-4)


@pytest.mark.slow
def test_a_lesson_is_a_program(capsys):
    for name in NAMES:
        exec(compile(ported(text(name)), name, "exec"), {"__name__": "__main__"})
    assert len(capsys.readouterr().out.splitlines()) >= len(NAMES)
