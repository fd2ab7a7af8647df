// normalize.cu: numbers shifted and scaled to mean 0 and variance 1, by given statistics or by
// those of their own row.
//
// batch_norm: y = (x - mean) / sqrt(var + eps) * weight + bias, numbers of one channel alike.
// Threads: one an element of x (n, c, space). Bytes: x and y once, the channel's four numbers
// from cache. Flops: about 5 an element and one square root; memory sets the speed.
// batch_norm_own's mean and variance, and the cotangents of weight and bias, are sums over columns
// (reduce.cu); what is summed, squares and products, is written here first, in W. That is one array
// written and read more than a kernel needs that sums what it computes, but one way of adding for
// all. 6 passes over memory forwards and 8 backwards (as separate functions: 14 and 20).
// slope: dx = weight r (dy - (v dweight + dbias) / rows) with v = (x - mean) r.
//
// group_norm (of layer, group and RMS norm): r = 1 / sqrt(var + eps) and y = (x - mean) r weight +
// bias, a group of channels of a row at a time. Threads: one block a group, 32 to 256 by its
// length; thread t takes values t, t + blockDim ... Two trees a group, the mean first: the variance
// as mean(x^2) - mean^2 in one pass loses all digits where the mean is large. Bytes: x three times,
// of which two come from cache, y once. Flops: about 8 a value.
// group_norm_back: with v = (x - mean) r and h = dy weight, dx = r (h - mean(h) - v mean(h v)): two
// trees, x and dy from cache again; dy v is left for the sum over rows that weight's cotangent is.
#include "float16.cuh"
#include "thread.cuh"
#include "block.cuh"

// x (n, c, space), flat
struct Channels {
    long long count, channels, space;
    __device__ long long of(long long i) const { return i / space % channels; }
};

template <typename T>
__device__ void batch_norm(const T *x, const T *mean, const T *var, const T *weight,
                           const T *bias, T *y, Channels s, Wide<T> eps) {
    long long i = thread_number(), c = s.of(i);
    if (i >= s.count) return;
    Wide<T> value = (Wide<T>(x[i]) - mean[c]) / sqrt(Wide<T>(var[c]) + eps);
    if (weight) value *= weight[c];
    if (bias) value += bias[c];
    y[i] = value;
}

template <typename T>
__device__ void batch_norm_squares(const T *x, const Wide<T> *mean, Wide<T> *squares, Channels s) {
    long long i = thread_number();
    if (i >= s.count) return;
    Wide<T> deviation = x[i] - mean[s.of(i)];
    squares[i] = deviation * deviation;
}

template <typename T>
__device__ void batch_norm_products(const T *dy, const T *x, const T *mean, const T *var,
                                    Wide<T> *products, Channels s, Wide<T> eps) {
    long long i = thread_number(), c = s.of(i);
    if (i >= s.count) return;
    products[i] = dy[i] * ((Wide<T>(x[i]) - mean[c]) / sqrt(Wide<T>(var[c]) + eps));
}

template <typename T>
__device__ void batch_norm_slope(const T *dy, const T *x, const T *mean, const T *var,
                                 const T *weight, const Wide<T> *dweight, const Wide<T> *dbias,
                                 T *dx, Channels s, Wide<T> eps) {
    long long i = thread_number(), c = s.of(i);
    if (i >= s.count) return;
    Wide<T> r = 1 / sqrt(Wide<T>(var[c]) + eps), v = (Wide<T>(x[i]) - mean[c]) * r;
    Wide<T> slope = dy[i] - (v * dweight[c] + dbias[c]) / (s.count / s.channels);
    dx[i] = slope * (weight ? r * weight[c] : r);
}

template <typename W> struct Statistics {
    W mean, r;
    template <typename T> __device__ Statistics(const T *x, long long length, W eps, int center) {
        W total = 0, squares = 0;
        if (center)
            for (long long j = threadIdx.x; j < length; j += blockDim.x) total += x[j];
        mean = block_reduce<Sum>(total) / length;
        for (long long j = threadIdx.x; j < length; j += blockDim.x) {
            W deviation = x[j] - mean;
            squares += deviation * deviation;
        }
        r = 1 / sqrt(block_reduce<Sum>(squares) / length + eps);
    }
};

// What is normalised together, and which channel is value j of it.
struct Group {
    long long length, groups, space;
    __device__ long long first() const { return blockIdx.x * length; }
    __device__ long long channel(long long j) const {
        return blockIdx.x % groups * (length / space) + j / space;
    }
};

template <typename T>
__device__ void group_norm(const T *x, const T *weight, const T *bias, T *y, T *mean, T *r,
                           Group group, Wide<T> eps, int center) {
    x += group.first(), y += group.first();
    Statistics<Wide<T>> found(x, group.length, eps, center);
    for (long long j = threadIdx.x; j < group.length; j += blockDim.x) {
        Wide<T> value = (x[j] - found.mean) * found.r;
        if (weight) value *= weight[group.channel(j)];
        if (bias) value += bias[group.channel(j)];
        y[j] = value;
    }
    if (threadIdx.x == 0) mean[blockIdx.x] = found.mean, r[blockIdx.x] = found.r;
}

template <typename T>
__device__ void group_norm_back(const T *dy, const T *x, const T *mean, const T *r,
                                const T *weight, T *dx, Wide<T> *products, Group group,
                                int center) {
    typedef Wide<T> W;
    dy += group.first(), x += group.first(), dx += group.first(), products += group.first();
    W middle = mean[blockIdx.x], scale = r[blockIdx.x], total = 0, along = 0;
    for (long long j = threadIdx.x; j < group.length; j += blockDim.x) {
        W v = (x[j] - middle) * scale, h = weight ? dy[j] * weight[group.channel(j)] : W(dy[j]);
        products[j] = dy[j] * v;
        if (center) total += h;
        along += h * v;
    }
    W level = block_reduce<Sum>(total) / group.length;
    along = block_reduce<Sum>(along) / group.length;
    for (long long j = threadIdx.x; j < group.length; j += blockDim.x) {
        W v = (x[j] - middle) * scale, h = weight ? dy[j] * weight[group.channel(j)] : W(dy[j]);
        dx[j] = scale * (h - level - v * along);
    }
}

#define NORMALIZE(T, W, suffix)                                                                   \
    extern "C" __global__ void minidp_batch_norm_##suffix(                                        \
        const T *x, const T *mean, const T *var, const T *weight, const T *bias, T *y,            \
        long long count, long long channels, long long space, W eps) {                            \
        batch_norm(x, mean, var, weight, bias, y, {count, channels, space}, eps);                 \
    }                                                                                             \
    extern "C" __global__ void minidp_batch_norm_squares_##suffix(                                \
        const T *x, const W *mean, W *squares, long long count, long long channels,               \
        long long space) {                                                                        \
        batch_norm_squares(x, mean, squares, {count, channels, space});                           \
    }                                                                                             \
    extern "C" __global__ void minidp_batch_norm_products_##suffix(                               \
        const T *dy, const T *x, const T *mean, const T *var, W *products, long long count,       \
        long long channels, long long space, W eps) {                                             \
        batch_norm_products(dy, x, mean, var, products, {count, channels, space}, eps);           \
    }                                                                                             \
    extern "C" __global__ void minidp_batch_norm_slope_##suffix(                                  \
        const T *dy, const T *x, const T *mean, const T *var, const T *weight, const W *dweight,  \
        const W *dbias, T *dx, long long count, long long channels, long long space, W eps) {     \
        batch_norm_slope(dy, x, mean, var, weight, dweight, dbias, dx, {count, channels, space},  \
                         eps);                                                                    \
    }                                                                                             \
    extern "C" __global__ void minidp_group_norm_##suffix(                                        \
        const T *x, const T *weight, const T *bias, T *y, T *mean, T *r, long long length,        \
        long long groups, long long space, W eps, int center) {                                   \
        group_norm(x, weight, bias, y, mean, r, {length, groups, space}, eps, center);            \
    }                                                                                             \
    extern "C" __global__ void minidp_group_norm_back_##suffix(                                   \
        const T *dy, const T *x, const T *mean, const T *r, const T *weight, T *dx, W *products,  \
        long long length, long long groups, long long space, int center) {                        \
        group_norm_back(dy, x, mean, r, weight, dx, products, {length, groups, space}, center);   \
    }
FLOAT_TYPES(NORMALIZE)
