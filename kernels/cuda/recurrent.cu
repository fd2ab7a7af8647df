// recurrent.cu: one step of an LSTM backwards, between two matrix products.
//
// With t = tanh c and d = dc + dm o (1 - t^2): the cotangents of the arguments of the gates (i, f,
// u, o), which lie beside each other, and that of the old cell, d f.
// Threads: one a value of the cell; a warp reads 32 neighbours of each gate. Bytes: 9 values read
// and 5 written for each value of the cell (as separate functions: about 50). Flops: about 20 and
// one tanh; memory sets the speed, and for small cells the launch itself does.
#include "float16.cuh"
#include "thread.cuh"

template <typename T>
__device__ void lstm_back(const T *dm, const T *dc, const T *gates, const T *cell, const T *past,
                          T *da, T *before, long long count, long long width) {
    long long n = thread_number();
    if (n >= count) return;
    const T *gate = gates + n / width * 4 * width + n % width;
    T *out = da + n / width * 4 * width + n % width;
    Wide<T> i = gate[0], f = gate[width], u = gate[2 * width], o = gate[3 * width];
    Wide<T> t = tanh(Wide<T>(cell[n])), m = dm[n] * o, d = dc[n] + m * (1 - t * t);
    out[0] = d * u * i * (1 - i);
    out[width] = d * past[n] * f * (1 - f);
    out[2 * width] = d * i * (1 - u * u);
    out[3 * width] = m * t * (1 - o);
    before[n] = d * f;
}

#define RECURRENT(T, W, suffix)                                                                   \
    extern "C" __global__ void minidp_lstm_back_##suffix(                                         \
        const T *dm, const T *dc, const T *gates, const T *cell, const T *past, T *da, T *before, \
        long long count, long long width) {                                                       \
        lstm_back(dm, dc, gates, cell, past, da, before, count, width);                           \
    }
FLOAT_TYPES(RECURRENT)
