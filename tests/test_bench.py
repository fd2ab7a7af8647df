"""python -m minidp.bench and the scripts beside it: that they measure what they say, not speed."""

import importlib.util
import json
import math
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path

import numpy as np
import pytest

import minidp as dp
from minidp.bench import __main__ as bench
from minidp.bench import machine, measure, operations, report, rounds, works
from minidp.bench.measure import Limits, Plan, Row
from minidp.bench.rounds import Entrant, Times
from minidp.bench.works import Cost

TORCH = importlib.util.find_spec("torch") is not None
TINY = Plan(seconds=0.0, burst=0.01, least=2, checked=2)


@pytest.fixture
def tiny(monkeypatch):
    """The command measures two rounds of short bursts, of a few ops only."""
    few = ("linear 512 to 512", "embedding", "batch norm")
    monkeypatch.setattr(bench, "QUICK", TINY)
    monkeypatch.setattr(operations, "OPERATIONS",
                        tuple(o for o in operations.OPERATIONS if o.name in few))  # fmt: skip


@pytest.fixture
def without_torch(monkeypatch):
    """PyTorch is not installed, as far as the command can see."""
    for module in (measure, machine):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "minidp.bench.torch_peer", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it raises


def script(name):
    """A script of tests/bench as a module; it finds what lies beside it."""
    path = Path(__file__).parent / "bench" / f"{name}.py"
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def row(times, threads=1, apart=None, cost=None):
    """A row of these seconds per round; those of sgemm are steady unless given."""
    rates = {machine.SGEMM: (1.0, 1.0), **times}
    found = {name: Times(tuple(values)) for name, values in rates.items()}
    return Row("W", "", threads, cost, found, Limits(100e9, 10e9), apart)


# The command


def check(found, names):
    """What a report must say about each of its rows."""
    for each in [*found["works"], *found["ops"]]:
        assert names <= set(each["entrants"]), each["name"]
        assert each["agrees"] and len(each["entrants"]["minidp"]["rounds"]) >= 2
        assert each["entrants"]["minidp"]["low"] <= each["entrants"]["minidp"]["high"]
        if each["flops"]:
            assert each["bound"] in ("arithmetic", "memory")
            assert 0 < each["entrants"]["minidp"]["share"] < 1000


def test_it_works_without_torch(tiny, without_torch, tmp_path, capsys):
    path, picture = tmp_path / "found.json", tmp_path / "roofline.png"
    drawn = importlib.util.find_spec("matplotlib") is not None
    bench.main(["--quick", "--only", "W1,w4,ops", "--capture", "--json", str(path),
                *["--plot", str(picture)] * drawn])  # fmt: skip
    found = json.loads(path.read_text())
    check(found, {"minidp", "sgemm"})
    assert found["works"][0]["name"] == "W1" and found["works"][-1]["name"] == "W4"
    assert {"minidp", "captured"} <= set(found["works"][0]["entrants"])
    assert all(each["ratio"] is None for each in found["works"])
    assert "torch" not in found["machine"] and set(found["limits"]) >= {"1"}
    assert [each["name"] for each in found["ops"]][-2:] == ["SGD, momentum", "Adam"]
    printed = capsys.readouterr().out
    assert "ratio:" not in printed and "W1 MLP, 128 rows" in printed
    assert printed.count("PyTorch") == 1 and "pip install torch" in printed
    assert not list(tmp_path.glob(".*")), "a part of the file was left"
    if drawn:
        assert picture.read_bytes()[:4] == b"\x89PNG" and picture.stat().st_size > 20_000


@pytest.mark.skipif(not TORCH, reason="PyTorch is not installed")
def test_beside_torch_everyone_does_the_same_work(tiny, capsys):
    found = bench.main(["--quick", "--only", "W1,W4,ops", "--replicas", "2"])
    check(found, {"minidp", "sgemm", "PyTorch"})
    assert [each["threads"] for each in found["works"]] == [1, 2, 1]
    assert "PyTorch tuned" in found["works"][0]["entrants"]
    assert all(each["ratio"]["median"] > 0 for each in [*found["works"], *found["ops"]])
    assert 0 <= found["works"][0]["apart"] < 1e-4


@pytest.mark.skipif(not TORCH, reason="PyTorch is not installed")
def test_results_that_disagree_are_told_and_end_with_1(tiny, monkeypatch, capsys):
    monkeypatch.setattr(measure, "apart", lambda found: 0.5)
    with pytest.raises(SystemExit) as ended:
        bench.main(["--quick", "--only", "W1", "--replicas", "1"])
    assert ended.value.code == 1
    printed = capsys.readouterr().out
    assert "\n! W1 MLP" in printed and "its times do not count" in printed


@pytest.mark.parametrize("wrong, text", [
    (["--only", "W7"], "expected some of W1,W2,W3,W4,ops"),
    (["--json", "nowhere/there.json"], "cannot be written"),
    (["--json", "."], "cannot be written"),
    (["--plot", "roofline.txt"], "expected a name that ends in"),
    (["--replicas", "0"], "greater than 0"),
    (["--seconds", "-1"], "greater than 0"),
])  # fmt: skip
def test_wrong_arguments_are_refused(wrong, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "measure", None)  # nothing may run
    with pytest.raises(SystemExit) as ended:
        bench.main(wrong)
    assert ended.value.code == 2 and text in capsys.readouterr().err


def test_parts_keep_their_order():
    assert bench.parser().parse_args(["--only", "ops,w2,W1"]).only == ("W1", "W2", "ops")


# What is measured


@pytest.mark.parametrize("work, gflops", [*zip(works.WORKS, (0.308, 9.265, 37.5), strict=True)])
def test_the_operations_of_a_step(work, gflops):
    """Known numbers, of convolutions and linear layers alone: the rest adds little."""
    few = replace(work, shape=(8, *work.shape[1:]))
    cost, known = works.cost_of(few), gflops * 8 / work.rows
    assert known <= 1.001 * cost.flops / 1e9 < 1.02 * known
    assert cost.bytes > 4 * math.prod(few.shape)


def test_the_operations_of_ops():
    found = {each.name: each for each in operations.OPERATIONS}
    linear, conv = 3 * 2 * 128 * 512 * 512, 3 * 2 * 16 * 32 * 32 * 64 * 64 * 9
    for name, known in (("linear 512 to 512", linear), ("conv 3x3, 64 to 64", conv)):
        assert known <= operations.cost_of(found[name]).flops < 1.01 * known


def test_weights_and_data_are_always_the_same():
    work = works.WORKS[0]
    for a, b in zip(works.batches(work), works.batches(work), strict=True):
        assert all(map(np.array_equal, a, b))
    first, second = (works.weights(works.model(work)) for _ in range(2))
    assert first and all(np.array_equal(first[name], second[name]) for name in first)


def test_a_captured_chain_computes_gradients():
    seen = []

    def wrap(step):
        captured = dp.capture(step)
        seen.append(captured)
        return captured

    step = works.chain(lambda values: dp.tensor(values, requires_grad=True), wrap)
    total = [float(step()) for _ in range(3)]
    assert total[0] == pytest.approx(total[2]) and seen[0].replays
    assert "tanh" in str(seen[0].graph) and len(seen[0].graph.lines) > 2 * works.OPS


# Rounds


def test_entrants_run_in_turn_and_each_other_round_backwards():
    told = []

    def run(name, steps):
        told.append(name)
        time.sleep(steps * 1e-3)

    entrants = [Entrant(name, partial(run, name)) for name in "ab"]
    found = rounds.alternate(entrants, 0, length=0.001, least=3)
    bursts = "".join(told[-12::2])
    assert bursts in ("abbaab", "baabba") and len(found["a"].rounds) == 3
    assert found["a"].median >= 1e-3


def test_on_a_busy_machine_only_own_time_counts():
    sleeping = Entrant("sleeping", lambda steps: time.sleep(0.01 * steps))
    found = {busy: Plan(seconds=0, burst=0.02, busy=busy).times([sleeping])["sleeping"].median
             for busy in (False, True)}  # fmt: skip
    assert found[False] >= 0.01 > 0.005 > found[True]
    assert Plan(seconds=0, busy=True).times([sleeping], threads=2)["sleeping"].median >= 0.01


def test_a_ratio_is_of_medians_with_quartiles_of_pairs():
    found = rounds.ratio(Times((1.0, 2.0, 9.0)), Times((2.0, 4.0, 3.0)))
    assert found.median == 2 / 3 and (found.low, found.high) == (0.5, 1.75)
    assert rounds.ratio(Times((1.0,)), Times((2.0,))) == rounds.Ratio(0.5, 0.5, 0.5)


def test_a_burst_waits_for_threads_that_compute(monkeypatch):
    """By the time that the process uses while this thread sleeps."""
    computing = count(0, 0.01)
    monkeypatch.setattr(rounds.time, "process_time", lambda: next(computing))
    assert not rounds.settle(0.05)
    ends = chain((0.0, 0.01, 0.02, 0.03), repeat(0.04))
    monkeypatch.setattr(rounds.time, "process_time", lambda: next(ends))
    assert rounds.settle(10) and next(ends) == 0.04


# Reports


def test_the_bound_is_the_slower_of_arithmetic_and_memory():
    work = row({"minidp": (2.0,)}, cost=Cost(100_000_000_000, 1_000_000))
    assert work.bound == (1.0, "arithmetic") and work.share(work.times["minidp"]) == 0.5
    assert row({}, cost=Cost(1, 20_000_000_000)).bound == (2.0, "memory")


def test_the_fastest_of_each_side_counts():
    found = row({"minidp": (4.0, 4.0), "captured": (2.0, 2.0), "PyTorch": (8.0, 8.0),
                 "PyTorch tuned": (5.0, 5.0)})  # fmt: skip
    assert found.ratio.median == 0.4


def test_warnings():
    quiet = row({"minidp": (1.0, 1.0), "PyTorch": (2.0, 2.0)})
    assert list(report.warnings([quiet], 0.1)) == []
    noisy = row({"sgemm": (1.0, 2.0), "minidp": (1.0, 3.0), "PyTorch": (2.0, 2.0)}, apart=0.5)
    told = list(report.warnings([quiet, noisy], 2.0))
    for text in ("too noisy", "load 2.0", "disagree on who is faster: W (1 T)", "5.0e-01 apart"):
        assert sum(text in each for each in told) == 1, text


# Scripts


def test_sweep_finds_cliffs_between_neighbours_only():
    sweep = script("sweep")
    assert sweep.cliffs({15: 1.0, 16: 1.0, 17: 1.6, 31: 9.0}) == [(16, 17, 1.6)]
    assert sweep.cliffs({1: 2.9, 2: 1.0, 128: 1.0, 129: 1.4}) == []


def test_sweep_finds_a_smaller_size_that_takes_longer():
    sweep, found = script("sweep"), {1: 8.0, 2: 1.0}
    assert sweep.cliffs(found) == [(1, 2, 4.0)] and sweep.cliffs(found, 3) == []


def test_long_run_tells_growth_from_disturbance():
    long_run = script("long_run")
    assert long_run.growth([5.0] * 8 + [50.0] + [5.0] * 7) == 0
    assert long_run.growth([5.0 + 0.1 * i for i in range(16)]) == pytest.approx(2.0)


def test_what_is_timed_as_reduction_and_update_is_one():
    reduce_update = script("reduce_update")
    train = reduce_update.scheduler(2)
    before = works.weights(train.model)
    reduce_update.launch_on(reduce_update.program, train.places, (train, 3, True), train.store)
    rate = works.RATE * 2e-6 * (1 + 1.9 + 2.71)  # the momentum of three equal gradients, added
    for name, value in works.weights(train.model).items():
        assert np.allclose(before[name] - value, rate, rtol=0, atol=1e-8), name


def test_tables_of_the_page_can_be_renewed(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent / "bench")
    publish = importlib.import_module("publish")
    text = publish.PAGE.read_text()
    for name in ("machine", "works", "ops", "cliffs", "ddp", "reduce_update", "scaling",
                 "long_run"):
        after = publish.renewed(text, name, "| new |")
        assert f"<!-- {name} -->\n| new |\n<!-- end -->" in after
        assert after.count("<!-- end -->") == text.count("<!-- end -->")
    with pytest.raises(AssertionError, match="there is no <!-- nothing -->"):
        publish.renewed(text, "nothing", "")
    found = {"works": {"W1": {"ms": {"minidp": 1.0, "DDP": 4.0, "DDP tuned": 2.0},
                              "ratio": 0.5, "quartiles": [0.4, 0.6]}}}  # fmt: skip
    assert next(publish.ddp(found))[1].endswith("| W1 | 1 | 2 | 0.50 (0.40 to 0.60) |")


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="PyTorch is not installed")
def test_processes_of_torch_do_the_same_work(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent / "bench")  # processes look there too
    ddp = importlib.import_module("ddp")
    peers = ddp.Peers(works.WORKS[0], 2)
    try:
        ours = ddp.Trainer(works.WORKS[0], 2).losses(3)
        assert measure.apart([ours, peers.losses(0, 3), peers.losses(1, 3)]) < 1e-4
    finally:
        peers.end()
