"""What the examples keep of a run, so that it goes on as if it had never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import minidp as dp
from minidp.errors import CheckpointError

History = list[dict[str, float]]


def save(
    path: Path | None, name: str, model: Any, optimizer: Any, loader: Any, history: History
) -> None:
    """Write everything that the rest of the run depends on, if a path is given."""
    if path is not None:
        state = {
            "name": name, "trained by": type(optimizer).__name__, "model": model.state_dict(),
            "optimizer": optimizer.state_dict(), "loader": loader.state_dict(),
            "random": dp.default_generator.get_state(), "history": history,
        }  # fmt: skip
        dp.save(state, path)


def resume(path: Path | None, name: str, model: Any, optimizer: Any, loader: Any) -> History:
    """Take over a checkpoint, if a path is given; returns the epochs that are done."""
    if path is None:
        return []
    state = dp.load(path)
    if not isinstance(state, dict) or state.get("name") != name:
        found = state.get("name", "something else") if isinstance(state, dict) else "something else"
        raise CheckpointError(f"checkpoint {path} is of {found}, not of the model {name!r}")
    own, found = type(optimizer).__name__, state.get("trained by")
    if found != own:
        raise CheckpointError(f"checkpoint {path} was trained by {found}, not by {own}")
    try:
        history: History = list(state["history"])
        loader.load_state_dict(state["loader"])
        dp.default_generator.set_state(state["random"])
        optimizer.load_state_dict(state["optimizer"])
        model.load_state_dict(state["model"])
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"checkpoint {path} does not fit this run: {error}") from error
    return history
