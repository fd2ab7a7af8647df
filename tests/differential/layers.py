"""For every layer, a random case: constructor arguments and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from differential.drawing import Case, Draw

LAYERS: dict[str, Callable[[Draw], Case]] = {}
HALF: set[str] = set()
"""The layers that are compared in float16 too."""


def layer(*names: str, half: bool = False) -> Any:
    """Register ``make(draw, name)`` for each name."""

    def note(make: Any) -> Any:
        for name in names:
            LAYERS[name] = lambda draw, name=name: make(draw, name)
            if half:
                HALF.add(name)
        return make

    return note


ACTIVATIONS: dict[str, Any] = {
    "CELU": {"alpha": (0.5, 1.0, 2.0)},
    "ELU": {"alpha": (0.5, 1.0, 2.0)},
    "GELU": {"approximate": ("none", "tanh")},
    "Hardshrink": {"lambd": (0.0, 0.5, 1.0)},
    "Hardsigmoid": {},
    "Hardswish": {},
    "Hardtanh": {"min_val": (-1.0, -2.0, 0.0), "max_val": (0.5, 1.0, 2.0)},
    "LeakyReLU": {"negative_slope": (0.01, 0.5, 0.0, 1)},
    "LogSigmoid": {},
    "Mish": {},
    "ReLU": {},
    "ReLU6": {},
    "SELU": {},
    "SiLU": {},
    "Sigmoid": {},
    "Softplus": {"beta": (0.5, 1.0, 3.0), "threshold": (20.0, 1.0)},
    "Softshrink": {"lambd": (0.0, 0.5, 1.0)},
    "Softsign": {},
    "Tanh": {},
    "Tanhshrink": {},
    "Identity": {},
}


@layer(*ACTIVATIONS, half=True)
def activation(d: Draw, name: str) -> Case:
    x = d.normal(*d.shape()) if name == "GELU" else d.extreme(*d.shape())
    return Case((), d.options(**ACTIVATIONS[name]), (x,))


@layer("Threshold", half=True)
def threshold(d: Draw, name: str) -> Case:
    return Case((d.pick(0.0, 0.5, -1.0), d.pick(0.0, 2.0)), {}, (d.extreme(*d.shape()),))


@layer("Softmax", "LogSoftmax", "Softmin", half=True)
def softmax(d: Draw, name: str) -> Case:
    shape = d.shape(0, 4)
    dim = d.pick(None, d.size(-max(1, len(shape)), max(0, len(shape) - 1)))
    return Case((dim,), {}, (d.extreme(*shape),))


@layer("Softmax2d", half=True)
def softmax2d(d: Draw, name: str) -> Case:
    return Case((), {}, (d.normal(*d.shape(2, 5)),))


@layer("GLU", half=True)
def glu(d: Draw, name: str) -> Case:
    d.special = d.special and d.dtype != np.float16  # infinity times what underflows in it
    shape = d.shape(1, 4)
    return Case(
        (d.size(-len(shape), len(shape) - 1),),
        {},
        (d.extreme(*(2 * s if d.chance(0.9) else s for s in shape)),),
    )


@layer("PReLU", half=True)
def prelu(d: Draw, name: str) -> Case:
    shape = d.shape(0, 4)
    count = shape[1] if len(shape) > 1 else d.pick(1, 1, 3)
    return Case((), d.options(num_parameters=(1, max(1, count))), (d.normal(*shape),))


@layer("RReLU")
def rrelu(d: Draw, name: str) -> Case:
    return Case((0.25, d.pick(0.25, 0.5)), {}, (d.normal(*d.shape()),), train=False)


@layer("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
def dropout(d: Draw, name: str) -> Case:
    p = d.pick(0.0, 1.0, 0.5, 0.3)
    axes = {"1": (2, 3), "2": (3, 4), "3": (4, 5)}.get(name[7:8], (2, 4))
    return Case((p,), {}, (d.normal(*d.shape(*axes)),), train=None if p in (0.0, 1.0) else False)


@layer("Linear")
def linear(d: Draw, name: str) -> Case:
    width = d.size(1, 5)
    return Case(
        (width, d.size(1, 4)), d.options(bias=(True, False)), (d.normal(*d.shape(0, 3), width),)
    )


@layer("Bilinear")
def bilinear(d: Draw, name: str) -> Case:
    a, b, rows = d.size(1, 4), d.size(1, 4), d.shape(0, 3)
    return Case(
        (a, b, d.size(1, 4)),
        d.options(bias=(True, False)),
        (d.normal(*rows, a), d.normal(*rows, b)),
    )


@layer(
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    half=True,
)
def batch_norm(d: Draw, name: str) -> Case:
    d.coarse = d.coarse or d.dtype == np.float16  # PyTorch rounds its means to it
    axes, channels = int(name[-2]), d.size(1, 4)
    options = d.options(
        eps=(1e-5, 1e-2, 0.5),
        momentum=(0.1, None, 0.0, 1.0, 0.7),
        affine=(True, False),
        track_running_stats=(True, False),
        bias=(True, False),
    )
    x = d.image(axes, channels, 1, 4)
    if name == "BatchNorm1d" and d.chance(0.4):
        x = d.normal(d.batch(), channels)
    return Case((channels,), options, (x,))


@layer("LayerNorm", "RMSNorm", half=True)
def layer_norm(d: Draw, name: str) -> Case:
    d.coarse = d.coarse or d.dtype == np.float16  # PyTorch rounds its means to it
    shape = d.shape(1, 4)
    behind = shape[-d.size(1, len(shape)) :]
    options = d.options(
        eps=(1e-5, 1e-2, *((None,) if name == "RMSNorm" else ())),
        elementwise_affine=(True, False),
        **({"bias": (True, False)} if name == "LayerNorm" else {}),
    )
    wanted = d.pick(behind, list(behind)) if len(behind) > 1 or d.chance(0.5) else behind[0]
    return Case((wanted,), options, (d.normal(*shape),))


@layer("GroupNorm", half=True)
def group_norm(d: Draw, name: str) -> Case:
    d.coarse = d.coarse or d.dtype == np.float16  # PyTorch rounds its means to it
    groups = d.size(1, 3)
    channels = groups * d.size(1, 3)
    return Case(
        (groups, channels),
        d.options(eps=(1e-5, 0.1), affine=(True, False), bias=(True, False)),
        (d.normal(d.batch(), channels, *d.shape(0, 3)),),
    )


@layer("LocalResponseNorm")
def response_norm(d: Draw, name: str) -> Case:
    options = d.options(alpha=(1e-4, 0.5), beta=(0.75, 0.5, 1.0), k=(1.0, 2.0))
    return Case((d.size(1, 5),), options, (d.normal(*d.shape(2, 5)),))


@layer("Flatten")
def flatten(d: Draw, name: str) -> Case:
    return Case(
        (), d.options(start_dim=(0, 1, 2, -2), end_dim=(-1, -2, 1, 2)), (d.normal(*d.shape(0, 5)),)
    )


@layer("Unflatten")
def unflatten(d: Draw, name: str) -> Case:
    return Case(
        (d.pick(1, -1, 0), d.pick((2, 3), (-1, 2), (6, 1), [3, -1])),
        {},
        (
            d.normal(
                *d.pick((6, 6), (2, 6), (6, 2, 6)),
            ),
        ),
    )


@layer("CosineSimilarity")
def cosine(d: Draw, name: str) -> Case:
    shape = d.shape(1, 3)
    other = tuple(1 if d.chance(0.2) else s for s in shape)
    return Case(
        (),
        d.options(dim=(d.size(-len(shape), len(shape) - 1),), eps=(1e-8, 0.5)),
        (d.normal(*shape), d.normal(*other)),
    )


@layer("PairwiseDistance")
def pairwise(d: Draw, name: str) -> Case:
    shape = d.shape(1, 3)
    other = shape if d.chance(0.7) else shape[1:] or shape
    options = d.options(
        p=(2.0, 1.0, 3.0, 0.5, 0.0, np.inf, -np.inf, -1.0),
        eps=(1e-6, 0.1, 0.0),
        keepdim=(True, False),
    )
    return Case((), options, (d.normal(*shape), d.normal(*other)))
