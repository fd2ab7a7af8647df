// dropout.cu: y = x scale where a random word says keep, else 0; and uniform noise.
//
// Random words are counted, not drawn (Philox 4x32-10: Salmon, Moraes, Dror, Shaw 2011): the word
// of an element follows from the seed, the step, the draw and the element's row in the *whole*
// batch, so it is the same however the batch is split.
// Threads: one for four neighbouring elements of a row, as one Philox call gives four words.
// Bytes: x and y once. Flops: one multiplication an element, and about 25 integer operations;
// these take about half of the time that memory does.
#include "float16.cuh"
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

// Arrays are (outer, rows, inner); an element of a row is numbered (outer, inner) in C order.
struct Rows { long long outer, rows, inner; };

// Calls of(i, word) for the up to four elements of this thread: i where it lies, its random word.
template <typename Of>
__device__ void each_word(Rows s, unsigned key0, unsigned key1, unsigned first_row, unsigned draw,
                          unsigned step, Of of) {
    long long size = s.outer * s.inner, groups = (size + 3) / 4;
    long long row = thread_number() / groups, group = thread_number() % groups;
    if (row >= s.rows) return;
    Words words = philox({{unsigned(group), unsigned(first_row + row), draw, step}}, key0, key1);
    for (int k = 0; k < 4 && 4 * group + k < size; ++k) {
        long long element = 4 * group + k;
        of((element / s.inner * s.rows + row) * s.inner + element % s.inner, words.word[k]);
    }
}

#define DROPOUT(T, W, suffix)                                                                     \
    extern "C" __global__ void minidp_dropout_##suffix(                                           \
        const T *x, T *y, long long outer, long long rows, long long inner, W scale,              \
        unsigned long long threshold, unsigned key0, unsigned key1, unsigned first_row,           \
        unsigned draw, unsigned step) {                                                           \
        auto drop = [=](long long i, unsigned word) {                                             \
            y[i] = word >= threshold ? x[i] * scale : W(0);                                       \
        };                                                                                        \
        each_word({outer, rows, inner}, key0, key1, first_row, draw, step, drop);                 \
    }                                                                                             \
    /* the middle of one of 2^23 equal parts of (0, 1) */                                         \
    extern "C" __global__ void minidp_noise_##suffix(                                             \
        T *y, long long outer, long long rows, long long inner, unsigned key0, unsigned key1,     \
        unsigned first_row, unsigned draw, unsigned step) {                                       \
        auto draw_one = [=](long long i, unsigned word) {                                         \
            y[i] = W(word >> 9) * W(0x1p-23) + W(0x1p-24);                                        \
        };                                                                                        \
        each_word({outer, rows, inner}, key0, key1, first_row, draw, step, draw_one);             \
    }
FLOAT_TYPES(DROPOUT)
