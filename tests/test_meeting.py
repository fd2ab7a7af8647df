"""Threads that run tables of native calls meet, add up and update without the interpreter."""

import os
import threading
import time

import numpy as np
import pytest
from test_capture import MODELS, batches
from test_native import bound, step_of

import minidp as dp
from minidp import nn
from minidp.errors import GraphError
from minidp.graph.appended import append, append_note
from minidp.graph.bound import Binding
from minidp.graph.noted import FirstRun
from minidp.graph.placing import Placing
from minidp.graph.program import constants_of, native_calls

native = native_calls()
if native is None:
    pytest.skip("compiled functions are switched off", allow_module_level=True)


def table(notes):
    """A table of notes on the memory that they were taken on."""
    known = {}

    def place(origin, note=0):
        return known.setdefault(id(origin), (len(known), origin))[0], 0

    plan = native.Plan(notes, place)
    addresses = [native.low(origin) for _, origin in known.values()]
    return native.Bound(plan, addresses, 0, [(0, len(plan.entries))])


def run_all(tables, rounds):
    """Run each table in a thread of its own; what ``run`` gave."""
    given = [None] * len(tables)
    empty = np.zeros((rounds, 0), np.int64)

    def work(place):
        given[place] = tables[place].run(rows=empty)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(tables))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return given


@pytest.mark.parametrize("spins", [0, 4000])
def test_replicas_meet_add_and_update_without_python(spins):
    size, meeting = 3, native.Meeting(3, spins=spins)
    gradients = [np.full(6, r + 1, "float64") for r in range(size)]
    weights, tables = np.zeros(6), []
    traced = [native.origin(g) for g in gradients]
    shared = native.origin(weights)
    for rank in range(size):
        part = slice(2 * rank, 2 * rank + 2)

        def reduce(xp, a, b, c, w, part=part):
            a[part] += b[part]
            a[part] += c[part]
            w[part] -= 0.5 * a[part]
            return w

        def compute(xp, g, rank=rank):
            g[...] = rank + 1
            return g

        _, first = native.note(compute, [traced[rank]])
        _, last = native.note(reduce, [*traced, shared])
        assert first.problem is None and last.problem is None
        notes = [*first.taken, meeting.note(rank), *last.taken, meeting.note(rank)]
        tables.append(table(notes))
    weights[:] = 0
    assert run_all(tables, 200) == [-1] * size
    assert weights.tolist() == [-0.5 * 6 * 200] * 6 and not meeting.stopped


def test_a_meeting_ends_when_it_is_stopped_or_somebody_is_missing():
    meeting = native.Meeting(2, seconds=0.2, spins=10)
    alone = table([meeting.note(0)])
    began = time.monotonic()
    assert alone.run() == 0 and meeting.stopped and 0.1 < time.monotonic() - began < 20
    assert table([meeting.note(1)]).run() == 0  # nobody waits there any more
    other = native.Meeting(2)
    thread = threading.Thread(target=lambda: (time.sleep(0.1), other.stop()))
    thread.start()
    assert table([other.note(0)]).run() == 0
    thread.join()


@pytest.mark.parametrize("spins", [0, 10**9])
def test_how_long_a_thread_has_waited_is_counted(spins):
    meeting = native.Meeting(2, spins=spins)
    tables = [table([meeting.note(rank)]) for rank in range(2)]
    threads = [threading.Thread(target=each.run) for each in tables]
    threads[1].start()
    time.sleep(0.2)
    assert meeting.came.tolist() == [0, 1]
    threads[0].start()
    for thread in threads:
        thread.join()
    first, second = meeting.waited / 1e9
    assert first < 0.1 and 0.15 < second < 20
    meeting.reset()
    assert meeting.waited.tolist() == [0, 0]


def test_a_meeting_that_is_asked_to_end_takes_place_for_all_or_none():
    for _ in range(30):
        meeting, seen = native.Meeting(2, seconds=20, spins=10), [0, 0]
        counts, tables = np.zeros(2, np.int64), []
        for rank, count in enumerate(map(native.origin, (counts[:1], counts[1:]))):
            _, notes = native.note(lambda xp, c: xp.add(c, 1, out=c), [count])
            tables.append(table([meeting.note(rank), *notes.taken]))
        counts[:] = 0
        timer = threading.Timer(0.002, meeting.ask)
        timer.start()
        seen = run_all(tables, 10**6)
        timer.join()
        assert seen == [0, 0] and counts[0] == counts[1] and meeting.stopped


def replica(model, rank, size, buckets, meeting, lr):
    """A step of a replica that stays in native code: forward, backward, packing, the sum of its
    slice over replicas, the update of that, with a meeting before and behind the sum."""
    step = step_of(model, fuse=False)
    for x, y in batches("rows", 2, sizes=(6,)):
        step(dp.tensor(x), dp.tensor(y))
    first = FirstRun(step.graph, native, constants_of(step.graph))
    first.run(batches("rows", 1, sizes=(6,))[0])
    placing = Placing(first.recording, native)
    leaves = [line for line in step.graph.lines if line.node is not None]
    order = [next(i for i, p in enumerate(model.parameters()) if p.node is line.node)
             for line in leaves]  # fmt: skip
    starts = np.cumsum([0, *[p.array.size for p in model.parameters()]]).tolist()

    def pack(xp, *given):
        *gradients, bucket = given
        for place, g in zip(order, gradients, strict=True):
            bucket[starts[place] : starts[place + 1]] = g.reshape(-1)

    def add(xp, *parts):
        parts = [part[rank::size] for part in parts]
        parts[0] += parts[1]
        parts[0] *= -lr

    def update(xp, total, *parameters):
        for place, p in enumerate(parameters):
            if place % size == rank:
                p += total[starts[place] : starts[place + 1]].reshape(p.shape)

    append(placing, pack, [line.inputs[0] for line in leaves], [buckets[rank]])
    append_note(placing, meeting.note(rank))
    append(placing, add, [], buckets)
    append_note(placing, meeting.note(rank))
    append(placing, update, [], [buckets[0], *(p.array for p in model.parameters())])
    append_note(placing, meeting.note(rank))
    binding = Binding(placing)
    assert binding.whole
    return binding


def test_replicas_train_in_native_code_over_many_batches():
    size, lr, steps = 2, np.float32(0.05), 60
    data = [batches("rows", steps, sizes=(6,)), batches("rows", steps, sizes=(6,))[::-1]]

    def fresh():
        dp.manual_seed(0)
        return MODELS["mlp"][0]()

    eager, model = fresh(), fresh()
    for shares in zip(*data, strict=True):
        found = []
        for x, y in shares:
            eager.zero_grad()
            scores = eager(dp.tensor(x))
            nn.functional.cross_entropy(scores, dp.tensor(y), ignore_index=4).backward()
            found.append([p.grad.array.copy() for p in eager.parameters()])
        for p, a, b in zip(eager.parameters(), *found, strict=True):
            p.array[...] += (a + b) * -lr
    count = sum(p.array.size for p in model.parameters())
    buckets = [np.zeros(count, np.float32) for _ in range(size)]
    meeting, tables = native.Meeting(size, seconds=30), []
    replicas = [replica(model, rank, size, buckets, meeting, lr) for rank in range(size)]
    for p, q in zip(model.parameters(), fresh().parameters(), strict=True):
        p.array[...] = q.array
    for binding, share in zip(replicas, data, strict=True):
        copy = binding.take()
        copy.renew()
        tables.append((copy, binding.rows(copy, share)))
    threads = [threading.Thread(target=copy.bound.run, kwargs={"rows": table})
               for copy, table in tables]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not meeting.stopped
    assert all(copy.bound.rounds_done() == steps - 1 for copy, _ in tables)
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        assert p.array.tobytes() == q.array.tobytes()


def test_what_is_appended_must_be_noted():
    program, _, _ = bound("mlp")
    placing = Placing(program.binding.placing.recording, native)
    with pytest.raises(GraphError, match=r"captured step: ndarray\.cumsum"):
        append(placing, lambda xp, x: xp.cumsum(x), [], [np.ones(3)])


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_a_table_does_not_hold_the_interpreter():
    meeting = native.Meeting(2, seconds=20)
    tables = [table([meeting.note(rank)]) for rank in range(2)]
    assert run_all(tables, 1000) == [-1, -1]  # one alone would wait for ever


@pytest.mark.parametrize("size", [1, 16, 1000])
def test_lines_that_are_taken_or_asked_for_keep_what_they_hold(size):
    held = [np.arange(size, dtype="float32") + place for place in range(2)]
    before = [each.copy() for each in held]
    origins = [native.origin(each) for each in held]
    tables = [
        table([native.taken(origins[1 - place], 0, 4 * size),
               native.taken(origins[1 - place], 4 * (size // 2), 4 * (size - size // 2)),
               native.fetched(origins[place], 0, 4 * size)])
        for place in range(2)
    ]
    assert run_all(tables, 500) == [-1, -1]
    assert all(map(np.array_equal, held, before))
