"""What the examples keep of a run, so that it goes on as if it had never stopped."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import minidp as dp
from minidp.examples import command_line as cl
from minidp.io.checkpoint import load_with_origin
from minidp.io.checkpoints import Checkpoints, resumed, states
from minidp.io.origin import differences

History = list[dict[str, float]]


class Kept:
    """A plain value as a part of a run; a ``fixed`` one has to be the checkpoint's too."""

    def __init__(self, value: Any, fixed: bool = False) -> None:
        self.value, self.fixed = value, fixed

    def state_dict(self) -> Any:
        return self.value

    def load_state_dict(self, state_dict: Any) -> None:
        if self.fixed and state_dict != self.value:
            raise ValueError(f"it is of the model {state_dict!r}, not of {self.value!r}")
        self.value = state_dict


def add_options(options: argparse.ArgumentParser) -> None:
    """Where checkpoints are."""
    options.add_argument("--save", metavar="FILE", type=Path, help="checkpoint after each epoch")
    options.add_argument("--keep", type=cl.positive(int), metavar="N",
                         help="--save is a folder that keeps the last N checkpoints")  # fmt: skip
    options.add_argument("--resume", metavar="FILE", type=Path,
                         help="go on from a file, or a folder's newest whole one")  # fmt: skip


def save(
    options: argparse.Namespace, model: Any, optimizer: Any, loader: Any, history: History
) -> None:  # fmt: skip
    """Write everything that the rest of the run depends on, if ``options`` ask for it."""
    parts, path = _parts(options.model, model, optimizer, loader, history), options.save
    if path is not None and options.keep is not None:
        Checkpoints(path, options.keep, **parts).save(len(history))
    elif path is not None:
        dp.save(states(parts), path)


def resume(path: Path | None, name: str, model: Any, optimizer: Any, loader: Any) -> History:
    """Take over a checkpoint, or the newest whole one of a folder; returns the epochs done."""
    if path is None:
        return []
    parts = _parts(name, model, optimizer, loader, [])
    if not path.is_dir():
        state, origin = load_with_origin(path)
        resumed(path, state, parts, differences(origin), print)
    elif Checkpoints(path, **parts).resume(print) is None:
        print(f"no whole checkpoint in {path}: the run begins anew")
    history: History = parts["history"].value
    return history


def _parts(name: str, model: Any, optimizer: Any, loader: Any, history: History) -> dict[str, Any]:
    return {"name": Kept(name, fixed=True), "history": Kept(history), "loader": loader,
            "optimizer": optimizer, "model": model}  # fmt: skip
