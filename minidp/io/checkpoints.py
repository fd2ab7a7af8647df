"""The checkpoints of a run: the last few, in a folder of its own; and how a run goes on."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from minidp.errors import CheckpointError
from minidp.io.checkpoint import load_with_origin, save
from minidp.io.origin import differences
from minidp.io.whole import unfinished
from minidp.random import default_generator

State = dict[str, Any]
Tell = Callable[[str], Any]
NAME = re.compile(r"step-(\d+)\.safetensors")


class Part(Protocol):
    """Of a run: a model, an optimiser, a schedule, a loader ..."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any) -> Any: ...


class Checkpoints:
    """The last ``keep`` checkpoints of a run, in ``folder``, which is made if need be.

    ``parts``, by name, are all that the run depends on: model, optimizer, schedule, loader, scaler
    of your own; anything with ``state_dict`` and ``load_state_dict``. The default generator of
    random numbers is always among them. One run writes to a folder at a time.

    >>> import tempfile
    >>> model = nn.Linear(2, 1)
    >>> run = dp.io.Checkpoints(tempfile.mkdtemp(), keep=3, model=model)
    >>> run.resume() is None  # there is none yet
    True
    >>> run.save(step=120).name
    'step-00000120.safetensors'
    >>> run.resume()["step"]
    120
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int = 3, **parts: Part) -> None:
        if keep < 1:
            raise CheckpointError(f"Checkpoints: keep={keep}; expected 1 or more")
        self.folder, self.keep = Path(folder), keep
        self.parts = parts
        self.folder.mkdir(parents=True, exist_ok=True)

    def files(self) -> list[tuple[int, Path]]:
        """(step, file) of each checkpoint that is there, the newest first; some may be damaged."""
        found = [(NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return sorted(((int(m[1]), path) for m, path in found if m), reverse=True)

    def save(self, step: int | None = None, **more: Any) -> Path:
        """Write a checkpoint, with ``more`` values in it, and remove those beyond ``keep``.

        ``step`` orders them; by default the one after the newest. Earlier ones are removed when the
        new one is on the disk, and those of later steps stay: they come from a run that went
        further, and ``resume`` would take them.
        """
        files = self.files()
        step = (files[0][0] + 1 if files else 0) if step is None else step
        path = self.folder / f"step-{step:08d}.safetensors"
        save({**states(self.parts), **more, "step": step}, path)
        older = [old for number, old in files if number < step]
        for old in [*older[self.keep - 1 :], *unfinished(self.folder)]:
            old.unlink(missing_ok=True)
        return path

    def resume(self, tell: Tell = warnings.warn) -> State | None:
        """Let every part go on from the newest checkpoint that is whole; None if there is none.

        Returns what ``save`` was given besides, and "step". ``tell`` is called with one line for
        each damaged file that is passed over, and with one if bytes may differ from those of a
        run that never stopped, because versions, processor or threads do. A whole checkpoint that
        does not fit the parts raises CheckpointError, and nothing has changed.
        """
        for _, path in self.files():
            try:
                state, origin = load_with_origin(path)
            except CheckpointError as error:
                tell(f"{error}; passed over")
                continue
            return resumed(path, state, self.parts, differences(origin), tell)
        return None


def states(parts: dict[str, Part]) -> State:
    """What a checkpoint holds of the parts of a run."""
    everything = {**parts, "random": default_generator}
    kinds = {name: type(part).__name__ for name, part in parts.items()}
    return {**{name: part.state_dict() for name, part in everything.items()}, "kinds": kinds}


def resumed(path: Any, state: Any, parts: dict[str, Part], differ: list[str], tell: Tell) -> State:
    """Give the parts their states; what else is in the checkpoint is returned."""
    everything = {**parts, "random": default_generator}
    if not isinstance(state, dict) or not {*everything, "kinds"} <= state.keys():
        missing = sorted({*everything, "kinds"} - set(state if isinstance(state, dict) else ()))
        raise CheckpointError(f"checkpoint {path} has no {', '.join(missing)}: it is of another "
                              "kind of run")  # fmt: skip
    _same_kinds(path, state["kinds"], parts)
    restore(path, everything, state)
    if differ:
        tell(f"checkpoint {path} was written elsewhere, so bytes may differ from those of a run "
             f"that never stopped: {'; '.join(differ)}")  # fmt: skip
    return {name: value for name, value in state.items() if name not in {*everything, "kinds"}}


def _same_kinds(path: Any, kinds: dict[str, str], parts: dict[str, Part]) -> None:
    """Refuse the state of an Adam for an SGD. (A model's own state says whether it fits.)"""
    if kinds.keys() - parts.keys():
        raise CheckpointError(f"checkpoint {path} also has {', '.join(kinds.keys() - parts.keys())}"
                              ", which this run is without")  # fmt: skip
    for name, part in parts.items():
        here = type(part).__name__
        if kinds.get(name) != here and not _is_model(part):
            raise CheckpointError(f"checkpoint {path}: its {name} is of the kind "
                                  f"{kinds.get(name)}, this run's of {here}")  # fmt: skip


def restore(path: Any, parts: dict[str, Part], state: State) -> None:
    """``load_state_dict`` of every part, or of none if one refuses."""
    # a model comes last: it takes all or nothing, and what it had is not copied
    order = sorted(parts.items(), key=lambda item: _is_model(item[1]))
    before: list[tuple[Part, Any]] = []
    try:
        for name, part in order:
            if not _is_model(part):
                before.append((part, part.state_dict()))
            part.load_state_dict(state[name])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        for part, own in reversed(before):
            part.load_state_dict(own)
        raise CheckpointError(
            f"checkpoint {path} does not fit this run ({name}): {error}"
        ) from error


def _is_model(part: Part) -> bool:
    return hasattr(part, "named_parameters")
