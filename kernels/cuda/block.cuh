// block.cuh: one value from all threads of a block.
#pragma once

struct Sum {
    template <typename T> __device__ static T first() { return 0; }
    template <typename T> __device__ static T of(T a, T b) { return a + b; }
};
struct Max {  // a NaN wins over all
    template <typename T> __device__ static T first() { return minus_infinity<T>(); }
    template <typename T> __device__ static T of(T a, T b) { return a >= b || a != a ? a : b; }
};
struct Min {
    template <typename T> __device__ static T first() { return -minus_infinity<T>(); }
    template <typename T> __device__ static T of(T a, T b) { return a <= b || a != a ? a : b; }
};

// A balanced tree in shared memory: thread t takes cells t and t + half, half = 128, 64 ... 1.
// blockDim.x is a power of two, at most 256. The order of additions is fixed, so the bytes are
// too. Costs log2(threads) + 2 barriers and 256 cells of shared memory.
template <typename Combine, typename T> __device__ T block_reduce(T value) {
    __shared__ T cells[256];
    cells[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            cells[threadIdx.x] = Combine::of(cells[threadIdx.x], cells[threadIdx.x + half]);
        __syncthreads();
    }
    T result = cells[0];
    __syncthreads();  // the next reduction overwrites cells[0]: not before all have read it
    return result;
}
