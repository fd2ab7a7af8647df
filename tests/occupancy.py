"""How many threads of a kernel a multiprocessor can hold, from what the compiler says it needs.

The rules are those of NVIDIA's occupancy calculator (CUDA C++ Programming Guide, "Compute
Capabilities"): registers go to warps in pieces of 256, shared memory in pieces of 128 bytes with
1 KiB a block kept by the system from sm_80 on.
"""

import re
from dataclasses import dataclass

REGISTERS, WARP = 65536, 32
LIMITS = {  # warps, blocks and bytes of shared memory of a multiprocessor
    "sm_75": (32, 16, 64 * 1024), "sm_80": (64, 32, 164 * 1024), "sm_90": (64, 32, 228 * 1024),
    "sm_100": (64, 32, 228 * 1024), "sm_120": (48, 24, 100 * 1024),
}  # fmt: skip
COMPILED = re.compile(
    r"Compiling entry function '(\w+)' for '(\w+)'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Needs:
    """What one kernel needs on one architecture; bytes but for registers, which are a thread's."""

    kernel: str
    architecture: str
    stack: int
    spilled: int
    registers: int
    shared: int

    def occupancy(self, threads):
        """The part of a multiprocessor's warps that blocks of so many threads can fill."""
        most_warps, most_blocks, all_shared = LIMITS[self.architecture]
        warps = -(-threads // WARP)
        per_warp = -(-self.registers * WARP // 256) * 256
        own = 0 if self.architecture == "sm_75" else 1024
        shared = -(-(self.shared + own) // 128) * 128
        blocks = min(
            most_blocks,
            most_warps // warps,
            REGISTERS // per_warp // warps if per_warp else most_blocks,
            all_shared // shared if shared else most_blocks,
        )
        return blocks * warps / most_warps


def read(log):
    """The Needs of every kernel in the log of ptxas -v."""
    return [
        Needs(name, architecture, int(stack), int(stores) + int(loads), int(registers),
              int(shared or 0))
        for name, architecture, stack, stores, loads, registers, shared in COMPILED.findall(log)
    ]  # fmt: skip


def table(needs, threads=256):
    """A line a kernel."""
    lines = [f"{'kernel':44} {'arch':7} {'registers':>9} {'shared':>7} {'stack':>6} {'spilled':>8} "
             f"{f'occupancy at {threads} threads':>25}"]  # fmt: skip
    for one in sorted(needs, key=lambda one: (one.kernel, one.architecture)):
        lines.append(
            f"{one.kernel:44} {one.architecture:7} {one.registers:9} {one.shared:7} "
            f"{one.stack:6} {one.spilled:8} {one.occupancy(threads):24.0%} "
        )
    return "\n".join(lines)
