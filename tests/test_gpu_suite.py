"""The GPU suite, rehearsed without a GPU: on a stand-in for CuPy, at small sizes.

Nothing is measured here: that every line of it runs is what counts.
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import cupy_stand_in
import numpy as np
import pytest
from cupy_stand_in import Array

import minidp as dp
from minidp import backend as backends
from minidp import nn
from minidp.backend.cuda import CudaBackend

GPU = Path(__file__).parent / "gpu"
sys.path.insert(0, str(GPU))
import measure  # noqa: E402
import sections  # noqa: E402
import suite  # noqa: E402
import work  # noqa: E402

SMALL = 1 / 256


def tiny(nn):
    """A layer of each kind, few of each."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip


TINY = {"tiny": (tiny, (1, 8, 8))}


@pytest.fixture
def gpus(monkeypatch):
    """The CUDA backend on a stand-in, and bursts of one call."""
    backend = CudaBackend(cupy_stand_in.stand_in())
    monkeypatch.setitem(backends._loaded, "cuda", backend)
    monkeypatch.setitem(backends._by_array, Array, backend)
    monkeypatch.setattr(measure, "BURST", 0.0)
    monkeypatch.setattr(measure, "ROUNDS", 1)
    yield backend
    warnings.warn(cupy_stand_in.SAYS, stacklevel=1)


def test_ops(gpus):
    found = measure.ops("cuda:0", SMALL)
    assert set(found["ops"]) == set(work.cases(dp, "cuda:0", SMALL))
    assert [name for name, line in found["ops"].items() if "error" in line] == []
    assert all(line["us"] > 0 and line["share of peak"] >= 0 for line in found["ops"].values())


def test_kernels(gpus):
    found = work.check_kernels(gpus)
    assert found["problems"] == {} and found["kernels"] > 20


def test_a_wrong_kernel_is_found(gpus, monkeypatch):
    monkeypatch.setitem(gpus._kernels, "relu", lambda x: x)
    assert "off by" in work.check_kernels(gpus)["problems"]["relu"]


def test_models(gpus, monkeypatch):
    monkeypatch.setattr(work, "MODELS", TINY)
    found = measure.models("cuda:0", (2,))
    assert list(found) == ["tiny batch 2", "tiny batch 2 TF32"]
    for line in found.values():
        assert all(line[f"minidp{how}, ms"] > 0 for how in ("", " replay", " graph")), line
        assert line["memory, MB"] >= 0
    assert gpus.tf32 is False


@pytest.mark.parametrize("name", work.MODELS)
def test_the_models_give_ten_classes(name):
    build, shape = work.MODELS[name]
    assert build(nn)(dp.zeros(1, *shape)).shape == (1, 10)


def test_overlap(gpus):
    found = measure.overlap("cuda:0", 2**15)
    assert found["bytes a second"] > 0 and "both, ms" in found


def test_pytorch_takes_the_same_words(gpus, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(work, "MODELS", TINY)
    ours, theirs = work.training(dp, "tiny", 3, "cuda:0"), work.training(torch, "tiny", 3, "cpu")
    work.same_weights(ours, theirs)
    losses = [[float(each.step().item()) for _ in range(3)] for each in (ours, theirs)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    for build, shape in (work.w1, (1, 28, 28)), (work.w2, (1, 28, 28)), (work.w3, (3, 32, 32)):
        assert build(torch.nn)(torch.zeros(1, *shape)).shape == (1, 10)
    for case in work.cases(torch, "cpu", SMALL).values():
        case.call()


def test_facts(gpus):
    found = sections.facts()
    assert tuple(found["capability"]) == (9, 0) and found["versions"]["numpy"] == np.__version__


def test_the_tests_run_in_several_processes_and_end_in_time(monkeypatch):
    monkeypatch.setattr(sections, "DEVICE", "emu:0")
    monkeypatch.setattr(sections, "TESTED", ["activations", "loss_values"])
    monkeypatch.setattr(sections, "GROUPS", 2)
    found = sections.tests()
    assert set(found["counts"]) <= {"passed", "skipped"} and found["counts"]["passed"] > 20
    monkeypatch.setattr(sections, "SECONDS", 0.5)
    with pytest.raises(sections.Failed) as caught:
        sections.tests()
    assert caught.value.args[0]["failures"] == ["interrupted"]


def test_a_section_that_runs_out_of_time_leaves_nothing_behind(monkeypatch, tmp_path):
    sleeper = f"{sys.executable} -c 'import time; time.sleep(60)' & echo $! > {tmp_path}/pid; wait"
    monkeypatch.setattr(suite.sys, "executable", "/bin/sh")
    monkeypatch.setattr(suite, "LIMITS", {"facts": 2})
    (tmp_path / "sections.py").write_text(sleeper)
    monkeypatch.setattr(suite, "__file__", str(tmp_path / "suite.py"))
    popen = subprocess.Popen
    without_option = lambda command, **how: popen([command[0], *command[2:]], **how)  # noqa: E731
    monkeypatch.setattr(suite.subprocess, "Popen", without_option)
    assert suite.run("facts", tmp_path)["status"] == "out of time"
    process = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    assert not process.exists() or "sleep" not in process.read_text()


def test_the_files_of_the_section_tests_exist():
    for name in sections.TESTED:
        assert (GPU.parent / f"test_{name}.py").exists(), name


def test_it_fits_into_eight_minutes():
    assert sum(suite.LIMITS.values()) < 480
    assert all(callable(getattr(sections, name)) for name in suite.LIMITS)


def test_without_a_gpu_the_result_says_so(tmp_path):
    if backends.get_backend("cuda").problem() is None:
        pytest.skip("there is a GPU")
    here = os.environ | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(
        [str(GPU / "run"), str(tmp_path), "facts"], capture_output=True, env=here, timeout=60
    )
    result = json.loads((tmp_path / "result.json").read_text())
    assert done.returncode == 1 and result["facts"]["status"] == 1
    assert result["facts"]["error"].startswith("DeviceError: cuda: ")
    assert "== facts" in (tmp_path / "log.txt").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.txt", "result.json"]
