/* growth_call.c: the list of driver calls in flight, and the warnings about
 * them that are logged later. */
#include "alloc/space/grow_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

void wm_growth_init(wm_growth *growth)
{
    wm_lock_init(&growth->lock, WM_RANK_GROWTH);
    wm_cond_init(&growth->over);
}

void wm_growth_fini(wm_growth *growth)
{
    wm_cond_fini(&growth->over);
    wm_lock_fini(&growth->lock);
}

size_t wm_growth_peak(wm_growth *growth)
{
    size_t peak;

    wm_lock_acquire(&growth->lock);
    peak = growth->peak;
    wm_lock_release(&growth->lock);
    return peak;
}

void wm_growth_reset_peak(wm_growth *growth)
{
    wm_lock_acquire(&growth->lock);
    growth->peak = growth->held;
    wm_lock_release(&growth->lock);
}

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
    wm_lock_release(&growth->lock);
}

void wm_growth_call_end(wm_growth *growth, struct wm_growth_call *call,
                        enum wm_outcome outcome)
{
    struct wm_growth_call **link = &growth->calls;

    wm_lock_acquire(&growth->lock);
    while (*link != call) {
        link = &(*link)->next;
    }
    *link = call->next;
    growth->coming -= call->held ? 0 : call->bytes;
    growth->gained += outcome == WM_CALL_FREED;
    growth->vacated += outcome == WM_CALL_MADE_ROOM;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
}

static bool is_under_way_locked(const wm_growth *growth, uint64_t number)
{
    for (struct wm_growth_call *e = growth->calls; e != NULL; e = e->next) {
        if (e->number == number) {
            return true;
        }
    }
    return false;
}

void wm_growth_call_wait_locked(wm_growth *growth, uint64_t number)
{
    while (is_under_way_locked(growth, number)) {
        wm_cond_wait(&growth->over, &growth->lock);
    }
}

/* ---- deferred warnings ------------------------------------------------ */

void wm_growth_note(wm_growth *growth, enum wm_warning_kind kind, size_t bytes)
{
    wm_deferred_warning *warning = &growth->warning;

    wm_lock_acquire(&growth->lock);
    if (kind == WM_UNRECORDED) {
        warning->unrecorded += bytes;
    } else {
        *(kind == WM_TORN ? &warning->torn : &warning->refused) += bytes;
        warning->cause.size = sizeof warning->cause;
        warm_last_error(&warning->cause);
    }
    wm_lock_release(&growth->lock);
}

static void say(const wm_space *space, const wm_deferred_warning *warning)
{
    if (warning->refused > 0) {
        wm_log(WARM_LOG_WARNING,
               "the driver did not take %s of %s memory back, which stays in "
               "the cache: %s",
               wm_bytes(warning->refused).text, space->traits->name,
               warning->cause.message);
    }
    if (warning->torn > 0) {
        wm_log(WARM_LOG_WARNING,
               "the driver left a part of %s of %s memory behind: they are "
               "lost, and stay held: %s",
               wm_bytes(warning->torn).text, space->traits->name,
               warning->cause.message);
    }
    if (warning->unrecorded > 0) {
        wm_log(WARM_LOG_WARNING,
               "%s of %s memory for which there is no record could not go back "
               "to the driver: they are lost",
               wm_bytes(warning->unrecorded).text, space->traits->name);
    }
}

void wm_growth_say(wm_space *space)
{
    wm_growth *growth = &space->growth;
    warm_error last = {.size = sizeof last};
    wm_deferred_warning warning = {.refused = 0};
    bool any;

    wm_lock_acquire(&growth->lock);
    any = growth->warning.refused > 0 || growth->warning.torn > 0 ||
          growth->warning.unrecorded > 0;
    if (any) {
        warning = growth->warning;
        growth->warning = (wm_deferred_warning){.refused = 0};
    }
    wm_lock_release(&growth->lock);
    if (any) {
        warm_last_error(&last);
        say(space, &warning);
        wm_error_restore(&last);
    }
}
