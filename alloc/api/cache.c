/* cache.c: the public functions that trim and limit cached memory (memory.h)
 * and read its statistics (stats.h). */
#include "alloc/cache/magazine.h"
#include "runtime/thread/home_node.h"
#include "alloc/kinds/pageable.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "warmpool/memory.h"

/* ---- the cache -------------------------------------------------------- */

warm_status warm_poll(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
    return wm_space_poll(&runtime->pinned->space);
}

warm_status warm_pinned_trim(warm_runtime *runtime, size_t target,
                             size_t *released)
{
    warm_status status = wm_runtime_check(runtime);
    size_t bytes = 0;

    if (status == WARM_OK) {
        wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
        status = wm_space_trim(&runtime->pinned->space, target, &bytes);
    }
    if (status == WARM_OK) {
        wm_event_pool_trim(&runtime->pinned->events);
    }
    if (status == WARM_OK && released != NULL) {
        *released = bytes;
    }
    return status;
}

warm_status warm_pinned_empty_cache(warm_runtime *runtime, size_t *released)
{
    return warm_pinned_trim(runtime, 0, released);
}

warm_status warm_memory_callback_add(warm_runtime *runtime,
                                     warm_memory_fn function, void *context)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && function == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "function is null");
    }
    if (status == WARM_OK) {
        status =
            wm_space_callback_add(&runtime->pinned->space, function, context);
    }
    return status;
}

warm_status warm_memory_callback_remove(warm_runtime *runtime,
                                        warm_memory_fn function, void *context)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && function == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "function is null");
    }
    if (status == WARM_OK) {
        status = wm_space_callback_remove(&runtime->pinned->space, function,
                                          context);
    }
    return status;
}

/* ---- statistics (stats.h) --------------------------------------------- */

warm_status warm_pinned_get_stats(warm_runtime *runtime,
                                  warm_space_stats *stats)
{
    warm_space_stats all = {.size = sizeof all};
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        status = wm_sized_check(stats, sizeof all, "warm_space_stats");
    }
    if (status == WARM_OK) {
        wm_space_settled_stats(&runtime->pinned->space, WM_NODE_UNKNOWN, &all);
        wm_pageable_stats(&runtime->pinned->pageable, &all);
        wm_sized_out(stats, &all, sizeof all);
    }
    return status;
}

warm_status warm_pinned_get_node_stats(warm_runtime *runtime, int node,
                                       warm_space_stats *stats)
{
    warm_space_stats all = {.size = sizeof all};
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        status = wm_sized_check(stats, sizeof all, "warm_space_stats");
    }
    if (status == WARM_OK) {
        status = wm_node_check_range(runtime, node);
    }
    if (status == WARM_OK) {
        wm_space_settled_stats(&runtime->pinned->space, node, &all);
        wm_sized_out(stats, &all, sizeof all);
    }
    return status;
}

int warm_pinned_class_count(void)
{
    return WM_CLASSES_ALL;
}

warm_status warm_pinned_get_class_stats(warm_runtime *runtime, int index,
                                        warm_class_stats *stats)
{
    warm_class_stats all = {.size = sizeof all};
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        status = wm_sized_check(stats, sizeof all, "warm_class_stats");
    }
    if (status != WARM_OK) {
        return status;
    }
    if (index < 0 || index >= WM_CLASSES_ALL) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "size class %d is not one of 0 to %d", index,
                       WM_CLASSES_ALL - 1);
    }
    wm_space_settled_class_stats(&runtime->pinned->space, (unsigned)index,
                                 &all);
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}

warm_status warm_pinned_reset_peaks(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_cache_merge_stats(&runtime->pinned->space.group);
        wm_space_reset_peaks(&runtime->pinned->space);
        wm_space_reset_peaks(&runtime->pinned->pageable);
    }
    return status;
}

warm_status warm_pinned_reset_totals(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_cache_merge_stats(&runtime->pinned->space.group);
        wm_space_reset_totals(&runtime->pinned->space);
        wm_space_reset_totals(&runtime->pinned->pageable);
    }
    return status;
}
