// linalg.cu: C = A B for matrices that lie in rows or in columns, for the sake of CUDA graphs.
//
// Eager steps multiply by cuBLAS, whose kernels for tensor cores and for every shape are the better
// ones. CuPy lets no call of cuBLAS into a graph that is being captured: there this kernel takes
// its place, and the many small launches around it are what the graph saves.
// Threads and registers: tile.cuh; a block makes 64 x 64 numbers of one C, blocks go over the
// tiles of all matrices. Bytes: A and B once for each 64 columns and rows of C, mostly from L2.
// Flops: 2 depth a number of C. Expected limit: instructions, at a half of the float32 peak or
// less. Not measured yet.
#include "float16.cuh"
#include "thread.cuh"
#include "tile.cuh"

template <typename T> struct Column {
    const T *b;
    long long step;
    __device__ Wide<T> at(long long k) const { return b[k * step]; }
};
template <typename T> struct Matrices {  // steps: from a row to the next, from a k, from a column
    const T *a, *b; T *c; long long a_row, a_k, b_k, b_column, columns;
    __device__ Column<T> column(long long n) const { return {b + n * b_column, b_k}; }
    __device__ Wide<T> at(long long m, long long k) const { return a[m * a_row + k * a_k]; }
    __device__ void at(int m, long long n, Wide<T> value) const {
        c[m * columns + n] = value;
    }
};

template <typename W, typename T>
__device__ void matmul(Matrices<T> x, long long a_matrix, long long b_matrix, int rows,
                       long long depth) {
    long long across = (x.columns + SIDE - 1) / SIDE, down = (rows + SIDE - 1) / SIDE;
    long long matrix = blockIdx.x / across / down;
    x.a += matrix * a_matrix, x.b += matrix * b_matrix, x.c += matrix * rows * x.columns;
    tiled_product<W>(blockIdx.x / across % down * SIDE, blockIdx.x % across * SIDE, rows,
                     x.columns, 0, depth, x, x, x);
}

#define MATMUL(T, W, suffix)                                                                      \
    extern "C" __global__ void minidp_matmul_##suffix(                                            \
        const T *a, const T *b, T *c, int rows, long long columns, long long depth,               \
        long long a_matrix, long long a_row, long long a_k, long long b_matrix, long long b_k,    \
        long long b_column) {                                                                     \
        Matrices<T> x = {a, b, c, a_row, a_k, b_k, b_column, columns};                            \
        matmul<W>(x, a_matrix, b_matrix, rows, depth);                                            \
    }
FLOAT_TYPES(MATMUL)
