// warp.cuh: one value from the 32 threads of a warp, without shared memory or barriers.
#pragma once

// Each step adds what a thread 16, 8, 4, 2 and 1 places away has; all threads end with the same.
template <typename Combine, typename T> __device__ T warp_reduce(T value) {
    for (int step = 16; step > 0; step /= 2)
        value = Combine::of(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}
