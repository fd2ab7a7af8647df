"""What may make the same program give other bytes elsewhere: versions, processor, threads."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from minidp.backend import get_backend
from minidp.backend.cpu import blas_libraries
from minidp.device import cores

Origin = dict[str, str]
PACKAGES = ("numpy", "numba", "cupy-cuda13x", "cupy-cuda12x")


def origin() -> Origin:
    """Where this process runs, as far as its arithmetic may depend on it."""
    return {**_lasting(), **_blas(), "cores": str(cores())}


def differences(there: Origin) -> list[str]:
    """What differs between the origin of a checkpoint and here: ``numpy 2.3.1, here 2.4.0``."""
    here = origin()
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    return [f"{name} {there.get(name, 'unknown')}, here {here.get(name, 'unknown')}"
            for name in names]  # fmt: skip


@cache
def _lasting() -> Origin:
    """What stays for as long as the process lives."""
    from minidp import __version__

    compiled = "off" if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") else "compiled"
    kernels = compiled if get_backend("cpu").usable() else "none"
    found = {name: version for name in PACKAGES if (version := _version(name))}
    return {"minidp": __version__, "python": platform.python_version(), **found,
            "processor": _processor(), "CPU kernels": kernels}  # fmt: skip


def _blas() -> Origin:
    """The library of matrix products, the code that it chose for the processor, its threads."""
    found = blas_libraries()
    names = [f"{x['internal_api']} {x.get('version')} {x.get('architecture', '')}".strip()
             for x in found]  # fmt: skip
    threads = [str(each["num_threads"]) for each in found]
    return {"BLAS": ", ".join(names) or "unknown", "BLAS threads": ", ".join(threads) or "unknown"}


def _version(package: str) -> str | None:
    import importlib.metadata  # 15 ms

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The processor's name, as exactly as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return f"{platform.machine()} {names[0] if names else platform.processor()}".strip()
