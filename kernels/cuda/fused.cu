// fused.cu: the frame of the kernels that fused.py writes, one for each formula of a captured step.
//
// Threads: one an element. Bytes: each input and output of the formula once; what lies between
// stays in registers. Flops: the formula's. Memory sets the speed, but for formulas with several
// exp or tanh a number, of some 20 instructions each.
#include "thread.cuh"

#ifndef STEPS  // as it stands, a kernel of no inputs and no steps
#define REAL float
#define PARAMETERS
#define STEPS
#endif
typedef REAL T;

// Leaf functions that CUDA has not, with the special values of NumPy's.
__device__ __forceinline__ T larger(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ T smaller(T a, T b) { return a < b || a != a ? a : b; }
__device__ __forceinline__ T infinity() { return -minus_infinity<T>(); }
__device__ __forceinline__ T not_a_number() { return infinity() - infinity(); }
__device__ __forceinline__ bool is_finite(T a) { return fabs(a) < infinity(); }

// a - b floor(a / b), with the sign of b
__device__ __forceinline__ T modulo(T a, T b) {
    T rest = fmod(a, b);
    if (rest == 0) return copysign(T(0), b);
    return b != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

__device__ __forceinline__ T quotient(T a, T b) {
    if (b == 0) return a / b;
    T rest = fmod(a, b), whole = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) whole -= 1;
    if (whole == 0) return copysign(T(0), a / b);
    T below = floor(whole);
    return whole - below > T(0.5) ? below + 1 : below;
}

__device__ __forceinline__ T log_sum(T a, T b) {
    if (a == b) return a + T(0.693147180559945309417232121458176568);
    T gap = a - b;
    return gap > 0 ? a + log1p(exp(-gap)) : gap <= 0 ? b + log1p(exp(gap)) : gap;
}

extern "C" __global__ void minidp_fused(PARAMETERS long long n) {
    long long i = thread_number();
    if (i >= n) return;
    STEPS
}
