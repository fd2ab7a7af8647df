"""What is shipped: the wheel and the sdist hold real files, the digits and every kernel."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The names and sizes in (wheel, sdist), built from a copy, beside other tests that read."""
    folder, copy = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source") / "copy"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "_build")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    done = subprocess.run([sys.executable, "-m", "build", "--outdir", folder, copy],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        names = {item.filename: item.file_size for item in wheel.infolist()}
    with tarfile.open(next(folder.glob("*.tar.gz"))) as sdist:
        members = {m.name.partition("/")[2]: m for m in sdist.getmembers()}
    return names, members


def kernels():
    return [path.relative_to(ROOT) for path in ROOT.glob("kernels/**/*")
            if path.suffix in (".py", ".cu", ".cuh", ".h")]  # fmt: skip


def test_the_wheel_holds_every_kernel_and_the_digits(built):
    names, _ = built
    for path in kernels():
        assert names.get(f"minidp/{path}", 0) == (ROOT / path).stat().st_size, path
    digits = [n for n in names if n.endswith(".gz")]
    assert len(digits) == 4 and sum(names[n] for n in digits) <= 900_000
    assert "minidp/py.typed" in names
    assert any(n.endswith("licenses/NOTICE") for n in names)


def test_the_wheel_holds_the_parts_of_the_timeline(built):
    names, _ = built
    parts = list((ROOT / "minidp/parallel/timeline/web").iterdir())
    assert len(parts) == 8
    for path in parts:
        assert names.get(str(path.relative_to(ROOT)), 0) == path.stat().st_size, path


def test_the_wheel_holds_every_module_and_nothing_else(built):
    names, _ = built
    modules = [p for p in ROOT.glob("minidp/**/*.py") if "kernels" not in p.parts]
    for path in modules:
        assert str(path.relative_to(ROOT)) in names, path
    assert {n.partition("/")[0] for n in names} == {"minidp", "minidp-0.1.0.dist-info"}


def test_the_sdist_holds_files_where_the_checkout_has_a_link(built):
    _, members = built
    for path in kernels():
        member = members.get(f"minidp/{path}")
        assert member is not None and member.isfile(), path
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        assert members[name].isfile()
