"""For every loss, a random case."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.drawing import Case, Draw
from differential.layers import layer


def reduction(d: Draw, *more: str) -> dict[str, Any]:
    return d.options(reduction=("mean", "sum", "none", *more))


@layer("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", half=True)
def difference(d: Draw, name: str) -> Case:
    shape = d.shape()
    more = {"SmoothL1Loss": {"beta": (1.0, 0.5, 0.0, 2.0)}, "HuberLoss": {"delta": (1.0, 0.5, 2.0)}}
    other = shape if d.chance(0.8) else tuple(d.pick(1, s) for s in shape)
    return Case(
        (),
        {**reduction(d), **d.options(**more.get(name, {}))},
        (d.extreme(*shape), d.normal(*other)),
    )


@layer("CrossEntropyLoss", "NLLLoss", half=True)
def classes(d: Draw, name: str) -> Case:
    count = d.size(1, 5)
    rest = d.pick((), (), (d.size(1, 3),), (d.size(1, 3), d.size(1, 3)))
    rows = () if not rest and d.chance(0.2) else (d.batch(),)
    ignore = d.pick(-100, 0, count - 1, -1)
    options = {**reduction(d), **d.options(ignore_index=(ignore,), weight=(None, d.uniform(count)))}
    target = d.integers(0, count, *rows, *rest)
    if "ignore_index" in options:
        target = np.where(d.random.random(target.shape) < 0.3, ignore, target)
    x = d.normal(*rows, count, *rest, scale=d.pick(1.0, 5.0))
    if name == "CrossEntropyLoss":
        options.update(d.options(label_smoothing=(0.0, 0.1, 0.5, 1.0)))
        if d.chance(0.3):
            target = d.uniform(*x.shape)
            options.pop("ignore_index", None)
    return Case((), options, (x, target))


@layer("CTCLoss")
def alignment(d: Draw, name: str) -> Case:
    steps, n, c = d.size(1, 7), d.size(1, 3), d.size(2, 5)
    blank = d.size(0, c - 1)
    lengths = np.asarray([d.size(0, 3) for _ in range(n)])
    labels = d.random.choice([k for k in range(c) if k != blank], (n, max(1, lengths.max())))
    if d.chance(0.3) and lengths.sum():
        labels = np.concatenate([row[:k] for row, k in zip(labels, lengths)])
    x = d.random.standard_normal((steps, n, c))
    x = (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(d.dtype)
    return Case(
        (),
        {"blank": blank, "zero_infinity": True, **reduction(d)},
        (x, labels, np.asarray([d.size(1, steps) for _ in range(n)]), lengths),
    )


@layer("BCELoss", "BCEWithLogitsLoss", half=True)
def binary(d: Draw, name: str) -> Case:
    shape = d.shape()
    weight = d.pick(None, d.uniform(*shape), d.uniform(*shape[-1:]))
    options = {**reduction(d), **d.options(weight=(weight,))}
    if name == "BCELoss":
        return Case((), options, (d.uniform(*shape), d.uniform(*shape)))
    options.update(d.options(pos_weight=(None, np.asarray(d.uniform(*shape[-1:]) * 3))))
    return Case((), options, (d.normal(*shape, scale=10), d.uniform(*shape)))


@layer("KLDivLoss", half=True)
def divergence(d: Draw, name: str) -> Case:
    shape = d.shape()
    options = {**reduction(d, "batchmean"), **d.options(log_target=(True, False))}
    target = d.normal(*shape) if options.get("log_target") else d.uniform(*shape)
    return Case((), options, (d.normal(*shape), target))


@layer("PoissonNLLLoss", half=True)
def poisson(d: Draw, name: str) -> Case:
    shape = d.shape()
    options = {
        **reduction(d),
        **d.options(log_input=(True, False), full=(True, False), eps=(1e-8, 0.1)),
    }
    return Case(
        (),
        options,
        (
            np.asarray(d.uniform(*shape) + d.dtype.type(0.1)),
            d.integers(0, 5, *shape).astype(d.dtype),
        ),
    )


@layer("GaussianNLLLoss")
def gaussian(d: Draw, name: str) -> Case:
    shape = d.shape(1, 3)
    var = d.pick(d.uniform(*shape), d.uniform(*shape[:-1], 1), d.uniform(*shape[:-1]))
    return Case(
        (),
        {**reduction(d), **d.options(full=(True, False), eps=(1e-6, 0.3))},
        (d.normal(*shape), d.normal(*shape), var),
    )


@layer("HingeEmbeddingLoss", "SoftMarginLoss", half=True)
def signed(d: Draw, name: str) -> Case:
    shape = d.shape()
    options = d.options(margin=(1.0, 0.5, 2.0)) if name[0] == "H" else {}
    return Case(
        (),
        {**reduction(d), **options},
        (d.normal(*shape), d.signs(*shape)),
        fixed=(1,) if name[0] == "S" else (),
    )


@layer("MarginRankingLoss", half=True)
def ranking(d: Draw, name: str) -> Case:
    shape = d.shape()
    return Case(
        (),
        {**reduction(d), **d.options(margin=(0.0, 0.5))},
        (d.normal(*shape), d.normal(*shape), d.signs(*shape)),
    )


@layer("CosineEmbeddingLoss", half=True)
def cosine_embedding(d: Draw, name: str) -> Case:
    rows, width = d.pick((), (d.batch(),)), d.size(1, 4)
    return Case(
        (),
        {**reduction(d), **d.options(margin=(0.0, 0.5, -0.5))},
        (d.normal(*rows, width), d.normal(*rows, width), d.signs(*rows)),
    )


@layer("TripletMarginLoss", "TripletMarginWithDistanceLoss")
def triplet(d: Draw, name: str) -> Case:
    shape = d.shape(1, 3)
    options = d.options(margin=(1.0, 0.5), swap=(True, False))
    if name == "TripletMarginLoss":
        options.update(d.options(p=(2.0, 1.0, 3.0), eps=(1e-6, 0.1)))
    return Case((), {**reduction(d), **options}, tuple(d.normal(*shape) for _ in range(3)))


@layer("MultiMarginLoss")
def multi_margin(d: Draw, name: str) -> Case:
    rows, count = d.pick((), (d.size(1, 4),)), d.size(1, 5)
    options = d.options(p=(1, 2), margin=(1.0, 0.5), weight=(None, d.uniform(count)))
    return Case(
        (), {**reduction(d), **options}, (d.normal(*rows, count), d.integers(0, count, *rows))
    )


@layer("MultiLabelMarginLoss")
def multilabel_margin(d: Draw, name: str) -> Case:
    rows, count = d.pick((), (d.size(1, 4),)), d.size(1, 5)
    target = d.integers(-1, count, *rows, count)
    return Case((), reduction(d), (d.normal(*rows, count), target))


@layer("MultiLabelSoftMarginLoss", half=True)
def multilabel_soft(d: Draw, name: str) -> Case:
    shape = d.shape(1, 3)
    options = d.options(weight=(None, d.uniform(*shape[-1:])))
    return Case(
        (),
        {**reduction(d), **options},
        (d.normal(*shape), d.integers(0, 2, *shape).astype(d.dtype)),
    )
