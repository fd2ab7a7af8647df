// normalize.cu: y = (x - mean) / sqrt(var + eps) * weight + bias, numbers of one channel alike.
//
// Threads: one an element of x (n, c, space). Bytes: x and y once, the channel's four numbers
// from cache. Flops: about 5 an element and one square root; memory sets the speed.
#include "thread.cuh"

template <typename T>
__device__ void batch_norm(const T *x, const T *mean, const T *var, const T *weight,
                           const T *bias, T *y, long long count, long long channels,
                           long long space, T eps) {
    long long i = thread_number();
    if (i >= count) return;
    long long c = i / space % channels;
    T value = (x[i] - mean[c]) / sqrt(var[c] + eps);
    if (weight) value *= weight[c];
    if (bias) value += bias[c];
    y[i] = value;
}

#define BATCH_NORM(T, suffix)                                                                     \
    extern "C" __global__ void minidp_batch_norm_##suffix(                                        \
        const T *x, const T *mean, const T *var, const T *weight, const T *bias, T *y,            \
        long long count, long long channels, long long space, T eps) {                            \
        batch_norm(x, mean, var, weight, bias, y, count, channels, space, eps);                   \
    }
FLOAT_TYPES(BATCH_NORM)
