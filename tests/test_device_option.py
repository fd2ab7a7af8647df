"""`pytest --device`: the same tests on an emulated GPU, each file in a run of its own."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from host_only import HOST_ONLY

import minidp as dp

HERE = Path(__file__).parent
QUICK = ["layout", "activations", "optim", "loss_values", "indexing"]
SLOW = ["elementwise", "reductions", "linalg", "nn", "nn_layers", "nn_normalize", "pooling",
        "convolution", "autograd", "attention", "recurrent", "embedding", "random", "inplace",
        "capture", "fusion", "losses"]  # fmt: skip


def run(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=280)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_the_same_tests_pass_on_an_emulated_gpu(name):
    done = run("--device", "emu:1", f"tests/test_{name}.py")
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout


def test_the_default_device_is_that_of_this_thread():
    made = []
    dp.set_default_device("emu:1")
    try:
        made += [dp.ones(2), dp.randn(2), dp.tensor([1.0]), dp.nn.Linear(2, 2).weight]
        made += dp.launch(lambda world: dp.ones(2), "emu:0")
        assert dp.get_default_device() == dp.device("emu:1")
        assert str(dp.ones(2, device="cpu").device) == "cpu:0"
    finally:
        dp.set_default_device(None)
    assert [str(x.device) for x in made] == ["emu:1"] * 4 + ["emu:0"]
    assert dp.get_default_device() == dp.ones(1).device == dp.device("cpu:0")


def test_what_is_left_out_exists():
    for file, names in HOST_ONLY.items():
        module = import_module(file)
        assert [name for name in names if not callable(getattr(module, name, None))] == [], file
