"""Run mutants of the CUDA kernels against the kernels' tests, in the emulator.

From tests/: `python -m mutation.run [FILE ...]` (say conv.cu or block.cuh; all if none are given).
Results are kept in mutation/results.json: a run that was stopped goes on where it was; what was
killed before is not run again (--again: it is). docs/gpu/mutations.md is written anew.
"""

import argparse
import json
import sys
from pathlib import Path

import pytest

from minidp.kernels.cuda import KERNELS, runtime

from .machine import Machine, install
from .report import written

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs/gpu/mutations.md"
TESTS = ["test_kernels_cuda*.py", "test_fusion.py::test_on_the_emulated_gpu"]
FACTORS = {0.5: "halved", 2: "doubled"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="say conv.cu or block.cuh")
    parser.add_argument("--again", action="store_true", help="run what was killed before too")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    results = json.loads(given.results.read_text()) if given.results.exists() else {}
    run(given, results)
    given.page.write_text(written(results))


def run(given, results):
    """Run the mutants of the given files, all in one collection of tests."""
    kernels = install([name for name in KERNELS if concerned(name, given.files)])

    def visit(machine):
        for file in given.files or kernels.mutants:
            old, results[file] = results.get(file, {}), {}
            for key, items, change in changes(machine, kernels, file):
                known = old.get(key, "")
                done = known.startswith("killed") and not given.again
                results[file][key] = known if done else machine.outcome(items, change)
                if not results[file][key].startswith("killed"):
                    print(f"{file}: {key}: {results[file][key]}", flush=True)
                save(results, given.results)

    tests = [str(path) for path in sorted(HERE.parent.glob(TESTS[0]))]
    tests += [str(HERE.parent / test) for test in TESTS[1:]]
    machine = Machine(kernels, visit)
    code = pytest.main(["-q", "-p", "no:cacheprovider", *tests], [machine])
    if code:
        sys.exit(f"pytest ended with {code}")


def concerned(name, files):
    """Whether a .cu file is among the files, or has one of them put in."""
    text = runtime.source(name)
    return not files or any(f == f"{name}.cu" or f'#line 1 "{f}"' in text for f in files)


def changes(machine, kernels, file):
    """(key, tests, how to choose it) for each mutant of a file and of its launches."""
    for key, numbers in kernels.mutants[file].items():
        items = machine.tests_of(numbers)
        yield key, items, lambda numbers=numbers: kernels.choose(numbers)
    own = kernels.names.get(file.removesuffix(".cu"), ())
    for launch in sorted({each for found in machine.launched.values() for each in found}):
        for factor, word in FACTORS.items() if launch[0] in own else ():
            kernel, side, axis = launch
            key = f"{kernel} | {side}.{'xyz'[axis]} {word}"
            items = machine.tests_launching(launch)
            yield key, items, lambda chosen=(*launch, factor): setattr(kernels, "launch", chosen)


def save(results, path):
    """To a temporary file, which is then renamed."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=0, sort_keys=True))
    new.replace(path)


if __name__ == "__main__":
    main()
