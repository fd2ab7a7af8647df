"""Fixtures that several test files share, and the device they run on.

Markers are in pyproject.toml. All quick tests together run in two processes, where pytest-xdist is
installed; `-n 0` is one. `--device emu:0` or `--device cuda:0` runs the same tests with
tensors made on that device, but for those that host_only.py names; tests that name an emulated
device themselves then run on the other kind.
"""

import gc
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from host_only import HOST_ONLY

HERE = str(Path(__file__).parent)


def pytest_addoption(parser):
    parser.addoption("--device", default=None, help="where tests make their tensors: emu:0, cuda:0")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Two processes begin with a half of the list each; who is through takes from the other."""
    if in_two(config):
        config.option.numprocesses, config.option.dist = 2, "worksteal"


def in_two(config):
    """All quick tests, unless someone looks at a process or says himself how many there are.

    The processes read this file, too: they, and the runs of tests within a test, stay one.
    """
    option = config.option
    return ("PYTEST_XDIST_WORKER" not in os.environ
            and config.args_source is not config.ArgsSource.ARGS and option.markexpr == "not slow"
            and not (option.usepdb or option.trace or option.collectonly)
            and option.capture != "no" and config.pluginmanager.hasplugin("xdist")
            and option.numprocesses is None and option.dist == "no" and not option.tx)  # fmt: skip


def pytest_configure():
    """A shell's `&` has interrupts ignored, by this process and those that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    device = config.getoption("--device")
    if device is None:
        return
    left_out = [item for item in items if item.originalname in HOST_ONLY.get(item.path.stem, ())]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        move(item, device.split(":")[0])


def move(item, kind):
    """Let a test that is parametrised by emulated devices run on devices of another kind."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for name, value in parameters.items():
        found = re.fullmatch(r"emu:(\d)(?:-(\d))?", value) if isinstance(value, str) else None
        if found and kind != "emu":
            parameters[name] = value.replace("emu", kind)
            most = int(found[2] or found[1])
            item.add_marker(pytest.mark.skipif(
                f"__import__('minidp').cuda.device_count() <= {most}",
                reason=f"there is no {kind}:{most}"))  # fmt: skip


@pytest.fixture(autouse=True)
def default_device(request, monkeypatch):
    """Tensors are made on the device of the command line, and compared on the host."""
    device = request.config.getoption("--device")
    if device is None:
        yield
        return
    import minidp as dp

    monkeypatch.setattr(dp.Tensor, "__init__", placing(dp.Tensor.__init__, device))
    for name in ("assert_allclose", "assert_array_equal"):
        monkeypatch.setattr(np.testing, name, on_host(getattr(np.testing, name)))
    for name in ("allclose", "array_equal"):
        monkeypatch.setattr(np, name, on_host(getattr(np, name)))
    dp.set_default_device(device)
    yield
    dp.set_default_device(None)


def placing(make, device):
    """The constructor of Tensor, for which a test's arrays are on the device."""
    from minidp.placement import place

    def placed(self, data, *args, **kwargs):
        if type(data) is np.ndarray and sys._getframe(1).f_code.co_filename.startswith(HERE):
            data = place(data, device)
        make(self, data, *args, **kwargs)

    return placed


def on_host(function):
    """The function for arrays of any device: a test may compare what it likes."""
    from minidp.backend import backend_of

    def host(value):
        if isinstance(value, tuple | list):
            return type(value)(map(host, value)) if type(value) in (tuple, list) else value
        return backend_of(value).get(value) if hasattr(value, "strides") else value

    def call(*args, **kwargs):
        return function(*map(host, args), **kwargs)

    return call


@pytest.fixture
def no_collector():
    """Run with Python's cycle collector off: memory must go by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
