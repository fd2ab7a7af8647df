"""What evaluation needs besides the scheduler: the model in evaluation mode, and a metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

from minidp.errors import ReplicaError
from minidp.tensor import Tensor


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether the largest output is that of the target class, row by row."""
    if not isinstance(outputs, Tensor) or outputs.ndim < 2:
        what = f"shape {outputs.shape}" if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ReplicaError(
            f"evaluate: accuracy is of outputs (rows, classes), the model's are {what}: give other "
            "metrics, such as metrics={}"
        )
    result: Tensor = outputs.argmax(1) == targets
    return result


def means(parts: Sequence[Any], names: Sequence[str]) -> dict[str, float]:
    """The mean loss and metrics, from what ``Evaluation`` gives of each replica."""
    rows, weight = (sum(part[i] for part in parts) for i in (0, 1))
    if rows == 0:
        raise ReplicaError("evaluate: the loader gave no rows")
    loss, *sums = (sum(part[2][i] for part in parts) for i in range(len(names) + 1))
    mean = loss / weight if weight else float("nan")
    return {"loss": mean, **dict(zip(names, [each / rows for each in sums], strict=True))}


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode; then each of its modules in the mode that it was in."""
    modules = list(model.modules()) if hasattr(model, "modules") else []
    before = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training


def whole(loader: Any) -> Any:
    """A loader with a position, of which an epoch is to be read from its beginning and without
    moving it, as a copy; anything else as it is."""
    if not (hasattr(loader, "read") and hasattr(loader, "commit")):
        return loader
    result = copy(loader)
    result.epoch = loader.epoch
    return result


def summed(found: Any, rows: int) -> float:
    """What a metric gave, added over rows; a ReplicaError unless it is one number or one a row."""
    values = np.asarray(host(found))
    if values.dtype.kind not in "fiub" or values.size not in (1, rows):
        raise ReplicaError(
            f"evaluate: of {rows} row(s) a metric gave {found!r:.60}, which is not one number per "
            "row, or the sum of these: reduce it over all axes but the first"
        )
    return float(np.sum(values))


def host(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value
