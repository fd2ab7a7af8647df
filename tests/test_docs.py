"""The documentation is true: its code runs and gives what it shows, its links lead somewhere."""

import importlib.util
import os
import re

import pytest
from documentation import (
    LINK,
    PAGES,
    ROOT,
    blocks,
    broken,
    check_command,
    commands,
    label,
    prose,
    run_page,
    setup,
    unknown,
)

import minidp as dp
from minidp.op import OPS

RUNNABLE = [page for page in PAGES if any(blocks(page, "python"))]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder for what a page writes, with the bundled digits as the only ones to be found.

    Ops that a page declares and numbers that it draws leave no trace.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    monkeypatch.setenv("MINIDP_CACHE", os.environ.get("MINIDP_CACHE") or f"{home}/minidp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MINIDP_OFFLINE", "1")
    monkeypatch.delenv("MINIDP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    declared, state = dict(OPS), dp.default_generator.get_state()
    yield
    OPS.clear()
    OPS.update(declared)
    dp.default_generator.set_state(state)


@pytest.mark.parametrize("page", RUNNABLE, ids=label)
def test_python_blocks_run_and_show_what_comes_out(page, elsewhere):
    run_page(page)


@pytest.mark.parametrize("text", [">>> 1 + 1\n3\n", "assert False\n", ">>> int('x')\n", "x = =\n"])
def test_a_wrong_block_is_noticed(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```python\nx = 1\n```\n\n```python\n{text}```\n")
    with pytest.raises((AssertionError, SyntaxError)):
        run_page(page)


def test_a_block_sees_what_the_ones_before_defined(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n```python\n>>> x\n1\n>>> y = 2\n```\n"
                    "```python\nassert y == 2\n```\n")  # fmt: skip
    run_page(page)


def test_fences_are_closed_and_name_a_known_language():
    for page in PAGES:
        fences = [line for line in page.read_text().splitlines() if line.startswith("```")]
        assert fences[1::2] == ["```"] * (len(fences) // 2) and len(fences) % 2 == 0, label(page)
        assert set(fences[::2]) <= {"```python", "```bash", "```text"}, label(page)


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=label)
def test_commands_are_understood(page):
    for command in commands(page):
        check_command(command)


@pytest.mark.parametrize("command", [
    "pip install '.[nothing]'", "python -m minidp.examples.mnist --no-such-option", "make",
    "python -m pytest -m fast", "python -m pytest tests/test_nothing.py", "python -m nothing",
    "python docs/nothing.py", "python -m pytest -k no_such_op",
])  # fmt: skip
def test_a_wrong_command_is_noticed(command):
    with pytest.raises((AssertionError, SystemExit)):
        check_command(command)


def test_the_readme_has_the_two_commands():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert "pip install . && python -m minidp.examples.mnist" in lines
    assert "pip install -e '.[dev]' && python -m pytest" in lines


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page):
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_named_files_and_objects_exist(page):
    assert list(unknown(page)) == []


def test_a_broken_link_and_an_unknown_name_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](nowhere.md) [b](#a-title) [c](#b) `dp.nothing` `kernels/no.py` "
                    "`nn.Linear(2, 3)` `minidp.io.checkpoint.save` `dp.ops.conv.no`")  # fmt: skip
    assert list(broken(page)) == ["nowhere.md", "#b"]
    assert list(unknown(page)) == ["dp.nothing", "kernels/no.py", "dp.ops.conv.no"]


def test_every_page_is_in_the_index():
    index = ROOT / "docs/index.md"
    links = [link.partition("#")[0] for link in LINK.findall(prose(index))]
    linked = [index, *((index.parent / link).resolve() for link in links)]
    assert [label(page) for page in PAGES if page not in linked] == []


def test_pictures_are_small():
    pictures = list((ROOT / "docs/pictures").iterdir())
    assert pictures and all(picture.stat().st_size < 300_000 for picture in pictures)


def maker():
    """docs/tour/make_notebook.py as a module."""
    pytest.importorskip("nbformat", reason="pip install nbformat")
    path = ROOT / "docs/tour/make_notebook.py"
    spec = importlib.util.spec_from_file_location("make_notebook", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_is_in_step_with_its_page():
    made = maker()
    found = made.PAGE.with_suffix(".ipynb").read_text()
    assert found == made.text_of(made.PAGE.read_text()), "run: python docs/tour/make_notebook.py"


def test_the_notebook_runs(elsewhere):
    path, nbformat = maker().PAGE.with_suffix(".ipynb"), maker().nbformat
    nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=60).execute()
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    assert any("tensor(91.)" in o.get("data", {}).get("text/plain", "") for o in outputs)


def test_the_newest_change_is_the_version():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest.group(1) == setup()["metadata"]["version"] == dp.__version__
