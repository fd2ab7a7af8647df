"""Where the files of an archive are: the search that `mnist` describes."""

from __future__ import annotations

import os
from pathlib import Path

from minidp.data.archives import FILES, MNIST, Archive
from minidp.data.download import ensure
from minidp.data.idx import PathLike
from minidp.errors import DataError


def locate(archive: Archive, source: PathLike | None) -> Path:
    """The folder to read `archive` from; see `mnist` for the order."""
    if source == "bundled":
        return bundled(archive)
    if source == "download":
        return fetch(archive, again=True)
    if source is not None:
        return given(archive, Path(source))
    return environment(archive) or fetch(archive)


def bundled(archive: Archive) -> Path:
    """The folder of the subset that comes with minidp; DataError if none does."""
    if archive.bundled is None:
        raise DataError(f"source='bundled': no {archive.title} comes with minidp; only MNIST does. "
                        "Pass a folder, or None to look everywhere")  # fmt: skip
    return archive.bundled


def given(archive: Archive, folder: Path) -> Path:
    """`folder` itself or the place below it where the files are; DataError if they are not."""
    places = [folder, *(folder / name for name in archive.folders)]
    found = [place for place in places if any(find(place, name) for name in FILES)]
    if not found:
        raise DataError(
            f"{folder}: no {archive.title} there. Looked in {', '.join(map(str, places))} for "
            f"files named {FILES[0]} or {FILES[0]}.gz and so on"
        )
    return found[0]


def environment(archive: Archive) -> Path | None:
    """The folder that $MINIDP_DATA names or, without it, the distribution's; None: not there.

    The files of MNIST and Fashion-MNIST have the same names: right in $MINIDP_DATA they are MNIST.
    """
    if "MINIDP_DATA" in os.environ:
        root = Path(os.environ["MINIDP_DATA"])
        if not root.is_dir():
            raise DataError(f"$MINIDP_DATA is {root}, which is no folder: correct or unset it")
        below = [root / name for name in archive.folders]
        for place in [*below, root] if archive is MNIST else below:
            if any(find(place, name) for name in FILES):
                return complete(place)
    if archive.system and all(find(archive.system, name) for name in FILES):
        return archive.system
    return None


def complete(place: Path) -> Path:
    """`place`; DataError if some of the four files are not in it."""
    missing = [name for name in FILES if not find(place, name)]
    if missing:
        raise DataError(f"$MINIDP_DATA: {place} lacks {' and '.join(missing)}: copy all four there")
    return place


def fetch(archive: Archive, again: bool = False) -> Path:
    """The user's cache, filled if need be; where that fails the bundled subset, if there is one.

    `again`: the full set or a DataError, and no earlier failure counts.
    """
    folder = cache_folder(archive)
    if all(find(folder, name) for name in FILES):
        return folder
    reason = fetched(archive, folder, again)
    if not reason:
        return folder
    if archive.bundled and not again:
        return archive.bundled
    raise DataError(f"{archive.title} is not on this machine and could not be fetched ({reason}). "
                    f"Put {', '.join(f'{name}.gz' for name in FILES)} into {folder}, or into a "
                    "folder that you pass as source")  # fmt: skip


def fetched(archive: Archive, folder: Path, again: bool = False) -> str:
    """Fetch the archive into the cache `folder`: why it failed, or "" if it did not."""
    if os.environ.get("MINIDP_OFFLINE", "0") not in ("", "0"):
        return "$MINIDP_OFFLINE is set"
    try:
        ensure(archive, folder, again=again)
    except DataError as error:
        return str(error)
    return ""


def cache_folder(archive: Archive) -> Path:
    """Where downloads are kept: below $XDG_CACHE_HOME, else ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "minidp" / archive.name


def find(folder: Path, name: str) -> Path | None:
    """The file `name` in `folder`: gzipped or not, also in the spelling with a dot."""
    dotted = name.replace("-idx", ".idx")
    names = (f"{name}.gz", name, f"{dotted}.gz", dotted)
    return next((folder / each for each in names if (folder / each).is_file()), None)
