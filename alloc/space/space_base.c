/* space_base.c: what surrounds slow work of a space; frees whose work is done
 * come back; the user's callbacks. See space_int.h. */
#include "alloc/space/space_int.h"

#include "alloc/cache/pending.h"
#include "alloc/space/node_fallback.h"
#include "runtime/base/callback.h"

/* ---- slow work -------------------------------------------------------- */

warm_status wm_space_work_begin(wm_space *space, wm_space_work *work)
{
    warm_status status;

    wm_quiet_begin(&work->quiet);
    work->mode = true;
    status = wm_driver_capture_mode(space->driver, &work->mode);
    if (status != WARM_OK) {
        wm_quiet_fail(&work->quiet);
    }
    return status;
}

void wm_space_work_end(wm_space *space, wm_space_work *work, bool recovered)
{
    wm_driver_capture_relaxed_end(space->driver, &work->mode);
    if (recovered) {
        wm_quiet_end(&work->quiet);
    } else {
        wm_quiet_fail(&work->quiet);
    }
}

/* ---- what has completed -------------------------------------------------- */

void wm_space_collect(wm_space *space)
{
    wm_timelines_poll(space->group.timelines);
    wm_space_say_ends(space);
}

void wm_space_collect_gathered(wm_space *space)
{
    if ((!space->traits->laned &&
         wm_pending_collect_all(space->group.timelines, NULL, UINT64_MAX)) ||
        wm_timelines_unasked(space->group.timelines)) {
        wm_timelines_poll_queued(space->group.timelines);
        wm_space_say_ends(space);
    }
}

warm_status wm_space_fetch(wm_space *space)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status == WARM_OK) {
        wm_space_collect(space);
        wm_space_work_end(space, &work, true);
    }
    return status;
}

void wm_node_fallback_reset(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        atomic_store_explicit(&a->pause, 0, memory_order_relaxed);
        atomic_store_explicit(&a->paused, 0, memory_order_relaxed);
    }
}

/* ---- callbacks -------------------------------------------------------- */

/* A request for which the thread asks the callbacks of a runtime; on its stack,
 * which may have several: a callback may allocate from another runtime. */
struct asking {
    const warm_runtime *runtime;
    const struct asking *outer;
};

static _Thread_local const struct asking *asking;

warm_status wm_space_check_asking(const wm_space *space)
{
    const struct asking *a = asking;

    while (a != NULL && a->runtime != space->group.runtime) {
        a = a->outer;
    }
    return a == NULL ? WARM_OK
                     : wm_fail(WARM_INVALID_ARGUMENT,
                               "a memory callback allocates %s memory from the "
                               "runtime that called it, and that is short of "
                               "memory: a callback may only free there",
                               space->traits->name);
}

static int find_callback_locked(wm_space *space, warm_memory_fn function,
                                void *context)
{
    for (int i = 0; i < WM_CALLBACKS; i++) {
        if (space->callback[i].function == function &&
            (function == NULL || space->callback[i].context == context)) {
            return i;
        }
    }
    return -1;
}

warm_status wm_space_callback_add(wm_space *space, warm_memory_fn function,
                                  void *context)
{
    int i;

    wm_lock_acquire(&space->growth.lock);
    i = find_callback_locked(space, NULL, NULL);
    if (i >= 0) {
        space->callback[i].function = function;
        space->callback[i].context = context;
    }
    wm_lock_release(&space->growth.lock);
    return i >= 0
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "there are %d memory callbacks already", WM_CALLBACKS);
}

warm_status wm_space_callback_remove(wm_space *space, warm_memory_fn function,
                                     void *context)
{
    int i;

    wm_lock_acquire(&space->growth.lock);
    i = find_callback_locked(space, function, context);
    if (i >= 0) {
        space->callback[i].function = NULL;
    }
    wm_lock_release(&space->growth.lock);
    return i >= 0 ? WARM_OK
                  : wm_fail(WARM_NOT_FOUND,
                            "that memory callback is not registered");
}

bool wm_space_ask_callbacks(wm_space *short_of, size_t bytes)
{
    wm_space *space = short_of->poller; /* has all of a runtime's */
    struct asking mine = {space->group.runtime, asking};
    warm_error cause = {.size = sizeof cause};
    bool again = false;

    warm_last_error(&cause);
    asking = &mine;
    for (int i = 0; i < WM_CALLBACKS; i++) {
        warm_memory_fn function;
        void *context;

        wm_lock_acquire(&space->growth.lock);
        function = space->callback[i].function;
        context = space->callback[i].context;
        wm_lock_release(&space->growth.lock);
        if (function != NULL) {
            wm_callback_begin();
            again = function(context, bytes) != 0 || again;
            wm_callback_end();
        }
    }
    asking = mine.outer;
    /* What failed in a callback is not why the request does. */
    wm_error_restore(&cause);
    return again;
}
