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
#include "runtime/thread/window.h"

/* Bounds of the pause between two polls, in ns. */
#define SHORTEST ((uint64_t)50000)
#define LONGEST  ((uint64_t)10000000)

/* Pause after the driver refused the reserve, in ns. */
#define RETRY ((uint64_t)100000000)

#define NEVER UINT64_MAX

/* ---- memory ahead of demand --------------------------------------------- */

static size_t idle_on(wm_space *space, int node)
{
    return wm_arena_idle(wm_group_arena(&space->group, node));
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Obtains one region, unless `bytes` are idle on the node (frees that have
 * completed are collected first), or were obtained for this job (*obtained).
 * *enough: the job is done. A region has at least the bytes of a segment, so
 * that many small jobs do not leave many small segments; less only if the
 * driver refuses. No lock held. Status: OUT_OF_MEMORY, or another of the
 * driver's. */
static warm_status obtain_region(wm_space *space, int node, size_t bytes,
                                 size_t *obtained, bool *enough)
{
    size_t segment = space->group.segment_bytes;
    size_t idle = idle_on(space, node), missing, region, got = 0;
    wm_space_work work;
    warm_status status;

    *enough = idle >= bytes || *obtained >= bytes;
    if (*enough) {
        return WARM_OK;
    }
    status = wm_space_work_begin(space, &work);
    if (status != WARM_OK) {
        return status;
    }
    if (*obtained == 0) { /* freed blocks may have completed, and a thread may
                             have left a cache */
        wm_space_collect(space);
        (void)wm_window_empty_ready(space->group.runtime);
        idle = idle_on(space, node);
        *enough = idle >= bytes;
    }
    if (!*enough) {
        missing = wm_page_round(smaller(bytes - idle, bytes - *obtained));
        region = smaller(missing, space->chunk_bytes);
        status = wm_growth_ahead(space, wm_group_arena(&space->group, node),
                                 region > segment ? region : segment,
                                 smaller(missing, segment), &got);
        *obtained += got;
    }
    wm_space_work_end(space, &work, status == WARM_OK);
    return status;
}

/* Adds the bytes that are idle to the message of a prewarm that failed. */
static warm_status not_all(wm_space *space, int node, size_t bytes,
                           warm_status status)
{
    warm_error cause = {.size = sizeof cause};

    warm_last_error(&cause);
    return wm_fail_code(status, cause.origin, cause.code, cause.code_text,
                        "prewarm of %s %s memory stopped, %s idle: %s",
                        wm_bytes(bytes).text, space->traits->name,
                        wm_bytes(idle_on(space, node)).text, cause.message);
}

warm_status wm_prewarm_now(wm_space *space, int node, size_t bytes)
{
    bool enough = false;
    size_t obtained = 0;

    while (!enough) {
        warm_status status =
            obtain_region(space, node, bytes, &obtained, &enough);

        if (status != WARM_OK) {
            return not_all(space, node, bytes, status);
        }
    }
    return WARM_OK;
}

/* ---- prewarm jobs ------------------------------------------------------- */

static int first_job_locked(const wm_background *b)
{
    int node = 0;

    while (node < b->space->group.nodes && b->job[node].bytes == 0) {
        node++;
    }
    return node;
}

bool wm_prewarm_has_jobs_locked(const wm_background *b)
{
    return first_job_locked(b) < b->space->group.nodes;
}

static void end_job_locked(wm_background *b, wm_prewarm_job *job)
{
    *job = (wm_prewarm_job){.number = job->number + 1};
    if (!wm_prewarm_has_jobs_locked(b)) {
        wm_cond_broadcast(&b->over);
    }
}

/* Ends a step for the job copied to *was; meanwhile it may have been cancelled,
 * and another one queued. */
static void end_step_locked(wm_background *b, int node,
                            const wm_prewarm_job *was, bool enough,
                            warm_status status)
{
    wm_prewarm_job *job = &b->job[node];
    size_t idle = idle_on(b->space, node), done;

    b->obtaining = false;
    wm_cond_broadcast(&b->over);
    if (status != WARM_OK && b->failure.status == WARM_OK) {
        b->failure.size = sizeof b->failure;
        warm_last_error(&b->failure);
    }
    if (job->number != was->number) {
        return;
    }
    job->obtained = was->obtained;
    /* Counts idle memory, or memory obtained for the job that was allocated
     * meanwhile. */
    done = smaller(job->bytes, idle > job->obtained ? idle : job->obtained);
    if (done > job->reported) {
        b->obtained += done - job->reported;
        job->reported = done;
    }
    /* More bytes may have been requested meanwhile. */
    if (status != WARM_OK || (enough && job->reported >= job->bytes)) {
        end_job_locked(b, job);
    }
}

/* Obtains one region for the first job. */
static void run_job(wm_background *b)
{
    warm_status status;
    bool enough = false;
    wm_prewarm_job job;
    int node;

    wm_lock_acquire(&b->waker.lock);
    node = first_job_locked(b);
    if (node == b->space->group.nodes) {
        wm_lock_release(&b->waker.lock);
        return;
    }
    b->obtaining = true;
    job = b->job[node];
    wm_lock_release(&b->waker.lock);
    status = obtain_region(b->space, node, job.bytes, &job.obtained, &enough);
    if (status != WARM_OK) {
        status = not_all(b->space, node, job.bytes, status);
    }
    wm_lock_acquire(&b->waker.lock);
    end_step_locked(b, node, &job, enough, status);
    wm_lock_release(&b->waker.lock);
}

void wm_prewarm_cancel_locked(wm_background *b)
{
    for (int i = 0; i < b->space->group.nodes; i++) {
        if (b->job[i].bytes > 0) {
            end_job_locked(b, &b->job[i]);
        }
    }
}

warm_status wm_prewarm_await(wm_background *b)
{
    warm_error failure;

    wm_lock_acquire(&b->waker.lock);
    while (wm_prewarm_has_jobs_locked(b) || b->obtaining) {
        wm_cond_wait(&b->over, &b->waker.lock);
    }
    failure = b->failure;
    b->failure.status = WARM_OK;
    wm_lock_release(&b->waker.lock);
    if (failure.status != WARM_OK) {
        wm_error_restore(&failure);
    }
    return failure.status;
}

/* ---- the reserve -------------------------------------------------------- */

static bool reserve_is_short(wm_background *b)
{
    /* Relaxed: a time, tied to no other data. */
    return b->on && b->reserve_bytes != 0 &&
           idle_on(b->space, b->reserve_node) < b->reserve_bytes &&
           wm_clock_ns() >=
               atomic_load_explicit(&b->retry_ns, memory_order_relaxed);
}

void wm_background_check_reserve(wm_background *b)
{
    if (reserve_is_short(b)) {
        wm_waker_wake(&b->waker);
    }
}

static void fill_reserve(wm_background *b)
{
    bool enough = false;
    size_t obtained = 0;

    if (obtain_region(b->space, b->reserve_node, b->reserve_bytes, &obtained,
                      &enough) != WARM_OK) {
        atomic_store_explicit(&b->retry_ns, wm_clock_ns() + RETRY,
                              memory_order_relaxed);
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
    if (b->space->beside != NULL) {
        wm_space_stats(b->space->beside, &s);
        figures.pending += s.pending.current;
        figures.freed += s.pending.freed;
    }
    return figures;
}

/* How long the thread may sleep, in ns. *pause: between the last two polls. */
static uint64_t may_sleep_locked(wm_background *b, uint64_t *pause)
{
    struct figures figures;
    uint64_t watch;

    if (wm_prewarm_has_jobs_locked(b) || reserve_is_short(b)) {
        return 0;
    }
    if (!b->on) {
        return NEVER;
    }
    figures = read_figures(b);
    if (figures.pending > 0) {
        *pause = *pause < SHORTEST      ? SHORTEST
                 : *pause < LONGEST / 2 ? *pause * 2
                                        : LONGEST;
        return *pause;
    }
    *pause = 0;
    if (figures.held == 0) {
        return NEVER;
    }
    watch = wm_pressure_pause(b->space);
    return b->space->decay_ns > 0 && b->space->decay_ns < watch
               ? b->space->decay_ns
               : watch;
}

static void sleep_locked(wm_background *b, uint64_t *pause)
{
    uint64_t ns;

    /* Stored before the figures are read: a thread that adds work after the
     * read sees that this one sleeps (waker.h). */
    atomic_store_explicit(&b->waker.sleep,
                          b->on ? WM_SLEEP_LONG : WM_SLEEP_NONE,
                          memory_order_relaxed);
    ns = may_sleep_locked(b, pause);
    if (ns != NEVER && ns > 0 && b->on) {
        atomic_store_explicit(&b->waker.sleep,
                              *pause > 0 ? WM_SLEEP_SHORT : WM_SLEEP_DECAY,
                              memory_order_relaxed);
    }
    if (ns == NEVER) {
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
 * younger than option batch_ms stay open until a later round. */
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

    (void)wm_cancel_off();
    do {
        if (b->on) {
            poll(b, &pause);
        }
        if (reserve_is_short(b)) {
            fill_reserve(b);
        }
        run_job(b);
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
        return wm_prewarm_now(b->space, b->reserve_node, b->reserve_bytes);
    }
    wm_lock_acquire(&b->waker.lock);
    status = start_locked(b);
    wm_lock_release(&b->waker.lock);
    return status;
}

warm_status wm_prewarm_queue(wm_background *b, int node, size_t bytes)
{
    wm_prewarm_job *job = &b->job[node];
    warm_status status;

    if (bytes == 0) {
        return WARM_OK;
    }
    wm_lock_acquire(&b->waker.lock);
    status = start_locked(b);
    if (status == WARM_OK && bytes > job->bytes) {
        if (!wm_prewarm_has_jobs_locked(b) && !b->obtaining) {
            b->wanted = b->obtained = 0;
        }
        b->wanted += bytes - job->bytes;
        job->bytes = bytes;
        wm_waker_wake_locked(&b->waker);
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
