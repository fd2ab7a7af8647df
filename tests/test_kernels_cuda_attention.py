"""Attention as CUDA kernels, run by the emulator: masks, causal order, each size of tile."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, TYPES, arrays, call, check

import minidp as dp
from minidp.nn import functional as F
from minidp.op import OPS

rng = np.random.default_rng(11)
normal = rng.standard_normal
# leading axes, queries, keys, width, depth
SIZES = [((2, 3), 5, 7, 4, 3), ((2,), 34, 70, 33, 20), ((), 33, 35, 64, 64), ((1,), 9, 34, 5, 60),
         ((2,), 65, 33, 32, 32)]  # fmt: skip
WIDE = [((2,), 9, 35, 128, 3), ((1,), 34, 9, 70, 128)]


def values(size, dtype, masks=0):
    """(dy, q, k, v, mask) of a size; masks: 0 none, 1 for all heads, 2 for each."""
    lead, queries, keys, width, depth = size
    shapes = (queries, depth), (queries, width), (keys, width), (keys, depth)
    made = [normal((*lead, *shape)) for shape in shapes]
    shape = ((), (1,) * len(lead), lead)[masks]
    mask = np.where(rng.random((*shape, queries, keys)) < 0.3, -np.inf, 0.0)
    mask += normal(mask.shape)
    mask[..., 2, :] = -np.inf  # it sees nothing
    return arrays([*made, mask if masks else None], dtype)


def check_both(backend, size, dtype, causal, masks):
    dy, q, k, v, mask = values(size, dtype, masks)
    how = {"scale": 0.3, "causal": causal}
    wanted = OPS["attention"].body(np, *arrays([q, k, v, mask], float), **how)
    y, rest = call(backend, "attention", q, k, v, mask, **how)
    tolerance = {np.float16: 6e-3, np.float32: 2e-5, np.float64: 1e-12}[dtype]
    assert y.dtype == rest.dtype == dtype
    for found, right in zip((y, rest), wanted, strict=True):
        np.testing.assert_allclose(found, right, tolerance, 10 * tolerance)
    given = [dy, q, k, v, y, rest, mask]
    wanted = OPS["attention_back"].body(np, *arrays(given, float), **how)
    for found, right in zip(call(backend, "attention_back", *given, **how), wanted, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, right, tolerance, 10 * tolerance * np.abs(right).max())


@BOTH
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("causal,masks", [(False, 0), (True, 0), (False, 1), (True, 2)])
@pytest.mark.parametrize("size", SIZES)
def test_attention(backend, size, causal, masks):
    check_both(backend, size, np.float64, causal, masks)


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("dtype", TYPES[:2])
@pytest.mark.parametrize("size", SIZES[1:2] + WIDE)
def test_short_floats(size, dtype):
    check_both(BACKENDS["loops"], size, dtype, True, 1)


@BOTH
def test_large_scores_do_not_overflow(backend):
    _, q, k, v, _ = values(SIZES[1], np.float64)
    for place in (0, 31, 32, 69):
        k[:, place] = 300 * q[:, 3]
        check(backend, "attention", q, k, v, None, scale=1.0, causal=False)


def test_what_is_declined():
    _, q, k, v, _ = values(SIZES[1], np.float64)
    how = {"scale": 1.0, "causal": False}
    for given in ((q[:1], k, v), (q, k, v.astype(np.float32)), (q[:, :0], k, v)):
        assert call(BACKENDS["loops"], "attention", *given, None, **how) is NotImplemented
    wide = [np.zeros((1, 3, 65))] * 3
    assert call(BACKENDS["loops"], "attention", *wide, None, **how) is NotImplemented


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "number"])
def test_layers_use_it_with_the_same_results(mask):
    _, q, k, v, _ = values(SIZES[1], np.float64)
    hidden = dp.tensor(rng.random((34, 70)) < 0.7)
    found = []
    for device in ("cpu", "emu:0"):
        here = hidden.to(device)
        given = {"none": {}, "causal": {"is_causal": True}, "bool": {"attn_mask": here},
                 "number": {"attn_mask": here.double()}}[mask]  # fmt: skip
        inputs = [dp.tensor(x, device=device, requires_grad=True) for x in (q, k, v)]
        y = F.scaled_dot_product_attention(*inputs, **given)
        (first,) = dp.autograd.grad((y * y).sum(), inputs[:1], create_graph=True)
        (first * first).sum().backward()
        found.append([y.detach().cpu().numpy(), *(x.grad.cpu().numpy() for x in inputs)])
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here, 1e-9, 1e-11)


def test_half_precision_has_gradients():
    x = dp.randn(2, 5, 8, device="emu:0").half().requires_grad_()
    F.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
    wide = x.detach().float().cpu().requires_grad_()
    F.scaled_dot_product_attention(wide, wide, wide, is_causal=True).sum().backward()
    assert x.grad.dtype == dp.float16
    np.testing.assert_allclose(x.grad.cpu().numpy(), wide.grad.numpy(), 1e-2, 1e-2)
