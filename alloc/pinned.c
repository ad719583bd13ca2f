/* pinned.c: page-locked memory as a space, and its public functions. */
#include "alloc/pinned.h"

#include "alloc/page_map.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "warmpool/memory.h"

static warm_status obtain(wm_driver *driver, size_t bytes, void **base)
{
    return wm_driver_pinned_alloc(driver, bytes, base);
}

static warm_status give_back(wm_driver *driver, void *base, size_t bytes)
{
    return wm_driver_pinned_free(driver, base, bytes);
}

static const wm_space_traits pinned_traits = {
    .name = "pinned", .obtain = obtain, .give_back = give_back};

/* ---- for runtime.c ---------------------------------------------------- */

warm_status wm_pinned_open(warm_runtime *runtime, const wm_options *options,
                           wm_pinned **pinned)
{
    wm_pinned *p = wm_meta_alloc(sizeof *p);
    warm_status status;

    if (p == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    status = wm_event_pool_init(&p->events, runtime->driver);
    if (status != WARM_OK) {
        wm_meta_free(p);
        return status;
    }
    wm_timelines_init(&p->timelines, runtime->driver, &p->events,
                      wm_space_finish);
    wm_space_init(&p->space, &pinned_traits, runtime, &p->timelines, options);
    *pinned = p;
    return WARM_OK;
}

static void report_left(wm_pinned *pinned, warm_destroy_report *report)
{
    const warm_space_stats *stats = &pinned->space.arena.stats;

    report->blocks += stats->requests.current;
    report->block_bytes += stats->block_bytes.current;
    report->pending += stats->pending.current;
}

void wm_pinned_close(wm_pinned *pinned, warm_destroy_report *report)
{
    size_t released;

    if (pinned == NULL) {
        return;
    }
    (void)wm_space_trim(&pinned->space, 0, &released);
    report_left(pinned, report);
    wm_space_forget(&pinned->space);
    wm_timelines_fini(&pinned->timelines);
    (void)wm_event_pool_fini(&pinned->events);
    wm_space_fini(&pinned->space);
    wm_meta_free(pinned);
}

void wm_pinned_retire(wm_pinned *pinned, warm_stream stream,
                      const wm_stream_info *info)
{
    wm_space_retire(&pinned->space, stream, info);
}

/* ---- blocks (memory.h) ------------------------------------------------ */

warm_status warm_pinned_alloc(warm_runtime *runtime, size_t bytes,
                              void **pointer)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    if (pointer == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "pointer is null");
    }
    if (bytes == 0) {
        *pointer = NULL;
        return WARM_OK;
    }
    if (bytes > WM_REQUEST_MAX) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "%zu bytes of pinned memory were asked for, more than "
                       "any machine has",
                       bytes);
    }
    return wm_space_alloc(&runtime->pinned->space, bytes, pointer);
}

static warm_status not_a_block(const void *pointer, const wm_block *block)
{
    if (block != NULL) {
        return wm_fail(WARM_INVALID_POINTER,
                       "%p is not the start of a live block: it points into "
                       "one, or was freed already",
                       pointer);
    }
    return wm_fail(WARM_INVALID_POINTER,
                   "%p was not allocated here, or its runtime is gone",
                   pointer);
}

/* LIVE → FREEING, so that of two frees of one pointer one is refused. The base
 * is looked at again: the record of a stale pointer may serve another block. */
static bool claim(wm_block *block, const void *pointer)
{
    int live = WM_BLOCK_LIVE;

    if (!atomic_compare_exchange_strong_explicit(
            &block->state, &live, WM_BLOCK_FREEING, memory_order_acquire,
            memory_order_relaxed)) {
        return false;
    }
    if (block->base != pointer) {
        atomic_store_explicit(&block->state, WM_BLOCK_LIVE,
                              memory_order_release);
        return false;
    }
    return true;
}

warm_status warm_free(void *pointer)
{
    wm_block *block;
    warm_status status;

    if (pointer == NULL) {
        return WARM_OK;
    }
    block = wm_block_at(pointer);
    /* The state first: only a live block says truly whose it is. And nothing
     * is claimed for a pointer into the middle, not even for a moment: the
     * block's owner may free it right now. */
    if (block == NULL || wm_space_find(pointer) != block ||
        block->base != pointer) {
        return not_a_block(pointer, block);
    }
    status = wm_runtime_check(wm_space_of(block)->runtime);
    if (status != WARM_OK) {
        return status;
    }
    if (!claim(block, pointer)) {
        return not_a_block(pointer, block);
    }
    wm_space_free(wm_space_of(block), block);
    return WARM_OK;
}

static warm_status find_live(const void *pointer, wm_block **block)
{
    *block = wm_space_find(pointer);
    if (*block == NULL) {
        return wm_fail(WARM_NOT_FOUND, "%p is not part of a live block",
                       pointer);
    }
    return wm_runtime_check(wm_space_of(*block)->runtime);
}

warm_status warm_record_stream(const void *pointer, warm_stream stream)
{
    wm_block *block;
    warm_status status = find_live(pointer, &block);

    if (status == WARM_OK) {
        status = wm_space_record(wm_space_of(block), block, stream);
    }
    return status;
}

warm_status warm_block_get_info(const void *pointer, warm_block_info *info)
{
    wm_block *block;
    warm_status status = wm_sized_check(info, sizeof *info, "warm_block_info");

    if (status == WARM_OK) {
        status = find_live(pointer, &block);
    }
    if (status == WARM_OK) {
        warm_block_info all = {.base = block->base,
                               .bytes = block->bytes,
                               .requested = block->requested,
                               .runtime = wm_space_of(block)->runtime,
                               .streams = wm_timelines_streams(block)};

        wm_sized_out(info, &all, sizeof all);
    }
    return status;
}

/* ---- the cache -------------------------------------------------------- */

warm_status warm_poll(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    return status != WARM_OK ? status : wm_space_poll(&runtime->pinned->space);
}

warm_status warm_trim(warm_runtime *runtime, size_t target, size_t *released)
{
    warm_status status = wm_runtime_check(runtime);
    size_t bytes = 0;

    if (status == WARM_OK) {
        status = wm_space_trim(&runtime->pinned->space, target, &bytes);
    }
    if (status == WARM_OK && released != NULL) {
        *released = bytes;
    }
    return status;
}

warm_status warm_empty_cache(warm_runtime *runtime, size_t *released)
{
    return warm_trim(runtime, 0, released);
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
        wm_arena_stats(&runtime->pinned->space.arena, &all);
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
    wm_arena_class_stats(&runtime->pinned->space.arena, (unsigned)index, &all);
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}

warm_status warm_stats_reset_peaks(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_arena_reset_peaks(&runtime->pinned->space.arena);
    }
    return status;
}

warm_status warm_stats_reset_totals(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_arena_reset_totals(&runtime->pinned->space.arena);
    }
    return status;
}
