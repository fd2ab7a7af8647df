// emulate.h: a slice of CUDA C++ for g++, so that the text of a .cu file runs on the CPU.
//
// Has: thread, block and grid indices, __shared__ (static and dynamic), __syncthreads,
// __syncwarp, warp shuffles and votes, atomics, a few intrinsics. Has not: textures, cooperative
// groups, tensor cores, asynchronous copies, warps in lock-step, memory fences that matter.
// emulate.py rewrites __shared__ declarations into calls of `shared` below and adds one
// MINIDP_EXPORT per kernel.
#pragma once
#include <cmath>
#include <utility>
#include "fibers.h"

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
enum { warpSize = 32 };
#define threadIdx (emulated::here->fiber->thread)
#define blockIdx (emulated::here->block_index)
#define blockDim (emulated::here->block)
#define gridDim (emulated::here->grid)

namespace emulated {
// Shared memory holds NaN at the start of each block: what is read before it is written shows.
template <typename T, int number> T &shared(const char *file, int line) {
    static const char tag = 0;                         // one a declaration and type
    for (unsigned i = 0; i < here->array_count; ++i)
        if (here->arrays[i].tag == &tag)
            return *(T *)(here->memory->shared + here->arrays[i].offset);
    size_t offset = (here->shared_bytes + 15) / 16 * 16;
    if (sizeof(T) > STATIC_SHARED || offset + sizeof(T) > SHARED || here->array_count == 32) {
        fail("%s:%d: __shared__ array of %zu bytes: a kernel has %zu bytes of static memory",
             file, line, sizeof(T), STATIC_SHARED);
        stop();
    }
    here->arrays[here->array_count++] = {&tag, offset};
    here->shared_bytes = offset + sizeof(T);
    std::memset(here->memory->shared + offset, 0xff, sizeof(T));
    return *(T *)(here->memory->shared + offset);
}

template <typename T> T shuffle(unsigned mask, T value, unsigned lane, Place place) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    Fiber *fiber = here->fiber;
    unsigned source = fiber->warp * WARP + lane;
    std::memcpy(&fiber->offered, &value, sizeof value);
    wait(AT_WARP, place, mask);
    if (lane < WARP && source < here->threads)
        std::memcpy(&value, &here->memory->fibers[source].offered, sizeof value);
    wait(AT_WARP, place, mask);                        // nobody offers again before all have read
    return value;
}
inline unsigned ballot(unsigned mask, bool vote, Place place) {
    Fiber *fiber = here->fiber, *lanes = here->memory->fibers + fiber->warp * WARP;
    unsigned votes = 0;
    fiber->offered = vote;
    wait(AT_WARP, place, mask);
    for (unsigned i = 0; i < WARP && fiber->warp * WARP + i < here->threads; ++i)
        if (mask >> i & 1) votes |= unsigned(lanes[i].offered != 0) << i;
    wait(AT_WARP, place, mask);
    return votes;
}

template <auto kernel> struct Bound;                   // a kernel and how to unpack its arguments
template <typename... Types, void (*kernel)(Types...)> struct Bound<kernel> {
    static constexpr int count = sizeof...(Types);
    template <size_t... I> static void unpack(void **arguments, std::index_sequence<I...>) {
        kernel(*(Types *)arguments[I]...);
    }
    static void run(void **arguments) { unpack(arguments, std::index_sequence_for<Types...>{}); }
    static void run_plain() {                          // one block of a kernel that never waits
        Fiber fiber = {}; dim3 size = here->block;
        here->fiber = &fiber;
        if (here->seed) shuffle_order();
        for (unsigned k = 0; k < here->threads; ++k) {
            unsigned i = here->memory->order[k];
            fiber.lane = i % WARP; fiber.warp = i / WARP;
            fiber.thread = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
            run(here->arguments);
        }
    }
};

inline void run_grid(void (*run_plain)()) {
    dim3 grid = here->grid;
    shuffle_order();
    for (unsigned z = 0; z < grid.z; ++z) for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x && !here->failed; ++x) {
            here->block_index = {x, y, z};
            std::memset(here->memory->shared, 0xff, here->shared_bytes);
            if (here->plain) run_plain(); else run_fibers();
        }
}
inline const char *refuse(const unsigned *grid, const unsigned *block, size_t bytes) {
    uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
    if (threads == 0 || threads > THREADS || block[2] > 64)
        return "invalid configuration: a block has 1 to 1024 threads, at most 64 in z";
    if (bytes > SHARED)
        return "invalid configuration: a block has at most 227 KiB of shared memory";
    if (!grid[0] || !grid[1] || !grid[2])
        return "invalid configuration: a grid has at least one block";
    if (grid[0] >> 31 || grid[1] > 65535 || grid[2] > 65535)
        return "invalid configuration: a grid has at most 2**31 - 1, 65535, 65535 blocks";
    return nullptr;
}

// Null: it ran. Else what went wrong, valid until this CPU thread launches again.
inline const char *launch(void (*body)(void **), void (*run_plain)(), const unsigned *grid,
                          const unsigned *block, size_t bytes, void **arguments, uint64_t seed,
                          int plain) {
    if (const char *problem = refuse(grid, block, bytes)) return problem;
    Launch launch = {};
    launch.grid = {grid[0], grid[1], grid[2]}; launch.block = {block[0], block[1], block[2]};
    launch.threads = block[0] * block[1] * block[2];
    launch.arguments = arguments; launch.body = body; launch.memory = &memory();
    launch.shared_bytes = bytes; launch.seed = seed; launch.plain = plain;
    if (launch.memory->stacks == MAP_FAILED) return "no memory for the stacks of 1024 threads";
    here = &launch;
    try { run_grid(run_plain); } catch (Stop) {}
    here = nullptr;
    return launch.failed ? launch.memory->message : nullptr;
}
} // namespace emulated

// g++ -fsanitize=bounds calls this where an index is outside its array; data starts with file,
// line.
extern "C" __attribute__((visibility("hidden")))
void __ubsan_handle_out_of_bounds(void *data, void *index) {
    struct Source { const char *file; unsigned line, column; } *source = (Source *)data;
    emulated::fail("%s:%u: thread (%u,%u,%u): index %lld is outside its array", source->file,
                   source->line, threadIdx.x, threadIdx.y, threadIdx.z, (long long)index);
    emulated::stop();
}

#define HERE_IN_TEXT emulated::Place{__FILE__, __LINE__, __COUNTER__}
#define LANE (emulated::here->fiber->lane)
#define __syncthreads() emulated::wait(emulated::AT_BLOCK, HERE_IN_TEXT, 0)
#define __syncwarp(...) emulated::wait(emulated::AT_WARP, HERE_IN_TEXT, 0xffffffffu)
#define __shfl_sync(mask, value, lane) emulated::shuffle(mask, value, (lane) & 31, HERE_IN_TEXT)
#define __shfl_xor_sync(mask, value, n) emulated::shuffle(mask, value, LANE ^ (n), HERE_IN_TEXT)
#define __shfl_down_sync(mask, value, n) emulated::shuffle(mask, value, LANE + (n), HERE_IN_TEXT)
#define __shfl_up_sync(mask, value, n) emulated::shuffle(mask, value, LANE - (n), HERE_IN_TEXT)
#define __ballot_sync(mask, vote) emulated::ballot(mask, vote, HERE_IN_TEXT)
#define __any_sync(mask, vote) (emulated::ballot(mask, vote, HERE_IN_TEXT) != 0)
#define __all_sync(mask, vote) (emulated::ballot(mask, !(vote), HERE_IN_TEXT) == 0)
inline void __threadfence() {}
inline void __threadfence_block() {}

// Fibers of one launch never run at the same moment: plain reads and writes are atomic enough.
template <typename T> T atomicExch(T *at, T value) { T old = *at; *at = value; return old; }
template <typename T> T atomicAdd(T *at, T value) { return atomicExch(at, T(*at + value)); }
template <typename T> T atomicMax(T *at, T value) {
    return atomicExch(at, value > *at ? value : *at);
}
template <typename T> T atomicMin(T *at, T value) {
    return atomicExch(at, value < *at ? value : *at);
}
template <typename T> T atomicCAS(T *at, T expected, T value) {
    return atomicExch(at, *at == expected ? value : *at);
}
template <typename T> T __ldg(const T *at) { return *at; }
template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }
using std::abs; using std::exp; using std::log; using std::pow; using std::sqrt; using std::tanh;
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __int_as_float(int bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline int __float_as_int(float value) { int bits; std::memcpy(&bits, &value, 4); return bits; }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t)a * b >> 32); }

#define MINIDP_EXPORT(kernel)                                                                     \
    extern "C" const char *emulated_##kernel(const unsigned *grid, const unsigned *block,         \
                                             size_t bytes, void **arguments, int count,           \
                                             uint64_t seed, int plain) {                          \
        using Bound = emulated::Bound<kernel>;                                                    \
        if (count != Bound::count) return "wrong number of arguments";                            \
        return emulated::launch(Bound::run, Bound::run_plain, grid, block, bytes, arguments,      \
                                seed, plain);                                                     \
    }
