"""Printed tensors, dtypes of mixed operations and NumPy's functions on Tensors, by number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import minidp as dp
from differential.random_values import EVERY, Draw
from differential.twins import (
    array,
    attempt,
    flattened,
    name_of,
    ours,
    theirs,
    torch,
    unlike,
    values_unlike,
)


def printed(seed: int) -> str | None:
    """Whether a random tensor prints as PyTorch's does."""
    draw = Draw(4242, seed)
    shape = draw.pick(
        *(
            (),
            (1,),
            (3,),
            (0,),
            (2, 3),
            (0, 3),
            (2, 0),
            (2, 3, 4),
            (30,),
            (100,),
            (1001,),
            (40, 40),
            (2, 5, 120),
            (12, 3),
            (1, 1, 1),
            (7, 30),
            (2, 2, 2, 2),
        )
    )
    dtype = draw.dtype()
    values = draw.values(shape, dtype)
    if values.dtype.kind == "f":
        scale = draw.pick(1, 1, 1e3, 1e-3, 1e5, 1e-6, 1e8, 100, 1e20)
        with np.errstate(all="ignore"):
            values = np.asarray(values * np.asarray(scale)).astype(dtype)
        if draw.chance(0.2):
            values = np.asarray(np.round(values))
    wants = values.dtype.kind == "f" and draw.chance(0.2)
    texts = [
        repr(x.requires_grad_() if wants else x) for x in (dp.tensor(values), torch.tensor(values))
    ]
    texts = [_plain(text) for text in texts]
    return (
        None
        if texts[0] == texts[1]
        else f"{dtype}{list(shape)}\n{texts[0]}\n-- instead of\n{texts[1]}"
    )


def _plain(text: str) -> str:
    """Without the name of the package, which may be what breaks a line before requires_grad."""
    text = text.replace("minidp.", "torch.")
    return text.replace(",\n       requires_grad", ", requires_grad")


OPERATIONS = ("add", "sub", "mul", "div", "pow", "floor_divide", "remainder", "maximum", "eq",
              "atan2", "where", "cat", "bitwise_and")  # fmt: skip
SCALARS = (True, 2, 2.5)


def promotions() -> list[str]:
    """Every pair of dtypes, with and without axes, and every kind of Python number."""
    found = []

    def check(text: str, call: Any) -> None:
        (mine, error), (other, wrong) = ours(lambda: call(dp)), theirs(lambda: call(torch))
        if (error is None) != (wrong is None):
            if wrong is None or "implemented" not in str(wrong):
                found.append(f"{text}: {error!r} instead of {wrong!r}")
        elif error is None and name_of(mine.dtype) != name_of(other.dtype):
            found.append(f"{text}: {mine.dtype} instead of {name_of(other.dtype)}")

    def result(lib: Any, name: str, a: Any, b: Any) -> Any:
        if name == "where":
            return lib.where(lib.tensor([True]), a, b)
        if name == "cat":
            return lib.cat([a.reshape(-1), b.reshape(-1)])
        return getattr(lib, name)(a, b)

    for name, one, two in itertools.product(OPERATIONS, EVERY, EVERY):
        for first, second in (([1], [1]), ([1], 1), (1, [1]), (1, 1)):

            def call(lib: Any, n: Any = name, d: Any = (one, two), v: Any = (first, second)) -> Any:
                return result(lib, n, *(lib.tensor(x, dtype=getattr(lib, t))
                                        for x, t in zip(v, d, strict=True)))  # fmt: skip

            check(f"{name}({one}{first}, {two}{second})", call)
    for name, one, number in itertools.product(OPERATIONS[:7], EVERY, SCALARS):
        for value in ([1], 1):
            check(f"{name}({one}{value}, {number})", lambda lib, n=name, t=one, v=value, s=number:
                  result(lib, n, lib.tensor(v, dtype=getattr(lib, t)), s))  # fmt: skip
    return found


NUMPY = {
    "sum": [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}],
    "mean": [{}, {"axis": 0}, {"axis": 1, "keepdims": True}],
    "max": [{}, {"axis": 0}], "min": [{}, {"axis": 1}], "prod": [{}, {"axis": 0}],
    "std": [{}, {"axis": 0}, {"axis": 0, "ddof": 1}], "var": [{}, {"axis": 0}],
    "argmax": [{}, {"axis": 0}], "argmin": [{}, {"axis": 1}], "cumsum": [{"axis": 0}],
    "exp": [{}], "sqrt": [{}], "abs": [{}], "square": [{}], "sin": [{}], "tanh": [{}],
    "floor": [{}], "isnan": [{}], "sign": [{}], "round": [{}], "clip": [{"a_min": 0, "a_max": 1}],
    "transpose": [{}], "reshape": [{"shape": (-1,)}], "ravel": [{}], "squeeze": [{}],
    "expand_dims": [{"axis": 0}], "sort": [{}], "any": [{}], "all": [{}], "median": [{}],
    "argsort": [{}], "flip": [{}], "diff": [{}], "dot": [], "allclose": [],
}  # fmt: skip
PAIRS = ("add", "multiply", "maximum", "dot", "matmul", "allclose", "array_equal", "where_",
         "power", "concatenate_", "stack_", "vstack_", "hstack_", "outer", "isclose", "minimum",
         "arctan2")  # fmt: skip


def with_numpy() -> list[str]:
    """NumPy's functions of Tensors have the values that they have of arrays."""
    found = []
    x = np.random.default_rng(0).uniform(0.1, 2, (3, 3))

    def check(text: str, call: Any) -> None:
        (mine, error), (other, _) = ours(lambda: call(dp.tensor(x))), attempt(lambda: call(x))
        if error is not None:
            found.append(f"{text} raises {type(error).__name__}: {str(error)[:90]}")
            return
        values = array(mine) if isinstance(mine, dp.Tensor) else np.asarray(mine)
        text_of = values_unlike(values, np.asarray(other)) if values.shape == np.shape(other) else (
            f"shape {values.shape} instead of {np.shape(other)}")  # fmt: skip
        if text_of:
            found.append(f"{text}: {text_of}")

    for name, options in NUMPY.items():
        for named in options:
            check(f"np.{name}(x, **{named})", lambda a, n=name, k=named: getattr(np, n)(a, **k))
    for name in PAIRS:
        if name.endswith("_"):
            if name == "where_":
                check("np.where(x > 1, x, 0)", lambda a: np.where(a > 1, a, 0))
            else:
                check(f"np.{name[:-1]}([x, x])", lambda a, n=name: getattr(np, n[:-1])([a, a]))
        else:
            check(f"np.{name}(x, x)", lambda a, n=name: getattr(np, n)(a, a))
            check(f"np.{name}(x, array)", lambda a, n=name: getattr(np, n)(a, x))
    return found


SIGNATURES = {
    "sum": "input dim keepdim dtype", "mean": "input dim keepdim dtype",
    "prod": "input dim keepdim",
    "std": "input dim correction keepdim", "var": "input dim correction keepdim",
    "amax": "input dim keepdim", "amin": "input dim keepdim", "argmax": "input dim keepdim",
    "argmin": "input dim keepdim", "all": "input dim keepdim", "any": "input dim keepdim",
    "max": "input dim keepdim", "min": "input dim keepdim", "median": "input dim keepdim",
    "mode": "input dim keepdim", "logsumexp": "input dim keepdim", "norm": "input p dim keepdim",
    "cumsum": "input dim dtype", "cumprod": "input dim dtype", "softmax": "input dim dtype",
    "sort": "input dim descending", "argsort": "input dim descending stable",
    "topk": "input k dim largest sorted", "kthvalue": "input k dim keepdim",
    "add": "input other alpha", "sub": "input other alpha", "mul": "input other",
    "div": "input other rounding_mode", "pow": "input exponent", "maximum": "input other",
    "eq": "input other", "lt": "input other", "atan2": "input other", "fmod": "input other",
    "remainder": "input other", "logaddexp": "input other", "clamp": "input min max",
    "where": "condition input other", "lerp": "input end weight", "xlogy": "input other",
    "addcmul": "input tensor1 tensor2 value", "addcdiv": "input tensor1 tensor2 value",
    "sin": "input", "exp": "input", "abs": "input", "relu": "input", "round": "input decimals",
    "nan_to_num": "input nan posinf neginf", "isclose": "input other rtol atol equal_nan",
    "reshape": "input shape", "permute": "input dims", "transpose": "input dim0 dim1",
    "flatten": "input start_dim end_dim", "squeeze": "input dim", "unsqueeze": "input dim",
    "movedim": "input source destination", "flip": "input dims", "roll": "input shifts dims",
    "rot90": "input k dims", "tile": "input dims", "tril": "input diagonal",
    "diagonal": "input offset dim1 dim2", "diag": "input diagonal", "unbind": "input dim",
    "chunk": "input chunks dim", "narrow": "input dim start length", "select": "input dim index",
    "cat": "tensors dim", "stack": "tensors dim", "gather": "input dim index",
    "index_select": "input dim index", "masked_fill": "input mask value",
    "matmul": "input other", "mm": "input mat2", "mv": "input vec", "bmm": "input mat2",
    "outer": "input vec2", "addmm": "input mat1 mat2 beta alpha", "diff": "input n dim",
    "quantile": "input q dim keepdim", "repeat_interleave": "input repeats dim",
}  # fmt: skip


def named(name: str) -> str | None:
    """What differs when every argument is given by its name."""
    x, ints = np.arange(1.0, 10).reshape(3, 3), np.array([[0, 1], [1, 0], [2, 2]])

    def arguments(lib: Any) -> dict[str, Any]:
        t = lib.tensor
        known = {
            "input": t(x), "other": t(x[::-1].copy()), "exponent": t(x / 3), "end": t(x * 2),
            "mat1": t(x), "mat2": t(x), "vec": t(x[0]), "vec2": t(x[0]), "tensor1": t(x),
            "tensor2": t(x), "dim": 1, "keepdim": True, "dtype": lib.float64, "correction": 0,
            "p": 3, "descending": True, "stable": True, "k": 2, "largest": False, "sorted": True,
            "alpha": 2, "beta": 3, "rounding_mode": "floor", "min": 2.0, "max": 5.0, "value": 2,
            "condition": t(x) > 4, "weight": 0.25, "decimals": 1, "nan": 1.0, "posinf": 2.0,
            "neginf": 3.0, "rtol": 0.1, "atol": 0.2, "equal_nan": True, "shape": (9,),
            "dims": (1, 0), "dim0": 0, "dim1": 1, "start_dim": 0, "end_dim": 1, "source": 0,
            "destination": 1, "shifts": (1, 2), "diagonal": 1, "offset": 1, "dim2": 0, "chunks": 2,
            "start": 0, "length": 2, "index": t(ints) if name == "gather" else 1,
            "tensors": [t(x), t(x)], "mask": t(x) > 3, "n": 2, "q": 0.3, "repeats": 2,
        }  # fmt: skip
        if name == "index_select":
            known["index"] = t(ints[0])
        if name == "bmm":
            known = {each: t(np.stack([x, x])) for each in ("input", "mat2")}
        if name == "outer":
            known["input"] = t(x[0])
        if name == "diagonal":
            known["dim1"] = 1
        return {each: known[each] for each in SIGNATURES[name].split()}

    (mine, error), (other, wrong) = (run(lambda lib=lib: getattr(lib, name)(**arguments(lib)))
                                     for lib, run in ((dp, ours), (torch, theirs)))  # fmt: skip
    if error is not None or wrong is not None:
        return f"{error!r} instead of {wrong!r}" if wrong is None or error is None else (
            f"both raise: {wrong}")  # fmt: skip
    pairs = zip(flattened(mine), flattened(other), strict=True)
    return next((found for a, b in pairs if (found := unlike(a, b))), None)


if __name__ == "__main__":
    bad = [(seed, text) for seed in range(600) if (text := printed(seed))]
    print(f"printing: {len(bad)} of 600 differ")
    for seed, text in bad[:12]:
        print(seed, text[:700])
    for name, rows in (("promotion", promotions()), ("numpy", with_numpy())):
        print(f"{name}: {len(rows)} differ")
        print("\n".join(rows[:40]))
    for name in SIGNATURES:
        if found := named(name):
            print("names", name, found)
