"""What the emulator saw a kernel do that CUDA leaves undefined, in words."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

KINDS = ("outside", "shared", "race")
DOES = ("reads", "writes", "changes atomically")
OWN = ("emulate.h", "checks.h", "fibers.h")
NEAR = 2**20  # bytes from an array at which it is still the one meant
WHOLE_WARP, ALL = 1024, 0xFFFF  # as in checks.h: several threads of a warp; of several warps


@dataclass(frozen=True)
class Fault:
    """An access: its kind, size and address in bytes, place in the module, block and thread."""

    kind: str
    access: int
    size: int
    address: int
    place: int
    block: str
    thread: str
    other: int
    other_place: int

    @classmethod
    def read(cls, text):
        """The fault that checks.h wrote, or None for another message."""
        kind, *rest = text.split("|")
        if kind not in KINDS:
            return None
        access, size, address, place, block, thread, other, other_place = rest
        numbers = map(int, (access, size, address, place))
        return cls(kind, *numbers, block, thread, int(other), int(other_place))


def explain(text, parameters, values, library):
    """The emulator's message as a line to read: file, line, thread, and which array was missed."""
    fault = Fault.read(text)
    if fault is None:
        return text
    where = f"thread ({fault.thread}) of block ({fault.block})"
    what = f"{where_in_text(library, fault.place)}{where} {DOES[fault.access]} {fault.size} bytes"
    if fault.kind == "shared":
        return f"{what} outside of every __shared__ array"
    if fault.kind == "race":
        return f"{what} of shared memory that {other(fault, library)} since the last barrier"
    return f"{what} {missed(fault, parameters, values)}"


def other(fault, library):
    """Who touched the same bytes, and where."""
    who = f"thread {fault.other}"
    if fault.other == ALL:
        who = "several threads"
    elif fault.other >= WHOLE_WARP:
        who = f"several threads of warp {fault.other - WHOLE_WARP}"
    place = where_in_text(library, fault.other_place).removesuffix(": ")
    return f"{who} touched{' at ' + place if place else ''}"


def missed(fault, parameters, values):
    """Where the address lies, seen from the nearest array among the arguments."""
    arrays = [(one.name, value) for one, value in zip(parameters, values, strict=True)
              if one.pointer and isinstance(value, np.ndarray) and value.size]  # fmt: skip
    if fault.address < 2**16:
        return "behind a null pointer (an empty array is one too)"
    name, array = min(arrays, key=lambda pair: distance(fault, pair[1]), default=(None, None))
    if array is None or distance(fault, array) > NEAR:
        return f"at {fault.address:#x}, which is in none of its arrays"
    index, inside = divmod(fault.address - array.ctypes.data, array.itemsize)
    part = f" and {inside} bytes" if inside else ""
    return f"at {name}[{index}]{part}: {name} has {array.size} elements of {array.dtype}"


def distance(fault, array):
    """Bytes between the access and the array."""
    start, stop = array.ctypes.data, array.ctypes.data + array.nbytes
    return max(start - fault.address, fault.address + fault.size - stop, 0)


def where_in_text(library, place):
    """`file:line: ` of an address in the compiled text; nothing where no tool knows."""
    tool = shutil.which("addr2line")
    if not tool or not place:
        return ""
    command = [tool, "-i", "-e", str(library), hex(place - 1)]  # the call ends where it returns to
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    lines = [Path(line.split(" ")[0]).name for line in done.stdout.splitlines()]
    known = [line for line in lines if not line.startswith((*OWN, "?"))]
    return f"{known[0]}: " if known else ""
