// softmax.cu: softmax, logsumexp and cross-entropy over the rows of a (rows, classes) array.
//
// Threads: one block a row, 32 to 256 threads by the number of classes; thread t takes classes t,
// t + blockDim ... Two trees a row: the largest logit m, then s = sum of exp(x - m), which cannot
// overflow. Bytes: x three times (mostly from cache after the first), y once. Flops: about 4 a
// value and one or two exp. Memory sets the speed of long rows; below some 100 classes the barriers
// of the trees do.
#include "float16.cuh"
#include "thread.cuh"
#include "block.cuh"

template <typename T> struct Row {
    Wide<T> largest, total;  // m = max x, s = sum of exp(x - m)
    __device__ Row(const T *x, long long classes) {
        Wide<T> m = minus_infinity<Wide<T>>(), s = 0;
        for (long long c = threadIdx.x; c < classes; c += blockDim.x) m = Max::of(Wide<T>(x[c]), m);
        largest = block_reduce<Max>(m);
        for (long long c = threadIdx.x; c < classes; c += blockDim.x) s += exp(x[c] - largest);
        total = block_reduce<Sum>(s);
    }
};

template <typename T> __device__ void softmax(const T *x, T *y, long long classes) {
    x += blockIdx.x * classes, y += blockIdx.x * classes;
    Row<T> row(x, classes);
    for (long long c = threadIdx.x; c < classes; c += blockDim.x)
        y[c] = exp(x[c] - row.largest) / row.total;
}

template <typename T> __device__ void log_softmax(const T *x, T *y, long long classes) {
    x += blockIdx.x * classes, y += blockIdx.x * classes;
    Row<T> row(x, classes);
    Wide<T> log_total = log(row.total);
    for (long long c = threadIdx.x; c < classes; c += blockDim.x)
        y[c] = (x[c] - row.largest) - log_total;
}

// dx = y (g - sum of g y), of y = softmax(x)
template <typename T>
__device__ void softmax_input(const T *g, const T *y, T *dx, long long classes) {
    long long first = blockIdx.x * classes;
    Wide<T> total = 0;
    for (long long c = threadIdx.x; c < classes; c += blockDim.x)
        total += g[first + c] * y[first + c];
    total = block_reduce<Sum>(total);
    for (long long c = threadIdx.x; c < classes; c += blockDim.x)
        dx[first + c] = y[first + c] * (g[first + c] - total);
}

// dx = g - e^y sum of g, of y = log_softmax(x)
template <typename T>
__device__ void log_softmax_input(const T *g, const T *y, T *dx, long long classes) {
    long long first = blockIdx.x * classes;
    Wide<T> total = 0;
    for (long long c = threadIdx.x; c < classes; c += blockDim.x) total += g[first + c];
    total = block_reduce<Sum>(total);
    for (long long c = threadIdx.x; c < classes; c += blockDim.x)
        dx[first + c] = g[first + c] - exp(Wide<T>(y[first + c])) * total;
}

// y = log s + m; a row of minus infinities gives that, one with an infinity that
template <typename T> __device__ void logsumexp(const T *x, T *y, long long classes) {
    x += blockIdx.x * classes;
    Row<T> row(x, classes);
    bool finite = row.largest - row.largest == 0;
    if (threadIdx.x == 0) y[blockIdx.x] = finite ? log(row.total) + row.largest : row.largest;
}

// loss = log s - (x[target] - m), 0 where the target is ignored
template <typename T>
__device__ void cross_entropy(const T *x, const long long *targets, T *losses, long long classes,
                              long long ignored) {
    x += blockIdx.x * classes;
    Row<T> row(x, classes);
    long long target = targets[blockIdx.x];
    if (threadIdx.x == 0)
        losses[blockIdx.x] = target == ignored ? 0 : log(row.total) - (x[target] - row.largest);
}

// dx = g (softmax(x) - onehot(target)), 0 where the target is ignored
template <typename T>
__device__ void cross_entropy_input(const T *g, const T *x, const long long *targets, T *dx,
                                    long long classes, long long ignored) {
    x += blockIdx.x * classes, dx += blockIdx.x * classes;
    Row<T> row(x, classes);
    long long target = targets[blockIdx.x];
    for (long long c = threadIdx.x; c < classes; c += blockDim.x) {
        Wide<T> y = exp(x[c] - row.largest) / row.total;
        dx[c] = target == ignored ? 0 : g[blockIdx.x] * (c == target ? y - 1 : y);
    }
}

#define SOFTMAX(T, W, suffix)                                                                     \
    extern "C" __global__ void minidp_softmax_##suffix(const T *x, T *y, long long classes) {     \
        softmax(x, y, classes);                                                                   \
    }                                                                                             \
    extern "C" __global__ void minidp_log_softmax_##suffix(const T *x, T *y, long long classes) { \
        log_softmax(x, y, classes);                                                               \
    }                                                                                             \
    extern "C" __global__ void minidp_softmax_input_##suffix(                                     \
        const T *g, const T *y, T *dx, long long classes) {                                       \
        softmax_input(g, y, dx, classes);                                                         \
    }                                                                                             \
    extern "C" __global__ void minidp_log_softmax_input_##suffix(                                 \
        const T *g, const T *y, T *dx, long long classes) {                                       \
        log_softmax_input(g, y, dx, classes);                                                     \
    }                                                                                             \
    extern "C" __global__ void minidp_logsumexp_##suffix(const T *x, T *y, long long classes) {   \
        logsumexp(x, y, classes);                                                                 \
    }                                                                                             \
    extern "C" __global__ void minidp_cross_entropy_##suffix(                                     \
        const T *x, const long long *targets, T *losses, long long classes, long long ignored) {  \
        cross_entropy(x, targets, losses, classes, ignored);                                      \
    }                                                                                             \
    extern "C" __global__ void minidp_cross_entropy_input_##suffix(                               \
        const T *g, const T *x, const long long *targets, T *dx, long long classes,               \
        long long ignored) {                                                                      \
        cross_entropy_input(g, x, targets, dx, classes, ignored);                                 \
    }
FLOAT_TYPES(SOFTMAX)
