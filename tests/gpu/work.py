"""What is run and measured on a GPU: models in words that minidp and PyTorch share, and ops."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import minidp as dp


def w1(nn: Any) -> Any:
    """A perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
        nn.Linear(256, 10),
    )  # fmt: skip


def w2(nn: Any) -> Any:
    """Two convolutions of 5 by 5, as LeNet."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


def w3(nn: Any) -> Any:
    """A small VGG with batch normalisation."""
    layers = []
    for channels, filters in ((3, 64), (64, 64), (64, 128), (128, 128)):
        layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU()]
        if channels == filters:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8192, 256), nn.ReLU(), nn.Linear(256, 10))


MODELS = {"W1": (w1, (1, 28, 28)), "W2": (w2, (1, 28, 28)), "W3": (w3, (3, 32, 32))}


def torch_or_none() -> Any:
    """PyTorch, if it is there and finds a GPU."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() else None


@dataclass
class Training:
    """One framework's model with inputs on the GPU; ``step`` trains it once."""

    framework: Any
    model: Any
    x: Any
    y: Any
    step: Callable[..., Any]


def training(framework: Any, name: str, batch: int, device: str) -> Training:
    """A model of MODELS in minidp or PyTorch, which is the same text but for the import."""
    build, shape = MODELS[name]
    random = np.random.default_rng(0)
    x = framework.tensor(random.standard_normal((batch, *shape)).astype("f4"), device=device)
    y = framework.tensor(random.integers(0, 10, batch), device=device)
    framework.manual_seed(0)
    model = build(framework.nn).to(device)
    loss_of = framework.nn.CrossEntropyLoss()
    optimizer = framework.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(x: Any = x, y: Any = y) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Training(framework, model, x, y, step)


def same_weights(ours: Training, theirs: Training) -> None:
    """Give the model of minidp PyTorch's weights."""
    values = {k: dp.tensor(v.detach().cpu().numpy()) for k, v in theirs.model.state_dict().items()}
    ours.model.load_state_dict(values)


@dataclass
class Case:
    """An op at a size: what it reads and writes (bytes) and computes (flops)."""

    call: Callable[[], Any]
    bytes: float = 0.0
    flops: float = 0.0


def cases(framework: Any, device: str, scale: float) -> dict[str, Case]:
    """Ops at sizes that fill a GPU (`scale` 1), for minidp or PyTorch."""
    random = np.random.default_rng(0)

    def make(*shape: int, dtype: str = "f4") -> Any:
        return framework.tensor(random.standard_normal(shape).astype(dtype), device=device)

    n = max(8, int(4096 * scale))
    images, side = max(2, int(64 * scale)), max(4, int(56 * scale))
    f = framework.nn.functional
    x, z, narrow = make(n, n), make(n, n), make(4 * n, max(8, int(1000 * scale)))
    one = 4.0 * n * n
    labels = framework.tensor(random.integers(0, narrow.shape[1], narrow.shape[0]), device=device)
    picture, w3, w1 = make(images, 64, side, side), make(64, 64, 3, 3), make(64, 64, 1, 1)
    deep, rows = make(64, 1, 3, 3), 4.0 * narrow.shape[0] * narrow.shape[1]
    pixels = images * side * side
    scale_of, shift = make(n), make(n)
    found = {
        "relu": Case(lambda: f.relu(x), 2 * one), "add": Case(lambda: x + z, 3 * one),
        "exp": Case(lambda: x.exp(), 2 * one), "tanh": Case(lambda: x.tanh(), 2 * one),
        "add a row": Case(lambda: x + shift, 2 * one), "sum": Case(lambda: x.sum(), one),
        "sum of rows": Case(lambda: x.sum(1), one), "sum of columns": Case(lambda: x.sum(0), one),
        "softmax": Case(lambda: f.softmax(narrow, 1), 2 * rows),
        "cross entropy": Case(lambda: f.cross_entropy(narrow, labels), rows),
        "layer norm": Case(lambda: f.layer_norm(x, (n,), scale_of, shift), 2 * one),
        "dropout": Case(lambda: f.dropout(x, 0.5), 2 * one),
        "transposed copy": Case(lambda: x.t().contiguous(), 2 * one),
        "max pool 2": Case(lambda: f.max_pool2d(picture, 2), 4.0 * pixels * 64 * 1.25),
        "matmul": Case(lambda: x @ z, flops=2.0 * n**3),
        "conv 3x3": Case(lambda: f.conv2d(picture, w3, padding=1), flops=2.0 * pixels * 64 * 576),
        "conv 1x1": Case(lambda: f.conv2d(picture, w1), flops=2.0 * pixels * 64 * 64),
        "conv depthwise": Case(lambda: f.conv2d(picture, deep, padding=1, groups=64),
                               2 * 4.0 * pixels * 64),
    }  # fmt: skip
    found.update(updates(framework, make, n, one))
    return found


def updates(framework: Any, make: Callable[..., Any], n: int, one: float) -> dict[str, Case]:
    """One step of optimisers on a large parameter."""
    found = {}
    kinds = {"SGD": (framework.optim.SGD, {"lr": 1e-3, "momentum": 0.9}, 5),
             "Adam": (framework.optim.Adam, {"lr": 1e-3}, 7)}  # fmt: skip
    for name, (kind, options, arrays) in kinds.items():
        parameter = framework.nn.Parameter(make(n, n))
        parameter.grad = make(n, n)
        found[name] = Case(kind([parameter], **options).step, arrays * one)
    return found


def check_kernels(backend: Any, rtol: float = 2e-5) -> dict[str, Any]:
    """How far each kernel is, on each sample, from the op's body in float64."""
    from cases import names, samples

    from minidp.op import OPS

    worst: dict[str, float] = {}
    problems: dict[str, str] = {}
    for name in sorted(set(names()) & set(backend.kernel_names())):
        try:
            ours = [sample for sample in samples(name)
                    if all(a is None or isinstance(a, np.ndarray) for a in sample.arrays)]
            worst[name] = max([difference(backend, name, each, OPS) for each in ours], default=0.0)
        except Exception as problem:  # the next kernel is still to be looked at
            problems[name] = f"{type(problem).__name__}: {problem}"
    problems |= {name: f"off by {far:.1e}" for name, far in worst.items() if not far <= rtol}
    print("\n".join(f"{name}: {what}" for name, what in problems.items()) or "all kernels agree")
    return {"kernels": len(worst), "largest difference": max(worst.values()), "problems": problems}


def difference(backend: Any, name: str, sample: Any, ops: Any) -> float:
    """The largest difference of the kernel's results, relative to the largest value."""
    from minidp.kernels.cuda import linalg

    narrow = [a.astype("f4") if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
              for a in sample.arrays]  # fmt: skip
    there = [backend.put(a, 0) if isinstance(a, np.ndarray) else a for a in narrow]
    got = backend.kernel(name)(*there, **{**ops[name].defaults, **sample.constants})
    if name == "matmul":  # which serves CUDA graphs alone
        with backend.activate(0):
            got = linalg.product(backend.gpu, *there)
    if got is NotImplemented:
        return 0.0
    with np.errstate(all="ignore"):
        wanted = ops[name].body(np, *sample.arrays, **sample.constants)
    pairs = zip(_several(got), _several(wanted), strict=True)
    return max(_far(backend.get(a), np.asarray(b)) for a, b in pairs)


def _several(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _far(got: Any, wanted: Any) -> float:
    if got.shape != wanted.shape:
        return float("inf")
    if not got.size:
        return 0.0
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    with np.errstate(all="ignore"):
        off = np.where(same, 0, np.abs(got.astype(float) - wanted))
    finite = np.abs(wanted[np.isfinite(wanted)].astype(float))
    return float(np.max(off) / max(1.0, finite.max(initial=0.0)))
