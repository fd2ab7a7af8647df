// recurrent.cu: what an LSTM does in one step around its matrix product, forwards and backwards.
//
// Forwards, from a = w h and x: (i, f, u, o) = (sigmoid, sigmoid, tanh, sigmoid)(a + x), which lie
// beside each other and take the place of a; c = f c + i u; y = o tanh c.
// Backwards, with t = tanh c, m = (dh + dy) o and d = dc + m (1 - t^2): the cotangents of the
// arguments of the gates, and d f, that of the cell before, which takes the place of dc. The cell
// before is in the step before, or for sequences that begin here the initial one.
// Threads: one a value of the cell; a warp reads 32 neighbours of each gate. Bytes: 9 values read
// and 7 written for each value of the cell forwards, 9 and 5 backwards (as separate functions:
// about 40 and 50). Flops: about 20, and one to five exp or tanh; memory sets the speed, and for
// small cells the launch itself does.
#include "float16.cuh"
#include "thread.cuh"

template <typename W> __device__ W sigmoid(W a) { return 1 / (1 + exp(-a)); }

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
