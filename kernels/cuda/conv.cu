// conv.cu: convolutions in three ways: columns for a matrix product, direct, and tiled.
//
// x (n, groups share, h, w), w (groups filters, share, i, j), y (n, groups filters, o, p): `share`
// and `filters` are channels of one group. y = sum over k = (c, i, j) of w(f, k) x(k, pixel): a
// matrix product whose right side is x, each pixel of it up to i j times.
//
// im2col: writes that right side out, for cuBLAS. Row k of `columns` holds, for each output pixel,
// the input pixel that it meets. Threads: one a column element, output pixels innermost, so writes
// are whole lines and reads nearly so. Bytes: the input i j times from cache, the columns once,
// and cuBLAS reads them again. With f filters each of these bytes serves about f / 4 flops; GPUs do
// 15 to 30 float32 flops in the time of a byte: it pays from about 100 filters on (see conv.py).
// No flops.
// col2im, its adjoint: threads: one an input pixel, which gathers the (a, b) that touched it,
// always in the same order. No atomics. Flops: i j additions a pixel.
//
// direct: the naive way, one thread a value of the result; neighbours in a warp are neighbours in
// the image. Flops: 2 share i j a value, and a number read for each of them, from cache. Right
// where there is little to share: depthwise convolution (share = filters = 1), few filters.
// direct_weight: one block a weight; thread t takes pixels t, t + 256 ... of all images, then a
// tree. Bytes: x and g once for each weight of a channel, from cache.
//
// tiled: the matrix product of tile.cuh, whose right side is read from the image when it is asked
// for ("implicit GEMM": Chetlur et al. 2014). Threads and registers: see there; a tile is 64
// filters by 64 pixels of all images. Bytes: x about i j filters / 64 times from cache, once from
// memory. Expected limit: instructions. For each slice a thread does 128 multiply-adds, reads 64
// numbers of shared memory, and needs about 140 instructions to find and fetch 4 numbers (two
// divisions each): at best a third of the float32 peak. Not measured yet.
// Sizes inside one image are int (32-bit division is much the faster), offsets are 64 bits.
#include "float16.cuh"
#include "thread.cuh"
#include "block.cuh"
#include "window.cuh"
#include "tile.cuh"

struct Sizes { int groups, share, filters; };  // share: channels of x in a group; filters: of y

template <typename T>
__device__ void im2col(const T *x, T *columns, long long count, int channels,
                       long long image_step, long long row_step, Window s) {
    long long i = thread_number();
    if (i >= count) return;
    int pixel = i % s.out_area(), rows = channels * s.size();
    long long line = i / s.out_area(), image = line / rows;
    int row = line % rows, place = s.input(pixel, row / s.kernel_w % s.kernel_h, row % s.kernel_w);
    long long plane = (image * channels + row / s.size()) * s.area();
    columns[image * image_step + row * row_step + pixel] = place >= 0 ? x[plane + place] : T(0);
}

template <typename T>
__device__ void col2im(const T *columns, T *dx, long long count, Window s) {
    long long i = thread_number();
    if (i >= count) return;
    const T *mine = columns + i / s.area() * s.size() * s.out_area();
    Wide<T> total = 0;
    for (int k = 0; k < s.size(); ++k) {
        int place = s.output(i % s.area(), k / s.kernel_w, k % s.kernel_w);
        if (place >= 0) total += mine[(long long)k * s.out_area() + place];
    }
    dx[i] = total;
}

// What one value of the result multiplies: for y a pixel of x and for dx a pixel of g with all
// weights of its group, for dw a weight with all pixels. at(k) is 0 in the padding.
template <typename T> struct PixelOfX {
    const T *x; Window s; int pixel;
    __device__ Wide<T> at(int k) const {
        int place = s.input(pixel, k / s.kernel_w % s.kernel_h, k % s.kernel_w);
        return place >= 0 ? Wide<T>(x[(long long)(k / s.size()) * s.area() + place]) : 0;
    }
};
template <typename T> struct PixelOfG {
    const T *g; Window s; int pixel;
    __device__ Wide<T> at(int k) const {
        int place = s.output(pixel, k / s.kernel_w % s.kernel_h, k % s.kernel_w);
        return place >= 0 ? Wide<T>(g[(long long)(k / s.size()) * s.out_area() + place]) : 0;
    }
};
template <typename T> struct WeightOfX {
    const T *x; Window s; int a, b; long long image_step;
    __device__ Wide<T> at(long long k) const {
        int place = s.input(k % s.out_area(), a, b);
        return place >= 0 ? Wide<T>(x[k / s.out_area() * image_step + place]) : 0;
    }
};

// The three matrix products of one group: Left(m, k), Right(k, n) and where C(m, n) goes.
template <typename T> struct Forward {  // y(filter, pixel) of all images; k = (c, i, j)
    const T *x, *w, *bias; T *y; Window s; Sizes z; int group;
    __device__ int depth() const { return z.share * s.size(); }
    __device__ PixelOfX<T> column(long long n) const {
        long long plane = (n / s.out_area() * z.groups + group) * z.share;
        return {x + plane * s.area(), s, int(n % s.out_area())};
    }
    __device__ Wide<T> at(int m, int k) const {
        return w[((long long)group * z.filters + m) * depth() + k];
    }
    __device__ void at(int m, long long n, Wide<T> value) const {
        int filter = group * z.filters + m;
        long long plane = n / s.out_area() * z.groups * z.filters + filter;
        if (bias) value += bias[filter];
        y[plane * s.out_area() + n % s.out_area()] = value;
    }
};
template <typename T> struct Input {  // dx(c, pixel) of all images; k = (filter, i, j)
    const T *g, *w; T *dx; Window s; Sizes z; int group;
    __device__ int depth() const { return z.filters * s.size(); }
    __device__ PixelOfG<T> column(long long n) const {
        long long plane = (n / s.area() * z.groups + group) * z.filters;
        return {g + plane * s.out_area(), s, int(n % s.area())};
    }
    __device__ Wide<T> at(int m, int k) const {
        long long filter = group * z.filters + k / s.size();
        return w[(filter * z.share + m) * s.size() + k % s.size()];
    }
    __device__ void at(int m, long long n, Wide<T> value) const {
        long long plane = (n / s.area() * z.groups + group) * z.share + m;
        dx[plane * s.area() + n % s.area()] = value;
    }
};
template <typename T> struct Weight {  // dw(filter, (c, i, j)); k = (image, pixel)
    const T *g, *x; Wide<T> *dw; Window s; Sizes z; int group;
    __device__ WeightOfX<T> column(long long n) const {
        long long plane = (long long)group * z.share + n / s.size(), images = z.groups * z.share;
        int a = n / s.kernel_w % s.kernel_h, b = n % s.kernel_w;
        return {x + plane * s.area(), s, a, b, images * s.area()};
    }
    __device__ Wide<T> at(int m, long long k) const {
        long long plane = (k / s.out_area() * z.groups + group) * z.filters + m;
        return g[plane * s.out_area() + k % s.out_area()];
    }
    __device__ void at(int m, long long n, Wide<T> value) const {
        dw[((long long)group * z.filters + m) * z.share * s.size() + n] = value;
    }
};

// One thread a value: `each` numbers them (group, row, column).
template <typename W, typename Product>
__device__ void direct(Product product, int groups, int rows, long long columns) {
    long long i = thread_number();
    if (i >= groups * rows * columns) return;
    product.group = i / columns / rows;
    int row = i / columns % rows, depth = product.depth();
    auto column = product.column(i % columns);
    W total = 0;
    for (int k = 0; k < depth; ++k) total += product.at(row, k) * column.at(k);
    product.at(row, i % columns, total);
}

template <typename T>
__device__ void direct_weight(Weight<T> product, long long pixels) {
    int columns = product.z.share * product.s.size(), row = blockIdx.x / columns;
    product.group = row / product.z.filters, row %= product.z.filters;
    auto column = product.column(blockIdx.x % columns);
    Wide<T> total = 0;
    for (long long k = threadIdx.x; k < pixels; k += blockDim.x)
        total += product.at(row, k) * column.at(k);
    total = block_reduce<Sum>(total);
    if (threadIdx.x == 0) product.at(row, blockIdx.x % columns, total);
}

// A block is a tile: blocks number (part of k, group, tile of rows, tile of columns).
struct Tiles {
    long long across, left; int part, group, row;
    __device__ Tiles(int groups, int rows, long long columns) {
        across = (columns + SIDE - 1) / SIDE;
        int down = (rows + SIDE - 1) / SIDE;
        left = blockIdx.x % across * SIDE, row = blockIdx.x / across % down * SIDE;
        group = blockIdx.x / across / down % groups, part = blockIdx.x / across / down / groups;
    }
};
template <typename W, typename Product>
__device__ void tiled(Product product, int groups, int rows, long long columns) {
    Tiles tile(groups, rows, columns);
    product.group = tile.group;
    tiled_product<W>(tile.row, tile.left, rows, columns, 0, product.depth(), product, product,
                     product);
}

// dw (parts, groups, filters, share i j): each part adds `chunk` of the pixels
template <typename T>
__device__ void tiled_weight(Weight<T> product, long long pixels, long long chunk) {
    Sizes z = product.z;
    int columns = z.share * product.s.size();
    Tiles tile(z.groups, z.filters, columns);
    product.group = tile.group;
    product.dw += (long long)tile.part * z.groups * z.filters * columns;
    tiled_product<Wide<T>>(tile.row, tile.left, z.filters, columns, tile.part * chunk,
                           min((tile.part + 1) * chunk, pixels), product, product, product);
}

#define WAY(way, T, W, suffix)                                                                    \
    extern "C" __global__ void minidp_conv2d_##way##_##suffix(                                    \
        const T *x, const T *w, const T *bias, T *y, long long images, int groups, int share,     \
        int filters, WINDOW_PARAMETERS) {                                                         \
        Forward<T> product = {x, w, bias, y, WINDOW, {groups, share, filters}, 0};                \
        way<W>(product, groups, filters, images * product.s.out_area());                          \
    }                                                                                             \
    extern "C" __global__ void minidp_conv2d_input_##way##_##suffix(                              \
        const T *g, const T *w, T *dx, long long images, int groups, int share, int filters,      \
        WINDOW_PARAMETERS) {                                                                      \
        Input<T> product = {g, w, dx, WINDOW, {groups, share, filters}, 0};                       \
        way<W>(product, groups, share, images * product.s.area());                                \
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
    }                                                                                             \
    WAY(direct, T, W, suffix)                                                                     \
    WAY(tiled, T, W, suffix)                                                                      \
    extern "C" __global__ void minidp_conv2d_weight_direct_##suffix(                              \
        const T *g, const T *x, W *dw, long long images, int groups, int share, int filters,      \
        WINDOW_PARAMETERS) {                                                                      \
        Weight<T> product = {g, x, dw, WINDOW, {groups, share, filters}, 0};                      \
        direct_weight(product, images * product.s.out_area());                                    \
    }                                                                                             \
    extern "C" __global__ void minidp_conv2d_weight_tiled_##suffix(                               \
        const T *g, const T *x, W *dw, long long images, int groups, int share, int filters,      \
        long long chunk, WINDOW_PARAMETERS) {                                                     \
        Weight<T> product = {g, x, dw, WINDOW, {groups, share, filters}, 0};                      \
        tiled_weight(product, images * product.s.out_area(), chunk);                              \
    }
FLOAT_TYPES(CONV)
