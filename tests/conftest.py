"""Fixtures that several test files share. Markers and options are in pyproject.toml."""

import gc

import pytest


@pytest.fixture
def no_collector():
    """Run with Python's cycle collector off: memory must go by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
