// dropout.cu: y = x scale where a random word says keep, else 0.
//
// Random words are counted, not drawn (Philox 4x32-10: Salmon, Moraes, Dror, Shaw 2011): the word
// of an element follows from the seed, the step, the draw and the element's row in the *whole*
// batch, so it is the same however the batch is split.
// Threads: one for four neighbouring elements of a row, as one Philox call gives four words.
// Bytes: x and y once. Flops: one multiplication an element, and about 25 integer operations.
#include "thread.cuh"

struct Words { unsigned word[4]; };

__device__ Words philox(Words counter, unsigned key0, unsigned key1) {
    unsigned *c = counter.word;
    for (int round = 0; round < 10; ++round) {
        unsigned long long even = 0xD2511F53ull * c[0], odd = 0xCD9E8D57ull * c[2];
        unsigned high0 = odd >> 32, high2 = even >> 32;
        c[0] = high0 ^ c[1] ^ key0, c[2] = high2 ^ c[3] ^ key1;
        c[1] = odd, c[3] = even;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return counter;
}

// x is (outer, rows, inner); an element of a row is numbered (outer, inner) in C order.
template <typename T>
__device__ void dropout(const T *x, T *y, long long outer, long long rows, long long inner,
                        T scale, unsigned long long threshold, unsigned key0, unsigned key1,
                        unsigned first_row, unsigned draw, unsigned step) {
    long long groups = (outer * inner + 3) / 4, row = thread_number() / groups;
    long long group = thread_number() % groups;
    if (row >= rows) return;
    Words words = philox({{unsigned(group), unsigned(first_row + row), draw, step}}, key0, key1);
    for (int k = 0; k < 4 && 4 * group + k < outer * inner; ++k) {
        long long element = 4 * group + k;
        long long i = (element / inner * rows + row) * inner + element % inner;
        y[i] = words.word[k] >= threshold ? x[i] * scale : T(0);
    }
}

#define DROPOUT(T, suffix)                                                                        \
    extern "C" __global__ void minidp_dropout_##suffix(                                           \
        const T *x, T *y, long long outer, long long rows, long long inner, T scale,              \
        unsigned long long threshold, unsigned key0, unsigned key1, unsigned first_row,           \
        unsigned draw, unsigned step) {                                                           \
        dropout(x, y, outer, rows, inner, scale, threshold, key0, key1, first_row, draw, step);   \
    }
FLOAT_TYPES(DROPOUT)
