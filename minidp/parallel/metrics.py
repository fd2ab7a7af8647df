"""Numbers of a running training: for a progress line, and for a log with one JSON object a line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from minidp.backend import get_backend
from minidp.device import Device
from minidp.errors import ReplicaError


@dataclass(frozen=True)
class Metrics:
    """What ``steps`` steps up to the one with the number ``step`` were like; numbers go on through
    epochs, as in timelines. Times are seconds, sizes bytes.

    ``busy`` is each replica's share of time that it computed; ``exposed`` is the communication
    that no compute hid, averaged over replicas; ``reduced`` are the bytes of gradients that one
    replica gave; ``loader`` is time waited for the loader; ``skipped`` steps changed nothing;
    ``peak_memory`` is that of the process, 0 where it cannot be told; ``device_memory`` is what
    arrays have taken at most on each device with memory of its own, by its name. (An emulated one
    has none.)
    """

    step: int
    steps: int
    seconds: float
    rows: int
    loss: float | None = None
    busy: Sequence[float] = field(default_factory=list)
    exposed: float = 0.0
    reduced: int = 0
    loader: float = 0.0
    skipped: int = 0
    peak_memory: int = 0
    device_memory: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """One short line for people.

        >>> Metrics(40, 10, 0.5, 640, 0.25, [0.9, 0.8], 0.05, 4_000_000,
        ...         peak_memory=2**30).line()
        'step 40: loss 0.2500, 1,280 rows/s, busy 80-90 %, exposed 10.0 %, 0.4 MB/step, 1,024 MiB'
        """
        parts = [] if self.loss is None else [f"loss {self.loss:.4f}"]
        parts += [f"{self.rows_per_second:,.0f} rows/s"]
        if self.busy:
            low, high = (f"{100 * share:.0f}" for share in (min(self.busy), max(self.busy)))
            parts += [f"busy {low} %" if low == high else f"busy {low}-{high} %"]
        if len(self.busy) > 1 and self.seconds:
            parts += [f"exposed {100 * self.exposed / self.seconds:.1f} %"]
        if self.reduced and self.steps:
            parts += [f"{self.reduced / self.steps / 1e6:.1f} MB/step"]
        if self.peak_memory:
            parts += [f"{self.peak_memory / 2**20:,.0f} MiB"]
        if self.device_memory:
            name, most = max(self.device_memory.items(), key=lambda each: each[1])
            parts += [f"{most / 2**20:,.0f} MiB on {name}"]
        return f"step {self.step}: {', '.join(parts)}"

    def record(self) -> dict[str, Any]:
        """What is written to a log: all fields, and rows per second."""
        return {**asdict(self), "busy": [round(share, 4) for share in self.busy],
                "rows_per_second": round(self.rows_per_second, 1)}  # fmt: skip


def peak_memory() -> int:
    """The most memory, in bytes, that this process has had; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def device_memory(devices: Iterable[Device]) -> dict[str, int]:
    """The most bytes that arrays have taken on each device, where that is known."""
    found = {str(each): get_backend(each.type).peak_memory(each.index) for each in devices}
    return {name: size for name, size in found.items() if size is not None}


class Log:
    """A file that gets one JSON object a line: ``log.write(metrics)``.

    It is added to, and each line is handed to the system at once and whole, so that a log is
    readable while the run goes on and after it was killed. Numbers that are not finite become
    null, since JSON has none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 (it stays open)
        except OSError as error:
            raise ReplicaError(f"log {os.fspath(path)}: it cannot be written: {error}") from error

    def write(self, metrics: Metrics, **more: Any) -> None:
        """Add a line with the metrics and whatever else belongs to it."""
        record = {name: _finite(value) for name, value in {**metrics.record(), **more}.items()}
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finite(value: Any) -> Any:
    """The value, or None for NaN and infinity."""
    endless = isinstance(value, float) and not abs(value) < float("inf")
    return None if endless else value
