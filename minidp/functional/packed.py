"""Sequences of unequal lengths: padded to one length, or packed without padding, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minidp.create import as_tensor, full
from minidp.errors import ArgumentError, ShapeError
from minidp.functions import cat, stack
from minidp.ops.index import embedding
from minidp.tensor import Tensor
from minidp.types import Array

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
           "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence"]  # fmt: skip


class PackedSequence(NamedTuple):
    """``data`` (rows, ...): step 0 of every sequence, step 1 of those that have one, and so on.

    ``batch_sizes`` says how many have each step. Sequences lie longest first; ``sorted_indices``
    says which of the batch each was (None: in their own order), ``unsorted_indices`` undoes that.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with its data on another device or in another dtype."""
        return self._replace(data=self.data.to(*args, **kwargs))


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes ``permutation``."""
    return None if permutation is None else Tensor(np.argsort(np.asarray(permutation)))


def select(x: Tensor, places: Array) -> Tensor:
    """The rows of x (rows, ...) at ``places``, whose shape takes the place of the first axis."""
    flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    found: Tensor = embedding(as_tensor(places, device=x.device), flat)
    return found.reshape(*places.shape, *x.shape[1:])


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack (steps, batch, ...), or (batch, steps, ...) with ``batch_first``, by its lengths.

    Longest first, unless ``enforce_sorted=False``: then they are sorted here.
    """
    count = np.asarray(lengths).astype("int64")
    steps, batch = input.shape[:2][:: -1 if batch_first else 1]
    if count.shape != (batch,):
        raise ShapeError(f"Expected `len(lengths)` to be equal to batch_size {batch}, but got "
                         f"lengths of shape {count.shape}")  # fmt: skip
    if batch == 0 or count.min() <= 0 or count.max() > steps:
        raise ShapeError("pack_padded_sequence: Length of all samples has to be greater than 0 "
                         f"and at most the {steps} of {input.shape}; got {count}")  # fmt: skip
    if enforce_sorted and (count[1:] > count[:-1]).any():
        raise ShapeError("`lengths` array must be sorted in decreasing order when "
                         "`enforce_sorted` is True; enforce_sorted=False sorts them")  # fmt: skip
    order = np.argsort(-count, kind="stable")
    time, rank = np.nonzero(np.arange(count.max())[:, None] < count[order])
    row = order[rank]
    places = row * steps + time if batch_first else time * batch + row
    data = select(input.reshape(steps * batch, *input.shape[2:]), places)
    sorted_indices = None if enforce_sorted else Tensor(order)
    return PackedSequence(data, Tensor(np.bincount(time)), sorted_indices,
                          invert_permutation(sorted_indices))  # fmt: skip


def positions(sequence: PackedSequence, steps: int) -> Array:
    """Where in the data each (step, sequence of the batch) is; -1 where there is none."""
    sizes = np.asarray(sequence.batch_sizes)
    place = np.full((steps, int(sizes[0])), -1)
    there = np.arange(place.shape[1]) < np.pad(sizes, (0, steps - len(sizes)))[:, None]
    place[there] = np.arange(np.sum(sizes))
    order = sequence.unsorted_indices
    return place if order is None else place[:, np.asarray(order)]


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(padded, lengths): what ``pack_padded_sequence`` packed, in the order of the batch."""
    steps = len(sequence.batch_sizes)
    if total_length is not None and total_length < steps:
        raise ShapeError(f"Expected total_length to be at least the length of the longest "
                         f"sequence, got {total_length} and {steps}")  # fmt: skip
    place = positions(sequence, total_length or steps)
    data = sequence.data
    end = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    lengths = (place >= 0).sum(0)
    place = np.where(place < 0, data.shape[0], place)
    return select(cat([data, end]), place.T if batch_first else place), Tensor(lengths)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Sequences (steps, ...) of any lengths as one (steps, batch, ...), filled up."""
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: padding_side={padding_side!r}: expected left or right")
    longest = max(len(each) for each in sequences)
    padded = []
    for each in sequences:
        size = (longest - len(each), *each.shape[1:])
        fill = full(size, padding_value, dtype=each.dtype, device=each.device)
        padded.append(cat([fill, each] if padding_side == "left" else [each, fill]))
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Any, batch_first: bool = False
) -> list[Tensor]:
    """Each sequence of a padded batch without its padding."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (steps, ...) of any lengths."""
    lengths = [len(each) for each in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that ``pack_sequence`` packed."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
