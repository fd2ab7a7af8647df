"""What this machine can do at most: products of matrices, and memory, in NumPy."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from minidp.bench.rounds import Entrant
from minidp.device import cores

SIDE = 512
"""Rows and columns of the matrices: as large as a layer's, small enough for a short burst."""
SGEMM, SUM = "sgemm", "sum of vectors"
LARGE, SMALL = 2**24, 2**17
"""Elements of the vectors that are added: 3 times 64 MiB lie in memory, 3 times 512 KiB in a
cache."""


def sgemm(threads: int = 1) -> Entrant:
    """A product of matrices in each of some threads at once. BLAS itself must be kept to one."""
    return Entrant(SGEMM, at_once([_product() for _ in range(threads)]))


def sum_of_vectors(elements: int = LARGE, threads: int = 1) -> Entrant:
    """c = a + b for float32 vectors, cut into a slice for each thread."""
    return Entrant(SUM, at_once([_sum(elements // threads) for _ in range(threads)]))


def flops_of_sgemm(threads: int = 1) -> int:
    return 2 * SIDE**3 * threads


def bytes_of_sum(elements: int = LARGE) -> int:
    """Two vectors are read and one is written."""
    return 3 * 4 * elements


def _product() -> Callable[[], object]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIDE, SIDE), "float32") for _ in range(2))
    c = np.empty_like(a)
    return lambda: np.matmul(a, b, out=c)


def _sum(elements: int) -> Callable[[], object]:
    a, b, c = (np.ones(elements, "float32") for _ in range(3))
    return lambda: np.add(a, b, out=c)


def at_once(works: list[Callable[[], object]]) -> Callable[[int], object]:
    """Repeat each piece of work n times, in a thread of its own where there are several."""

    def repeat(work: Callable[[], object], steps: int) -> None:
        for _ in range(steps):
            work()

    if len(works) == 1:
        return lambda steps: repeat(works[0], steps)
    pool = ThreadPoolExecutor(len(works))
    return lambda steps: list(pool.map(repeat, works, [steps] * len(works)))


def describe() -> dict[str, Any]:
    """The processor and the versions that the figures belong to."""
    packages = ["numpy", "numba", *["torch"] * (find_spec("torch") is not None)]
    versions = {name: _version(name) for name in packages}
    return {"processor": processor(), "cores": cores(), "system": platform.system(),
            "python": platform.python_version(), **versions}  # fmt: skip


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The processor's name and its widest vectors, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    told = {key.strip(): value.strip() for key, value in fields.items()}
    flags = told.get("flags", "").split()
    widest = next((v for v in ("avx512f", "avx2", "avx", "sse2") if v in flags), "")
    return " ".join([told.get("model name", platform.machine()), *[f"({widest})"] * bool(widest)])


def load() -> float | None:
    """How many processes wanted to run in the last minute, on average."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
