"""Lessons written for PyTorch, run as they are or with their imports changed.

Each lesson in tests/lessons has `make()`, the model; `data(shuffle)`, batches; `train(model,
batches, epochs)`, the losses of all steps; `evaluate(model)`, a few numbers, of which the first is
a loss on data that were held out (where there are such); and `lesson(seed)`, which does it all.
"""

import re
import types
from pathlib import Path

import numpy as np

LESSONS = Path(__file__).parent / "lessons"
NAMES = ["mlp", "lenet", "resnet", "autoencoder", "char_lstm", "gru_lengths", "gpt", "dcgan"]
CHANGES = [
    (r"^import torch$", "import minidp as torch"),
    (r"^import torch\.(nn|nn\.functional|optim) as ", r"import minidp.\1 as "),
    (r"^from torch\.utils\.data import ", "from minidp.data import "),
    (r"^from torch((\.\w+)*) import ", r"from minidp\1 import "),
]
"""Which import line becomes which; no other line of a lesson is changed."""


def text(name):
    """A lesson as it was written, for PyTorch."""
    return (LESSONS / f"{name}.py").read_text()


def ported(source):
    """A lesson for PyTorch as one for minidp."""
    for old, new in CHANGES:
        source = re.sub(old, new, source, flags=re.MULTILINE)
    return source


def lesson(name, library="minidp", wrong=("", "")):
    """The module of a lesson, run with "minidp" or "torch".

    `wrong`: (old, new) is put into its text, to see that a difference is noticed.
    """
    source = text(name) if library == "torch" else ported(text(name))
    assert wrong[0] in source, wrong
    module = types.ModuleType(f"{name}_{library}")
    path = str(LESSONS / f"{name}.py")
    exec(compile(source.replace(*wrong), path, "exec"), module.__dict__)
    return module


def result(name, seed, library="minidp", wrong=("", "")):
    """(the mean of the last 20 losses, the loss held out) of a lesson."""
    losses, numbers = lesson(name, library, wrong).lesson(seed)
    return np.mean(losses[-20:]), numbers[0]


class Batches(list):
    """A few batches in the place of a loader."""

    def __init__(self, loader, count):
        super().__init__(batch for _, batch in zip(range(count), loader))
        self.dataset = range(sum(len(batch[0]) for batch in self))


def curve(name, library="minidp", dtype="float64", wrong=("", "")):
    """The losses of 20 steps (four epochs of five batches) that begin with given weights.

    Nothing in them is left to chance: no dropout, and noise from NumPy.
    """
    module = lesson(name, library, wrong)
    torch, before = module.torch, module.torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        for function in {"digits", "small_digits"} & set(vars(module)):
            setattr(module, function, in_dtype(getattr(module, function), dtype))
        if hasattr(module, "noise"):
            numbers = np.random.default_rng(2)
            module.noise = lambda n: torch.tensor(numbers.normal(size=(n, module.nz, 1, 1)),
                                                  dtype=torch.get_default_dtype())  # fmt: skip
        model = module.make()
        set_weights(model, torch)
        for layer in model.modules():
            if isinstance(layer, module.nn.Dropout):
                layer.p = 0.0
        losses = module.train(model, Batches(module.data(shuffle=False), 5), 4)
        return np.array(losses), {n: tuple(v.shape) for n, v in model.state_dict().items()}
    finally:
        torch.set_default_dtype(before)


def in_dtype(function, dtype):
    """The function that gives images and labels, with images of another dtype."""

    def converted(*args, **options):
        images, labels = function(*args, **options)
        return images.astype(dtype), labels

    return converted


def set_weights(model, torch):
    """Weights of a sensible size, the same whoever draws."""
    rng = np.random.default_rng(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = rng.normal(size=tuple(parameter.shape))
            if values.ndim > 1:
                values /= np.sqrt(np.prod(values.shape[1:]))
            else:
                values = 0.1 * values + ("bias" not in name)
            parameter.copy_(torch.tensor(values))
