// thread.cuh: words that every kernel uses.
#pragma once

// Each kernel is a template and functions that the launchers find by name: one a float type. A
// kernel has T in memory and computes in W.
#define FLOAT_TYPES(KERNEL)                                                                       \
    KERNEL(float16, float, f16) KERNEL(float, float, f32) KERNEL(double, double, f64)

// The number of this thread in the grid: which element is mine.
__device__ __forceinline__ long long thread_number() {
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

// NVRTC has no <math.h>, hence no INFINITY: minus infinity by its bits.
template <typename T> __device__ __forceinline__ T minus_infinity() {
    return T(__int_as_float(0xff800000));
}
