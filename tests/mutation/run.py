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

from minidp.kernels.cuda import KERNELS

from .machine import Machine, install
from .report import written

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
TESTS = ["test_kernels_cuda*.py", "test_fusion.py::test_on_the_emulated_gpu"]
FACTORS = {0.5: "halved", 2: "doubled"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="say conv.cu or block.cuh")
    parser.add_argument("--again", action="store_true", help="run what was killed before too")
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    run(given.files, results, given.again)
    Path(HERE.parent.parent, "docs/gpu/mutations.md").write_text(written(results))


def run(files, results, again):
    """Run the mutants of files, all in one collection of tests."""
    kernels = install(list(KERNELS))

    def visit(machine):
        for file in files or kernels.mutants:
            old, results[file] = results.get(file, {}), {}
            for key, items, change in changes(machine, kernels, file):
                known = old.get(key, "")
                done = known.startswith("killed") and not again
                results[file][key] = known if done else machine.outcome(items, change)
                if not results[file][key].startswith("killed"):
                    print(f"{file}: {key}: {results[file][key]}", flush=True)
                save(results)

    tests = [str(path) for path in sorted(HERE.parent.glob(TESTS[0]))]
    tests += [str(HERE.parent / test) for test in TESTS[1:]]
    machine = Machine(kernels, visit)
    code = pytest.main(["-q", "-p", "no:cacheprovider", *tests], [machine])
    if code:
        sys.exit(f"pytest ended with {code}")


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


def save(results):
    """To a temporary file, which is then renamed."""
    new = RESULTS.with_suffix(".new")
    new.write_text(json.dumps(results, indent=0, sort_keys=True))
    new.replace(RESULTS)


if __name__ == "__main__":
    main()
