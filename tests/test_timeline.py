"""What a recording says: hand-made steps with known answers, and what holds for any recording."""

import json
import random

import pytest
from recordings import UNEVEN, lenet, recorded

from minidp.parallel.events import TURN, Event, Recording
from minidp.parallel.timeline import analyse, measure, step_table, summary, totals, trace
from minidp.parallel.timeline.intervals import length, merged, without
from minidp.parallel.timeline.rows import depths
from minidp.parallel.timeline.states import states


def path_of(recording):
    return [(s.replica, s.kind, s.name, s.began, s.ended) for s in analyse(recording)[0].path]


def test_the_innermost_event_is_what_a_replica_does():
    found = states([e for e in recorded(*UNEVEN).events if e.replica == 0])
    assert [(s.kind, s.name, s.began, s.ended) for s in found] == [
        ("forward", "", 0, 5), ("forward", "0", 5, 30), ("forward", "", 30, 40),
        ("backward", "", 40, 80), ("wait", "bucket 0", 80, 120), ("reduce", "bucket 0", 120, 130),
        ("wait", "bucket 0", 130, 140), ("update", "bucket 0", 140, 170),
    ]  # fmt: skip


def test_of_events_that_begin_together_the_shorter_one_is_inside():
    found = states(recorded((0, "forward", "0", 0, 5), (0, "forward", "", 0, 9)).events)
    assert [(s.name, s.length) for s in found] == [("0", 5), ("", 4)]


def test_where_nothing_is_recorded_the_state_is_other():
    found = states(recorded((0, "load", "", 0, 3), (0, "copy", "", 5, 6)).events)
    assert [(s.kind, s.length) for s in found] == [("load", 3), ("other", 2), ("copy", 1)]
    assert states([]) == [] and states(recorded((0, "load", "", 2, 2)).events) == []


def test_time_exposure_and_straggler_of_an_uneven_step():
    (step,) = analyse(recorded(*UNEVEN))
    fast, slow = step.lanes
    assert fast.time == {"compute": 110, "wait": 50, "reduce": 10} and fast.span == 170
    assert slow.time == {"compute": 140, "reduce": 20} and slow.span == 160
    assert fast.waits == {"bucket 0": 50} and fast.reduced == 100
    assert fast.exposed == [(80, 140)] and fast.communication == 70 and fast.hidden == 10
    assert slow.exposed == [(120, 140)] and slow.hidden == 0
    assert fast.busy == 110 / 170
    assert (step.straggler, step.behind) == (1, 50)
    assert step.exposed == (60 + 20) / 2


def test_the_critical_path_jumps_to_the_replica_that_was_waited_for():
    recording = recorded(*UNEVEN)
    assert path_of(recording) == [
        (1, "forward", "", 0, 60), (1, "backward", "", 60, 120),
        (1, "reduce", "bucket 0", 120, 140), (0, "update", "bucket 0", 140, 170),
    ]  # fmt: skip
    on_path = analyse(recording)[0].on_path()
    assert list(on_path.items()) == [("forward", 60), ("backward", 60), ("update", 30),
                                     ("reduce", 20)]  # fmt: skip


def test_waking_up_is_on_the_path():
    late = [(r, k, n, b, 145 if (k, e) == ("wait", 140) else e, *s) for r, k, n, b, e, *s in UNEVEN]
    late = [(r, k, n, 145 if (r, k) == (0, "update") else b, *s) for r, k, n, b, *s in late]
    assert path_of(recorded(*late))[-3:] == [
        (1, "reduce", "bucket 0", 120, 140), (0, "wait", "bucket 0", 140, 145),
        (0, "update", "bucket 0", 145, 170),
    ]  # fmt: skip


@pytest.mark.parametrize("last", [
    (1, "wait", "loss", 50, 51), (1, "forward", "more", 50, 60), (1, "load", "", 50, 52),
])  # fmt: skip
def test_a_meeting_was_ended_by_the_last_to_arrive(last):
    """Also where the last did wait for an instant, and where another waits for something else."""
    recording = recorded(
        (0, "forward", "", 0, 10), (0, "wait", "loss", 10, 51), (0, "backward", "", 51, 70),
        (1, "forward", "", 0, 50), last,
        (2, "forward", "", 0, 20), (2, "wait", "loss", 20, 52),
        (3, "wait", "bucket 0", 0, 60),
        devices=["cpu:0", "cpu:1", "cpu:2", "cpu:3"],
    )  # fmt: skip
    path = path_of(recording)
    assert path[0] == (1, "forward", "", 0, 50)
    assert path[-1] == (0, "backward", "", 51, 70)
    assert analyse(recording)[0].straggler == 1


def test_a_replica_that_was_done_before_the_wait_ended_is_the_one_waited_for():
    recording = recorded((0, "forward", "", 0, 10), (0, "wait", "end of step", 10, 32),
                         (1, "forward", "", 0, 20), (1, "update", "", 20, 30))  # fmt: skip
    assert path_of(recording) == [(1, "forward", "", 0, 20), (1, "update", "", 20, 30),
                                  (0, "wait", "end of step", 30, 32)]  # fmt: skip


def test_what_was_given_before_a_wait_began_did_not_end_it():
    recording = recorded(
        (0, "backward", "", 0, 80), (0, "wait", "bucket 0", 80, 90), (0, "update", "", 90, 120),
        (1, "ready", "bucket 0", 70, 70), (1, "backward", "", 0, 100),
    )  # fmt: skip
    assert path_of(recording) == [(1, "backward", "", 0, 90), (0, "update", "", 90, 120)]


def test_of_several_that_still_worked_the_one_that_worked_longest_is_named():
    recording = recorded(
        (0, "wait", "loss", 0, 50), (0, "update", "", 50, 90),
        (1, "wait", "x", 0, 8), (1, "forward", "", 8, 60),
        (2, "wait", "x", 0, 5), (2, "forward", "", 5, 60), devices=["cpu:0", "cpu:1", "cpu:2"],
    )  # fmt: skip
    assert path_of(recording)[-2:] == [(2, "forward", "", 5, 50), (0, "update", "", 50, 90)]
    assert analyse(recording)[0].straggler == 2
    assert analyse(recording)[0].behind == (50 + 8) / 2 - 5


def test_replicas_that_wait_for_each_other_do_not_lead_in_circles():
    recording = recorded((0, "wait", "a", 0, 10), (1, "wait", "b", 0, 10))
    assert path_of(recording) == [(0, "wait", "a", 0, 10)]


GPUS = [
    (0, "backward", "1", 0, 50), (0, "ready", "bucket 0", 50, 50, 8), (0, "backward", "0", 50, 80),
    (0, "reduce", "bucket 0", 52, 100, 8), (0, "wait", "bucket 0", 80, 100),
    (0, "update", "", 100, 110),
    (1, "backward", "1", 0, 60), (1, "ready", "bucket 0", 60, 60, 8), (1, "backward", "0", 60, 95),
    (1, "reduce", "bucket 0", 60, 100, 8), (1, "wait", "bucket 0", 95, 100),
]  # fmt: skip


def test_a_turn_on_a_device_was_ended_by_who_had_it():
    turn = (1, "stall", TURN, 0, 41)
    events = [(0, "forward", "", 0, 40), (0, "wait", "bucket 0", 40, 70), turn,
              (1, "forward", "", 41, 70), (0, "update", "", 71, 80)]  # fmt: skip
    shared = path_of(recorded(*events, devices=("cpu:0", "cpu:0")))
    assert shared == [
        (0, "forward", "", 0, 40), (1, "stall", TURN, 40, 41), (1, "forward", "", 41, 70),
        (0, "other", "", 70, 71), (0, "update", "", 71, 80),
    ]  # fmt: skip
    alone = path_of(recorded(*events, devices=("cpu:0", "cpu:1")))
    assert (1, "stall", TURN, 0, 41) in alone


def test_a_turn_that_is_waited_for_when_a_step_is_over_belongs_to_the_next():
    events = [Event(0, 1, "forward", "", 0, 9), Event(0, 1, "stall", TURN, 9, 30),
              Event(0, 2, "forward", "", 30, 40)]  # fmt: skip
    first, second = analyse(Recording(events, ["cpu:0"]))
    assert (first.ended, second.began) == (9, 9) and second.lanes[0].time["stall"] == 21
    (last,) = analyse(Recording(events[:2], ["cpu:0"]))
    assert last.ended == 30


def test_a_reduction_beside_the_work_is_exposed_only_where_nothing_is_computed():
    recording = recorded(*GPUS, devices=["cuda:0", "cuda:1"])
    first, second = analyse(recording)[0].lanes
    assert first.time == {"compute": 90, "wait": 20} and first.exposed == [(80, 100)]
    assert (first.communication, first.hidden) == (50, 30)
    assert second.exposed == [(95, 100)] and second.hidden == 35
    assert path_of(recording) == [(1, "backward", "1", 0, 60), (0, "reduce", "bucket 0", 60, 100),
                                  (0, "update", "", 100, 110)]  # fmt: skip


def test_the_recorder_may_say_that_a_reduction_runs_beside():
    events = [(0, "backward", "", 0, 50), (0, "reduce", "bucket 0", 10, 20, 8, "beside")]
    assert analyse(recorded(*events))[0].lanes[0].exposed == []
    events[1] = events[1][:-1]
    assert analyse(recorded(*events))[0].lanes[0].exposed == [(10, 20)]


def test_totals_and_empty_recordings():
    recording = recorded(*UNEVEN)
    found = totals(recording, analyse(recording))
    assert (found.steps, found.seconds, found.reduced) == (1, 170e-9, 100)
    assert found.busy == [110 / 170, 140 / 160] and found.stragglers == [0, 1]
    assert found.exposed == pytest.approx(40e-9) and found.hidden == pytest.approx(5e-9)
    for devices in ([], ["cpu:0"]):
        empty = Recording([], devices)
        assert analyse(empty) == [] and totals(empty, []).steps == 0
        assert step_table(empty) == summary(empty) == "nothing was recorded"
        assert trace(empty)["traceEvents"] is not None and measure(empty, 0).line()


def test_a_replica_without_events_takes_no_part():
    (step,) = analyse(recorded((1, "forward", "", 0, 5), devices=["cpu:0", "cpu:1"]))
    assert [lane.replica for lane in step.lanes] == [1] and step.straggler is None


def random_recording(seed):
    """Any events: nested, overlapping, empty, of all kinds."""
    dice = random.Random(seed)
    kinds = ["forward", "backward", "wait", "reduce", "ready", "update", "load", "stall", "new"]
    events = []
    for _ in range(dice.randrange(1, 80)):
        began = dice.randrange(60)
        kind = dice.choice(kinds)
        ended = began + (0 if kind == "ready" else dice.randrange(20))
        name = dice.choice(["", "bucket 0", "bucket 1", "loss"])
        events.append(Event(dice.randrange(3), dice.randrange(2), kind, name, began, ended))
    return Recording(events, ["cpu:0", dice.choice(["cpu:1", "cuda:1"]), "emu:0"])


@pytest.mark.parametrize("recording", [
    *(random_recording(seed) for seed in range(60)),
    *(lenet(count, 3, seed=count, device=kind) for count in (1, 3) for kind in ("cpu", "cuda")),
], ids=lambda recording: f"{len(recording.events)} events")  # fmt: skip
def test_what_holds_for_any_recording(recording):
    for step in analyse(recording):
        for lane in step.lanes:
            assert sum(lane.time.values()) == lane.span
            assert 0 <= length(lane.exposed) <= lane.communication and 0 <= lane.busy <= 1
        assert all(a.ended == b.began for a, b in zip(step.path, step.path[1:], strict=False))
        assert all(state.length > 0 for state in step.path)
        assert not step.lanes or step.path[-1].ended == max(lane.ended for lane in step.lanes)
    rows = [depths([e for e in recording.events if e.replica == r]) for r in range(3)]
    assert [len(row) for row in rows] == [sum(e.replica == r for e in recording.events)
                                          for r in range(3)]  # fmt: skip
    assert summary(recording) and step_table(recording) and json.dumps(trace(recording))


def test_a_slow_replica_is_found_in_every_step():
    recording = lenet(4, 5, slow=2)
    steps = analyse(recording)
    assert [step.straggler for step in steps] == [2] * 5
    for step in steps:
        on_two = sum(state.length for state in step.path if state.replica == 2)
        assert on_two > 0.95 * (step.ended - step.began)
        assert step.lanes[2].busy > 0.9 > 0.75 > step.lanes[0].busy


def test_intervals():
    assert merged([(5, 7), (0, 2), (1, 3), (7, 8), (9, 9)]) == [(0, 3), (5, 8)]
    assert without([(0, 10), (20, 30)], [(2, 3), (8, 22), (40, 50)]) == [(0, 2), (3, 8), (22, 30)]
    assert length([(0, 3), (5, 8)]) == 6


def test_modules_lie_below_those_that_call_them_and_bands_do_not_push_each_other():
    events = recorded(
        (0, "forward", "", 0, 10), (0, "forward", "0", 0, 10), (0, "forward", "0.1", 2, 3),
        (0, "forward", "0.2", 3, 4), (0, "wait", "loss", 3, 4), (0, "ready", "bucket 0", 4, 4),
        (0, "reduce", "bucket 0", 4, 6), (0, "reduce", "bucket 1", 5, 7), (0, "update", "", 10, 11),
    ).events  # fmt: skip
    assert depths(events) == [0, 1, 2, 2, 0, 0, 0, 1, 0]
