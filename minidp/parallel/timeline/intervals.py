"""Intervals of time: their union, their difference, their length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
"""From, until; in nanoseconds."""


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The union, as disjoint intervals in order."""
    found: list[Interval] = []
    for began, ended in sorted(intervals):
        if began >= ended:
            continue
        if found and began <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], ended)
        else:
            found.append((began, ended))
    return found


def without(intervals: Sequence[Interval], holes: Sequence[Interval]) -> list[Interval]:
    """``intervals`` less ``holes``; both disjoint and in order."""
    found = []
    for began, ended in intervals:
        for start, stop in holes:
            if stop <= began or start >= ended:
                continue
            found.append((began, start))
            began = stop
        found.append((began, ended))
    return [(began, ended) for began, ended in found if began < ended]


def length(intervals: Iterable[Interval]) -> int:
    return sum(ended - began for began, ended in intervals)
