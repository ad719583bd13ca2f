/* testing.c: functions for tests (warmpool/testing.h). */
#include "warmpool/testing.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/kinds/shared.h"
#include "handles/kind_table.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_data.h"
#include "runtime/fields.h"
#include "runtime/thread/runtime_body.h"

#include <limits.h>

static warm_status find_call(warm_runtime *runtime, const char *call,
                             int *index)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    *index = call != NULL ? wm_driver_call_index(call) : -1;
    if (*index < 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "no driver call '%.64s': warm_testing_call_name() lists "
                       "the names",
                       call != NULL ? call : "(null)");
    }
    return WARM_OK;
}

warm_status warm_testing_fail(warm_runtime *runtime, const char *call,
                              uint64_t n, int persistent)
{
    int index;
    warm_status status = find_call(runtime, call, &index);

    if (status == WARM_OK) {
        wm_driver_fail(runtime->driver, index, n, persistent != 0);
    }
    return status;
}

warm_status warm_testing_calls(warm_runtime *runtime, const char *call,
                               uint64_t *count)
{
    int index = 0;
    warm_status status =
        wm_check_given(find_call(runtime, call, &index), count, "count");

    if (status == WARM_OK) {
        *count = wm_counter_read(&runtime->driver->calls[index]);
    }
    return status;
}

const char *warm_testing_call_name(int index)
{
    return wm_driver_call_name(index);
}

static warm_status control(warm_runtime *runtime, warm_stream stream,
                           unsigned count)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    if (runtime->driver->ops->control == NULL) {
        return wm_fail(WARM_UNSUPPORTED,
                       "driver %s cannot hold a stream; the host device can",
                       runtime->driver->name);
    }
    WM_CANCEL_OFF();
    return runtime->driver->ops->control(runtime->driver, stream, count);
}

warm_status warm_testing_hold(warm_runtime *runtime, warm_stream stream)
{
    return control(runtime, stream, WM_CONTROL_HOLD);
}

warm_status warm_testing_step(warm_runtime *runtime, warm_stream stream,
                              unsigned count)
{
    /* 0 and UINT_MAX mean hold and resume to the driver. */
    if (count == WM_CONTROL_HOLD) {
        return wm_runtime_check(runtime);
    }
    return control(runtime, stream,
                   count == WM_CONTROL_RESUME ? UINT_MAX - 1 : count);
}

warm_status warm_testing_resume(warm_runtime *runtime, warm_stream stream)
{
    return control(runtime, stream, WM_CONTROL_RESUME);
}

/* ---- the library's own records ------------------------------------------ */

/* Whether the bytes counted against the limit equal those that the arenas hold,
 * while no thread grows or trims the space, and no such work is left open.
 * Uncached memory is not limited. */
static bool check_held(wm_space *space)
{
    warm_space_stats stats = {.size = sizeof stats};
    const wm_growth *growth = &space->growth;
    const wm_live *live = &space->group.live;
    uint64_t held;
    bool idle;

    if (space->traits->obtain == NULL) {
        return true;
    }
    wm_lock_acquire(&space->growth.lock);
    held = growth->held + growth->paused - growth->lost;
    idle = growth->coming == 0 && growth->calls == NULL &&
           growth->line == NULL && !growth->making_room;
    wm_lock_release(&space->growth.lock);
    wm_space_stats(space, &stats);
    return idle && held == stats.held_bytes.current &&
           (uint64_t)wm_claimed(&live->held) == stats.held_bytes.current &&
           (uint64_t)wm_claimed(&live->blocks) == stats.live.current;
}

/* Whether as much counts toward the watermarks of all memory as toward those of
 * the limiters; it does while check_held() would hold. */
static bool check_whole(const wm_space *poller)
{
    size_t taken = 0;

    for (size_t i = 0; i < poller->all_count; i++) {
        wm_space *space = poller->all[i];

        if (space->limiter == space) {
            wm_lock_acquire(&space->growth.lock);
            taken += wm_taken_locked(space);
            wm_lock_release(&space->growth.lock);
        }
    }
    return poller->background.on || taken == wm_whole_taken(&poller->whole);
}

/* Of a runtime that works beside its callers no figures are all of one
 * moment. */
static bool has_background(const warm_runtime *runtime)
{
    return runtime->pinned->space.background.on;
}

/* The thread has ended what it has begun. */
static bool check_streams(warm_runtime *runtime)
{
    const wm_thread_marks *marks = &wm_thread_marks_now;

    return marks->breaks == 0 && marks->turns == 0 && marks->callbacks == 0 &&
           (has_background(runtime) ||
            wm_timelines_check(&runtime->pinned->timelines));
}

typedef struct figures {
    wm_view view;
    bool good;
} figures;

/* What was allocated is current or was freed. */
static void check_figures(wm_view *view, const wm_object *object,
                          const wm_field_table *table, const void *from)
{
    figures *f = (figures *)view;

    (void)object;
    for (size_t i = 0; i < table->count; i++) {
        const wm_field *field = &table->field[i];
        bool peak = field->type == WM_FIELD_PEAK;

        if (peak || field->type == WM_FIELD_STAT) {
            const warm_stat *s = wm_field_stat(field, from);

            f->good = f->good && s->allocated == s->current + s->freed &&
                      (!peak || s->peak >= s->current);
        }
    }
}

static bool check_all_figures(warm_runtime *runtime)
{
    figures f = {.view = {.show = check_figures}, .good = true};

    return has_background(runtime) ||
           (wm_fields_show(runtime, &f.view) == WARM_OK && f.good);
}

static bool check_quiet(wm_space *space)
{
    return wm_space_check_settled(space) &&
           (has_background(space->group.runtime) || check_held(space));
}

static warm_status check_space(wm_space *space, int device, bool quiet)
{
    if (quiet ? check_quiet(space) : wm_space_check(space)) {
        return WARM_OK;
    }
    return wm_fail(WARM_INTERNAL,
                   "records of %s memory (device %d) contradict each other",
                   space->traits->name, device);
}

static warm_status check_records(warm_runtime *runtime, bool quiet)
{
    wm_pinned *pinned = runtime->pinned;
    warm_status status = check_space(&pinned->space, -1, quiet);

    if (status != WARM_OK ||
        (status = check_space(&pinned->pageable, -1, quiet)) != WARM_OK ||
        (status = check_space(&pinned->combined, -1, quiet)) != WARM_OK ||
        (status = check_space(&pinned->adopted.space, -1, quiet)) != WARM_OK) {
        return status;
    }
    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        status = check_space(&runtime->device_spaces[i].space, i, quiet);
        for (int k = 0; k < WM_SHARED_KINDS && status == WARM_OK; k++) {
            status =
                check_space(&runtime->shared->spaces[i][k].space, i, quiet);
        }
    }
    if (status != WARM_OK) {
        return status;
    }
    if (quiet && !check_whole(&pinned->space)) {
        return wm_fail(WARM_INTERNAL, "the bytes of all memory are not "
                                      "those of its spaces");
    }
    if (quiet && !check_streams(runtime)) {
        return wm_fail(WARM_INTERNAL,
                       "records of streams contradict each other");
    }
    if (quiet && !check_all_figures(runtime)) {
        return wm_fail(WARM_INTERNAL, "figures contradict each other");
    }
    return wm_kind_table_check(runtime->kinds)
               ? WARM_OK
               : wm_fail(WARM_INTERNAL,
                         "records of handles contradict each other");
}

warm_status warm_testing_check(warm_runtime *runtime, int quiet)
{
    warm_status status = wm_runtime_check(runtime);

    return status != WARM_OK ? status : check_records(runtime, quiet != 0);
}

void warm_testing_fail_metadata(uint64_t n, int persistent)
{
    wm_meta_fail(n, persistent != 0);
}

void warm_testing_metadata(uint64_t *calls, int64_t *live)
{
    if (calls != NULL) {
        *calls = wm_meta_calls();
    }
    if (live != NULL) {
        *live = wm_meta_live();
    }
}

void warm_testing_set_clock(warm_testing_clock_fn clock)
{
    wm_clock_set(clock);
}

/* ---- bypassing the runtime ----------------------------------------------- */

warm_status warm_testing_capture_begin(warm_runtime *runtime,
                                       warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK ? wm_driver_capture_begin(runtime->driver, stream)
                             : status;
}

warm_status warm_testing_capture_end(warm_runtime *runtime, warm_stream stream,
                                     warm_graph *graph)
{
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), graph, "graph");

    return status == WARM_OK
               ? wm_driver_capture_end(runtime->driver, stream, graph)
               : status;
}

warm_status warm_testing_copy(warm_runtime *runtime, void *destination,
                              const void *source, size_t bytes,
                              warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    status = wm_check_given(status, source, "source");
    status = wm_check_given(status, destination, "destination");
    return status == WARM_OK && bytes > 0
               ? wm_driver_copy(runtime->driver, destination, source, bytes,
                                WM_COPY_ANY, stream)
               : status;
}
