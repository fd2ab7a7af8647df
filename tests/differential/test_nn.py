"""Layers, losses and functions against PyTorch: random arguments, values and gradients."""

import numpy as np
import pytest

from differential import common  # noqa: F401  (skips all where PyTorch is not there)
from differential.calls import CALLS, compare_call
from differential.compare import compare
from differential.deviations_nn import reason
from differential.layers import HALF, LAYERS
from differential.models import compare_model
from minidp import nn

pytestmark = pytest.mark.slow
SEEDS = range(40)
WITHOUT = (
    "Module",
    "Parameter",
    "Buffer",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "RNNBase",
    "RNNCellBase",
    "StateDictError",
    "SinusoidalPositions",
    "SyncBatchNorm",
    "TransformerDecoder",
    "TransformerEncoder",
)
"""Public names that are no layers, have no arguments of their own, or are not PyTorch's."""


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layer(name, dtype):
    if dtype == "float16" and name not in HALF:
        pytest.skip("PyTorch's own float16 is compared for activations, losses and norms")
    seen = {seed: compare(name, seed, dtype) for seed in SEEDS}
    assert {seed: text for seed, text in seen.items() if text and not reason(name, text)} == {}


def test_every_layer_has_a_case():
    public = {name for name, value in vars(nn).items() if isinstance(value, type)}
    assert public - set(LAYERS) - set(WITHOUT) == set()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_function(name, dtype):
    seen = {seed: compare_call(name, seed, dtype) for seed in SEEDS}
    assert {seed: text for seed, text in seen.items() if text and not reason(name, text)} == {}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("part", range(4))
def test_model(part, dtype):
    seeds = np.arange(25) + 25 * part
    seen = {int(seed): compare_model(int(seed), dtype) for seed in seeds}
    assert {seed: text for seed, text in seen.items() if text} == {}
