"""Max and average pooling over (n, c, h, w).

`index` is the offset a kw + b of the maximum in its window.
"""

from .runtime import int32, suffix

ONE = (1, 1)  # the dilation of average pooling


def index_type(kernel):
    """uint8 where it can hold every offset in the window, else int32."""
    return "uint8" if kernel[0] * kernel[1] <= 256 else "int32"


def max_suffix(x, kernel):
    """The ending of the max-pooling kernels' names for x's and the index's types, or None."""
    kind = suffix(x)
    return kind and f"{kind}_{'u8' if index_type(kernel) == 'uint8' else 'i32'}"


def max_pool2d(gpu, x, *, kernel, stride, padding, dilation, size):
    """(y, index), both (n, c, *size): the first maximum wins, the last NaN over all, no padding."""
    kind = max_suffix(x, kernel)
    if kind is None:
        return NotImplemented
    x, shape = gpu.contiguous(x), (*x.shape[:2], *size)
    y, index = gpu.empty(shape, x.dtype), gpu.empty(shape, index_type(kernel))
    sizes = int32(*x.shape[2:], *size, *kernel, *stride, *padding, *dilation)
    gpu.launch_each("pool", f"max_pool2d_{kind}", y.size, (x, y, index, y.size, *sizes))
    return y, index


def max_pool2d_input(gpu, g, index, *, shape, kernel, stride, padding, dilation):
    """dx of `shape`: each g is added at the place its window chose."""
    kind = max_suffix(g, kernel)
    if kind is None or index.dtype != index_type(kernel):
        return NotImplemented
    g, index, dx = gpu.contiguous(g), gpu.contiguous(index), gpu.empty(shape, g.dtype)
    sizes = int32(*shape[2:], *g.shape[2:], *kernel, *stride, *padding, *dilation)
    gpu.launch_each("pool", f"max_pool2d_input_{kind}", dx.size, (g, index, dx, dx.size, *sizes))
    return dx


def max_pool2d_gather(gpu, h, index, *, kernel, stride, padding, dilation):
    """Values of h (n, c, h, w) at the chosen places: the adjoint of max_pool2d_input."""
    kind = max_suffix(h, kernel)
    if kind is None or index.dtype != index_type(kernel):
        return NotImplemented
    h, index, y = gpu.contiguous(h), gpu.contiguous(index), gpu.empty(index.shape, h.dtype)
    sizes = int32(*h.shape[2:], *index.shape[2:], *kernel, *stride, *padding, *dilation)
    gpu.launch_each("pool", f"max_pool2d_gather_{kind}", y.size, (h, index, y, y.size, *sizes))
    return y


def avg_pool2d(gpu, x, *, kernel, stride, padding, size, count_include_pad):
    """Means of windows, (n, c, *size); padding counts as zeros or, else, not at all."""
    kind = suffix(x)
    if kind is None:
        return NotImplemented
    x, y = gpu.contiguous(x), gpu.empty((*x.shape[:2], *size), x.dtype)
    sizes = int32(count_include_pad, *x.shape[2:], *size, *kernel, *stride, *padding, *ONE)
    gpu.launch_each("pool", f"avg_pool2d_{kind}", y.size, (x, y, y.size, *sizes))
    return y


def avg_pool2d_input(gpu, g, *, shape, kernel, stride, padding, count_include_pad):
    """dx of `shape`: each pixel adds g / divisor of the windows that hold it."""
    kind = suffix(g)
    if kind is None:
        return NotImplemented
    g, dx = gpu.contiguous(g), gpu.empty(shape, g.dtype)
    sizes = int32(count_include_pad, *shape[2:], *g.shape[2:], *kernel, *stride, *padding, *ONE)
    gpu.launch_each("pool", f"avg_pool2d_input_{kind}", dx.size, (g, dx, dx.size, *sizes))
    return dx
