"""The reference: every public name has an entry, docstrings say enough, their examples run."""

import doctest
import importlib
import inspect
import io
import subprocess
import sys
from types import ModuleType

import pytest
from documentation import FLAGS, ROOT

import minidp as dp
from minidp import nn, optim
from minidp.op import OPS

sys.path.insert(0, str(ROOT / "docs/reference"))

import entries as reference
import make
import pages

FILES = [
    path for path in sorted((ROOT / "minidp").rglob("*.py"))
    if not {"kernels", "examples"} & {*path.relative_to(ROOT).parts} and ">>> " in path.read_text()
]  # fmt: skip
WITH_EXAMPLES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                 for path in FILES]  # fmt: skip


# Entries


def shown():
    """Each place that an entry stands in."""
    return [
        (entry.full, page, title) for page, sections in reference.placed().items()
        for title, groups in sections.items() for group in groups for entry in group
    ]  # fmt: skip


def test_every_public_name_has_an_entry():
    there = {full for full, _, _ in shown()}
    missing = [f"{e.full} in minidp/{e.home.replace('.', '/')}.py"
               for e in reference.entries() if e.full not in there]  # fmt: skip
    assert not missing, f"name their files in docs/reference/pages.py: {missing}"


def test_no_name_has_two():
    names = [full for full, _, _ in shown()]
    assert sorted(names) == sorted(set(names))


def test_every_section_has_entries():
    empty = [(page, title) for page, sections in reference.placed().items()
             for title, groups in sections.items() if not groups]  # fmt: skip
    assert not empty, "these places in docs/reference/pages.py are none"


def test_public_modules_are_known():
    found = [f"{space}.{name}" for space in pages.SPACES for name in reference.public(space)
             if isinstance(getattr(importlib.import_module(space), name), ModuleType)]  # fmt: skip
    assert set(found) <= set(pages.SPACES)


def test_every_method_of_tensor_is_on_its_page():
    text = "\n".join(make.page_text("tensor"))
    names = [n for n, v in vars(dp.Tensor).items() if not n.startswith("_") and callable(v)]
    assert [n for n in names if f"{n} <" not in text and f"{n}(" not in text] == []


def test_an_op_says_what_it_is():
    entry = next(e for e in reference.entries() if e.full == "minidp.exp")
    text = "\n".join(make.entry_text([entry]))
    for part in ("minidp.exp(input)", "``exp(x)``: ``f:... -> ...``", "gradient for ``x``",
                 "``x.exp_``", "``torch.exp``", "exp = elementary(", "dy/dx = y"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("text, made", [
    ("y = |x|_2 ``dim`` *a", r"\y = \|x\|\_2 \ ``dim``\  \*a"),
    ("- one\n  line\n- two", "- \\one line\n- \\two"),
    ("See ``Tensor``::\n\n    a  b", "\\See \\ :py:obj:`Tensor <minidp.Tensor>`\\ :\n\n"
     ".. code-block:: text\n\n   a  b"),
    (">>> 1 + 1\n2", ">>> 1 + 1\n2"),
])  # fmt: skip
def test_docstrings_are_plain_text(text, made):
    assert "\n".join(make.prose(text)).strip() == made


def test_pytorch_has_what_we_say_it_has():
    pytest.importorskip("torch", reason="PyTorch is compared with where it is installed")
    assert [e.full for e in reference.entries() if e.torch and not exists(e.torch)] == []


def exists(name):
    package, _, rest = name.partition(".")
    if package != "torch":
        return True  # torchvision
    value = importlib.import_module(package)
    for part in rest.split("."):
        if not hasattr(value, part):
            try:
                importlib.import_module(f"{value.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
        value = getattr(value, part)
    return True


# Docstrings


def test_docstrings_say_enough():
    """What is public has a docstring, and that of a differentiable op its formula."""
    lacking = reference.lacking()
    assert not lacking, "\n".join(f"minidp/{file}: {name}: {what}" for file, name, what in lacking)


def examples(name):
    """The docstrings of a module that have examples, those of its ops too."""
    module = importlib.import_module(name)
    names = {"dp": dp, "nn": nn, "F": nn.functional, "optim": optim}
    tests = doctest.DocTestFinder().find(module, name, extraglobs=names)
    for op in OPS.values():
        if op.body.__module__ == name:
            line, text = inspect.unwrap(op.body).__code__.co_firstlineno, op.__doc__ or ""
            where = (f"{name}.{op.name}", module.__file__, line)
            tests.append(doctest.DocTestParser().get_doctest(text, dict(names), *where))
    return [test for test in tests if test.examples]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name):
    told = io.StringIO()
    for test in examples(name):
        state = dp.default_generator.get_state()
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.write)
        dp.default_generator.set_state(state)
    assert not told.getvalue(), told.getvalue()


def test_there_are_examples():
    assert sum(len(examples(name)) for name in WITH_EXAMPLES) >= 40


# The site


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name, reason="pip install '.[docs]'")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E",
               "-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "html"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'id="minidp.exp"' in (tmp_path / "html/reference/elementwise.html").read_text()
    assert "minidp.Tensor" in (tmp_path / "html/genindex.html").read_text()
