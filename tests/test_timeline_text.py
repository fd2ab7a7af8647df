"""A recording as text, as a trace for Chrome, as numbers in a line and in a log."""

import doctest
import json

import pytest
from recordings import UNEVEN, lenet, recorded

from minidp.errors import CheckpointError, ReplicaError
from minidp.parallel import metrics
from minidp.parallel.metrics import Log, Metrics
from minidp.parallel.timeline import measure, step_table, summary, write_trace


def test_the_text_names_the_numbers():
    recording = recorded(*[(r, k, n, 1000 * b, 1000 * e, *s) for r, k, n, b, e, *s in UNEVEN])
    assert step_table(recording, 1) == """\
step 1: 0.170 ms

replica  device   span  compute   data  reduce   wait  stall  other  busy  exposed
0        cpu:0   0.170    0.110  0.000   0.010  0.050  0.000  0.000   65%    0.060
1        cpu:1   0.160    0.140  0.000   0.020  0.000  0.000  0.000   88%    0.020

critical path: forward 0.060 (35%), backward 0.060 (35%), update 0.030 (18%), reduce 0.020 (12%)
waited for: bucket 0 0.050
last: replica 1, 0.050 ms behind the others"""
    text = summary(recording)
    assert "1 step(s) on 2 replica(s)" in text and "0.04 ms exposed (23.5% of the time)" in text
    assert "0        cpu:0   64.7%  0 step(s)" in text
    with pytest.raises(KeyError):
        step_table(recording, 7)


def test_the_trace_has_every_event_once_and_an_arrow_to_each_reduction(tmp_path):
    recording = recorded(*UNEVEN)
    write_trace(recording, tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    bars = [e for e in found if e["ph"] == "X"]
    assert len(bars) + sum(e["ph"] == "i" for e in found) == len(recording.events)
    assert {"name": "forward 0", "cat": "forward", "ph": "X", "pid": 0, "tid": 0, "ts": 0.005,
            "dur": 0.025, "args": {"step": 1}} in bars  # fmt: skip
    begins, ends = ([e for e in found if e["ph"] == phase] for phase in "sf")
    assert {e["tid"] for e in begins} == {0} and {e["tid"] for e in ends} == {1}
    assert [e["pid"] for e in begins] == [1, 1] and [e["pid"] for e in ends] == [0, 1]
    assert [e["id"] for e in begins] == [e["id"] for e in ends]
    named = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
    assert named == {0: "replica 0 on cpu:0", 1: "replica 1 on cpu:1"}
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    with pytest.raises(CheckpointError):
        write_trace(recording, tmp_path)


def test_metrics_of_a_recording():
    found = measure(lenet(2, 10), 1280, loss=0.5)
    assert (found.step, found.steps, found.rows) == (10, 10, 1280)
    assert found.rows_per_second == pytest.approx(1280 / found.seconds)
    assert len(found.busy) == 2 and 0 < found.exposed < found.seconds
    assert found.reduced == 10 * 247_000 and found.peak_memory > 2**20
    line = found.line()
    assert line.startswith("step 10: loss 0.5000, ") and "0.2 MB/step" in line
    assert "exposed" not in Metrics(1, 1, 1.0, 64, busy=[0.5]).line()
    assert Metrics(0, 0, 0.0, 0).line() == "step 0: 0 rows/s"
    assert doctest.testmod(metrics) == (0, 1)


def test_the_log_has_one_object_a_line_and_is_added_to(tmp_path):
    path = tmp_path / "log.jsonl"
    for loss in (0.5, float("nan")):
        with Log(path) as log:
            log.write(Metrics(3, 1, 0.5, 64, loss, [0.123456]), epoch=1)
            assert path.read_text().endswith("\n")  # at once
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["loss"] == 0.5 and first["rows_per_second"] == 128 and first["epoch"] == 1
    assert first["busy"] == [0.1235] and second["loss"] is None
    with pytest.raises(ReplicaError, match="cannot be written"):
        Log(tmp_path)
