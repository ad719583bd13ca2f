/* visit.c: closes, visits and cuts the windows of all threads of a runtime. See
 * window.h.
 *
 * Takes the windows lock, and under it the lock of one window at a time. */
#include "runtime/thread/window.h"

/* Relaxed: ordered by the exchange or lock that passes the window on. */
static bool is_state(const wm_window *window, enum wm_window_state state)
{
    return atomic_load_explicit(&window->state, memory_order_relaxed) ==
           (int)state;
}

/* Closes the wanted windows. True if a hit may be under way in one of them. */
static bool close_wanted_locked(warm_runtime *runtime, const wm_visit *visit)
{
    unsigned reasons =
        visit->finish != NULL ? WM_REVOKED_BRIEFLY : WM_REVOKED_VISIT;
    bool was_open = false;

    for (wm_window *w = runtime->windows; w != NULL; w = w->next) {
        if (!is_state(w, WM_WINDOW_SPARE) &&
            (visit->wanted == NULL || visit->wanted(w, visit->context))) {
            wm_biased_revoke(&w->biased, reasons);
            /* Revoked (SLOW) from birth: the owner always takes the lock. */
            was_open =
                was_open || !wm_biased_is_revoked(&w->biased, WM_REVOKED_SLOW);
        }
    }
    return was_open;
}

static void open_locked(warm_runtime *runtime)
{
    for (wm_window *w = runtime->windows; w != NULL; w = w->next) {
        if (wm_biased_is_revoked(&w->biased, WM_REVOKED_VISIT)) {
            wm_biased_restore(&w->biased, WM_REVOKED_BRIEFLY);
        }
    }
}

/* Visits the revoked windows. One visit at a time: no other thread clears the
 * reason. passed: the barrier succeeded or was not needed. */
static void visit_revoked_locked(warm_runtime *runtime, const wm_visit *visit,
                                 bool passed)
{
    for (wm_window *w = runtime->windows; w != NULL; w = w->next) {
        if (!wm_biased_is_revoked(&w->biased, WM_REVOKED_VISIT)) {
            continue;
        }
        if (passed) {
            wm_biased_visit(&w->biased);
            visit->visit(w, visit->context);
            if (visit->finish == NULL) {
                wm_biased_restore(&w->biased, WM_REVOKED_VISIT);
            }
            wm_biased_release(&w->biased);
        } else if (visit->finish == NULL) {
            wm_biased_restore(&w->biased, WM_REVOKED_VISIT);
        }
    }
    if (visit->finish != NULL) {
        visit->finish(visit->context);
        open_locked(runtime);
    }
}

bool wm_window_visit(warm_runtime *runtime, const wm_visit *visit)
{
    bool passed;

    wm_lock_acquire(&runtime->windows_lock);
    passed = !close_wanted_locked(runtime, visit) || wm_biased_barrier();
    visit_revoked_locked(runtime, visit, passed);
    wm_lock_release(&runtime->windows_lock);
    return passed;
}

/* Relaxed: see the field. */
static void refuse_handles(wm_window *window)
{
    atomic_store_explicit(&window->near_devices, 0, memory_order_relaxed);
}

void wm_window_close_all(warm_runtime *runtime)
{
    wm_lock_acquire(&runtime->windows_lock);
    for (wm_window *w = runtime->windows; w != NULL; w = w->next) {
        wm_biased_revoke(&w->biased, WM_REVOKED_EXIT);
        refuse_handles(w);
    }
    wm_lock_release(&runtime->windows_lock);
}

static void visit_cut(wm_window *window, void *context)
{
    wm_window_empty(context, window);
    wm_biased_revoke(&window->biased, WM_REVOKED_CUT);
}

/* Cuts the windows that threads have; returns all others as a list. */
static wm_window *cut_locked(warm_runtime *runtime)
{
    wm_window *unused = NULL;
    wm_window *window;

    while ((window = runtime->windows) != NULL) {
        runtime->windows = window->next;
        if (is_state(window, WM_WINDOW_USED)) {
            refuse_handles(window);
            /* Release, and last: the owner may free the window when it sees
             * the value. */
            atomic_store_explicit(&window->runtime, WM_WINDOW_GONE,
                                  memory_order_release);
        } else {
            window->next_spare = unused;
            unused = window;
        }
    }
    runtime->spare_windows = NULL;
    /* Relaxed: no thread takes a window of the runtime any more. */
    atomic_store_explicit(&runtime->ready_window, NULL, memory_order_relaxed);
    return unused;
}

void wm_window_cut_all(warm_runtime *runtime)
{
    const wm_visit cut = {.visit = visit_cut, .context = runtime};
    wm_window *unused, *window;

    wm_lock_acquire(&runtime->windows_lock);
    /* Even if the barrier is refused: no other thread may call the runtime now,
     * so none is in a hit. (A thread that frees a block of another runtime may
     * be under its biased lock here for some instructions; it has left long
     * before the records of this runtime's blocks are freed.) */
    (void)close_wanted_locked(runtime, &cut);
    (void)wm_biased_barrier();
    visit_revoked_locked(runtime, &cut, true);
    unused = cut_locked(runtime);
    wm_lock_release(&runtime->windows_lock);
    while ((window = unused) != NULL) {
        unused = window->next_spare;
        wm_window_free(window);
    }
}
