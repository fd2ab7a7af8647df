"""Random chains of calls, with views, changes in place and backward, beside PyTorch's."""

import pytest

from differential.deviations import reason
from differential.programs import Program
from differential.twins import MISSING

pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


@pytest.mark.parametrize("start", range(0, 3000, 250))
def test_random_programs(start):
    found = [
        f"seed {seed}: {difference}"
        for seed in range(start, start + 250)
        if (difference := Program(seed).difference()) and not reason(difference, difference)
    ]
    assert not found, "\n".join(found[:3])
