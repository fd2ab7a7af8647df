"""Products, Einstein's summation, matrices, norms and distances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from differential.random_values import Draw
from differential.registry import calls, either, maybe
from differential.twins import Call, Leaf


@calls("matmul mm mv bmm dot vdot inner outer ger kron Tensor.__matmul__")
def products(draw: Draw, name: str) -> Call:
    n, m, k = (draw.number(0, 3) if draw.chance(0.2) else draw.number(1, 3) for _ in range(3))
    shapes = {
        "mm": ((n, m), (m, k)), "mv": ((n, m), (m,)), "bmm": ((2, n, m), (2, m, k)),
        "dot": ((n,), (n,)), "vdot": ((n,), (n,)), "outer": ((n,), (m,)), "ger": ((n,), (m,)),
        "inner": draw.pick(((n,), (n,)), ((m, n), (k, n)), ((), (n,)), ((2, m, n), (n,)), ((), ())),
        "kron": (draw.shape(0, 3), draw.shape(0, 3)),
    }  # fmt: skip
    both = shapes.get(name) or draw.pick(
        ((m,), (m,)), ((n, m), (m,)), ((m,), (m, k)), ((n, m), (m, k)), ((2, n, m), (m, k)),
        ((n, m), (2, m, k)), ((2, n, m), (2, m, k)), ((2, 1, n, m), (3, m, k)), ((m,), (2, m, k)),
        ((2, n, m), (m,)), ((), (m,)), ((n, m), (m + 1, k)), ((2, n, m), (3, m, k)))  # fmt: skip
    dtype = draw.dtype("fi") if draw.chance(0.2) else draw.pick("float32", "float64")
    other = dtype if draw.chance(0.93) else draw.dtype()
    kind = draw.pick("smooth", "ties", None)
    x, y = draw.leaf(both[0], dtype, kind), draw.leaf(both[1], other, kind)
    return Call(name, (x, y)) if "." in name else either(draw, name, x, y)


@calls("addmm addmv addr baddbmm addbmm")
def plus_products(draw: Draw, name: str) -> Call:
    n, m, k = (draw.number(1, 3) for _ in range(3))
    a, b, result = {
        "addmm": ((n, m), (m, k), (n, k)), "addmv": ((n, m), (m,), (n,)),
        "addr": ((n,), (m,), (n, m)), "baddbmm": ((2, n, m), (2, m, k), (2, n, k)),
        "addbmm": ((2, n, m), (2, m, k), (n, k)),
    }[name]  # fmt: skip
    dtype = draw.pick("float32", "float64", "int64")
    kind = draw.pick("smooth", "ties", "special")
    x, y, z = (draw.leaf(s, dtype, kind) for s in (draw.like(result)[-len(result) :], a, b))
    named = maybe(draw, beta=draw.pick(0, 2, 1), alpha=draw.pick(0, 3, -1))
    return either(draw, name, x, y, z, **named)


@calls(
    "tensordot cross linalg.cross chain_matmul linalg.multi_dot matrix_power "
    "linalg.matrix_power linalg.vecdot"
)
def more_products(draw: Draw, name: str) -> Call:
    dtype = draw.pick("float32", "float64")
    if name == "tensordot":
        a, b, dims = draw.pick(
            ((2, 3), (3, 2), 1),
            ((2, 3, 4), (3, 4, 2), 2),
            ((2, 3), (4,), 0),
            ((2, 3), (3, 2), ([0, 1], [1, 0])),
            ((2, 3, 4), (5, 3), ([1], [1])),
            ((3,), (3,), 1),
            ((2, 3), (2, 4), ((0,), (0,))),
            ((0, 3), (3, 2), 1),
            ((2, 3), (3, 2), ([-1], [0])),
        )
        return Call(name, (draw.leaf(a, dtype), draw.leaf(b, dtype)), {"dims": dims})
    if "cross" in name or "vecdot" in name:
        shape = draw.pick((3,), (2, 3), (3, 2), (3, 3), (2, 3, 4), (0, 3), (1, 3))
        x, y = draw.leaf(shape, dtype), draw.leaf(draw.pick(shape, draw.like(shape)), dtype)
        axis = [i for i, n in enumerate(shape) if n == 3][-1]
        if name == "cross":
            return either(
                draw, name, x, y, **maybe(draw, 0.8, dim=draw.pick(axis, axis - len(shape)))
            )
        return Call(name, (x, y), maybe(draw, dim=axis))
    if "power" in name:
        n = draw.number(0, 3)
        x = draw.leaf(draw.pick((n, n), (2, n, n)), dtype, "smooth")
        return Call(name, (x, draw.number(0, 5)))
    sizes = [draw.number(1, 4) for _ in range(draw.number(2, 4) + 1)]
    parts = [draw.leaf(pair, dtype, "smooth") for pair in pairwise(sizes)]
    return Call(name, (tuple(parts),)) if "." in name else Call(name, tuple(parts))


@calls("einsum")
def einstein(draw: Draw, name: str) -> Call:
    dtype = draw.pick("float32", "float64")
    sizes = {letter: draw.number(0 if draw.chance(0.1) else 1, 3) for letter in "ijklm"}
    count = draw.pick(1, 2, 2, 2, 3)
    dots = draw.chance(0.2)
    terms, parts = [], []
    for _ in range(count):
        term = "".join(draw.pick(*"ijklm") for _ in range(draw.number(0, 3)))
        shape = [1 if draw.chance(0.05) else sizes[letter] for letter in term]
        if dots:
            extra = [draw.pick(1, 2) for _ in range(draw.number(0, 2))]
            term, shape = "..." + term, extra + shape
        terms.append(term)
        parts.append(draw.leaf(tuple(shape), dtype, draw.pick("smooth", "ties")))
    equation = ",".join(terms)
    letters = sorted(set(equation) & set("ijklm"))
    if draw.chance(0.7):
        kept = [letter for letter in letters if draw.chance()]
        kept = [kept[int(i)] for i in draw.rng.permutation(len(kept))]
        equation += "->" + ("..." if dots and draw.chance(0.9) else "") + "".join(kept)
    if draw.chance(0.2):
        equation = equation.replace("->", " -> ").replace(",", " , ")
    return Call(name, (equation, *parts)) if draw.chance(0.8) else Call(name, (equation, parts))


@calls(
    "linalg.inv inverse linalg.det det linalg.slogdet slogdet logdet linalg.cholesky "
    "linalg.solve linalg.eigvalsh linalg.svdvals linalg.matrix_rank linalg.pinv "
    "linalg.cond linalg.solve_triangular linalg.lstsq cholesky linalg.eigh_values "
    "linalg.qr_product cholesky_solve triangular_solve pinverse"
)
def matrices(draw: Draw, name: str) -> Call:
    n, dtype = (
        draw.number(0, 4) if draw.chance(0.2) else draw.number(1, 4),
        draw.pick("float32", "float64"),
    )
    batch = draw.pick((), (), (2,), (0,), (2, 1))
    shape = (*batch, n, n)
    x = np.asarray(draw.rng.standard_normal(shape) + 2 * np.eye(n))
    if "cholesky" in name or "eig" in name:
        x = x @ x.swapaxes(-1, -2) + np.eye(n)
    wants = draw.chance(0.8)
    if draw.chance(0.1) and n and "eig" not in name:
        x[..., 0] = 0  # singular
    x = x.astype(dtype)
    if draw.chance(0.05):
        x = np.ones((2, 3), dtype)  # not square
    a = Leaf(
        x,
        [("mT",)] and [("transpose", -1, -2)] if draw.chance(0.3) and "chol" not in name else [],
        wants,
    )
    if name == "linalg.solve":
        b = draw.pick((*batch, n), (*batch, n, 2), (n, 2), (n,), (*batch, n, 0))
        return Call(name, (a, draw.leaf(b, dtype, "smooth")), maybe(draw, 0.2, left=False))
    if name == "linalg.solve_triangular":
        upper = draw.chance()
        return Call(name, (a, draw.leaf((*batch, n, 2), dtype, "smooth")), {"upper": upper})
    if name == "linalg.lstsq":
        return Call(name, (a, draw.leaf((*batch, n, 2), dtype, "smooth")))
    if name == "linalg.cholesky":
        return Call(name, (a,), maybe(draw, upper=draw.chance()))
    return either(draw, name, a)


@calls("linalg.norm linalg.vector_norm linalg.matrix_norm")
def norms(draw: Draw, name: str) -> Call:
    shape, dtype = draw.shape(), draw.pick("float32", "float64")
    if "matrix" in name:
        shape = draw.shape(2, 4)
    x = draw.leaf(shape, dtype, draw.pick("smooth", "ties"))
    orders = {"linalg.vector_norm": (2, 1, 0, 3, 0.5, float("inf"), -float("inf"), -2)}.get(
        name, ("fro", 1, -1, 2, -2, float("inf"), -float("inf"), "nuc")
    )
    named = maybe(draw, 0.7, ord=draw.pick(*orders))
    if name == "linalg.norm" and draw.chance(0.3):
        named["ord"] = draw.pick(2, 1, 0, 3)
        named["dim"] = draw.dim(len(shape))
    elif "vector" in name:
        named.update(maybe(draw, 0.7, dim=draw.dims(len(shape))))
    return Call(name, (x,), {**named, **maybe(draw, 0.4, keepdim=True)})


@calls("cosine_similarity pairwise_distance cdist pdist")
def distances(draw: Draw, name: str) -> Call:
    dtype = draw.pick("float32", "float64")
    kind = draw.pick("smooth", "ties")
    if name == "pdist":
        return Call(
            "pdist",
            (Leaf(draw.values((draw.number(0, 4), 3), dtype, kind)),),
            maybe(draw, p=draw.pick(1.0, 2.0, 3.0)),
        )
    if name == "cdist":
        batch = draw.pick((), (2,), (2, 1))
        # PyTorch's backward of cdist and of pdist crashes on some shapes
        x, y = (Leaf(draw.values((*batch, draw.number(1, 3), 3), dtype, kind)) for _ in "12")
        return Call(name, (x, y), maybe(draw, p=draw.pick(1.0, 2.0, 3.0, 0.0, float("inf"))))
    shape = draw.pick((2, 3), (3, 2), (2, 3, 4), (1, 3))
    x, y = draw.leaf(shape, dtype, kind), draw.leaf(draw.pick(shape, draw.like(shape)), dtype, kind)
    if name == "cosine_similarity":
        return Call(name, (x, y), maybe(draw, dim=draw.dim(len(shape)), eps=1e-6))
    return Call(name, (x, y), maybe(draw, p=draw.pick(1.0, 2.0, 3.0), keepdim=draw.chance()))
