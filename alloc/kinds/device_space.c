/* device_space.c: see device_space.h. */
#include "alloc/kinds/device_space.h"

#include "alloc/cache/magazine.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

static wm_device_space *of_space(wm_space *space)
{
    return (wm_device_space *)space;
}

/* Before the space grows by so much: what was idle longest goes, if there is
 * more than the threshold then. */
static void collect(wm_device_space *d, size_t bytes)
{
    size_t most = atomic_load_explicit(&d->collect_bytes, memory_order_relaxed);
    warm_space_stats stats = {.size = sizeof stats};
    size_t after;

    if (most == 0) {
        return;
    }
    wm_space_stats(&d->space, &stats);
    after = stats.held_bytes.current + bytes;
    if (after > most) {
        wm_cache_flush_all(&d->space.group);
        wm_growth_collect(&d->space, d->space.group.arenas, after - most);
    }
}

/* Memory that nobody can use. It stays with the process while a stream
 * captures. */
static void give_up(wm_space *space, int device, void *memory)
{
    wm_breaking breaking;

    if (wm_space_begin_break(space, &breaking)) {
        (void)wm_driver_device_free(space->driver, device, memory);
        wm_space_end_break(space, &breaking);
    }
}

static warm_status obtain(wm_space *space, int node, size_t bytes, void **base)
{
    int device = of_space(space)->device;
    void *got = NULL;
    warm_status status;

    (void)node;
    collect(of_space(space), bytes);
    status = wm_driver_device_alloc(space->driver, device, bytes, &got);
    /* The page map is by pages. CUDA aligns what is as large as a segment to
     * much more. */
    if (status == WARM_OK && ((uintptr_t)got & (WM_PAGE - 1)) != 0) {
        give_up(space, device, got);
        return wm_fail(WARM_UNSUPPORTED,
                       "device %d: the driver gave %s at %p, which is not the "
                       "start of a page",
                       device, wm_bytes(bytes).text, got);
    }
    if (status == WARM_OK) {
        *base = got;
    }
    return status;
}

static warm_status give_back(wm_space *space, void *base, size_t bytes)
{
    (void)bytes;
    return wm_driver_device_free(space->driver, of_space(space)->device, base);
}

static bool share(wm_space *space, const wm_request *request, bool is_short)
{
    wm_lane_registry *orders = request->arena->orders;

    return orders != NULL && request->lane != NULL && of_space(space)->waits &&
           wm_lanes_wait_for_streams(orders, request->lane,
                                     wm_size_run_bytes(request->bytes),
                                     is_short);
}

static void describe(wm_space *space, char *text, size_t bytes)
{
    int device = of_space(space)->device;
    size_t free = 0, total = 0;

    if (wm_driver_device_memory(space->driver, device, &free, &total) ==
        WARM_OK) {
        snprintf(text, bytes, " on device %d, of %s, %s of them free", device,
                 wm_bytes(total).text, wm_bytes(free).text);
    } else {
        snprintf(text, bytes, " on device %d", device);
    }
}

/* ---- segments that stretch ---------------------------------------------- */

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Of all that the device has, and an eighth more: there may be holes that are
 * too small. Only addresses; where so many cannot be had half as many will do,
 * and so on, down to what is needed: there may be several ranges. */
static warm_status reserve(wm_space *space, size_t needed, void **base,
                           size_t *bytes)
{
    int device = of_space(space)->device;
    size_t free = 0, total = 0, unit = space->group.arenas->unit, most, all;
    warm_error before = {.size = sizeof before};
    warm_status status =
        wm_driver_device_memory(space->driver, device, &free, &total);

    if (status != WARM_OK) {
        return status;
    }
    if (needed > total) {
        return wm_fail(WARM_OUT_OF_MEMORY, "the device has %s in all",
                       wm_bytes(total).text);
    }
    warm_last_error(&before);
    most = total + total / 8;
    do {
        all = round_up(most > needed ? most : needed, unit);
        status = wm_driver_range_reserve(space->driver, device, all, base);
        most /= 2;
    } while (status == WARM_OUT_OF_MEMORY && all > round_up(needed, unit));
    if (status == WARM_OK) {
        wm_error_restore(&before);
        *bytes = all;
    }
    return status;
}

static warm_status release(wm_space *space, void *base, size_t bytes)
{
    return wm_driver_range_release(space->driver, of_space(space)->device, base,
                                   bytes);
}

static void prepare(wm_space *space, size_t bytes)
{
    collect(of_space(space), bytes);
}

static warm_status commit(wm_space *space, void *base, size_t offset,
                          size_t bytes, bool *torn)
{
    return wm_driver_range_commit(space->driver, of_space(space)->device, base,
                                  offset, bytes, torn);
}

static warm_status decommit(wm_space *space, void *base, size_t offset,
                            size_t bytes)
{
    return wm_driver_range_decommit(space->driver, of_space(space)->device,
                                    base, offset, bytes);
}

static bool settle(wm_space *space, enum wm_settle whose)
{
    wm_lane_registry *orders = &of_space(space)->orders;

    return whose == WM_SETTLE_DEVICE
               ? wm_lanes_sync_device(orders)
               : wm_lanes_sync_streams(orders, whose == WM_SETTLE_PENDING);
}

static const wm_range_traits device_ranges = {.reserve = reserve,
                                              .release = release,
                                              .prepare = prepare,
                                              .commit = commit,
                                              .decommit = decommit,
                                              .settle = settle};

static const wm_space_traits device_traits = {.name = "device",
                                              .obtain = obtain,
                                              .give_back = give_back,
                                              .share = share,
                                              .describe = describe,
                                              .ranges = &device_ranges,
                                              .nodeless = true,
                                              .laned = true};

/* By what its segments stretch. A device that cannot is no error: the choice
 * is said. */
static warm_status choose_unit(wm_device_space *d, const wm_options *options)
{
    size_t unit = 0;
    warm_status status;

    if (strcmp(options->expandable_segments, "on") != 0) {
        return WARM_OK;
    }
    status = wm_driver_range_unit(d->space.driver, d->device, &unit);
    if (status == WARM_OK && unit == 0) {
        wm_log(WARM_LOG_WARNING,
               "option expandable_segments: device %d has no virtual memory; "
               "its segments do not expand",
               d->device);
    }
    for (unsigned i = 0; i < d->space.group.shards; i++) {
        d->space.group.arenas[i].unit = unit;
    }
    return status;
}

static void end_one(wm_device_space *d)
{
    wm_imports_fini(&d->imports);
    wm_lane_registry_fini(&d->orders);
    wm_space_fini(&d->space);
}

static warm_status open_one(warm_runtime *runtime, const wm_options *options,
                            int device, wm_device_space *d)
{
    wm_timelines *timelines = &runtime->pinned->timelines;
    warm_status status =
        wm_space_init(&d->space, &device_traits, runtime, timelines, options);

    if (status != WARM_OK) {
        return status;
    }
    status = wm_lane_registry_init(&d->orders, timelines,
                                   &d->space.group.arenas[0], device);
    if (status != WARM_OK) {
        wm_space_fini(&d->space);
        return status;
    }
    wm_imports_init(&d->imports, runtime->driver, device);
    d->imports.timelines = timelines;
    d->device = device;
    d->space.group.device = device;
    d->space.group.place = (uint64_t)device;
    d->fraction = d->threshold = 1;
    d->waits = strcmp(options->stream_wait, "off") != 0;
    d->space.shares = strcmp(options->stream_wait, "grow") == 0;
    d->space.poller = &runtime->pinned->space;
    d->space.group.waker = &d->space.poller->background.waker;
    d->space.group.segment_bytes =
        round_up(d->space.group.segment_bytes, WM_DEVICE_GRAIN);
    for (unsigned i = 0; i < d->space.group.shards; i++) {
        d->space.group.arenas[i].orders = &d->orders;
        d->space.group.arenas[i].grain = WM_DEVICE_GRAIN;
        d->space.group.arenas[i].small_max = WM_DEVICE_SMALL;
        d->space.group.arenas[i].sorted = &d->sorted[i];
    }
    wm_lives_sort(d->space.group.arenas[0].live);
    atomic_store_explicit(&d->space.limit_bytes, 0, memory_order_relaxed);
    status = choose_unit(d, options);
    if (status != WARM_OK) {
        end_one(d);
    }
    return status;
}

static void end_spaces(wm_device_space *spaces, int count)
{
    while (count-- > 0) {
        end_one(&spaces[count]);
    }
    wm_meta_free(spaces);
}

warm_status wm_device_spaces_open(warm_runtime *runtime,
                                  const wm_options *options)
{
    size_t bytes = (size_t)runtime->devices * sizeof(wm_device_space);
    wm_device_space *spaces = wm_meta_alloc(bytes);

    if (spaces == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    for (int i = 0; i < runtime->devices; i++) {
        warm_status status = open_one(runtime, options, i, &spaces[i]);

        if (status != WARM_OK) {
            end_spaces(spaces, i);
            return status;
        }
    }
    runtime->device_spaces = spaces;
    return WARM_OK;
}

/* What has passed is found by the trims that follow: CUDA waits for the device
 * while memory goes back, and the host device has done so when it is drained.
 */
void wm_device_spaces_drain(warm_runtime *runtime)
{
    size_t released;

    if (!wm_timelines_any(&runtime->pinned->timelines)) {
        return;
    }
    wm_driver_drain(runtime->driver);
    (void)wm_space_trim(&runtime->pinned->space, 0, &released);
    for (int i = 0; i < runtime->devices; i++) {
        (void)wm_space_trim(&runtime->device_spaces[i].space, 0, &released);
    }
}

/* From an arena on, the first one of a private pool that has streams. */
static wm_arena *pool_arena(wm_arena *a)
{
    while (a != NULL && (a->pool == NULL || a->orders == NULL)) {
        a = a->next_arena;
    }
    return a;
}

/* Workspaces of handles: the device's as well, and gone with it. */
static size_t lost_beside(wm_space *space)
{
    size_t bytes;

    wm_lock_acquire(&space->growth.lock);
    bytes = wm_space_is_lost(space) ? space->beside_bytes : 0;
    wm_lock_release(&space->growth.lock);
    return bytes;
}

void wm_device_spaces_stop(warm_runtime *runtime, warm_destroy_report *report)
{
    for (int i = 0; i < runtime->devices; i++) {
        wm_device_space *d = &runtime->device_spaces[i];
        warm_space_stats stats = {.size = sizeof stats};
        size_t released;

        report->imports += wm_imports_stop(&d->imports);
        (void)wm_space_trim(&d->space, 0, &released);
        wm_growth_end_ranges(&d->space);
        wm_space_stats(&d->space, &stats);
        report->live += stats.live.current;
        report->live_bytes += stats.live_bytes.current;
        report->pending += stats.pending.current;
        report->lost_bytes += stats.reset_bytes + lost_beside(&d->space);
        wm_space_forget(&d->space);
        wm_lane_registry_forget(&d->orders);
        for (wm_arena *a = pool_arena(wm_group_arenas(&d->space.group));
             a != NULL; a = pool_arena(a->next_arena)) {
            wm_lane_registry_forget(a->orders);
        }
    }
}

void wm_device_spaces_close(warm_runtime *runtime)
{
    end_spaces(runtime->device_spaces, runtime->devices);
    runtime->device_spaces = NULL;
}

void wm_device_spaces_retire(warm_runtime *runtime, warm_stream stream,
                             const wm_stream_info *info)
{
    for (int i = 0; i < runtime->devices; i++) {
        wm_device_space *d = &runtime->device_spaces[i];

        if (info->device != i && info->device != WM_DEVICE_UNKNOWN) {
            continue;
        }
        wm_lane_registry_retire(&d->orders, stream, info);
        for (wm_arena *a = pool_arena(wm_group_arenas(&d->space.group));
             a != NULL; a = pool_arena(a->next_arena)) {
            wm_lane_registry_retire(a->orders, stream, info);
        }
    }
}

bool wm_device_space_claim(warm_runtime *runtime, int device, size_t bytes)
{
    wm_space *space = &runtime->device_spaces[device].space;
    size_t released;

    for (bool trimmed = false;; trimmed = true) {
        wm_lock_acquire(&space->growth.lock);
        size_t limit = wm_space_limit(space);
        size_t others = space->beside_bytes + bytes;
        bool fits = limit == 0 || (others <= limit &&
                                   space->growth.held + space->growth.coming <=
                                       limit - others);
        if (fits) {
            space->beside_bytes = others;
        }
        wm_lock_release(&space->growth.lock);
        if (fits || trimmed || others > limit ||
            wm_space_trim(space, limit - others, &released) != WARM_OK) {
            return fits;
        }
    }
}

void wm_device_space_unclaim(warm_runtime *runtime, int device, size_t bytes)
{
    wm_space *space = &runtime->device_spaces[device].space;

    wm_lock_acquire(&space->growth.lock);
    space->beside_bytes -= bytes;
    space->growth.vacated++; /* a request that the limit refused may retry */
    wm_cond_broadcast(&space->growth.over);
    wm_lock_release(&space->growth.lock);
}
