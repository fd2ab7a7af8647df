"""A captured step that runs without the interpreter: notes, tables, memory, threads that meet."""

import gc
import os
import threading
import time

import numpy as np
import pytest
from cases import names, samples
from test_capture import MODELS, batches

import minidp as dp
from minidp import nn
from minidp.appended import append, append_note
from minidp.bound import Binding
from minidp.errors import GraphError
from minidp.line import COMPUTED, Line, Value
from minidp.noted import FirstRun, computed
from minidp.op import OPS
from minidp.placing import Placing
from minidp.program import Program, constants_of, native_calls

native = native_calls()
if native is None:
    pytest.skip("compiled functions are switched off", allow_module_level=True)


def noted(function, *arrays, check=True):
    """The results and notes of ``function(xp, *arrays)``; whether the notes are believed."""
    traced = [native.origin(a) if isinstance(a, np.ndarray) else a for a in arrays]
    results, notes = native.note(function, traced)
    good = native.verified(notes, traced, results, lambda *given: function(np, *given))
    return results, notes, good


def table(notes, arrays, size=0):
    """A table of notes on the memory that they were taken on."""
    known = {}

    def place(origin, note=0):
        return known.setdefault(id(origin), (len(known), origin))[0], 0

    plan = native.Plan(notes, place)
    addresses = [native.low(origin) for _, origin in known.values()]
    return native.Bound(plan, addresses, 0, [(0, len(plan.entries))])


def rows(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# Notes


FUNCTIONS = {
    "product": lambda xp, x: xp.matmul(x, x.T),
    "many products": lambda xp, x: xp.matmul(x[None] * xp.ones((3, 1, 1), x.dtype), x.T),
    "in place": lambda xp, x: xp.add(y := x * 2, 1, out=y),
    "strides": lambda xp, x: xp.exp(x[::-1, ::2]).T,
    "broadcast": lambda xp, x: xp.broadcast_to(x[:, None], (5, 4, 7)) - x[:, None, :1],
    "sum of all": lambda xp, x: xp.sum(x),
    "sums": lambda xp, x: x.sum(axis=0) + x[:, :7].sum(axis=1, keepdims=True),
    "extremes": lambda xp, x: x.max(axis=1, keepdims=True) - x.min(axis=0),
    "choice": lambda xp, x: xp.where(x > 0, x, xp.zeros((), x.dtype)),
    "other dtypes": lambda xp, x: (x > 0).astype(x.dtype) + (x.astype("int64") % 3),
    "joined": lambda xp, x: xp.concatenate([x, x[:2] * 2], axis=0),
    "stacked": lambda xp, x: xp.stack([x[0], x[1]], axis=-1),
    "copied": lambda xp, x: xp.array(x.T, order="C", copy=True),
    "another shape": lambda xp, x: xp.reshape(x.T, (5, 7)),
    "a part": lambda xp, x: placed(xp.zeros((9, 7), x.dtype), x),
    "a question": lambda xp, x: x * 2 if bool(xp.any(x > 100)) else x * 3,
    "surrounded": lambda xp, x: xp.pad(x, ((1, 0), (2, 3)), constant_values=0.5),
    "triangle": lambda xp, x: xp.tril(x),
    "views": lambda xp, x: xp.moveaxis(x[None], 0, -1),
}


def placed(y, x):
    y[2:7] = x
    return y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_numpy_does_is_noted(name, dtype):
    _, notes, good = noted(FUNCTIONS[name], rows(5, 7, dtype=dtype))
    assert notes.problem is None and good


REFUSED = {
    "a value": lambda xp, x: x * float(np.asarray(x).flat[0]),
    "an order": lambda xp, x: xp.argsort(x, axis=0) * 1,
    "a place": lambda xp, x: xp.argmax(x, axis=0),
    "a running sum": lambda xp, x: xp.cumsum(x, axis=0) * 1,
    "places": lambda xp, x: x[xp.asarray([0, 1])] * 1,
    "what is read": lambda xp, x: x * len(x.tolist()),
    "a piece outside": lambda xp, x: x + np.array(x)[0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_notes_is_refused(name):
    assert not noted(REFUSED[name], rows(5, 7))[2]


def test_every_op_is_noted_truly_or_not_at_all():
    """On the samples of `cases`; those that stay Python are few, and known."""
    python = {}
    for name in names():
        op = OPS[name]
        for sample in samples(name) if not (op.exchanges or op.writes) else ():
            found = _of_sample(op, sample)
            python[name] = python.get(name, 0) + (not found)
    whole = [name for name in python if not python[name]]
    assert len(whole) > 100, sorted(set(python) - set(whole))
    assert {"linear", "relu", "softmax", "dropout", "conv2d", "max_pool2d", "batch_norm"} <= {
        *whole, *(name for name in python if python[name] < len(samples(name)))
    }  # fmt: skip


def _of_sample(op, sample):
    arrays = [a.astype("float32") if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
              for a in sample.arrays]  # fmt: skip
    values = {i: Value(i, a.shape, a.dtype, COMPUTED)
              for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}  # fmt: skip
    given = tuple(values.get(i, a) for i, a in enumerate(arrays))
    inputs, constants = op.bind(given, dict(sample.constants))
    function = computed(Line(op, [*inputs], constants, []), [*values.values()])
    with np.errstate(all="ignore"):
        return noted(function, *[arrays[i] for i in values])[2]


def test_results_are_those_of_the_notes_and_errors_are_not_hidden():
    x = rows(4, 3)
    results, notes, good = noted(lambda xp, x: xp.tanh(x) * 2, x)
    assert good and results[0].tobytes() == (np.tanh(x) * 2).tobytes()
    assert [note.text for note in notes.taken] == ["tanh", "multiply"]
    assert noted(lambda xp, x: 1 / 0, x)[1].problem.startswith("ZeroDivisionError")


# Bound steps


def step_of(model, **options):
    def step(x, y):
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y, ignore_index=4)
        loss.backward()
        return loss

    return dp.capture(step, **options)


def bound(name, fuse=False, calls=3):
    dp.manual_seed(0)
    make, kind = MODELS[name]
    model = make()
    step, data = step_of(model, fuse=fuse), batches(kind, 12, sizes=(6,))
    for x, y in data[:calls]:
        step(dp.tensor(x), dp.tensor(y))
    return step.last.program, model, data


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_models_run_natively_and_give_the_bytes_of_python(name, fuse):
    program, model, data = bound(name, fuse)
    reasons = {each.reason for each in program.binding.placing.recording.lines}
    assert reasons <= {"", "it is Python"}
    assert len(program.binding.stretches) <= 2
    python = Program(program.graph)
    python.bindable = False
    for x, y in data[3:9]:
        state, found = dp.get_rng_state(), []
        for each in (program, python):
            dp.set_rng_state(state)
            (loss,) = each([x, y])
            found.append([loss.array.tobytes(), *(p.grad.array.tobytes()
                                                  for p in model.parameters())])  # fmt: skip
        assert found[0] == found[1]


def test_a_binding_says_what_runs_natively():
    step = dp.capture(lambda x: dp.cumsum(x.exp() + x.exp().tanh(), 0) * 2, fuse=False)
    for _ in range(4):
        step(dp.ones(3))
    text = str(step.last.program.binding).splitlines()
    assert text[0].startswith("4 native calls, ") and text[1] == "  1 exp, 1 tanh, 1 add"
    assert text[2].endswith("(add.accumulate)") and "cumsum" in text[2]
    assert text[3] == "  1 multiply"


def test_what_was_given_away_stays_as_it_was():
    program, model, data = bound("mlp")
    kept = []
    for x, y in data:
        (loss,) = program([x, y])
        arrays = [loss.array, *(p.grad.array for p in model.parameters())]
        kept.append([(a, a.copy()) for a in arrays])
    assert all((a == copy).all() for each in kept for a, copy in each)
    assert len({a.ctypes.data for each in kept for a, _ in each}) == len(kept) * len(kept[0])


def test_views_of_what_was_given_away_keep_it_too():
    step = dp.capture(lambda x: (x * 2).reshape(2, 3).T, fuse=False)
    views = [step(dp.ones(6) * i).array[1:, ::-1] for i in range(8)]
    assert step.last.program.binding is not None
    assert [v.max() for v in views] == [2.0 * i for i in range(8)]


def test_memory_is_used_again_when_nobody_has_it():
    step = dp.capture(lambda x: x.exp() + 1, fuse=False)
    x = dp.ones(1000)
    for _ in range(4):
        step(x)
    addresses = {step(x).array.ctypes.data for _ in range(10)}
    assert len(addresses) == 1


def test_programs_that_do_not_run_let_large_memory_go():
    step = dp.capture(lambda x: (x.exp() + 1).sum(), fuse=False)
    for n in (2**22, 3):
        for _ in range(4):
            step(dp.ones(n))
        if n > 3:
            large = step.last.program
            assert large.nbytes() > 2**24
    assert large.nbytes() == 0 and step.last.program.nbytes() > 0
    assert step(dp.ones(2**22)).item() == pytest.approx(2**22 * (1 + np.e), rel=1e-5)


def test_a_step_and_its_copies_are_let_go(no_collector):
    import weakref

    step = dp.capture(lambda x: x.exp() + 1, fuse=False)
    for _ in range(4):
        step(dp.ones(10))
    binding = weakref.ref(step.last.program.binding)
    del step
    gc.collect()
    assert binding() is None


def test_views_of_arguments_and_of_what_is_outside():
    constant = dp.arange(3.0)
    step = dp.capture(lambda x: (x[1:], constant[1:], (x * 2)[1:], x, (x * 3)[:1]), fuse=False)
    for i in range(6):
        x = dp.ones(3) * i
        a, b, c, d, e = step(x)
        assert e.tolist() == [3.0 * i] and (i < 4 or e.array.base.nbytes == 12)
        assert (a.tolist(), b.tolist(), c.tolist()) == ([i, i], [1.0, 2.0], [2.0 * i] * 2)
        assert all(np.shares_memory(y.array, x.array) for y in (a, d))


def test_a_note_that_stops_is_run_again_in_python():
    """Its line raises, or does something else now: then the table goes on behind it."""
    step = dp.capture(lambda a, b: (dp.floor_divide(a, b) + 1) * 2, fuse=False)
    a, b = dp.tensor([7, 9]), dp.tensor([2, 3])
    for _ in range(4):
        assert step(a, b).tolist() == [8, 8]
    assert step.last.program.binding is not None
    with pytest.raises(ZeroDivisionError) as caught:
        step(a, dp.tensor([2, 0]))
    assert "in the captured step, at v0 = floor_divide(x0, x1)" in caught.value.__notes__
    assert step(a, b).tolist() == [8, 8]


def test_a_decision_that_changes_is_taken_in_python(monkeypatch):
    def body(xp, x):
        return x * 2 if bool(xp.any(x > 10)) else x * 3

    op = OPS["floor"]  # whose body has another decision for the length of this test
    monkeypatch.setattr(op, "body", body)
    monkeypatch.setattr(op, "bare", False)
    step = dp.capture(lambda x: op(x) + 1, fuse=False)
    for _ in range(4):
        assert step(dp.ones(2)).tolist() == [4.0, 4.0]
    assert step.last.program.binding is not None
    assert step(dp.ones(2) * 20).tolist() == [41.0, 41.0]
    assert step(dp.ones(2)).tolist() == [4.0, 4.0]


def test_an_error_sets_the_gradients_that_came_before():
    p = dp.ones(2, requires_grad=True)
    labels = dp.tensor([0, 1])

    def step(x, y):
        p.grad = None
        (p * x).sum().backward()
        return nn.functional.cross_entropy(x, y)

    captured = dp.capture(step, fuse=False)
    for _ in range(4):
        captured(dp.ones(2, 2), labels)
    with pytest.raises(ValueError, match="class 7"):
        captured(dp.ones(2, 2) * 3, dp.tensor([0, 7]))
    assert p.grad.tolist() == [6.0, 6.0]


def test_threads_run_copies_of_their_own():
    step = dp.capture(lambda x: ((x @ x.T).exp() + 1).sum(), fuse=False)
    arrays = [rows(6, 6, seed=i) for i in range(4)]
    for array in arrays:
        step(dp.tensor(array))
    expected, wrong = [step(dp.tensor(a)).item() for a in arrays], []

    def work(place):
        for _ in range(300):
            if step(dp.tensor(arrays[place])).item() != expected[place]:
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and 1 <= len(step.last.program.binding.free) <= 4


def test_many_batches_in_one_call():
    program, _, data = bound("mlp")
    binding = program.binding
    assert binding.whole
    copy = binding.take()
    copy.renew()
    losses = np.zeros(len(data), np.float32)
    table = binding.rows(copy, data)
    number = binding.placing.numbers[binding.placing.memory(program.graph.results[0])]
    cells = [losses[i : i + 1] for i in range(len(data))]
    table[:, number] = [id(cell) for cell in cells]
    assert copy.bound.run(rows=table) == -1 and copy.bound.rounds_done() == len(data) - 1
    assert losses.tolist() == [program([x, y])[0].item() for x, y in data]


def test_arrays_of_other_layouts_from_python_are_fitted():
    leaf = dp.ones(4, 3, requires_grad=True)
    step = dp.capture(lambda: (leaf * 2).sum().backward())
    for _ in range(4):
        step()
    leaf.grad = dp.Tensor(np.asfortranarray(leaf.grad.numpy()))
    step()
    assert leaf.grad.tolist() == [[10.0] * 3] * 4
    leaf.grad = dp.ones(4, 3).double()
    with pytest.raises(ValueError, match=r"float64\[4, 3\] where the captured step had float32"):
        step()


# Memory


@pytest.mark.parametrize("seed", range(20))
def test_places_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    spans = [(a, a + int(rng.integers(0, 6)), int(rng.integers(1, 5000)))
             for a in rng.integers(0, 40, 60).tolist()]  # fmt: skip
    offsets, total = native.placed(spans)
    padded = [(a, b, -(-size // 64) * 64) for a, b, size in spans]
    for i, (a, b, size) in enumerate(padded):
        assert offsets[i] % 64 == 0 and offsets[i] + size <= total
        for j, (c, d, other) in enumerate(padded[:i]):
            apart = offsets[i] + size <= offsets[j] or offsets[j] + other <= offsets[i]
            assert apart or b < c or d < a
    bound = max(sum(s for a, b, s in padded if a <= t <= b) for t in range(50))
    assert bound <= total <= 1.5 * bound


# Meetings


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
        notes = [*first.taken, meeting.note(), *last.taken, meeting.note()]
        tables.append(table(notes, None))
    weights[:] = 0
    assert run_all(tables, 200) == [-1] * size
    assert weights.tolist() == [-0.5 * 6 * 200] * 6 and not meeting.stopped


def test_a_meeting_ends_when_it_is_stopped_or_somebody_is_missing():
    meeting = native.Meeting(2, seconds=0.2, spins=10)
    alone = table([meeting.note()], None)
    began = time.monotonic()
    assert alone.run() == 0 and meeting.stopped and 0.1 < time.monotonic() - began < 20
    assert table([meeting.note()], None).run() == 0  # nobody waits there any more
    other = native.Meeting(2)
    thread = threading.Thread(target=lambda: (time.sleep(0.1), other.stop()))
    thread.start()
    assert table([other.note()], None).run() == 0
    thread.join()


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
    append_note(placing, meeting.note())
    append(placing, add, [], buckets)
    append_note(placing, meeting.note())
    append(placing, update, [], [buckets[0], *(p.array for p in model.parameters())])
    append_note(placing, meeting.note())
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
    with pytest.raises(GraphError, match="natively in a captured step: add"):
        append(placing, lambda xp, x: xp.cumsum(x), [], [np.ones(3)])


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_a_table_does_not_hold_the_interpreter():
    meeting = native.Meeting(2, seconds=20)
    tables = [table([meeting.note()], None) for _ in range(2)]
    assert run_all(tables, 1000) == [-1, -1]  # one alone would wait for ever
