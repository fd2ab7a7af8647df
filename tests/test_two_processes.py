"""All quick tests together run in two processes; who asks for one process has one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist", reason="without pytest-xdist there is one: pip install pytest-xdist")

HERE = Path(__file__).parent
TESTS = """
import os
import pytest

@pytest.mark.parametrize("number", range(8))
def test_which(number):
    with open("processes", "a") as file:
        print(os.getpid(), file=file)
"""


@pytest.fixture
def processes(tmp_path):
    """How many processes run eight tests under this folder's conftest.py."""
    (tmp_path / "tests").mkdir()
    for name in ("pyproject.toml", "tests/conftest.py", "tests/host_only.py"):
        shutil.copy(HERE.parent / name, tmp_path / name)
    (tmp_path / "tests/test_few.py").write_text(TESTS)

    def run(*arguments, **variables):
        outer = {name: value for name, value in os.environ.items() if "XDIST" not in name}
        done = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=tmp_path, text=True,
                              env=outer | variables, capture_output=True, timeout=120)  # fmt: skip
        assert done.returncode == 0 and "8 passed" in done.stdout, done.stdout + done.stderr
        found = (tmp_path / "processes").read_text().split()
        (tmp_path / "processes").unlink()
        assert len(found) == 8
        return len(set(found))

    return run


def test_two_share_all_quick_tests(processes):
    assert processes() == 2


def test_one_runs_what_is_named_or_asked_for(processes):
    for arguments in (["-n", "0"], ["tests"], ["-s"], ["-m", ""]):
        assert processes(*arguments) == 1, arguments


def test_a_run_within_a_run_is_one(processes):
    """Also that of each of the two, which reads conftest.py as the first one does."""
    assert processes(PYTEST_XDIST_WORKER="gw0") == 1
