// reduce.cu: sums and extremes over some axes of an array, in a fixed order. No atomics: the
// bytes are the same on every run.
//
// x is seen as (outer, rows, inner), of which outer and inner are reduced; `length` = outer inner.
//
// short: one thread a row, first value to last. This is the naive kernel, and right for rows of up
//   to 32 values: longer ones leave most of the GPU idle, and neighbouring threads read far apart.
// chunks: one block a chunk of 4096 values of a row. Thread t takes values t, t + blockDim ...,
//   so that a warp reads whole 128-byte lines; then the block reduces its threads in a tree. A long
//   row leaves several chunks, which the same kernel reduces again.
// columns: inner = 1, the rows are columns in memory. A block is 32 columns wide (a warp reads
//   32 neighbours) and 8 threads deep; it takes 256 values of each column, then a tree of the 8.
// places: which element is the largest or smallest; as chunks, but a value carries its place.
//
// Bytes: each value once. Flops: one a value; memory sets the speed (an H200 reads 4.8 TB/s).
#include "float16.cuh"
#include "thread.cuh"
#include "block.cuh"

struct Rows {
    long long rows, inner, length;
    // Element j of a row; division by `inner` only where there is more than one run of it.
    __device__ long long at(long long row, long long j) const {
        if (inner == length) return row * inner + j;
        return (j / inner * rows + row) * inner + j % inner;
    }
};

template <typename Combine, typename T>
__device__ void reduce_short(const T *x, Wide<T> *y, Rows s) {
    long long row = thread_number();
    if (row >= s.rows) return;
    Wide<T> total = Combine::template first<Wide<T>>();
    for (long long j = 0; j < s.length; ++j) total = Combine::of(total, Wide<T>(x[s.at(row, j)]));
    y[row] = total;
}

template <typename Combine, typename T>
__device__ void reduce_chunks(const T *x, Wide<T> *y, Rows s, long long chunk, long long chunks) {
    long long row = blockIdx.x / chunks, start = blockIdx.x % chunks * chunk;
    long long end = min(start + chunk, s.length);
    Wide<T> total = Combine::template first<Wide<T>>();
    for (long long j = start + threadIdx.x; j < end; j += blockDim.x)
        total = Combine::of(total, Wide<T>(x[s.at(row, j)]));
    total = block_reduce<Combine>(total);
    if (threadIdx.x == 0) y[blockIdx.x] = total;
}

// x (length, columns) -> y (chunks, columns)
template <typename Combine, typename T>
__device__ void reduce_columns(const T *x, Wide<T> *y, long long columns, long long length,
                               long long chunk) {
    typedef Wide<T> W;
    __shared__ W cells[8][32];
    long long strips = (columns + 31) / 32, column = blockIdx.x % strips * 32 + threadIdx.x;
    long long part = blockIdx.x / strips, end = min((part + 1) * chunk, length);
    W total = Combine::template first<W>();
    if (column < columns)
        for (long long j = part * chunk + threadIdx.y; j < end; j += 8)
            total = Combine::of(total, W(x[j * columns + column]));
    cells[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    for (int half = 4; half > 0; half /= 2) {
        if (threadIdx.y < half)
            cells[threadIdx.y][threadIdx.x] = Combine::of(cells[threadIdx.y][threadIdx.x],
                                                          cells[threadIdx.y + half][threadIdx.x]);
        __syncthreads();
    }
    if (threadIdx.y == 0 && column < columns)
        y[part * columns + column] = cells[0][threadIdx.x];
}

template <typename T> struct Found { T value; long long place; };

// The first of the largest (or smallest, after Min) wins; a NaN wins over all, the first of them.
template <typename Extreme> struct FirstOf {
    template <typename T> __device__ static Found<T> of(Found<T> a, Found<T> b) {
        bool tie = a.value == b.value || (a.value != a.value && b.value != b.value);
        if (tie) return a.place < b.place ? a : b;
        T best = Extreme::of(a.value, b.value);
        return a.value == best || a.value != a.value ? a : b;
    }
};

// x (rows, length); places: what the values are numbered, null at first. Chunks as above.
template <typename Extreme, typename T>
__device__ void reduce_places(const T *x, const long long *places, T *y, long long *found,
                              long long length, long long chunk, long long chunks) {
    long long first = blockIdx.x / chunks * length, start = blockIdx.x % chunks * chunk;
    long long end = min(start + chunk, length);
    Found<Wide<T>> best = {Extreme::template first<Wide<T>>(), 0x7fffffffffffffffll};
    for (long long j = start + threadIdx.x; j < end; j += blockDim.x) {
        Found<Wide<T>> mine = {x[first + j], places ? places[first + j] : j};
        best = FirstOf<Extreme>::of(best, mine);
    }
    best = block_reduce<FirstOf<Extreme>>(best);
    if (threadIdx.x == 0) y[blockIdx.x] = best.value, found[blockIdx.x] = best.place;
}

#define REDUCE(Combine, name, T, W, suffix)                                                       \
    extern "C" __global__ void minidp_##name##_short_##suffix(                                    \
        const T *x, W *y, long long rows, long long inner, long long length) {                    \
        reduce_short<Combine>(x, y, {rows, inner, length});                                       \
    }                                                                                             \
    extern "C" __global__ void minidp_##name##_chunks_##suffix(                                   \
        const T *x, W *y, long long rows, long long inner, long long length,                      \
        long long chunk, long long chunks) {                                                      \
        reduce_chunks<Combine>(x, y, {rows, inner, length}, chunk, chunks);                       \
    }                                                                                             \
    extern "C" __global__ void minidp_##name##_columns_##suffix(                                  \
        const T *x, W *y, long long columns, long long length, long long chunk) {                 \
        reduce_columns<Combine>(x, y, columns, length, chunk);                                    \
    }
#define PLACES(Extreme, name, T, W, suffix)                                                       \
    extern "C" __global__ void minidp_##name##_##suffix(                                          \
        const T *x, const long long *places, T *y, long long *found, long long length,            \
        long long chunk, long long chunks) {                                                      \
        reduce_places<Extreme>(x, places, y, found, length, chunk, chunks);                       \
    }
#define REDUCTIONS(T, W, suffix)                                                                  \
    REDUCE(Sum, sum, T, W, suffix)                                                                \
    REDUCE(Max, amax, T, W, suffix)                                                               \
    REDUCE(Min, amin, T, W, suffix)                                                               \
    PLACES(Max, argmax, T, W, suffix)                                                             \
    PLACES(Min, argmin, T, W, suffix)
FLOAT_TYPES(REDUCTIONS)
