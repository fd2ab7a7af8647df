// fibers.h: the threads of a CUDA block as fibers: many stacks, one CPU thread.
//
// A fiber runs until it meets a barrier, a warp collective or its end, then hands the CPU back to
// the scheduler below by changing the stack pointer (about ten instructions). When every fiber
// waits at the same barrier, all are set running again. Blocks run one after the other. All state
// belongs to the CPU thread that launched, so several Python threads may launch at once. A kernel
// whose threads never wait runs as one fiber that is all threads in turn.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// the emulator's own memory is not looked at (see checks.h)
#define UNCHECKED                                                                                 \
    __attribute__((no_sanitize_address, no_sanitize("bounds"), no_sanitize("alignment")))
#define VISIBLE __attribute__((visibility("default"))) // to who loads this; all else is hidden

namespace emulated {
constexpr unsigned THREADS = 1024, WARP = 32;         // the limits of every NVIDIA GPU in use
constexpr size_t SHARED = 227 * 1024, STATIC_SHARED = 48 * 1024, STACK = 64 * 1024;   // bytes

extern "C" void minidp_switch(void **save, void *to);
#if defined(__x86_64__)
asm(".pushsection .text\n.globl minidp_switch\n.hidden minidp_switch\n"
    ".type minidp_switch,@function\nminidp_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size minidp_switch,.-minidp_switch\n.popsection\n");
#elif defined(__aarch64__)
asm(".pushsection .text\n.globl minidp_switch\n.hidden minidp_switch\n"
    ".type minidp_switch,%function\nminidp_switch:\nsub sp,sp,#160\n"
    "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
    "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
    "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n.popsection\n");
#else
#error "the emulator knows x86-64 and 64-bit Arm: add minidp_switch for this processor to fibers.h"
#endif

enum State : uint8_t { RUNNING, AT_BLOCK, AT_WARP, RETURNED };
struct Place { const char *file; int line, number; };  // of a barrier; two on one line differ
UNCHECKED inline bool same(Place a, Place b) { return a.line == b.line && a.number == b.number; }

struct Fiber {
    void *stack_pointer; uint3 thread; unsigned lane, warp, number;
    State state; Place place; unsigned mask; uint64_t offered;   // mask, offered: warp collectives
    bool ordered;                                      // __syncwarp: memory is in step behind it
};

struct Touch {                                         // who touched four bytes of shared memory
    unsigned epoch, caller; uint16_t warp_epoch, thread; uint8_t bytes; bool atomic;
};
struct Cell { Touch written, read; };                  // the last touches of each kind
struct Memory {                                        // of one CPU thread, kept between launches
    Fiber fibers[THREADS]; unsigned order[THREADS]; char message[512];
    alignas(128) char shared[SHARED];
    Cell cells[SHARED / 4]; uint64_t known[SHARED / 4];   // pages appear when touched; see checks.h
    unsigned epoch = 1, warp_epochs[THREADS / WARP];   // epoch: barriers since the CPU thread began
    char *stacks = (char *)mmap(nullptr, THREADS * STACK, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    UNCHECKED ~Memory() { munmap(stacks, THREADS * STACK); }
};
struct Owner {
    Memory *memory = nullptr;
    UNCHECKED ~Owner() {
        if (memory) { memory->~Memory(); munmap(memory, sizeof(Memory)); }
    }
};
UNCHECKED inline Memory &memory() {                    // in new pages: nobody has touched anything
    static thread_local Owner owner;
    if (!owner.memory) {
        void *pages = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED) std::abort();
        owner.memory = new (pages) Memory;
    }
    return *owner.memory;
}

struct Array { const void *tag; size_t offset, bytes; };   // a __shared__ declaration, its place
struct Buffer { uintptr_t start; size_t bytes; };      // what a pointer argument may reach
struct Launch {
    dim3 grid, block; uint3 block_index; unsigned threads;
    void **arguments; void (*body)(void **); void (*run_plain)(); Buffer *buffers; int buffer_count;
    Memory *memory; Fiber *fiber; void *scheduler;
    size_t shared_bytes; Array arrays[32]; unsigned array_count; uint64_t seed; bool plain, failed;
};
static thread_local Launch *here = nullptr;

template <typename... Values> UNCHECKED void fail(const char *format, Values... values) {
    if (here->failed) return;                          // the first failure is the one to read
    here->failed = true;
    std::snprintf(here->memory->message, sizeof here->memory->message, format, values...);
}
UNCHECKED inline void leave() { minidp_switch(&here->fiber->stack_pointer, here->scheduler); }
[[noreturn]] UNCHECKED inline void stop() {            // this fiber runs no more
    here->fiber->state = RETURNED;
    leave();
    std::abort();
}
UNCHECKED inline void enter() {
    if (here->plain) here->run_plain(); else here->body(here->arguments);
    stop();
}
UNCHECKED inline void become(Fiber &fiber, unsigned number) {
    dim3 size = here->block;
    fiber.lane = number % WARP; fiber.warp = number / WARP; fiber.number = number;
    fiber.thread = {number, 0, 0};
    if (number < size.x) return;                       // else divide, which takes its time
    fiber.thread = {number % size.x, number / size.x % size.y, number / (size.x * size.y)};
}
UNCHECKED inline void prepare(unsigned number) {     // a fiber whose first switch lands in enter()
    Fiber &fiber = here->memory->fibers[number];
    fiber.state = RUNNING;
    become(fiber, number);
    void **top = (void **)(here->memory->stacks + (number + 1) * STACK);
#if defined(__x86_64__)
    *--top = nullptr; *--top = (void *)enter;
    for (int i = 0; i < 6; ++i) *--top = nullptr;
#else
    top -= 20; std::memset(top, 0, 160); top[11] = (void *)enter;
#endif
    fiber.stack_pointer = top;
}

UNCHECKED inline uint64_t random_number() {           // xorshift (Marsaglia 2003); seed not 0
    uint64_t &s = here->seed;
    s ^= s << 13; s ^= s >> 7; s ^= s << 17;
    return s;
}
UNCHECKED inline void shuffle_order() {
    unsigned *order = here->memory->order;
    for (unsigned i = 0; i < here->threads; ++i) order[i] = i;
    for (unsigned i = here->threads; here->seed && i > 1; --i) {
        unsigned other = random_number() % i, kept = order[i - 1];
        order[i - 1] = order[other]; order[other] = kept;
    }
}

UNCHECKED inline bool run_the_running() {                        // true: at least one fiber moved
    bool moved = false;
    for (unsigned k = 0; k < here->threads; ++k) {
        Fiber &fiber = here->memory->fibers[here->memory->order[k]];
        if (fiber.state != RUNNING) continue;
        here->fiber = &fiber; moved = true;
        minidp_switch(&here->scheduler, fiber.stack_pointer);
    }
    return moved;
}
UNCHECKED inline unsigned count(State state) {
    unsigned total = 0;
    for (unsigned i = 0; i < here->threads; ++i) total += here->memory->fibers[i].state == state;
    return total;
}

// A warp collective completes when every lane that its mask names is there or has returned.
UNCHECKED inline bool release_warp(Fiber *lanes, unsigned lane_count) {
    unsigned arrived = 0, live = 0; bool released = false;
    for (unsigned i = 0; i < lane_count; ++i) {
        arrived |= unsigned(lanes[i].state == AT_WARP) << i;
        live |= unsigned(lanes[i].state != RETURNED) << i;
    }
    for (unsigned i = 0; i < lane_count; ++i) {
        if (lanes[i].state != AT_WARP || (lanes[i].mask & live & ~arrived)) continue;
        for (unsigned j = 0; j < lane_count; ++j) {
            if (!(lanes[i].mask & arrived & (1u << j))) continue;
            if (!same(lanes[i].place, lanes[j].place))
                fail("%s:%d: lane %u of warp %u is at this warp collective, lane %u at line %d",
                     lanes[i].place.file, lanes[i].place.line, i, lanes[i].warp, j,
                     lanes[j].place.line);
            lanes[j].state = RUNNING;
        }
        if (lanes[i].ordered) ++here->memory->warp_epochs[lanes[i].warp];
        released = true;
    }
    return released;
}
UNCHECKED inline bool release_warps() {
    bool released = false;
    for (unsigned first = 0; first < here->threads; first += WARP) {
        unsigned rest = here->threads - first;
        released |= release_warp(here->memory->fibers + first, rest < WARP ? rest : WARP);
    }
    return released;
}

UNCHECKED inline void release_block(unsigned returned) {
    Fiber *fibers = here->memory->fibers, *first = nullptr;
    uint3 b = here->block_index;
    for (unsigned i = 0; i < here->threads; ++i) {
        if (fibers[i].state != AT_BLOCK) continue;
        if (!first) first = &fibers[i];
        if (!same(first->place, fibers[i].place))
            fail("%s:%d: block (%u,%u,%u): divergent __syncthreads: "
                 "thread %u is here, thread %u at %s:%d",
                 first->place.file, first->place.line, b.x, b.y, b.z, unsigned(first - fibers), i,
                 fibers[i].place.file, fibers[i].place.line);
    }
    if (returned)
        fail("%s:%d: block (%u,%u,%u): %u of %u threads returned before this __syncthreads",
             first->place.file, first->place.line, b.x, b.y, b.z, returned, here->threads);
    ++here->memory->epoch;
    for (unsigned i = 0; i < here->threads; ++i)
        if (fibers[i].state == AT_BLOCK) fibers[i].state = RUNNING;
}

UNCHECKED inline void run_fibers() {                             // one block
    for (unsigned i = 0; i < here->threads; ++i) prepare(i);
    while (!here->failed) {
        if (here->seed) shuffle_order();
        bool moved = run_the_running(), released = release_warps();
        unsigned returned = count(RETURNED), waiting = count(AT_BLOCK);
        if (returned == here->threads) return;
        if (released) continue;
        if (waiting && waiting + returned == here->threads) release_block(returned);
        else if (!moved)
            fail("block (%u,%u,%u): deadlock: "
                 "%u threads wait at __syncthreads, %u at a warp collective",
                 here->block_index.x, here->block_index.y, here->block_index.z, waiting,
                 count(AT_WARP));
    }
}

UNCHECKED inline void wait(State state, Place place, unsigned mask, bool ordered = false) {
    Fiber *fiber = here->fiber;
    if (here->plain) {
        fail("%s:%d: this kernel synchronises, but was run as a plain loop", place.file,
             place.line);
        stop();
    }
    fiber->place = place; fiber->mask = mask; fiber->ordered = ordered; fiber->state = state;
    leave();
}
} // namespace emulated
