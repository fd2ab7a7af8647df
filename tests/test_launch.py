"""Programs of one replica: what they are given, what they hand back, and how they end."""

import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from training import batches, distance, flat, mlp, replica_threads, scheduler, sgd

import minidp as dp
from minidp import Tensor, nn, optim
from minidp.backend.cpu import _controller, blas_threads
from minidp.errors import ReplicaError
from minidp.mode import mode

DATA = batches(12, 6)


def train(world, model, loader, optimizer=None):
    net = world.replicate(model)
    own = optimizer or sgd(net.parameters())
    for x, y in world.shard(loader):
        loss = nn.CrossEntropyLoss()(net(x), y)
        own.zero_grad()
        loss.backward()
        own.step()
    return {k: v.clone().numpy() for k, v in own.state_dict()["state"][0].items()}


LAYOUTS = [{"devices": 1}, {"devices": 2}, {"devices": 3, "store": "device"},
           {"devices": 2, "replicas": 4, "store": "device"}]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_a_hand_written_program_is_a_scheduler(layout, shared):
    model, other = mlp(), mlp()
    optimizer = sgd(model.parameters()) if shared else None
    states = dp.launch(train, args=(model, DATA, optimizer), **layout)
    run = scheduler(other, devices=1)
    run.run(DATA)
    assert distance(flat(model), flat(other)) < 1e-12
    expected = run.optimizer.state_dict()["state"][0]["momentum_buffer"].numpy()
    assert all(distance(s["momentum_buffer"], expected) < 1e-12 for s in states)


def test_an_optimiser_may_have_groups_and_leave_parameters_out():
    model, other = mlp(), mlp()

    def groups(net):
        ends = list(net.parameters())
        return optim.SGD([{"params": ends[:1], "lr": 0.01}, {"params": ends[2:]}], lr=0.3)

    def program(world):
        net = world.replicate(model)
        optimizer = groups(net)
        for x, y in world.shard(DATA):
            nn.CrossEntropyLoss()(net(x), y).backward()
            optimizer.step()

    dp.launch(program, 2)
    optimizer = groups(other)
    for x, y in DATA:
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(other(x), y).backward()
        optimizer.step()
    assert distance(flat(model), flat(other)) < 1e-12
    assert np.array_equal(model[0].bias.array, mlp()[0].bias.array)


def test_a_loop_of_ones_own():
    """Without ``shard`` every replica counts the same."""
    model, other = mlp(), mlp()

    def program(world):
        net = world.replicate(model)
        optimizer = sgd(net.parameters())
        for x, y in DATA:
            rows = slice(world.rank * 4, world.rank * 4 + 4)
            nn.CrossEntropyLoss()(net(x[rows]), y[rows]).backward()
            optimizer.step()
        return world.step

    assert dp.launch(program, 3) == [len(DATA)] * 3
    scheduler(other, devices=1).run(DATA)
    assert distance(flat(model), flat(other)) < 1e-12


def test_models_must_be_one():
    with pytest.raises(ReplicaError, match="gave another Sequential"):
        dp.launch(lambda world: world.replicate(mlp()), 2)
    stranger = mlp()
    with pytest.raises(ReplicaError, match="is not one of the replicated"):
        dp.launch(lambda world: stranger(DATA[0][0]), 2)
    with pytest.raises(ReplicaError, match="cannot be sharded over 3"):
        dp.launch(lambda world: list(world.shard(batches(2, 1))), 3)


def test_results_in_rank_order_and_what_a_program_sees():
    def program(world, a, b):
        return world.rank, world.size, str(world.device), a + b

    assert dp.launch(program, "cpu:1-2", args=(1, 2)) == [(0, 2, "cpu:1", 3), (1, 2, "cpu:2", 3)]


def test_modes_are_handed_on():
    def program(world):
        return mode.grad, str(dp.get_default_dtype()), Tensor([1.0]).dtype == np.float64

    before = dp.get_default_dtype()
    dp.set_default_dtype("float64")
    try:
        with dp.no_grad():
            assert dp.launch(program, 2) == [(False, "float64", True)] * 2
    finally:
        dp.set_default_dtype(before)
    assert dp.launch(program, 1)[0][0] is True and mode.replica is None


def test_nested_and_elsewhere():
    def inner(world):
        return float(world.comm.all_reduce(np.ones(1), "in").wait()[0])

    def outer(world):
        results = dp.launch(inner, 3)
        assert mode.replica is world
        return sum(results) + float(world.comm.all_reduce(np.ones(1), "out").wait()[0])

    assert dp.launch(outer, 2) == [11.0, 11.0]
    found = []
    thread = threading.Thread(target=lambda: found.append(dp.launch(outer, 2)))
    thread.start()
    thread.join()
    assert found == [[11.0, 11.0]]


def blas():
    return [pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"]


def test_another_thread_may_put_back_the_number_of_blas_threads():
    before, limited = blas(), blas_threads(3)
    limited.__enter__()
    assert set(blas()) == {3}
    thread = threading.Thread(target=limited.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert blas() == before


def test_two_launches_at_once_put_the_process_back_as_it_was():
    before, interval = blas(), sys.getswitchinterval()
    seen = []

    def program(world, seconds):
        time.sleep(seconds)
        seen.append((set(blas()), sys.getswitchinterval() < interval))

    threads = [threading.Thread(target=dp.launch, args=(program, 2), kwargs={"args": (s,)})
               for s in (0.05, 0.2, 0.35)]  # fmt: skip
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert seen == [({1}, True)] * 6 and blas() == before and sys.getswitchinterval() == interval
    models = [mlp(), mlp(), mlp()]
    threads = [threading.Thread(target=dp.launch, args=(train, 2), kwargs={"args": (m, DATA)})
               for m in models[:2]]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dp.launch(train, 2, args=(models[2], DATA))
    assert len({flat(m).tobytes() for m in models}) == 1


def test_a_failure_is_raised_once_with_its_place():
    def program(world):
        if world.rank == 1:
            raise KeyError("mine")
        world.comm.barrier("x")

    with pytest.raises(KeyError, match="mine") as caught:
        dp.launch(program, 2)
    assert caught.value.__notes__ == [f"in replica 1 on cpu:1, step {dp.default_generator.step}"]
    assert replica_threads() == []


def test_a_thread_that_cannot_start_ends_the_others(monkeypatch):
    start, count = threading.Thread.start, iter(range(9))

    def second_fails(thread):
        if next(count) == 1:
            raise RuntimeError("cannot start a thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", second_fails)
    with pytest.raises(RuntimeError, match="cannot start"):
        dp.launch(lambda world: world.comm.barrier("x"), 2)
    assert replica_threads() == []


START = """
    import time, sys, threading
    import numpy as np
    import minidp as dp
    from minidp import Tensor, nn, optim
    model = nn.Sequential(nn.Linear(6, 4))
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1), 2)
    batch = Tensor(np.zeros((8, 6), "f4")), Tensor(np.zeros(8, int))
    train(*batch)
    def endless():
        while True:
            yield batch
            print("step", flush=True)
"""
ENDS = {
    "at once": ("", 0, ""),
    "an exception in a replica": ("dp.launch(lambda w: 1 / (1 - w.rank), 2)", 1, "in replica 1 on"),
    "in the middle of an epoch": ("train.run(endless(), watch=lambda p: sys.exit(3))", 3, ""),
    "with a replica that sleeps": (
        "dp.launch(lambda w: time.sleep(60) if w.rank else sys.exit(4), 2)", 4, ""),
    "in a thread that goes on": (
        "threading.Thread(target=train.run, args=(endless(),), daemon=True).start()\n"
        "    time.sleep(0.2)", 0, ""),
}  # fmt: skip


def script(text):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(START + "    " + text)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message"), ENDS.values(), ids=ENDS)
def test_a_script_that_ends_ends(text, code, message):
    process = script(text)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code, errors
    assert message in errors


@pytest.mark.parametrize("text", ["train.run(endless())", "train.run(endless(), watch=print)"])
def test_an_interrupt_from_the_keyboard(text):
    process = script(
        f"try: {text}\n"
        "    except KeyboardInterrupt: print('left', threading.active_count(), flush=True); raise"
    )
    for line in process.stdout:
        if line == "step\n":
            break
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert time.monotonic() - began < 2
    assert "left 1" in output and "KeyboardInterrupt" in errors and process.returncode != 0


def test_a_replica_whose_start_is_interrupted_is_waited_for(monkeypatch):
    start, late, interval = threading.Thread.start, [], sys.getswitchinterval()

    def interrupted(thread):
        if thread.name.startswith("minidp replica 1"):
            late.append(thread)
            start(threading.Timer(0.3, start, [thread]))
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dp.launch(lambda world: world.comm.barrier("all"), 3)
    assert late[0].ident is not None and not late[0].is_alive()
    assert replica_threads() == [] and sys.getswitchinterval() == interval
