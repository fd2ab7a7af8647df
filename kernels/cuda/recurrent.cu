// recurrent.cu: what a recurrent layer does in one step around its matrix product a = w h.
//
// rnn: h = tanh(a + x), or max(0, a + x).
// gru: with a + b for a, r = sigmoid(x_r + a_r), z = sigmoid(x_z + a_z), u = tanh(x_u + r a_u),
// h = u + z (h - u). Kept: (r, z, u, a_u).
// Backwards, with d = dh + dy and du = d (1 - z) (1 - u^2): (du a_u r (1 - r), d (h_before - u) z
// (1 - z)) are the cotangents of the arguments of r and z, in x and in a; du is that of x_u and
// du r that of a_u; d z goes to the state before, and takes the place of dh.
// lstm: (i, f, u, o) = (sigmoid, sigmoid, tanh, sigmoid)(a + x), which lie beside each other and
// take the place of a; c = f c + i u; y = o tanh c.
// Backwards, with t = tanh c, m = (dh + dy) o and d = dc + m (1 - t^2): the cotangents of the
// arguments of the gates, and d f, that of the cell before, which takes the place of dc.
// What was before is in the step before, or for sequences that begin here the initial one.
// Threads: one a value of the state; a warp reads 32 neighbours of each gate. Bytes (numbers read
// and written a value, forwards and backwards): rnn 2 and 2; gru 7 and 6, 7 and 7; lstm 9 and 7,
// 9 and 5. As separate functions: about four times as many. Flops: about 20, and one to five exp or
// tanh; memory sets the speed, and for small states the launch itself does.
#include "float16.cuh"
#include "thread.cuh"

template <typename W> __device__ W sigmoid(W a) { return 1 / (1 + exp(-a)); }

// a number that is not a number is not <= 0 and passes
template <typename T>
__device__ void rnn(const T *x, const T *a, T *state, T *y, long long count, int relu) {
    long long n = thread_number();
    if (n >= count) return;
    Wide<T> h = Wide<T>(a[n]) + x[n];
    state[n] = y[n] = relu ? (h <= 0 ? 0 : h) : tanh(h);
}

// x and a: three gates of each value beside each other; gates: four
template <typename T>
__device__ void gru(const T *x, const T *a, const T *b, T *state, T *y, T *gates, long long count,
                    long long width) {
    long long n = thread_number(), column = n % width, at = n / width * 3 * width + column;
    if (n >= count) return;
    x += at, a += at, gates += n / width * 4 * width + column;
    Wide<T> r = a[0], z = a[width], q = a[2 * width];
    if (b) r += b[column], z += b[width + column], q += b[2 * width + column];
    r = sigmoid(r + x[0]), z = sigmoid(z + x[width]);
    Wide<T> u = tanh(r * q + x[2 * width]), h = u + z * (state[n] - u);
    gates[0] = r, gates[width] = z, gates[2 * width] = u, gates[3 * width] = q;
    state[n] = h, y[n] = h;
}

template <typename T>
__device__ void gru_back(const T *dy, T *dh, const T *gates, const T *earlier, const T *initial,
                         T *dx, T *da, long long count, long long going, long long width) {
    long long n = thread_number(), column = n % width, at = n / width * 3 * width + column;
    if (n >= count) return;
    gates += n / width * 4 * width + column, dx += at, da += at;
    Wide<T> r = gates[0], z = gates[width], u = gates[2 * width], q = gates[3 * width];
    Wide<T> d = Wide<T>(dh[n]) + dy[n], past = n < going ? earlier[n] : initial[n];
    Wide<T> du = d * (1 - z) * (1 - u * u);
    Wide<T> dr = du * q * r * (1 - r), dz = d * (past - u) * z * (1 - z);
    dx[0] = dr, dx[width] = dz, dx[2 * width] = du;
    da[0] = dr, da[width] = dz, da[2 * width] = du * r;
    dh[n] = d * z;
}

template <typename T>
__device__ void lstm(const T *x, T *gates, T *cell, T *cells, T *y, long long count,
                     long long width) {
    long long n = thread_number(), at = n / width * 4 * width + n % width;
    if (n >= count) return;
    x += at, gates += at;
    Wide<T> i = sigmoid(Wide<T>(gates[0] + x[0])), f = sigmoid(Wide<T>(gates[width] + x[width]));
    Wide<T> u = tanh(Wide<T>(gates[2 * width] + x[2 * width]));
    Wide<T> o = sigmoid(Wide<T>(gates[3 * width] + x[3 * width])), c = f * cell[n] + i * u;
    gates[0] = i, gates[width] = f, gates[2 * width] = u, gates[3 * width] = o;
    cell[n] = c, cells[n] = c, y[n] = o * tanh(c);
}

template <typename T>
__device__ void lstm_back(const T *dy, const T *dh, T *dc, const T *gates, const T *cells,
                          const T *earlier, const T *initial, T *da, long long count,
                          long long going, long long width) {
    long long n = thread_number(), at = n / width * 4 * width + n % width;
    if (n >= count) return;
    gates += at, da += at;
    Wide<T> i = gates[0], f = gates[width], u = gates[2 * width], o = gates[3 * width];
    Wide<T> t = tanh(Wide<T>(cells[n])), m = (Wide<T>(dh[n]) + dy[n]) * o;
    Wide<T> d = dc[n] + m * (1 - t * t), past = n < going ? earlier[n] : initial[n];
    da[0] = d * u * i * (1 - i);
    da[width] = d * past * f * (1 - f);
    da[2 * width] = d * i * (1 - u * u);
    da[3 * width] = m * t * (1 - o);
    dc[n] = d * f;
}

#define RECURRENT(T, W, suffix)                                                                   \
    extern "C" __global__ void minidp_rnn_##suffix(const T *x, const T *a, T *state, T *y,        \
                                                   long long count, int relu) {                   \
        rnn(x, a, state, y, count, relu);                                                         \
    }                                                                                             \
    extern "C" __global__ void minidp_gru_##suffix(                                               \
        const T *x, const T *a, const T *b, T *state, T *y, T *gates, long long count,            \
        long long width) {                                                                        \
        gru(x, a, b, state, y, gates, count, width);                                              \
    }                                                                                             \
    extern "C" __global__ void minidp_gru_back_##suffix(                                          \
        const T *dy, T *dh, const T *gates, const T *earlier, const T *initial, T *dx, T *da,     \
        long long count, long long going, long long width) {                                      \
        gru_back(dy, dh, gates, earlier, initial, dx, da, count, going, width);                   \
    }                                                                                             \
    extern "C" __global__ void minidp_lstm_##suffix(                                              \
        const T *x, T *gates, T *cell, T *cells, T *y, long long count, long long width) {        \
        lstm(x, gates, cell, cells, y, count, width);                                             \
    }                                                                                             \
    extern "C" __global__ void minidp_lstm_back_##suffix(                                         \
        const T *dy, const T *dh, T *dc, const T *gates, const T *cells, const T *earlier,        \
        const T *initial, T *da, long long count, long long going, long long width) {             \
        lstm_back(dy, dh, dc, gates, cells, earlier, initial, da, count, going, width);           \
    }
FLOAT_TYPES(RECURRENT)
