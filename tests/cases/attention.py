"""Attention."""

import numpy as np

from cases.table import Sample, normal, row

HOW = {"scale": 0.7, "causal": False}
SIZES = (((2, 3), 4, 5, 3, 2), ((), 3, 3, 2, 2), ((1,), 2, 1, 1, 4), ((2,), 0, 3, 2, 2),
         ((2,), 5, 4, 3, 3))  # fmt: skip


def sizes(rng):
    """(queries, keys, values, shape of the scores) and constants, masked and causal in turn."""
    for turn, (lead, queries, keys, width, depth) in enumerate(SIZES):
        shapes = (queries, width), (keys, width), (keys, depth)
        made = [normal(rng, *lead, *shape) for shape in shapes]
        yield made, (*lead, queries, keys), HOW | {"causal": turn == 4}


def masks(rng, shape):
    """One for each head, one for all, none, and one by which a query sees nothing."""
    hidden = np.where(rng.random(shape) < 0.3, -np.inf, normal(rng, *shape))
    hidden[..., :1] = 0.5
    blind = np.where(np.arange(shape[-2])[:, None] == 1, -np.inf, hidden)
    return (hidden, hidden.reshape(-1, *shape[-2:])[0], None, blind) if hidden.size else (None,)


@row("attention", wrong=(
    Sample([np.zeros((2, 3)), np.zeros((4, 2)), np.zeros((4, 2)), None], HOW),
    Sample([np.zeros((2, 3)), np.zeros((4, 3)), np.zeros((5, 2)), None], HOW),
), broadcasts=False)  # fmt: skip
def _attention(rng):
    return [Sample([*arrays, mask], how, sees(mask))
            for arrays, shape, how in sizes(rng) for mask in masks(rng, shape)]  # fmt: skip


def sees(mask):
    """Whether every query sees a key."""
    return mask is None or bool((mask > -np.inf).any(-1).all())


@row("attention_input", broadcasts=False)
def _attention_input(rng):
    found = []
    for (q, k, v), shape, how in sizes(rng):
        for mask in masks(rng, shape):
            y, total = outputs(q, k, v, mask, **how)
            given = [normal(rng, *y.shape), normal(rng, *total.shape), q, k, v, y, total, mask]
            found.append(Sample(given, how, sees(mask)))
    return found


def outputs(q, k, v, mask, scale, causal):
    """What attention gives."""
    s = scale * q @ np.swapaxes(k, -1, -2) + (0 if mask is None else mask)
    s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf) if causal else s
    e = np.exp(s)
    with np.errstate(divide="ignore"):
        return e @ v / np.maximum(e.sum(-1), 1e-300)[..., None], np.log(e.sum(-1))
