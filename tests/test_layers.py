"""The layers of the tree: imports go down only, files stay short, and importing stays cheap."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [
    ("types", "errors", "shapes", "naming", "arguments"),
    ("mode", "nested", "backend", "backends", "device", "watch"),
    ("node", "tensor", "parameter", "cuda", "placement", "promotion", "record", "short", "op",
     "anomaly", "fitting", "backward", "autograd", "custom", "create", "draw", "random", "printing",
     "graph", "recompute"),
    ("ops",),
    ("functions", "linalg", "derivatives"),
    ("functional",),
    ("distributions",),
    ("nn", "optim", "data"),
    ("parallel", "io", "utils"),
    ("examples", "__main__", "testing"),
    ("bench",),
]  # fmt: skip
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}
APART = ("nn", "optim", "data")
BOTH = "optim/swa_utils.py"  # averages models: an optimiser's tool, itself a Module
CORE = ("tensor", "node", "backward", "autograd", "op", "record", "promotion", "shapes",
        "graph/graph", "parallel/scheduler", "parallel/bucket",
        "parallel/communicator")  # fmt: skip


def files(folder):
    """Every Python file below, without following the link from minidp to kernels."""
    found = sorted((ROOT / folder).rglob("*.py"))
    return [f for f in found if folder != "minidp" or "kernels" not in f.relative_to(ROOT).parts]


@cache
def imports(path):
    """(line, module, names) of each import that runs, functions' own included."""
    return list(found_imports(ast.parse(path.read_text())))


def found_imports(tree):
    hidden = {
        id(inner) for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for branch in node.body for inner in ast.walk(branch)
    }  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or ""), [a.name for a in node.names]


def parts_of_minidp(path):
    """(line, top-level part of minidp) that a file imports."""
    for line, module, names in imports(path):
        pieces = module.split(".")
        if pieces[0] == "minidp":
            for part in pieces[1:2] or names:
                yield line, part


def own_part(path):
    return path.relative_to(ROOT / "minidp").parts[0].removesuffix(".py")


def test_every_part_has_a_layer():
    assert {own_part(f) for f in files("minidp")} - {"__init__"} <= set(RANK)


@pytest.mark.parametrize("part", [name for layer in LAYERS for name in layer])
def test_imports_go_down(part):
    wrong = []
    for path in files("minidp"):
        if own_part(path) != part:
            continue
        for line, other in parts_of_minidp(path):
            rank = RANK.get(other, -1 if other in ("kernels", "__version__") else 99)
            apart = part in APART and other in APART and part != other and not path.match(BOTH)
            if rank > RANK[part] or apart:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_only_the_backend_reaches_the_kernels():
    reaching = {own_part(f) for f in files("minidp") if "minidp.kernels" in code(f)}
    assert reaching <= {"backend"}


def code(path):
    """A file's string constants and imported names, without its docstrings and comments."""
    tree = ast.parse(path.read_text())
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)
             and isinstance(n.value, str) and id(n) not in docstrings]  # fmt: skip
    return "\n".join([*texts, *(module for _, module, _ in imports(path))])


def test_kernels_import_nothing_of_minidp():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files("kernels") for line, module, _ in imports(path)
        if module.split(".")[0] in ("minidp", "kernels")
    ]  # fmt: skip
    assert files("kernels") and not wrong, "\n".join(wrong)


def test_nobody_imports_kernels_under_another_name():
    own = [f for f in ROOT.rglob("*.py") if "kernels" not in f.relative_to(ROOT).parts[:-1]]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}" for path in own for line, module, _ in imports(path)
        if module.split(".")[0] == "kernels"
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_the_link_to_the_kernels_is_there():
    assert (ROOT / "minidp/kernels").resolve() == ROOT / "kernels"


def run(text, **options):
    command = [sys.executable, "-c", text]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, **options
    ).stdout


def test_import_loads_no_compiler():
    loaded = run("import sys, minidp; print(*sys.modules)").split()
    tops = {name.split(".")[0] for name in loaded}
    assert not tops & {"numba", "llvmlite", "cupy", "threadpoolctl", "matplotlib", "tqdm"}
    assert "minidp.kernels" not in loaded and "minidp.testing" not in loaded


IMPORT = "import time; t = time.process_time(); import minidp; print(time.process_time() - t)"


def test_import_is_quick(tmp_path):
    """Computes for less than 0.25 s, from bytecode, NumPy included and the interpreter's start not.

    The best of at most ten runs: processes beside it also cost it caches.
    """
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    run(IMPORT, env=env)
    taken = [0.25]
    while min(taken) >= 0.25 and len(taken) <= 10:
        taken.append(float(run(IMPORT, env=env)))
    assert min(taken) < 0.25, taken


def length(path):
    return len(path.read_text().splitlines())


def test_files_stay_short():
    long = {str(f.relative_to(ROOT)): length(f) for f in files("minidp") + files("kernels")}
    assert not {name: n for name, n in long.items() if n > 300}


# Optim was to have 800: that is what SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta and the usual
# schedules take. Three more optimisers, seven more schedules and other averages take the rest.
BUDGETS = {"ops": 2000, "functions": 2750, "functional": 2215, "nn": 2200, "optim": 960}


@pytest.mark.parametrize("part", BUDGETS)
def test_each_part_keeps_to_its_budget(part):
    """Lines that are not blank, docstrings included."""
    lines = [line for path in files(f"minidp/{part}") for line in path.read_text().splitlines()]
    total = sum(bool(line.strip()) for line in lines)
    print(f"{part}: {total} of {BUDGETS[part]} lines")
    assert total <= BUDGETS[part]


def test_the_primitives_are_counted():
    """docs/design/ops-as-paragraphs.md says how many there are, and why."""
    text = "".join(path.read_text() for path in files("minidp/ops"))
    starts = ("@op", "@composite", r"\w+ = (?:elementary|rounding|comparison|bitwise)")
    ops, composites, rows = (len(re.findall(rf"^{start}\(", text, re.M)) for start in starts)
    page = " ".join((ROOT / "docs/design/ops-as-paragraphs.md").read_text().split())
    assert f"{ops + rows} primitives and {composites} composites" in page
    assert f"{ops} of them are paragraphs, {rows} are rows of four tables" in page


def test_the_core_can_be_read_in_an_afternoon():
    found = [ROOT / f"minidp/{name}.py" for name in CORE]
    total = sum(length(path) for path in found if path.exists())
    print(f"core: {total} lines")
    assert total <= 2500
