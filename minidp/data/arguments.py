"""What makes no loader."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.data.stream import IterableDataset
from minidp.errors import DataError


def check(dataset: Any, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any,
          drop_last: bool, num_workers: int) -> None:  # fmt: skip
    """Raise DataError for arguments that make no loader."""
    if isinstance(dataset, IterableDataset):
        if shuffle or sampler is not None or batch_sampler is not None:
            raise DataError("DataLoader: an IterableDataset decides its own order: drop "
                            "shuffle, sampler and batch_sampler")  # fmt: skip
    elif not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise DataError(f"DataLoader: {type(dataset).__name__} has no len() or no [row]; wrap "
                        "arrays in TensorDataset; derive what is only iterated over from "
                        "IterableDataset")  # fmt: skip
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise DataError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and "
                        "drop_last: drop them")  # fmt: skip
    if num_workers < 0:
        raise DataError(f"DataLoader: num_workers is {num_workers}; it has to be 0 or more")
    if batch_size is None and drop_last:
        raise DataError("DataLoader: batch_size=None excludes drop_last: drop it")
    if batch_size is not None and (not isinstance(batch_size, (int, np.integer)) or batch_size < 1):
        raise DataError(f"DataLoader: batch_size is {batch_size!r}; it has to be 1 or more rows")
    if shuffle and sampler is not None:
        raise DataError("DataLoader: shuffle=True and a sampler exclude each other: drop one")
