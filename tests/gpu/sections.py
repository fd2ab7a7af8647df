"""The sections of the GPU suite: each is a function that returns what goes into the result.

    python tests/gpu/sections.py SECTION FILE.json
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import subprocess
import sys
import traceback
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
    """The test-suite with tensors made on the GPU."""
    files = [f"tests/test_{name}.py" for name in TESTED]
    files = [name for name in files if (ROOT / name).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "--device", "cuda:0", "-p", "no:cacheprovider",
               "--maxfail=200", "--tb=short", *files]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)",
                                                     lines[-1] if lines else "")}  # fmt: skip
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if process.returncode:
        raise Failed({"counts": counts, "failures": failures})
    return {"counts": counts}


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
