"""Places in one piece of memory for arrays that are not needed all at once."""

ALIGNED = 64  # bytes


def placed(spans):
    """Offsets for `spans` (first use, last use, bytes), such that what is needed at one time does
    not overlap, and the bytes of all together.

    The largest goes first, each to the smallest gap that holds it among those placed already that
    it meets ("greedy by size": Pisarchyk and Lee 2020, arXiv:2001.03288).
    """
    offsets, done, total = [0] * len(spans), [], 0
    for number in sorted(range(len(spans)), key=lambda i: -spans[i][2]):
        first, last, size = spans[number]
        size = -(-size // ALIGNED) * ALIGNED
        meets = sorted(place[2:] for place in done if place[0] <= last and first <= place[1])
        offsets[number] = at = _gap(meets, size)
        done.append((first, last, at, size))
        total = max(total, at + size)
    return offsets, total


def _gap(taken, size):
    """The start of the smallest gap of at least `size` bytes between pieces (offset, size)."""
    best, end = None, 0
    for offset, length in taken:
        if offset - end >= size and (best is None or offset - end < best[0]):
            best = offset - end, end
        end = max(end, offset + length)
    return end if best is None else best[1]
