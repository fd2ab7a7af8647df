// conv.cu: the two rearrangements that turn a convolution into matrix products.
//
// im2col: row r = (c, a, b) of `columns` holds, for each output pixel, the input pixel that
// weight (c, a, b) meets there. Threads: one a column element, output pixels innermost, so writes
// are whole lines and reads nearly so. Bytes: the input kh kw times from cache, the columns once.
// No flops.
// col2im, its adjoint: threads: one an input pixel, which gathers the (a, b) that touched it,
// always in the same order. No atomics. Flops: kh kw additions a pixel.
// Sizes inside one image are int (32-bit division is much the faster), offsets are 64 bits.
#include "float16.cuh"
#include "thread.cuh"
#include "window.cuh"

template <typename T>
__device__ void im2col(const T *x, T *columns, long long count, int channels,
                       long long image_step, long long row_step, Window s) {
    long long i = thread_number();
    if (i >= count) return;
    int area = s.out_height * s.out_width, rows = channels * s.kernel_h * s.kernel_w;
    long long line = i / area, image = line / rows;
    int pixel = i % area, row = line % rows;
    int b = row % s.kernel_w, a = row / s.kernel_w % s.kernel_h;
    int channel = row / (s.kernel_w * s.kernel_h);
    int h = pixel / s.out_width * s.stride_h - s.pad_h + a * s.dilation_h;
    int w = pixel % s.out_width * s.stride_w - s.pad_w + b * s.dilation_w;
    bool inside = h >= 0 && h < s.height && w >= 0 && w < s.width;
    long long plane = (image * channels + channel) * s.height;
    columns[image * image_step + row * row_step + pixel] =
        inside ? x[(plane + h) * s.width + w] : T(0);
}

template <typename T>
__device__ void col2im(const T *columns, T *dx, long long count, Window s) {
    long long i = thread_number();
    if (i >= count) return;
    int area = s.height * s.width, out_area = s.out_height * s.out_width;
    long long plane = i / area;
    int h = i % area / s.width + s.pad_h, w = i % area % s.width + s.pad_w;
    const T *mine = columns + plane * s.kernel_h * s.kernel_w * out_area;
    Wide<T> total = 0;
    for (int a = 0; a < s.kernel_h; ++a) {
        int o = h - a * s.dilation_h;
        if (o < 0 || o % s.stride_h || o / s.stride_h >= s.out_height) continue;
        for (int b = 0; b < s.kernel_w; ++b) {
            int p = w - b * s.dilation_w;
            if (p < 0 || p % s.stride_w || p / s.stride_w >= s.out_width) continue;
            long long row = a * s.kernel_w + b;
            total += mine[row * out_area + o / s.stride_h * s.out_width + p / s.stride_w];
        }
    }
    dx[i] = total;
}

#define CONV(T, W, suffix)                                                                        \
    extern "C" __global__ void minidp_im2col_##suffix(                                            \
        const T *x, T *columns, long long count, int channels, long long image_step,              \
        long long row_step, WINDOW_PARAMETERS) {                                                  \
        im2col(x, columns, count, channels, image_step, row_step, WINDOW);                        \
    }                                                                                             \
    extern "C" __global__ void minidp_col2im_##suffix(const T *columns, T *dx, long long count,   \
                                                      WINDOW_PARAMETERS) {                        \
        col2im(columns, dx, count, WINDOW);                                                       \
    }
FLOAT_TYPES(CONV)
