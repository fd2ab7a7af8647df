// float16.cuh: half precision is how numbers lie in memory; all arithmetic is done in float.
//
// Wide<T> is what a kernel computes in for arrays of T: float for float16, T itself for others.
// (IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits. cuda_fp16.h has the same as __half,
// but NVRTC finds it only where the CUDA headers are installed.)
#pragma once

#ifdef __CUDACC__
__device__ __forceinline__ float widened(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ unsigned short rounded(float value) {  // to nearest, ties to even
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else  // the emulator: the same, by the bits of a float
inline float widened(unsigned short bits) {
    unsigned magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
    float value = __int_as_float(magnitude) * 0x1p112f;
    if ((bits & 0x7c00u) == 0x7c00u) value = __int_as_float(magnitude | 0x7f800000u);
    return __int_as_float(__float_as_int(value) | sign);
}
inline unsigned short rounded(float value) {
    unsigned bits = __float_as_int(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    float magnitude = __int_as_float(size);
    if (size > 0x7f800000u) return sign | 0x7e00u;                                // NaN
    if (magnitude >= 65520.0f) return sign | 0x7c00u;                             // infinity
    if (magnitude < 0x1p-14f) return sign | unsigned(rint(magnitude * 0x1p24f));  // subnormal
    return sign | (size + 0xfffu + (size >> 13 & 1) - (112u << 23)) >> 13;
}
#endif

struct float16 {
    unsigned short bits;
    float16() = default;
    __device__ __forceinline__ float16(float value) : bits(rounded(value)) {}
    __device__ __forceinline__ operator float() const { return widened(bits); }
};

template <typename T> struct WideOf { typedef T type; };
template <> struct WideOf<float16> { typedef float type; };
template <typename T> using Wide = typename WideOf<T>::type;
