/* device_space.c: the memory of each device as a space. */
#include "alloc/kinds/device_space.h"

#include "alloc/cache/magazine.h"
#include "alloc/kinds/pinned.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"

#include <stdio.h>
#include <string.h>

static wm_device_space *of_space(wm_space *space)
{
    return (wm_device_space *)space;
}

warm_status wm_device_obtain(wm_space *space, int device, bool managed,
                             size_t bytes, void **base)
{
    wm_breaking breaking;
    void *got = NULL;
    warm_status status =
        managed ? wm_driver_managed_alloc(space->driver, device, bytes, &got)
                : wm_driver_device_alloc(space->driver, device, bytes, &got);

    if (status != WARM_OK) {
        return status;
    }
    /* The page map has one entry per page, so a segment must start a page; CUDA
     * aligns segments to much more. */
    if (((uintptr_t)got & (WM_PAGE - 1)) == 0) {
        *base = got;
        return WARM_OK;
    }
    /* While a stream captures, the memory is leaked: to free it would break the
     * capture. */
    if (wm_space_begin_break(space, &breaking)) {
        (void)wm_driver_device_free(space->driver, device, got);
        wm_space_end_break(space, &breaking);
    }
    return wm_fail(WARM_UNSUPPORTED,
                   "device %d: the driver returned %s at %p, not the "
                   "start of a page",
                   device, wm_bytes(bytes).text, got);
}

/* ---- segments of pausable pools ------------------------------------------ */

/* A range of addresses, with memory mapped into all of it. If some of it stays
 * mapped after a failure, it is lost. */
static warm_status obtain_range(wm_space *space, size_t bytes, void **base)
{
    int device = space->group.device;
    bool torn = false;
    void *range = NULL;
    warm_status status =
        wm_driver_range_reserve(space->driver, device, bytes, &range);

    if (status != WARM_OK) {
        return status;
    }
    status = wm_driver_range_commit(space->driver, device, range, bytes, &torn);
    if (status == WARM_OK) {
        *base = range;
        return WARM_OK;
    }
    WM_KEEP_ERROR();
    if (wm_driver_range_release(space->driver, device, range, bytes) !=
        WARM_OK) {
        wm_growth_defer_warning(&space->growth, WM_UNRECORDED, bytes);
    }
    return status;
}

/* Streams have no work on the memory: wm_segment_leaves(). */
static warm_status give_back_range(wm_space *space, void *base, size_t bytes)
{
    int device = space->group.device;
    warm_status status =
        wm_driver_range_decommit(space->driver, device, base, bytes);

    if (status == WARM_OK) {
        WM_KEEP_ERROR();
        /* Addresses that cannot be released stay reserved, without memory. No
         * line is logged: other threads wait for this call, and the program's
         * log function may allocate. */
        (void)wm_driver_range_release(space->driver, device, base, bytes);
    }
    return status;
}

/* ---- the space ----------------------------------------------------------- */

static warm_status obtain(wm_space *space, const wm_arena *arena, size_t bytes,
                          size_t *piece, void **base)
{
    (void)piece; /* 0 */
    return arena->ranged ? obtain_range(space, bytes, base)
                         : wm_device_obtain(space, space->group.device, false,
                                            bytes, base);
}

static warm_status give_back(wm_space *space, const wm_arena *arena, void *base,
                             size_t bytes, bool pieced)
{
    (void)pieced; /* false */
    return arena->ranged ? give_back_range(space, base, bytes)
                         : wm_driver_device_free(space->driver,
                                                 space->group.device, base);
}

static bool share(wm_space *space, const wm_request *request)
{
    wm_lane_registry *registry = request->arena->registry;

    return registry != NULL && request->lane != NULL &&
           of_space(space)->waits &&
           wm_lanes_wait_for_streams(registry, request->lane,
                                     wm_size_run_bytes(request->bytes));
}

static void describe(wm_space *space, char *text, size_t bytes)
{
    int device = space->group.device;
    size_t free = 0, total = 0;

    if (wm_driver_device_memory(space->driver, device, &free, &total) ==
        WARM_OK) {
        snprintf(text, bytes, " on device %d, of %s, %s of them free", device,
                 wm_bytes(total).text, wm_bytes(free).text);
    } else {
        snprintf(text, bytes, " on device %d", device);
    }
}

warm_status wm_device_find_unit(warm_runtime *runtime)
{
    for (int i = 0; i < runtime->devices; i++) {
        size_t unit = 0;
        warm_status status = wm_driver_range_unit(runtime->driver, i, &unit);

        if (status != WARM_OK) {
            return status;
        }
        atomic_store_explicit(&runtime->device_spaces[i].unit, unit,
                              memory_order_relaxed);
    }
    return WARM_OK;
}

static const wm_space_traits device_traits = {.name = "device",
                                              .obtain = obtain,
                                              .give_back = give_back,
                                              .share = share,
                                              .describe = describe,
                                              .nodeless = true,
                                              .laned = true};

/* A device whose memory is the host's has the host's watermarks. */
static void choose_limiter(wm_device_space *d)
{
    warm_device_info info = {.size = sizeof info};

    if (wm_driver_device_info(d->space.driver, d->space.group.device, &info) ==
            WARM_OK &&
        info.host_memory != 0) {
        d->space.limiter = &d->space.group.runtime->pinned->space;
    }
}

static void end_one(wm_device_space *d)
{
    wm_imports_fini(&d->imports);
    wm_lane_registry_fini(&d->registry);
    wm_space_fini(&d->space);
}

static warm_status open_one(warm_runtime *runtime, const wm_options *options,
                            int device, wm_device_space *d)
{
    wm_timelines *timelines = &runtime->pinned->timelines;
    wm_arena_group *group = &d->space.group;
    warm_status status =
        wm_space_init(&d->space, &device_traits, runtime, timelines, options);

    if (status != WARM_OK) {
        return status;
    }
    status =
        wm_lane_registry_init(&d->registry, timelines, group->arenas, device);
    if (status != WARM_OK) {
        wm_space_fini(&d->space);
        return status;
    }
    wm_imports_init(&d->imports, runtime->driver, device);
    d->imports.timelines = timelines;
    group->device = device;
    group->place = (uint64_t)device;
    d->waits = strcmp(options->stream_wait, "off") != 0;
    d->space.poller = &runtime->pinned->space;
    group->waker = &d->space.poller->background.waker;
    group->segment_bytes = wm_round_up(group->segment_bytes, WM_DEVICE_GRAIN);
    for (unsigned i = 0; i < group->shards; i++) {
        group->arenas[i].registry = &d->registry;
        group->arenas[i].grain = WM_DEVICE_GRAIN;
        wm_lane_note_fences(&group->arenas[i], 0);
        group->arenas[i].small_max = WM_DEVICE_SMALL;
    }
    choose_limiter(d);
    return WARM_OK;
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
    if (strcmp(options->expandable_segments, "on") == 0) {
        wm_log(WARM_LOG_WARNING,
               "option expandable_segments has no effect any more: leave it "
               "out; the next release refuses it");
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

/* The trims collect the completed frees: CUDA waits for the device while memory
 * is returned, and wm_driver_drain() waits for the host device. */
void wm_device_spaces_drain(warm_runtime *runtime)
{
    size_t released;

    wm_driver_drain(runtime->driver);
    (void)wm_space_trim(&runtime->pinned->space, 0, &released);
    for (int i = 0; i < runtime->devices; i++) {
        (void)wm_space_trim(&runtime->device_spaces[i].space, 0, &released);
    }
}

/* Whether the arena is the first of those that share its registry. */
static bool has_registry(const wm_arena *arena)
{
    return arena->registry != NULL && arena->registry->arena == arena;
}

void wm_device_spaces_stop(warm_runtime *runtime, warm_destroy_report *report)
{
    for (int i = 0; i < runtime->devices; i++) {
        wm_device_space *d = &runtime->device_spaces[i];
        size_t released;

        report->imports += wm_imports_stop(&d->imports);
        (void)wm_space_trim(&d->space, 0, &released);
        wm_pinned_report_left(&d->space, report);
        wm_space_forget(&d->space);
        for (wm_arena *a = wm_group_arenas(&d->space.group); a != NULL;
             a = a->next_arena) {
            if (has_registry(a)) {
                wm_lane_registry_forget(a->registry);
            }
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
        for (wm_arena *a = wm_group_arenas(&d->space.group); a != NULL;
             a = a->next_arena) {
            if (has_registry(a)) {
                wm_lane_registry_retire(a->registry, stream, info);
            }
        }
    }
}

bool wm_device_space_claim(warm_runtime *runtime, int device, size_t bytes)
{
    return wm_space_claim(&runtime->device_spaces[device].space, bytes, true);
}

void wm_device_space_unclaim(warm_runtime *runtime, int device, size_t bytes)
{
    wm_space_unclaim(&runtime->device_spaces[device].space, bytes);
}
