"""Convolutions drawn from well-known networks, forward and backward, beside PyTorch's.

    python tests/bench/convolutions.py [--rounds 7] [--only mobilenet] [--json FILE]

One thread, float32, bias, gradients of x, w and b through the public API of both. Every row runs in
short bursts, in turn: minidp, PyTorch on plain memory, PyTorch on channels-last memory. Printed
are medians, the ratio to PyTorch's better variant (forward, backward, both), and GFLOP/s of both
passes together. The last line has the geometric mean and the worst ratio.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import minidp as dp

BURST = 0.01  # seconds, at least
ROWS = {  # n, c, h, w, filters, kernel, stride, padding, dilation, groups; h = 0 for sequences
    "lenet conv1": (128, 1, 28, 28, 32, 5, 1, 2, 1, 1),
    "lenet conv2": (128, 32, 14, 14, 64, 5, 1, 2, 1, 1),
    "vgg conv1": (64, 3, 32, 32, 64, 3, 1, 1, 1, 1),
    "vgg conv2": (64, 64, 32, 32, 64, 3, 1, 1, 1, 1),
    "vgg conv3": (64, 64, 16, 16, 128, 3, 1, 1, 1, 1),
    "vgg conv4": (64, 128, 16, 16, 128, 3, 1, 1, 1, 1),
    "resnet stem, 1 image": (1, 3, 224, 224, 64, 7, 2, 3, 1, 1),
    "resnet stem": (8, 3, 224, 224, 64, 7, 2, 3, 1, 1),
    "resnet layer1": (4, 64, 56, 56, 64, 3, 1, 1, 1, 1),
    "resnet layer2 down": (8, 64, 56, 56, 128, 3, 2, 1, 1, 1),
    "resnet layer2 shortcut": (16, 64, 56, 56, 128, 1, 2, 0, 1, 1),
    "resnet layer2, 1 image": (1, 128, 28, 28, 128, 3, 1, 1, 1, 1),
    "resnet layer3": (16, 256, 14, 14, 256, 3, 1, 1, 1, 1),
    "resnet layer3 down, 1 image": (1, 128, 28, 28, 256, 3, 2, 1, 1, 1),
    "resnet layer4": (64, 512, 7, 7, 512, 3, 1, 1, 1, 1),
    "resnet layer4, 1 image": (1, 512, 7, 7, 512, 3, 1, 1, 1, 1),
    "resnet layer4 down": (64, 256, 14, 14, 512, 3, 2, 1, 1, 1),
    "resnet layer4 shortcut": (64, 256, 14, 14, 512, 1, 2, 0, 1, 1),
    "mobilenet stem": (8, 3, 224, 224, 32, 3, 2, 1, 1, 1),
    "mobilenet depthwise 112": (8, 32, 112, 112, 32, 3, 1, 1, 1, 32),
    "mobilenet project 112": (8, 32, 112, 112, 16, 1, 1, 0, 1, 1),
    "mobilenet expand 112": (8, 16, 112, 112, 96, 1, 1, 0, 1, 1),
    "mobilenet depthwise 112 down": (8, 96, 112, 112, 96, 3, 2, 1, 1, 96),
    "mobilenet expand 56": (8, 24, 56, 56, 144, 1, 1, 0, 1, 1),
    "mobilenet depthwise 56": (16, 144, 56, 56, 144, 3, 1, 1, 1, 144),
    "mobilenet depthwise 28, 1 image": (1, 192, 28, 28, 192, 3, 1, 1, 1, 192),
    "mobilenet depthwise 14": (64, 384, 14, 14, 384, 3, 1, 1, 1, 384),
    "mobilenet project 14": (64, 384, 14, 14, 64, 1, 1, 0, 1, 1),
    "mobilenet depthwise 7": (64, 960, 7, 7, 960, 3, 1, 1, 1, 960),
    "mobilenet head, 1 image": (1, 320, 7, 7, 1280, 1, 1, 0, 1, 1),
    "mobilenet head": (64, 320, 7, 7, 1280, 1, 1, 0, 1, 1),
    "unet 188": (1, 64, 188, 188, 64, 3, 1, 0, 1, 1),
    "unet down": (1, 64, 140, 140, 128, 3, 1, 0, 1, 1),
    "unet deep": (1, 256, 66, 66, 256, 3, 1, 0, 1, 1),
    "unet last": (1, 64, 190, 190, 2, 1, 1, 0, 1, 1),
    "dilated 2": (4, 64, 65, 65, 64, 3, 1, 2, 2, 1),
    "dilated 4, 37 channels": (4, 37, 33, 47, 45, 3, 1, 4, 4, 1),
    "grouped 32": (8, 128, 28, 28, 128, 3, 1, 1, 1, 32),
    "resnext layer1, 1 image": (1, 128, 56, 56, 128, 3, 1, 1, 1, 32),
    "regnet, groups of 16": (8, 64, 28, 28, 64, 3, 1, 1, 1, 4),
    "two filters for each channel": (8, 32, 56, 56, 64, 3, 1, 1, 1, 32),
    "one filter": (8, 64, 28, 28, 1, 3, 1, 1, 1, 1),
    "three filters 9x9": (2, 32, 33, 33, 3, 9, 1, 4, 1, 1),
    "mask": (2, 64, 128, 128, 1, 1, 1, 0, 1, 1),
    "squeeze, 1 image": (1, 960, 1, 1, 240, 1, 1, 0, 1, 1),
    "odd 5x5": (16, 19, 31, 29, 23, 5, 2, 2, 1, 1),
    "audio stem": (8, 1, 0, 16000, 64, 80, 4, 38, 1, 1),
    "audio 3": (8, 64, 0, 4000, 64, 3, 1, 1, 1, 1),
    "audio 3, 1 sequence": (1, 128, 0, 1000, 128, 3, 1, 1, 1, 1),
    "audio dilated 8": (8, 64, 0, 2000, 64, 2, 1, 8, 8, 1),
    "audio down": (16, 128, 0, 1000, 256, 4, 4, 0, 1, 1),
    "audio 1 to 32": (1, 1, 0, 8000, 32, 7, 1, 3, 1, 1),
    "audio separable": (16, 256, 0, 500, 256, 9, 1, 4, 1, 256),
}

Step = Callable[[], "tuple[float, float]"]


def arrays(row: tuple[int, ...]) -> list[Any]:
    """x, w and b of a row."""
    n, c, h, w, k, kernel, *_, groups = row
    size = (h, w) if h else (w,)
    random = np.random.default_rng(0)
    shapes = (n, c, *size), (k, c // groups, *[kernel] * len(size)), (k,)
    return [random.standard_normal(shape, np.float32) for shape in shapes]


def step(convolve: Any, x: Any, w: Any, b: Any, row: tuple[int, ...]) -> Step:
    """Seconds of one forward and of one backward pass."""
    *_, stride, padding, dilation, groups = row
    g = None

    def run() -> tuple[float, float]:
        nonlocal g
        start = time.process_time()
        y = convolve(x, w, b, stride, padding, dilation, groups)
        middle = time.process_time()
        if g is None:  # with the memory layout of y
            g = y.detach() * 0.5
            middle = time.process_time()
        y.backward(g)
        x.grad = w.grad = b.grad = None
        return middle - start, time.process_time() - middle

    return run


def ours(row: tuple[int, ...]) -> Step:
    x, w, b = arrays(row)  # x on channels-last memory, as a layer before this one makes it
    x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    tensors = [dp.Tensor(values, requires_grad=True) for values in (x, w, b)]
    functional = dp.nn.functional
    return step(functional.conv2d if row[2] else functional.conv1d, *tensors, row)


def theirs(row: tuple[int, ...], is_last: bool) -> Step:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    tensors = [torch.from_numpy(values) for values in arrays(row)]
    if is_last and row[2]:
        tensors[:2] = [t.to(memory_format=torch.channels_last) for t in tensors[:2]]
    tensors = [t.requires_grad_() for t in tensors]
    functional = torch.nn.functional
    return step(functional.conv2d if row[2] else functional.conv1d, *tensors, row)


def burst(run: Step) -> tuple[float, float]:
    """Mean seconds of the two passes over a short while."""
    times = [run()]
    while sum(map(sum, times)) < BURST:
        times.append(run())
    forward, backward = zip(*times, strict=True)
    return statistics.median(forward), statistics.median(backward)


def measure(row: tuple[int, ...], rounds: int) -> list[tuple[float, float]]:
    """Median seconds (forward, backward) of minidp, PyTorch, PyTorch on channels-last memory."""
    runs = [ours(row), theirs(row, False), theirs(row, True)]
    found: list[list[tuple[float, float]]] = [[] for _ in runs]
    for turn in range(rounds + 2):
        for run, times in zip(runs, found, strict=True):
            times.append(burst(run))
            del times[: 1 if turn < 2 else 0]
    return [tuple(map(statistics.median, zip(*times, strict=True))) for times in found]  # type: ignore[misc]


def flops(row: tuple[int, ...]) -> float:
    """Of the forward pass and both gradients."""
    n, c, h, w, k, kernel, stride, padding, dilation, groups = row
    sizes = [(s + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for s in (h, w) if s]
    return 6.0 * n * math.prod(sizes) * k * c // groups * kernel ** len(sizes)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--only", default="")
    options.add_argument("--json")
    given = options.parse_args()
    results = {}
    print(f"{'row':32s}{'ms':>9s}{'plain':>9s}{'last':>9s}   forward backward  both   GFLOP/s")
    for name, row in ROWS.items():
        if given.only not in name:
            continue
        mine, *others = measure(row, given.rounds)
        best = min(others, key=sum)
        ratios = mine[0] / best[0], mine[1] / best[1], sum(mine) / sum(best)
        results[name] = {"seconds": [mine, *others], "ratios": ratios}
        times = "".join(f"{1e3 * sum(each):9.2f}" for each in (mine, *others))
        print(f"{name:32s}{times}   " + "".join(f"{r:8.2f}" for r in ratios)
              + f"{flops(row) / sum(mine) / 1e9:9.0f}", flush=True)  # fmt: skip
    both = [each["ratios"][2] for each in results.values()]
    mean = math.exp(statistics.fmean(map(math.log, both)))
    print(f"{len(both)} rows: geometric mean {mean:.2f}, worst {max(both):.2f}")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
