"""The machine that changes CUDA kernels: what it changes; and, slowly, that tests see it."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutation import reasons, report
from mutation.sites import mutable

from minidp.kernels.cuda import KERNELS, emulate, runtime

TESTS = Path(__file__).parent
KERNEL = """#include "thread.cuh"
extern "C" __global__ void minidp_add(const float *x, float *y, int n) {
    __shared__ float cells[32][2];  // a declaration is left alone, and so is y[0] here
    int i = threadIdx.x;
    for (int k = 0; k < n; ++k) cells[i][1] += x[k];
    __syncthreads();
    if (i >= n) return;
    y[i] = cells[i][1];
}
"""


def test_what_is_changed():
    _, mutants = mutable(KERNEL, "add")
    changes = Counter(mutant.key.rpartition(" | ")[2].partition(" #")[0] for mutant in mutants)
    signs = ["+ 1", "- 1"]
    wanted = Counter([*(f"bound {what} {sign}" for what in ("0", "n", "n") for sign in signs),
                      *(f"index {what} {sign}" for what in "iikii1" for sign in signs),
                      "barrier __syncthreads()", "assign cells[i][1]"])  # fmt: skip
    wanted["index 1 + 1"] = wanted["index 1 - 1"] = 2
    wanted["index i + 1"] = wanted["index i - 1"] = 3
    assert changes == wanted
    assert len({mutant.number for mutant in mutants}) == len({m.key for m in mutants})


@pytest.mark.parametrize("name", list(KERNELS))
def test_each_reason_is_for_a_line_that_is_there(name):
    _, mutants = mutable(runtime.source(name), name)
    files = {mutant.file for mutant in mutants}
    for file, *rest in reasons.EQUIVALENT:
        if file == f"{name}.cu" or file in files:
            keys = [mutant.key for mutant in mutants if mutant.file == file]
            assert any(reasons.found([(file, *rest)], file, key) for key in keys), (file, rest)


def test_without_a_choice_nothing_changes():
    text, _ = mutable(runtime.source("recurrent"), "recurrent")
    module = emulate.Module(text, "recurrent.cu")
    names = [f"minidp_{name}_{kind}" for name in ("rnn", "gru", "gru_back", "lstm", "lstm_back")
             for kind in ("f16", "f32", "f64")]  # fmt: skip
    assert sorted(module.kernels) == sorted(names)


def test_the_page():
    outcomes = {"a[i] = 1; | index i + 1": "killed: test", "x | bound 1 + 1": "unreached",
                "y | barrier": "survived"}  # fmt: skip
    page = report.written({"pool.cu": outcomes})
    assert "| `kernels/cuda/pool.cu` | 3 | 1 | 1 | 1 |" in page and "Killed: 50.0 %" in page
    assert "- pool.cu: `y`: barrier" in page and report.UNKNOWN[1:] in page


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_tests_see_mutants(tmp_path):
    command = [sys.executable, "-m", "mutation.run", "recurrent.cu", "normalize.cu", "warp.cuh"]
    command += ["--results", tmp_path / "results.json", "--page", tmp_path / "page.md"]
    paths = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, cwd=TESTS, check=True, env={**os.environ, "PYTHONPATH": paths})
    results = json.loads((tmp_path / "results.json").read_text())
    kinds = Counter(
        report.judged(file, key, outcome)[0]
        for file, found in results.items()
        for key, outcome in found.items()
    )
    assert kinds.total() > 100 and report.share(kinds) >= 95
