"""DataLoader: batches of a data set, shuffled anew each epoch, staged ahead by a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from types import GenericAlias
from typing import Any

import numpy as np
import numpy.typing as npt

from minidp.data.arguments import check
from minidp.data.collate import collate, wrap
from minidp.data.dataset import draws, fetch, permutation, sample, samples
from minidp.data.position import Position, behind
from minidp.data.prefetch import prefetched
from minidp.data.sampler import again, state_of
from minidp.data.stream import IterableDataset, stream
from minidp.data.transforms import Key
from minidp.errors import DataError
from minidp.mode import switched
from minidp.random import Generator, default_generator

Array = npt.NDArray[Any]


class DataLoader:
    """Iterates over `dataset` in batches: tuples of Tensors on the CPU.

    Every `iter(loader)` is a new epoch, also after one that was left midway.  The order of an
    epoch is decided by `seed` and `epoch` alone; no row is left out or doubled, and the last batch
    may be short (unless `drop_last`).  Data sets that have `batch(rows, key)` are asked for
    whole batches, others row by row; with `collate_fn`, which is given the list of samples and
    whose result is passed on as it is, always row by row.  Random numbers of minidp's that a data
    set draws for a row depend on `seed`, `epoch` and the row, and on nothing else.

    Arguments are PyTorch's.  `sampler`: an iterable of row numbers with a fresh order at each
    `iter`, instead of `shuffle`; `batch_sampler`: one of lists of row numbers, each a batch.
    `batch_size=None`: single samples, not batched.  `generator`: its seed decides the order.
    Those about workers and pinned memory mean nothing here: one thread prepares batches.

    `seed`: of the order; None is that of `generator`, or else of `manual_seed`.
    `prefetch`: batches that the thread prepares ahead; 0: none, no thread.
    `epoch`: the epoch being read, or else the next to be read; it can be set.

    A loader has a position, which `state_dict` holds: a `for` loop moves it when a batch is handed
    out; `read` leaves that to `commit`.

    >>> from minidp.data import DataLoader, TensorDataset
    >>> [len(x) for x, in DataLoader(TensorDataset(dp.rand(5, 2)), batch_size=2)]
    [2, 2, 1]
    """

    __class_getitem__: Any = classmethod(GenericAlias)

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
        check(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last, num_workers)
        self.dataset, self.shuffle = dataset, bool(shuffle)
        self.batch_size = None if batch_sampler is not None else batch_size
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.drop_last, self.collate_fn, self.generator = drop_last, collate_fn, generator
        self.num_workers, self.pin_memory, self.prefetch = num_workers, pin_memory, prefetch
        of_order = default_generator if generator is None else generator
        self.seed = of_order.initial_seed() if seed is None else seed
        self._position = Position()
        self._begun = False  # whether a loop has taken this epoch
        self._serial = 0  # of the latest loop: only that one moves the position

    def __len__(self) -> int:
        """Batches in an epoch; a TypeError where the data set does not know its length."""
        if isinstance(self.batch_sampler, Sized):
            return len(self.batch_sampler)
        rows = len(self.sampler) if isinstance(self.sampler, Sized) else len(self.dataset)
        size = self.batch_size or 1
        return rows // size if self.drop_last else -(-rows // size)

    def __repr__(self) -> str:
        return (
            f"DataLoader({type(self.dataset).__name__}, batch_size={self.batch_size}, "
            f"shuffle={self.shuffle}, seed={self.seed}, epoch={self.epoch})"
        )

    def __iter__(self) -> Iterator[Any]:
        reading = self.read()
        self._begun = True
        self._serial += 1
        return self._hand_out(self._serial, reading)

    def _hand_out(self, serial: int, reading: Iterator[tuple[Any, Position]]) -> Iterator[Any]:
        epoch = self.epoch
        for batch, behind_it in reading:
            if serial == self._serial:
                self._position = behind_it
            yield batch
        if serial == self._serial:
            self.epoch = epoch + 1

    def read(self) -> Iterator[tuple[Any, Position]]:
        """The rest of the epoch: each batch with the position behind it.

        The loader stays where it is, however far ahead batches are read, until it is told to
        ``commit`` a position. After a step that failed, ``read`` begins with its batch again.
        """
        if self._begun:
            self.epoch += 1
        start = self._position = self._position.settled()
        key = (self.seed, start.epoch)
        return prefetched(lambda part: (self._made(part[0], key), part[1]), self._plan(start),
                          self.prefetch)  # fmt: skip

    def commit(self, position: Position) -> None:
        """The batches before ``position``, which ``read`` gave, are used: go on from there."""
        if not isinstance(position, Position):
            raise TypeError(f"commit({position!r}): expected a position that read() gave")
        self._position, self._begun = position.settled(), False
        self._serial += 1

    @property
    def epoch(self) -> int:
        """The epoch being read, or else the next to be read, from 0."""
        return self._position.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.commit(Position(int(epoch)))

    def _plan(self, start: Position) -> Iterator[tuple[Any, Position]]:
        """What each batch is made of, with the position behind it."""
        if isinstance(self.dataset, IterableDataset):
            generator = draws((self.seed, start.epoch), kind=2)
            return stream(self.dataset, self.batch_size or 1, self.drop_last, start, generator)
        source = self.sampler if self.batch_sampler is None else self.batch_sampler
        if source is None:
            return behind(start, self.batches(start.epoch), None)
        state = state_of(source) if start.sampler is None else start.sampler
        rows = list(source) if start.sampler is None else again(source, state)
        self._position = replace(start, sampler=state)  # to draw the same rows after a failure
        return behind(start, self._cut(rows), state)

    def order(self, epoch: int | None = None) -> Array:
        """The row numbers of an epoch (default: `self.epoch`), in the order of reading."""
        if self.sampler is not None:
            return np.fromiter(self.sampler, dtype=np.int64)
        if self.shuffle:
            return permutation(len(self.dataset), self.seed, self.epoch if epoch is None else epoch)
        return np.arange(len(self.dataset))

    def batches(self, epoch: int | None = None) -> list[Array]:
        """The row numbers of each batch of an epoch."""
        return self._cut(self.order(epoch) if self.batch_sampler is None else self.batch_sampler)

    def _cut(self, rows: Any) -> list[Array]:
        """An epoch's rows in batches, as a batch sampler gives them already."""
        if self.batch_sampler is not None:
            return [np.asarray(each, dtype=np.int64) for each in rows]
        order, size = np.asarray(rows, dtype=np.int64), self.batch_size or 1
        full = len(order) // size * size
        return [order[start : start + size]
                for start in range(0, full if self.drop_last else len(order), size)]  # fmt: skip

    def load(self, rows: Array, epoch: int | None = None) -> Any:
        """The batch of the given rows, as it is in the given epoch."""
        return self._made(rows, (self.seed, self.epoch if epoch is None else epoch))

    def _made(self, part: Any, key: Key) -> Any:
        """A batch of its row numbers, or of its samples where they have no numbers."""
        if isinstance(self.dataset, IterableDataset):
            return self._joined(part)
        with switched(generator=draws(key, int(part[0]) if len(part) else 0, kind=1)):
            single = self.batch_size is None and self.batch_sampler is None
            if single:
                return self._joined([sample(self.dataset, int(row), key) for row in part])
            if self.collate_fn is not None:
                return self._joined(samples(self.dataset, part, key))
            return wrap(fetch(self.dataset, part, key))

    def _joined(self, samples: list[Any]) -> Any:
        """Samples as a batch, or the only one as it is."""
        single = self.batch_size is None and self.batch_sampler is None
        if self.collate_fn is not None:
            return self.collate_fn(samples[0] if single else samples)
        return wrap(samples[0] if single else collate(samples))

    def state_dict(self) -> dict[str, Any]:
        """The loader's position, and what decides the order of rows."""
        at = self._position.settled()
        sampler = at.sampler
        if sampler is None:
            sampler = state_of(self.sampler if self.batch_sampler is None else self.batch_sampler)
        return {"epoch": at.epoch, "batch": at.batch, "seed": self.seed, **self._layout(),
                "order": at.order, "sampler": sampler}  # fmt: skip

    def _layout(self) -> dict[str, int]:
        rows = len(self.dataset) if isinstance(self.dataset, Sized) else 0
        return {"batch_size": self.batch_size or 0, "rows": rows, "shuffle": int(self.shuffle)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Make the next `iter(loader)` or `read()` go on where `state_dict()` was taken.

        Raises DataError if this loader would cut or order the rows differently, also, when it
        begins to read, if a sampler gives other rows than before.
        """
        state, names = state_dict, ("epoch", "batch", "seed", *self._layout())
        missing = [name for name in names if name not in state]
        if missing:
            raise DataError(f"load_state_dict: {', '.join(missing)} missing from the state")
        for name, here in self._layout().items():
            if state["batch"] and state[name] != here:
                raise DataError(f"load_state_dict: the state is from the middle of an epoch with "
                                f"{name} {state[name]}; this loader has {here}")  # fmt: skip
        self.seed = int(state["seed"])
        self.commit(Position(int(state["epoch"]), int(state["batch"]), False, state.get("order"),
                             state.get("sampler")))  # fmt: skip
