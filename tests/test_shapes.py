"""The shape language, and the small functions that make sense of dims and sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minidp import shapes
from minidp.errors import ShapeError
from minidp.shapes import check, parse


def test_parsing():
    line = parse("n c ..., i:n ... -> n ..., b:...")
    assert [t.axes for t in line.inputs] == [("n", "c", "..."), ("n", "...")]
    assert [t.kind for t in (*line.inputs, *line.outputs)] == ["", "i", "", "b"]
    assert not line.elementwise and parse("f:..., ... -> ...").elementwise
    assert parse("*... -> ...").inputs[0].variadic
    assert parse("-> n").inputs[0].axes == ()
    with pytest.raises(ShapeError, match="no '->'"):
        parse("n, n")


@pytest.mark.parametrize("text,given,expected", [
    ("n c, k c, k -> n k", [(4, 3), (2, 3), (2,)], {"n": 4, "c": 3, "k": 2}),
    ("n c, k c, k -> n k", [(4, 3), (2, 3), None], {"n": 4, "c": 3, "k": 2}),
    ("... i k, ... k j -> ... i j", [(5, 2, 3), (3, 4)], {"i": 2, "k": 3, "j": 4}),
    ("... i k, ... k j -> ... i j", [(5, 1, 2, 3), (6, 3, 4)], {"i": 2, "k": 3, "j": 4}),
    ("n c ..., i:n ... -> n ...", [(4, 3, 7), (4, 7)], {"n": 4, "c": 3}),
    ("n ... k, k -> n", [(4, 9, 9, 2), (2,)], {"n": 4, "k": 2}),
    ("n -> n", [(0,)], {"n": 0}),
    ("... -> ...", [()], {}),
])  # fmt: skip
def test_binding(text, given, expected):
    if expected is None:
        with pytest.raises(ShapeError, match="broadcast"):
            check("f", parse(text), given)
    else:
        assert check("f", parse(text), given) == expected


@pytest.mark.parametrize("text,given,words", [
    ("n c, k c -> n k", [(4, 3), (2, 5)], ["f((4, 3), (2, 5))", "axis 'c' is 3", "5", "n c, k c"]),
    ("n c, k c -> n k", [(4,), (2, 5)], ["f((4,), (2, 5))", "(4,) has no axes 'n c'"]),
    ("n c, k c -> n k", [(4, 3, 1), (2, 3)], ["(4, 3, 1) has no axes"]),
    ("n c ... -> n", [(4,)], ["(4,) has no axes 'n c ...'"]),
    ("n n -> n", [(4, 3)], ["axis 'n' is 4", "3"]),
    ("n, n -> n", [(4,), None, ], None),
    ("... k, ... k -> ...", [(2, 3), (4, 3)], ["f((2, 3), (4, 3))", "do not broadcast"]),
    ("n, n, n -> n", [(4,), None, (5,)], ["f((4,), none, (5,))"]),
])  # fmt: skip
def test_misfits_say_what_differs(text, given, words):
    if words is None:
        assert check("f", parse(text), given) == {"n": 4}
        return
    with pytest.raises(ShapeError) as caught:
        check("f", parse(text), given)
    for word in words:
        assert word in str(caught.value)


sizes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(st.lists(sizes, min_size=1, max_size=3))
def test_broadcasting_is_numpys(given):
    try:
        np.broadcast_shapes(*given)
        expected = True
    except ValueError:
        expected = False
    assert shapes.broadcasts(given) is expected
    if not expected:
        assert "axis -" in shapes.broadcast_message("f", given)


@given(st.integers(-6, 6), st.integers(0, 4))
def test_axis_of(dim, ndim):
    if -max(ndim, 1) <= dim < max(ndim, 1):
        assert shapes.axis_of("f", dim, ndim) == (dim + ndim if dim < 0 and ndim else max(dim, 0))
    else:
        with pytest.raises(ShapeError, match=f"f: dim {dim} is not an axis"):
            shapes.axis_of("f", dim, ndim)


def test_axes_of():
    assert shapes.axes_of("f", None, 3) == shapes.axes_of("f", (), 3) == (0, 1, 2)
    assert shapes.axes_of("f", -1, 3) == (2,) and shapes.axes_of("f", [2, -3], 3) == (0, 2)
    assert shapes.axes_of("f", None, 0) == shapes.axes_of("f", 0, 0) == ()
    with pytest.raises(ShapeError, match="twice"):
        shapes.axes_of("f", (0, -3), 3)
    with pytest.raises(ShapeError, match="not an axis"):
        shapes.axes_of("f", 1.5, 3)


def test_axes_are_also_numpy_integers():
    assert shapes.axis_of("f", np.int64(-1), 3) == 2
    assert shapes.axes_of("f", np.int64(1), 3) == (1,)


def test_pairs():
    assert shapes.sizes(3, 2, "stride") == shapes.sizes([3], 2, "stride") == (3, 3)
    assert shapes.sizes((1, 2), 2, "stride") == (1, 2)
    for wrong in ((1, 2, 3), 1.5, (1, 2.5), ()):
        with pytest.raises(ShapeError, match="stride must be one integer or two"):
            shapes.sizes(wrong, 2, "stride")


@given(st.lists(st.integers(0, 4), max_size=4).map(tuple), st.data())
def test_resolve_is_numpys_reshape(shape, data):
    size = int(np.prod(shape, dtype=int))
    wanted = list(shape)
    if wanted and data.draw(st.booleans()):
        wanted[data.draw(st.integers(0, len(wanted) - 1))] = -1
    try:
        expected = np.zeros(size).reshape(wanted).shape
    except ValueError:
        with pytest.raises(ShapeError):
            shapes.resolve(wanted, size)
    else:
        assert shapes.resolve(wanted, size) == expected


@pytest.mark.parametrize("shape,size", [((4,), 6), ((-1, -1), 6), ((-2, 3), 6), ((-1, 4), 6),
                                        ((-1, 0), 0), ((0,), 6), ((), 2), ((7,), 0)])  # fmt: skip
def test_sizes_that_do_not_fill(shape, size):
    with pytest.raises(ShapeError, match=f"{size} elements do not fill"):
        shapes.resolve(shape, size)
