"""Distances and angles: PyTorch's values, also where a norm has no slope."""

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck


@pytest.mark.parametrize("p", [1, 2, 3.0, np.inf])
def test_distances_are_norms_of_differences(p):
    a, b = wave(4, 3), wave(5, 3, phase=1)
    each = np.linalg.norm(a[:, None] - b, p, axis=-1)
    np.testing.assert_allclose(dp.cdist(dp.tensor(a), dp.tensor(b), p).array, each, rtol=1e-12)
    rows = dp.pdist(dp.tensor(a), p)
    own = np.linalg.norm(a[:, None] - a, p, axis=-1)[np.triu_indices(4, 1)]
    np.testing.assert_allclose(rows.array, own, rtol=1e-12)
    pair = np.linalg.norm(a - b[:4] + 1e-6, p, axis=-1)
    found = F.pairwise_distance(dp.tensor(a), dp.tensor(b[:4]), p)
    np.testing.assert_allclose(found.array, pair, rtol=1e-12)
    assert F.pairwise_distance(dp.tensor(a), dp.tensor(b[0]), p, keepdim=True).shape == (4, 1)


def test_cosine_similarity():
    a, b = leaf(4, 3), leaf(4, 3, phase=1)
    expected = (a.array * b.array).sum(1) / np.linalg.norm(a.array, axis=1)
    expected /= np.linalg.norm(b.array, axis=1)
    np.testing.assert_allclose(F.cosine_similarity(a, b).array, expected, rtol=1e-12)
    assert gradcheck(F.cosine_similarity, [a, b]) and gradgradcheck(F.cosine_similarity, [a, b])
    assert F.cosine_similarity(dp.zeros(2, 3), dp.ones(2, 3)).tolist() == [0, 0]
    assert F.cosine_similarity(dp.ones(4, 1, 3), dp.ones(5, 3), -1).shape == (4, 5)


def test_no_distance_has_no_slope():
    a = leaf(3, 2)
    dp.cdist(a, a).sum().backward()
    assert np.isfinite(a.grad.array).all()
