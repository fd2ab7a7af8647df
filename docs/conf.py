"""The site: ``python -m sphinx docs docs/_build/html``. Pages as they are, and the reference."""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "reference"))
sys.path.insert(0, str(HERE.parent))

import make  # noqa: E402

import minidp  # noqa: E402

project, author, version = "minidp", "the authors of minidp", minidp.__version__
project_copyright = "the authors of minidp"
extensions = ["myst_parser"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown", ".markdown": "markdown"}
exclude_patterns = ["_build", "**.ipynb"]
root_doc = "index"
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "ref.python"]  # types in signatures have several homes
smartquotes = False
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "furo"
html_title = f"minidp {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

ABOVE = {"README.md": "readme", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changes"}
LINK = re.compile(r"\]\(([^)\s:]+)\)")


def generate(app):
    """The reference, and the pages of the folder above, whose links are turned."""
    make.write()
    (HERE / "about").mkdir(exist_ok=True)
    for name, page in ABOVE.items():
        text = (HERE.parent / name).read_text()
        text = LINK.sub(lambda found: turned(found, "..", "about"), text)
        path = HERE / "about" / f"{page}.markdown"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def turned(found, start, here):
    """A link from a page in ``start``, for its copy in ``here``; the pages above are in about/."""
    path, sharp, anchor = found.group(1).partition("#")
    target = os.path.normpath(os.path.join(start, path)) if path else ""
    target = f"about/{ABOVE[target[3:]]}.markdown" if target[3:] in ABOVE else target
    target = target.removeprefix("../docs/")
    return f"]({os.path.relpath(target, here) if path else ''}{sharp}{anchor})"


def complete(app, name, content):
    """The start page is the table of contents; the reference lists its names."""
    folder = os.path.dirname(name)
    if not name.startswith(("about/", "reference/")) or name == "reference/index":
        content[0] = LINK.sub(lambda found: turned(found, folder, folder or "."), content[0])
    if name == "index":
        content[0] += "\n" + "\n".join(contents(content[0]))
    if name == "reference/index":
        pages = "\n".join(make.PAGES)
        content[0] += "\n```{eval-rst}\n" + "\n".join(make.overview()) + "\n```\n"
        content[0] += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def contents(text):
    """A hidden toctree for each heading of the start page, of the pages that it links to."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        links = [link for link in LINK.findall(part) if link.endswith((".md", ".markdown"))]
        heading = part.partition("\n")[0]
        caption = [] if heading.startswith("#") else [f":caption: {heading}"]
        pages = [re.sub(r"\.(md|markdown)$", "", link) for link in links]
        yield from ("", "```{toctree}", ":hidden:", *caption, "", *pages, "```")


def setup(app):
    app.connect("builder-inited", generate)
    app.connect("source-read", complete)
