"""Recurrent layers and running maxima as CUDA kernels, run by the emulator."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, EACH, arrays, call, check

normal = np.random.default_rng(11).standard_normal
EMU = BACKENDS["loops"]
STEPS = [((3,), False, 5), ((9, 9, 4, 1), False, 40), ((9, 9, 4, 1), True, 7), ((1, 1), True, 70),
         ((0, 0), False, 2)]  # fmt: skip


@BOTH
@EACH
@pytest.mark.parametrize(("sizes", "reverse", "width"), STEPS)
def test_lstm(backend, sizes, reverse, width, dtype):
    p, n, how = sum(sizes), sizes[0], {"sizes": sizes, "reverse": reverse}
    w = normal((4 * width, width)) / width**0.5
    h, c = arrays(normal((2, n, width)), dtype)
    given = arrays([normal((p, 4 * width)), h, c, w], dtype)
    _, _, _, cells, gates = check(backend, "lstm", *given, None, dtype=dtype, **how)
    slopes = arrays([normal((p, width)), *normal((2, n, width))], dtype)
    check(backend, "lstm_back", *slopes, gates, cells, c, given[3], dtype=dtype, **how)
    projected = call(backend, "lstm", *given, np.zeros((width, width)), **how)
    assert projected is NotImplemented


@BOTH
@EACH
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("sizes", "reverse", "width"), STEPS)
def test_rnn(backend, sizes, reverse, width, relu, dtype):
    p, n, w = sum(sizes), sizes[0], normal((width, width)) / width**0.5
    check(backend, "rnn", normal((p, width)), normal((n, width)), w, dtype=dtype, sizes=sizes,
          reverse=reverse, relu=relu)  # fmt: skip


def test_a_rectified_state_that_is_no_number_passes():
    x, h, w = np.array([[np.nan, -1.0, 2.0]]), np.zeros((1, 3)), np.zeros((3, 3))
    y, last = call(EMU, "rnn", x, h, w, sizes=(1,), reverse=False, relu=True)
    np.testing.assert_array_equal(y, [[np.nan, 0, 2]])
    np.testing.assert_array_equal(last, y)


@BOTH
@EACH
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("sizes", "reverse", "width"), STEPS)
def test_gru(backend, sizes, reverse, width, bias, dtype):
    p, n, how = sum(sizes), sizes[0], {"sizes": sizes, "reverse": reverse}
    w, h = arrays([normal((3 * width, width)) / width**0.5, normal((n, width))], dtype)
    b = normal(3 * width) if bias else None
    y, _, gates = check(backend, "gru", normal((p, 3 * width)), h, w, b, dtype=dtype, **how)
    check(backend, "gru_back", normal((p, width)), normal((n, width)), y, gates, h, w,
          dtype=dtype, **how)  # fmt: skip


def test_layers_of_two_types_are_declined():
    x, h, w = normal((3, 6)), normal((3, 2)), normal((6, 2)).astype("f4")
    how = {"sizes": (3,), "reverse": False}
    assert call(EMU, "gru", x, h, w, **how) is NotImplemented
    assert call(EMU, "rnn", h, h, w[:2], relu=True, **how) is NotImplemented
    back = call(EMU, "gru_back", h, h, h, normal((3, 8)), h, w, **how)
    assert back is NotImplemented


LINES = [((3, 40), 1), ((40, 3), 0), ((2, 3, 5), 1), ((600,), 0), ((2, 256), 1), ((2, 257), 1),
         ((1, 1), 1), ((3, 0), 1), ((0, 3), 1)]  # fmt: skip


@BOTH
@EACH
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "dim"), LINES)
def test_running_place(backend, shape, dim, largest, dtype):
    for x in (normal(shape), np.round(normal(shape)), np.zeros(shape), -np.arange(np.prod(shape))
              .reshape(shape).astype(float), np.sort(normal(shape), dim)):  # fmt: skip
        check(backend, "running_place", x, dtype=dtype, dim=dim, largest=largest)


@BOTH
@pytest.mark.parametrize("largest", [True, False])
def test_a_running_place_stays_at_what_is_no_number(backend, largest):
    x = normal((2, 700))
    x[0, [3, 300]] = np.nan
    x[1, 0], x[1, 5], x[1, 699] = -np.inf, np.inf, np.nan
    found = check(backend, "running_place", x, dim=1, largest=largest)
    assert found[0, 3:300].tolist() == [3] * 297 and found[0, -1] == 300 and found[1, -1] == 699
    whole = call(EMU, "running_place", np.arange(3), dim=0, largest=largest)
    assert whole is NotImplemented
