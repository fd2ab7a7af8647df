"""Make a notebook from a page of the tour: ``python docs/tour/make_notebook.py``.

Text becomes cells of Markdown; each ``python`` block a cell of code. In a block with ``>>>`` each
example becomes a cell, without its output: the notebook shows its own. Cell ids are numbers, so
that the same page always gives the same file.
"""

import doctest
import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

PAGE = Path(__file__).parent / "1-tensor.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def cells(page):
    """(kind, text) of every cell of a page."""
    at = 0
    for block in BLOCK.finditer(page):
        yield "markdown", page[at : block.start()]
        yield from code(block.group(1))
        at = block.end()
    yield "markdown", page[at:]


def code(block):
    """The code cells of one block; those that are to fail are marked, so that it goes on."""
    examples = doctest.DocTestParser().get_examples(block)
    for example in examples:
        yield "raises" if example.exc_msg else "code", example.source
    if not examples:
        yield "code", block


def notebook(page):
    """The notebook of a page, as a notebook node."""
    made = []
    for kind, text in cells(page):
        text = text.strip()
        if kind == "markdown" and text:
            made.append(new_markdown_cell(text))
        elif text and kind != "markdown":
            tags = {"tags": ["raises-exception"]} if kind == "raises" else {}
            made.append(new_code_cell(text, metadata=tags))
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return new_notebook(cells=made, metadata=kernel)


def text_of(page):
    """What the notebook file of a page holds."""
    return nbformat.writes(notebook(page), version=4) + "\n"


if __name__ == "__main__":
    PAGE.with_suffix(".ipynb").write_text(text_of(PAGE.read_text()))
