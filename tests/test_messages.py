"""What newcomers trip over: each mistake says what was called, what it expected, what to do."""

import json
import subprocess
import sys

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.errors import CheckpointError, DTypeError, ShapeError
from minidp.nn import functional as F

LINEAR = nn.Linear(2, 3)
X = dp.ones(4, 3)
LABELS = dp.tensor([0, 1, 2, 0])

MISTAKES = {
    "sizes": [
        (lambda: dp.ones("3"), TypeError, "shape '3': expected integers"),
        (lambda: dp.rand(2.5), TypeError, r"shape \(2.5,\): expected integers"),
        (lambda: dp.zeros(None), TypeError, "expected integers"),
        (lambda: dp.full([2, "a"], 1), TypeError, "expected integers"),
        (lambda: dp.empty(-1), ShapeError, "negative"),
        (lambda: nn.Linear(2.0, 3), ValueError, r"Linear: in_features=2.0; expected an integer"),
        (lambda: nn.Linear(2, -3), ValueError, "out_features=-3"),
        (lambda: nn.Conv2d("1", 2, 3), ValueError, "Conv2d: in_channels='1'"),
    ],
    "values": [
        (lambda: dp.tensor("abc"), DTypeError, r"tensor\('abc'\): expected numbers"),
        (lambda: dp.tensor([1, None]), DTypeError, r"tensor\(\[1, None\]\): expected numbers"),
        (lambda: dp.full(3, "a"), TypeError, "fill_value='a': expected a number"),
        (lambda: dp.full(3, [1]), TypeError, "fill_value"),
        (lambda: dp.arange("3"), TypeError, r"arange\(0, '3', 1\): expected numbers"),
        (lambda: dp.ones(2, dtype="flot"), DTypeError, "dtype 'flot': expected one of float16"),
        (lambda: dp.ones(2, dtype=str), DTypeError, "expected one of float16"),
        (lambda: dp.ones(2).to("complex64"), (DTypeError, RuntimeError), "complex64"),
        (lambda: dp.manual_seed("a"), TypeError, r"manual_seed\('a'\): expected an integer"),
    ],
    "optimisers": [
        (lambda: optim.SGD(LINEAR), TypeError, r"SGD\(Linear.*model.parameters\(\)"),
        (lambda: optim.Adam(LINEAR.parameters), TypeError, r"Adam\(method.*model.parameters\(\)"),
        (lambda: optim.SGD(None), TypeError, "SGD.NoneType"),
        (lambda: optim.SGD(LINEAR.state_dict()), TypeError, "SGD.dict"),
        (lambda: optim.SGD([]), ValueError, "empty parameter list: the model has none, or"),
        (lambda: optim.SGD([X], lr="0.1"), TypeError, "learning rate: '0.1'; expected a number"),
        (lambda: optim.SGD([X], lr=None), TypeError, "learning rate: None; expected a number"),
        (lambda: optim.Adam([X], betas=0.9), TypeError, "betas: 0.9; expected two numbers"),
        (lambda: nn.utils.clip_grad_norm_(LINEAR, 1.0), TypeError, r"Linear.*model.parameters\(\)"),
    ],
    "lists for tensors": [
        (lambda: nn.MSELoss()([1.0], X), DTypeError, "mse_loss: expected a tensor, got a list"),
        (lambda: F.l1_loss(X, [1.0]), DTypeError, "l1_loss: expected a tensor, got a list"),
        (lambda: F.cross_entropy(X, [0, 1, 2, 0]), DTypeError, "cross_entropy.*got a list"),
        (lambda: F.binary_cross_entropy(X, [1.0]), DTypeError, "binary_cross_entropy.*a list"),
        (lambda: LINEAR([[1.0, 2.0]]), DTypeError, "linear: expected a tensor, got a list"),
        (lambda: F.linear(X, [[1.0] * 3]), DTypeError, "linear.*got a list"),
        (lambda: nn.Sequential(nn.Flatten(), LINEAR)([1.0]), DTypeError, "got a list; make one"),
        (lambda: nn.Embedding(3, 4)([1]), DTypeError, "Embedding: expected a tensor, got a list"),
        (lambda: nn.Conv2d(1, 2, 3)([1.0]), DTypeError, "conv2d.*got a list"),
        (lambda: nn.MaxPool2d(2)([1.0]), DTypeError, "max_pool2d.*got a list"),
        (lambda: dp.einsum("i->", [1.0]), DTypeError, "einsum 'i->'.*got a float"),
    ],
    "losses": [
        (lambda: F.cross_entropy(X, LABELS.float()), DTypeError,
         r"a target of float32 and shape \(4,\): expected class numbers.*\.long\(\).*\(4, 3\)"),
        (lambda: F.nll_loss(X, LABELS.float()), DTypeError, "nll_loss: a target of float32"),
        (lambda: F.cross_entropy(LABELS, X), DTypeError, "logits of floating point first"),
        (lambda: F.multi_margin_loss(X, LABELS.float()), DTypeError, "multi_margin_loss"),
    ],
    "einsum": [
        (lambda: dp.einsum("ij,jk->ik", X), ShapeError, r"names 2 operand\(s\), 1 given"),
        (lambda: dp.einsum("ij,jk", X, X), ShapeError, r"\(4, 3\), \(4, 3\): axis 'j' has both"),
        (lambda: dp.einsum("i1->i", X), ShapeError, "'1' in the term 'i1'; expected letters"),
        (lambda: dp.einsum("ij->iz", X), ShapeError, "the result names z, which no operand has"),
        (lambda: dp.einsum("ij->ii", X), ShapeError, "an axis twice"),
        (lambda: dp.einsum(X, "ij->i"), TypeError, "the equation comes first"),
    ],
    "convolution": [
        (lambda: nn.Conv2d(3, 2, 3)(dp.ones(5, 1, 8, 8)), ShapeError,
         r"\(5, 1, 8, 8\).*the input has 1 channel\(s\), the weight takes 3"),
        (lambda: nn.Conv2d(1, 2, 3)(dp.ones(5, 8, 8)), ShapeError, r"make x.unsqueeze\(1\)"),
        (lambda: nn.Conv2d(1, 2, 3)(dp.ones(8, 8)), ShapeError, r"expected \(n, c, h, w\) or"),
        (lambda: nn.Conv1d(4, 2, 3)(dp.ones(1, 2, 8)), ShapeError, "has 2 channel.*takes 4"),
        (lambda: nn.ConvTranspose2d(3, 2, 3)(dp.ones(5, 1, 8, 8)), ShapeError, "1 channel.*3"),
    ],
    "modules": [
        (lambda: nn.Sequential(F.relu), TypeError, r"Sequential: a function.*nn.ReLU\(\)"),
        (lambda: nn.Sequential([LINEAR]), TypeError, "Sequential: a list.*modules one by one"),
        (lambda: nn.Sequential(nn.ReLU), TypeError, "Sequential: a type is not a Module"),
        (lambda: LINEAR.load_state_dict("m.pt"), TypeError, r"dict\(str\).*dp.load\(file\)"),
        (lambda: LINEAR.load_state_dict(LINEAR), TypeError, "expected a dict of tensors"),
        (lambda: dp.save(LINEAR, "x"), CheckpointError, r"a Linear; .*save its state_dict\(\)"),
        (lambda: dp.load(3), CheckpointError, r"load\(3\): expected the name of a file"),
        (lambda: dp.cat([[1], [2]]), DTypeError, "cat: expected a tensor, got a list"),
        (lambda: dp.stack([1, 2]), DTypeError, "stack: expected a tensor, got a int"),
        (lambda: dp.linspace(0, 1, "3"), ValueError, "linspace: steps='3'"),
        (lambda: dp.randint(10), TypeError, "randint: expected a size"),
        (lambda: dp.cat(X, X), TypeError, r"cat\(\[a, b\], dim=0\)"),
        (lambda: dp.stack(X, X), TypeError, r"stack\(\[a, b\], dim=0\)"),
    ],
}  # fmt: skip


EACH = [case for cases in MISTAKES.values() for case in cases]


@pytest.mark.parametrize("call, kind, text", EACH)
def test_a_mistake_is_told(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_a_users_own_attribute_error_stays_as_it_is():
    class Mine(nn.Module):
        def forward(self, given):
            return given.missing

    with pytest.raises(AttributeError, match="missing"):
        Mine()(dp.ones(2))
    with pytest.raises(DTypeError, match="Mine: expected a tensor, got a dict"):
        Mine()({})


def test_arrays_of_numpy_are_taken_where_tensors_are():
    assert nn.MSELoss()(X, np.ones((4, 3), np.float32)).item() == 0
    assert LINEAR(np.ones((1, 2), np.float32)).shape == (1, 3)


def test_objects_say_what_they_are():
    step = dp.capture(lambda x: x * 2)
    assert "runs eagerly, because it has not run" in repr(step)
    for _ in range(3):
        step(dp.ones(2))
    assert "replays 1 line(s)" in repr(step)
    assert repr(step.graph).startswith("Graph(1 line(s), 1 argument(s), 1 result(s)")
    for name in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation",
                 "groups", "bias", "padding_mode"):  # fmt: skip
        assert name in nn.Conv2d.__doc__


def report(*arguments):
    return subprocess.run([sys.executable, "-m", "minidp", *arguments], capture_output=True,
                          text=True)  # fmt: skip


def test_the_installation_as_json_and_its_arguments():
    known = json.loads(report("--json").stdout)
    assert known["minidp"] == dp.__version__ and "conv2d" in known["devices"]["cpu"]["kernels"]
    assert "--json" in report("--help").stdout
    assert report("--version").stdout == f"minidp {dp.__version__}\n"
    wrong = report("--jsn")
    assert wrong.returncode == 2 and "--jsn" in wrong.stderr
