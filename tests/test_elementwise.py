"""Element-wise functions: values, gradients and dtypes, at special points too, as PyTorch's.

The numbers are PyTorch 2.13's, to seven digits.
"""

import math

import numpy as np
import pytest

import minidp as dp

POINTS = "-inf -2 -0.5 -0.0 0 0.5 1 3 inf nan"

UNARY = """
abs: inf 2 0.5 0 0 0.5 1 3 inf nan
    -1 -1 -1 0 0 1 1 1 1 0
neg: inf 2 0.5 0 0 -0.5 -1 -3 -inf nan
    -1 -1 -1 -1 -1 -1 -1 -1 -1 -1
sign: -1 -1 -1 0 0 1 1 1 1 0
    0 0 0 0 0 0 0 0 0 0
sqrt: nan nan nan 0 0 0.7071068 1 1.732051 inf nan
    nan nan nan -inf inf 0.7071068 0.5 0.2886751 0 nan
rsqrt: nan nan nan -inf inf 1.414214 1 0.5773503 0 nan
    nan nan nan inf -inf -1.414214 -0.5 -0.09622504 0 nan
reciprocal: 0 -0.5 -2 -inf inf 2 1 0.3333333 0 nan
    0 -0.25 -4 -inf -inf -4 -1 -0.1111111 0 nan
square: inf 4 0.25 0 0 0.25 1 9 inf nan
    -inf -4 -1 0 0 1 2 6 inf nan
exp: 0 0.1353353 0.6065307 1 1 1.648721 2.718282 20.08554 inf nan
    0 0.1353353 0.6065307 1 1 1.648721 2.718282 20.08554 inf nan
exp2: 0 0.25 0.7071068 1 1 1.414214 2 8 inf nan
    0 0.1732868 0.4901291 0.6931472 0.6931472 0.9802581 1.386294 5.545177 inf nan
expm1: -1 -0.8646647 -0.3934693 0 0 0.6487213 1.718282 19.08554 inf nan
    0 0.1353353 0.6065307 1 1 1.648721 2.718282 20.08554 inf nan
log: nan nan nan -inf -inf -0.6931472 0 1.098612 inf nan
    0 -0.5 -2 -inf inf 2 1 0.3333333 0 nan
log1p: nan nan -0.6931472 0 0 0.4054651 0.6931472 1.386294 inf nan
    0 -1 2 1 1 0.6666667 0.5 0.25 0 nan
log2: nan nan nan -inf -inf -1 0 1.584963 inf nan
    0 -0.7213475 -2.88539 -inf inf 2.88539 1.442695 0.4808983 0 nan
log10: nan nan nan -inf -inf -0.30103 0 0.4771213 inf nan
    0 -0.2171472 -0.868589 -inf inf 0.868589 0.4342945 0.1447648 0 nan
sin: nan -0.9092974 -0.4794255 0 0 0.4794255 0.841471 0.14112 nan nan
    nan -0.4161468 0.8775826 1 1 0.8775826 0.5403023 -0.9899925 nan nan
cos: nan -0.4161468 0.8775826 1 1 0.8775826 0.5403023 -0.9899925 nan nan
    nan 0.9092974 0.4794255 0 0 -0.4794255 -0.841471 -0.14112 nan nan
tan: nan 2.18504 -0.5463025 0 0 0.5463025 1.557408 -0.1425465 nan nan
    nan 5.774399 1.298446 1 1 1.298446 3.425519 1.02032 nan nan
asin: nan nan -0.5235988 0 0 0.5235988 1.570796 nan nan nan
    nan nan 1.154701 1 1 1.154701 inf nan nan nan
acos: nan nan 2.094395 1.570796 1.570796 1.047198 0 nan nan nan
    nan nan -1.154701 -1 -1 -1.154701 -inf nan nan nan
atan: -1.570796 -1.107149 -0.4636476 0 0 0.4636476 0.7853982 1.249046 1.570796 nan
    0 0.2 0.8 1 1 0.8 0.5 0.1 0 nan
sinh: -inf -3.62686 -0.5210953 0 0 0.5210953 1.175201 10.01787 inf nan
    inf 3.762196 1.127626 1 1 1.127626 1.543081 10.06766 inf nan
cosh: inf 3.762196 1.127626 1 1 1.127626 1.543081 10.06766 inf nan
    -inf -3.62686 -0.5210953 0 0 0.5210953 1.175201 10.01787 inf nan
tanh: -1 -0.9640276 -0.4621172 0 0 0.4621172 0.7615942 0.9950548 1 nan
    0 0.07065082 0.7864477 1 1 0.7864477 0.4199743 0.009866037 0 nan
asinh: -inf -1.443635 -0.4812118 0 0 0.4812118 0.8813736 1.818446 inf nan
    0 0.4472136 0.8944272 1 1 0.8944272 0.7071068 0.3162278 0 nan
acosh: nan nan nan nan nan nan 0 1.762747 inf nan
    0 0.5773503 nan nan nan nan inf 0.3535534 0 nan
atanh: nan nan -0.5493061 0 0 0.5493061 inf nan nan nan
    0 -0.3333333 1.333333 1 1 1.333333 inf -0.125 0 nan
erf: -1 -0.9953223 -0.5204999 0 0 0.5204999 0.8427008 0.9999779 1 nan
    0 0.02066699 0.8787826 1.128379 1.128379 0.8787826 0.4151075 0.0001392531 0 nan
erfc: 2 1.995322 1.5205 1 1 0.4795001 0.1572992 2.20905e-05 0 nan
    0 -0.02066699 -0.8787826 -1.128379 -1.128379 -0.8787826 -0.4151075 -0.0001392531 0 nan
erfinv: nan nan -0.4769363 0 0 0.4769363 inf nan nan nan
    nan nan 1.112585 0.8862269 0.8862269 1.112585 inf nan nan nan
sigmoid: 0 0.1192029 0.3775407 0.5 0.5 0.6224593 0.7310586 0.9525741 1 nan
    0 0.1049936 0.2350037 0.25 0.25 0.2350037 0.1966119 0.04517666 0 nan
logit: nan nan nan -inf -inf 0 inf nan nan nan
    nan nan nan inf inf 4 inf nan nan nan
relu: 0 0 0 0 0 0.5 1 3 inf nan
    0 0 0 0 0 1 1 1 1 1
floor: -inf -2 -1 0 0 0 1 3 inf nan
    0 0 0 0 0 0 0 0 0 0
ceil: -inf -2 0 0 0 1 1 3 inf nan
    0 0 0 0 0 0 0 0 0 0
round: -inf -2 0 0 0 0 1 3 inf nan
    0 0 0 0 0 0 0 0 0 0
trunc: -inf -2 0 0 0 0 1 3 inf nan
    0 0 0 0 0 0 0 0 0 0
frac: nan 0 -0.5 0 0 0.5 0 0 nan nan
    1 1 1 1 1 1 1 1 1 1
nan_to_num: -9 -2 -0.5 0 0 0.5 1 3 9 1.5
    0 1 1 1 1 1 1 1 0 0
"""
"""Of each function the values, then the gradients at POINTS."""

BINARY = """
pow: 0 0 0 -2 -2 -2 2 4 inf nan 1
    0 2 -1 2 3 0.5 0 0.5 0 0 nan
    1 0 inf 4 -8 nan 1 2 1 1 1
    0 0 -inf -4 12 nan 0 0.25 0 0 nan
    0 0 -inf nan nan nan 0.6931472 2.772589 inf nan 0
div: 1 -1 0 1 3
    0 0 0 4 inf
    inf -inf nan 0.25 0
    inf inf inf 0.25 0
    -inf inf nan -0.0625 0
remainder: 7 -7 7 -7 1 1 1 -1
    3 3 -3 -3 0.1 0 inf inf
    1 2 -2 -1 0.1 nan 1 inf
    1 1 1 1 1 1 1 1
    -2 3 3 -2 -9 -inf 0 1
fmod: 7 -7 7 -7 1 1 1 -1
    3 3 -3 -3 0.1 0 inf inf
    1 -1 1 -1 0.1 nan 1 -1
    1 1 1 1 1 1 1 1
    -2 2 2 -2 -10 -inf 0 0
maximum: 1 2 3 nan 2 -inf
    2 2 2 2 nan inf
    2 2 3 nan nan inf
    0 0.5 1 1 1 0
    1 0.5 0 1 1 1
minimum: 1 2 3 nan 2 -inf
    2 2 2 2 nan inf
    1 2 2 nan nan -inf
    1 0.5 0 1 1 1
    0 0.5 1 1 1 0
fmax: 1 2 3 nan 2 -inf
    2 2 2 2 nan inf
    2 2 3 2 2 inf
    0 1 1 0 1 0
    1 0 0 1 0 1
fmin: 1 2 3 nan 2 -inf
    2 2 2 2 nan inf
    1 2 2 2 2 -inf
    1 1 0 0 1 1
    0 0 1 1 0 0
atan2: 0 1 0 3 -1
    0 0 -1 4 -1
    0 1.570796 3.141593 0.6435011 -2.356194
    0 0 -1 0.16 -0.5
    0 -1 0 -0.12 0.5
hypot: 0 1 0 3 -1
    0 0 -1 4 -1
    0 1 1 5 1.414214
    nan 1 0 0.6 -0.7071068
    nan 0 -1 0.8 -0.7071068
logaddexp: 0 1000 -1000 -inf
    0 999 0 1
    0.6931472 1000.313 0 1
    0.5 0.7310586 0 0
    0.5 0.2689414 1 1
xlogy: 0 0 2 1
    1 2 3 0
    0 0 2.197225 -inf
    0 0.6931472 1.098612 -inf
    0 0 0.6666667 inf
"""
"""Of each function two arguments, the values, and the gradients of the two."""


def table(text, lines):
    """{name: rows of numbers} of a text with ``lines`` lines a name."""
    found, rows = {}, text.strip().split("\n")
    for at in range(0, len(rows), lines):
        name, _, rows[at] = rows[at].partition(":")
        found[name] = [np.array(row.split(), "float64") for row in rows[at : at + lines]]
    return found


def run(function, *arrays):
    """The values, then the gradient of their sum for each array."""
    inputs = [dp.tensor(a, requires_grad=True) for a in arrays]
    y = function(*inputs)
    return [y.detach(), *dp.grad(y.sum(), inputs)]


def close(actual, expected, dtype="float64"):
    rtol = {"float64": 1e-6, "float32": 3e-6, "float16": 3e-3}[dtype]
    assert actual.dtype == dtype
    values = actual.numpy().astype("float64")
    np.testing.assert_allclose(values, expected, rtol=rtol, atol=rtol / 20)


def called(name):
    return (lambda x: x.nan_to_num(1.5, 9, -9)) if name == "nan_to_num" else getattr(dp, name)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", table(UNARY, 2))
def test_values_and_gradients(name, dtype):
    values, slopes = table(UNARY, 2)[name]
    x = np.array(POINTS.split(), "float64")
    y, g = run(called(name), x.astype(dtype))
    close(y, values, dtype)
    close(g, slopes, dtype)


@pytest.mark.parametrize("name", table(BINARY, 5))
def test_values_and_gradients_of_two(name):
    a, b, *expected = table(BINARY, 5)[name]
    for found, row in zip(run(getattr(dp, name), a, b), expected, strict=True):
        close(found, row)


# Far out


def test_large_arguments_neither_overflow_nor_turn_into_nan():
    for dtype in ("float16", "float32", "float64"):
        x = np.array([-1000.0, -20, 20, 1000], dtype)
        for name, values, slopes in (
            ("sigmoid", [0, 2.0611537e-9, 1, 1], [0, 2.0611537e-9, 2.0611537e-9, 0]),
            ("tanh", [-1, -1, 1, 1], [0, 0, 0, 0]), ("erf", [-1, -1, 1, 1], [0, 0, 0, 0]),
            ("atan", [-1.5697963, -1.5208379, 1.5208379, 1.5697963],
             [1e-6, 1 / 401, 1 / 401, 1e-6]),
        ):  # fmt: skip
            for found, expected in zip(run(getattr(dp, name), x), (values, slopes), strict=True):
                close(found, np.array(expected), dtype)
    assert dp.sigmoid(dp.tensor([-12.0], dtype="float16")).item() == 6.139278411865234e-06


def test_the_error_function_is_exact():
    x = np.concatenate([np.linspace(-6, 6, 1201), [0.46875, 4, 27, 1e-300, 26.5]])
    erf, erfc = (np.array([f(v) for v in x]) for f in (math.erf, math.erfc))
    np.testing.assert_allclose(dp.erf(dp.tensor(x)).numpy(), erf, rtol=1e-15)
    np.testing.assert_allclose(dp.erfc(dp.tensor(x)).numpy(), erfc, rtol=1e-14)
    p = np.concatenate([np.linspace(-0.99, 0.99, 199), [1 - 1e-12, 1e-20, -1 + 1e-9]])
    np.testing.assert_allclose(dp.erf(dp.erfinv(dp.tensor(p))).numpy(), p, rtol=1e-15)


def test_erfinv_beside_one_and_beside_zero():
    """To the last digits where erf is nearly 1, and where it is a line; by mpmath."""
    x = [1 - 2.0**-53, 1 - 1e-12, 1 - 1e-8, 0.5, 1e-300, -0.0]
    wanted = [5.8635847487551676, 5.042031898572696, 4.052237243268763, 0.4769362762044699,
              8.86226925452758e-301, -0.0]  # fmt: skip
    found = dp.erfinv(dp.tensor(x, dtype=dp.float64)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


# Numbers, tensors, dtypes


def test_operators_with_numbers_on_either_side():
    x = dp.tensor([7.0, -7.0])
    for found, expected in (
        (x // 2, [3, -4]), (x % 3, [1, 2]), (8 // x, [1, -2]), (8 % x, [1, -6]), (2 - x, [-5, 9]),
        (14 / x, [2, -2]), (2**x, [128, 1 / 128]), (x**2, [49, 49]), (+x, [7, -7]),
        (abs(x), [7, 7]),
        (dp.div(x, 2, rounding_mode="trunc"), [3, -3]), (dp.fmod(x, 3), [1, -1]),
        (dp.add(x, 1, alpha=2), [9, -5]), (x.sub(1, alpha=2), [5, -9]),
    ):  # fmt: skip
        assert found.tolist() == expected and found.dtype == np.float32
    n = dp.tensor([7, -7])
    for found, expected in (
        (n // 2, [3, -4]), (n % 3, [1, 2]), (n.fmod(3), [1, -1]), (n**2, [49, 49]),
        (n.div(2, rounding_mode="trunc"), [3, -3]), (n & 3, [3, 1]), (1 | n, [7, -7]),
        (n ^ 1, [6, -8]), (~n, [-8, 6]), (n << 1, [14, -14]), (n >> 1, [3, -4]),
    ):  # fmt: skip
        assert found.tolist() == expected and found.dtype == np.int64
    a, b = n > 0, dp.tensor([True, True])
    assert [(a & b).tolist(), (a ^ b).tolist(), (~a | b).tolist()] == [
        [True, False], [False, True], [True, True]]  # fmt: skip


@pytest.mark.parametrize("call,dtype", [
    (lambda i, b, f: i / i, "float32"), (lambda i, b, f: i // 2, "int32"),
    (lambda i, b, f: i + 0.5, "float32"), (lambda i, b, f: b + 1, "int64"),
    (lambda i, b, f: b**2, "int64"), (lambda i, b, f: b * b, "bool"),
    (lambda i, b, f: i + b, "int32"), (lambda i, b, f: i + f, "float16"),
    (lambda i, b, f: f + 2.5, "float16"),
    (lambda i, b, f: i.sqrt(), "float32"), (lambda i, b, f: b.exp(), "float32"),
    (lambda i, b, f: i.floor(), "int32"), (lambda i, b, f: i.clamp(0, 0.5), "float32"),
    (lambda i, b, f: i.clamp(0, 1), "int32"), (lambda i, b, f: i.isinf(), "bool"),
    (lambda i, b, f: f.logical_not(), "bool"), (lambda i, b, f: i & b, "int32"),
    (lambda i, b, f: i.reciprocal(), "float32"), (lambda i, b, f: dp.where(b, i, 1.5), "float32"),
    (lambda i, b, f: dp.where(b, 1, 0), "int64"), (lambda i, b, f: dp.exp2(i), "float32"),
    (lambda i, b, f: i.sign(), "int32"), (lambda i, b, f: f.logit(), "float16"),
    (lambda i, b, f: f.copysign(i), "float16"), (lambda i, b, f: i.copysign(-1), "float32"),
])  # fmt: skip
def test_dtypes(call, dtype):
    i = dp.tensor([1, 2], dtype="int32")
    assert call(i, dp.tensor([True, False]), dp.tensor([0.5, 1], dtype="float16")).dtype == dtype


def test_out_is_refused_and_not_ignored():
    y = dp.zeros(2)
    for call in (dp.exp, dp.sum, dp.relu):
        with pytest.raises(TypeError, match="out= is not taken"):
            call(dp.ones(2), out=y)
    assert y.tolist() == [0.0, 0.0]
