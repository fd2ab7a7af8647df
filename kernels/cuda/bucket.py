"""Cotangents laid into their flat bucket, several in one launch: see bucket.cu."""

from .runtime import THREADS, blocks, suffix

PIECES = 8  # of a launch


def pack(gpu, flat, *pieces, starts, counts):
    """flat[start : start + count] = each piece (None: zeros), in place; gives flat."""
    kind = suffix(flat, *pieces)
    if kind is None or not flat.flags.c_contiguous:
        return NotImplemented
    pieces = [x if x is None else gpu.contiguous(x) for x in pieces]
    some = [part for part in zip(pieces, starts, counts, strict=True) if part[2]]
    for first in range(0, len(some), PIECES):
        part = some[first : first + PIECES]
        grid = sum(blocks(count) for _, _, count in part)
        part += [(None, 0, 0)] * (PIECES - len(part))
        args = [value for piece in part for value in piece]
        gpu.launch("bucket", f"pack_{kind}", grid, THREADS, (flat, *args))
    return flat
