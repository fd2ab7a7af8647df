"""One random case of one layer in both libraries: values, gradients, buffers, text."""

from __future__ import annotations

from typing import Any

import numpy as np

import minidp as dp
from differential import losses, sequences, windows  # noqa: F401  (they register their cases)
from differential.common import (
    Refused,
    arrays,
    attempt,
    difference,
    differences,
    generator,
    ours,
    tensors,
    theirs,
    torch,
)
from differential.drawing import Case, Draw
from differential.layers import LAYERS
from minidp import nn

NO_KERNEL = (
    "not implemented for 'Long'",
    "Integral inputs not supported",
    "could not infer output dtype",
)
"""What PyTorch says where it just lacks a kernel for integers."""


PRODUCTS = (
    "Linear",
    "Bilinear",
    "Conv",
    "RNN",
    "LSTM",
    "GRU",
    "Multihead",
    "Transformer",
    "Embedding",
)
"""Layers that refuse integers (the table's: floating-point numbers) where PyTorch does."""


def spoiled(case: Case, d: Draw, name: str) -> Case:
    """The case with one input of another shape or type."""
    at = d.size(0, len(case.inputs) - 1)
    x = case.inputs[at]
    if not isinstance(x, np.ndarray):
        return case
    kind = d.pick(0, 1, 2, 3, 4, 5 if name.startswith(PRODUCTS) else 0, 6)
    if kind == 0:
        x = x[None]
    elif kind == 1 and x.ndim:
        x = (
            x.reshape(*x.shape[:-2], -1)
            if x.ndim > 1 and x.size
            else x[..., 0]
            if x.shape[-1]
            else x
        )
    elif kind == 2 and x.ndim:
        x = np.concatenate([x, x[..., :1]], -1)
    elif kind == 3 and x.ndim > 1:
        x = np.concatenate([x, x[:, :1]], 1)
    elif kind == 4:
        x = x.astype("float32" if x.dtype == np.float64 else "float64")
    elif kind == 5:
        x = np.nan_to_num(x, posinf=3, neginf=-3).astype("int64")
    elif kind == 6 and x.ndim:
        x = np.concatenate([x, x[:1]], 0)
    x = np.asarray(x)
    inputs = list(case.inputs)
    inputs[at] = x
    return case._replace(inputs=tuple(inputs))


def module(library: Any, convert: Any, name: str, case: Case, dtype: str) -> Any:
    made = getattr(library, name)(*case.args, **{k: convert(v) for k, v in case.kwargs.items()})
    return {"float64": made.double, "float32": made.float, "float16": made.half}[dtype]()


def loaded(mine: Any, right: Any, d: Draw) -> str:
    """Give both modules the same random state; the difference of their keys, shapes and types."""
    state = {}
    for key, value in right.state_dict().items():
        kind = value.numpy().dtype
        drawn = (
            d.random.uniform(0.5, 1.5, value.shape)
            if "var" in key
            else d.random.normal(0, 0.7, value.shape)
        )
        state[key] = value.numpy() if kind.kind == "i" else np.asarray(drawn).astype(kind)
    described = [
        [(k, tuple(v.shape), str(v.dtype).rpartition(".")[2]) for k, v in m.state_dict().items()]
        for m in (mine, right)
    ]
    if described[0] != described[1]:
        return f"state_dict {described[0]}, not {described[1]}"
    right.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    mine.load_state_dict({k: dp.tensor(v) for k, v in state.items()})
    names = [[n for n, _ in m.named_parameters()] for m in (mine, right)]
    return "" if names[0] == names[1] else f"named_parameters {names[0]}, not {names[1]}"


def cotangents(values: list[Any], d: Draw) -> list[Any]:
    return [
        np.asarray(d.random.standard_normal(tuple(v.shape))).astype(arrays(v)[0].dtype)
        for v in values
    ]


def total(values: list[Any], seeds: list[Any], convert: Any) -> Any:
    out = None
    for value, seed in zip(values, seeds):
        term = (value * convert(seed)).sum()
        out = term if out is None else out + term
    return out


def gradients(
    library: Any, call: Any, leaves: list[Any], seeds: Any, second: Any, convert: Any
) -> Any:
    """The first derivatives of what ``call`` gives; the second ones too if seeds are given."""
    grad = library.grad if library is dp else library.autograd.grad
    end = total(call, seeds, convert)
    if end is None or not end.requires_grad:
        return [None] * len(leaves)
    if second is None:
        return list(grad(end, leaves, allow_unused=True))
    first = grad(end, leaves, create_graph=True, allow_unused=True)
    used = [g for g in first if g is not None]
    end = total(used, second[: len(used)], convert)
    if end is None or not end.requires_grad:
        return list(first)
    return [*first, *grad(end, leaves, allow_unused=True)]


def agree(errors: list[str], where: str) -> str:
    """Whether both libraries raised; those two that lack a kernel do not count."""
    if all(errors) or any(text in errors[1] for text in NO_KERNEL):
        return ""
    return f"{where}: ours {errors[0] or 'works'} / torch {errors[1] or 'works'}"


def filled(grads: list[Any], leaves: list[Any]) -> list[Any]:
    """Arrays; zeros for None, which is how much of the graph a library records."""
    return [
        np.zeros(tuple(leaf.shape), arrays(leaf)[0].dtype) if g is None else arrays(g)[0]
        for g, leaf in zip(grads, leaves * 2)
    ]


def compare(name: str, seed: int, dtype: str = "float64", make: Any = None) -> str:
    """What differs in case ``seed`` of the layer; "" if nothing does."""
    d = Draw(generator(name, seed, dtype), dtype)
    case = (make or LAYERS[name])(d)
    second = d.chance(0.25) and dtype == "float64" and not d.special and not d.coarse
    train = d.chance(0.6) if case.train is None else case.train
    bad = d.chance(0.1) and "Cell" not in name  # PyTorch reads beyond the ends of its states
    half = dtype == "float16" and "Norm" in name
    tolerance = 0.1 if half else {"float16": 2e-2, "float32": 5e-4}.get(dtype, 1e-7)
    tolerance = max(tolerance, 5e-4 if bad else 0)
    case = spoiled(case, d, name) if bad and case.inputs else case
    made, errors = [], []
    for library, convert in ((nn, ours), (torch.nn, theirs)):
        try:
            made.append(attempt(module, library, convert, name, case, dtype))
            errors.append("")
        except Refused as error:
            errors.append(str(error))
    if any(errors):
        return agree(errors, "constructor")
    mine, right = made
    found = loaded(mine, right, d)
    if found:
        return found
    if repr(mine) != repr(right):
        return f"repr {mine!r}, not {right!r}"
    for each in made:
        each.train(train)
    for turn in range(2 if list(right.buffers()) else 1):
        found = same_calls(mine, right, case, d, second, tolerance)
        if found:
            return (
                f"{found} [call {turn}, {'train' if train else 'eval'}{', spoiled' if bad else ''}]"
            )
    return ""


def same_calls(mine: Any, right: Any, case: Case, d: Draw, second: bool, tolerance: float) -> str:
    """What differs in one call of both layers or functions: results, buffers, gradients."""
    results, errors, leaves = [], [], []
    for each, convert in ((mine, ours), (right, theirs)):
        inputs, named = convert(case.inputs, True), convert(case.named, True)
        inputs = tuple(x.detach() if i in case.fixed else x for i, x in enumerate(inputs))
        named = {
            k: v.detach() if ("mask" in k or k in case.fixed) and hasattr(v, "detach") else v
            for k, v in named.items()
        }
        try:
            results.append(attempt(each, *inputs, **named))
            errors.append("")
        except Refused as error:
            errors.append(str(error))
        free = [t for t in tensors((inputs, named)) if t.requires_grad]
        parameters = each.parameters() if hasattr(each, "parameters") else ()
        leaves.append(free + [p for p in parameters if p.requires_grad])
    if any(errors):
        return agree(errors, "forward")
    found = differences(*results, tolerance if tolerance > 1e-7 else None)
    if found:
        return f"output{found}"
    if hasattr(right, "buffers"):
        found = differences([*mine.buffers()], [*right.buffers()])
        if found:
            return f"buffer{found}"
    flat = [tensors(each) for each in results]
    if not flat[0] or d.undefined:  # what comes back at NaN, PyTorch's kernels do not agree on
        return ""
    seeds = cotangents(flat[1], d)
    seconds = cotangents(leaves[1], d) if second else None
    grads, errors = [], []
    for library, values, wrt, convert in (
        (dp, flat[0], leaves[0], ours),
        (torch, flat[1], leaves[1], theirs),
    ):
        try:
            grads.append(attempt(gradients, library, values, wrt, seeds, seconds, convert))
            errors.append("")
        except Refused as error:
            errors.append(str(error))
    if errors[1]:  # what PyTorch cannot differentiate is not compared
        return ""
    if errors[0]:
        return f"backward: ours {errors[0]}"
    a, b = (filled(g, wrt) for g, wrt in zip(grads, leaves))
    for index, (x, y) in enumerate(zip(a, b)):
        order = "second" if index >= len(leaves[0]) else "first"
        loose = {"float64": 1e-9}.get(y.dtype.name, tolerance) if order == "first" else tolerance
        found = difference(x, y, max(loose, tolerance if tolerance > 1e-6 else 0))
        if found:
            return f"{order} gradient {index % len(leaves[0])} {found}"
    return ""


def names() -> list[str]:
    return sorted(LAYERS)
