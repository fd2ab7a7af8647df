// pool.cu: max and average pooling, forward, cotangent of the input, and the adjoint of that.
//
// Threads: forward kernels one an output (reads its window, mostly from cache), cotangent kernels
// one an input pixel: it looks at each window that covers it, always in the same order, so
// overlapping windows need no atomics and the bytes are fixed. Bytes: input, output and index
// once. Flops: kh kw comparisons or additions an element; memory sets the speed.
#include "float16.cuh"
#include "thread.cuh"
#include "window.cuh"

struct Position {  // element i of (planes, height, width)
    long long plane;
    int row, column;
    __device__ Position(long long i, int height, int width) {
        plane = i / (height * width);
        int pixel = i % (height * width);
        row = pixel / width, column = pixel % width;
    }
};

// index = a kw + b of the first maximum; the last NaN wins; padding is never chosen.
template <typename T, typename Index>
__device__ void max_pool2d(const T *x, T *y, Index *index, long long count, Window s) {
    long long i = thread_number();
    if (i >= count) return;
    Position at(i, s.out_height, s.out_width);
    x += at.plane * s.height * s.width;
    Wide<T> best = minus_infinity<Wide<T>>();
    int chosen = -1;
    for (int a = 0; a < s.kernel_h; ++a) {
        int h = at.row * s.stride_h - s.pad_h + a * s.dilation_h;
        if (h < 0 || h >= s.height) continue;
        for (int b = 0; b < s.kernel_w; ++b) {
            int w = at.column * s.stride_w - s.pad_w + b * s.dilation_w;
            if (w < 0 || w >= s.width) continue;
            Wide<T> value = x[h * s.width + w];
            bool wins = chosen < 0 || value > best || value != value;
            if (wins) best = value, chosen = a * s.kernel_w + b;
        }
    }
    y[i] = best;
    index[i] = chosen < 0 ? 0 : chosen;
}

template <typename T, typename Index>
__device__ void max_pool2d_input(const T *g, const Index *index, T *dx, long long count,
                                 Window s) {
    long long i = thread_number();
    if (i >= count) return;
    Position at(i, s.height, s.width);
    long long outputs = at.plane * s.out_height * s.out_width;
    Wide<T> total = 0;
    for (int a = 0; a < s.kernel_h; ++a) {
        int o = at.row + s.pad_h - a * s.dilation_h;
        if (o < 0 || o % s.stride_h || o / s.stride_h >= s.out_height) continue;
        for (int b = 0; b < s.kernel_w; ++b) {
            int p = at.column + s.pad_w - b * s.dilation_w;
            if (p < 0 || p % s.stride_w || p / s.stride_w >= s.out_width) continue;
            long long output = outputs + o / s.stride_h * s.out_width + p / s.stride_w;
            if (index[output] == a * s.kernel_w + b) total += g[output];
        }
    }
    dx[i] = total;
}

template <typename T, typename Index>
__device__ void max_pool2d_gather(const T *x, const Index *index, T *y, long long count,
                                  Window s) {
    long long i = thread_number();
    if (i >= count) return;
    Position at(i, s.out_height, s.out_width);
    int a = int(index[i]) / s.kernel_w, b = int(index[i]) % s.kernel_w;
    int h = at.row * s.stride_h - s.pad_h + a * s.dilation_h;
    int w = at.column * s.stride_w - s.pad_w + b * s.dilation_w;
    bool inside = h >= 0 && h < s.height && w >= 0 && w < s.width;
    y[i] = inside ? x[at.plane * s.height * s.width + h * s.width + w] : T(0);
}

struct Span {  // one side of an averaging window: inputs [start, end), `size` counts padding too
    int start, end, size;
    __device__ Span(int output, int kernel, int stride, int pad, int length) {
        start = output * stride - pad;
        end = min(start + kernel, length + pad);
        size = end - start;
        start = max(start, 0), end = min(end, length);
    }
    __device__ bool empty() const { return start >= end; }
};
__device__ int divisor(Span rows, Span columns, int with_pad) {
    return with_pad ? rows.size * columns.size
                    : (rows.end - rows.start) * (columns.end - columns.start);
}

template <typename T>
__device__ void avg_pool2d(const T *x, T *y, long long count, int with_pad, Window s) {
    long long i = thread_number();
    if (i >= count) return;
    Position at(i, s.out_height, s.out_width);
    Span rows(at.row, s.kernel_h, s.stride_h, s.pad_h, s.height);
    Span columns(at.column, s.kernel_w, s.stride_w, s.pad_w, s.width);
    x += at.plane * s.height * s.width;
    Wide<T> total = 0;
    for (int h = rows.start; h < rows.end; ++h)
        for (int w = columns.start; w < columns.end; ++w) total += x[h * s.width + w];
    bool empty = rows.empty() || columns.empty();
    y[i] = empty ? 0 : total / divisor(rows, columns, with_pad);
}

template <typename T>
__device__ void avg_pool2d_input(const T *g, T *dx, long long count, int with_pad, Window s) {
    long long i = thread_number();
    if (i >= count) return;
    Position at(i, s.height, s.width);
    g += at.plane * s.out_height * s.out_width;
    int h = at.row + s.pad_h, w = at.column + s.pad_w;
    // the first windows that reach this pixel: o stride + kernel > h
    int first_o = max(0, (h - s.kernel_h + s.stride_h) / s.stride_h);
    int first_p = max(0, (w - s.kernel_w + s.stride_w) / s.stride_w);
    Wide<T> total = 0;
    for (int o = first_o; o < s.out_height && o * s.stride_h <= h; ++o)
        for (int p = first_p; p < s.out_width && p * s.stride_w <= w; ++p) {
            Span rows(o, s.kernel_h, s.stride_h, s.pad_h, s.height);
            Span columns(p, s.kernel_w, s.stride_w, s.pad_w, s.width);
            total += g[o * s.out_width + p] / divisor(rows, columns, with_pad);
        }
    dx[i] = total;
}

#define MAX_POOL(T, Index, suffix)                                                                \
    extern "C" __global__ void minidp_max_pool2d_##suffix(                                        \
        const T *x, T *y, Index *index, long long count, WINDOW_PARAMETERS) {                     \
        max_pool2d(x, y, index, count, WINDOW);                                                   \
    }                                                                                             \
    extern "C" __global__ void minidp_max_pool2d_input_##suffix(                                  \
        const T *g, const Index *index, T *dx, long long count, WINDOW_PARAMETERS) {              \
        max_pool2d_input(g, index, dx, count, WINDOW);                                            \
    }                                                                                             \
    extern "C" __global__ void minidp_max_pool2d_gather_##suffix(                                 \
        const T *x, const Index *index, T *y, long long count, WINDOW_PARAMETERS) {               \
        max_pool2d_gather(x, index, y, count, WINDOW);                                            \
    }
MAX_POOL(float16, unsigned char, f16_u8)
MAX_POOL(float, unsigned char, f32_u8)
MAX_POOL(double, unsigned char, f64_u8)
MAX_POOL(float16, int, f16_i32)
MAX_POOL(float, int, f32_i32)
MAX_POOL(double, int, f64_i32)

#define AVG_POOL(T, W, suffix)                                                                    \
    extern "C" __global__ void minidp_avg_pool2d_##suffix(const T *x, T *y, long long count,      \
                                                          int with_pad, WINDOW_PARAMETERS) {      \
        avg_pool2d(x, y, count, with_pad, WINDOW);                                                \
    }                                                                                             \
    extern "C" __global__ void minidp_avg_pool2d_input_##suffix(                                  \
        const T *g, T *dx, long long count, int with_pad, WINDOW_PARAMETERS) {                    \
        avg_pool2d_input(g, dx, count, with_pad, WINDOW);                                         \
    }
FLOAT_TYPES(AVG_POOL)
