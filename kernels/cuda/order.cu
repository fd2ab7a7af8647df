// order.cu: where the largest (or smallest) value so far is, along each line of x.
//
// A scan: y[i] = place of the best of x[0] to x[i], the last of equals, or the last NaN. "The
// better of an earlier and a later one" is associative: each value can look 1, 2, 4 ... places
// back at what is already known of a stretch of that length (Hillis and Steele 1986).
// Threads: a block a line, in tiles of 256: thread t has place t of the tile; what came before the
// tile is carried along in registers. Bytes: x once, y once, 12 a value for a float. Flops: 8
// comparisons a value, each with two barriers: barriers set the speed of a single line, and a few
// long lines leave most of the GPU idle. The naive way, a thread a line, reads with a stride and
// pays only for many short lines.
#include "float16.cuh"
#include "thread.cuh"

struct Largest {  // whether a later value replaces an earlier one
    template <typename W> __device__ static bool replaces(W later, W earlier) {
        return later >= earlier || later != later;
    }
};
struct Smallest {
    template <typename W> __device__ static bool replaces(W later, W earlier) {
        return later <= earlier || later != later;
    }
};

template <typename Order, typename W, typename T>
__device__ void running_place(const T *x, long long *y, long long length) {
    __shared__ W values[256];
    __shared__ long long places[256];
    x += blockIdx.x * length, y += blockIdx.x * length;
    int t = threadIdx.x, last = blockDim.x - 1;
    W best = 0;
    long long best_place = 0;
    for (long long start = 0; start < length; start += blockDim.x) {
        long long i = start + t, place = i;
        W value = i < length ? W(x[i]) : W(0);  // behind the end: read by nobody
        for (int back = 1; back <= last; back *= 2) {
            values[t] = value, places[t] = place;
            __syncthreads();
            if (t >= back && !Order::replaces(value, values[t - back]))
                value = values[t - back], place = places[t - back];
            __syncthreads();  // nobody writes its cell before all have read
        }
        if (start > 0 && !Order::replaces(value, best)) value = best, place = best_place;
        if (i < length) y[i] = place;
        if (t == last) values[0] = value, places[0] = place;
        __syncthreads();
        best = values[0], best_place = places[0];
        __syncthreads();
    }
}

#define RUNNING(T, W, suffix)                                                                     \
    extern "C" __global__ void minidp_running_max_##suffix(const T *x, long long *y,              \
                                                           long long length) {                    \
        running_place<Largest, W>(x, y, length);                                                  \
    }                                                                                             \
    extern "C" __global__ void minidp_running_min_##suffix(const T *x, long long *y,              \
                                                           long long length) {                    \
        running_place<Smallest, W>(x, y, length);                                                 \
    }
FLOAT_TYPES(RUNNING)
