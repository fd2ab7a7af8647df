"""``python -m minidp``: what a user needs to know about this installation."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import minidp
from minidp.backend import get_backend
from minidp.device import cores


def version(package: str) -> str:
    """The installed version of a package, or that it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def backend_lines(name: str) -> list[str]:
    """What a backend offers here, or the one line that says why it cannot be used."""
    backend = get_backend(name)
    problem = backend.problem()
    if problem:
        return [f"  {name:<5} not usable: {problem}"]
    kernels = backend.kernel_names()
    what = {"cpu": f"{cores()} core(s); more CPU devices than cores are legal",
            "cuda": f"{backend.count()} GPU(s)",
            "emu": "GPUs played by the CPU, which executes their kernels"}[name]  # fmt: skip
    listed = ", ".join(kernels) if kernels else "none: ops run by their NumPy bodies"
    return [f"  {name:<5} {what}", f"        {len(kernels)} kernels: {listed}"]


def report() -> str:
    """The whole report as text."""
    lines = [f"minidp {minidp.__version__} in {minidp.__path__[0]}"]
    lines += [f"Python {platform.python_version()} on {platform.machine()}, {cores()} core(s)"]
    packages = ("numpy", "numba", "cupy-cuda13x", "cupy-cuda12x", "matplotlib", "safetensors")
    lines += ["packages", *(f"  {name:<13} {version(name)}" for name in packages)]
    lines += ["devices and kernels"]
    for name in ("cpu", "cuda", "emu"):
        lines += backend_lines(name)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    emulated = Path(os.environ.get("MINIDP_CACHE") or Path(home) / "minidp") / "emulated"
    lines += ["caches", f"  {Path(home) / 'minidp'} (data sets)"]
    lines += [f"  {emulated} (kernels of the emulated GPU)"]
    lines += [f"  {Path(minidp.__path__[0]) / 'kernels/cpu/__pycache__'} (compiled CPU kernels)"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
