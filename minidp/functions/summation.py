"""Einstein's summation: products of tensors whose axes have letters."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

from minidp.arguments import expect_tensors
from minidp.errors import ShapeError
from minidp.functions.layout import broadcast_to, reshape
from minidp.ops import layout
from minidp.ops.linalg import matmul
from minidp.ops.reduce import sum
from minidp.tensor import Tensor

__all__ = ["einsum"]
LETTERS = string.ascii_uppercase + string.ascii_lowercase


def einsum(equation: Any, *operands: Any) -> Tensor:
    """``einsum("bij, bjk -> bik", a, b)``: axes with equal letters are multiplied, those that the
    result does not name are summed. A letter twice in one operand is its diagonal; ``...`` are axes
    that broadcast; without an arrow the result has the letters that occur once, sorted.

    Operands are joined from left to right, each time as a batch of matrix products.

    >>> dp.einsum("ij,jk->ik", dp.ones(2, 3), dp.ones(3, 4)).shape
    (2, 4)
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists(equation, *operands)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    expect_tensors(f"einsum {equation!r}", *operands)
    terms, result = _read(equation, operands)
    parts = [_diagonals(x, term) for x, term in zip(operands, terms, strict=True)]
    sizes: dict[str, int] = {}
    for x, term in parts:
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) == 1:
                sizes[letter] = n
            if n not in (1, sizes[letter]):
                shapes = ", ".join(str(x.shape) for x in operands)
                raise ShapeError(f"einsum {equation!r} of {shapes}: axis {letter!r} has both "
                                 f"{sizes[letter]} and {n} places")  # fmt: skip
    x, term = parts[0]
    for i, (y, other) in enumerate(parts[1:], 2):
        later = result + [letter for _, names in parts[i:] for letter in names]
        x, term = _join(x, term, y, other, later)
    x, term = _summed(x, term, [letter for letter in term if letter not in result])
    return layout.permute(x, axes=tuple(term.index(letter) for letter in result))


def _from_lists(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """The form einsum(a, [0, 1], b, [1, 2], [0, 2]) as an equation."""
    if not all(isinstance(part, (list, tuple)) for part in given[1::2]):
        raise TypeError('einsum: the equation comes first: einsum("ij,jk->ik", a, b)')
    names = ["".join("..." if i is ... else LETTERS[i] for i in part) for part in given[1::2]]
    arrow = []
    if len(given) % 2:
        arrow = ["".join("..." if i is ... else LETTERS[i] for i in given[-1])]
    return "->".join([",".join(names), *arrow]), tuple(given[0 : 2 * len(names) : 2])


def _read(equation: str, operands: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the result; axes of ``...`` are named "-1", "-2" ..."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(operands):
        raise ShapeError(f"einsum {equation!r}: the equation names {len(texts)} operand(s), "
                         f"{len(operands)} given")  # fmt: skip
    terms = [_term(equation, text, x.ndim) for text, x in zip(texts, operands, strict=True)]
    rank = max([len(t) - len(s.replace("...", "")) for t, s in zip(terms, texts, strict=True)])
    every = [letter for term in terms for letter in term]
    if arrow:
        result = _term(equation, right, len(right.replace("...", "")) + rank * ("..." in right))
    else:
        once = sorted(n for n in set(every) if every.count(n) == 1 and n in LETTERS)
        result = [*(f"-{i}" for i in range(rank, 0, -1)), *once]
    if not set(result) <= set(every) or len(set(result)) < len(result):
        unknown = sorted(set(result) - set(every))
        what = f"{', '.join(unknown)}, which no operand has" if unknown else "an axis twice"
        raise ShapeError(f"einsum {equation!r}: the result names {what}")
    return terms, result


def _term(equation: str, text: str, ndim: int) -> list[str]:
    before, dots, after = text.partition("...")
    rank = ndim - len(before) - len(after)
    strange = sorted(set(before + after) - set(LETTERS))
    if strange:
        raise ShapeError(f"einsum {equation!r}: {strange[0]!r} in the term {text!r}; expected "
                         "letters, one for each axis, or ... for any number")  # fmt: skip
    if rank < 0 or (rank and not dots):
        raise ShapeError(f"einsum {equation!r}: the term {text!r} for an operand with {ndim} axes")
    return [*before, *(f"-{i}" for i in range(rank, 0, -1)), *after]


def _diagonals(x: Tensor, term: list[str]) -> tuple[Tensor, list[str]]:
    """One axis per letter: the diagonal of axes that have the same."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ShapeError(f"einsum: {letter!r} has {x.shape[i]} and {x.shape[j]} places")
            x = layout.diagonal(x, offset=0, axes=(i, j))
            term = [n for a, n in enumerate(term) if a not in (i, j)] + [letter]
    return x, term


def _summed(x: Tensor, term: list[str], gone: list[str]) -> tuple[Tensor, list[str]]:
    axes = tuple(term.index(letter) for letter in gone)
    return (sum(x, dim=axes).type(x.dtype) if axes else x), [n for n in term if n not in gone]


def _join(x: Tensor, term: list[str], y: Tensor, other: list[str], later: list[str]
          ) -> tuple[Tensor, list[str]]:  # fmt: skip
    """Two operands as one: letters of one only are summed or kept, shared ones that come later
    are a batch, the others are the inner axis of a matrix product."""
    x, term = _summed(x, term, [n for n in term if n not in other and n not in later])
    y, other = _summed(y, other, [n for n in other if n not in term and n not in later])
    sizes = {**dict(zip(other, y.shape, strict=True))}
    for name, n in zip(term, x.shape, strict=True):
        sizes[name] = n if sizes.get(name, 1) == 1 else sizes[name]
    shared = [n for n in term if n in other]
    batch, inner = [n for n in shared if n in later], [n for n in shared if n not in later]
    rows, columns = [n for n in term if n not in other], [n for n in other if n not in term]
    a = _blocks(x, term, (batch, rows, inner), sizes)
    b = _blocks(y, other, (batch, inner, columns), sizes)
    names = [*batch, *rows, *columns]
    return reshape(matmul(a, b), [sizes[n] for n in names]), names


def _blocks(x: Tensor, term: list[str], groups: Any, sizes: dict[str, int]) -> Tensor:
    """The axes in the order of three groups of letters, each group as one axis."""
    names = [n for group in groups for n in group]
    x = layout.permute(x, axes=tuple(term.index(n) for n in names))
    x = broadcast_to(x, [sizes[n] for n in names])
    return reshape(x, [math.prod(sizes[n] for n in group) for group in groups])
