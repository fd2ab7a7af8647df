// emulate.h: a slice of CUDA C++ for g++, so that the text of a .cu file runs on the CPU.
//
// Has: thread, block and grid indices, __shared__ (static and dynamic), __syncthreads,
// __syncwarp, warp shuffles and votes, atomics, a few intrinsics. Has not: textures, cooperative
// groups, tensor cores, asynchronous copies, warps in lock-step, memory fences that matter.
// checks.h looks at every load and store.
// emulate.py rewrites __shared__ declarations into calls of `shared` below and adds one
// MINIDP_EXPORT per kernel.
#pragma once
#include <cmath>
#include <utility>
#include "checks.h"

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
#define threadIdx (emulated::thread_index())
#define blockIdx (emulated::block_index())
#define blockDim (emulated::block_size())
#define gridDim (emulated::grid_size())

namespace emulated {
#define LOOK UNCHECKED __attribute__((noinline, pure)) // said once where a kernel asks twice
LOOK inline uint3 thread_index() { return here->fiber->thread; }
LOOK inline uint3 block_index() { return here->block_index; }
LOOK inline dim3 block_size() { return here->block; }
LOOK inline dim3 grid_size() { return here->grid; }
LOOK inline unsigned lane() { return here->fiber->lane; }
LOOK inline void *dynamic_shared() { return here->memory->shared; }

// Shared memory holds NaN at the start of each block: what is read before it is written shows.
template <typename T, int number> UNCHECKED T &shared(const char *file, int line) {
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
    here->arrays[here->array_count++] = {&tag, offset, sizeof(T)};
    here->shared_bytes = offset + sizeof(T);
    std::memset(here->memory->shared + offset, 0xff, sizeof(T));
    return *(T *)(here->memory->shared + offset);
}

template <typename T> UNCHECKED T shuffle(unsigned mask, T value, unsigned lane, Place place) {
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
UNCHECKED inline unsigned ballot(unsigned mask, bool vote, Place place) {
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
    template <size_t... I>
    UNCHECKED static void unpack(void **arguments, std::index_sequence<I...>) {
        kernel(*(Types *)arguments[I]...);
    }
    UNCHECKED static void run(void **arguments) {
        unpack(arguments, std::index_sequence_for<Types...>{});
    }
    UNCHECKED static void run_plain() {                // one block of a kernel that never waits
        if (here->seed) shuffle_order();
        for (unsigned k = 0; k < here->threads; ++k) {
            become(*here->fiber, here->memory->order[k]);
            run(here->arguments);
        }
    }
};

UNCHECKED inline void run_block() {
    std::memset(here->memory->shared, 0xff, here->shared_bytes);
    ++here->memory->epoch;
    if (!here->plain) { run_fibers(); return; }
    prepare(0);                                        // one fiber is all threads, in turn
    here->fiber = here->memory->fibers;
    minidp_switch(&here->scheduler, here->fiber->stack_pointer);
}
// Blocks run in order of their numbers; with a seed from last to first.
UNCHECKED inline void run_grid() {
    dim3 grid = here->grid;
    uint64_t count = uint64_t(grid.x) * grid.y * grid.z;
    shuffle_order();
    for (uint64_t k = 0; k < count && !here->failed; ++k) {
        uint64_t i = here->seed ? count - 1 - k : k;
        here->block_index = {unsigned(i % grid.x), unsigned(i / grid.x % grid.y),
                             unsigned(i / grid.x / grid.y)};
        run_block();
    }
}
UNCHECKED inline const char *refuse(const unsigned *grid, const unsigned *block, size_t bytes) {
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
UNCHECKED inline const char *launch(void (*body)(void **), void (*run_plain)(),
                                    const unsigned *grid, const unsigned *block, size_t bytes,
                                    void **arguments, Buffer *buffers, int buffer_count,
                                    uint64_t seed, int plain) {
    if (const char *problem = refuse(grid, block, bytes)) return problem;
    Launch launch = {};
    launch.grid = {grid[0], grid[1], grid[2]}; launch.block = {block[0], block[1], block[2]};
    launch.threads = block[0] * block[1] * block[2];
    launch.arguments = arguments; launch.body = body; launch.run_plain = run_plain;
    launch.buffers = buffers; launch.buffer_count = buffer_count; launch.memory = &memory();
    launch.shared_bytes = bytes; launch.seed = seed; launch.plain = plain;
    launch.arrays[launch.array_count++] = {nullptr, 0, bytes};    // the dynamic array
    if (launch.memory->stacks == MAP_FAILED) return "no memory for the stacks of 1024 threads";
    here = &launch;
    run_grid();
    here = nullptr;
    return launch.failed ? launch.memory->message : nullptr;
}
} // namespace emulated

#define HERE_IN_TEXT emulated::Place{__FILE__, __LINE__, __COUNTER__}
#define LANE (emulated::lane())
#define __syncthreads() emulated::wait(emulated::AT_BLOCK, HERE_IN_TEXT, 0)
#define __syncwarp(...) emulated::wait(emulated::AT_WARP, HERE_IN_TEXT, 0xffffffffu, true)
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
#define ATOMIC(name, result)                                                                      \
    template <typename T> UNCHECKED __attribute__((noinline)) T name(T *at, T value) {            \
        emulated::check((uintptr_t)at, sizeof(T), emulated::ATOMICALLY, CALLER);                  \
        T old = *at;                                                                              \
        *at = result;                                                                             \
        return old;                                                                               \
    }
ATOMIC(atomicExch, value)
ATOMIC(atomicAdd, T(old + value))
ATOMIC(atomicMax, value > old ? value : old)
ATOMIC(atomicMin, value < old ? value : old)
template <typename T> UNCHECKED __attribute__((noinline))
T atomicCAS(T *at, T expected, T value) {
    emulated::check((uintptr_t)at, sizeof(T), emulated::ATOMICALLY, CALLER);
    T old = *at;
    if (old == expected) *at = value;
    return old;
}
template <typename T> T __ldg(const T *at) { return *at; }
template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }
using std::abs; using std::exp; using std::log; using std::pow; using std::sqrt; using std::tanh;
using std::erf; using std::expm1; using std::fabs; using std::log1p;
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __int_as_float(int bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline int __float_as_int(float value) { int bits; std::memcpy(&bits, &value, 4); return bits; }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t)a * b >> 32); }

#define MINIDP_EXPORT(kernel)                                                                     \
    extern "C" UNCHECKED VISIBLE const char *emulated_##kernel( \
        const unsigned *grid, const unsigned *block, size_t bytes, void **arguments, int count,   \
        void *buffers, int buffer_count, uint64_t seed, int plain) {                              \
        using Bound = emulated::Bound<kernel>;                                                    \
        if (count != Bound::count) return "wrong number of arguments";                            \
        return emulated::launch(Bound::run, Bound::run_plain, grid, block, bytes, arguments,      \
                                (emulated::Buffer *)buffers, buffer_count, seed, plain);          \
    }
