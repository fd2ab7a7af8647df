"""A step happens whole or not at all, whatever interrupts it; or is left out."""

import importlib
import threading
import time

import numpy as np
import pytest
from test_scheduler_faults import DATA, LAYOUTS, Planned, fresh
from training import adam, everything, flat, mlp, replica_threads, scheduler

import minidp as dp
from minidp.mode import mode
from minidp.parallel import host
from minidp.parallel.exchange import Exchange
from minidp.parallel.inspections import ClipNorm
from minidp.parallel.update import BucketUpdate
from minidp.testing import inject

launching = importlib.import_module("minidp.parallel.launch")


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_callback_that_raises_leaves_whole_steps(layout):
    """It can strike anywhere; what it leaves is what some number of good steps leads to."""
    states = []
    run = fresh(layout)
    states.append(everything(run))
    for x, y in DATA:
        run(x, y)
        states.append(everything(run))

    def watch(progress):
        raise Planned("watch")

    for _ in range(6):
        run = fresh(layout)
        with pytest.raises(Planned):
            run.run(DATA, watch=watch)
        assert replica_threads() == []
        found = everything(run)
        assert found in states
        assert found[-1]["step"] == states.index(found)


def interrupted(monkeypatch, layout, kind, method, rank):
    """What is left when the caller fails while replica ``rank`` pauses in ``method``, in step 4."""
    run, states, pauses, raised = fresh(layout), [], threading.Event(), threading.Event()
    for x, y in DATA[:4]:
        states.append(everything(run))
        run(x, y)
    states.append(everything(run))
    plain = getattr(kind, method)

    def slow(*args):
        here = mode.replica
        if here is not None and (here.step, here.rank) == (4, rank) and not pauses.is_set():
            pauses.set()
            raised.wait(10)
            time.sleep(0.2)  # until the failure is known
        return plain(*args)

    def watch(progress):
        if pauses.is_set():
            raised.set()
            raise Planned

    run, called = fresh(layout), []
    with monkeypatch.context() as patch:
        patch.setattr(kind, method, slow)
        with pytest.raises(Planned):
            run.run(DATA, watch=watch, on_step=lambda progress: called.append(progress.steps))
    last = time.monotonic() + 2  # who had done its part need not have ended
    while replica_threads() and time.monotonic() < last:
        time.sleep(0.001)
    assert replica_threads() == []
    happened = states.index(everything(run))
    assert called == [*range(1, happened + 1)]  # a schedule is where the parameters are
    return happened


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_while_gradients_are_added_leaves_whole_steps(monkeypatch, layout, rank):
    assert interrupted(monkeypatch, layout, Exchange, "finish", rank) in (3, 4)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_commit_ends_however_long_it_takes(monkeypatch, layout, rank):
    monkeypatch.setattr(launching, "GRACE", 0.0)
    assert interrupted(monkeypatch, layout, BucketUpdate, "run", rank) == 4


def test_failures_at_random_moments_leave_whole_steps(monkeypatch):
    """With sleeps at random, between the halves of a commit too."""
    random = np.random.default_rng(0)
    give, wait = Exchange.give, Exchange.wait

    def slow(function):
        def call(*args):
            time.sleep(random.choice([0, 0, 0.001, 0.003]))
            return function(*args)

        return call

    monkeypatch.setattr(Exchange, "give", slow(give))
    monkeypatch.setattr(Exchange, "wait", slow(wait))
    monkeypatch.setattr(host, "SMALL", 16)
    run, states = fresh(LAYOUTS[0]), []
    states.append(everything(run))
    for x, y in DATA:
        run(x, y)
        states.append(everything(run))
    for trial in range(12):
        run = fresh(LAYOUTS[0])

        def watch(progress, most=0.05 * (1 + trial % 2)):
            time.sleep(random.random() * most)
            raise Planned("watch")

        with pytest.raises(Planned):
            run.run(DATA, watch=watch)
        assert everything(run) in states


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("options", [{}, {"loss_scale": 64.0}, {"clip_norm": 0.01},
                                     {"loss_scale": 8.0, "clip_norm": 0.01}], ids=str)  # fmt: skip
def test_the_gradient_of_a_skipped_step_is_seen_but_not_used(layout, capture, options):
    """As PyTorch's GradScaler leaves it: without the loss scale, and not clipped."""

    def seen(run):
        return [None if p.grad is None else p.grad.numpy().copy() for p in run.model.parameters()]

    def gradients(progress):
        found.append((seen(run), flat(run.model)))

    found, run = [], scheduler(mlp(), None, adam, devices=1, **options)
    run.run(DATA[:2])
    run.inspections = [each for each in run.inspections if not isinstance(each, ClipNorm)]
    run(*DATA[2])
    expected = seen(run)
    run = scheduler(mlp(), None, adam, nan="skip", capture=capture, **options, **layout)
    start = dp.default_generator.step
    with inject("nan", replica=1, step=start + 3):
        run.run([*DATA[:2], DATA[2], DATA[3]], on_step=gradients)
    assert run.progress.skipped == 1 and len(found) == 4
    (_, before), (skipped, after), (good, _) = found[1:]
    assert (before == after).all()
    places = [i for i, g in enumerate(skipped) if not np.isfinite(g).all()]
    names = [name for name, _ in run.model.named_parameters()]
    assert [names[i] for i in places] == ["2.bias"] and np.isnan(skipped[places[0]][0])
    skipped[places[0]][0] = expected[places[0]][0]
    for ours, theirs in zip(skipped, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    assert all(np.isfinite(g).all() for g in good)
