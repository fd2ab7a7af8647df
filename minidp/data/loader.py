"""DataLoader: batches of a data set, shuffled anew each epoch, staged ahead by a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from minidp.data.collate import wrap
from minidp.data.dataset import fetch, permutation
from minidp.data.prefetch import prefetched
from minidp.errors import DataError
from minidp.random import Generator, default_generator

Array = npt.NDArray[Any]


class DataLoader:
    """Iterates over `dataset` in batches: tuples of Tensors on the CPU.

    Every `iter(loader)` is a new epoch, also after one that was left midway.  The order of an
    epoch is decided by `seed` and `epoch` alone; no row is left out or doubled, and the last batch
    may be short (unless `drop_last`).  Data sets that have `batch(rows, key)` are asked for
    whole batches, others row by row; with `collate_fn`, which is given the list of samples and
    whose result is passed on as it is, always row by row.

    Arguments are PyTorch's.  `sampler`: an iterable of row numbers with a fresh order at each
    `iter`, instead of `shuffle`; `batch_sampler`: one of lists of row numbers, each a batch.
    `batch_size=None`: single samples, not batched.  `generator`: its seed decides the order.
    Those about workers and pinned memory mean nothing here: one thread prepares batches.

    `seed`: of the order; None is that of `generator`, or else of `manual_seed`.
    `prefetch`: batches that the thread prepares ahead; 0: none, no thread.
    `epoch`: the epoch being read, or else the next to be read; it can be set.

    >>> from minidp.data import DataLoader, TensorDataset
    >>> [len(x) for x, in DataLoader(TensorDataset(dp.rand(5, 2)), batch_size=2)]
    [2, 2, 1]
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[int] | None = None, batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
        seed: int | None = None, prefetch: int = 2,
    ) -> None:  # fmt: skip
        check(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.shuffle = dataset, bool(shuffle)
        self.batch_size = None if batch_sampler is not None else batch_size
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.drop_last, self.collate_fn, self.generator = drop_last, collate_fn, generator
        self.num_workers, self.pin_memory, self.prefetch = num_workers, pin_memory, prefetch
        of_order = default_generator if generator is None else generator
        self.seed = of_order.initial_seed() if seed is None else seed
        self._epoch, self._batch = 0, 0  # the batch that comes next
        self._begun = False  # whether an iteration has taken this epoch
        self._serial = 0  # of the latest iteration: only that one moves the position

    def __len__(self) -> int:
        """Batches in an epoch."""
        if isinstance(self.batch_sampler, Sized):
            return len(self.batch_sampler)
        rows = len(self.sampler) if isinstance(self.sampler, Sized) else len(self.dataset)
        size = self.batch_size or 1
        return rows // size if self.drop_last else -(-rows // size)

    def __iter__(self) -> Iterator[Any]:
        if self._begun:
            self.epoch += 1
        self._begun = True
        self._serial += 1
        return self._read(self._serial, self._epoch, self._batch)

    def _read(self, serial: int, epoch: int, first: int) -> Iterator[Any]:
        batches = self.batches(epoch)[first:]
        made = prefetched(lambda rows: self.load(rows, epoch), batches, self.prefetch)
        for position, batch in enumerate(made, first + 1):
            if serial == self._serial:
                self._batch = position
            yield batch
        if serial == self._serial:
            self.epoch = epoch + 1

    @property
    def epoch(self) -> int:
        """The epoch being read, or else the next to be read, from 0."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch, self._batch, self._begun = int(epoch), 0, False
        self._serial += 1

    def order(self, epoch: int | None = None) -> Array:
        """The row numbers of an epoch (default: `self.epoch`), in the order of reading."""
        if self.sampler is not None:
            return np.fromiter(self.sampler, dtype=np.int64)
        if self.shuffle:
            return permutation(len(self.dataset), self.seed, self.epoch if epoch is None else epoch)
        return np.arange(len(self.dataset))

    def batches(self, epoch: int | None = None) -> list[Array]:
        """The row numbers of each batch of an epoch."""
        if self.batch_sampler is not None:
            return [np.asarray(rows, dtype=np.int64) for rows in self.batch_sampler]
        order, size = self.order(epoch), self.batch_size or 1
        full = len(order) // size * size
        return [order[start : start + size]
                for start in range(0, full if self.drop_last else len(order), size)]  # fmt: skip

    def load(self, rows: Array, epoch: int | None = None) -> Any:
        """The batch of the given rows, as it is in the given epoch."""
        if self.batch_size is None and self.batch_sampler is None:
            sample = self.dataset[int(rows[0])]
            return wrap(sample) if self.collate_fn is None else self.collate_fn(sample)
        if self.collate_fn is not None:
            return self.collate_fn([self.dataset[int(row)] for row in rows])
        key = (self.seed, self.epoch if epoch is None else epoch)
        return wrap(fetch(self.dataset, rows, key))

    def state_dict(self) -> dict[str, int]:
        """Where reading stands: the next batch to be handed out, and what decides the order."""
        epoch, batch = self._epoch, self._batch
        if batch and batch == len(self):
            epoch, batch = epoch + 1, 0
        return {"epoch": epoch, "batch": batch, "seed": self.seed, **self._layout()}

    def _layout(self) -> dict[str, int]:
        return {"batch_size": self.batch_size or 0, "rows": len(self.dataset),
                "shuffle": int(self.shuffle)}  # fmt: skip

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Make the next `iter(loader)` go on where `state_dict()` was taken.

        Raises DataError if this loader would cut or order the rows differently.  (The order of a
        sampler is its own: to go on midway it has to yield the same rows again.)
        """
        for name, here in self._layout().items():
            if state["batch"] and state[name] != here:
                raise DataError(f"load_state_dict: the state is from the middle of an epoch with "
                                f"{name} {state[name]}; this loader has {here}")  # fmt: skip
        self.seed = int(state["seed"])
        self.epoch = int(state["epoch"])
        self._batch = int(state["batch"])


def check(dataset: Any, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any,
          drop_last: bool) -> None:  # fmt: skip
    """Raise DataError for arguments that make no loader."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise DataError(f"DataLoader: {type(dataset).__name__} has no len() or no [row]; wrap "
                        "arrays in TensorDataset")  # fmt: skip
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise DataError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and "
                        "drop_last: drop them")  # fmt: skip
    if batch_size is None and drop_last:
        raise DataError("DataLoader: batch_size=None excludes drop_last: drop it")
    if batch_size is not None and (not isinstance(batch_size, (int, np.integer)) or batch_size < 1):
        raise DataError(f"DataLoader: batch_size is {batch_size!r}; it has to be 1 or more rows")
    if shuffle and sampler is not None:
        raise DataError("DataLoader: shuffle=True and a sampler exclude each other: drop one")
