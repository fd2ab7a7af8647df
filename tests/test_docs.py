"""The documentation is true: its code runs, its output is what comes out, its links lead somewhere."""

import configparser
import doctest
import importlib
import importlib.util
import os
import re
import shlex
import tomllib
import types
from pathlib import Path

import pytest

import minidp as dp
from minidp import __main__ as installation
from minidp.examples import mnist
from minidp.op import OPS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)", re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
PLACE = re.compile(r"(?:minidp|kernels|tests|docs|\.ci)/[\w./-]*")
NAME = re.compile(r"(?:dp|minidp|nn|optim)(?:\.[A-Za-z_]\w*)+")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAGE_MAKER = ROOT / "docs/tour/make_notebook.py"


def label(page):
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


def blocks(page, *kinds):
    """(line, text) of the fenced blocks of these kinds."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        if found.group(1) in kinds:
            yield text.count("\n", 0, found.start(2)), found.group(2)


def prose(page):
    """A page without its fenced blocks."""
    return BLOCK.sub("", page.read_text())


# Code


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


def run_page(page):
    """Run every python block of a page, in order, in one namespace."""
    names = {"__name__": label(page)}
    for line, text in blocks(page, "python"):
        if ">>>" in text:
            check_examples(text, names, label(page), line)
        else:
            exec(compile("\n" * line + text, label(page), "exec"), names)


def check_examples(text, names, where, line):
    """Run the examples of a block, whose output must be what is written below them."""
    told = []
    test = doctest.DocTestParser().get_doctest(text, names, where, where, line)
    test.globs = names  # so that the next block sees what this one defines
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=told.append, clear_globs=False)
    assert not runner.failures, "".join(told)


RUNNABLE = [page for page in PAGES if any(blocks(page, "python"))]


@pytest.mark.parametrize("page", RUNNABLE, ids=label)
def test_python_blocks_run_and_show_what_comes_out(page, elsewhere):
    run_page(page)


@pytest.mark.parametrize("text", [">>> 1 + 1\n3\n", "assert False\n", ">>> int('x')\n", "x = =\n"])
def test_a_wrong_block_is_noticed(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```python\nx = 1\n```\n\n```python\n{text}```\n")
    with pytest.raises((AssertionError, SyntaxError)):
        run_page(page)


def test_fences_are_closed_and_name_a_known_language():
    for page in PAGES:
        fences = [line for line in page.read_text().splitlines() if line.startswith("```")]
        assert fences[1::2] == ["```"] * (len(fences) // 2) and len(fences) % 2 == 0, label(page)
        assert set(fences[::2]) <= {"```python", "```bash", "```text"}, label(page)


# Commands


def commands(page):
    """The commands of a page: lines of bash blocks, and what stands in the text as ``python -m``."""
    for _, text in blocks(page, "bash"):
        for line in text.splitlines():
            yield from (part.strip() for part in line.partition("#")[0].split("&&") if part.strip())
    yield from (c for c in CODE.findall(prose(page)) if re.match(r"(python|pip) ", c))


def check_command(command):
    """Raise unless the command would do what its page says it does."""
    words = shlex.split(command)
    if words[:2] == ["pip", "install"]:
        check_extras(words[-1])
    elif words[0] == "python" and words[1] == "-m" and words[2] in RUNNERS:
        RUNNERS[words[2]](words[3:])
    elif words[0] == "python":
        assert words[1] != "-m", f"{command}: not known here"
        assert (ROOT / words[1]).is_file(), f"{command}: {words[1]} is not there"
    else:
        assert words[0] in ("ruff", "mypy"), f"{command}: not known here"
        assert words[0] in setup()["options.extras_require"]["dev"]


def setup():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def check_extras(what):
    """``.`` or ``.[name]`` with a name that setup.cfg has; else a package that it names."""
    extras = setup()["options.extras_require"]
    found = re.fullmatch(r"(?:\.|minidp)(?:\[(\w+)\])?", what)
    known = found and (found.group(1) is None or found.group(1) in extras)
    assert known or any(what in extras[name] for name in extras), f"pip install {what}"


def check_pytest(words):
    """Markers, files and the word behind -k exist."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = [line.partition(":")[0] for line in options["markers"]]
    for option, word in zip(words, [*words[1:], ""], strict=True):
        assert option != "-m" or word in markers, word
        assert option != "-k" or word in OPS, word
        assert not option.startswith("tests") or (ROOT / option).exists(), option


def check_example(words):
    assert "--help" in words or mnist.parser().parse_args(words)


RUNNERS = {
    "minidp": lambda words: installation.report(),
    "minidp.examples.mnist": check_example,
    "pytest": check_pytest,
}


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


# Links and names


def anchors(page):
    """The anchors that a page's headings get."""
    found = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found]


def broken(page):
    """What a page links to that is not there."""
    for link in LINK.findall(prose(page)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page):
    assert list(broken(page)) == []


def unknown(page):
    """Files and names that stand in a page's text and do not exist."""
    for code in CODE.findall(prose(page)):
        if PLACE.fullmatch(code) and not (ROOT / code).exists():
            yield code
        named = NAME.match(code)
        if named and not PLACE.match(code) and resolve(named.group()) is None:
            yield named.group()


def resolve(name):
    """The object of a dotted name, or None."""
    first, *rest = name.split(".")
    found = importlib.import_module({"dp": "minidp"}.get(first, first if first == "minidp" else f"minidp.{first}"))
    for part in rest:
        path = f"{found.__name__}.{part}" if isinstance(found, types.ModuleType) else ""
        if not hasattr(found, part) and path and importlib.util.find_spec(path):
            importlib.import_module(path)
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_named_files_and_objects_exist(page):
    assert list(unknown(page)) == []


def test_a_broken_link_and_an_unknown_name_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](nowhere.md) [b](#a-title) [c](#b) `dp.nothing` `kernels/no.py` "
                    "`nn.Linear(2, 3)` `minidp.io.checkpoint.save`")  # fmt: skip
    assert list(broken(page)) == ["nowhere.md", "#b"]
    assert list(unknown(page)) == ["dp.nothing", "kernels/no.py"]


def test_every_page_is_in_the_index():
    index = ROOT / "docs/index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(index))}
    assert [label(page) for page in PAGES if page not in linked and page != index] == []


def test_pictures_are_small():
    pictures = list((ROOT / "docs/pictures").iterdir())
    assert pictures and all(picture.stat().st_size < 300_000 for picture in pictures)


# The notebook and the version


def maker():
    """docs/tour/make_notebook.py as a module."""
    spec = importlib.util.spec_from_file_location("make_notebook", PAGE_MAKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_is_in_step_with_its_page():
    pytest.importorskip("nbformat", reason="pip install nbformat")
    made = maker()
    found = made.PAGE.with_suffix(".ipynb").read_text()
    assert found == made.text_of(made.PAGE.read_text()), "run: python docs/tour/make_notebook.py"


def test_the_notebook_runs(elsewhere):
    nbformat = pytest.importorskip("nbformat", reason="pip install nbformat")
    nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
    notebook = nbformat.read(maker().PAGE.with_suffix(".ipynb"), as_version=4)
    nbclient.NotebookClient(notebook, timeout=60).execute()
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    assert any("tensor(91.)" in o.get("data", {}).get("text/plain", "") for o in outputs)


def test_the_newest_change_is_the_version():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert newest == setup()["metadata"]["version"] == dp.__version__
