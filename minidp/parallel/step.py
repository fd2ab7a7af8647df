"""What belongs to one step of one replica, and is forgotten when the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minidp.parallel.feed import nothing
from minidp.parallel.split import Share
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.denominator import Sums


class Step:
    """A step's number and this replica's share of its rows; ``active`` are the ranks with rows.

    Where gradients accumulate the share is run in parts: ``part`` is the one that runs, ``active``
    are the ranks with rows in it, and ``last`` says that none is to follow. ``sums`` are those of
    all parts' means, if they had to be known beforehand. ``lead`` is the rank that acts for all: it
    runs every part that there is.
    """

    def __init__(self, number: int, share: Share, active: Sequence[int], lead: int = 0) -> None:
        self.number, self.share, self.active, self.lead = number, share, active, lead
        self.part, self.last = share, True
        self.ranks = active
        """The ranks with rows in any part."""
        self.parts = 1
        """How many there are, with rows here or elsewhere."""
        self.sums: Sums | None = None
        self.actions: list[Callable[[], None]] = []
        """What is to happen once, by one replica for all, when the step is accepted."""
        self.sums_at_commit: dict[Any, tuple[Array, Callable[[Array], None]]] = {}
        """By owner: what is to be added over replicas then, and what the sum is for."""
        self.used: Callable[[], None] = nothing
        """Tells the loader that the step's batch is used."""
        self.copies: dict[Tensor, Tensor] = {}
        """This replica's copies of tensors that are no parameters."""

    def forget(self) -> None:
        """What modules have given for the commit does not count: they run again."""
        self.actions.clear()
        self.sums_at_commit.clear()
