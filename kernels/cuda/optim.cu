// optim.cu: one step of SGD, Adam, RMSprop, Adadelta or Adamax on flat parameters, in place.
//
// Threads: one a parameter; each reads and writes nothing of its neighbours, so bytes do not
// depend on how a bucket is cut. Bytes: SGD with momentum 5 numbers a parameter (read p g m,
// write p m), Adam 7, the others 5 to 9. Flops: 4 to 15; memory sets the speed. A null array: the
// method does not use it. float16 is read and written, and computed with in float.
#include "float16.cuh"
#include "thread.cuh"

template <typename T, typename W>
__device__ void sgd(T *p, const T *g, T *m, long long count, W lr, W momentum, W undamped,
                    W weight_decay, int nesterov, int maximize, int first) {
    long long i = thread_number();
    if (i >= count) return;
    W step = g[i];
    if (maximize) step = -step;
    if (weight_decay != 0) step += weight_decay * p[i];
    if (m) {
        W velocity = first ? step : momentum * m[i] + undamped * step;
        m[i] = velocity;
        step = nesterov ? step + momentum * velocity : velocity;
    }
    p[i] = p[i] - lr * step;
}

// Kingma & Ba 2015; shrink (decay of the weights themselves): Loshchilov & Hutter 2019; vmax:
// Reddi, Kale & Kumar 2018. For Adam rate = lr / (1 - beta1^t), root = sqrt(1 - beta2^t) and
// nudge = 0, from the host.
template <typename T, typename W>
__device__ void adam(T *p, const T *g, T *m, T *v, T *vmax, long long count, W rate, W nudge,
                     W root, W rest1, W beta2, W rest2, W eps, W weight_decay, W shrink,
                     int maximize) {
    long long i = thread_number();
    if (i >= count) return;
    W value = p[i] * shrink, step = g[i];
    if (maximize) step = -step;
    if (weight_decay != 0) step += weight_decay * value;
    W mean = m[i] + rest1 * (step - m[i]), square = beta2 * v[i] + rest2 * step * step;
    m[i] = mean, v[i] = square;
    if (vmax) square = vmax[i] = max(W(vmax[i]), square);
    W move = rate * mean;
    if (nudge != 0) move += nudge * step;
    p[i] = value - move / (sqrt(square) / root + eps);
}

// Tieleman & Hinton 2012; c (the mean of gradients, for their variance): Graves 2013. Adagrad
// (Duchi, Hazan & Singer 2011) with alpha = rest = 1.
template <typename T, typename W>
__device__ void rmsprop(T *p, const T *g, T *v, T *c, T *m, long long count, W lr, W alpha, W rest,
                        W eps, W weight_decay, W momentum, int maximize) {
    long long i = thread_number();
    if (i >= count) return;
    W value = p[i], step = g[i];
    if (maximize) step = -step;
    if (weight_decay != 0) step += weight_decay * value;
    W square = v[i] = alpha * v[i] + rest * step * step;
    if (c) {
        W mean = c[i] + rest * (step - c[i]);
        c[i] = mean, square -= mean * mean;
    }
    step /= sqrt(square) + eps;
    if (m) step = m[i] = momentum * m[i] + step;
    p[i] = value - lr * step;
}

// Zeiler 2012.
template <typename T, typename W>
__device__ void adadelta(T *p, const T *g, T *v, T *u, long long count, W lr, W rho, W rest, W eps,
                         W weight_decay, int maximize) {
    long long i = thread_number();
    if (i >= count) return;
    W value = p[i], step = g[i];
    if (maximize) step = -step;
    if (weight_decay != 0) step += weight_decay * value;
    W square = v[i] = rho * v[i] + rest * step * step;
    step *= sqrt(u[i] + eps) / sqrt(square + eps);
    u[i] = rho * u[i] + rest * step * step;
    p[i] = value - lr * step;
}

// Kingma & Ba 2015, section 7; rate = lr / (1 - beta1^t) from the host.
template <typename T, typename W>
__device__ void adamax(T *p, const T *g, T *m, T *u, long long count, W rate, W rest, W beta2,
                       W eps, W weight_decay, int maximize) {
    long long i = thread_number();
    if (i >= count) return;
    W value = p[i], step = g[i];
    if (maximize) step = -step;
    if (weight_decay != 0) step += weight_decay * value;
    W mean = m[i] + rest * (step - m[i]), size = (step < 0 ? -step : step) + eps;
    W largest = beta2 * u[i];
    if (size > largest || size != size) largest = size;
    m[i] = mean, u[i] = largest;
    p[i] = value - rate * mean / largest;
}

#define OPTIM(T, W, suffix)                                                                       \
    extern "C" __global__ void minidp_sgd_##suffix(                                               \
        T *p, const T *g, T *m, long long count, W lr, W momentum, W undamped, W weight_decay,    \
        int nesterov, int maximize, int first) {                                                  \
        sgd(p, g, m, count, lr, momentum, undamped, weight_decay, nesterov, maximize, first);     \
    }                                                                                             \
    extern "C" __global__ void minidp_adam_##suffix(                                              \
        T *p, const T *g, T *m, T *v, T *vmax, long long count, W rate, W nudge, W root,          \
        W rest1, W beta2, W rest2, W eps, W weight_decay, W shrink, int maximize) {               \
        adam(p, g, m, v, vmax, count, rate, nudge, root, rest1, beta2, rest2, eps, weight_decay,  \
             shrink, maximize);                                                                   \
    }                                                                                             \
    extern "C" __global__ void minidp_rmsprop_##suffix(                                           \
        T *p, const T *g, T *v, T *c, T *m, long long count, W lr, W alpha, W rest, W eps,        \
        W weight_decay, W momentum, int maximize) {                                               \
        rmsprop(p, g, v, c, m, count, lr, alpha, rest, eps, weight_decay, momentum, maximize);    \
    }                                                                                             \
    extern "C" __global__ void minidp_adadelta_##suffix(                                          \
        T *p, const T *g, T *v, T *u, long long count, W lr, W rho, W rest, W eps,                \
        W weight_decay, int maximize) {                                                           \
        adadelta(p, g, v, u, count, lr, rho, rest, eps, weight_decay, maximize);                  \
    }                                                                                             \
    extern "C" __global__ void minidp_adamax_##suffix(                                            \
        T *p, const T *g, T *m, T *u, long long count, W rate, W rest, W beta2, W eps,            \
        W weight_decay, int maximize) {                                                           \
        adamax(p, g, m, u, count, rate, rest, beta2, eps, weight_decay, maximize);                \
    }
FLOAT_TYPES(OPTIM)
