"""Optimisers over 20 steps and schedules over 50 against PyTorch."""

import pytest

from differential import common  # noqa: F401  (skips all where PyTorch is not there)
from differential.training import OPTIONS, SCHEDULES, compare_optimiser, compare_schedule

pytestmark = pytest.mark.slow
SEEDS = range(60)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_optimiser(name, dtype):
    seen = {seed: compare_optimiser(name, seed, dtype) for seed in SEEDS}
    assert {seed: text for seed, text in seen.items() if text} == {}


@pytest.mark.parametrize("name", [*sorted(SCHEDULES), "ChainedScheduler", "SequentialLR"])
def test_schedule(name):
    seen = {seed: compare_schedule(name, seed) for seed in SEEDS}
    assert {seed: text for seed, text in seen.items() if text} == {}
