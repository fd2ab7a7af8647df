"""What the mapping of ONNX's operators brought up, beyond what the cases themselves test."""

import pytest

import minidp as dp
from minidp.errors import ShapeError


@pytest.mark.parametrize("name", ["sum", "nansum", "cumsum", "prod", "cumprod"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8", "float16"])
def test_a_dtype_that_is_asked_for_is_given(name, dtype):
    x = dp.tensor([[1, 2], [3, 4]], dtype="int32")
    assert getattr(dp, name)(x, 0, dtype=getattr(dp, dtype)).dtype == dtype


def test_shapes_that_broadcast():
    assert dp.broadcast_shapes((3, 1), (2, 1, 4)) == (2, 3, 4)
    assert dp.broadcast_shapes() == () and dp.broadcast_shapes(2, (3, 1)) == (3, 2)
    with pytest.raises(ShapeError, match=r"broadcast_shapes\(\(2,\), \(3,\)\)"):
        dp.broadcast_shapes((2,), (3,))
