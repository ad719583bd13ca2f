/* cache.c: the public functions that control what a runtime caches, page-locked
 * and of devices, and that read its statistics: trim, prewarm, limits,
 * callbacks (memory.h, device_memory.h, stats.h). */
#include "warmpool/device_memory.h"

#include "alloc/arena/arena.h"
#include "alloc/cache/magazine.h"
#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/space/space.h"
#include "runtime/base/bytes.h"
#include "runtime/base/sized.h"
#include "runtime/thread/home_node.h"
#include "warmpool/memory.h"

#include <string.h>

static wm_space *device_space(warm_runtime *runtime, int device)
{
    return &runtime->device_spaces[device].space;
}

/* ---- trimming ----------------------------------------------------------- */

warm_status warm_poll(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
    return wm_space_poll(&runtime->pinned->space);
}

/* device: the device to check for a reset, or WM_DEVICE_UNKNOWN for all. */
static warm_status trim(wm_space *space, int device, size_t target,
                        size_t *released)
{
    size_t bytes = 0;

    wm_driver_notice_reset(space->driver, device);
    warm_status status = wm_space_trim(space, target, &bytes);
    if (status != WARM_OK) {
        return status;
    }
    wm_event_pool_trim(&space->group.runtime->pinned->events);
    if (released != NULL) {
        *released = bytes;
    }
    return WARM_OK;
}

/* Returns idle write-combined memory, as much as is above target in all;
 * *target: of what is left for the page-locked space. */
static warm_status trim_combined(wm_pinned *pinned, size_t *target,
                                 size_t *released)
{
    wm_space *combined = &pinned->combined;
    size_t held = wm_growth_held(&combined->growth);
    size_t stays = wm_growth_held(&pinned->space.growth);
    warm_status status;

    if (held == 0) {
        return WARM_OK;
    }
    /* What the page-locked space holds counts first. */
    stays = *target > stays ? *target - stays : 0;
    status = trim(combined, WM_DEVICE_UNKNOWN, stays, released);
    held = wm_growth_held(&combined->growth);
    *target = *target > held ? *target - held : 0;
    return status;
}

warm_status warm_pinned_trim(warm_runtime *runtime, size_t target,
                             size_t *released)
{
    size_t combined = 0, bytes = 0;
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK || (status = trim_combined(runtime->pinned, &target,
                                                     &combined)) != WARM_OK) {
        return status;
    }
    status = trim(&runtime->pinned->space, WM_DEVICE_UNKNOWN, target, &bytes);
    if (status == WARM_OK && released != NULL) {
        *released = combined + bytes;
    }
    return status;
}

warm_status warm_device_trim(warm_runtime *runtime, int device, size_t target,
                             size_t *released)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    return status == WARM_OK
               ? trim(device_space(runtime, device), device, target, released)
               : status;
}

/* ---- callbacks ---------------------------------------------------------- */

/* Events that only slow paths report. */
enum {
    OF_BLOCKS =
        WARM_MEMORY_ALLOCATED | WARM_MEMORY_RECYCLED | WARM_MEMORY_FREED,
    OF_SEGMENTS = WARM_MEMORY_OBTAINED | WARM_MEMORY_RETURNING
};

static warm_status check_callback(const warm_memory_callback *callback)
{
    unsigned all = 0;

#define ADD(name, value, meaning) all |= (unsigned)(value);
    WARM_MEMORY_EVENT_MAP(ADD)
#undef ADD
    if (callback->name == NULL || callback->name[0] == '\0' ||
        strlen(callback->name) >= WARM_CALLBACK_NAME) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "the name of a memory callback has 1 to %d characters",
                       WARM_CALLBACK_NAME - 1);
    }
    if (callback->events == 0 || (callback->events & ~all) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "memory callback '%s': events 0x%x are not of "
                       "warm_memory_event, 0x1 to 0x%x",
                       callback->name, callback->events, all);
    }
    if (callback->function == NULL &&
        (callback->events & ~(unsigned)OF_SEGMENTS) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "memory callback '%s': function is null",
                       callback->name);
    }
    if (callback->segment == NULL && (callback->events & OF_SEGMENTS) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "memory callback '%s': its events OBTAINED and "
                       "RETURNING need segment, which is null",
                       callback->name);
    }
    return WARM_OK;
}

/* From then on no allocation and no free is a hit, which would not be heard.
 * What streams' caches have is flushed: only hits allocate from them. */
static warm_status hear_blocks(warm_runtime *runtime)
{
    if (wm_runtime_is_traced(runtime)) {
        return WARM_OK;
    }
    if (!wm_window_slow_all(runtime)) {
        return wm_fail(WARM_UNSUPPORTED,
                       "no memory callback can hear of blocks: the kernel "
                       "refuses membarrier() by now; add one earlier");
    }
    /* Relaxed: a thread whose call is slow sees it, or is beside the addition.
     */
    atomic_store_explicit(&runtime->traced, true, memory_order_relaxed);
    for (int i = 0; i < runtime->devices; i++) {
        wm_cache_flush_all(&device_space(runtime, i)->group);
    }
    return WARM_OK;
}

warm_status warm_memory_callback_add(warm_runtime *runtime,
                                     const warm_memory_callback *callback)
{
    warm_memory_callback full = {.size = sizeof full};
    warm_status status = wm_check_out(wm_runtime_check(runtime), callback,
                                      sizeof full, "warm_memory_callback");

    if (status != WARM_OK) {
        return status;
    }
    wm_sized_in(&full, callback, sizeof full);
    status = check_callback(&full);
    /* A name that is in use is refused below, and closes no window. */
    if (status == WARM_OK && (full.events & OF_BLOCKS) != 0 &&
        !wm_listeners_has(&runtime->listeners, full.name)) {
        status = hear_blocks(runtime);
    }
    return status == WARM_OK ? wm_listeners_add(&runtime->listeners, &full)
                             : status;
}

warm_status warm_memory_callback_remove(warm_runtime *runtime, const char *name)
{
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), name, "name");

    return status == WARM_OK ? wm_listeners_remove(&runtime->listeners, name)
                             : status;
}

/* ---- prewarming --------------------------------------------------------- */

/* Replaces WARM_NODE_ANY by the thread's own node. */
static warm_status check_prewarm(warm_runtime *runtime, size_t bytes, int *node,
                                 unsigned flags)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    if ((flags & ~WARM_PREWARM_BACKGROUND) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "unknown flags %#x: the only flag is "
                       "WARM_PREWARM_BACKGROUND",
                       flags);
    }
    if (bytes > WM_REQUEST_MAX) {
        return wm_fail(
            WARM_OUT_OF_MEMORY,
            "cannot prewarm %s of pinned memory: more than any machine has",
            wm_bytes(bytes).text);
    }
    if (*node != WARM_NODE_ANY) {
        return wm_node_check(runtime, *node);
    }
    *node = wm_node_home(runtime);
    return WARM_OK;
}

warm_status warm_pinned_prewarm_with(warm_runtime *runtime, size_t bytes,
                                     int node, unsigned flags,
                                     const warm_prewarm_options *options)
{
    warm_prewarm_options how = {.size = sizeof how};
    wm_space *space;
    warm_status status = check_prewarm(runtime, bytes, &node, flags);

    if (status == WARM_OK && options != NULL) {
        status = wm_sized_check(options, sizeof how, "warm_prewarm_options");
    }
    if (status != WARM_OK) {
        return status;
    }
    if (options != NULL) {
        wm_sized_in(&how, options, sizeof how);
    }
    space = &runtime->pinned->space;
    return (flags & WARM_PREWARM_BACKGROUND) != 0
               ? wm_prewarm_queue(&space->background, node, bytes, &how)
               : wm_prewarm_now(space, node, bytes, &how);
}

warm_status warm_pinned_prewarm(warm_runtime *runtime, size_t bytes, int node,
                                unsigned flags)
{
    return warm_pinned_prewarm_with(runtime, bytes, node, flags, NULL);
}

warm_status warm_pinned_prewarm_wait(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    /* A callback could wait for the thread that runs it, or for the growth
     * that it is part of. */
    if (status == WARM_OK && wm_callback_inside()) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "warm_pinned_prewarm_wait() in a callback of the "
                       "library could wait for itself; call it elsewhere");
    }
    return status != WARM_OK
               ? status
               : wm_prewarm_await(&runtime->pinned->space.background);
}

warm_status warm_pinned_prewarm_cancel(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_background *b = &runtime->pinned->space.background;

        wm_lock_acquire(&b->waker.lock);
        wm_prewarm_cancel_locked(b);
        wm_lock_release(&b->waker.lock);
    }
    return status;
}

warm_status warm_pinned_prewarm_progress(warm_runtime *runtime, uint64_t *done,
                                         uint64_t *wanted)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    if (done == NULL || wanted == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "done or wanted is null");
    }
    wm_background *b = &runtime->pinned->space.background;
    wm_lock_acquire(&b->waker.lock);
    *done = b->obtained;
    *wanted = b->wanted;
    wm_lock_release(&b->waker.lock);
    return WARM_OK;
}

/* ---- statistics --------------------------------------------------------- */

warm_status warm_pinned_get_stats(warm_runtime *runtime,
                                  warm_space_stats *stats)
{
    warm_space_stats all = {.size = sizeof all};
    warm_space_stats combined = {.size = sizeof combined};
    warm_space_stats pageable = {.size = sizeof pageable};
    warm_space_stats adopted = {.size = sizeof adopted};
    warm_status status = wm_check_out(wm_runtime_check(runtime), stats,
                                      sizeof all, "warm_space_stats");

    if (status != WARM_OK) {
        return status;
    }
    wm_space_settled_stats(&runtime->pinned->space, WM_NODE_UNKNOWN, &all);
    wm_space_stats(&runtime->pinned->combined, &combined);
    wm_stats_add(&all, &combined);
    wm_space_stats(&runtime->pinned->pageable, &pageable);
    all.huge_bytes = wm_huge_bytes_read(&runtime->pinned->space, "",
                                        &runtime->pinned->huge_bytes);
    all.pageable = pageable.live;
    all.pageable_bytes = pageable.live_bytes;
    all.pageable_pending = pageable.pending;
    all.pageable_held = pageable.held_bytes;
    all.pageable_lost = pageable.lost_bytes;
    wm_space_stats(&runtime->pinned->adopted.space, &adopted);
    all.adopted = adopted.live;
    all.adopted_bytes = adopted.live_bytes;
    all.adopted_pending = adopted.pending;
    all.adopted_held = adopted.held_bytes;
    all.overruns += pageable.overruns;
    all.late_writes += pageable.late_writes;
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}

/* space: not read unless the status is OK. */
static warm_status get_histograms(warm_status status, const wm_space *space,
                                  warm_space_histograms *histograms)
{
    warm_space_histograms sum = {.size = sizeof sum};

    status =
        wm_check_out(status, histograms, sizeof sum, "warm_space_histograms");
    if (status == WARM_OK) {
        wm_space_histograms(space, &sum);
        wm_sized_out(histograms, &sum, sizeof sum);
    }
    return status;
}

warm_status warm_pinned_get_histograms(warm_runtime *runtime,
                                       warm_space_histograms *histograms)
{
    warm_status status = wm_runtime_check(runtime);

    return get_histograms(
        status, status == WARM_OK ? &runtime->pinned->space : NULL, histograms);
}

warm_status warm_device_get_histograms(warm_runtime *runtime, int device,
                                       warm_space_histograms *histograms)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    return get_histograms(
        status, status == WARM_OK ? device_space(runtime, device) : NULL,
        histograms);
}

warm_status warm_pinned_get_node_stats(warm_runtime *runtime, int node,
                                       warm_space_stats *stats)
{
    warm_space_stats all = {.size = sizeof all};
    warm_status status = wm_check_out(wm_runtime_check(runtime), stats,
                                      sizeof all, "warm_space_stats");

    if (status == WARM_OK &&
        (status = wm_node_check_range(runtime, node)) == WARM_OK) {
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
    warm_status status = wm_check_out(wm_runtime_check(runtime), stats,
                                      sizeof all, "warm_class_stats");

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

warm_status warm_device_cache_info(warm_runtime *runtime, int device,
                                   warm_device_cache *info)
{
    warm_device_cache all = {.size = sizeof all};
    warm_space_stats stats = {.size = sizeof stats};
    warm_status status = wm_check_out(wm_runtime_check_device(runtime, device),
                                      info, sizeof all, "warm_device_cache");

    if (status != WARM_OK) {
        return status;
    }
    wm_space *space = device_space(runtime, device);
    wm_cache_merge_stats(&space->group);
    wm_space_stats(space, &stats);
    all.idle_bytes = stats.idle_bytes;
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        size_t largest;

        if (wm_arena_paused(a) > 0) { /* what is idle there serves nobody */
            size_t idle = wm_arena_idle(a);

            all.idle_bytes -= idle < all.idle_bytes ? idle : all.idle_bytes;
            continue;
        }
        largest = wm_arena_largest(a);
        if (largest > all.largest_bytes) {
            all.largest_bytes = largest;
        }
    }
    wm_sized_out(info, &all, sizeof all);
    return WARM_OK;
}

struct reading {
    wm_space *space;
    warm_device_stats *sum;
};

/* Reads one consistent moment: no thread's magazines change meanwhile. */
static void read_counted(void *context)
{
    const struct reading *reading = context;
    warm_device_stats *sum = reading->sum;

    for (wm_arena *a = wm_group_arenas(&reading->space->group); a != NULL;
         a = a->next_arena) {
        if (a->siblings == a) {
            wm_arena_sorted_stats(a, sum);
        }
    }
    wm_live_show(&reading->space->group.live, &sum->all.live,
                 &sum->all.live_bytes, &sum->all.held_bytes);
}

warm_status warm_device_get_stats(warm_runtime *runtime, int device,
                                  warm_device_stats *stats)
{
    warm_device_stats sum = {.size = sizeof sum};
    warm_status status = wm_check_out(wm_runtime_check_device(runtime, device),
                                      stats, sizeof sum, "warm_device_stats");

    if (status != WARM_OK) {
        return status;
    }
    wm_space *space = device_space(runtime, device);
    wm_cache_merge_stats_and_read(&space->group, read_counted,
                                  &(struct reading){space, &sum});
    /* Read while other threads run, since there may be many blocks. */
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        if (a->siblings == a) {
            wm_arena_split_stats(a, &sum);
        }
    }
    wm_lock_acquire(&space->growth.lock);
    sum.workspace_bytes = space->beside_bytes;
    sum.paused_bytes = space->growth.paused;
    wm_lock_release(&space->growth.lock);
    if (wm_space_is_lost(space)) {
        sum.reset_bytes = sum.all.held_bytes.current + sum.workspace_bytes;
    }
    wm_sized_out(stats, &sum, sizeof sum);
    return WARM_OK;
}

/* reset: wm_space_reset_peaks() or wm_space_reset_totals(). */
static warm_status reset_pinned(warm_runtime *runtime,
                                void (*reset)(wm_space *space))
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_cache_merge_stats(&runtime->pinned->space.group);
        reset(&runtime->pinned->space);
        reset(&runtime->pinned->pageable);
        reset(&runtime->pinned->combined);
        reset(&runtime->pinned->adopted.space);
    }
    return status;
}

static warm_status reset_device(warm_runtime *runtime, int device,
                                void (*reset)(wm_space *space))
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        wm_cache_merge_stats(&device_space(runtime, device)->group);
        reset(device_space(runtime, device));
    }
    return status;
}

warm_status warm_pinned_reset_peaks(warm_runtime *runtime)
{
    return reset_pinned(runtime, wm_space_reset_peaks);
}

warm_status warm_pinned_reset_totals(warm_runtime *runtime)
{
    return reset_pinned(runtime, wm_space_reset_totals);
}

warm_status warm_device_reset_peaks(warm_runtime *runtime, int device)
{
    return reset_device(runtime, device, wm_space_reset_peaks);
}

warm_status warm_device_reset_totals(warm_runtime *runtime, int device)
{
    return reset_device(runtime, device, wm_space_reset_totals);
}
