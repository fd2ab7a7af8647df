"""``python -m minidp``: what a user needs to know about this installation."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import minidp
from minidp.backend import get_backend
from minidp.device import cores

PACKAGES = ("numpy", "numba", "cupy-cuda13x", "cupy-cuda12x", "matplotlib", "safetensors")
WHAT = {"cpu": "{} core(s); more CPU devices than cores are legal", "cuda": "{} GPU(s)",
        "emu": "GPUs played by the CPU, which executes their kernels"}  # fmt: skip


def version(package: str) -> str | None:
    """The installed version of a package; None where it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def facts() -> dict[str, Any]:
    """All that is told, by name; a backend that cannot be used has a ``problem``."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minidp"
    emulated = Path(os.environ.get("MINIDP_CACHE") or home) / "emulated"
    folder = Path(minidp.__path__[0])
    caches = {"data sets": home, "kernels of the emulated GPU": emulated,
              "compiled CPU kernels": folder / "kernels/cpu/__pycache__"}  # fmt: skip
    return {
        "minidp": minidp.__version__, "folder": str(folder),
        "python": platform.python_version(), "machine": platform.machine(), "cores": cores(),
        "packages": {name: version(name) for name in PACKAGES},
        "devices": {name: backend_facts(name) for name in WHAT},
        "caches": {what: str(path) for what, path in caches.items()},
    }  # fmt: skip


def backend_facts(name: str) -> dict[str, Any]:
    """What a backend offers here, or why it cannot be used."""
    backend = get_backend(name)
    problem = backend.problem()
    if problem:
        return {"problem": problem}
    return {"count": backend.count(), "kernels": backend.kernel_names()}


def report(known: dict[str, Any]) -> str:
    """The facts as text to read."""
    lines = [f"minidp {known['minidp']} in {known['folder']}",
             f"Python {known['python']} on {known['machine']}, {known['cores']} core(s)",
             "packages"]  # fmt: skip
    lines += [f"  {name:<13} {found or 'not installed'}"
              for name, found in known["packages"].items()]  # fmt: skip
    lines += ["devices and kernels"]
    for name, offered in known["devices"].items():
        lines += backend_lines(name, offered)
    lines += ["caches", *(f"  {path} ({what})" for what, path in known["caches"].items())]
    return "\n".join(lines)


def backend_lines(name: str, offered: dict[str, Any]) -> list[str]:
    if "problem" in offered:
        return [f"  {name:<5} not usable: {offered['problem']}"]
    kernels = offered["kernels"]
    listed = ", ".join(kernels) if kernels else "none: ops run by their NumPy bodies"
    return [f"  {name:<5} {WHAT[name].format(offered['count'])}",
            f"        {len(kernels)} kernels: {listed}"]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the report, or with ``--json`` its facts."""
    parser = argparse.ArgumentParser(
        "python -m minidp",
        description="Tell what is installed, which devices can be used, and where files are kept. "
        "To train something: python -m minidp.examples.mnist --help",
    )
    parser.add_argument("--json", action="store_true", help="as one line of JSON")
    parser.add_argument("--version", action="version", version=f"minidp {minidp.__version__}")
    options = parser.parse_args(arguments)
    print(json.dumps(facts()) if options.json else report(facts()))


if __name__ == "__main__":
    main()
