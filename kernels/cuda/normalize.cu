// normalize.cu: numbers shifted and scaled to mean 0 and variance 1, by given statistics or by
// those of their own row.
//
// batch_norm: y = (x - mean) / sqrt(var + eps) * weight + bias, numbers of one channel alike.
// Threads: one an element of x (n, c, space). Bytes: x and y once, the channel's four numbers
// from cache. Flops: about 5 an element and one square root; memory sets the speed. Its statistics
// are sums over columns, and its cotangents too: reduce.cu.
//
// standardize (of layer, group and RMS norm): r = 1 / sqrt(var + eps) and y = (x - mean) r, a row
// at a time. Threads: one block a row, 32 to 256 by its length; thread t takes values t,
// t + blockDim ... Two trees a row, the mean first: the variance as mean(x^2) - mean^2 in one pass
// loses all digits where the mean is large. Bytes: x three times, of which two come from cache,
// y once. Flops: about 6 a value.
// standardize_input: dx = r (g - mean(g) - y mean(g y)): four trees, x and g from cache again.
#include "float16.cuh"
#include "thread.cuh"
#include "block.cuh"

template <typename T>
__device__ void batch_norm(const T *x, const T *mean, const T *var, const T *weight,
                           const T *bias, T *y, long long count, long long channels,
                           long long space, Wide<T> eps) {
    long long i = thread_number();
    if (i >= count) return;
    long long c = i / space % channels;
    Wide<T> value = (Wide<T>(x[i]) - mean[c]) / sqrt(Wide<T>(var[c]) + eps);
    if (weight) value *= weight[c];
    if (bias) value += bias[c];
    y[i] = value;
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

template <typename T>
__device__ void standardize(const T *x, T *y, long long length, Wide<T> eps, int center) {
    x += blockIdx.x * length, y += blockIdx.x * length;
    Statistics<Wide<T>> row(x, length, eps, center);
    for (long long j = threadIdx.x; j < length; j += blockDim.x) y[j] = (x[j] - row.mean) * row.r;
}

template <typename T>
__device__ void standardize_input(const T *g, const T *x, T *dx, long long length, Wide<T> eps,
                                  int center) {
    g += blockIdx.x * length, x += blockIdx.x * length, dx += blockIdx.x * length;
    Statistics<Wide<T>> row(x, length, eps, center);
    Wide<T> total = 0, along = 0;
    for (long long j = threadIdx.x; j < length; j += blockDim.x) {
        if (center) total += g[j];
        along += g[j] * ((x[j] - row.mean) * row.r);
    }
    Wide<T> mean = block_reduce<Sum>(total) / length;
    along = block_reduce<Sum>(along) / length;
    for (long long j = threadIdx.x; j < length; j += blockDim.x)
        dx[j] = row.r * (g[j] - mean - (x[j] - row.mean) * row.r * along);
}

#define NORMALIZE(T, W, suffix)                                                                   \
    extern "C" __global__ void minidp_batch_norm_##suffix(                                        \
        const T *x, const T *mean, const T *var, const T *weight, const T *bias, T *y,            \
        long long count, long long channels, long long space, W eps) {                            \
        batch_norm(x, mean, var, weight, bias, y, count, channels, space, eps);                   \
    }                                                                                             \
    extern "C" __global__ void minidp_standardize_##suffix(                                       \
        const T *x, T *y, long long length, W eps, int center) {                                  \
        standardize(x, y, length, eps, center);                                                   \
    }                                                                                             \
    extern "C" __global__ void minidp_standardize_input_##suffix(                                 \
        const T *g, const T *x, T *dx, long long length, W eps, int center) {                     \
        standardize_input(g, x, dx, length, eps, center);                                         \
    }
FLOAT_TYPES(NORMALIZE)
