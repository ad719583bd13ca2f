/* wt_figures.c: blocks, streams and figures for tests; see wt.h. */
#include "wt.h"

#include <stdio.h>
#include <string.h>

void *wt_pinned(warm_runtime *runtime, size_t bytes)
{
    void *pointer = NULL;

    wt_ok(warm_pinned_alloc(runtime, bytes, &pointer));
    return pointer;
}

void *wt_device(warm_runtime *runtime, warm_stream stream, size_t bytes)
{
    void *pointer = NULL;

    wt_ok(warm_device_alloc(runtime, 0, stream, bytes, &pointer));
    return pointer;
}

warm_stream wt_stream(warm_runtime *runtime, int device)
{
    warm_stream stream = NULL;

    wt_ok(warm_stream_create(runtime, device, &stream));
    return stream;
}

const char *wt_missing(const char *text, const char *const *words)
{
    while (*words != NULL && strstr(text, *words) != NULL) {
        words++;
    }
    return *words;
}

void wt_limit(warm_runtime *runtime, double bytes)
{
    wt_ok(warm_watermarks_set(runtime, 0, (uint64_t)bytes, 0));
}

warm_block_info wt_block_info(const void *block)
{
    warm_block_info info = {.size = sizeof info};

    wt_ok(warm_block_get_info(block, &info));
    return info;
}

void wt_free_used(void *block, warm_stream stream)
{
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
}

warm_space_stats wt_pinned_stats(warm_runtime *runtime)
{
    warm_space_stats stats = {.size = sizeof stats};

    wt_ok(warm_pinned_get_stats(runtime, &stats));
    return stats;
}

warm_device_stats wt_stats_of_device(warm_runtime *runtime, int device)
{
    warm_device_stats stats = {.size = sizeof stats};

    wt_ok(warm_device_get_stats(runtime, device, &stats));
    return stats;
}

warm_device_stats wt_device_stats(warm_runtime *runtime)
{
    return wt_stats_of_device(runtime, 0);
}

uint64_t wt_calls(warm_runtime *runtime, const char *call)
{
    uint64_t count = 0;

    wt_ok(warm_testing_calls(runtime, call, &count));
    return count;
}

static void nothing(void *argument)
{
}

void wt_stop(warm_runtime *runtime, warm_stream stream)
{
    wt_ok(warm_testing_hold(runtime, stream));
    wt_ok(warm_stream_host_func(runtime, stream, nothing, NULL));
}

void wt_go(warm_runtime *runtime, warm_stream stream)
{
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
}

void wt_capture_drop(warm_runtime *runtime, warm_stream stream)
{
    warm_graph graph = NULL;

    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

void wt_settle(warm_runtime *runtime, warm_stream stream)
{
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
}

void wt_stream_end(warm_runtime *runtime, warm_stream stream)
{
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, stream));
}

long wt_address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages;
}
