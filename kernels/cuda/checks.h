// checks.h: every load and store of a kernel, looked at before it happens.
//
// g++ -fsanitize=kernel-address puts a call before each access to memory; here are the functions
// that it calls, so no sanitiser's library takes part. A thread may touch the arrays it was given,
// from their first byte to their last, its block's shared arrays, its own stack and the constants
// of the module; each array has a red zone that is all the rest. Shared memory also knows who
// touched what since the last barrier: two threads, one of them writing, are a race, whether or
// not it shows in the results. (The bookkeeping is that of Serebryany and Iskhodzhanov 2009.)
// A fault ends the launch; faults.py puts it in words.
#pragma once
#include "fibers.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[], _end[];   // this module

namespace emulated {
enum Access { READS, WRITES, ATOMICALLY };
constexpr uint16_t WHOLE_WARP = 1024, ALL = 0xffff;    // Touch.thread: several of a warp; of many
constexpr uint8_t WHOLE_CELL = 15;                     // Touch.bytes: a bit for each of the four

UNCHECKED inline bool reaches(uintptr_t start, size_t bytes, uintptr_t at, size_t size) {
    return at - start < bytes && bytes - (at - start) >= size;
}
[[noreturn]] UNCHECKED inline void report(const char *kind, uintptr_t at, size_t size,
                                          Access access, uintptr_t caller, const Touch *other) {
    uint3 b = here->block_index, t = here->fiber->thread;
    uintptr_t base = (uintptr_t)__ehdr_start;
    fail("%s|%d|%zu|%zu|%zu|%u,%u,%u|%u,%u,%u|%d|%zu", kind, int(access), size, size_t(at),
         size_t(caller - base), b.x, b.y, b.z, t.x, t.y, t.z, other ? int(other->thread) : -1,
         other ? size_t(other->caller) : size_t(0));
    stop();
}

UNCHECKED inline bool clash(const Touch &other, unsigned bytes, bool atomic) {
    const Fiber &me = *here->fiber;
    if (other.epoch != here->memory->epoch || !(other.bytes & bytes)) return false;
    if (other.thread == me.number || (other.atomic && atomic)) return false;
    unsigned warp = other.thread >= WHOLE_WARP ? other.thread - WHOLE_WARP : other.thread / WARP;
    return warp != me.warp || other.warp_epoch == here->memory->warp_epochs[warp];
}
UNCHECKED inline void remember_read(Touch &last, const Touch &mine) {
    unsigned warp = mine.thread / WARP;
    bool older = last.epoch != mine.epoch;
    bool same_warp = last.thread < WHOLE_WARP ? last.thread / WARP == warp
                                              : unsigned(last.thread - WHOLE_WARP) == warp;
    if (older || (same_warp && last.warp_epoch != mine.warp_epoch)) { last = mine; return; }
    last.bytes |= mine.bytes;
    if (last.thread != mine.thread) last.thread = same_warp ? WHOLE_WARP + warp : ALL;
}
// The quick way through loops over tiles. A cell that nobody has written since the barrier, and
// that all or this warp have read, has a number: who has it too learns nothing by reading again.
UNCHECKED inline uint64_t known_to_all() { return uint64_t(here->memory->epoch) << 32; }
UNCHECKED inline uint64_t known_to_warp(unsigned warp) {
    return known_to_all() | (warp + 1) << 16 | uint16_t(here->memory->warp_epochs[warp]);
}
UNCHECKED inline bool known(size_t cell) {
    uint64_t number = here->memory->known[cell];
    return number == known_to_all() || number == known_to_warp(here->fiber->warp);
}
UNCHECKED inline void touch(size_t number, unsigned bytes, Access access, uintptr_t caller,
                            uintptr_t at, size_t size) {
    Cell &cell = here->memory->cells[number];
    uint64_t &known = here->memory->known[number];
    bool atomic = access == ATOMICALLY;
    const Fiber &me = *here->fiber;
    Touch mine = {here->memory->epoch, unsigned(caller - (uintptr_t)__ehdr_start),
                  uint16_t(here->memory->warp_epochs[me.warp]), uint16_t(me.number),
                  uint8_t(bytes), atomic};
    known = 0;
    if (clash(cell.written, bytes, atomic)) report("race", at, size, access, caller, &cell.written);
    if (access != READS) {
        if (clash(cell.read, bytes, false)) report("race", at, size, access, caller, &cell.read);
        cell.written = mine;
        return;
    }
    remember_read(cell.read, mine);
    if (cell.written.epoch == mine.epoch || cell.read.bytes != WHOLE_CELL) return;
    if (cell.read.thread == ALL) known = known_to_all();
    else if (cell.read.thread == WHOLE_WARP + me.warp) known = known_to_warp(me.warp);
}
UNCHECKED __attribute__((noinline)) inline void check_shared(uintptr_t at, size_t size,
                                                             Access access, uintptr_t caller) {
    size_t first = at - (uintptr_t)here->memory->shared;
    bool inside = false;
    for (unsigned i = 0; i < here->array_count && !inside; ++i)
        inside = reaches(here->arrays[i].offset, here->arrays[i].bytes, first, size);
    if (!inside) report("shared", at, size, access, caller, nullptr);
    for (size_t cell = first / 4; cell * 4 < first + size; ++cell) {
        size_t begin = cell * 4 < first ? first - cell * 4 : 0;
        size_t end = first + size - cell * 4 < 4 ? first + size - cell * 4 : 4;
        touch(cell, (1u << end) - (1u << begin), access, caller, at, size);
    }
}
UNCHECKED __attribute__((always_inline)) inline void check(uintptr_t at, size_t size,
                                                           Access access, uintptr_t caller) {
    const Launch *running = here;
    if (!running) return;                              // between launches
    const Launch &launch = *running;
    size_t first = at - (uintptr_t)launch.memory->shared;
    if (first < SHARED) {
        if (access == READS && size == 4 && first % 4 == 0 && known(first / 4)) return;
        check_shared(at, size, access, caller);
        return;
    }
    for (int i = 0; i < launch.buffer_count; ++i)
        if (reaches(launch.buffers[i].start, launch.buffers[i].bytes, at, size)) return;
    unsigned fiber = launch.plain ? 0 : launch.fiber->number;
    if (reaches((uintptr_t)launch.memory->stacks + fiber * STACK, STACK, at, size)) return;
    if (reaches((uintptr_t)__ehdr_start, _end - __ehdr_start, at, size)) return;
    report("outside", at, size, access, caller, nullptr);
}

struct Source { const char *file; unsigned line, column; };
struct Type { unsigned short kind, info; char name[1]; };
} // namespace emulated

#define HIDDEN extern "C" UNCHECKED __attribute__((visibility("hidden"))) void
#ifdef MINIDP_CHECKED
#define LOOK_AT(size)                                                                             \
    HIDDEN __asan_load##size##_noabort(uintptr_t at) {                                            \
        emulated::check(at, size, emulated::READS, CALLER);                                       \
    }                                                                                             \
    HIDDEN __asan_store##size##_noabort(uintptr_t at) {                                           \
        emulated::check(at, size, emulated::WRITES, CALLER);                                      \
    }
LOOK_AT(1) LOOK_AT(2) LOOK_AT(4) LOOK_AT(8) LOOK_AT(16)
HIDDEN __asan_loadN_noabort(uintptr_t at, size_t size) {
    emulated::check(at, size, emulated::READS, CALLER);
}
HIDDEN __asan_storeN_noabort(uintptr_t at, size_t size) {
    emulated::check(at, size, emulated::WRITES, CALLER);
}
HIDDEN __asan_handle_no_return() {}
#endif

// -fsanitize=bounds and =alignment call these; their data begins with file and line.
HIDDEN __ubsan_handle_out_of_bounds(void *data, void *index) {
    auto *source = (emulated::Source *)data;
    uint3 thread = emulated::here->fiber->thread;
    emulated::fail("%s:%u: thread (%u,%u,%u): index %lld is outside its array", source->file,
                   source->line, thread.x, thread.y, thread.z, (long long)index);
    emulated::stop();
}
HIDDEN __ubsan_handle_type_mismatch_v1(void *data, void *at) {
    struct Mismatch {
        emulated::Source source; emulated::Type *type; unsigned char log_align, kind;
    } *found = (Mismatch *)data;
    uint3 thread = emulated::here->fiber->thread;
    emulated::fail("%s:%u: thread (%u,%u,%u): a misaligned address: %s at %zu bytes behind a "
                   "multiple of %u", found->source.file, found->source.line, thread.x, thread.y,
                   thread.z, found->type->name, size_t(at) % (1u << found->log_align),
                   1u << found->log_align);
    emulated::stop();
}
