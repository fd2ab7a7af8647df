"""What the examples show of a run while it goes on: fingerprints, a timeline, a log."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import minidp as dp
from minidp.errors import ReplicaError
from minidp.examples import command_line as cl
from minidp.io.whole import write_whole
from minidp.parallel.events import Recording
from minidp.parallel.launch import check_store
from minidp.parallel.timeline import step_table, summary, write_page, write_trace

WARM_UP, RECORDED = 5, 50
"""Steps before those that are recorded, in which kernels are compiled; steps that are recorded."""


def write_text(recording: Recording, path: Path) -> None:
    """A summary of all steps, and the table of the middle one."""
    write_whole(path, f"{summary(recording)}\n\n{step_table(recording)}\n".encode())


WRITERS: dict[str, Callable[[Recording, Path], None]] = {
    ".html": write_page, ".json": write_trace, ".txt": write_text,
}  # fmt: skip


def store(name: str) -> str:
    """The store with this name, which may be MXNet's."""
    try:
        return check_store(name)
    except ReplicaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_options(options: argparse.ArgumentParser) -> None:
    """What can be watched."""
    options.add_argument("--fingerprint", type=cl.positive(int), metavar="N",
                         help="print a hash of all parameters each N steps")  # fmt: skip
    options.add_argument("--timeline", metavar="FILE", type=Path,
                         help=f"record {RECORDED} steps: out.html, out.json (Chrome trace) or "
                              "out.txt")  # fmt: skip
    options.add_argument("--log", metavar="FILE", type=Path,
                         help="add a line of JSON a second: speed, shares, memory")  # fmt: skip


def check_files(options: argparse.Namespace) -> None:
    """Refuse, before anything runs, files that could not be written."""
    cl.check_files(options)
    path = options.timeline
    if path is not None and path.suffix not in WRITERS:
        cl.complain(f"--timeline {path}: expected a name that ends in {', '.join(WRITERS)}")
    for option in ("timeline", "log"):
        path = getattr(options, option)
        if path is not None and path.exists() and not path.is_file():
            cl.complain(f"--{option} {path}: this is no file; give the name of one")
        if path is not None and not cl.writable(path.parent):
            cl.complain(f"--{option} {path}: the folder {path.parent} cannot be written to")


class Steps:
    """Looks at a run after each step of an epoch, which has ``count`` of them.

    In the ``first`` epoch some steps are recorded, and written when the epoch is over.
    """

    def __init__(
        self, options: argparse.Namespace, train: Any, count: int, first: bool,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.each, self.train, self.say = options.fingerprint, train, say
        self.path: Path | None = options.timeline if first else None
        self.begin = min(WARM_UP, count - 1)
        self.recording: Recording | None = None
        self._open = ExitStack()

    @property
    def watch(self) -> Callable[[Any], None] | None:
        """What is to be called after each step, if anything: the others wait for it."""
        return None if self.each is None and self.path is None else self.after

    def __enter__(self) -> Steps:
        self._record(0)
        return self

    def after(self, progress: Any) -> None:
        """A step is over."""
        number = dp.default_generator.step
        if self.each is not None and number % self.each == 0:
            self.say(f"step {number}: fingerprint {self.train.fingerprint()}")
        self._record(progress.steps)

    def _record(self, done: int) -> None:
        if self.path is not None and done == self.begin:
            self.recording = self._open.enter_context(self.train.record())
        elif done == self.begin + RECORDED:
            self._open.close()

    def __exit__(self, *failure: Any) -> None:
        self._open.__exit__(*failure)
        if self.path is not None and self.recording is not None:
            WRITERS[self.path.suffix](self.recording, self.path)
            self.say(f"wrote {self.path}")
