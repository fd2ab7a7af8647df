"""The line that says how many of ONNX's cases were run, and the list of those that were not."""

from collections import Counter
from importlib.util import find_spec

import pytest

OUTCOMES = pytest.StashKey()


def pytest_configure(config):
    config.stash[OUTCOMES] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    ended = report.when == "call" or report.failed
    if ended and item.path.name == "test_onnx.py" and item.originalname == "test_outputs":
        item.config.stash[OUTCOMES][report.outcome] += 1
    return report


def pytest_terminal_summary(terminalreporter, config):
    outcomes = config.stash[OUTCOMES]
    if find_spec("onnx") is None:
        terminalreporter.write_line("ONNX node tests: skipped, the package onnx is not installed")
    if not outcomes:
        return
    from conformance.operators import without

    listed = Counter((case.operator, why) for case, why in without().items())
    for (operator, why), count in sorted(listed.items()):
        terminalreporter.write_line(f"not run: {operator} ({count}): {why}")
    terminalreporter.write_line(
        f"ONNX node tests: {outcomes.total()} run, {outcomes['failed']} failed, "
        f"{listed.total()} listed"
    )
