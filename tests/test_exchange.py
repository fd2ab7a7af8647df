"""Collectives through host memory: results, order, misuse, waits that end."""

import threading
import time

import numpy as np
import pytest
from training import replica_threads

import minidp as dp
from minidp import Tensor
from minidp.errors import ReplicaError
from minidp.ops.collective import all_reduce
from minidp.parallel import host
from minidp.parallel.communicator import Tag, bounds
from minidp.parallel.exchange import Exchange, Stopped
from minidp.parallel.host import tree_sum, tree_total

SIZES = [1, 7, host.SMALL, host.SMALL + 1, 3 * host.SMALL + 5]


def arrays(size, count, dtype="float32"):
    random = np.random.default_rng(size)
    return [random.standard_normal(size).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("count", range(1, 10))
def test_both_sums_add_in_the_same_order(count):
    given = arrays(50, count)
    total = tree_total(given)
    kept = [a.copy() for a in given]
    tree_sum(kept)
    assert total.tobytes() == kept[0].tobytes()
    assert np.allclose(total, np.sum(given, axis=0), atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_all_reduce(size, count):
    given = arrays(size, count)
    expected = tree_total([a.copy() for a in given]).tobytes()

    def program(world):
        mine = given[world.rank].copy()
        result = world.comm.all_reduce(mine, "x").wait()
        assert mine.tobytes() == given[world.rank].tobytes()  # nobody's array is touched
        found = result.tobytes()
        result += world.rank  # and everybody may change his result
        mine[...] = -1
        return found

    for _ in range(3):
        assert dp.launch(program, count) == [expected] * count


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_sum_bucket_with_numbers_that_ride_along(size, count):
    given = arrays(size, count)
    expected = tree_total([a.copy() for a in given])

    def program(world):
        works = [world.comm.sum_bucket(given[world.rank].copy(), str(i), [1.0, world.rank, i])
                 for i in range(2)]  # fmt: skip
        assert works[0].wait().tobytes() == expected.tobytes()
        cuts = bounds(size, count)
        mine = slice(*cuts[world.rank : world.rank + 2])
        assert works[1].slice()[mine].tobytes() == expected[mine].tobytes()
        return [work.numbers.tolist() for work in works]

    ranks = sum(range(count))
    totals = [[count, ranks, 0], [count, ranks, count]]
    assert dp.launch(program, count) == [totals] * count


def test_the_op_leaves_its_input_and_its_result_to_its_own_replica():
    def program(world):
        x = Tensor(np.full(2 * host.SMALL, world.rank + 1.0), requires_grad=True)
        y = all_reduce(x, name="x")
        kept = y.array.copy()
        with dp.no_grad():
            y.detach().fill_(world.rank)
        world.comm.barrier("all have written")
        assert (x.array == world.rank + 1).all() and (kept == 6).all()
        assert (y.array == world.rank).all()

    dp.launch(program, 3)


def test_the_other_collectives():
    def program(world):
        rank, comm = world.rank, world.comm
        table = np.arange(6.0).reshape(3, 2) + rank
        assert np.array_equal(comm.reduce_scatter(table, "s").wait(), (table * 0 + 3 * np.arange(
            6.0).reshape(3, 2) + 3)[rank : rank + 1])  # fmt: skip
        large = np.ones((3000, 3)) * (rank + 1)
        assert (comm.reduce_scatter(large, "s").wait() == np.full((1000, 3), 6.0)).all()
        assert np.array_equal(comm.all_gather(np.full(2, rank), "g").wait(), [0, 0, 1, 1, 2, 2])
        got = comm.broadcast(np.full(3, rank), "b", root=2).wait()
        got += rank  # its own copy
        comm.barrier("written")
        assert (got == 2 + rank).all()
        if rank == 0:
            comm.send(np.arange(4), "p", to=2).wait()
        if rank == 2:
            assert np.array_equal(comm.recv(np.zeros(4, int), "p", source=0).wait(), np.arange(4))
        part = comm.all_reduce(np.ones(1), "some", among=[0, 2]).wait() if rank != 1 else None
        assert rank == 1 or part == 2

    dp.launch(program, 3)


def test_several_at_once_are_waited_for_in_any_order():
    def program(world):
        works = [world.comm.sum_bucket(np.full(size, 1.0 + i), str(i), [])
                 for i, size in enumerate(SIZES)]  # fmt: skip
        order = np.random.default_rng(world.rank).permutation(len(works))
        return all((works[i].wait() == 3 * (1.0 + i)).all() for i in order)

    assert dp.launch(program, 3) == [True] * 3


def test_random_delays_change_nothing(monkeypatch):
    give = Exchange.give
    random = np.random.default_rng(1)

    def slow(*args):
        time.sleep(random.choice([0, 0.001, 0.002]))
        return give(*args)

    monkeypatch.setattr(Exchange, "give", slow)

    def program(world):
        results = []
        for step in range(8):
            given = arrays(SIZES[step % 5], 4)[world.rank]
            works = [world.comm.all_reduce(given * (i + 1), f"w{i}") for i in range(3)]
            results += [work.wait().tobytes() for work in works]
        return results

    first, *others = dp.launch(program, 4)
    assert all(other == first for other in others)


MISUSES = {
    "another operation": lambda w: w.comm.broadcast(np.zeros(2), "a") if w.rank else
    w.comm.all_reduce(np.zeros(2), "a"),
    "another name": lambda w: w.comm.all_reduce(np.zeros(2), "ab"[w.rank]),
    "another shape": lambda w: w.comm.all_reduce(np.zeros(2 + w.rank), "a"),
    "another dtype": lambda w: w.comm.all_reduce(np.zeros(2, f"f{4 + 4 * w.rank}"), "a"),
}  # fmt: skip


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES)
def test_calls_that_do_not_match_are_told_at_once(misuse):
    began = time.monotonic()
    with pytest.raises(ReplicaError, match=r"(?s)replica \d called .* replica \d called") as caught:
        dp.launch(lambda world: misuse(world).wait(), 2)
    assert time.monotonic() - began < 2
    assert f"in step {dp.default_generator.step}" in str(caught.value)
    assert replica_threads() == []


def test_waits_that_nobody_can_end():
    def one_more(world):
        if world.rank == 1:
            world.comm.all_reduce(np.zeros(1), "one more").wait()

    def crossed(world):
        name = "among all" if world.rank else "among two"
        world.comm.all_reduce(np.zeros(1), name, among=None if world.rank else [0, 1]).wait()

    began = time.monotonic()
    with pytest.raises(ReplicaError, match=r"1 waits for .*'one more'.*replica 0 has ended"):
        dp.launch(one_more, 2)
    with pytest.raises(ReplicaError, match=r"no replica can go on: replica 0 waits"):
        dp.launch(crossed, 3)
    assert time.monotonic() - began < 3 and replica_threads() == []


def sleeper(world, seconds):
    if world.rank == 1:
        time.sleep(seconds)
    world.comm.barrier("together")


def test_warning_and_deadline():
    with pytest.warns(UserWarning, match=r"(?s)replica 0 has waited .*replica\(s\) 1 .*sleeper"):
        dp.launch(sleeper, 2, args=(0.6,), warn_after=0.2)
    began = time.monotonic()
    with pytest.raises(ReplicaError, match=r"(?s)0 has waited .* 1 to reach barrier.*sleeper"):
        dp.launch(sleeper, 2, args=(1.0,), warn_after=9, deadline=0.2)
    assert time.monotonic() - began < 3 and replica_threads() == []


def test_a_wait_that_fails_is_a_failure_before_anyone_else_looks():
    exchange, tag = Exchange(2, deadline=0.2), Tag("barrier", "end", 1, (0,), np.dtype("f8"))
    late = exchange.give(0, "key", tag, (0, 1), None)
    with pytest.raises(ReplicaError, match="replica 0 has waited") as caught:
        exchange.wait(0, lambda: late.complete, tag, late.missing)
    assert exchange.failure is caught.value
    with pytest.raises(Stopped):
        exchange.give(1, "key", tag, (0, 1), None)
    exchange.fail(caught.value, "in replica 0")
    exchange.fail(caught.value, "in replica 1")
    assert caught.value.__notes__ == ["in replica 0"]


def test_a_slow_loader_is_named():
    def loader():
        time.sleep(0.6)
        yield np.zeros(4), np.zeros(4)

    def program(world, shared):
        return len(list(world.shard(shared)))

    with pytest.warns(UserWarning, match=r"(?s)batch 0 of the loader.*in loader"):
        assert dp.launch(program, 2, args=(loader(),), warn_after=0.2) == [1, 1]


def test_turns_on_one_device():
    """Replicas of one device never run at the same time, and none starves."""
    running, most = set(), []

    def program(world):
        for i in range(10):
            running.add(world.rank)
            most.append(len(running))
            time.sleep(0.001)
            running.discard(world.rank)
            world.comm.barrier(str(i))

    dp.launch(program, 1, replicas=4)
    assert max(most) == 1 and len(most) == 40


def test_nothing_is_left_in_an_exchange():
    seen = []

    def program(world):
        seen.append(world.exchange)
        for size in SIZES:
            world.comm.all_reduce(np.zeros(size), "x").wait()

    dp.launch(program, 3)
    assert seen[0].rounds == {} and seen[0].waiting == {} and seen[0].holding == set()
    assert threading.active_count() == 1 or replica_threads() == []
