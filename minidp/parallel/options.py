"""The options of a scheduler: what is wrong with them is said before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from minidp.errors import ReplicaError
from minidp.parallel.inspections import ClipNorm, Finite, Inspection, Scale, Used

FIRST_SCALE = 2.0**16


def check_parts(model: Any, loss: Any, optimizer: Any) -> None:
    """A ReplicaError for what is no model, no loss, or no optimiser."""
    if isinstance(model, type) or not callable(model):
        raise ReplicaError(f"Scheduler({model!r}, ...): expected a model, such as nn.Linear(2, 1), "
                           "or a function of the inputs")  # fmt: skip
    if isinstance(loss, type) or not callable(loss) or not hasattr(optimizer, "param_groups"):
        raise ReplicaError(
            f"Scheduler(model, {loss!r}, {type(optimizer).__name__}): expected a loss, such as "
            "nn.CrossEntropyLoss(), and an optimizer, such as optim.SGD(model.parameters())"
        )


def check_trained(model: Any, groups: Sequence[Sequence[Any]]) -> None:
    """A ReplicaError when a parameter of the model is to be trained by nobody."""
    known = {id(p) for group in groups for p in group}
    named = model.named_parameters() if hasattr(model, "named_parameters") else ()
    for name, parameter in named:
        if parameter.requires_grad and id(parameter) not in known:
            raise ReplicaError(
                f"parameter {name!r} of the model is not in the optimizer: give it to the "
                "optimizer, or freeze it with requires_grad_(False)"
            )


def check_begun_with(model: Any, groups: Sequence[Sequence[Any]], buckets: Any) -> None:
    """A ReplicaError when something is to be trained that the running pass began without."""
    check_trained(model, groups)
    known = {id(p) for bucket in buckets for p in bucket.parameters}
    new = [p for group in groups for p in group if p.requires_grad and id(p) not in known]
    if new:
        named = model.named_parameters() if hasattr(model, "named_parameters") else ()
        names = {id(p): repr(name) for name, p in named}
        listed = ", ".join(names.get(id(p), f"of shape {p.shape}") for p in new)
        raise ReplicaError(
            f"on_step has added or unfrozen parameter(s) {listed} while replicas run, which would "
            "be trained from the next run on: do it between two runs, or in on_epoch"
        )


def trained(groups: Sequence[Sequence[Any]]) -> list[Any]:
    """The parameters of an optimiser's groups that are trained, and what buckets depend on."""
    return [(p, p.dtype, p.shape, g)
            for g, group in enumerate(groups) for p in group if p.requires_grad]  # fmt: skip


def same(these: list[Any], those: list[Any]) -> bool:
    """Whether the same parameters are meant, with equal remarks on each."""
    return len(these) == len(those) and all(
        a[0] is b[0] and a[1:] == b[1:] for a, b in zip(these, those, strict=True)
    )


def inspections(
    nan: str | None, clip_norm: float | None, loss_scale: float | str | None, unused: str
) -> list[Inspection]:
    """What is asked of the gradients of every step, in order."""
    result: list[Inspection] = []
    if nan not in (None, "raise", "skip"):
        raise ReplicaError(f"nan={nan!r}: expected None, 'raise' or 'skip'")
    if unused not in ("warn", "error", "ignore"):
        raise ReplicaError(f"unused={unused!r}: expected 'warn', 'error' or 'ignore'")
    if unused != "ignore":
        result.append(Used(unused))
    if loss_scale is not None:
        dynamic = loss_scale == "dynamic"
        factor = FIRST_SCALE if dynamic else positive("loss_scale", loss_scale, (int, float))
        result.append(Scale(factor, dynamic))
    if nan is not None:
        result.append(Finite(nan, gradients=loss_scale != "dynamic"))
    if clip_norm is not None:
        result.append(ClipNorm(positive("clip_norm", clip_norm, (int, float))))
    return result


def check_loader(loader: Any, epochs: int) -> None:
    """A ReplicaError for what gives no batches, or not so often."""
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise ReplicaError(f"run({loader!r:.60}): expected a loader, or a list of batches")
    if isinstance(epochs, bool) or not isinstance(epochs, Integral) or epochs < 0:
        raise ReplicaError(f"run(loader, epochs={epochs!r}): expected a whole number, at least 0")
    if epochs > 1 and hasattr(loader, "__next__"):
        raise ReplicaError(
            f"run({type(loader).__name__}, epochs={epochs}): an iterator gives its batches once; "
            "give a list, a DataLoader or another object that can be iterated over again"
        )


def metrics(given: Any) -> dict[str, Any]:
    """The metrics by their names; a ReplicaError for what is none."""
    if isinstance(given, Mapping) and all(map(callable, given.values())):
        return dict(given)
    raise ReplicaError(
        f"evaluate(loader, metrics={given!r:.60}): expected functions of (outputs, targets) by "
        "their names, such as {'squares': lambda y, t: ((y - t) ** 2).sum(1)}"
    )


def no_copy() -> ReplicaError:
    """Why a scheduler is neither copied nor pickled."""
    return ReplicaError(
        "a Scheduler cannot be copied or pickled: it holds the buckets in which the parameters of "
        "its model lie. Copy the model and make an optimizer and a Scheduler for it, or keep a run "
        "with dp.io.Checkpoints"
    )


def positive(name: str, value: Any, kind: Any = int) -> Any:
    """The value; a ReplicaError unless it is a number above 0."""
    if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < math.inf:
        what = "a whole number" if kind is int else "a number"
        raise ReplicaError(f"{name}={value!r}: expected {what} greater than 0")
    return value


def sizes(bucket_kib: Any) -> tuple[float, float]:
    """The sizes of the first bucket and of the others, in KiB."""
    given = bucket_kib if isinstance(bucket_kib, (tuple, list)) else (bucket_kib, bucket_kib)
    if len(given) != 2:
        raise ReplicaError(f"bucket_kib={bucket_kib!r}: expected a number, or two")
    first, limit = given
    return (positive("bucket_kib", first, (int, float)),
            positive("bucket_kib", limit, (int, float)))  # fmt: skip
