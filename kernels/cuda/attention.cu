// attention.cu: y = softmax(scale Q K^T + mask) V of each head, without the matrix of weights.
//
// The naive way writes all weights (queries x keys) to memory, and reads them twice for the
// softmax and once for the product: for 64 numbers a key, those are most of the bytes. Here a
// block takes 8 EACH queries and goes over the keys in tiles of 32: their weights live and die in
// shared memory. Softmax needs the largest score first; instead, each tile may raise the maximum,
// and what was added before is shrunk by e^(old - new). (Milakov and Gimelshein 2018, online
// softmax; Dao, Fu, Ermon, Rudra and Re 2022, FlashAttention.) No atomics: sums go over the tiles
// in order.
//
// Threads: 256, a warp for EACH queries. Scores: lane j has key j of the tile. Sums: lane j has
// columns j, j + 32 ... of y. So the rows of a tile have one number more in shared memory: lanes
// read down its columns without bank conflicts.
// Bytes: Q and y once, K and V once for 8 EACH queries (from L2). Flops: 2 (width + depth) for
// each query and key. Expected limit: reads of shared memory, about one for each product. Not
// measured yet.
//
// Backward: with P the weights, made again from `rest` (the log of the sum of e^score; infinity
// where a query sees nothing, so that its weights are 0), and D = sum of dy y along a row:
// dS = P (dy V^T - D), dQ = scale dS K; dV = P^T dy, dK = scale dS^T Q. query: a block has queries
// and goes over keys, as forward; key_value: a block has keys and goes over queries. So both add
// in order.
// Bytes and flops: about 2.5 times those of forward.
#include "float16.cuh"
#include "thread.cuh"
#include "block.cuh"
#include "warp.cuh"

template <typename W> struct Heads {
    int queries, keys, width, depth, causal;  // width: of queries and keys; depth: of values
    W scale;
    long long mask_step;  // from one head's mask to the next; 0: all share one
    __device__ bool seen(int query, int key) const {
        return query < queries && key < keys && (!causal || key <= query);
    }
};

// Rows first, first + 1 ... of x (count, width) to shared memory, zeros where there are none.
template <int ROWS, int STRIDE, typename W, typename T>
__device__ void load(W (*tile)[STRIDE], const T *x, int first, int count, int width, W scale) {
    for (int i = threadIdx.x; i < ROWS * STRIDE; i += 256) {
        int row = i / STRIDE, column = i % STRIDE;
        bool inside = first + row < count && column < width;
        tile[row][column] = inside ? x[(long long)(first + row) * width + column] * scale : W(0);
    }
}

template <typename W> __device__ W dot(const W *a, const W *b, int length) {
    W total = 0;
    for (int i = 0; i < length; ++i) total += a[i] * b[i];
    return total;
}

// sums[d] = shrink sums[d] + the tile's rows, weighted, in column lane + 32 d
template <int COLUMNS, int STRIDE, typename W>
__device__ void add_rows(W *sums, const W *weights, W (*tile)[STRIDE], W shrink) {
#pragma unroll
    for (int d = 0; d < COLUMNS; ++d) {
        W part = 0;
#pragma unroll 4
        for (int j = 0; j < 32; ++j) part += weights[j] * tile[j][threadIdx.x % 32 + 32 * d];
        sums[d] = sums[d] * shrink + part;
    }
}

template <int COLUMNS, typename T, typename W>
__device__ void store(T *row, const W *sums, int length, W factor) {
#pragma unroll
    for (int d = 0; d < COLUMNS; ++d) {
        int column = threadIdx.x % 32 + 32 * d;
        if (column < length) row[column] = sums[d] * factor;
    }
}

template <int WIDTH, int EACH, typename T>
__device__ void attention(const T *q, const T *k, const T *v, const T *mask, T *y,
                          Wide<T> *rest, Heads<Wide<T>> s) {
    typedef Wide<T> W;
    __shared__ W own[8 * EACH][WIDTH];
    __shared__ W key[32][WIDTH + 1];
    __shared__ W value[32][WIDTH + 1];
    __shared__ W weight[8 * EACH][32];
    int tiles = (s.queries + 8 * EACH - 1) / (8 * EACH), first = blockIdx.x % tiles * 8 * EACH;
    int warp = threadIdx.x / 32 * EACH, lane = threadIdx.x % 32;
    long long head = blockIdx.x / tiles;
    q += head * s.queries * s.width, k += head * s.keys * s.width, v += head * s.keys * s.depth;
    y += head * s.queries * s.depth, rest += head * s.queries, mask += head * s.mask_step;
    W sums[EACH][WIDTH / 32] = {};
    W sum[EACH] = {};
    W top[EACH];
    for (int r = 0; r < EACH; ++r) top[r] = minus_infinity<W>();
    load<8 * EACH, WIDTH>(own, q, first, s.queries, s.width, s.scale);
    int end = s.causal ? min(s.keys, first + 8 * EACH) : s.keys;
    for (int start = 0; start < end; start += 32) {
        load<32, WIDTH + 1>(key, k, start, s.keys, s.width, W(1));
        load<32, WIDTH + 1>(value, v, start, s.keys, s.depth, W(1));
        __syncthreads();
#pragma unroll
        for (int r = 0; r < EACH; ++r) {
            int query = first + warp + r;
            W score = minus_infinity<W>();
            if (s.seen(query, start + lane)) {
                score = dot(own[warp + r], key[lane], s.width);
                if (s.mask_step >= 0) score += mask[(long long)query * s.keys + start + lane];
            }
            W high = Max::of(top[r], warp_reduce<Max>(score));
            W shift = high == minus_infinity<W>() ? 0 : high;  // nothing was seen yet
            W shrink = exp(top[r] - shift), mine = exp(score - shift);
            sum[r] = sum[r] * shrink + warp_reduce<Sum>(mine), top[r] = high;
            weight[warp + r][lane] = mine;
            __syncwarp();
            add_rows<WIDTH / 32>(sums[r], weight[warp + r], value, shrink);
        }
        __syncthreads();  // the next tile overwrites this one: not before all have used it
    }
#pragma unroll
    for (int r = 0; r < EACH; ++r) {
        int query = first + warp + r;
        if (query >= s.queries) continue;
        store<WIDTH / 32>(y + (long long)query * s.depth, sums[r], s.depth,
                          sum[r] > 0 ? 1 / sum[r] : sum[r]);
        if (lane == 0) rest[query] = sum[r] == 0 ? -top[r] : log(sum[r]) + top[r];
    }
}

// dS of a block's queries, tile by tile of keys, times the keys.
template <int WIDTH, int EACH, typename T>
__device__ void query_input(const T *g, const T *q, const T *k, const T *v, const T *mask,
                            const Wide<T> *rest, const Wide<T> *delta, T *dq,
                            Heads<Wide<T>> s) {
    typedef Wide<T> W;
    __shared__ W own[8 * EACH][WIDTH];
    __shared__ W slope[8 * EACH][WIDTH];
    __shared__ W key[32][WIDTH + 1];
    __shared__ W value[32][WIDTH + 1];
    __shared__ W weight[8 * EACH][32];
    int tiles = (s.queries + 8 * EACH - 1) / (8 * EACH), first = blockIdx.x % tiles * 8 * EACH;
    int warp = threadIdx.x / 32 * EACH, lane = threadIdx.x % 32;
    long long head = blockIdx.x / tiles;
    q += head * s.queries * s.width, k += head * s.keys * s.width, v += head * s.keys * s.depth;
    g += head * s.queries * s.depth, dq += head * s.queries * s.width;
    rest += head * s.queries, delta += head * s.queries, mask += head * s.mask_step;
    W sums[EACH][WIDTH / 32] = {};
    load<8 * EACH, WIDTH>(own, q, first, s.queries, s.width, s.scale);
    load<8 * EACH, WIDTH>(slope, g, first, s.queries, s.depth, W(1));
    int end = s.causal ? min(s.keys, first + 8 * EACH) : s.keys;
    for (int start = 0; start < end; start += 32) {
        load<32, WIDTH + 1>(key, k, start, s.keys, s.width, W(1));
        load<32, WIDTH + 1>(value, v, start, s.keys, s.depth, W(1));
        __syncthreads();
#pragma unroll
        for (int r = 0; r < EACH; ++r) {
            int query = first + warp + r;
            W mine = 0;
            if (s.seen(query, start + lane)) {
                W score = dot(own[warp + r], key[lane], s.width);
                if (s.mask_step >= 0) score += mask[(long long)query * s.keys + start + lane];
                W p = exp(score - rest[query]);
                mine = p * (dot(slope[warp + r], value[lane], s.depth) - delta[query]);
            }
            weight[warp + r][lane] = mine;
            __syncwarp();
            add_rows<WIDTH / 32>(sums[r], weight[warp + r], key, W(1));
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < EACH; ++r)
        if (first + warp + r < s.queries)
            store<WIDTH / 32>(dq + (long long)(first + warp + r) * s.width, sums[r], s.width,
                              s.scale);
}

// P and dS of a block's keys, tile by tile of queries, times dy and the queries.
template <int WIDTH, int EACH, typename T>
__device__ void key_value_input(const T *g, const T *q, const T *k, const T *v, const T *mask,
                                const Wide<T> *rest, const Wide<T> *delta, T *dk, T *dv,
                                Heads<Wide<T>> s) {
    typedef Wide<T> W;
    __shared__ W own[8 * EACH][WIDTH];
    __shared__ W value[8 * EACH][WIDTH];
    __shared__ W other[32][WIDTH + 1];
    __shared__ W slope[32][WIDTH + 1];
    __shared__ W weight[8 * EACH][32];
    __shared__ W bend[8 * EACH][32];
    int tiles = (s.keys + 8 * EACH - 1) / (8 * EACH), first = blockIdx.x % tiles * 8 * EACH;
    int warp = threadIdx.x / 32 * EACH, lane = threadIdx.x % 32;
    long long head = blockIdx.x / tiles;
    q += head * s.queries * s.width, k += head * s.keys * s.width, v += head * s.keys * s.depth;
    g += head * s.queries * s.depth, dk += head * s.keys * s.width;
    dv += head * s.keys * s.depth;
    rest += head * s.queries, delta += head * s.queries, mask += head * s.mask_step;
    W of_key[EACH][WIDTH / 32] = {};
    W of_value[EACH][WIDTH / 32] = {};
    load<8 * EACH, WIDTH>(own, k, first, s.keys, s.width, W(1));
    load<8 * EACH, WIDTH>(value, v, first, s.keys, s.depth, W(1));
    for (int start = s.causal ? first / 32 * 32 : 0; start < s.queries; start += 32) {
        load<32, WIDTH + 1>(other, q, start, s.queries, s.width, s.scale);
        load<32, WIDTH + 1>(slope, g, start, s.queries, s.depth, W(1));
        __syncthreads();
#pragma unroll
        for (int r = 0; r < EACH; ++r) {
            int query = start + lane, key = first + warp + r;
            W p = 0, mine = 0;
            if (s.seen(query, key)) {
                W score = dot(own[warp + r], other[lane], s.width);
                if (s.mask_step >= 0) score += mask[(long long)query * s.keys + key];
                p = exp(score - rest[query]);
                mine = p * (dot(value[warp + r], slope[lane], s.depth) - delta[query]);
            }
            weight[warp + r][lane] = p, bend[warp + r][lane] = mine;
            __syncwarp();
            add_rows<WIDTH / 32>(of_key[r], bend[warp + r], other, W(1));
            add_rows<WIDTH / 32>(of_value[r], weight[warp + r], slope, W(1));
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < EACH; ++r) {
        long long key = first + warp + r;
        if (key >= s.keys) continue;
        store<WIDTH / 32>(dk + key * s.width, of_key[r], s.width, W(1));
        store<WIDTH / 32>(dv + key * s.depth, of_value[r], s.depth, W(1));
    }
}

#define HEADS(W)                                                                                  \
    int queries, int keys, int width, int depth, int causal, W scale, long long mask_step
#define ATTENTION_OF(WIDTH, EACH, T, W, suffix)                                                   \
    extern "C" __global__ void minidp_attention_##suffix(                                         \
        const T *q, const T *k, const T *v, const T *mask, T *y, W *rest, HEADS(W)) {             \
        attention<WIDTH, EACH>(q, k, v, mask, y, rest,                                            \
                               {queries, keys, width, depth, causal, scale, mask_step});          \
    }                                                                                             \
    extern "C" __global__ void minidp_attention_query_##suffix(                                   \
        const T *g, const T *q, const T *k, const T *v, const T *mask, const W *rest,             \
        const W *delta, T *dq, HEADS(W)) {                                                        \
        query_input<WIDTH, EACH>(g, q, k, v, mask, rest, delta, dq,                               \
                                 {queries, keys, width, depth, causal, scale, mask_step});        \
    }                                                                                             \
    extern "C" __global__ void minidp_attention_key_value_##suffix(                               \
        const T *g, const T *q, const T *k, const T *v, const T *mask, const W *rest,             \
        const W *delta, T *dk, T *dv, HEADS(W)) {                                                 \
        key_value_input<WIDTH, EACH>(g, q, k, v, mask, rest, delta, dk, dv,                       \
                                     {queries, keys, width, depth, causal, scale, mask_step});    \
    }
// Rows of up to 256 and 512 bytes; of long ones fewer fit in 48 KiB of shared memory.
#define ATTENTION(T, W, suffix)                                                                   \
    ATTENTION_OF(256 / sizeof(W), 16 / sizeof(W), T, W, narrow_##suffix)                          \
    ATTENTION_OF(512 / sizeof(W), 1, T, W, wide_##suffix)
FLOAT_TYPES(ATTENTION)
