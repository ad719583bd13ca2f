/* background.c: the background thread of a runtime (space.h): its jobs, its
 * rounds, its sleep. Takes lock background and, under it, the locks that
 * reading statistics takes; no lock is held across a call to the driver. */
#include "alloc/space/space_int.h"

#include "alloc/cache/pending.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/thread_start.h"

/* Bounds of the pause between two polls, in ns. */
#define SHORTEST ((uint64_t)50000)
#define LONGEST  ((uint64_t)10000000)

/* Pauses after the driver, or a limit, refused the reserve, in ns: the first,
 * and the longest, since each is twice the one before. */
#define RETRY      ((uint64_t)100000000)
#define RETRY_MOST (16 * RETRY)

/* ---- the reserve -------------------------------------------------------- */

/* How long until the reserve is to be filled: 0 if it is short, and was not
 * refused lately; WM_NEVER if it is not short. */
static uint64_t until_fill(wm_background *b)
{
    uint64_t now, due;

    if (!b->on || b->reserve_bytes == 0 ||
        wm_arena_idle(wm_group_arena(&b->space->group, b->reserve_node)) >=
            b->reserve_bytes) {
        return WM_NEVER;
    }
    now = wm_clock_ns();
    /* Relaxed: a time, tied to no other data. */
    due = atomic_load_explicit(&b->retry_ns, memory_order_relaxed);
    return now < due ? due - now : 0;
}

static bool reserve_is_short(wm_background *b)
{
    return until_fill(b) == 0;
}

void wm_background_check_reserve(wm_background *b)
{
    if (reserve_is_short(b)) {
        wm_waker_wake(&b->waker);
    }
}

static void fill_reserve(wm_background *b)
{
    if (wm_prewarm_region(b, b->reserve_node, b->reserve_bytes) == WARM_OK) {
        b->retry_pause = 0;
        return;
    }
    b->retry_pause = b->retry_pause == 0           ? RETRY
                     : b->retry_pause < RETRY_MOST ? 2 * b->retry_pause
                                                   : RETRY_MOST;
    atomic_store_explicit(&b->retry_ns, wm_clock_ns() + b->retry_pause,
                          memory_order_relaxed);
    if (b->retry_pause == RETRY) {
        wm_log(WARM_LOG_INFO, "could not obtain the reserve of %s: %s",
               wm_bytes(b->reserve_bytes).text, warm_last_error_message());
    }
}

/* ---- sleep -------------------------------------------------------------- */

struct figures {
    uint64_t pending, freed, held; /* blocks, blocks, bytes of all spaces */
};

static struct figures read_figures(wm_background *b)
{
    warm_space_stats s = {.size = sizeof s};
    struct figures figures;

    wm_space_stats(b->space, &s);
    figures.pending =
        s.pending.current + wm_pending_blocks(b->space->group.timelines);
    figures.freed = s.pending.freed;
    /* Of all spaces: watermarks and pressure. */
    figures.held = wm_whole_taken(&b->space->whole);
    for (int i = 0; i < 2; i++) {
        wm_space *space = i == 0 ? b->space->beside : b->space->adopted;

        if (space != NULL) {
            wm_space_stats(space, &s);
            figures.pending += s.pending.current;
            figures.freed += s.pending.freed;
        }
    }
    /* Relaxed: a hint; the producer wakes this thread. */
    figures.pending += atomic_load_explicit(&b->space->group.runtime->put_off,
                                            memory_order_relaxed);
    return figures;
}

/* Until the next poll, in ns. *pause: between the last two. */
static uint64_t until_poll(wm_background *b, uint64_t *pause)
{
    struct figures figures = read_figures(b);
    uint64_t watch;

    if (figures.pending > 0) {
        *pause = *pause < SHORTEST      ? SHORTEST
                 : *pause < LONGEST / 2 ? *pause * 2
                                        : LONGEST;
        return *pause;
    }
    *pause = 0;
    if (figures.held == 0) {
        return WM_NEVER;
    }
    watch = wm_pressure_pause(b->space);
    return b->space->decay_ns > 0 && b->space->decay_ns < watch
               ? b->space->decay_ns
               : watch;
}

/* How long the thread may sleep, in ns, if a prewarm job is due in so many. */
static uint64_t may_sleep_locked(wm_background *b, uint64_t due,
                                 uint64_t *pause)
{
    uint64_t fill = until_fill(b), poll = WM_NEVER;

    due = due < fill ? due : fill;
    if (b->on && due > 0) {
        poll = until_poll(b, pause);
    }
    return due < poll ? due : poll;
}

static void sleep_locked(wm_background *b, uint64_t *pause)
{
    uint64_t ns;
    int node;

    /* Stored before the figures are read: a thread that adds work after the
     * read sees that this one sleeps (waker.h). */
    atomic_store_explicit(&b->waker.sleep,
                          b->on ? WM_SLEEP_LONG : WM_SLEEP_NONE,
                          memory_order_relaxed);
    ns = may_sleep_locked(b, wm_prewarm_due_locked(b, &node), pause);
    if (ns != WM_NEVER && ns > 0 && b->on) {
        atomic_store_explicit(&b->waker.sleep,
                              *pause > 0 ? WM_SLEEP_SHORT : WM_SLEEP_DECAY,
                              memory_order_relaxed);
    }
    if (ns == WM_NEVER) {
        while (!b->waker.woken && !b->stop) {
            wm_cond_wait(&b->waker.wake, &b->waker.lock);
        }
    } else if (ns > 0) {
        wm_cond_wait_for(&b->waker.wake, &b->waker.lock, ns);
    }
    b->wakes += ns > 0;
    atomic_store_explicit(&b->waker.sleep, WM_SLEEP_NONE, memory_order_relaxed);
}

/* Ends a round; false: the thread must end. */
static bool end_round(wm_background *b, uint64_t *pause)
{
    bool goes_on;

    wm_lock_acquire(&b->waker.lock);
    b->rounds++;
    wm_cond_broadcast(&b->over);
    if (!b->waker.woken && !b->stop) {
        sleep_locked(b, pause);
    }
    b->waker.woken = false;
    /* While the process exits no driver may be called, and no thread joins this
     * one. */
    while (wm_process_exiting() && !b->stop) {
        wm_cond_wait(&b->waker.wake, &b->waker.lock);
    }
    goes_on = !b->stop;
    wm_lock_release(&b->waker.lock);
    return goes_on;
}

/* ---- the thread --------------------------------------------------------- */

/* Polls; if blocks have completed, the next pause is a short one. Batches
 * younger than batch_ms stay open until a later round. */
static void poll(wm_background *b, uint64_t *pause)
{
    wm_space *space = b->space;
    struct figures before = read_figures(b);
    wm_space_work work;

    if (before.held > 0) {
        wm_pressure_refresh(space);
        (void)wm_pressure_look(space);
        for (size_t i = 0; i < space->all_count; i++) {
            (void)wm_space_shrink(space->all[i]);
        }
    }
    if (before.pending == 0 && space->decay_ns == 0) {
        return;
    }
    wm_driver_notice_reset(space->driver, WM_DEVICE_UNKNOWN);
    if (wm_space_work_begin(space, &work) == WARM_OK) {
        wm_timelines_tend(space->group.timelines);
        wm_space_log_lost(space);
        wm_space_decay(space);
        wm_space_tend_pools(space, NULL);
        wm_space_work_end(space, &work, true);
    }
    *pause = read_figures(b).freed != before.freed ? 0 : *pause;
}

static void *thread_main(void *argument)
{
    wm_background *b = argument;
    uint64_t pause = 0;

    do {
        if (b->on) {
            poll(b, &pause);
        }
        if (reserve_is_short(b)) {
            fill_reserve(b);
        }
        wm_prewarm_step(b);
    } while (end_round(b, &pause));
    return NULL;
}

/* Status: OUT_OF_MEMORY. */
static warm_status start_locked(wm_background *b)
{
    if (!b->started) {
        b->started = wm_thread_start(&b->thread, NULL, thread_main, b);
    }
    return b->started
               ? WARM_OK
               : wm_fail(
                     WARM_OUT_OF_MEMORY,
                     "the runtime's background thread could not be started");
}

warm_status wm_background_begin(wm_background *b)
{
    warm_status status;

    if (!b->on) {
        return wm_prewarm_now(b->space, b->reserve_node, b->reserve_bytes,
                              &(warm_prewarm_options){.pause_ns = 0});
    }
    wm_lock_acquire(&b->waker.lock);
    status = start_locked(b);
    wm_lock_release(&b->waker.lock);
    return status;
}

/* A job has one callback; more bytes bring their pause. */
static void add_to_job_locked(wm_background *b, wm_prewarm_job *job,
                              size_t bytes, const warm_prewarm_options *how)
{
    if (how->progress != NULL) {
        job->how.progress = how->progress;
        job->how.context = how->context;
        job->told = 0;
    }
    if (bytes > job->bytes) {
        if (!wm_prewarm_has_jobs_locked(b) && !b->obtaining) {
            b->wanted = b->obtained = 0;
        }
        b->wanted += bytes - job->bytes;
        job->bytes = bytes;
        job->how.pause_ns = how->pause_ns;
        job->due_ns = 0;
        wm_waker_wake_locked(&b->waker);
    }
}

warm_status wm_prewarm_queue(wm_background *b, int node, size_t bytes,
                             const warm_prewarm_options *how)
{
    wm_prewarm_job *job = &b->job[node];
    warm_status status;

    if (bytes == 0) {
        return WARM_OK;
    }
    wm_lock_acquire(&b->waker.lock);
    if (how->progress != NULL && job->how.progress != NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "a prewarm of node %d with a callback is under way; "
                         "wait for it, or cancel it",
                         node);
    } else {
        status = start_locked(b);
    }
    if (status == WARM_OK) {
        add_to_job_locked(b, job, bytes, how);
    }
    wm_lock_release(&b->waker.lock);
    return status;
}

void wm_background_stop(wm_background *b)
{
    bool started;

    wm_lock_acquire(&b->waker.lock);
    started = b->started;
    b->stop = true;
    wm_prewarm_cancel_locked(b);
    wm_waker_wake_locked(&b->waker);
    wm_lock_release(&b->waker.lock);
    if (started) {
        pthread_join(b->thread, NULL);
    }
}

uint64_t wm_background_wakes(wm_background *b)
{
    uint64_t wakes;

    wm_lock_acquire(&b->waker.lock);
    wakes = b->wakes;
    wm_lock_release(&b->waker.lock);
    return wakes;
}
