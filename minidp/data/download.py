"""Fetching the files of an archive into a folder, all or nothing by file.

A file appears under its name only when it is whole and its checksum is right: it is written under
a name of its own and renamed, so that several processes may fetch at once and one that is killed
leaves nothing that could be taken for data.  Being offline is normal: mirrors are asked all at
once, within `PATIENCE` seconds, and a failed attempt is remembered (by this process for good, in
the folder for a day) so that the next run does not wait again.
"""

from __future__ import annotations

import hashlib
import queue
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from minidp.data.archives import Archive
from minidp.data.idx import unpack
from minidp.errors import DataError

PATIENCE = 2.5  # seconds in which some mirror has to answer
STALL = 10.0  # seconds without a byte, after which a transfer is given up
LARGEST = 64 << 20  # bytes of a compressed file
DAY = 86_400.0  # seconds
MARKER = "download-failed"

FAILED: dict[Path, str] = {}  # registry: folder -> why this process could not fill it


def ensure(archive: Archive, folder: Path, *, again: bool = False) -> None:
    """See to it that `folder` holds every file of `archive`, sound; DataError says why not.

    `again`: try even if an earlier attempt failed.
    """
    reason = None if again else remembered(folder)
    if reason is None:
        reason = attempt(archive, folder)
        remember(folder, reason)
    if reason is not None:
        raise DataError(reason)


def attempt(archive: Archive, folder: Path) -> str | None:
    """Try every mirror that answers, until one has given all that is missing; else the reason."""
    try:
        prepare(folder)
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror or error})"
    missing = [name for name in archive.md5 if not sound(archive, folder / f"{name}.gz")]
    reasons: list[str] = []
    for mirror in answering(archive.mirrors, f"{next(iter(archive.md5))}.gz", reasons):
        try:
            fill(archive, folder, mirror, missing)
            return None
        except Exception as error:  # whatever a broken network, proxy or disk can think of
            reasons.append(f"{mirror}: {explain(error)}")
    return "; ".join(reasons)


def prepare(folder: Path) -> None:
    """Make `folder`, prove that it can be written, and drop what a killed process left there."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in folder.glob("*.part"):
        if time.time() - part.stat().st_mtime > DAY:
            part.unlink(missing_ok=True)
    write(folder / ".writable", b"")
    (folder / ".writable").unlink(missing_ok=True)


def fill(archive: Archive, folder: Path, mirror: str, missing: list[str]) -> None:
    """Fetch the files named in `missing` from `mirror`, taking each off the list once it is in."""
    print(f"minidp: fetching {archive.title} from {mirror} into {folder}", file=sys.stderr)
    while missing:
        data = fetch(f"{mirror}{missing[0]}.gz")
        verify(data, missing[0], archive.md5[missing[0]])
        write(folder / f"{missing[0]}.gz", data)
        missing.pop(0)


def answering(mirrors: tuple[str, ...], name: str, reasons: list[str]) -> Iterator[str]:
    """Mirrors that have the file `name`, in the order in which they answer.

    Why the others are left out is added to `reasons`.  Threads, because looking up a host name
    knows no time-out: on a bad network it alone can take half a minute.
    """
    answers: queue.Queue[tuple[str, str]] = queue.Queue()
    for mirror in mirrors:
        threading.Thread(target=ask, args=(mirror, name, answers), daemon=True).start()
    deadline, silent = time.monotonic() + PATIENCE, list(mirrors)
    while silent:
        try:
            mirror, reason = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            reasons.extend(f"{mirror}: no answer within {PATIENCE} s" for mirror in silent)
            return
        silent.remove(mirror)
        if reason:
            reasons.append(f"{mirror}: {reason}")
        else:
            yield mirror


def ask(mirror: str, name: str, answers: queue.Queue[tuple[str, str]]) -> None:
    """Put (mirror, "") if it has the file `name`, else (mirror, why not)."""
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(mirror + name, method="HEAD"), timeout=PATIENCE).close()
        answers.put((mirror, ""))
    except Exception as error:  # a thread has nobody to raise to
        answers.put((mirror, explain(error)))


def fetch(url: str) -> bytes:
    """The bytes at `url`."""
    from urllib.request import urlopen

    with urlopen(url, timeout=STALL) as response:
        data: bytes = response.read(LARGEST)
    return data


def verify(data: bytes, name: str, md5: str) -> None:
    """Raise DataError unless `data`, uncompressed, has the checksum `md5`."""
    if data.lstrip()[:1] == b"<":
        raise DataError(f"{name}: a web page came instead of the file")
    found = hashlib.md5(unpack(data, name), usedforsecurity=False).hexdigest()
    if found != md5:
        raise DataError(f"{name}: md5 of the uncompressed bytes is {found}, not {md5}")


def sound(archive: Archive, path: Path) -> bool:
    """Whether `path` is there and is the archive's own file."""
    try:
        verify(path.read_bytes(), path.name, archive.md5[path.stem])
    except (OSError, DataError):
        return False
    return True


def write(path: Path, data: bytes) -> None:
    """Write `path` whole or not at all."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def explain(error: Exception) -> str:
    """One line for an error of the network or the file system."""
    cause = getattr(error, "reason", error)
    return str(getattr(cause, "strerror", None) or cause or type(error).__name__)


def remembered(folder: Path) -> str | None:
    """Why an earlier attempt failed, if one did in this process or today."""
    marker = folder / MARKER
    try:
        if folder not in FAILED and time.time() - marker.stat().st_mtime < DAY:
            FAILED[folder] = f"tried today: {marker.read_text(errors='replace')}"
    except OSError:
        pass  # no marker, or nobody may read it: then nothing is remembered
    return FAILED.get(folder)


def remember(folder: Path, reason: str | None) -> None:
    """Note how an attempt ended; None: it went well."""
    FAILED.pop(folder, None)
    try:
        if reason is None:
            (folder / MARKER).unlink(missing_ok=True)
        else:
            FAILED[folder] = reason
            write(folder / MARKER, reason.encode())
    except OSError:
        pass  # a folder that cannot be written: the process remembers
