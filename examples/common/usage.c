/* usage.c: see usage.h. */
#include "examples/common/usage.h"

#include <string.h>

static void read_handles(warm_runtime *runtime, int device, usage *u)
{
    for (warm_kind kind = 0; kind < WARM_KIND_BUILTIN; kind++) {
        warm_handle_stats stats = WARM_INIT(warm_handle_stats);

        if (warm_handle_get_stats(runtime, kind, device, &stats) == WARM_OK) {
            u->handles += stats.created;
        }
    }
}

static void read_memory(warm_runtime *runtime, int device, usage *u)
{
    warm_device_stats stats = WARM_INIT(warm_device_stats);

    if (warm_device_get_stats(runtime, device, &stats) == WARM_OK) {
        u->blocks = stats.all.live.allocated;
        u->blocks_reused = stats.cache_hits;
        u->blocks_live = stats.all.live.current;
        u->held = stats.all.held_bytes.current;
        u->held_peak = stats.all.held_bytes.peak;
        u->in_use = stats.all.live_bytes.current;
        u->in_use_peak = stats.all.live_bytes.peak;
        u->memory_calls = stats.driver_alloc.count + stats.driver_free.count;
    }
}

static void read_calls(warm_runtime *runtime, usage *u)
{
    const char *name;

    for (int i = 0; (name = warm_testing_call_name(i)) != NULL; i++) {
        uint64_t count = 0;

        if (warm_testing_calls(runtime, name, &count) == WARM_OK) {
            u->calls += count;
        }
    }
}

void usage_read(warm_runtime *runtime, int device, usage *u)
{
    warm_space_stats pinned = WARM_INIT(warm_space_stats);

    memset(u, 0, sizeof *u);
    read_handles(runtime, device, u);
    if (warm_pinned_get_stats(runtime, &pinned) == WARM_OK) {
        u->pinned = pinned.live.allocated;
        u->pinned_reused = pinned.cache_hits;
        u->pinned_live = pinned.live.current;
    }
    read_memory(runtime, device, u);
    read_calls(runtime, u);
}
