// tile.cuh: a matrix product C(m, n) = sum over k of A(m, k) B(k, n), 64 x 64 values of C a block.
//
// The naive product gives a thread one value of C: two numbers read for every two flops, and each
// number of A is read by as many threads as C has columns. Here a block of 256 threads takes a
// slice of A and B, 8 deep, to shared memory, where each number serves 64 values of C; and a
// thread keeps 4 x 4 values of C in registers, so that 8 numbers read from shared memory serve
// 32 flops. (Volkov and Demmel 2008.) Each C adds its products in the order of k: its bytes are
// the naive product's.
// Threads: t loads column t % 64 of B, and row t / 8 of A (4 threads a warp in one row: A is small
// and in cache). It computes rows 4 (t / 16) to + 3 and columns t % 16, + 16, + 32, + 48: a
// warp reads 16 neighbours of B and 2 numbers of A, without bank conflicts.
// A and B are not arrays but functions, so that what they say need not lie in memory.
#pragma once

constexpr int SIDE = 64, DEEP = 8, EACH = 4;

template <typename W, typename Left, typename Right, typename Store>
__device__ void tiled_product(int first_row, long long first_column, int rows, long long columns,
                              long long start, long long end, Left left, Right right,
                              Store store) {
    __shared__ W a[DEEP][SIDE + 1];  // + 1: 8 threads write one column of it, in 8 banks
    __shared__ W b[DEEP][SIDE];
    int t = threadIdx.x, across = t % SIDE, down = t / 16 * EACH;
    bool here = first_column + across < columns;
    auto column = right.column(here ? first_column + across : 0);
    W c[EACH][EACH] = {};
    for (long long k = start; k < end; k += DEEP) {
        for (int i = t / SIDE; i < DEEP; i += 256 / SIDE)
            b[i][across] = here && k + i < end ? column.at(k + i) : W(0);
        for (int i = t / DEEP; i < SIDE; i += 256 / DEEP) {
            bool inside = first_row + i < rows && k + t % DEEP < end;
            a[t % DEEP][i] = inside ? left.at(first_row + i, k + t % DEEP) : W(0);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEEP; ++i)
#pragma unroll
            for (int m = 0; m < EACH; ++m)
#pragma unroll
                for (int n = 0; n < EACH; ++n) c[m][n] += a[i][down + m] * b[i][t % 16 + 16 * n];
        __syncthreads();  // the next slice overwrites this one: not before all have used it
    }
#pragma unroll
    for (int m = 0; m < EACH; ++m)
#pragma unroll
        for (int n = 0; n < EACH; ++n) {
            long long place = first_column + t % 16 + 16 * n;
            if (first_row + down + m < rows && place < columns)
                store.at(first_row + down + m, place, c[m][n]);
        }
}
