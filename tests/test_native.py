"""A captured step that runs without the interpreter, on memory of its own."""

import gc
import threading
import weakref

import numpy as np
import pytest
from test_capture import MODELS, batches

import minidp as dp
from minidp import nn
from minidp.graph.program import Program, native_calls
from minidp.op import OPS

native = native_calls()
if native is None:
    pytest.skip("compiled functions are switched off", allow_module_level=True)


def rows(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


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
    step = dp.capture(lambda x: dp.linalg.inv(x.exp() + x.exp().tanh()) * 2, fuse=False)
    for _ in range(4):
        step(dp.eye(3))
    text = str(step.last.program.binding).splitlines()
    assert text[0].startswith("4 native calls, ") and text[1] == "  1 exp, 1 tanh, 1 add"
    assert "inv" in text[2]
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


def test_places_named_by_numbers_are_read_natively():
    step = dp.capture(lambda x, i: dp.take_along_dim(x, i, 0) * 2 + x[-1], fuse=False)
    x = dp.arange(6.0).reshape(3, 2)
    for i in range(6):
        index = dp.tensor([[i % 3, 2], [1, -1 - i % 2]])
        expected = dp.take_along_dim(x, index, 0) * 2 + x[-1]
        assert step(x, index).tolist() == expected.tolist()
    assert "1 _take," in str(step.last.program.binding)


def test_a_row_that_a_table_has_not_is_an_error_in_a_replay_too():
    table = dp.arange(6.0).reshape(3, 2)
    step = dp.capture(lambda i: nn.functional.embedding(i, table) * 2, fuse=False)
    for _ in range(4):
        assert step(dp.tensor([2, 0])).tolist() == [[8.0, 10.0], [0.0, 2.0]]
    assert "1 _take," in str(step.last.program.binding)
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range"):
            step(dp.tensor([0, wrong]))


def test_a_decision_that_changes_is_taken_in_python(monkeypatch):
    def body(xp, x):
        return x * 2 if bool(xp.any(x > 10)) else x * 3

    op = OPS["floor"]  # whose body has another decision for the length of this test
    monkeypatch.setattr(op, "body", body)
    monkeypatch.setattr(op, "bare", False)
    monkeypatch.setattr(op, "plain", None)
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


def test_numbers_that_python_gives_are_arrays_natively():
    step = dp.capture(lambda x: (x.argmax().float() * x + dp.cumsum(x, 0)[-1], x.argmin()))
    for i in range(6):
        x = dp.tensor(np.roll(rows(4), i))
        y, place = step(x)
        expected = x.argmax().float() * x + dp.cumsum(x, 0)[-1]
        assert np.allclose(y.numpy(), expected.numpy()) and place.item() == x.argmin().item()
    assert step.last.program.binding is not None


def test_arrays_of_other_layouts_from_python_are_fitted():
    leaf = dp.ones(4, 3, requires_grad=True)
    step = dp.capture(lambda: (leaf * 2).sum().backward())
    for _ in range(4):
        step()
    leaf.grad = dp.Tensor(np.asfortranarray(leaf.grad.numpy()))
    step()
    assert leaf.grad.tolist() == [[10.0] * 3] * 4
    leaf.node.grad = dp.ones(4, 3).double()  # which the setter refuses
    with pytest.raises(ValueError, match=r"float64\[4, 3\] where the captured step had float32"):
        step()
