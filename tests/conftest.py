"""Fixtures that several test files share, and the device they run on.

Markers are in pyproject.toml. `--device emu:0` or `--device cuda:0` runs the same tests with
tensors made on that device, but for those that host_only.py names.
"""

import gc

import pytest


def pytest_addoption(parser):
    parser.addoption("--device", default=None, help="where tests make their tensors: emu:0, cuda:0")


@pytest.fixture(autouse=True)
def default_device(request):
    """Tensors are made on the device of the command line."""
    device = request.config.getoption("--device")
    if device is None:
        yield
        return
    import minidp as dp

    dp.set_default_device(device)
    yield
    dp.set_default_device(None)


@pytest.fixture
def no_collector():
    """Run with Python's cycle collector off: memory must go by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
