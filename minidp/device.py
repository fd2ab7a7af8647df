"""Devices: where an array lives and a replica runs.

``cpu:0``, ``cpu:1`` are virtual: more of them than cores is legal. ``cuda:0`` is a GPU, ``emu:0``
a GPU played by the CPU, which executes the same CUDA kernels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minidp.errors import DeviceError

TYPES = ("cpu", "cuda", "emu")


@dataclass(frozen=True, order=True, init=False)
class Device:
    """One device: ``device("cuda:1")``, ``device("cuda", 1)``, or ``device("cuda")`` for the first.

    >>> isinstance(dp.ones(1).device, dp.device)
    True
    """

    type: str
    index: int

    def __init__(self, type: Any, index: int | None = None) -> None:
        if index is None or type not in TYPES:
            found = device_list(type if index is None else f"{type}:{index}")
            if len(found) != 1 and ":" in str(type):
                raise DeviceError(f"device {type!r} names {len(found)} devices; expected one")
            type, index = found[0].type, found[0].index
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "index", index)

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}, index={self.index})"


device = Device
"""PyTorch's name of the class."""


def device_list(devices: Any) -> list[Device]:
    """The devices that a user's short form means, in its order.

    ``"cpu"`` or None: one per core this process may use; ``2``: two CPU devices;
    ``"cpu:0,cpu:1"``, ``"cpu:0-1"``, ``"cuda:0-3"``, ``"emu:0-1"``; a list of such.

    >>> dp.device_list("cpu:0-1")
    [device(type='cpu', index=0), device(type='cpu', index=1)]
    """
    if devices is None:
        devices = "cpu"
    if isinstance(devices, Device):
        return [devices]
    if isinstance(devices, str) and devices.isdigit():
        devices = int(devices)
    if isinstance(devices, bool) or (isinstance(devices, int) and devices < 1):
        raise DeviceError(f"devices={devices!r}: expected at least one device")
    if isinstance(devices, int):
        return [Device("cpu", index) for index in range(devices)]
    if isinstance(devices, str):
        found = [each for part in devices.split(",") for each in _range(part.strip(), devices)]
    elif isinstance(devices, Sequence):
        found = [each for part in devices for each in device_list(part)]
    else:
        raise DeviceError(f"devices={devices!r}: expected a name, a number or a list of names")
    if not found:
        raise DeviceError(f"devices={devices!r}: expected at least one device")
    for each in found:
        if found.count(each) > 1:
            raise DeviceError(f"devices={devices!r}: {each} is named twice")
    if len({each.type for each in found}) > 1:
        raise DeviceError(f"devices={devices!r}: the devices must be of one type")
    return found


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _range(text: str, whole: str) -> list[Device]:
    match = re.fullmatch(r"([a-z]+)(?::(\d+)(?:-(\d+))?)?", text)
    if match is None or match[1] not in TYPES:
        raise DeviceError(
            f"device {text or whole!r} is unknown; expected cpu, cuda or emu, then an index or "
            "a range, such as cpu:0, cpu:0-1 or cuda:0,cuda:2"
        )
    if match[2] is None:
        return [Device(match[1], i) for i in range(cores() if match[1] == "cpu" else 1)]
    first, last = int(match[2]), int(match[3] or match[2])
    if last < first:
        raise DeviceError(f"device {text!r}: the range ends before it begins")
    return [Device(match[1], index) for index in range(first, last + 1)]
