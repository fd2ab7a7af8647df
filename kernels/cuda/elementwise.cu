// elementwise.cu: y[i] = formula(a[i], b[i]), one table of formulas.
//
// Threads: one an element, neighbours on neighbours, so that a warp reads whole 128-byte lines.
// Bytes: each array once. Flops: one or a few an element; memory sets the speed of all of them.
#include "float16.cuh"
#include "thread.cuh"

#define UNARY_OF(name, formula, T, suffix)                                                        \
    extern "C" __global__ void minidp_##name##_##suffix(const T *x_array, T *y, long long n) {    \
        long long i = thread_number();                                                            \
        if (i >= n) return;                                                                       \
        Wide<T> x = x_array[i];                                                                   \
        y[i] = formula;                                                                           \
    }
#define UNARY(name, formula)                                                                      \
    UNARY_OF(name, formula, float16, f16)                                                         \
    UNARY_OF(name, formula, float, f32)                                                           \
    UNARY_OF(name, formula, double, f64)

// A null array stands for the scalar: x + 2 and 2 - x need no array of twos.
#define BINARY_OF(name, formula, T, suffix)                                                       \
    extern "C" __global__ void minidp_##name##_##suffix(                                          \
        const T *a_array, const T *b_array, T scalar, T *y, long long n) {                        \
        long long i = thread_number();                                                            \
        if (i >= n) return;                                                                       \
        Wide<T> a = a_array ? a_array[i] : scalar;                                                \
        Wide<T> b = b_array ? b_array[i] : scalar;                                                \
        y[i] = formula;                                                                           \
    }
#define BINARY(name, formula)                                                                     \
    BINARY_OF(name, formula, float16, f16)                                                        \
    BINARY_OF(name, formula, float, f32)                                                          \
    BINARY_OF(name, formula, double, f64)

UNARY(relu, x <= 0 ? 0 : x)  // a NaN is not <= 0 and passes
UNARY(neg, -x)
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(tanh, tanh(x))
UNARY(sigmoid, 1 / (1 + exp(-x)))
UNARY(sqrt, sqrt(x))
UNARY(erf, erf(x))
BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a * b)
BINARY(div, a / b)
BINARY(relu_input, b <= 0 ? 0 : a)  // a: cotangent, b: the output of relu
