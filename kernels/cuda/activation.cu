// activation.cu: activations of several steps in one pass, and what goes back through them.
//
// y = f(x), dx = g f'(x), a formula and its slope for each kind; a and b are options, as alpha of
// elu. As separate functions gelu reads or writes memory some ten times.
// Threads: one an element, neighbours on neighbours, so that a warp reads whole 128-byte lines.
// Bytes: each array once (8 forwards, 12 backwards for a float). Flops: 2 to 10, and up to three of
// exp, tanh, erf or log1p, some 20 instructions each: memory sets the speed still, by a little.
#include "float16.cuh"
#include "thread.cuh"

template <typename W> __device__ W sigmoid(W x) { return 1 / (1 + exp(-x)); }
// log(1 + e^x) where e^x may be infinite
template <typename W> __device__ W log1pexp(W x) {
    return (x > 0 ? x : W(0)) + log1p(exp(-fabs(x)));
}
template <typename W> __device__ W bell(W x) {  // of the normal distribution, 1 / sqrt(2 pi) high
    return W(0.3989422804014327) * exp(-x * x / 2);
}
template <typename W> __device__ W below(W x) {  // its area to the left of x
    return (1 + erf(x * W(0.7071067811865476))) / 2;
}
template <typename W> __device__ W bent(W x) {  // which tanh gives nearly 2 below(x) - 1
    return W(0.7978845608028654) * x * (1 + W(0.044715) * x * x);
}
template <typename W> __device__ W slope_of_bent(W x) {
    return W(0.7978845608028654) * (1 + 3 * W(0.044715) * x * x);
}

#define KERNEL(name, formula, T, W, suffix)                                                       \
    extern "C" __global__ void minidp_##name##_##suffix(const T *x_array, T *y, W a, W b,         \
                                                        long long n) {                            \
        long long i = thread_number();                                                            \
        if (i >= n) return;                                                                       \
        W x = x_array[i];                                                                         \
        y[i] = formula;                                                                           \
    }
#define KERNEL_BACK(name, slope, T, W, suffix)                                                    \
    extern "C" __global__ void minidp_##name##_input_##suffix(const T *g, const T *x_array,       \
                                                              T *dx, W a, W b, long long n) {     \
        long long i = thread_number();                                                            \
        if (i >= n) return;                                                                       \
        W x = x_array[i];                                                                         \
        dx[i] = g[i] * (slope);                                                                   \
    }
#define ACTIVATION(name, formula, slope)                                                          \
    KERNEL(name, formula, float16, float, f16)                                                    \
    KERNEL(name, formula, float, float, f32)                                                      \
    KERNEL(name, formula, double, double, f64)                                                    \
    KERNEL_BACK(name, slope, float16, float, f16)                                                 \
    KERNEL_BACK(name, slope, float, float, f32)                                                   \
    KERNEL_BACK(name, slope, double, double, f64)

// for t = tanh(...) twice in a slope
template <typename W> __device__ W gelu_tanh_slope(W x) {
    W t = tanh(bent(x));
    return (1 + t + x * (1 - t * t) * slope_of_bent(x)) / 2;
}
template <typename W> __device__ W silu_slope(W x) {
    W s = sigmoid(x);
    return s * (1 + x * (1 - s));
}
template <typename W> __device__ W mish_slope(W x) {
    W t = tanh(log1pexp(x));
    return t + x * (1 - t * t) * sigmoid(x);
}

ACTIVATION(gelu, x * below(x), below(x) + x * bell(x))
ACTIVATION(gelu_tanh, x * (1 + tanh(bent(x))) / 2, gelu_tanh_slope(x))
ACTIVATION(silu, x * sigmoid(x), silu_slope(x))
ACTIVATION(mish, x * tanh(log1pexp(x)), mish_slope(x))
ACTIVATION(hardswish, x * ((x <= -3 ? 0 : x >= 3 ? 6 : x + 3) / 6),
           x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + decltype(x)(0.5))
ACTIVATION(elu, x > 0 ? x : a * expm1(x), x > 0 ? 1 : a * exp(x))
ACTIVATION(softplus, x * a > b ? x : log1pexp(x * a) / a, x * a > b ? 1 : sigmoid(x * a))
ACTIVATION(leaky_relu, x > 0 ? x : x * a, x > 0 ? 1 : a)
