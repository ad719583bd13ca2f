/* window.c: windows of the calling thread, and how they end with it.
 *
 * The window that was returned last waits in ready_window, for which no lock is
 * needed; other spare windows, and visits, need the windows lock, under which a
 * visit takes the lock of one window at a time. A thread that exits pins the
 * runtime until it has returned its window, so that destroy can free neither
 * caches nor window meanwhile; if the runtime is not live any more, nothing is
 * returned.
 *
 * The thread that takes a window sets it USED, the thread that returns it sets
 * it SPARE, both without a lock. A visit may miss either change: it visits
 * spare windows that cache something, too. */
#include "runtime/thread/window.h"

#include "runtime/base/callback.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/base/trace.h"

#include <limits.h>
#include <stdatomic.h>

/* An empty slot: no block has the tag WM_NO_TAG. */
#define NO_SLOT                                                                \
    {                                                                          \
        .device = -1, .live_tag = WM_NO_TAG                                    \
    }
static const wm_window no_window = {.owner = WM_WINDOW_GONE,
                                    .runtime = WM_WINDOW_GONE,
                                    .biased = {.revoked = WM_REVOKED_CUT},
                                    .live_tag = WM_NO_TAG,
                                    .slot = {NO_SLOT, NO_SLOT, NO_SLOT, NO_SLOT,
                                             NO_SLOT, NO_SLOT, NO_SLOT,
                                             NO_SLOT}};
_Static_assert(WM_STREAM_SLOTS == 8, "as many as NO_SLOT");

_Thread_local const wm_window *wm_window_current = &no_window;

static _Thread_local struct {
    wm_window *list;
    unsigned rounds; /* how often our destructor ran */
    uint64_t number; /* wm_window_thread()'s; 0: none yet */
} mine __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static int key_error;

static void empty(warm_runtime *runtime, wm_window *window)
{
    if (runtime->window_empty != NULL) {
        runtime->window_empty(runtime, window);
    }
}

/* Flushes the window's caches and its trace buffer. */
static void clear(warm_runtime *runtime, wm_window *window)
{
    wm_biased_acquire(&window->biased);
    empty(runtime, window);
    wm_biased_release(&window->biased);
    if (window->trace != NULL) {
        wm_trace_leave(window->trace);
        window->trace = NULL;
    }
}

/* Calls runtime->thread_leaves(); the runtime is pinned. */
static bool leave_streams(warm_runtime *runtime, bool exits)
{
    return runtime->thread_leaves != NULL &&
           runtime->thread_leaves(runtime, exits);
}

/* Relaxed: only the owner thread adds magazines; or the window has none. */
static bool has_magazines(const wm_window *window)
{
    return atomic_load_explicit(&window->magazines, memory_order_relaxed) !=
           NULL;
}

/* Returns all that the window holds; the runtime is pinned. Handles are
 * returned without a call that could be a cancellation point. leave: magazines
 * may stay in the window, for the next thread. */
static void release(warm_runtime *runtime, wm_window *window, bool leave)
{
    runtime->window_release(runtime, window);
    if (window->slots_used > 0 || window->trace != NULL ||
        (has_magazines(window) &&
         !(leave && runtime->window_may_wait != NULL &&
           runtime->window_may_wait(runtime, window)))) {
        clear(runtime, window);
    }
}

/* Relaxed, like all accesses of state: ordered by the exchange or the lock
 * through which the next thread gets the window. */
static void set_state(wm_window *window, enum wm_window_state state)
{
    atomic_store_explicit(&window->state, (int)state, memory_order_relaxed);
}

/* Makes a window without a thread, which is not the ready one any more, a spare
 * one. True: it had magazines, which are flushed. */
static bool put_spare(warm_runtime *runtime, wm_window *window)
{
    bool had = has_magazines(window);

    if (had) {
        clear(runtime, window);
    }
    wm_lock_acquire(&runtime->windows_lock);
    window->next_spare = runtime->spare_windows;
    runtime->spare_windows = window;
    wm_lock_release(&runtime->windows_lock);
    return had;
}

bool wm_window_empty_ready(warm_runtime *runtime)
{
    wm_window *window = NULL;

    /* Relaxed: a hint. Acquire: as in take_spare(). */
    if (atomic_load_explicit(&runtime->ready_window, memory_order_relaxed) !=
        NULL) {
        window = atomic_exchange_explicit(&runtime->ready_window, NULL,
                                          memory_order_acquire);
    }
    return window != NULL && put_spare(runtime, window);
}

/* Returns the window to the runtime, for another thread; the runtime is pinned.
 */
static void hand_back(warm_runtime *runtime, wm_window *window)
{
    wm_window *before;

    set_state(window, WM_WINDOW_SPARE);
    /* Release pairs with the acquire in take_spare(). Acquire: this thread puts
     * the window that was ready on the list. */
    before = atomic_exchange_explicit(&runtime->ready_window, window,
                                      memory_order_acq_rel);
    if (before != NULL) {
        (void)put_spare(runtime, before);
    }
}

/* Leaves the window to destroy, which is under way. False if destroy has
 * already cut the window, which then belongs to the thread. */
static bool leave(warm_runtime *runtime, wm_window *window)
{
    bool cut;

    wm_lock_acquire(&runtime->windows_lock);
    /* Relaxed: destroy stores it under the lock. */
    cut = atomic_load_explicit(&window->runtime, memory_order_relaxed) ==
          WM_WINDOW_GONE;
    if (!cut) {
        set_state(window, WM_WINDOW_LEFT);
    }
    wm_lock_release(&runtime->windows_lock);
    return !cut;
}

/* exits: the thread ends, not only its use of the runtime. */
static void end_window(wm_window *window, bool exits)
{
    /* Acquire pairs with the release in cut_locked(): a thread that sees the
     * link cut knows that destroy no longer uses the window. */
    warm_runtime *runtime =
        atomic_load_explicit(&window->runtime, memory_order_acquire);

    if (wm_likely(runtime != WM_WINDOW_GONE) && wm_runtime_pin(runtime)) {
        if (exits) {
            (void)leave_streams(runtime, true);
        }
        release(runtime, window, exits);
        hand_back(runtime, window);
        wm_runtime_unpin(runtime);
    } else if (runtime == WM_WINDOW_GONE || !leave(runtime, window)) {
        wm_meta_free(window);
    }
}

static void thread_exits(void *value)
{
    wm_window *window = mine.list;

    (void)value;
    mine.rounds++;
    mine.list = NULL;
    wm_window_current = &no_window;
    /* While the process exits nothing is returned: what the windows hold is
     * leaked, and has been counted as such. */
    while (window != NULL && !wm_process_exiting()) {
        wm_window *next = window->next_of_thread;

        end_window(window, true);
        window = next;
    }
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, thread_exits);
}

warm_status wm_window_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_key);
    return key_error == 0 ? WARM_OK
                          : wm_fail(WARM_OUT_OF_MEMORY,
                                    "the process has no thread-specific key "
                                    "left (pthread_key_create())");
}

/* Makes sure that the destructor runs when the thread exits. Sets no error. */
static warm_status arm_destructor(void)
{
    if (mine.rounds >= PTHREAD_DESTRUCTOR_ITERATIONS) {
        return WARM_EXITING;
    }
    return pthread_setspecific(key, &mine) == 0 ? WARM_OK : WARM_OUT_OF_MEMORY;
}

/* The thread's window of the runtime, or null. Frees windows on its way whose
 * runtimes are destroyed. */
wm_window *wm_window_find(warm_runtime *runtime)
{
    wm_window **at = &mine.list;

    while (*at != NULL) {
        wm_window *window = *at;
        /* Acquire: as in end_window(). */
        warm_runtime *owner =
            atomic_load_explicit(&window->runtime, memory_order_acquire);

        if (owner == runtime) {
            return window;
        }
        if (owner == WM_WINDOW_GONE) {
            *at = window->next_of_thread;
            if (wm_window_current == window) {
                wm_window_current = &no_window;
            }
            wm_meta_free(window);
        } else {
            at = &window->next_of_thread;
        }
    }
    return NULL;
}

static wm_window *take_spare(warm_runtime *runtime)
{
    /* Acquire pairs with the release in hand_back(). */
    wm_window *window = atomic_exchange_explicit(&runtime->ready_window, NULL,
                                                 memory_order_acquire);

    if (window == NULL) {
        wm_lock_acquire(&runtime->windows_lock);
        window = runtime->spare_windows;
        if (window != NULL) {
            runtime->spare_windows = window->next_spare;
        }
        wm_lock_release(&runtime->windows_lock);
    }
    if (window != NULL) {
        set_state(window, WM_WINDOW_USED);
    }
    return window;
}

static void hold_none(wm_window *window)
{
    for (unsigned device = 0; device < window->devices; device++) {
        wm_rows *rows = wm_window_rows(window, (int)device);

        for (warm_kind kind = 0; kind < WARM_KIND_MAX; kind++) {
            rows->held[wm_window_index(kind, (int)device)] = wm_window_none;
        }
    }
}

static wm_window *make(warm_runtime *runtime) __attribute__((noinline, cold));
static wm_window *make(warm_runtime *runtime)
{
    unsigned devices = (unsigned)runtime->devices;
    size_t rows = (devices + WM_ROW_DEVICES - 1) / WM_ROW_DEVICES;
    wm_window *window =
        wm_meta_alloc(sizeof *window + rows * sizeof *window->rows +
                      devices * sizeof *window->kinds_held);

    if (window == NULL) {
        return NULL;
    }
    window->owner = runtime;
    window->devices = devices;
    /* Relaxed: see the field. */
    atomic_store_explicit(&window->near_devices,
                          devices < WM_ROW_DEVICES ? devices : WM_ROW_DEVICES,
                          memory_order_relaxed);
    window->kinds_held = (uint32_t *)(void *)(window->rows + rows);
    hold_none(window);
    set_state(window, WM_WINDOW_USED);
    /* Relaxed: the windows lock publishes it to destroy. */
    atomic_store_explicit(&window->runtime, runtime, memory_order_relaxed);
    atomic_store_explicit(&window->live_tag, WM_NO_TAG, memory_order_relaxed);
    for (int i = 0; i < WM_STREAM_SLOTS; i++) {
        wm_window_clear_slot(&window->slot[i]);
    }
    window->slot_last = window->slot;
    wm_lock_acquire(&runtime->windows_lock);
    wm_biased_init(&window->biased, runtime->window_revoked);
    if (wm_process_exiting()) { /* wm_window_close_all() may be over already */
        wm_biased_revoke(&window->biased, WM_REVOKED_EXIT);
        atomic_store_explicit(&window->near_devices, 0, memory_order_relaxed);
    }
    window->next = runtime->windows;
    runtime->windows = window;
    wm_lock_release(&runtime->windows_lock);
    return window;
}

/* Sets the window as for a thread that has not used it. */
static void reset(wm_window *window)
{
    window->home = -1;
    window->stream = NULL;
}

/* The thread's first call: gets it a spare window, or a new one. Sets no error.
 */
static warm_status get_first(warm_runtime *runtime, wm_window **window)
{
    warm_status status = arm_destructor();
    wm_window *found;

    if (status != WARM_OK) {
        return status;
    }
    found = take_spare(runtime);
    if (found == NULL) {
        found = make(runtime);
    }
    if (found == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    reset(found);
    found->next_of_thread = mine.list;
    mine.list = found;
    wm_window_current = found;
    *window = found;
    return WARM_OK;
}

uint64_t wm_window_thread(void)
{
    static _Atomic uint64_t last_thread;

    if (mine.number == 0) {
        /* Relaxed: the numbers only have to be distinct. */
        mine.number = 1 + atomic_fetch_add_explicit(&last_thread, 1,
                                                    memory_order_relaxed);
    }
    return mine.number;
}

warm_status wm_window_get_quietly(warm_runtime *runtime, wm_window **window)
{
    wm_window *found = mine.list != NULL ? wm_window_find(runtime) : NULL;

    if (found == NULL) {
        return get_first(runtime, window);
    }
    wm_window_current = found;
    *window = found;
    return WARM_OK;
}

warm_status wm_window_get(warm_runtime *runtime, wm_window **window)
{
    warm_status status = wm_window_get_quietly(runtime, window);

    if (wm_likely(status == WARM_OK)) {
        return status;
    }
    return status == WARM_EXITING
               ? wm_fail(status, "the thread is ending, and its thread-local "
                                 "data is gone")
               : wm_fail(status, "no memory for the records of a thread");
}

/* Empties the window of a thread that releases the runtime. True if the window
 * stays with the thread, because thread_leaves() has to run again when the
 * thread exits. */
static bool empty_and_stay(warm_runtime *runtime, wm_window *window)
{
    bool stays;

    if (!wm_runtime_pin(runtime)) {
        return false;
    }
    stays = leave_streams(runtime, false);
    if (stays) {
        release(runtime, window, false);
        reset(window);
    }
    wm_runtime_unpin(runtime);
    return stays;
}

warm_status wm_window_drop(warm_runtime *runtime)
{
    wm_window *window = wm_window_find(runtime);
    wm_window **at = &mine.list;

    if (wm_callback_inside()) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "warm_thread_release() was called by a callback: it "
                       "would release what the call around it needs");
    }
    if (window == NULL) {
        return WARM_OK;
    }
    wm_window_current = &no_window;
    if (empty_and_stay(runtime, window)) {
        return WARM_OK;
    }
    while (*at != window) {
        at = &(*at)->next_of_thread;
    }
    *at = window->next_of_thread;
    end_window(window, false);
    return WARM_OK;
}

void wm_window_forked(void)
{
    /* The records are not freed: they are in the list of a runtime whose lock
     * another thread may have held when the process forked. */
    mine.list = NULL;
    wm_window_current = &no_window;
}

/* ---- all windows of a runtime ---------------------------------------------
 */

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
        if ((!is_state(w, WM_WINDOW_SPARE) || has_magazines(w)) &&
            (visit->wanted == NULL || visit->wanted(w, visit->context))) {
            wm_biased_revoke(&w->biased, reasons);
            /* Revoked (SLOW): the owner takes the lock, but for a hit that
             * shows as busy. */
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

    (void)wm_window_empty_ready(runtime);
    wm_lock_acquire(&runtime->windows_lock);
    passed = !close_wanted_locked(runtime, visit) || wm_biased_barrier();
    visit_revoked_locked(runtime, visit, passed);
    wm_lock_release(&runtime->windows_lock);
    return passed;
}

bool wm_window_slow_all(warm_runtime *runtime)
{
    bool slow;

    wm_lock_acquire(&runtime->windows_lock);
    slow = (runtime->window_revoked & WM_REVOKED_SLOW) != 0;
    if (!slow) {
        for (wm_window *w = runtime->windows; w != NULL; w = w->next) {
            wm_biased_revoke(&w->biased, WM_REVOKED_SLOW);
        }
        slow = wm_biased_barrier();
        runtime->window_revoked |= slow ? WM_REVOKED_SLOW : 0;
        for (wm_window *w = runtime->windows; !slow && w != NULL; w = w->next) {
            wm_biased_restore(&w->biased, WM_REVOKED_SLOW);
        }
    }
    wm_lock_release(&runtime->windows_lock);
    return slow;
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
    empty(context, window);
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
        wm_meta_free(window);
    }
}
