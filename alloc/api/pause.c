/* pause.c: memory of private pools is paused and resumed (warmpool/pause.h).
 *
 *   pause   requests end ─► work ends ─► idle segments go ─► others are listed
 *             ─► saved ─► unmapped          a failure undoes what came before
 *   resume  idle segments end ─► the others are mapped ─► restored
 *
 * While the pool is CHANGING (private_pool.h) no other thread pauses or resumes
 * it, and the record of its segments is this thread's. Holds no lock itself. */
#include "alloc/api/pause.h"

#include "alloc/api/copy.h"
#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/private_pool/private_pool.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <inttypes.h>

struct one {
    wm_space *space;
    wm_paused_segment of;
    void *saved;   /* page-locked: the used bytes; null: none are saved */
    bool unmapped; /* it has no memory */
    bool fresh;    /* mapped by this call */
    bool torn;     /* it may be mapped in spite of a failure */
    bool over;     /* it has ended, or its device was reset */
};

struct wm_paused {
    size_t count, room;
    struct one of[];
};

/* ---- the arenas of a pool ------------------------------------------------ */

/* Calls fn for each arena of a device's memory that the pool has, until one
 * fails. */
static warm_status each_arena(warm_runtime *runtime, uint64_t number,
                              warm_status (*fn)(wm_space *space,
                                                wm_arena *arena, void *context),
                              void *context)
{
    warm_status status = WARM_OK;

    for (int i = 0; i < runtime->devices; i++) {
        wm_space *space = &runtime->device_spaces[i].space;

        for (wm_arena *a = wm_group_arenas(&space->group);
             a != NULL && status == WARM_OK; a = a->next_arena) {
            if (a->pool != NULL && wm_arena_pool_number(a) == number) {
                status = fn(space, a, context);
            }
        }
    }
    return status;
}

static warm_status check_arena(wm_space *space, wm_arena *arena, void *context)
{
    warm_status status =
        wm_driver_check_lost(space->driver, space->group.device);

    (void)context;
    if (status == WARM_OK && !arena->ranged) {
        status = wm_fail(WARM_UNSUPPORTED,
                         "device %d has no virtual memory management: its "
                         "memory cannot be paused",
                         space->group.device);
    }
    return status;
}

static warm_status await_requests(wm_space *space, wm_arena *arena,
                                  void *context)
{
    (void)space;
    (void)context;
    return wm_private_await_requests(arena->pool)
               ? WARM_OK
               : wm_fail(WARM_NOT_READY,
                         "an allocation in the pool has lasted for 10 s");
}

static warm_status await_device(wm_space *space)
{
    wm_breaking breaking;
    warm_status status;

    if (!wm_space_begin_break(space, &breaking)) {
        return wm_timelines_refuse(&breaking,
                                   "memory cannot be paused or resumed");
    }
    status = wm_driver_device_synchronize(space->driver, space->group.device);
    wm_space_end_break(space, &breaking);
    if (status == WARM_NOT_READY) {
        status = wm_fail(WARM_NOT_READY,
                         "work of device %d does not end: a test holds a "
                         "stream",
                         space->group.device);
    }
    return status;
}

/* Waits for the device, and returns what is idle. */
static warm_status settle(wm_space *space, wm_arena *arena, void *context)
{
    wm_space_work work;
    warm_status status = await_device(space);

    (void)context;
    if (status != WARM_OK || (status = wm_space_poll(space)) != WARM_OK ||
        (status = wm_space_work_begin(space, &work)) != WARM_OK) {
        return status;
    }
    (void)wm_growth_give_back(space, arena, WM_KEEP_NOTHING);
    wm_space_work_end(space, &work, true);
    return WARM_OK;
}

static warm_status unpause(wm_space *space, wm_arena *arena, void *context)
{
    (void)space;
    (void)context;
    wm_arena_unpause(arena);
    return WARM_OK;
}

/* ---- the record ---------------------------------------------------------- */

static warm_status count_segments(wm_space *space, wm_arena *arena,
                                  void *context)
{
    (void)space;
    *(size_t *)context += wm_arena_pause(arena, NULL, 0);
    return WARM_OK;
}

/* NOT_READY: there are more than there is room for. */
static warm_status list_segments(wm_space *space, wm_arena *arena,
                                 void *context)
{
    struct wm_paused *paused = context;
    size_t room = paused->room - paused->count;
    wm_paused_segment *list = wm_meta_alloc((room + 1) * sizeof *list);
    size_t count;

    if (list == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record what is "
                                           "paused");
    }
    count = wm_arena_pause(arena, list, room);
    for (size_t i = 0; i < count && count <= room; i++) {
        paused->of[paused->count++] =
            (struct one){.space = space, .of = list[i]};
    }
    wm_meta_free(list);
    return count <= room ? WARM_OK : WARM_NOT_READY;
}

/* Segments can only become fewer: no request is routed to the pool. But a trim
 * under way may put some back. */
static warm_status list_all(warm_runtime *runtime, uint64_t number,
                            struct wm_paused **paused)
{
    warm_status status;
    size_t count;

    do {
        count = 16;
        (void)each_arena(runtime, number, count_segments, &count);
        *paused = wm_meta_alloc(sizeof **paused + count * sizeof(struct one));
        if (*paused == NULL) {
            return wm_fail(WARM_OUT_OF_MEMORY,
                           "no memory to record what is paused");
        }
        (*paused)->room = count;
        status = each_arena(runtime, number, list_segments, *paused);
        if (status != WARM_OK) {
            wm_meta_free(*paused);
            *paused = NULL;
        }
    } while (status == WARM_NOT_READY);
    return status;
}

static void free_saved(struct wm_paused *paused)
{
    for (size_t i = 0; i < paused->count; i++) {
        wm_pinned_free_apart(paused->of[i].saved);
        paused->of[i].saved = NULL;
    }
}

static void end_record(struct wm_paused *paused)
{
    if (paused != NULL) {
        free_saved(paused);
        wm_meta_free(paused);
    }
}

/* ---- contents ------------------------------------------------------------ */

static warm_status queue_copies(const struct wm_paused *paused,
                                const wm_space *space,
                                warm_copy_direction direction,
                                warm_stream stream)
{
    bool out = direction == WARM_COPY_TO_HOST;
    warm_status status = WARM_OK;

    for (size_t i = 0; i < paused->count && status == WARM_OK; i++) {
        const struct one *one = &paused->of[i];

        if (one->space == space && one->saved != NULL) {
            status = wm_copy_unrecorded(space->group.runtime,
                                        out ? one->saved : one->of.used,
                                        out ? one->of.used : one->saved,
                                        one->of.used_bytes, direction, stream);
        }
    }
    return status;
}

/* Copies may still write what was to be saved: it leaks. */
static void leak_saved(struct wm_paused *paused, const wm_space *space)
{
    for (size_t i = 0; i < paused->count; i++) {
        if (paused->of[i].space == space) {
            paused->of[i].saved = NULL;
        }
    }
}

/* On a stream of its own; waits for the copies. */
static warm_status copy_device(struct wm_paused *paused, wm_space *space,
                               warm_copy_direction direction)
{
    warm_error cause;
    warm_stream stream = NULL;
    warm_status waited, status = wm_driver_stream_create(
                            space->driver, space->group.device, &stream);

    if (status != WARM_OK) {
        return status;
    }
    status = queue_copies(paused, space, direction, stream);
    cause = wm_error_save();
    waited = wm_driver_stream_await(space->driver, stream);
    if (waited != WARM_OK) {
        waited = await_device(space);
    }
    if (waited != WARM_OK && direction == WARM_COPY_TO_HOST) {
        leak_saved(paused, space);
    }
    if (status == WARM_OK && waited != WARM_OK) {
        status = waited;
        cause = wm_error_save();
    }
    (void)wm_driver_stream_destroy(space->driver, stream);
    if (status != WARM_OK) {
        wm_error_restore(&cause);
    }
    return status;
}

static warm_status copy_all(warm_runtime *runtime, struct wm_paused *paused,
                            warm_copy_direction direction)
{
    warm_status status = WARM_OK;

    for (int d = 0; d < runtime->devices && status == WARM_OK; d++) {
        wm_space *space = &runtime->device_spaces[d].space;
        bool any = false;

        for (size_t i = 0; i < paused->count; i++) {
            any |= paused->of[i].space == space && paused->of[i].saved != NULL;
        }
        if (any) {
            status = copy_device(paused, space, direction);
        }
    }
    return status;
}

static warm_status save(warm_runtime *runtime, struct wm_paused *paused)
{
    warm_status status = WARM_OK;

    for (size_t i = 0; i < paused->count && status == WARM_OK; i++) {
        struct one *one = &paused->of[i];

        if (one->of.used_bytes > 0) {
            status = wm_pinned_alloc_apart(
                runtime, one->of.used_bytes,
                wm_driver_device_node(runtime->driver,
                                      one->space->group.device),
                &one->saved);
        }
    }
    return status == WARM_OK ? copy_all(runtime, paused, WARM_COPY_TO_HOST)
                             : status;
}

/* ---- map and unmap ------------------------------------------------------- */

/* Returns idle memory of the device, and idle workspaces of its handles. False:
 * there was none. */
static bool make_room(wm_space *space)
{
    warm_runtime *runtime = space->group.runtime;
    size_t released = 0;

    if (wm_space_trim(space, 0, &released) != WARM_OK) {
        released = 0;
    }
    released += runtime->trim_workspaces(runtime, space->group.device);
    return released > 0;
}

static warm_status map_one(struct one *one)
{
    warm_status status = wm_growth_map(one->space, one->of.segment, &one->torn);

    if (status == WARM_OUT_OF_MEMORY && make_room(one->space)) {
        status = wm_growth_map(one->space, one->of.segment, &one->torn);
    }
    if (status == WARM_OK) {
        one->unmapped = false;
        one->fresh = true;
    }
    return status;
}

static warm_status unmap_one(struct one *one)
{
    warm_status status = wm_growth_unmap(one->space, one->of.segment);

    if (status == WARM_OK) {
        one->unmapped = true;
        one->fresh = false;
    }
    return status;
}

/* Maps what is unmapped. If that fails nothing more is mapped than before, as
 * far as the driver lets it. */
static warm_status map_all(struct wm_paused *paused)
{
    warm_status status = WARM_OK;

    for (size_t i = 0; i < paused->count; i++) {
        paused->of[i].fresh = false;
    }
    for (size_t i = 0; i < paused->count && status == WARM_OK; i++) {
        if (paused->of[i].unmapped) {
            status = map_one(&paused->of[i]);
        }
    }
    if (status == WARM_OK) {
        return status;
    }
    WM_KEEP_ERROR();
    for (size_t i = 0; i < paused->count; i++) {
        if (paused->of[i].fresh) {
            (void)unmap_one(&paused->of[i]);
        }
    }
    return status;
}

static warm_status unmap_all(struct wm_paused *paused)
{
    warm_status status = WARM_OK;

    for (size_t i = 0; i < paused->count && status == WARM_OK; i++) {
        status = unmap_one(&paused->of[i]);
    }
    return status;
}

/* ---- pause --------------------------------------------------------------- */

/* After a failure: maps and restores what was unmapped. False: that failed as
 * well, and the pool is paused. The last error is that of the failure. */
static bool undo_pause(warm_runtime *runtime, struct wm_paused *paused)
{
    warm_error cause = wm_error_save();
    bool undone = map_all(paused) == WARM_OK &&
                  copy_all(runtime, paused, WARM_COPY_TO_DEVICE) == WARM_OK;

    if (undone) {
        wm_error_restore(&cause);
    } else {
        (void)wm_fail(cause.status,
                      "%s; and what was unmapped by then could not be mapped "
                      "again: the memory is paused, warm_memory_resume() goes "
                      "on",
                      cause.message);
    }
    return undone;
}

/* *paused: the record of a pool that is paused from now on; else null. */
static warm_status pause_pool(warm_runtime *runtime, uint64_t number, bool drop,
                              struct wm_paused **paused)
{
    warm_status status = each_arena(runtime, number, check_arena, NULL);

    if (status == WARM_OK &&
        (status = each_arena(runtime, number, await_requests, NULL)) ==
            WARM_OK &&
        (status = each_arena(runtime, number, settle, NULL)) == WARM_OK &&
        (status = list_all(runtime, number, paused)) == WARM_OK &&
        (drop || (status = save(runtime, *paused)) == WARM_OK)) {
        status = unmap_all(*paused);
        if (status == WARM_OK || !undo_pause(runtime, *paused)) {
            return status;
        }
    }
    WM_KEEP_ERROR();
    (void)each_arena(runtime, number, unpause, NULL);
    end_record(*paused);
    *paused = NULL;
    return status;
}

static warm_status check_call(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    /* The call that the callback belongs to may be one that is waited for. */
    if (status == WARM_OK &&
        (wm_callback_inside() || wm_listeners_inside(&runtime->listeners))) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "a callback of the library cannot pause or resume "
                         "memory; call it elsewhere");
    }
    return status;
}

warm_status warm_memory_pause(warm_runtime *runtime, warm_private_pool tag,
                              unsigned flags)
{
    struct wm_paused *paused = NULL;
    warm_error before = wm_error_save();
    warm_status status = check_call(runtime);

    if (status == WARM_OK && (flags & ~WARM_PAUSE_DROP) != 0) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "unknown flags %#x: the only flag is WARM_PAUSE_DROP",
                         flags);
    }
    if (status == WARM_OK) {
        wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
        status = wm_private_pause_begin(runtime, tag.number, false, &paused);
    }
    if (status == WARM_OK) {
        status = pause_pool(runtime, tag.number, (flags & WARM_PAUSE_DROP) != 0,
                            &paused);
        wm_private_pause_end(runtime, tag.number, paused);
    }
    if (status == WARM_OK) { /* what failed at first may pass in the end */
        wm_error_restore(&before);
    }
    return status;
}

/* ---- resume -------------------------------------------------------------- */

/* Ends the segments that are wholly idle. Status: that of a device that was
 * reset. */
static warm_status drop_idle(struct wm_paused *paused)
{
    warm_status status = WARM_OK;

    for (size_t i = 0; i < paused->count; i++) {
        struct one *one = &paused->of[i];
        bool lost = wm_space_is_lost(one->space);

        if (lost) {
            status = wm_driver_check_lost(one->space->driver,
                                          one->space->group.device);
        }
        if (lost || one->over ||
            (one->unmapped && !one->torn &&
             wm_growth_drop_unmapped(one->space, one->of.segment))) {
            one->over = true;
            one->unmapped = false;
            wm_pinned_free_apart(one->saved);
            one->saved = NULL;
        }
    }
    return status;
}

static warm_status check_capture(wm_space *space, wm_arena *arena,
                                 void *context)
{
    wm_breaking breaking;

    (void)arena;
    (void)context;
    if (wm_space_is_lost(space)) {
        return WARM_OK;
    }
    if (!wm_space_begin_break(space, &breaking)) {
        return wm_timelines_refuse(&breaking,
                                   "memory cannot be paused or resumed");
    }
    wm_space_end_break(space, &breaking);
    return WARM_OK;
}

/* *paused: null if the pool is not paused any more. */
static warm_status resume_pool(warm_runtime *runtime, uint64_t number,
                               struct wm_paused **paused)
{
    warm_error cause;
    warm_status status = each_arena(runtime, number, check_capture, NULL);
    warm_status lost;

    if (status != WARM_OK) {
        return status;
    }
    lost = drop_idle(*paused);
    cause = wm_error_save();
    if ((status = map_all(*paused)) != WARM_OK ||
        (status = copy_all(runtime, *paused, WARM_COPY_TO_DEVICE)) != WARM_OK) {
        return status;
    }
    (void)each_arena(runtime, number, unpause, NULL);
    end_record(*paused);
    *paused = NULL;
    if (lost != WARM_OK) {
        wm_error_restore(&cause);
    }
    return lost;
}

warm_status warm_memory_resume(warm_runtime *runtime, warm_private_pool tag)
{
    struct wm_paused *paused = NULL;
    warm_error before = wm_error_save();
    warm_status status = check_call(runtime);

    if (status == WARM_OK) {
        wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
        status = wm_private_pause_begin(runtime, tag.number, true, &paused);
    }
    if (status == WARM_OK) {
        status = resume_pool(runtime, tag.number, &paused);
        wm_private_pause_end(runtime, tag.number, paused);
    }
    if (status == WARM_OK) { /* what failed at first may pass in the end */
        wm_error_restore(&before);
    }
    return status;
}

void wm_pause_close(warm_runtime *runtime)
{
    struct wm_paused *paused;

    while ((paused = wm_private_take_paused(runtime)) != NULL) {
        (void)drop_idle(paused);
        end_record(paused);
    }
}
