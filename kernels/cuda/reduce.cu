// reduce.cu: sums over the rows of a (rows, length) array, in a fixed order.
//
// sum_chunks: one block a chunk of 4096 values of a row. Thread t adds values t, t + blockDim ...
// (a warp reads whole lines), then the block adds its threads in a tree. A long row leaves
// several chunks, which are summed by the same kernel again. No atomics: the order never changes.
// sum_short_rows: one thread a row of up to 32 values, first to last.
// Bytes: each value once. Flops: one a value; memory sets the speed.
#include "block.cuh"
#include "thread.cuh"

template <typename T>
__device__ void sum_chunks(const T *x, T *y, long long length, long long chunk, long long chunks) {
    const T *row = x + blockIdx.x / chunks * length;
    long long start = blockIdx.x % chunks * chunk, end = min(start + chunk, length);
    T total = 0;
    for (long long i = start + threadIdx.x; i < end; i += blockDim.x) total += row[i];
    total = block_reduce<Sum>(total);
    if (threadIdx.x == 0) y[blockIdx.x] = total;
}

template <typename T>
__device__ void sum_short_rows(const T *x, T *y, long long rows, long long length) {
    long long row = thread_number();
    if (row >= rows) return;
    T total = 0;
    for (long long i = 0; i < length; ++i) total += x[row * length + i];
    y[row] = total;
}

#define SUMS(T, suffix)                                                                           \
    extern "C" __global__ void minidp_sum_chunks_##suffix(                                        \
        const T *x, T *y, long long length, long long chunk, long long chunks) {                  \
        sum_chunks(x, y, length, chunk, chunks);                                                  \
    }                                                                                             \
    extern "C" __global__ void minidp_sum_short_rows_##suffix(                                    \
        const T *x, T *y, long long rows, long long length) {                                     \
        sum_short_rows(x, y, rows, length);                                                       \
    }
FLOAT_TYPES(SUMS)
