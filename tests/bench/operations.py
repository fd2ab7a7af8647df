"""What each op costs beside PyTorch on one thread: forward, and forward with backward.

    python tests/bench/operations.py [--only lstm] [--rounds 7] [--seconds 0.02] [--worst 1.5]

Both libraries run the same text on the same arrays, in turn, in short bursts; the table has the
best times in microseconds and the ratio of minidp's to PyTorch's. With ``--worst`` the script
fails where a ratio is above it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import minidp as dp

Step = Callable[[], None]
Case = Callable[[Any], tuple[Callable[[], Any], list[Any]]]
CASES: dict[str, Case] = {}


class Arrays:
    """Equal arrays for a library, drawn in order."""

    def __init__(self, library: Any) -> None:
        self.library, self.rng = library, np.random.default_rng(0)

    def normal(self, *shape: int, grad: bool = True) -> Any:
        x = self.library.tensor(self.rng.standard_normal(shape).astype("float32"))
        return x.requires_grad_(grad)

    def whole(self, high: int, *shape: int) -> Any:
        return self.library.tensor(self.rng.integers(0, high, shape))


def add(name: str, make: Callable[[Any, Arrays], tuple[Callable[[], Any], list[Any]]]) -> None:
    """A case: ``make`` gives a function whose result is differentiated, and what for."""
    CASES[name] = lambda library: make(library, Arrays(library))


def module(name: str, build: Callable[[Any], Any], *shape: int, first: bool = False) -> None:
    """The case of a layer on one input."""

    def make(library: Any, arrays: Arrays) -> Any:
        layer, x = build(library.nn), arrays.normal(*shape)
        for p in layer.parameters():
            p.data.copy_(arrays.normal(*p.shape, grad=False) * 0.1)
        return (lambda: layer(x)[0] if first else layer(x)), [x, *layer.parameters()]

    add(name, make)


def unary(name: str, function: Callable[[Any, Any], Any], *shape: int) -> None:
    """The case of a function of a library and one array."""

    def make(library: Any, arrays: Arrays) -> Any:
        x = arrays.normal(*shape)
        return (lambda: function(library, x)), [x]

    add(f"{name} {'x'.join(map(str, shape))}", make)


def recurrent() -> None:
    for name in ("LSTM", "GRU", "RNN"):
        for steps, batch, size, width in ((32, 32, 64, 128), (64, 1, 64, 64), (20, 64, 256, 256),
                                          (100, 8, 40, 100), (10, 128, 28, 33)):  # fmt: skip
            if name != "RNN" or batch == 32:
                module(f"{name} t{steps} n{batch} {size}->{width}",
                       lambda nn, n=name, i=size, h=width: getattr(nn, n)(i, h),
                       steps, batch, size, first=True)  # fmt: skip
    module("LSTM two layers, both ways", lambda nn: nn.LSTM(32, 48, 2, bidirectional=True),
           25, 16, 32, first=True)  # fmt: skip


def attended(name: str, q: Any, s: int, mask: str = "", causal: bool = False) -> None:
    def make(library: Any, arrays: Arrays) -> Any:
        key_shape = (*q[:-2], s, q[-1])
        x, k, v = arrays.normal(*q), arrays.normal(*key_shape), arrays.normal(*key_shape)
        square = arrays.normal(q[-2], s, grad=False)
        chosen = {"": None, "bool": square > -1, "float": square}[mask]
        attend = library.nn.functional.scaled_dot_product_attention
        return (lambda: attend(x, k, v, attn_mask=chosen, is_causal=causal)), [x, k, v]

    add(f"attention {name}", make)


def attention() -> None:
    attended("8x4 l128 e64", (8, 4, 128, 64), 128)
    attended("8x4 l128 e64 causal", (8, 4, 128, 64), 128, causal=True)
    attended("8x4 l128 e64 bool", (8, 4, 128, 64), 128, "bool")
    attended("8x4 l128 e64 float", (8, 4, 128, 64), 128, "float")
    attended("2x8 l512 e32", (2, 8, 512, 32), 512)
    attended("2x8 l512 e32 causal", (2, 8, 512, 32), 512, causal=True)
    attended("64x2 l16 e16", (64, 2, 16, 16), 16)
    attended("4x3 l37 s53 e20", (4, 3, 37, 20), 53)
    attended("1x8 l1 s256 e64", (1, 8, 1, 64), 256)
    for name, heads, n, steps, width in (("h8 n16 l64 e256", 8, 16, 64, 256),
                                         ("h4 n4 l50 e100", 4, 4, 50, 100)):  # fmt: skip

        def make(library: Any, arrays: Arrays, h: int = heads, e: int = width, n: int = n,
                 steps: int = steps) -> Any:  # fmt: skip
            layer, x = library.nn.MultiheadAttention(e, h, batch_first=True), arrays.normal(
                n, steps, e)  # fmt: skip
            return (lambda: layer(x, x, x, need_weights=False)[0]), [x, *layer.parameters()]

        add(f"MultiheadAttention {name}", make)
    module("TransformerEncoderLayer n16 l64 e128 h4", lambda nn: nn.TransformerEncoderLayer(
        128, 4, 512, 0.0, batch_first=True, activation="gelu"), 16, 64, 128)  # fmt: skip


def normalised() -> None:
    for shape in ((8, 10), (64, 128), (512, 768), (2048, 64), (4096, 33), (8, 4096), (2, 16, 768)):
        module(f"LayerNorm {shape}", lambda nn, s=shape: nn.LayerNorm(s[-1]), *shape)
    module("LayerNorm (16, 4, 8), two axes", lambda nn: nn.LayerNorm([4, 8]), 16, 4, 8)
    module("RMSNorm (512, 768)", lambda nn: nn.RMSNorm(768), 512, 768)
    module("RMSNorm (2048, 64)", lambda nn: nn.RMSNorm(64), 2048, 64)
    module("GroupNorm (16, 64, 16, 16)", lambda nn: nn.GroupNorm(8, 64), 16, 64, 16, 16)
    for groups in (8, 64):  # on memory as a convolution makes it
        module(f"Conv 1x1, GroupNorm {groups} (8, 16, 28, 28)", lambda nn, g=groups: nn.Sequential(
            nn.Conv2d(16, 64, 1), nn.GroupNorm(g, 64)), 8, 16, 28, 28)  # fmt: skip
    module("BatchNorm1d (128, 512)", lambda nn: nn.BatchNorm1d(512), 128, 512)
    module("BatchNorm1d (64, 33)", lambda nn: nn.BatchNorm1d(33), 64, 33)
    module("BatchNorm2d (32, 64, 16, 16)", lambda nn: nn.BatchNorm2d(64), 32, 64, 16, 16)


def small() -> None:
    """Layers that take microseconds: what is measured is the Python around their kernels."""
    images, frames = (2, 8, 8, 8), (2, 8, 16)
    for name, build, shape in (
        ("LayerNorm", lambda nn: nn.LayerNorm(16), frames),
        ("GroupNorm", lambda nn: nn.GroupNorm(2, 8), images),
        ("InstanceNorm2d", lambda nn: nn.InstanceNorm2d(8), images),
        ("BatchNorm2d", lambda nn: nn.BatchNorm2d(8), images),
        ("BatchNorm2d eval", lambda nn: nn.BatchNorm2d(8).eval(), images),
        ("MaxPool2d", lambda nn: nn.MaxPool2d(2), images),
        ("MaxPool1d", lambda nn: nn.MaxPool1d(2), frames),
        ("AvgPool2d", lambda nn: nn.AvgPool2d(3, 2, 1), images),
        ("AdaptiveAvgPool2d 1", lambda nn: nn.AdaptiveAvgPool2d(1), images),
        ("AdaptiveAvgPool2d 3", lambda nn: nn.AdaptiveAvgPool2d(3), images),
        ("Dropout", lambda nn: nn.Dropout(0.5), frames),
        ("Linear", lambda nn: nn.Linear(16, 16), frames),
    ):
        module(f"small {name} {shape}", build, *shape)


def tables() -> None:
    for rows, width, shape, padding in ((1000, 64, (64, 32), None), (50_000, 128, (32, 64), None),
                                        (1000, 64, (64, 32), 0), (10, 8, (16,), None)):  # fmt: skip

        def make(library: Any, arrays: Arrays, rows: int = rows, width: int = width,
                 shape: Any = shape, padding: Any = padding) -> Any:  # fmt: skip
            layer = library.nn.Embedding(rows, width, padding_idx=padding)
            numbers = arrays.whole(rows, *shape)
            return (lambda: layer(numbers)), [layer.weight]

        add(f"Embedding {rows}x{width} of {shape} padding {padding}", make)


    for mode in ("sum", "mean", "max"):

        def bags(library: Any, arrays: Arrays, mode: str = mode) -> Any:
            layer = library.nn.EmbeddingBag(1000, 64, mode=mode)
            numbers = arrays.whole(1000, 32, 20)
            return (lambda: layer(numbers)), [layer.weight]

        add(f"EmbeddingBag 1000x64 of (32, 20) {mode}", bags)

    def rows(library: Any, arrays: Arrays) -> Any:
        x, numbers = arrays.normal(1000, 64), arrays.whole(1000, 1000)
        return (lambda: x[numbers]), [x]

    add("x[numbers] 1000x64", rows)


def likelihoods() -> None:
    for shape in ((64, 80), (4, 1, 128, 128)):

        def logits(library: Any, arrays: Arrays, shape: Any = shape) -> Any:
            x, target = arrays.normal(*shape), arrays.normal(*shape, grad=False).sigmoid()
            score = library.nn.functional.binary_cross_entropy_with_logits
            return (lambda: score(x, target)), [x]

        add(f"binary_cross_entropy_with_logits {shape}", logits)
    for shape in ((128, 10), (64, 1000), (4096, 64), (16, 20, 30, 31)):
        unary("softmax", lambda lib, x: lib.softmax(x, dim=-1), *shape)
        unary("log_softmax", lambda lib, x: lib.log_softmax(x, dim=1), *shape)
    for rows, classes in ((128, 10), (64, 1000), (512, 5000)):

        def make(library: Any, arrays: Arrays, n: int = rows, c: int = classes) -> Any:
            x, target = arrays.normal(n, c), arrays.whole(c, n)
            return (lambda: library.nn.functional.cross_entropy(x, target)), [x]

        add(f"cross_entropy {rows}x{classes}", make)


def elementwise() -> None:
    for name in ("tanh", "sigmoid", "exp", "erf", "sin"):
        unary(name, lambda lib, x, n=name: getattr(lib, n)(x), 128, 512)
    unary("log", lambda lib, x: (x * x + 1).log(), 128, 512)
    unary("sqrt", lambda lib, x: (x * x + 1).sqrt(), 128, 512)
    unary("x * x + x", lambda lib, x: x * x + x, 128, 512)
    for name in ("gelu", "silu", "relu", "elu", "softplus", "leaky_relu", "hardswish", "mish"):
        unary(name, lambda lib, x, n=name: getattr(lib.nn.functional, n)(x), 128, 512)
    unary("gelu tanh", lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"), 128, 512)
    unary("gelu", lambda lib, x: lib.nn.functional.gelu(x), 1024, 1024)
    unary("gelu", lambda lib, x: lib.nn.functional.gelu(x), 16, 32)
    unary("dropout", lambda lib, x: lib.nn.functional.dropout(x, 0.1), 128, 512)
    unary("dropout", lambda lib, x: lib.nn.functional.dropout(x, 0.5), 32, 64, 16, 16)


def reductions() -> None:
    for dim in (None, 0, 1, (0, 1)):
        for name in ("sum", "mean", "var", "amax"):
            if dim is None and name == "amax":
                continue
            unary(f"{name} {dim}", lambda lib, x, n=name, d=dim: getattr(x, n)(d) if d is not None
                  else getattr(x, n)(), 256, 500)  # fmt: skip
    unary("sum -1", lambda lib, x: x.sum(-1), 64, 32, 100)
    unary("sum (0, 2, 3)", lambda lib, x: x.sum((0, 2, 3)), 32, 64, 16, 16)
    unary("max 1", lambda lib, x: x.max(1)[0], 256, 500)
    unary("logsumexp 1", lambda lib, x: x.logsumexp(1), 256, 500)
    unary("topk 5", lambda lib, x: x.topk(5)[0], 256, 500)
    unary("topk 5", lambda lib, x: x.topk(5)[0], 8, 10_000)
    unary("sort", lambda lib, x: x.sort()[0], 256, 500)
    unary("argsort", lambda lib, x: x.detach().argsort() * x.sum(), 256, 500)
    unary("cumsum", lambda lib, x: x.cumsum(1), 256, 500)
    unary("cumsum 0", lambda lib, x: x.cumsum(0), 256, 500)
    unary("cummax", lambda lib, x: x.cummax(1)[0], 256, 500)
    unary("cumprod", lambda lib, x: x.cumprod(1), 64, 50)
    unary("median", lambda lib, x: x.median(), 256, 500)
    unary("median 1", lambda lib, x: x.median(1)[0], 256, 500)
    unary("kthvalue", lambda lib, x: x.kthvalue(7)[0], 256, 500)
    for mode in ("nearest", "bilinear", "bicubic"):
        unary(f"interpolate {mode}", lambda lib, x, m=mode: lib.nn.functional.interpolate(
            x, scale_factor=2, mode=m), 8, 16, 32, 32)  # fmt: skip
    unary("pad reflect", lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
          4, 64, 28, 28)  # fmt: skip
    unary("interpolate down", lambda lib, x: lib.nn.functional.interpolate(
        x, size=(17, 23), mode="bilinear"), 8, 3, 64, 64)  # fmt: skip


def affine() -> None:
    for n, c, k in ((128, 784, 512), (128, 512, 256), (128, 256, 10), (1, 512, 512),
                    (1, 4096, 1024), (4096, 64, 1), (33, 77, 101), (1024, 64, 64),
                    (7, 3, 5)):  # fmt: skip
        module(f"Linear {n}: {c}->{k}", lambda nn, c=c, k=k: nn.Linear(c, k), n, c)
    module("Linear 4x5: 16->8", lambda nn: nn.Linear(16, 8), 4, 5, 16)


def optimisers() -> None:
    sizes = (784, 1024), (1024,), (1024, 750), (750,), (750, 10), (10,)

    def make(library: Any, arrays: Arrays, name: str, options: dict[str, Any]) -> Any:
        parameters = [library.nn.Parameter(arrays.normal(*s, grad=False)) for s in sizes]
        for p in parameters:
            p.grad = arrays.normal(*p.shape, grad=False)
        optimiser = getattr(library.optim, name)(parameters, lr=1e-3, **options)
        return optimiser.step, []

    for name, options in (("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}),
                          ("RMSprop", {})):  # fmt: skip
        add(f"{name}.step {options}".removesuffix(" {}"),
            lambda lib, arrays, n=name, o=options: make(lib, arrays, n, o))  # fmt: skip


def networks() -> None:
    """W1: a whole step of an MLP 784-512-256-10, batch 128, SGD with momentum."""

    def make(library: Any, arrays: Arrays) -> Any:
        nn = library.nn
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
                              nn.Linear(256, 10))  # fmt: skip
        loss, x, target = nn.CrossEntropyLoss(), arrays.normal(128, 784, grad=False), arrays.whole(
            10, 128)  # fmt: skip
        optimiser = library.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def step() -> None:
            optimiser.zero_grad()
            loss(model(x), target).backward()
            optimiser.step()

        return step, []

    add("MLP step (W1)", make)


def steps(library: Any, case: Case) -> Iterator[tuple[str, Step]]:
    """The forward pass alone, and with the backward pass where there is one."""
    call, leaves = case(library)
    yield "forward" if leaves else "step", call
    y = call() if leaves else None
    if y is None:
        return
    g = library.tensor(np.random.default_rng(1).standard_normal(tuple(y.shape)).astype("float32"))

    def both() -> None:
        call().backward(g)
        for leaf in leaves:
            leaf.grad = None

    yield "both", both


def burst(step: Step, seconds: float) -> float:
    """The best time of a call among as many as fit into ``seconds``."""
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        began = time.perf_counter()
        step()
        now = time.perf_counter()
        best = min(best, now - began)
        if now > end:
            return best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="cases whose names contain this")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=0.02)
    options.add_argument("--worst", type=float, default=float("inf"))
    given = options.parse_args()
    torch.set_num_threads(1)
    dp.set_num_threads(1)
    for register in (networks, affine, recurrent, attention, normalised, small, tables, likelihoods,
                     elementwise, reductions, optimisers):  # fmt: skip
        register()
    worst = 0.0
    print(f"{'case':46}{'part':9}{'minidp':>10}{'torch':>10}{'ratio':>8}")
    for name, case in CASES.items():
        if given.only.lower() not in name.lower():
            continue
        for (part, ours), (_, theirs) in zip(steps(dp, case), steps(torch, case), strict=True):
            for step in (ours, theirs):
                burst(step, 0)
            times = [(burst(ours, given.seconds), burst(theirs, given.seconds))
                     for _ in range(given.rounds)]  # fmt: skip
            mine, other = (min(column) for column in zip(*times, strict=True))
            worst = max(worst, mine / other)
            print(f"{name:46}{part:9}{mine * 1e6:10.1f}{other * 1e6:10.1f}{mine / other:8.2f}",
                  flush=True)  # fmt: skip
    if worst > given.worst:
        raise SystemExit(f"slowest: {worst:.2f} of PyTorch's time, more than {given.worst}")


if __name__ == "__main__":
    main()
