// half.h: float16 for the emulator: what <cuda_fp16.h> offers to kernels that compute in float.
#pragma once
#include <cstdint>
#include <cstring>

namespace emulated {
inline uint32_t bits_of(float value) { uint32_t bits; std::memcpy(&bits, &value, 4); return bits; }
inline float float_of(uint32_t bits) { float value; std::memcpy(&value, &bits, 4); return value; }

// To the nearest, ties to even; by adding 0.5 ulp in the right place (Giesen 2012).
inline uint16_t half_bits(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return uint16_t(sign | 0x7e00u);                       // NaN
    if (bits >= 0x47800000u) return uint16_t(sign | 0x7c00u);                      // too large
    if (bits < 0x38800000u)                                                        // subnormal
        return uint16_t(sign | (bits_of(float_of(bits) + 0.5f) - 0x3f000000u));
    return uint16_t(sign | ((bits + 0xc8000fffu + (bits >> 13 & 1)) >> 13));
}
inline float half_value(uint16_t half) {
    uint32_t sign = uint32_t(half & 0x8000u) << 16, rest = uint32_t(half & 0x7fffu) << 13;
    if (rest >= 0x0f800000u) return float_of(sign | 0x70000000u | rest | 0x0f800000u);
    float value = float_of(rest) * 0x1p112f;                                       // exponent
    return float_of(sign | bits_of(value));
}
} // namespace emulated

struct __half {
    uint16_t bits;
    __half() = default;
    __half(float value) : bits(emulated::half_bits(value)) {}
    __half(double value) : __half(float(value)) {}
    __half(int value) : __half(float(value)) {}
    operator float() const { return emulated::half_value(bits); }
};
typedef __half half;
struct alignas(4) __half2 { __half x, y; };
typedef __half2 half2;
inline float __half2float(__half x) { return x; }
inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline float __low2float(__half2 x) { return x.x; }
inline float __high2float(__half2 x) { return x.y; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
