"""What is printed, dtypes of all pairs, NumPy's functions, names of arguments: beside PyTorch's."""

import pytest

from differential import texts
from differential.deviations import reason
from differential.twins import MISSING

pytestmark = [pytest.mark.slow, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


def test_printing():
    assert not [text for seed in range(300) if (text := texts.printed(seed))]


def test_promotion():
    assert not [text for text in texts.promotions() if not reason("promotion", text)]


def test_numpy_functions():
    assert not [text for text in texts.with_numpy() if not reason("numpy", text)]


@pytest.mark.parametrize("name", texts.SIGNATURES)
def test_argument_names(name):
    """Every argument by PyTorch's name, on the function and on the method."""
    assert not texts.named(name)
