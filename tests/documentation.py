"""Reading the documentation: its pages, their blocks of code, their commands, links and names."""

import configparser
import doctest
import importlib
import importlib.util
import re
import shlex
import tomllib
import types
from pathlib import Path

from minidp import __main__ as installation
from minidp.bench import __main__ as bench
from minidp.examples import mnist, scaling
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


# Commands


def commands(page):
    """The commands of a page: lines of bash blocks, and those that stand in its text."""
    for _, text in blocks(page, "bash"):
        for line in text.splitlines():
            parts = line.partition("#")[0].split("&&")
            yield from (part.strip() for part in parts if part.strip())
    yield from (code for code in CODE.findall(prose(page)) if re.match(r"(python|pip) ", code))


def check_command(command):
    """Raise unless the command would do what its page says it does."""
    words = shlex.split(command)
    if words[:2] == ["pip", "install"]:
        check_extras(words[-1])
    elif words[:2] == ["python", "-m"]:
        assert words[2] in RUNNERS, f"{command}: not known here"
        RUNNERS[words[2]](words[3:])
    else:
        assert words[0] == "python", f"{command}: not known here"
        assert (ROOT / words[1]).is_file(), f"{command}: {words[1]} is not there"


def setup():
    """setup.cfg."""
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
    for option, word in zip(words, [*words[1:], ""], strict=False):
        assert option != "-m" or word in markers, word
        assert option != "-k" or word in OPS, word
        assert not option.startswith("tests") or (ROOT / option).exists(), option


def check_site(words):
    """There is something to build, and git ignores where it goes."""
    assert (ROOT / words[0] / "conf.py").is_file() and words[1].startswith("docs/_build/"), words


def check_example(words):
    """The example's own parser takes the arguments."""
    assert mnist.parser().parse_args(words)


def check_scaling(words):
    """The example's own parser takes the arguments."""
    assert scaling.parser().parse_args(words)


def check_bare(words):
    """The example takes no arguments."""
    assert not words


RUNNERS = {
    "minidp": lambda words: installation.main(words),
    "minidp.bench": lambda words: bench.parser().parse_args(words),
    "minidp.examples.mnist": check_example,
    "minidp.examples": check_bare, "minidp.examples.pitfalls": check_bare,
    "minidp.examples.scaling": check_scaling,
    "pytest": check_pytest,
    "sphinx": check_site,
}


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


def unknown(page):
    """Files and names that stand in a page's text and do not exist."""
    for code in CODE.findall(prose(page)):
        named = NAME.match(code)
        if PLACE.fullmatch(code):
            if not (ROOT / code).exists():
                yield code
        elif named and resolve(named.group()) is None:
            yield named.group()


def resolve(name):
    """The object of a dotted name, or None."""
    first, *rest = name.split(".")
    start = "minidp" if first in ("dp", "minidp") else f"minidp.{first}"
    found = importlib.import_module(start)
    for part in rest:
        if isinstance(found, types.ModuleType) and not hasattr(found, part):
            path = f"{found.__name__}.{part}"
            if hasattr(found, "__path__") and importlib.util.find_spec(path):
                importlib.import_module(path)
        found = getattr(found, part, None)
    return found
