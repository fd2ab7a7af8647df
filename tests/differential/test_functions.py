"""Random calls of every function and method, beside PyTorch's; more by ``python -m``."""

import pytest

from differential.__main__ import case
from differential.deviations import reason
from differential.functions import CALLS
from differential.twins import MISSING, available

pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]
SEEDS = 60


@pytest.mark.parametrize("name", CALLS)
def test_random_calls(name):
    if not available(name):
        pytest.skip(f"minidp has no {name}")
    found = []
    for seed in range(SEEDS):
        call, difference = case(name, seed)
        if difference is not None and reason(call, difference) is None:
            found.append(f"seed {seed}: {difference}\n    {call}")
    assert not found, "\n".join(found[:5])
