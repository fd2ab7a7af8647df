"""Run every section in a process of its own, with a time limit, and gather what they found.

    python tests/gpu/suite.py FOLDER [section ...]

FOLDER/result.json is written anew after each section: a section that fails, hangs or crashes costs
its own results only. The exit status is 0 if all went well.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMITS = {"facts": 40, "kernels": 60, "tests": 170, "ops": 60, "models": 110, "overlap": 25}
"""Seconds: less than 8 minutes together."""


def run(section: str, folder: Path) -> dict[str, Any]:
    """What a section found, how long it took, and how it ended."""
    target = folder / f"{section}.json"
    target.unlink(missing_ok=True)
    command = [sys.executable, "-u", str(Path(__file__).with_name("sections.py")), section, target]
    environment = os.environ | {"PYTHONPATH": search_path(), "OPENBLAS_NUM_THREADS": "1"}
    began = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=environment,
                               start_new_session=True)  # fmt: skip
    try:
        status: int | str = process.wait(LIMITS[section])
    except subprocess.TimeoutExpired:
        status = "out of time"
    finally:  # nothing of it may run on while the next section measures
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = json.loads(target.read_text()) if target.exists() else {}
    target.unlink(missing_ok=True)
    return {"status": status, "seconds": round(time.monotonic() - began, 1), **found}


def search_path() -> str:
    """Where Python finds minidp, and what stands for a package that is not installed."""
    absent = importlib.util.find_spec("threadpoolctl") is None
    return os.pathsep.join([str(ROOT), *[str(ROOT / "tests/gpu/lacking")] * absent])


def write(path: Path, result: dict[str, Any]) -> None:
    """The file as a whole, or not at all."""
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(result, indent=1) + "\n")
    temporary.replace(path)


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"date": time.strftime("%Y-%m-%d %H:%M:%S %z")}
    for section in sys.argv[2:] or LIMITS:
        print(f"== {section} (at most {LIMITS[section]} s)", flush=True)
        result[section] = run(section, folder)
        write(folder / "result.json", result)
        print(f"== {section}: {result[section]['status']}", flush=True)
    failed = [name for name in LIMITS if name in result and result[name]["status"] != 0]
    print(f"failed: {', '.join(failed) or 'nothing'}; {folder / 'result.json'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
