// optim.cu: one step of SGD or Adam on flat parameters, in place.
//
// Threads: one a parameter; each reads and writes nothing of its neighbours, so bytes do not
// depend on how a bucket is cut. Bytes: SGD with momentum 5 numbers a parameter (read p g m,
// write p m), Adam 7. Flops: 4 to 15; memory sets the speed. A null array: the method does not
// use it.
#include "thread.cuh"

template <typename T>
__device__ void sgd(T *p, const T *g, T *m, long long count, T lr, T momentum, T undamped,
                    T weight_decay, int nesterov, int maximize, int first) {
    long long i = thread_number();
    if (i >= count) return;
    T step = maximize ? -g[i] : g[i];
    if (weight_decay != 0) step += weight_decay * p[i];
    if (m) {
        T velocity = first ? step : momentum * m[i] + undamped * step;
        m[i] = velocity;
        step = nesterov ? step + momentum * velocity : velocity;
    }
    p[i] -= lr * step;
}

// Kingma & Ba 2015; shrink (decay of the weights themselves): Loshchilov & Hutter 2019; vmax:
// Reddi, Kale & Kumar 2018.
// rate = lr / (1 - beta1^t), root = sqrt(1 - beta2^t), from the host.
template <typename T>
__device__ void adam(T *p, const T *g, T *m, T *v, T *vmax, long long count, T rate, T root,
                     T rest1, T beta2, T rest2, T eps, T weight_decay, T shrink, int maximize) {
    long long i = thread_number();
    if (i >= count) return;
    T value = p[i] * shrink, step = maximize ? -g[i] : g[i];
    if (weight_decay != 0) step += weight_decay * value;
    T mean = m[i] + rest1 * (step - m[i]), square = beta2 * v[i] + rest2 * step * step;
    m[i] = mean, v[i] = square;
    if (vmax) square = vmax[i] = max(vmax[i], square);
    p[i] = value - rate * (mean / (sqrt(square) / root + eps));
}

#define OPTIM(T, suffix)                                                                          \
    extern "C" __global__ void minidp_sgd_##suffix(                                               \
        T *p, const T *g, T *m, long long count, T lr, T momentum, T undamped, T weight_decay,    \
        int nesterov, int maximize, int first) {                                                  \
        sgd(p, g, m, count, lr, momentum, undamped, weight_decay, nesterov, maximize, first);     \
    }                                                                                             \
    extern "C" __global__ void minidp_adam_##suffix(                                              \
        T *p, const T *g, T *m, T *v, T *vmax, long long count, T rate, T root, T rest1,          \
        T beta2, T rest2, T eps, T weight_decay, T shrink, int maximize) {                        \
        adam(p, g, m, v, vmax, count, rate, root, rest1, beta2, rest2, eps, weight_decay,         \
             shrink, maximize);                                                                   \
    }
FLOAT_TYPES(OPTIM)
