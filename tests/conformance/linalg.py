"""Products of matrices, with whole numbers too."""

import minidp as dp
from conformance.images import conv


def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = alpha * dp.matmul(a.t() if transA else a, b.t() if transB else b)
    return y if c is None else y + beta * c


def per_axis(x, like, axis, block=0):
    """Scales of an axis in the shape that goes with ``like``; of blocks, repeated."""
    if block:
        return dp.repeat_interleave(x, block, axis)
    return x if x.numel() == 1 else x.reshape([-1 if i == axis else 1 for i in range(like.ndim)])


def quantize(x, scale, zero, *, axis=1, block_size=0, saturate=1, output_dtype=0, precision=0):
    scale, zero = (per_axis(a, x, axis, block_size) for a in (scale, zero))
    return dp.clamp(dp.round(x / scale) + zero.to(x.dtype), 0, 255).to(dp.uint8)


def dequantize(x, scale, zero, *, axis=1, block_size=0, output_dtype=0):
    scale, zero = (per_axis(a, x, axis, block_size) for a in (scale, zero))
    return (x.to(scale.dtype) - zero.to(scale.dtype)) * scale


def dynamic_quantize(x):
    low, high = dp.clamp(dp.amin(x), max=0), dp.clamp(dp.amax(x), min=0)
    scale = (high - low) / 255
    zero = dp.clamp(dp.round(-low / scale), 0, 255).to(dp.uint8)
    return quantize(x, scale, zero), scale, zero


def shifted(x, zero, axis):
    """Whole numbers less their zero points, as int32."""
    return x.to(dp.int32) - (per_axis(zero.to(dp.int32), x, axis) if zero is not None else 0)


def matmul_integer(a, b, a_zero=None, b_zero=None):
    return dp.matmul(shifted(a, a_zero, a.ndim - 2), shifted(b, b_zero, b.ndim - 1))


def conv_integer(x, weight, x_zero=None, w_zero=None, **attributes):
    x, weight = shifted(x, x_zero, 1), shifted(weight, w_zero, 0)
    return conv(x.to(dp.float64), weight.to(dp.float64), **attributes).to(dp.int32)


def quantized_matmul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    y = matmul_integer(a, b, a_zero, b_zero).to(dp.float32) * (a_scale * b_scale)
    return quantize(y, y_scale, y_zero)


def quantized_conv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, **attributes):
    y = conv_integer(x, w, x_zero, w_zero, **attributes).to(dp.float32)
    return quantize(y * (x_scale * per_axis(w_scale, y, 1)), y_scale, y_zero)


OPERATORS = {
    "MatMul": lambda a, b: dp.matmul(a, b),
    "Gemm": gemm,
    "Einsum": lambda *inputs, equation: dp.einsum(equation, *inputs),
    "Det": lambda x: dp.linalg.det(x),
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": quantized_matmul,
    "QLinearConv": quantized_conv,
}
