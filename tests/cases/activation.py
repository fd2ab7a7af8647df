"""Activations of several steps."""

from cases.table import Sample, normal, row

OPTIONS = {"gelu": (0, 0), "gelu_tanh": (0, 0), "silu": (0, 0), "mish": (0, 0),
           "hardswish": (0, 0), "elu": (0.7, 0), "softplus": (1.5, 2), "leaky_relu": (0.1, 0)}
SHAPES = (3, 4), (), (0, 2), (2, 3, 5, 7), (67,)  # fmt: skip


def _samples(rng, count):
    return [
        Sample([normal(rng, *shape) * scale for _ in range(count)], {"kind": kind, "a": a, "b": b})
        for kind, (a, b) in OPTIONS.items() for shape in SHAPES
        for scale in ((1, 2.5) if shape == (67,) else (1,))
    ]  # fmt: skip


@row("activation")
def _activation(rng):
    return _samples(rng, 1)


@row("activation_input", broadcasts=False)
def _activation_input(rng):
    return _samples(rng, 2)
