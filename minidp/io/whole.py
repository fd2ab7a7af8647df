"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from minidp.errors import CheckpointError

UNFINISHED = ".part"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that under its name there is always a whole one: the old or the new.

    A file of another name is written and flushed to the disk, renamed, and the folder flushed too:
    so the new one is there for good when this returns, also after a power cut.
    """
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is no file: it is not written over")
    if not path.parent.is_dir():
        raise CheckpointError(f"{path} cannot be written: {path.parent} is no folder; make it")
    handle, temporary = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    flush(path.parent)


def flush(folder: Path) -> None:
    """Let the names in a folder reach the disk, where the system can be asked to."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unfinished(folder: Path) -> list[Path]:
    """What a process that was killed while it wrote has left in a folder."""
    return sorted(folder.glob(f".*{UNFINISHED}"))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
