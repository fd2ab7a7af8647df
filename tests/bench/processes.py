"""Processes of PyTorch, one for each rank, which wait in a read while others are measured."""

import multiprocessing
import tempfile
from pathlib import Path


class Processes:
    """Runs ``worker(link, rank, size, meeting, *given)`` in ``size`` processes; ``meeting`` is the
    name of a file by which they find each other."""

    def __init__(self, worker, size, *given):
        context = multiprocessing.get_context("spawn")
        self.folder = tempfile.TemporaryDirectory()
        meeting = Path(self.folder.name) / "meeting"
        self.links, self.started = [], []
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(target=worker, daemon=True,
                                      args=(there, rank, size, meeting, *given))  # fmt: skip
            process.start()
            there.close()
            self.links.append(here)
            self.started.append(process)

    def tell(self, what):
        for link in self.links:
            link.send(what)

    def answers(self):
        """What every process says; an error when one has died."""
        return [link.recv() for link in self.links]

    def end(self):
        self.tell(None)
        for process in self.started:
            process.join(20)
        self.folder.cleanup()
