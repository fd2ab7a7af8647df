"""The sections of the GPU suite: each is a function that returns what goes into the result.

    python tests/gpu/sections.py SECTION FILE.json
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import measure
import numpy as np
import work

import minidp as dp
from minidp.backend import get_backend

ROOT = Path(__file__).resolve().parents[2]
TESTED = [
    *("ops", "elementwise", "reductions", "layout", "linalg", "losses", "nn", "nn_layers"),
    *("nn_normalize", "optim", "pooling", "convolution", "indexing", "autograd", "attention"),
    *("recurrent", "embedding", "random", "capture", "fusion", "scheduler"),
]

DEVICE, GROUPS, SECONDS = "cuda:0", 4, 150
"""Where tests make tensors, how many processes share them, when these are interrupted."""


def facts() -> dict[str, Any]:
    """The machine, and the versions of what takes part."""
    packages = ("numpy", "numba", "torch", "pytest", "cupy-cuda13x", "cupy-cuda12x", "cupy")
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    asked = "name,driver_version,memory.total,clocks.max.sm,power.limit"
    command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]
    try:
        cards = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except OSError as problem:
        cards = [str(problem)]
    return {
        "python": platform.python_version(), "minidp": dp.__version__, "versions": versions,
        "cards": cards, "problem": get_backend("cuda").problem(),
        "capability": dp.cuda.get_device_capability(0), "memory": dp.cuda.mem_get_info(0),
    }  # fmt: skip


def kernels() -> dict[str, Any]:
    """Every kernel on its sample inputs against the op's body; the first thing to look at."""
    sys.path.insert(0, str(ROOT / "tests"))
    return work.check_kernels(get_backend("cuda"))


def tests() -> dict[str, Any]:
    """The test-suite with tensors made on the GPU, in several processes: each compiles kernels on
    the CPU for most of its time. What has not ended in time is interrupted: it has failed."""
    files = [f"tests/test_{name}.py" for name in TESTED]
    files = [name for name in files if (ROOT / name).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "--device", DEVICE, "-p", "no:cacheprovider",
               "--maxfail=200", "--tb=short"]  # fmt: skip
    runs = [subprocess.Popen([*command, *files[first::GROUPS]], cwd=ROOT, stdout=subprocess.PIPE,
                             text=True) for first in range(min(GROUPS, len(files)))]  # fmt: skip
    failures: list[str] = []
    timer = threading.Timer(SECONDS, interrupt, (runs, failures))
    timer.start()
    with ThreadPoolExecutor(len(runs)) as readers:
        lines = [line for found in readers.map(told, runs) for line in found]
    timer.cancel()
    counts: Counter[str] = Counter()
    for line in lines:
        if re.search(r" in \d+\.\d+s", line):
            counts.update({word: int(n) for n, word in re.findall(
                r"(\d+) (passed|failed|skipped|error)", line)})  # fmt: skip
    failures += [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if any(run.returncode for run in runs):
        raise Failed({"counts": counts, "failures": failures})
    return {"counts": counts}


def interrupt(runs: list[subprocess.Popen[str]], failures: list[str]) -> None:
    """Let the processes say what they have found so far."""
    failures.append("interrupted")
    for run in runs:
        run.send_signal(signal.SIGINT)


def told(run: subprocess.Popen[str]) -> list[str]:
    """What a process prints, printed, too."""
    with run:
        lines = []
        for line in run.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    return lines


def ops() -> dict[str, Any]:
    """Each op at a large size: its share of what this card was measured to do at most."""
    return measure.ops("cuda:0", 1.0)


def models() -> dict[str, Any]:
    """W1 to W3 at batch 128 and 1024, beside PyTorch where it is installed."""
    return measure.models("cuda:0", (128, 1024))


def overlap() -> dict[str, Any]:
    """How much of the time of copies from the host is hidden behind computing."""
    return measure.overlap("cuda:0", 2**24)


class Failed(Exception):
    """A section went wrong; its argument is what it found nevertheless."""


def main() -> int:
    section, target = sys.argv[1], Path(sys.argv[2])
    found: dict[str, Any] = {}
    try:
        with np.errstate(all="ignore"):
            found = globals()[section]()
        return 0
    except Failed as failure:
        found = failure.args[0]
        return 1
    except Exception as problem:
        traceback.print_exc()
        found = {"error": f"{type(problem).__name__}: {problem}"}
        return 1
    finally:
        target.write_text(json.dumps(found, default=str))
        print(json.dumps(found, indent=1, default=str), flush=True)


if __name__ == "__main__":
    sys.exit(main())
