// bucket.cu: the cotangents of several parameters laid into their flat bucket, in one launch.
//
// One launch for each parameter would cost more than the copying: a bias would be some
// microseconds of launch for 128 bytes. So a launch takes up to 8 pieces: where each lies, where it
// goes, how long it is; a null piece is zeros. Threads: one a value; each piece has blocks of its
// own, and a block finds its piece by counting the blocks of those before. Bytes: each value read
// and written once. No flops; memory sets the speed.
#include "float16.cuh"
#include "thread.cuh"

template <typename T> struct Piece { const T *values; long long start, count; };

template <typename T> __device__ void pack(T *flat, const Piece<T> (&pieces)[8]) {
    long long first = 0, number = 0;  // blocks before mine; mine among those of its piece
    Piece<T> mine = {};
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (blockIdx.x >= first) mine = pieces[k], number = blockIdx.x - first;
        first += (pieces[k].count + blockDim.x - 1) / blockDim.x;
    }
    long long i = number * blockDim.x + threadIdx.x;
    if (i < mine.count) flat[mine.start + i] = mine.values ? mine.values[i] : T(0);
}

#define PIECE(T, k) const T *values##k, long long start##k, long long count##k
#define BUCKET(T, W, suffix)                                                                      \
    extern "C" __global__ void minidp_pack_##suffix(                                              \
        T *flat, PIECE(T, 0), PIECE(T, 1), PIECE(T, 2), PIECE(T, 3), PIECE(T, 4), PIECE(T, 5),    \
        PIECE(T, 6), PIECE(T, 7)) {                                                               \
        const Piece<T> pieces[8] = {{values0, start0, count0}, {values1, start1, count1},         \
                                    {values2, start2, count2}, {values3, start3, count3},         \
                                    {values4, start4, count4}, {values5, start5, count5},         \
                                    {values6, start6, count6}, {values7, start7, count7}};        \
        pack(flat, pieces);                                                                       \
    }
FLOAT_TYPES(BUCKET)
