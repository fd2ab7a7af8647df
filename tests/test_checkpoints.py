"""Checkpoints: whole or not at all, checked byte by byte, and enough to go on as if nothing was."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.data import Compose, DataLoader, RandomCrop, RandomHorizontalFlip, TensorDataset
from minidp.errors import CheckpointError
from minidp.io import checkpoints as of_runs
from minidp.io import origin
from minidp.io.checkpoint import load_with_origin

VALUE = {
    "a.b": dp.ones(2), "a": {"b": dp.zeros(3, dtype=dp.int64), 1: 2, "1": (None, True, "x")},
    "none": np.zeros((0, 3), np.float16), "scalar": dp.tensor(2.5, dtype=dp.float64),
    "list": [1.5, float("inf"), np.float32(0.1), {"deep": [dp.tensor([True])]}],
}  # fmt: skip


def same(one, other):
    if isinstance(one, (dp.Tensor, np.ndarray)):
        one, other = np.asarray(one), np.asarray(other)
        return one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and (isinstance(one, np.generic) or type(one) is type(other))


def test_what_is_saved_comes_back(tmp_path):
    dp.save(VALUE, tmp_path / "x")
    assert same(VALUE, dp.load(tmp_path / "x"))
    with open(tmp_path / "x", "rb") as file:
        assert same(VALUE, dp.load(file))
    dp.save(VALUE, tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x", "y"]


@pytest.mark.parametrize("wrong, text", [
    ({"f": len}, "f is a builtin"), ({"c": np.ones(2, np.complex64)}, "c holds complex64"),
    ({"s": np.array(["x"])}, "s holds <U1"), ({"d": {(1, 2): 3}}, r"d has a key \(1, 2\)"),
    ([object()], "0 is a object"),
])  # fmt: skip
def test_what_cannot_be_kept_is_named_and_nothing_is_written(wrong, text, tmp_path):
    with pytest.raises(CheckpointError, match=text):
        dp.save(wrong, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(CheckpointError, match="is no folder; make it"):
        dp.save(1, tmp_path / "no" / "x")
    with pytest.raises(CheckpointError, match="not written over"):
        dp.save(1, tmp_path)


def damaged(content, tmp_path):
    (tmp_path / "y").write_bytes(content)
    try:
        return load_with_origin(tmp_path / "y")
    except CheckpointError:
        return None


def test_every_flipped_bit_is_noticed(tmp_path):
    dp.save({"w": dp.arange(5.0), "step": 12, "m": [dp.ones(2), "x"]}, tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    assert damaged(content, tmp_path) is not None
    for place in range(len(content)):
        for bit in (place % 8, (place + 3) % 8):
            broken = bytearray(content)
            broken[place] ^= 1 << bit
            assert damaged(bytes(broken), tmp_path) is None, (place, bit, content[place - 9 :][:20])


def test_every_torn_file_is_noticed(tmp_path):
    dp.save({"w": dp.arange(5.0), "step": 12}, tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    for length in range(len(content)):
        assert damaged(content[:length], tmp_path) is None
        if length % 7 == 0:  # as a disk that had not written all pages leaves it
            assert damaged(content[:length] + bytes(len(content) - length), tmp_path) is None


def test_files_of_others_and_older_ones(tmp_path):
    from safetensors.numpy import save_file

    save_file({"w": np.ones(2, np.float32)}, tmp_path / "plain", {"format": "pt"})
    assert same(dp.load(tmp_path / "plain"), {"w": dp.ones(2)})
    save_file({}, tmp_path / "older", {"minidp": '{"dict": [["n", 3]]}'})
    assert dp.load(tmp_path / "older") == {"n": 3}
    (tmp_path / "pickled").write_bytes(pickle.dumps(Unpickled()))
    with pytest.raises(CheckpointError, match="no checkpoint"):
        dp.load(tmp_path / "pickled")
    for kind in (CheckpointError, FileNotFoundError):
        with pytest.raises(kind, match="no such file"):
            dp.load(tmp_path / "absent")


class Unpickled:
    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


def test_it_says_where_it_was_written(tmp_path, monkeypatch):
    dp.save(1, tmp_path / "x")
    there = load_with_origin(tmp_path / "x")[1]
    for name in ("minidp", "python", "numpy", "processor", "CPU kernels", "BLAS", "BLAS threads"):
        assert there[name] != "unknown"
    assert origin.differences(there) == []
    assert origin.differences({**there, "numpy": "1.0"}) == [f"numpy 1.0, here {np.__version__}"]


# --- the checkpoints of a run


def parts(seed=0):
    dp.manual_seed(seed)
    model = nn.Linear(2, 1)
    optimizer = optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(np.ones((6, 2), np.float32), np.ones((6, 1), np.float32)), 2)
    return {"model": model, "optimizer": optimizer, "loader": loader}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_few_are_kept(tmp_path):
    run = dp.io.Checkpoints(tmp_path / "deep" / "folder", 2, **parts())
    for _ in range(4):
        run.save()
    assert names(run.folder) == ["step-00000002.safetensors", "step-00000003.safetensors"]
    (run.folder / ".step-00000009.safetensors.xyz.part").write_bytes(b"torn")
    run.save(step=10, note="mine")
    assert names(run.folder) == ["step-00000003.safetensors", "step-00000010.safetensors"]
    assert run.resume() == {"step": 10, "note": "mine"}
    with pytest.raises(CheckpointError, match="keep=0"):
        dp.io.Checkpoints(tmp_path, 0)


def test_damaged_ones_are_passed_over_with_a_line_each(tmp_path):
    run, lines = dp.io.Checkpoints(tmp_path, **parts()), []
    assert run.resume() is None
    for step in range(3):
        run.save(step)
    newest, second = (path for _, path in run.files()[:2])
    newest.write_bytes(newest.read_bytes()[:-3])
    second.write_bytes(second.read_bytes().replace(b'"seed', b'"seeb'))
    state = run.resume(lines.append)
    assert state["step"] == 0 and len(lines) == 2
    assert all("damaged" in line and "passed over" in line for line in lines)
    assert all("\n" not in line for line in lines)


def test_another_machine_is_told_of(tmp_path, monkeypatch):
    run, lines = dp.io.Checkpoints(tmp_path, **parts()), []
    run.save()
    monkeypatch.setattr(origin, "_blas", lambda: {"BLAS": "other", "BLAS threads": "64"})
    run.resume(lines.append)
    assert len(lines) == 1 and "bytes may differ" in lines[0] and "BLAS threads" in lines[0]
    with pytest.warns(UserWarning, match="BLAS threads"):
        run.resume()


def everything(run):
    """What a run consists of, as bytes that can be compared."""
    from minidp.io.checkpoint import as_bytes

    return as_bytes(of_runs.states(run.parts))


@pytest.mark.parametrize("change, text", [
    (lambda p: p.update(model=nn.Linear(3, 1)), "model"),
    (lambda p: p.update(optimizer=optim.SGD(p["model"].parameters(), lr=1.0)),
     "optimizer is of the kind Adam, this run's of SGD"),
    (lambda p: p.update(optimizer=optim.Adam([dp.ones(3)])), "optimizer"),
    (lambda p: p.update(schedule=optim.lr_scheduler.StepLR(p["optimizer"], 1)), "has no schedule"),
    (lambda p: p.pop("loader"), "also has loader"),
    (lambda p: p.update(loader=DataLoader(range(6), 3)), "batch_size"),
])  # fmt: skip
def test_what_does_not_fit_changes_nothing(change, text, tmp_path):
    run = dp.io.Checkpoints(tmp_path, **parts())
    train = dp.Scheduler(run.parts["model"], nn.MSELoss(), run.parts["optimizer"], devices=1)
    for (x, y), behind in run.parts["loader"].read():
        train(x, y)
        run.parts["loader"].commit(behind)
        break
    run.save()
    given = parts(7)
    change(given)
    other = dp.io.Checkpoints(tmp_path, **given)
    before = everything(other)
    with pytest.raises(CheckpointError, match=text):
        other.resume()
    assert everything(other) == before


# --- a run that stops and goes on, on other devices


def digits():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((38, 1, 6, 6)).astype(np.float32)
    chance = Compose([RandomCrop(6, padding=1), RandomHorizontalFlip()])
    return TensorDataset(images, rng.integers(0, 3, 38), transform=chance)


def make_run(folder, devices, optimizer=optim.SGD, **options):
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(64, 3),
    )  # fmt: skip
    optimizer = optimizer(model.parameters(), lr=0.05, **options)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
    loader = DataLoader(digits(), 8, shuffle=True)
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, devices, replicas=4)
    run = dp.io.Checkpoints(
        folder, model=model, optimizer=optimizer, schedule=schedule, loader=loader
    )
    return run, train


def train_for(run, train, steps):
    loader, losses = run.parts["loader"], []
    while True:
        for (x, y), behind in loader.read():
            losses.append(float(train(x, y)))
            run.parts["schedule"].step()
            loader.commit(behind)
            if len(losses) == steps:
                return losses


@pytest.mark.parametrize("optimizer, options", [
    (optim.SGD, {"momentum": 0.9}), (optim.NAdam, {}), (optim.RMSprop, {"momentum": 0.5}),
])  # fmt: skip
@pytest.mark.parametrize("stop", [3, 5, 7])  # of five batches an epoch
def test_saved_on_four_devices_and_resumed_on_two(optimizer, options, stop, tmp_path):
    dp.manual_seed(3)
    whole, train = make_run(tmp_path / "whole", 3, optimizer, **options)
    expected = train_for(whole, train, 12)
    dp.manual_seed(3)
    run, train = make_run(tmp_path / "part", 4, optimizer, **options)
    losses = train_for(run, train, stop)
    run.save(stop)
    train_for(run, train, 2)  # these are lost
    dp.manual_seed(99)
    other, train = make_run(tmp_path / "part", 2, optimizer, **options)
    assert other.resume()["step"] == stop
    losses += train_for(other, train, 12 - stop)
    assert losses == expected and everything(other) == everything(whole)


# --- kill -9


WRITER = """
import sys
import numpy as np
import minidp as dp

class State:
    def state_dict(self):
        return {"w": np.full(int(sys.argv[2]), step), "step": step}

run = dp.io.Checkpoints(sys.argv[1], keep=3, state=State())
for step in range(10**6):
    run.save(step)
    print(step, flush=True)
"""


class State:
    state = None

    def state_dict(self):
        return None

    def load_state_dict(self, state_dict):
        self.state = state_dict


def kill_while_saving(folder, rng, size):
    """Kill a process at a random moment; the newest whole file is one it said was written, or the
    next."""
    root = Path(dp.__file__).parents[1]
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(size)], text=True,
                             stdout=subprocess.PIPE, cwd=root)  # fmt: skip
    told = [int(child.stdout.readline())]
    time.sleep(rng.uniform(0, 0.15))
    os.kill(child.pid, signal.SIGKILL)
    told += [int(line) for line in child.stdout]
    child.wait()
    kept, lines = State(), []
    run = dp.io.Checkpoints(folder, state=kept)
    step = run.resume(lines.append)["step"]
    assert not lines and step in (told[-1], told[-1] + 1) and kept.state["step"] == step
    assert (kept.state["w"] == step).all() and len(run.files()) in (3, 4, step + 1)
    left = [path for path in Path(folder).iterdir() if path.suffix == ".part"]
    assert len(left) <= 1
    return bool(left)


def test_killed_while_saving(tmp_path):
    rng = np.random.default_rng(1)
    for number in range(3):
        kill_while_saving(tmp_path / str(number), rng, 200_000)


@pytest.mark.slow
def test_killed_while_saving_fifty_times(tmp_path):
    rng = np.random.default_rng(2)
    torn = sum(kill_while_saving(tmp_path / str(n), rng, 500_000) for n in range(50))
    print(f"{torn} of 50 left an unfinished file")
    assert torn
