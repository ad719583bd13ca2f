/* growth_call.c: the list of driver calls in flight, and the warnings about
 * them that are logged later. */
#include "alloc/space/space_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

bool wm_growth_moves(wm_growth *growth, uint64_t *gained)
{
    bool moves;

    wm_lock_acquire(&growth->lock);
    moves = growth->gained != *gained || growth->calls != NULL;
    *gained = growth->gained;
    wm_lock_release(&growth->lock);
    return moves;
}

/* ---- calls in flight -------------------------------------------------- */

void wm_growth_call_begin_locked(wm_growth *growth, struct wm_growth_call *call)
{
    call->number = ++growth->begun;
    call->next = growth->calls;
    growth->calls = call;
    growth->coming += call->bytes;
}

void wm_growth_call_arrive(wm_growth *growth, struct wm_growth_call *call)
{
    wm_lock_acquire(&growth->lock);
    call->held = true;
    growth->coming -= call->bytes;
    growth->held += call->bytes;
    growth->peak = growth->held > growth->peak ? growth->held : growth->peak;
    if ((growth->log & WM_LOG_PROFILE) != 0 &&
        wm_log_memory_fits(growth->log, call->bytes)) {
        growth->grown += call->bytes;
    }
    wm_lock_release(&growth->lock);
}

void wm_growth_call_end(wm_space *space, struct wm_growth_call *call,
                        enum wm_outcome outcome)
{
    wm_growth *growth = &space->growth;
    struct wm_growth_call **link = &growth->calls;

    wm_lock_acquire(&growth->lock);
    while (*link != call) {
        link = &(*link)->next;
    }
    *link = call->next;
    if (!call->held) {
        growth->coming -= call->bytes;
        wm_whole_unclaim(space, call->bytes);
    }
    growth->gained += outcome == WM_CALL_FREED;
    growth->vacated += outcome == WM_CALL_MADE_ROOM;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
}

void wm_growth_wait_locked(wm_growth *growth)
{
    uint64_t start = wm_clock_ns();

    wm_cond_wait(&growth->over, &growth->lock);
    wm_histogram_add(&growth->waits, wm_clock_ns() - start);
}

void wm_growth_call_wait_locked(wm_growth *growth, uint64_t number)
{
    const struct wm_growth_call *e = growth->calls;

    while (e != NULL) {
        if (e->number == number) {
            wm_growth_wait_locked(growth);
            e = growth->calls;
        } else {
            e = e->next;
        }
    }
}

/* ---- deferred warnings ------------------------------------------------ */

void wm_growth_defer_warning(wm_growth *growth, enum wm_warning_kind kind,
                             size_t bytes)
{
    wm_deferred_warning *warning = &growth->warning;

    wm_lock_acquire(&growth->lock);
    if (kind == WM_UNRECORDED) {
        warning->unrecorded += bytes;
    } else {
        warning->refused += bytes;
        warning->cause = wm_error_save();
    }
    wm_lock_release(&growth->lock);
}

/* Lines of option log_memory. */
static void log_totals(wm_space *space)
{
    wm_growth *growth = &space->growth;
    const char *name = space->traits->name;
    size_t grown, returned, held, peak;
    int64_t live = wm_claimed(&space->group.live.bytes);

    wm_lock_acquire(&growth->lock);
    grown = growth->grown;
    returned = growth->returned;
    growth->grown = growth->returned = 0;
    held = growth->held;
    peak = growth->peak;
    wm_lock_release(&growth->lock);
    if (grown > 0) {
        wm_log_memory("%s memory grew by %s: %s held (at most %s), %s of it "
                      "with callers",
                      name, wm_bytes(grown).text, wm_bytes(held).text,
                      wm_bytes(peak).text,
                      wm_bytes(live > 0 ? (uint64_t)live : 0).text);
    }
    if (returned > 0) {
        wm_log_memory("%s of %s memory returned to the driver: %s held",
                      wm_bytes(returned).text, name, wm_bytes(held).text);
    }
}

/* ---- memory callbacks --------------------------------------------------- */

/* Memory that was returned, of which memory callbacks have not heard. */
struct wm_released {
    struct wm_released *next;
    void *base;
    size_t bytes;
};

void wm_growth_note_released(wm_space *space, void *base, size_t bytes)
{
    wm_growth *growth = &space->growth;
    struct wm_released *one;

    if (!wm_listeners_hear(&space->group.runtime->listeners,
                           WARM_MEMORY_RELEASED) ||
        wm_listeners_inside(&space->group.runtime->listeners) ||
        (one = wm_meta_alloc(sizeof *one)) == NULL) {
        return;
    }
    one->base = base;
    one->bytes = bytes;
    wm_lock_acquire(&growth->lock);
    one->next = growth->released;
    growth->released = one;
    wm_lock_release(&growth->lock);
}

void wm_growth_report_released(wm_space *space)
{
    wm_growth *growth = &space->growth;
    struct wm_released *one = NULL, *next, *newest;

    wm_lock_acquire(&growth->lock);
    newest = growth->released;
    growth->released = NULL;
    wm_lock_release(&growth->lock);
    for (; newest != NULL; newest = next) { /* the oldest first */
        next = newest->next;
        newest->next = one;
        one = newest;
    }
    for (; one != NULL; one = next) {
        next = one->next;
        (void)wm_listeners_call(&space->group.runtime->listeners,
                                WARM_MEMORY_RELEASED, one->base, one->bytes);
        wm_meta_free(one);
    }
}

/* ---- later -------------------------------------------------------------- */

void wm_growth_log_deferred(wm_space *space)
{
    wm_growth *growth = &space->growth;
    const char *name = space->traits->name;
    wm_deferred_warning warning;

    if (growth->log != 0 && !wm_callback_inside()) {
        log_totals(space);
    }
    /* Inside a callback no other is called: a later call reports it. */
    if (wm_listeners_hear(&space->group.runtime->listeners,
                          WARM_MEMORY_RELEASED) &&
        !wm_listeners_inside(&space->group.runtime->listeners)) {
        wm_growth_report_released(space);
    }
    if (wm_unlikely(space->group.debug != NULL)) {
        wm_debug_log_stored(space->group.runtime);
    }
    wm_lock_acquire(&growth->lock);
    if (growth->warning.refused == 0 && growth->warning.unrecorded == 0) {
        wm_lock_release(&growth->lock);
        return;
    }
    warning = growth->warning;
    growth->warning = (wm_deferred_warning){.refused = 0};
    wm_lock_release(&growth->lock);
    WM_KEEP_ERROR();
    if (warning.refused > 0) {
        wm_log(WARM_LOG_WARNING,
               "could not return %s of %s memory to the driver; it stays in "
               "the cache: %s",
               wm_bytes(warning.refused).text, name, warning.cause.message);
    }
    if (warning.unrecorded > 0) {
        wm_log(WARM_LOG_WARNING,
               "could not return %s of %s memory, for which there is no "
               "record, to the driver: it is lost",
               wm_bytes(warning.unrecorded).text, name);
    }
}
