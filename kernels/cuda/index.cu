// index.cu: rows by number, and their adjoints, which add up what came from one row.
//
// embedding, take_along: one thread an element of y; neighbours read neighbours of a row. Bytes: y
// twice (each value is read once and written once), the numbers mostly from cache. No flops.
//
// add_runs: y[place] = the sum of all rows of x that belong there. Atomic additions would come in
// another order on each run, and so would the bytes. Here the numbers were sorted before (stably):
// rows of one place are neighbours, a run. One thread an element (row k of the sorted, column j):
// that of the first row of a run adds the run, in the order in which x has it; the others leave.
// Bytes: x and the touched rows of y once, and two numbers a row. Flops: one a value. Memory sets
// the speed, unless one place has most of the rows: a run is one thread's, for each column.
#include "float16.cuh"
#include "thread.cuh"

template <typename T>
__device__ void embedding(const T *weight, const long long *numbers, T *y, long long count,
                          long long width) {
    long long i = thread_number();
    if (i < count) y[i] = weight[numbers[i / width] * width + i % width];
}

// x (outer, length, inner), places and y (outer, steps, inner)
template <typename T>
__device__ void take_along(const T *x, const long long *places, T *y, long long count,
                           long long length, long long steps, long long inner) {
    long long i = thread_number();
    if (i < count) y[i] = x[(i / (steps * inner) * length + places[i]) * inner + i % inner];
}

// order: rows of x by place; places: of the rows in that order, below 0: nowhere
template <typename T>
__device__ void add_runs(const T *x, const long long *order, const long long *places, T *y,
                         long long rows, long long width) {
    long long k = thread_number() / width, j = thread_number() % width;
    if (k >= rows) return;
    long long place = places[k];
    if (place < 0 || (k > 0 && places[k - 1] == place)) return;
    Wide<T> total = 0;
    for (; k < rows && places[k] == place; ++k) total += x[order[k] * width + j];
    y[place * width + j] = total;
}

#define INDEX(T, W, suffix)                                                                       \
    extern "C" __global__ void minidp_embedding_##suffix(                                         \
        const T *weight, const long long *numbers, T *y, long long count, long long width) {      \
        embedding(weight, numbers, y, count, width);                                              \
    }                                                                                             \
    extern "C" __global__ void minidp_take_along_##suffix(                                        \
        const T *x, const long long *places, T *y, long long count, long long length,             \
        long long steps, long long inner) {                                                       \
        take_along(x, places, y, count, length, steps, inner);                                    \
    }                                                                                             \
    extern "C" __global__ void minidp_add_runs_##suffix(                                          \
        const T *x, const long long *order, const long long *places, T *y, long long rows,        \
        long long width) {                                                                        \
        add_runs(x, order, places, y, rows, width);                                               \
    }
FLOAT_TYPES(INDEX)
