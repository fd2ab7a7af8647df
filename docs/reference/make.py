"""Writes the pages of the reference as reStructuredText, from docstrings and signatures.

Docstrings are plain text: ``code``, examples (``>>>``), indented blocks, lists of ``-``.
Everything else in them is shown as it is written, so that a formula needs no markup.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from entries import Entry, entries, home, kernels, members, placed, signature, slopes
from pages import PAGES

from minidp.op import Op
from minidp.tensor import Tensor

HERE = Path(__file__).parent
SPAN = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
BEFORE = {"neg": "-", "pos": "+", "invert": "~"}


def write() -> None:
    """Write every page that changed, and remove those that are no more."""
    texts = {HERE / f"{page}.rst": "\n".join(page_text(page)) for page in PAGES}
    for old in HERE.glob("*.rst"):
        if old not in texts:
            old.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def page_text(page: str) -> Iterator[str]:
    title, intro, _ = PAGES[page]
    yield from (title, "=" * len(title), "", *prose(intro))
    for heading, groups in placed()[page].items():
        if heading and groups:
            yield from (heading, "-" * len(heading), "")
        for group in groups:
            yield from entry_text(group)
            if group[0].value is Tensor:
                yield from methods_text()


def overview() -> Iterator[str]:
    """The names on each page, as links."""
    for page, (title, intro, _) in PAGES.items():
        names = [e for groups in placed()[page].values() for group in groups for e in group]
        yield from (f":doc:`{title} </reference/{page}>`", f"  {intro}", "")
        yield from ("  " + " · ".join(link(e) for e in names), "")


def link(entry: Entry) -> str:
    shown = entry.full.removeprefix("minidp.")
    return f":py:obj:`{shown} <{entry.full}>`"


# One entry


def entry_text(group: list[Entry]) -> Iterator[str]:
    first = group[0]
    head = f".. py:{first.kind}:: "
    for entry in group:
        called = signature(entry.value) if entry.kind in ("function", "class") else ""
        yield f"{head}{entry.full}{called if entry is first or len(called) < 40 else ''}"
        head = " " * len(head)
    if hasattr(builtins, first.name) and first.kind == "data":
        yield "   :no-index:"  # else ``float`` in a signature would be a link to a dtype
    yield ""
    yield from indented(body(first))


def body(entry: Entry) -> Iterator[str]:
    arguments = re.findall(r"\w+", signature(entry.value)) if entry.kind != "data" else []
    yield from prose(entry.doc, entry.space, {*arguments, entry.name})
    yield from facts(entry)
    if entry.kind == "class":
        yield from rule_text(getattr(entry.value, "rule", None), entry.space)
        for name, value in members(entry.value).items():
            yield from member_text(name, value, entry.space)
    elif entry.kind == "function":
        yield from source(entry.value)


def facts(entry: Entry) -> Iterator[str]:
    """One line of what is known of it besides its docstring."""
    found = list(op_facts(entry.op)) if entry.op else []
    if entry.methods:
        found.append("method " + ", ".join(f"``x.{name}``" for name in entry.methods))
    called = getattr(entry.value, "function", None) if entry.kind == "class" else None
    found += ["calls " + link(e) for e in entries() if e.value is called][:1]
    if entry.torch:
        found.append(f"PyTorch ``{entry.torch}``")
    if found:
        yield from (".. rst-class:: facts", "", " · ".join(found), "")


def op_facts(op: Op) -> Iterator[str]:
    yield f"op ``{op.name}({', '.join(op.arguments)})``: ``{op.line.text}``"
    names = slopes(op)
    yield "gradient for " + ", ".join(f"``{n}``" for n in names) if names else "no gradient"
    yield kernels_text(op)


def kernels_text(op: Op) -> str:
    return f"kernels {', '.join(kernels(op.name))}" if kernels(op.name) else "no kernel"


def rule_text(rule: Any, space: str) -> Iterator[str]:
    """The op by which an optimiser changes its parameters."""
    if isinstance(rule, Op):
        yield from (f".. rubric:: Rule {rule.name}", "")
        yield from prose(inspect.cleandoc(rule.__doc__ or ""), space, rule.arguments)
        yield from (".. rst-class:: facts", "", kernels_text(rule), "")
        yield from source(rule)


def member_text(name: str, value: Any, space: str, before: str = "") -> Iterator[str]:
    kind, skip = "property" if isinstance(value, property) else "method", 1
    function = value.fget if isinstance(value, property) else value
    flag = {classmethod: "classmethod", staticmethod: "staticmethod"}.get(type(value))
    if flag:
        function, skip = value.__func__, int(flag == "classmethod")
    yield f".. py:{kind}:: {before}{name}{'' if kind == 'property' else signature(function, skip)}"
    yield from ([f"   :{flag}:"] if flag else [])
    yield ""
    yield from indented(prose(inspect.getdoc(function) or "", space, {name}))


def source(value: Any) -> Iterator[str]:
    """The paragraph itself, or the row of a table, folded under the name of its file."""
    function = inspect.unwrap(value.body if isinstance(value, Op) else value)
    try:
        text = row(function) or inspect.getsource(function).rstrip()
    except (OSError, TypeError):
        return
    if not text.lstrip().startswith(("def ", "@", f"{function.__name__} = ")):
        return
    if text.count("\n") > 60:
        return
    file = f"minidp/{home(value).replace('.', '/')}.py"
    yield from (".. raw:: html", "", f"   <details><summary>{file}</summary>", "")
    yield from (".. code-block:: python", "", *indented(inspect.cleandoc(text).splitlines()), "")
    yield from (".. raw:: html", "", "   </details>", "")


def row(function: Any) -> str:
    """The line ``name = maker(...)`` that made a function, if one did."""
    if "<locals>" not in getattr(function, "__qualname__", ""):
        return ""
    text = inspect.getsource(sys.modules[function.__module__])
    made = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == function.__name__]  # fmt: skip
    return ast.get_source_segment(text, made[0]) or "" if made else ""


# Tensor's methods


def methods_text() -> Iterator[str]:
    """Methods that are functions too, by page; in place; operators."""
    pages = {e.name: (page, e) for page, sections in placed().items()
             for groups in sections.values() for group in groups for e in group
             if e.space in ("minidp", "minidp.nn.functional") and e.kind == "function"}  # fmt: skip
    names = [n for n, v in sorted(vars(Tensor).items()) if not n.startswith("_") and callable(v)
             and n not in members(Tensor)]
    yield from title("Methods that are functions too")
    yield from prose("``x.exp()`` is ``minidp.exp(x)``.")
    yield from by_page([n for n in names if n in pages], pages)
    yield from title("In place")
    yield from prose("``x.exp_()`` gives ``x`` the values of ``x.exp()``; see ``minidp/functions/"
                     "inplace.py`` for what is refused while autograd records.")  # fmt: skip
    behind = [n for n in names if n.endswith("_") and n[:-1] in pages]
    yield from by_page(behind, pages)
    yield from title("Operators")
    yield from operators(pages)
    yield from title("Methods only")
    for name in names:
        if name not in pages and name not in behind:
            yield from member_text(name, vars(Tensor)[name], "minidp", "minidp.Tensor.")


def title(text: str) -> Iterator[str]:
    yield from (text, "-" * len(text), "")


def by_page(names: list[str], pages: dict[str, tuple[str, Entry]]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for name in names:
        page, entry = pages.get(name) or pages[name[:-1]]
        groups.setdefault(page, []).append(f":py:obj:`{name} <{entry.full}>`")
    for page, links in groups.items():
        yield from (f":doc:`{page}`", f"  {' · '.join(links)}", "")


def operators(pages: dict[str, tuple[str, Entry]]) -> Iterator[str]:
    shown = {f"__{n}__": f"x {s} y" for n, s in {**OPERATORS, **SIGNS}.items()}
    shown |= {f"__{n}__": f"{s}x" for n, s in BEFORE.items()}
    shown |= {f"__i{n}__": f"x {s}= y" for n, s in OPERATORS.items()}
    shown |= {"__getitem__": "x[key]", "__setitem__": "x[key] = y", "__abs__": "abs(x)"}
    found = [text for name, text in shown.items() if name in vars(Tensor)]
    yield from (" · ".join(f"``{text}``" for text in found), "")


# Docstrings


def indented(lines: Any, by: int = 3) -> Iterator[str]:
    for line in lines:
        yield " " * by + line if line else line


def prose(text: str, space: str = "minidp", own: Collection[str] = ()) -> Iterator[str]:
    """A docstring's blocks: examples and indented ones as they are, lists, paragraphs."""
    for block in re.split(r"\n\s*\n", text.strip("\n")) if text.strip() else []:
        if block.startswith(">>>"):
            yield from (*block.splitlines(), "")
        elif block.startswith("    "):
            lines = inspect.cleandoc("\n" + block).splitlines()
            yield from (".. code-block:: text", "", *indented(lines), "")
        elif block.startswith("- "):
            for item in re.split(r"^- ", block, flags=re.MULTILINE)[1:]:
                yield f"- {inline(item, space, own)}"
            yield ""
        elif block.strip() != "::":
            yield from (inline(re.sub(r"::$", ":", block), space, own), "")


def inline(text: str, space: str, own: Collection[str]) -> str:
    """A paragraph on one line: code as code, everything else as it is written."""
    pieces = SPAN.split(" ".join(text.split()))
    shown = [code(p.strip("`"), space, own) if p[:1] == "`" and len(p) > 2
             else re.sub(r"([\\*`|_<>])", r"\\\1", p) for p in pieces]  # fmt: skip
    result = "".join(shown)
    return result if result.startswith(("\\", ":", "`")) else "\\" + result


def code(text: str, space: str, own: Collection[str]) -> str:
    """``text`` as code; a link where it names something public."""
    names = (f"{space}.{text}", f"minidp.{text}", f"minidp.nn.{text}")
    entry = next((known()[name] for name in names if name in known()), None)
    if entry and text not in own:
        return f"\\ :py:obj:`{text} <{entry.full}>`\\ "
    return f"\\ ``{text}``\\ "


@cache
def known() -> dict[str, Entry]:
    return {e.full: e for e in entries()}
