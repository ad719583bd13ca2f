/* wt_expandable.h: helpers for tests of option expandable_segments: a runtime
 * with it, two streams, and blocks whose contents are checked. Include it once
 * in a program. */
#ifndef WT_EXPANDABLE_H
#define WT_EXPANDABLE_H

#include "wt.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream first, second;

static inline void check(void)
{
    wt_ok(warm_testing_check(runtime, 0));
}

static inline void begin(const char *expandable)
{
    warm_options options = {.size = sizeof options,
                            .host_memory = 256 * MIB,
                            .segment = 2 * MIB,
                            .history = 512,
                            .expandable_segments = expandable};

    runtime = wt_runtime(&options);
    wt_ok(warm_stream_create(runtime, 0, &first));
    wt_ok(warm_stream_create(runtime, 0, &second));
}

static inline uint64_t calls_of(const char *call)
{
    uint64_t calls = 0;

    wt_ok(warm_testing_calls(runtime, call, &calls));
    return calls;
}

static inline warm_status try(warm_stream stream, size_t bytes, void **pointer)
{
    return warm_device_alloc(runtime, 0, stream, bytes, pointer);
}

static inline char *take(warm_stream stream, size_t bytes)
{
    void *pointer = NULL;

    wt_ok(try(stream, bytes, &pointer));
    return pointer;
}

static inline warm_device_stats stats_now(void)
{
    return wt_device_stats(runtime);
}

static inline uint64_t held_now(void)
{
    return stats_now().all.held_bytes.current;
}

static inline size_t extent_of(const void *pointer, char **base)
{
    size_t bytes = 0;
    void *from = NULL;

    wt_ok(warm_device_base_allocation(pointer, &from, &bytes));
    *base = from;
    return bytes;
}

static inline size_t empty(void)
{
    size_t released = 0;

    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    check();
    return released;
}

/* Writes and checks memory of the device by copies: the process may be unable
 * to access it. */
static inline void fill(void *block, size_t bytes, char with)
{
    void *buffer = NULL;

    wt_ok(warm_pinned_alloc(runtime, bytes, &buffer));
    memset(buffer, with, bytes);
    wt_ok(warm_copy_async(runtime, block, buffer, bytes, WARM_COPY_TO_DEVICE,
                          first));
    wt_ok(warm_free(buffer));
}

static inline void assert_filled(void *block, size_t bytes, char with)
{
    void *buffer = NULL;
    char *byte;

    wt_ok(warm_pinned_alloc(runtime, bytes, &buffer));
    wt_ok(warm_copy_async(runtime, buffer, block, bytes, WARM_COPY_TO_HOST,
                          first));
    wt_ok(warm_stream_synchronize(runtime, first));
    byte = buffer;
    wt_require(byte[0] == with && byte[bytes / 2] == with &&
                   byte[bytes - 1] == with,
               "the block was overwritten");
    wt_ok(warm_free(buffer));
}

struct two {
    warm_status status[2];
    void *got[2];
};

static inline void teardown(void)
{
    check();
    wt_stream_end(runtime, first);
    wt_stream_end(runtime, second);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

#endif
