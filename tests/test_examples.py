"""The MNIST example as a user runs it: a process, its output, its exit code, its files."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import minidp as dp
from minidp.data.archives import MNIST
from minidp.data.idx import format_idx, read_idx
from minidp.data.locate import bundled
from minidp.examples import command_line, mnist, scaling

EXAMPLE = [sys.executable, "-m", "minidp.examples.mnist"]
SCALING = [sys.executable, "-m", "minidp.examples.scaling"]
SMALL = ["--model", "mlp", "--rows", "300", "--epochs", "2", "--devices", "2", "--json"]
OFFLINE = {**os.environ, "MINIDP_OFFLINE": "1"}


def run(*arguments, check=0, cwd=None, example=EXAMPLE):
    done = subprocess.run([*example, *arguments], capture_output=True, text=True, env=OFFLINE,
                          timeout=240, cwd=cwd)  # fmt: skip
    assert done.returncode == check, done.stderr
    return done


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    """Call ``main`` in this process, which takes a tenth of the time: its one line of complaint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINIDP_OFFLINE", "1")

    def call(*arguments, main=mnist.main):
        with pytest.raises(SystemExit) as ended:
            command_line.run(lambda: main(list(arguments)))
        told = capsys.readouterr()
        assert ended.value.code == 2 and "epoch 1" not in told.out
        assert len(told.err.splitlines()) == 1 and told.err.startswith("error: ")
        return told.err

    return call


def report(done):
    return json.loads(done.stdout.splitlines()[-1])


def test_prints_plain_lines_and_one_last_line_of_json(tmp_path):
    done = run(*SMALL, cwd=tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert "bundled digits" in lines[0] and ", the first 300; 1,000 for the test" in lines[0]
    assert "2 replica(s) on cpu:0, cpu:1" in lines[1]
    assert sum(line.startswith("epoch ") for line in lines) == 2
    last = report(done)
    assert set(last) == {"accuracy", "test_loss", "seconds", "rows_per_second", "devices", "data",
                         "epochs"}  # fmt: skip
    assert last["devices"] == ["cpu:0", "cpu:1"] and last["epochs"] == 2
    assert 0.5 < last["accuracy"] <= 1 and 0 < last["seconds"] < 240
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments, says", [
    (["--devices", "tpu:0"], "unknown"),
    (["--devices", "cpu:0,cpu:0"], "twice"),
    (["--devices", "2", "--workload", "1,2,3"], "workload"),
    (["--devices", "2", "--workload", "3,-1"], "negative"),
    (["--devices", "2", "--workload", "0,0"], "zero"),
    (["--devices", "2", "--workload", "a,b"], "expected numbers, such as 3,1"),
    (["--lr", "fast"], "fast is not a number greater than 0"),
    (["--rows", "1.5"], "1.5 is not a whole number greater than 0"),
    (["--kv-store", "dist_sync"], "--kv-store"),
    (["--resume", "nowhere.safetensors"], "no such file"),
    (["--save", "no/such/folder/file"], "cannot be written"),
    (["--data", "no-such-folder"], "no-such-folder"),
    (["--kv-store", "dist_sync"], "several machines come in a later version"),
    (["--gpus", "0"], "give one of them"),
    (["--epochs", "0"], "--epochs"),
    (["--accumulate", "0"], "--accumulate"),
    (["--fingerprint", "-1"], "--fingerprint"),
    (["--batch-size", "-3"], "--batch-size"),
    (["--model", "transformer"], "--model"),
    (["--unknown"], "--unknown"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")  # fmt: skip
def test_a_bad_argument_gives_one_line_code_2_and_no_file(arguments, says, refused, tmp_path):
    assert says in refused(*SMALL, "--plot", "out.png", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_the_process_ends_with_one_line_and_code_2(tmp_path):
    for example, name in ((EXAMPLE, "mnist"), (SCALING, "scaling")):
        done = run("--unknown", check=2, cwd=tmp_path, example=example)
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("error: ") and f"minidp.examples.{name}" in done.stderr


def test_gpus_without_a_gpu_say_what_to_do(tmp_path):
    from minidp.backend import get_backend

    if get_backend("cuda").count():
        pytest.skip("this machine has a GPU, so --gpus is no mistake here")
    done = run("--gpus", "0,2", check=2, cwd=tmp_path)
    assert len(done.stderr.splitlines()) == 1 and "emu" in done.stderr


def test_a_checkpoint_of_another_model_or_a_damaged_one_is_refused(tmp_path):
    run(*SMALL, "--save", "mlp.safetensors", cwd=tmp_path)
    before = (tmp_path / "mlp.safetensors").read_bytes()
    done = run(*SMALL, "--model", "cnn", "--resume", "mlp.safetensors", "--save", "b", check=2,
               cwd=tmp_path)  # fmt: skip
    assert len(done.stderr.splitlines()) == 1 and "'cnn'" in done.stderr
    (tmp_path / "half").write_bytes(before[: len(before) // 2])
    done = run(*SMALL, "--resume", "half", check=2, cwd=tmp_path)
    assert len(done.stderr.splitlines()) == 1 and "half" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["half", "mlp.safetensors"]


def test_resuming_gives_the_bytes_of_never_stopping_on_other_devices_too(tmp_path):
    common = [*SMALL, "--replicas", "4", "--optimizer", "adam"]
    run(*common, "--epochs", "4", "--save", "whole", cwd=tmp_path)
    run(*common, "--epochs", "2", "--save", "part", cwd=tmp_path)
    run(*common, "--epochs", "4", "--devices", "3", "--resume", "part", "--save", "rest",
        cwd=tmp_path)  # fmt: skip
    whole, rest = (dp.load(tmp_path / name) for name in ("whole", "rest"))
    for name, tensor in whole["model"].items():
        assert tensor.numpy().tobytes() == rest["model"][name].numpy().tobytes(), name
    assert [h["loss"] for h in whole["history"]] == [h["loss"] for h in rest["history"]]


def cut_mnist(folder, **rows):
    """The first of the bundled digits as a folder of idx files; rows=train=..., t10k=..."""
    folder.mkdir()
    for file in bundled(MNIST).iterdir():
        count = rows.get(file.name.split("-")[0])
        if count:
            (folder / file.name.removesuffix(".gz")).write_bytes(format_idx(read_idx(file)[:count]))
    return str(folder)


@pytest.mark.slow
def test_emulated_gpus_train_the_cnn_like_the_cpu(tmp_path):
    few, losses = cut_mnist(tmp_path / "digits", train=64, t10k=32), {}
    for devices in ("cpu:0-1", "emu:0-1"):
        run("--data", few, "--epochs", "1", "--batch-size", "32", "--devices", devices,
            "--save", devices, cwd=tmp_path)  # fmt: skip
        history = dp.load(tmp_path / devices)["history"][0]
        losses[devices] = np.array([history["loss"], history["test_loss"]])
    np.testing.assert_allclose(losses["emu:0-1"], losses["cpu:0-1"], rtol=0, atol=1e-4)


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib")
    run(*SMALL, "--plot", "out.png", cwd=tmp_path)
    content = (tmp_path / "out.png").read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 20_000


def test_ctrl_c_ends_at_once_with_130():
    process = subprocess.Popen(
        [*EXAMPLE, "--epochs", "500", "--devices", "2"], env=OFFLINE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("epoch"):
        assert line, "the run ended before its first epoch"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and errors == "interrupted\n"
    assert time.monotonic() - began < 4


def test_the_installation_reports_itself():
    done = subprocess.run([sys.executable, "-m", "minidp"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    for word in ("minidp 0.1.0", "numpy", "cpu", "cuda", "emu", "conv2d", "caches"):
        assert word in done.stdout


@pytest.mark.parametrize("arguments, says", [
    (["--plot", "picture.txt"], ".png"),
    (["--save", "."], "no file"),
    (["--save", "/proc/x"], "cannot be written"),
    (["--timeline", "out.svg"], ".html, .json, .txt"),
    (["--timeline", "no/such/folder/out.html"], "cannot be written"),
    (["--log", "."], "no file"),
    (["--lr", "inf"], "--lr"),
    (["--rows", "0"], "--rows"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")  # fmt: skip
def test_what_could_not_be_written_is_refused_at_the_start(arguments, says, refused, tmp_path):
    assert says in refused(*SMALL, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_another_optimizer_or_with_parts_missing_is_refused(refused, tmp_path):
    run(*SMALL, "--save", "sgd", cwd=tmp_path)
    assert "SGD" in refused(*SMALL, "--resume", "sgd", "--optimizer", "adam")
    for part in ("model", "optimizer", "loader", "random", "history"):
        state = dp.load(tmp_path / "sgd")
        del state[part]
        dp.save(state, tmp_path / "less")
        assert part in refused(*SMALL, "--resume", "less")
    done = run(*SMALL, "--resume", "sgd", cwd=tmp_path)
    assert "nothing to train" in done.stdout and report(done)["epochs"] == 2


def test_a_killed_run_goes_on_with_the_same_command_line(tmp_path):
    command = [*SMALL, "--epochs", "60", "--save", "kept", "--keep", "2", "--resume", "kept"]
    process = subprocess.Popen([*EXAMPLE, *command], env=OFFLINE, cwd=tmp_path, text=True,
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    kept = lambda: sorted((tmp_path / "kept").glob("*.safetensors"))[::-1]  # noqa: E731
    lines = [process.stdout.readline() for _ in range(6)]
    while len(kept()) < 2:
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    assert any("no whole checkpoint in kept" in line for line in lines)
    process.kill()
    process.communicate(timeout=20)
    newest, before = kept()[:2]
    newest.write_bytes(newest.read_bytes()[:-9])
    done = len(dp.load(before)["history"])
    rest = run(*command, "--epochs", str(done + 1), cwd=tmp_path)
    assert rest.stderr == "" and report(rest)["epochs"] == done + 1
    told = [line for line in rest.stdout.splitlines() if "passed over" in line]
    assert len(told) == 1 and newest.name in told[0]
    assert f"epoch {done + 1}/{done + 1}" in rest.stdout and f"epoch {done}/" not in rest.stdout


def test_keep_says_what_it_needs(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "give --save FOLDER too" in refused(*SMALL, "--keep", "2")
    assert "no folder can be made" in refused(*SMALL, "--keep", "2", "--save", "file")


@pytest.mark.parametrize("name", ["mnist", "scaling", "pitfalls"])
def test_the_list_of_examples_and_their_help(name):
    example = f"minidp.examples.{name}"
    assert f"python -m {example}\n" in run(example=[*EXAMPLE[:-1], "minidp.examples"]).stdout
    told = run("--help", example=[*EXAMPLE[:-1], example]).stdout
    assert told.startswith("usage: ") and f"\n    python -m {example}" in told


def test_a_step_that_was_verified_is_told_of():
    assert "\nverified: the first step" in run(*SMALL, "--verify").stdout
    assert "verified" not in run(*SMALL).stdout


def test_pitfalls_tells_what_each_mistake_does():
    lines = run(example=[*EXAMPLE[:-1], "minidp.examples.pitfalls"]).stdout.splitlines()
    found = {}
    for line in lines:
        if line.startswith("  "):
            words = line.replace(",", "").split()
            found[words[0], words[-4]] = float(words[-3]), float(words[-1])
    gradients = [found[shares, "off"] for shares in ("22+21+21", "4+3+3", "48+16", "31+1")]
    assert [off for off, _ in gradients] == sorted(off for off, _ in gradients)
    assert gradients[0][0] < 0.05 and gradients[2][0] > 0.2 and gradients[2][1] == 48
    norm = [found[k, "off"] for k in ("1", "2", "8", "16")]
    assert norm[0][0] < 1e-4 and norm[1][0] > 0.1 and norm[3][1] < 0.75 < 0.87 < norm[0][1]
    masks = [found[k, "masks"] for k in ("4", "16", "32")]
    assert [count for count, _ in masks] == [8, 2, 1]
    assert 1 < masks[0][1] < masks[1][1] < masks[2][1]
    tests = [found[k, "right"] for k in ("1", "3", "5", "16")]
    assert len({right for right, _ in tests}) == 1 and len({padded for _, padded in tests}) > 1


def test_pitfalls_finds_nothing_wrong_where_nothing_is():
    from minidp.examples import pitfalls

    assert pitfalls.means([16, 16])["gradient off"] < 1e-5
    assert pitfalls.means([16, 16])["rows"] == 32
    assert pitfalls.dropout(1, draws=3)["variance"] == 1
    found = pitfalls.evaluation(pitfalls.network(), 64, 2)  # 64 rows need no padding
    assert found["right"] == found["padded"]


def fingerprints(done):
    return [line for line in done.stdout.splitlines() if line.startswith("step ")]


def test_fingerprints_are_equal_on_any_devices_captured_or_not(tmp_path):
    common = ["--replicas", "3", "--fingerprint", "3", "--workload", "2,1", "--verify"]
    expected = fingerprints(run(*SMALL, *common[:4], cwd=tmp_path))
    assert [line.split(":")[0] for line in expected] == ["step 3", "step 6", "step 9"]
    for more in ([], ["--capture"], ["--kv-store", "nccl"]):
        assert fingerprints(run(*SMALL, *common, *more, cwd=tmp_path)) == expected
    parts = fingerprints(run(*SMALL, *common, "--accumulate", "2", cwd=tmp_path))
    assert len(parts) == 3 and parts != expected  # equal but for rounding


@pytest.mark.parametrize("suffix", [".html", ".json", ".txt"])
def test_a_timeline_of_the_first_epoch_and_a_log(suffix, tmp_path):
    path = tmp_path / f"out{suffix}"
    done = run(*SMALL, "--timeline", path.name, "--log", "log", "--batch-size", "20", cwd=tmp_path)
    assert done.stdout.count(f"wrote {path.name}") == 1
    text = path.read_text()
    if suffix == ".json":
        kinds = {e.get("cat") for e in json.loads(text)["traceEvents"]}
        assert {"forward", "backward", "ready", "update"} <= kinds
    elif suffix == ".txt":  # 15 steps, of which 5 are to warm up
        assert text.startswith("10 step(s) on 2 replica(s)") and "critical path: " in text
    else:
        assert text.lstrip().startswith("<!DOCTYPE html>") and "Linear" in text
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["epoch"] for line in lines} == {0, 1} and lines[-1]["rows"] == 300
    assert len(lines[-1]["busy"]) == 2


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no terminals to open")
def test_a_terminal_shows_speed_and_busy_shares():
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    process = subprocess.Popen([*EXAMPLE, "--devices", "2", "--epochs", "2"], env=OFFLINE,
                               stderr=theirs, stdout=subprocess.DEVNULL)  # fmt: skip
    os.close(theirs)
    shown = b""
    while not re.search(rb"rows/s, busy \d+% \d+%", shown):
        shown += os.read(ours, 1000)
    process.terminate()
    process.wait()
    os.close(ours)


BRIEF = ["--model", "mlp", "--most", "3", "--rounds", "1", "--rows", "32"]


def test_scaling_measures_every_setting_and_draws(tmp_path):
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib")
    done = run(*BRIEF, "--batch-sizes", "32,16", "--plot", "out.png", cwd=tmp_path, example=SCALING)
    rows = [line.split() for line in done.stdout.splitlines()[2:-1]]
    assert [row[:2] for row in rows] == [[b, k] for b in ("16", "32") for k in ("1", "2", "3")]
    for batch, replicas, speed, efficiency, step, share, rest in rows:
        measured = pytest.approx(1000 * int(batch) / float(step), rel=0.02, abs=0.51)
        assert float(speed.replace(",", "")) == measured
        assert float(rest) == pytest.approx(float(step) - float(share), abs=0.011)
        assert replicas != "1" or (efficiency == "100%" and rest == "0.00")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arguments, says", [
    (["--batch-sizes", "0"], "at least one row"), (["--most", "0"], "--most"),
    (["--plot", "out.txt"], ".png"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")  # fmt: skip
def test_scaling_refuses_what_it_cannot_do(arguments, says, refused):
    assert says in refused(*BRIEF, *arguments, main=scaling.main)


def test_efficiency_is_speed_against_as_many_replicas_alone():
    row = scaling.Row(batch=64, replicas=4, step=0.02, share=0.015, alone=0.06)
    assert row.rows_per_second == 3200 and row.efficiency == 0.75
    assert row.line().split() == ["64", "4", "3,200", "75%", "20.00", "15.00", "5.00"]
