"""What the examples share: arguments, progress, reports, and one clear line for every mistake."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from minidp.data import Subset
from minidp.errors import CheckpointError, DataError, DeviceError, MinidpError, ReplicaError

BAD_ARGUMENT, INTERRUPTED = 2, 130
PATIENCE = 2.0
"""Seconds without a first step after which a user should be told why."""
PICTURES = (".png", ".svg", ".pdf", ".jpg")


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments, and ends with code 2."""

    def __init__(self, *, prog: str, description: str | None) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip

    def error(self, message: str) -> NoReturn:
        complain(f"{message}; see {self.prog} --help")


def complain(message: str) -> NoReturn:
    """Print one line and end with code 2."""
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    raise SystemExit(BAD_ARGUMENT)


def positive(kind: type) -> Callable[[str], Any]:
    """A number greater than 0."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text} is not a {what} greater than 0")
        return value

    return read


def numbers(text: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected numbers, such as 3,1") from None


def devices(options: argparse.Namespace) -> str:
    """``--gpus 0,2`` as device names, else ``--devices``, else all cores."""
    if options.gpus is None:
        return str(options.devices or "cpu")
    if options.devices is not None:
        complain("--gpus and --devices both say where to train; give one of them")
    return ",".join(f"cuda:{index.strip()}" for index in options.gpus.split(","))


def check_files(options: argparse.Namespace) -> None:
    """Refuse, before anything runs, files that could not be written at the end."""
    if options.keep is not None:
        make_folder(options)
    for option in ("save", "plot")[options.keep is not None :]:
        path: Path | None = getattr(options, option)
        if path is not None and path.exists() and not path.is_file():
            complain(f"--{option} {path}: this is no file; give the name of one")
        if path is not None and not writable(path.parent):
            complain(f"--{option} {path}: the folder {path.parent} cannot be written to")
    if options.plot is not None and options.plot.suffix.lower() not in PICTURES:
        complain(f"--plot {options.plot}: expected a name that ends in {', '.join(PICTURES)}")
    if options.plot is not None and importlib.util.find_spec("matplotlib") is None:
        complain("--plot draws with matplotlib, which is not installed: pip install matplotlib")


def make_folder(options: argparse.Namespace) -> None:
    """With ``--keep``, ``--save`` names a folder: it is there from the start, so that the same
    command line with ``--resume`` goes on from whatever a run that was killed has left."""
    if options.save is None:
        complain("--keep says how many checkpoints --save keeps; give --save FOLDER too")
    try:
        options.save.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        complain(f"--save {options.save}: no folder can be made there ({error.strerror})")
    if not writable(options.save):
        complain(f"--save {options.save}: this folder cannot be written to")


def writable(folder: Path) -> bool:
    """Whether a file can be made there: tried, since permissions do not tell all."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def first_rows(dataset: Any, rows: int | None) -> Any:
    """The data set, or its first ``rows`` rows."""
    return dataset if rows is None else Subset(dataset, range(min(rows, len(dataset))))


def introduce(train: Any, model: Any, digits: Any, rows: Any, held_out: Any) -> None:
    """Say what runs where, on which data."""
    parameters = sum(p.numel() for p in model.parameters())
    places = ", ".join(map(str, train.devices))
    first = f", the first {len(rows):,}" if len(rows) < len(digits) else ""
    print(f"data: {digits.origin}{first}; {len(held_out):,} for the test")
    print(f"model: {parameters:,} parameters; {len(train.places)} replica(s) on {places}")
    if train.devices[0].type == "emu":
        print("emu: CUDA kernels executed on the CPU; right, but slow")
    sys.stdout.flush()


class ProgressBar:
    """Rows, rows per second and the replicas' busy shares while an epoch runs; silent where output
    is no terminal."""

    def __init__(self, epoch: int, epochs: int, rows: int, train: Any = None) -> None:
        self.title, self.rows, self._bar = f"epoch {epoch + 1}/{epochs}", rows, None
        self.train = train
        self._told = epoch > 0
        self.began, self.seconds = time.perf_counter(), 0.0

    def __enter__(self) -> ProgressBar:
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self.rows, desc=self.title, unit=" rows", leave=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.began
        if self._bar is not None:
            self._bar.close()

    def show(self, progress: Any) -> None:
        """Called about ten times a second by the scheduler."""
        if not (self._told or progress.steps) and progress.seconds > PATIENCE:
            self._told = True
            print("compiling the kernels for this machine: once, some ten seconds", flush=True)
        if self._bar is not None:
            shares = [f"{share:.0%}" for share in self.train.stats().get("busy", ())]
            self._bar.set_postfix_str(f"busy {' '.join(shares)}", refresh=False)
            self._bar.update(progress.rows - self._bar.n)

    def say(self, text: str) -> None:
        """Print a line without disturbing the bar."""
        if self._bar is None:
            print(text, flush=True)
        else:
            self._bar.write(text)

    def speed(self) -> dict[str, float]:
        return {"seconds": self.seconds, "rows_per_second": self.rows / self.seconds}


def epoch_line(epoch: int, epochs: int, result: dict[str, float]) -> None:
    """One line per epoch."""
    print(
        f"epoch {epoch + 1}/{epochs}: train loss {result['loss']:.4f}, "
        f"test loss {result['test_loss']:.4f}, test accuracy {result['accuracy']:.2%}, "
        f"{result['seconds']:.2f} s, {result['rows_per_second']:,.0f} rows/s",
        flush=True,
    )


def finish(
    options: argparse.Namespace, train: Any, model: Any, origin: str, held_out: Any,
    history: list[dict[str, float]],
) -> dict[str, Any]:  # fmt: skip
    """The final line, the picture and the JSON."""
    last = history[-1]
    if options.verify and not train.verify:
        print("verified: the first step had the gradients of one replica")
    print(f"final test accuracy {last['accuracy']:.2%} after {len(history)} epoch(s)")
    if options.plot is not None:
        from minidp.examples.pictures import draw

        draw(options.plot, model, train, held_out, history)
        print(f"drew {options.plot}")
    report = {
        "accuracy": last["accuracy"], "test_loss": last["test_loss"],
        "seconds": round(since_start(), 3), "rows_per_second": round(last["rows_per_second"], 1),
        "devices": [str(device) for device in train.devices], "data": origin,
        "epochs": len(history),
    }  # fmt: skip
    if options.json:
        print(json.dumps(report))
    return report


def since_start() -> float:
    """Seconds since this process began."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return uptime - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.process_time()


def run(main: Callable[[], Any]) -> NoReturn:
    """Run ``main``; mistakes of the user end with one line and code 2, Ctrl-C with 130."""
    code = 0
    try:
        main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        code = INTERRUPTED
    except (CheckpointError, DataError, DeviceError) as error:
        complain(str(error))
    except ReplicaError as error:
        if getattr(error, "__notes__", None):  # it comes from a replica that was running
            raise
        complain(str(error))
    except MinidpError:
        raise
    raise SystemExit(code)
