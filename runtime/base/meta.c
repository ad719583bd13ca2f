/* meta.c: metadata from the C library, with a fault for tests. */
#include "runtime/base/meta.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Relaxed: counts, tied to no other data. */
static _Atomic int64_t live;
static _Atomic int64_t live_bytes;
static _Atomic uint64_t calls;
static _Atomic int64_t fail_in; /* 0: never */
static _Atomic bool fail_on;

static bool fails(void)
{
    int64_t left = atomic_load_explicit(&fail_in, memory_order_relaxed);

    if (left <= 0) {
        return false;
    }
    left = atomic_fetch_sub_explicit(&fail_in, 1, memory_order_relaxed);
    if (left == 1 && atomic_load_explicit(&fail_on, memory_order_relaxed)) {
        atomic_store_explicit(&fail_in, 1, memory_order_relaxed);
    }
    return left == 1;
}

static bool begin(size_t bytes)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return !fails() && bytes <= SIZE_MAX - 63;
}

static void *count(void *pointer)
{
    if (pointer != NULL) {
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&live_bytes,
                                  (int64_t)malloc_usable_size(pointer),
                                  memory_order_relaxed);
    }
    return pointer;
}

void *wm_meta_alloc(size_t bytes)
{
    void *pointer;

    if (!begin(bytes)) {
        return NULL;
    }
    bytes = (bytes + 63) & ~(size_t)63;
    pointer = aligned_alloc(64, bytes);
    return pointer != NULL ? count(memset(pointer, 0, bytes)) : NULL;
}

void *wm_meta_grow(void *old, size_t used, size_t bytes)
{
    void *more = wm_meta_alloc(bytes);

    if (more != NULL && old != NULL) {
        memcpy(more, old, used);
        wm_meta_free(old);
    }
    return more;
}

void wm_meta_free(void *pointer)
{
    if (pointer != NULL) {
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&live_bytes,
                                  (int64_t)malloc_usable_size(pointer),
                                  memory_order_relaxed);
        free(pointer);
    }
}

void wm_meta_fail(uint64_t n, bool persistent)
{
    atomic_store_explicit(&fail_on, persistent, memory_order_relaxed);
    atomic_store_explicit(&fail_in, (int64_t)n, memory_order_relaxed);
}

uint64_t wm_meta_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

int64_t wm_meta_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}

int64_t wm_meta_live_bytes(void)
{
    return atomic_load_explicit(&live_bytes, memory_order_relaxed);
}
