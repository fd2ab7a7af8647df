"""A captured step of the scheduler as tables that run many steps in one native call per replica.

Behind forward and backward a replica's table has what the scheduler does in Python else: it packs
gradients into buckets, meets the others, adds its slice of all, updates it, and meets them again.
The kernels, and the order of the sums, are those of the eager step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minidp.device import cores
from minidp.errors import GraphError
from minidp.functional.norm import check_count
from minidp.graph.line import InReplica, Line, Value
from minidp.graph.noted import Noted, Recording
from minidp.graph.program import Program, native_calls
from minidp.parallel.ends import BucketEnd
from minidp.parallel.exchanged import Exchanges, is_exchange
from minidp.parallel.followers import Follower, Followers, follower_of
from minidp.parallel.inspections import require_finite_loss
from minidp.parallel.native_copies import Copies, apart, zeros
from minidp.parallel.native_table import MOST, Table
from minidp.parallel.native_update import Update, runs_of, updates_of
from minidp.parallel.total import Total
from minidp.tensor import wrap
from minidp.types import Array

NEEDLESS = BucketEnd._start, require_finite_loss, check_count
"""What lines of Python need not do: it is done otherwise, or depends on shapes alone."""


@dataclass
class Stripped:
    """The lines of a captured step that run natively, and what the others were.

    ``packs`` gave the cotangents of a bucket; ``held`` are arrays that Python found, by the number
    of the bucket that they are of, and of the parameter, or -1 for all of the bucket; ``followers``
    are statistics that follow when a step is accepted."""

    recording: Recording
    packs: list[Line] = field(default_factory=list)
    held: dict[Value, tuple[int, int]] = field(default_factory=dict)
    followers: list[Follower] = field(default_factory=list)


def stripped(recording: Recording) -> Stripped:
    """A GraphError where a line has to stay Python that is none of the scheduler's."""
    graph = recording.graph
    native, python = list[Noted](), list[Line]()
    for each in recording.lines:
        if each.notes is not None or is_exchange(each.line):
            native.append(each)
        else:
            python.append(each.line)
    result = Stripped(Recording(graph, native, recording.layouts, recording.taken, recording.cells))
    for line in python:
        function = getattr(line.call, "__func__", line.call)
        if function is BucketEnd._pack:
            result.packs.append(line)
        elif line.op is not None and line.op.name in ("broadcast", "unpack"):
            index, first = line.constants["bucket"].bucket.index, -(line.op.name == "broadcast")
            result.held |= {y: (index, i) for i, y in enumerate(line.outputs, first)}
        elif (follower := follower_of(line)) is not None:
            result.followers.append(follower)
        elif function not in NEEDLESS:
            raise GraphError(f"{line} stays Python")
    keys = [key for key in graph.keys if not isinstance(key.generator, InReplica)]
    if keys or graph.gradients() or graph.copied() or len(graph.results) != 1:
        raise GraphError("it has gradients, constants or random numbers that are made in Python")
    return result


class GradientMemory:
    """The memory in which gradients are added, for steps of all kinds: each replica's buckets, and
    the totals. One replica's gradients are the totals. Of replicas that work ``apart`` gradients
    lie in two pieces of memory in turn: the next step does not write to what the other one still
    reads."""

    def __init__(self, ends: Sequence[Sequence[BucketEnd]]) -> None:
        self.apart = apart(ends)
        self.gradients = [
            [[zeros(end) for _ in range(1 + self.apart)] for end in own]
            for own in (ends if len(ends) > 1 else ())
        ]
        self.totals = [Total(end.bucket, end.device) for end in ends[0]]


class NativeStep:
    """The tables of all replicas for one kind of batch, and the memory that they share.

    A GraphError if it cannot be made of these programs.
    """

    def __init__(
        self, programs: Sequence[Program], ends: Sequence[Sequence[BucketEnd]], optimizer: Any,
        starts: Sequence[Sequence[int]], leads: int, finite: bool, deadline: float,
        memory: GradientMemory,
    ) -> None:  # fmt: skip
        """``leads`` is the replica that does what happens once for all."""
        self.seconds = 0.0
        """What a step took last; 0: none was made."""
        self.starts = starts
        """For each replica, and array of a batch, at which byte its rows begin."""
        self.programs, self.ends, self.optimizer = list(programs), ends, optimizer
        self.finite, self.native, size = finite, native_calls(), len(ends)
        bindings = [program.binding for program in programs]
        if any(binding is None for binding in bindings):
            raise GraphError("it is not bound")
        found = [stripped(binding.placing.recording) for binding in bindings if binding is not None]
        spins = {} if size <= cores() else {"spins": 50}
        self.meeting = self.native.Meeting(size, deadline, **spins)
        exchanges = Exchanges([each.recording for each in found], self.native, self.meeting)
        for rank, each in enumerate(found):
            each.recording = exchanges.noted(each.recording, rank)
        self.followers = Followers([each.followers for each in found], leads)
        self.gradients, self.totals, self.apart = memory.gradients, memory.totals, memory.apart
        self.copies = [Copies(self.apart and rank > 0) for rank in range(size)]
        self.cells = [zeros(end) for end in ends[0]]
        """Stand for the totals, of which each call names others."""
        self.given = [[*map(zeros, own)] for own in ends] if size > 1 else [self.cells]
        """Stand for each replica's gradients."""
        packs = [pack for each in found for pack in each.packs]
        reached = {(pack.call.__self__.bucket.index, i)  # type: ignore[union-attr]
                   for pack in packs for i in pack.inputs[0]}  # fmt: skip
        self.used = [[(end.bucket.index, i) in reached for i in range(len(end.bucket.parameters))]
                     for end in ends[0]]  # fmt: skip
        self.updates = updates_of(optimizer, ends[0], self.used, MOST)
        self.keys = [np.zeros((MOST, 4), np.uint64) for _ in found[0].recording.cells]
        self.tables = [Table(self, rank, each) for rank, each in enumerate(found)]
        del self.cells, self.given
        for program in programs:
            program.let_go()

    def fits(self, finite: bool) -> bool:
        """Whether inspections and the update are the same, but for numbers: then it
        knows what the optimiser's state has seen."""
        found = runs_of(self.optimizer, self.ends[0], self.used)
        same = finite is self.finite and len(found) == len(self.updates)
        same = same and self.followers.same()
        return same and all(map(Update.follows, self.updates, found))

    def draw(self, seed: int, first: int, count: int) -> None:
        """Set the random keys of steps from the number ``first`` on; see ``noted.words_of``."""
        if not self.keys:
            return
        steps = np.arange(first, first + count) & 0xFFFFFFFF
        for draw, words in enumerate(self.keys):
            words[:count, :3] = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, draw
            words[:count, 3] = steps

    def take(self, count: int) -> list[list[list[Array]]]:
        """Totals for the next steps, where nobody has them: of replicas that work apart, in two
        pieces of memory in turn, so that a step that stops leaves those of the one before."""
        taken = [total.several(1 + self.apart) for total in self.totals]
        for table, copies in zip(self.tables, self.copies, strict=True):
            table.name_totals(taken, count)
            copies.renew()
        return taken

    def commit(
        self, steps: int, taken: Sequence[Sequence[list[Array]]], whole: bool
    ) -> None:  # fmt: skip
        """What so many steps leave behind: gradients, and the optimiser's state. Gradients are
        forgotten unless the sums are ``whole``: a sum that was not finite came later."""
        for end, reached, pieces in zip(self.ends[0], self.used, taken, strict=True):
            _, *views = pieces[(steps - 1) % len(pieces)]
            for p, view, there in zip(end.bucket.parameters, views, reached, strict=True):
                p.grad = wrap(view) if there and whole else None
                p.changed()
        for update in self.updates:
            update.advance(steps)
        self.followers.commit(steps)
