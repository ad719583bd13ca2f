/* device_memory.c: the public functions of device_memory.h. */
#include "warmpool/device_memory.h"

#include "alloc/device_space.h"
#include "alloc/magazine_lane.h"
#include "alloc/private_pool.h"
#include "alloc/stretch.h"
#include "alloc/traced.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

static wm_device_space *space_of(warm_runtime *runtime, int device)
{
    return &runtime->device_spaces[device];
}

/* The lane of a stream for a request, which holds it. epoch: as of before. */
static warm_status find_lane(wm_device_space *d, wm_orders *orders,
                             warm_stream stream, uint64_t epoch,
                             wm_request *request, bool *captured)
{
    wm_order_lane found;
    warm_status status;

    if (request->arena->pool == NULL &&
        wm_lane_is_known(&d->space, stream, request)) {
        return WARM_OK;
    }
    status = wm_orders_lane(orders, stream, &found);
    if (status == WARM_OK) {
        request->lane = found.lane;
        request->stream = stream;
        request->epoch =
            found.known && request->arena->pool == NULL ? epoch : 0;
        *captured = found.captured;
    }
    return status;
}

static warm_status alloc(wm_device_space *d, warm_stream stream, size_t bytes,
                         void **pointer)
{
    wm_request request = {.bytes = bytes, .arena = d->space.arenas};
    /* Acquire pairs with the release of who announces a capture: whoever sees
     * its epoch sees the capture, too, and keeps nothing. */
    uint64_t epoch = atomic_load_explicit(&d->space.runtime->stream_epoch,
                                          memory_order_acquire);
    bool captured = false;
    wm_orders *orders = &d->orders;
    wm_lane *held = NULL;
    warm_status status = WARM_OK;

    if (wm_private_routes(d->space.runtime)) {
        status = wm_private_route(&d->space, d->device, stream, &request);
        if (request.arena->pool != NULL) {
            orders = &request.arena->pool->orders;
        }
    }
    if (status == WARM_OK && request.lane == NULL) {
        status = find_lane(d, orders, stream, epoch, &request, &captured);
        held = request.lane;
    }
    if (status == WARM_OK) {
        status = wm_space_alloc(&d->space, &request, pointer);
    }
    if (held != NULL) {
        wm_lane_drop(request.arena, held);
    }
    if (request.arena->pool != NULL) {
        wm_private_routed(request.arena->pool);
    }
    if (status == WARM_OK && captured) {
        /* Relaxed: the caller has not got it yet. */
        atomic_store_explicit(&wm_space_find(*pointer)->captured, true,
                              memory_order_relaxed);
    }
    if (status == WARM_OK && wm_unlikely(d->space.runtime->told)) {
        wm_traced_alloc(d->space.runtime, *pointer, bytes);
    }
    return status;
}

static warm_status alloc_slow(warm_runtime *runtime, int device,
                              warm_stream stream, size_t bytes, void **pointer)
    __attribute__((noinline, cold));
static warm_status alloc_other(warm_runtime *runtime, int device,
                               warm_stream stream, size_t bytes, void **pointer)
    __attribute__((noinline));
static warm_status alloc_missed(wm_window *window, size_t bytes, void **pointer)
    __attribute__((noinline));

/* Whether the thread keeps anything for the stream, which it did not allocate
 * for last. */
static bool turn_to(wm_window *window, int device, warm_stream stream)
{
    bool found = false;

    if (wm_section_enter(&window->section)) {
        found = wm_lane_slot_of(window, device, stream) != NULL;
        wm_section_leave(&window->section);
    }
    return found;
}

/* It may be a hit yet. */
static warm_status alloc_other(warm_runtime *runtime, int device,
                               warm_stream stream, size_t bytes, void **pointer)
{
    wm_window *window = wm_window_mine();

    if (wm_magazine_may_hit(window, runtime, bytes, pointer) &&
        turn_to(window, device, stream) &&
        wm_lane_enter(window, runtime, wm_private_routing(runtime), device,
                      stream)) {
        return wm_lane_alloc(window, bytes, pointer)
                   ? WARM_OK
                   : alloc_missed(window, bytes, pointer);
    }
    return alloc_slow(runtime, device, stream, bytes, pointer);
}

/* For the stream that was allocated for last, which a hit does not keep at
 * hand. Without the section: others only end what the window has, while its
 * thread calls nothing. */
static warm_status alloc_missed(wm_window *window, size_t bytes, void **pointer)
{
    const wm_lane_slot *slot = window->lane_last;
    warm_runtime *runtime = window->owner;

    if (wm_lane_enter(window, runtime, wm_private_routing(runtime),
                      slot->device, slot->stream) &&
        wm_lane_alloc_larger(window, bytes, pointer)) {
        return WARM_OK;
    }
    return alloc_slow(runtime, slot->device, slot->stream, bytes, pointer);
}

warm_status warm_device_alloc(warm_runtime *runtime, int device,
                              warm_stream stream, size_t bytes, void **pointer)
{
    wm_window *window = wm_window_mine();

    if (!wm_magazine_may_hit(window, runtime, bytes, pointer) ||
        !wm_lane_enter(window, runtime, wm_private_routing(runtime), device,
                       stream)) {
        return alloc_other(runtime, device, stream, bytes, pointer);
    }
    if (wm_likely(wm_lane_alloc(window, bytes, pointer))) {
        return WARM_OK;
    }
    return alloc_missed(window, bytes, pointer);
}

static warm_status alloc_slow(warm_runtime *runtime, int device,
                              warm_stream stream, size_t bytes, void **pointer)
{
    warm_status status = wm_runtime_check_device(runtime, device);
    int cancel;

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
                       "%zu bytes of device %d were asked for, more than any "
                       "device has",
                       bytes, device);
    }
    cancel = wm_cancel_off();
    status = alloc(space_of(runtime, device), stream, bytes, pointer);
    wm_cancel_restore(cancel);
    return status;
}

warm_status warm_device_base_allocation(const void *pointer, void **base,
                                        size_t *bytes)
{
    wm_block *block = wm_space_find(pointer);

    if (block == NULL || wm_device_of_block(block) < 0) {
        return wm_fail(WARM_NOT_FOUND,
                       "%p is not part of a live block of a device", pointer);
    }
    if (base == NULL || bytes == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "%s is null",
                       base == NULL ? "base" : "bytes");
    }
    if (block->segment->unit > 0) {
        wm_stretch_extent(block, base, bytes);
        return WARM_OK;
    }
    *base = block->segment->base;
    *bytes = block->segment->bytes;
    return WARM_OK;
}

warm_status warm_device_cache_info(warm_runtime *runtime, int device,
                                   warm_device_cache *info)
{
    warm_device_cache all = {.size = sizeof all};
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = wm_sized_check(info, sizeof all, "warm_device_cache");
    }
    if (status == WARM_OK) {
        wm_space *space = &space_of(runtime, device)->space;
        warm_space_stats stats = {.size = sizeof stats};

        wm_magazines_settle_all(space);
        wm_space_stats(space, &stats);
        all.cached_bytes = stats.idle_bytes;
        for (wm_arena *a = wm_space_arenas(space); a != NULL;
             a = a->next_arena) {
            size_t largest = wm_arena_largest(a);

            if (largest > all.largest_bytes) {
                all.largest_bytes = largest;
            }
        }
        wm_sized_out(info, &all, sizeof all);
    }
    return status;
}

static void cap(warm_stat *stat, uint64_t most)
{
    if (stat->peak > most) {
        stat->peak = most;
    }
}

/* A part was never more than all, nor all more than its parts. */
static void cap_peaks(warm_device_stats *sum)
{
#define CAP(name, unit, meaning)                                               \
    cap(&sum->small.name, sum->all.name.peak);                                 \
    cap(&sum->large.name, sum->all.name.peak);                                 \
    cap(&sum->all.name, sum->small.name.peak + sum->large.name.peak);
    WARM_DEVICE_STAT_MAP(CAP)
#undef CAP
}

/* The arenas' figures; sum: zeros. */
static void sum_stats(wm_space *space, warm_device_stats *sum)
{
    warm_stat *held = &sum->all.reserved_bytes;
    uint64_t peak;

    wm_magazines_settle_all(space);
    for (wm_arena *a = wm_space_arenas(space); a != NULL; a = a->next_arena) {
        if (a->siblings == a) {
            wm_arena_sorted_stats(a, sum);
        }
    }
    peak = wm_growth_peak(&space->growth);
    /* Exact, while nothing comes or goes; see wm_space_stats(). */
    if (peak >= held->current && peak < held->peak) {
        held->peak = peak;
    }
    cap_peaks(sum);
}

warm_status warm_device_get_stats(warm_runtime *runtime, int device,
                                  warm_device_stats *stats)
{
    warm_device_stats all = {.size = sizeof all};
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = wm_sized_check(stats, sizeof all, "warm_device_stats");
    }
    if (status == WARM_OK) {
        sum_stats(&space_of(runtime, device)->space, &all);
        wm_sized_out(stats, &all, sizeof all);
    }
    return status;
}

warm_status warm_device_reset_peaks(warm_runtime *runtime, int device)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        wm_magazines_settle_all(&space_of(runtime, device)->space);
        wm_space_reset_peaks(&space_of(runtime, device)->space);
    }
    return status;
}

warm_status warm_device_reset_totals(warm_runtime *runtime, int device)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        wm_magazines_settle_all(&space_of(runtime, device)->space);
        wm_space_reset_totals(&space_of(runtime, device)->space);
    }
    return status;
}

warm_status warm_device_trim(warm_runtime *runtime, int device, size_t target,
                             size_t *released)
{
    warm_status status = wm_runtime_check_device(runtime, device);
    size_t bytes = 0;

    if (status == WARM_OK) {
        status =
            wm_space_trim(&space_of(runtime, device)->space, target, &bytes);
    }
    if (status == WARM_OK && released != NULL) {
        *released = bytes;
    }
    return status;
}

warm_status warm_device_empty_cache(warm_runtime *runtime, int device,
                                    size_t *released)
{
    return warm_device_trim(runtime, device, 0, released);
}

/* Not a number is out of range, too. */
static warm_status check_fraction(const char *name, double fraction)
{
    return fraction > 0 && fraction <= 1
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "%s %g of a device's memory: more than 0, at most 1",
                         name, fraction);
}

static size_t part_of(size_t total, double fraction)
{
    return fraction < 1 ? (size_t)((double)total * fraction) : 0;
}

/* Sets whichever of the two is not null. */
static warm_status set_limits(warm_runtime *runtime, int device,
                              const double *fraction, const double *threshold)
{
    size_t free = 0, total = 0;
    wm_device_space *d = space_of(runtime, device);
    warm_status status =
        wm_driver_device_memory(runtime->driver, device, &free, &total);

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&d->space.growth.lock);
    d->fraction = fraction != NULL ? *fraction : d->fraction;
    d->threshold = threshold != NULL ? *threshold : d->threshold;
    atomic_store_explicit(&d->space.limit_bytes, part_of(total, d->fraction),
                          memory_order_relaxed);
    atomic_store_explicit(
        &d->collect_bytes,
        d->threshold < 1 ? part_of(total, d->fraction * d->threshold) : 0,
        memory_order_relaxed);
    wm_lock_release(&d->space.growth.lock);
    return WARM_OK;
}

warm_status warm_device_set_memory_fraction(warm_runtime *runtime, int device,
                                            double fraction)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = check_fraction("fraction", fraction);
    }
    return status == WARM_OK ? set_limits(runtime, device, &fraction, NULL)
                             : status;
}

warm_status warm_device_set_collect_threshold(warm_runtime *runtime, int device,
                                              double threshold)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK) {
        status = check_fraction("threshold", threshold);
    }
    return status == WARM_OK ? set_limits(runtime, device, NULL, &threshold)
                             : status;
}

warm_status warm_device_get_memory_fraction(warm_runtime *runtime, int device,
                                            double *fraction)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK && fraction == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "fraction is null");
    }
    if (status == WARM_OK) {
        wm_device_space *d = space_of(runtime, device);

        wm_lock_acquire(&d->space.growth.lock);
        *fraction = d->fraction;
        wm_lock_release(&d->space.growth.lock);
    }
    return status;
}
