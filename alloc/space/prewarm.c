/* prewarm.c: memory obtained ahead of demand, region by region: by the calling
 * thread, or by the background thread for the jobs of nodes (space.h). Takes
 * lock background; no lock is held across a call to the driver, a callback or a
 * pause. */
#include "alloc/space/space_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/clock.h"
#include "runtime/thread/window.h"

/* ---- memory ahead of demand --------------------------------------------- */

static size_t idle_on(wm_space *space, int node)
{
    return wm_arena_idle(wm_group_arena(&space->group, node));
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static uint64_t read_cancels(wm_background *b)
{
    uint64_t cancels;

    wm_lock_acquire(&b->waker.lock);
    cancels = b->cancels;
    wm_lock_release(&b->waker.lock);
    return cancels;
}

/* Waits unless prewarming was cancelled since `cancels` was read; false: it
 * was.
 */
static bool pause_for(wm_background *b, uint64_t cancels, uint64_t ns)
{
    uint64_t now = wm_clock_ns(), until = now + ns;
    bool goes_on;

    wm_lock_acquire(&b->waker.lock);
    while (b->cancels == cancels && now < until) {
        wm_cond_wait_for(&b->over, &b->waker.lock, until - now);
        now = wm_clock_ns();
    }
    goes_on = b->cancels == cancels;
    wm_lock_release(&b->waker.lock);
    return goes_on;
}

/* Its users are counted under the lock of the waker. */
static wm_turn *turn_of(const wm_background *b)
{
    return &b->space->group.runtime->turn;
}

/* Waits until no other process obtains memory ahead; false: prewarming was
 * cancelled meanwhile. */
static bool begin_turn(wm_background *b, uint64_t cancels)
{
    bool began = false, goes_on = true;

    while (!began && goes_on) {
        wm_lock_acquire(&b->waker.lock);
        began = wm_turn_try_locked(turn_of(b));
        wm_lock_release(&b->waker.lock);
        if (!began) {
            goes_on = pause_for(b, cancels, WM_TURN_POLL);
        }
    }
    return began;
}

static void end_turn(wm_background *b)
{
    wm_lock_acquire(&b->waker.lock);
    wm_turn_end_locked(turn_of(b));
    wm_lock_release(&b->waker.lock);
}

/* How long to pause after a region that took so long. */
static uint64_t pause_after(const wm_background *b, uint64_t took_ns,
                            uint64_t longest_ns)
{
    uint64_t pause = took_ns < longest_ns ? took_ns : longest_ns;
    uint64_t gap = wm_turn_gap(turn_of(b));

    return pause < gap ? gap : pause;
}

/* Obtains a region for a job that misses so many bytes, in the turn of this
 * process. Status: of the growth. */
static warm_status obtain_ahead(wm_space *space, int node, size_t missing,
                                uint64_t cancels, size_t *obtained)
{
    wm_background *b = &space->background;
    size_t segment = space->group.segment_bytes, got = 0;
    size_t region = smaller(missing, space->chunk_bytes);
    warm_status status;

    if (!begin_turn(b, cancels)) {
        return WARM_OK; /* the caller sees that it was cancelled */
    }
    status = wm_growth_ahead(space, wm_group_arena(&space->group, node),
                             region > segment ? region : segment,
                             smaller(missing, segment), &got);
    end_turn(b);
    *obtained += got;
    return status;
}

/* Obtains one region, unless `bytes` are idle on the node (frees that have
 * completed are collected first), or were obtained for this job (*obtained).
 * *enough: the job is done. A region has at least the bytes of a segment, so
 * that many small jobs do not leave many small segments; less only if the
 * driver refuses. Obtains nothing if prewarming was cancelled since `cancels`
 * was read. No lock held. Status: OUT_OF_MEMORY, or another of the driver's. */
static warm_status obtain_region(wm_space *space, int node, size_t bytes,
                                 uint64_t cancels, size_t *obtained,
                                 bool *enough)
{
    size_t idle = idle_on(space, node), missing;
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
        status = obtain_ahead(space, node, missing, cancels, obtained);
    }
    wm_space_work_end(space, &work, status == WARM_OK);
    return status;
}

/* Adds the bytes that are idle to the message of a prewarm that failed. */
static warm_status not_all(wm_space *space, int node, size_t bytes,
                           warm_status status)
{
    warm_error cause = wm_error_save();

    return wm_fail_code(status, cause.origin, cause.code, cause.code_text,
                        "prewarm of %s %s memory stopped, %s idle: %s",
                        wm_bytes(bytes).text, space->traits->name,
                        wm_bytes(idle_on(space, node)).text, cause.message);
}

/* Bytes of a job that are ready: idle memory, or memory obtained for the job
 * that was allocated meanwhile. */
static size_t ready_bytes(wm_space *space, int node, size_t bytes,
                          size_t obtained)
{
    size_t idle = idle_on(space, node);

    return smaller(bytes, idle > obtained ? idle : obtained);
}

/* Calls the callback of a prewarm, if more is ready than it was told of. No
 * lock held. False: it cancels the prewarm. */
static bool tell_ready(const warm_prewarm_options *how, size_t ready,
                       size_t bytes, size_t *told)
{
    bool goes_on = true;

    if (how->progress != NULL && ready > *told) {
        wm_callback_begin();
        goes_on = how->progress(how->context, ready, bytes) == 0;
        wm_callback_end();
        *told = ready;
    }
    return goes_on;
}

static warm_status cancelled(wm_space *space, int node, size_t bytes)
{
    return wm_fail(WARM_NOT_READY,
                   "prewarm of %s %s memory was cancelled, %s idle",
                   wm_bytes(bytes).text, space->traits->name,
                   wm_bytes(idle_on(space, node)).text);
}

warm_status wm_prewarm_now(wm_space *space, int node, size_t bytes,
                           const warm_prewarm_options *how)
{
    wm_background *b = &space->background;
    uint64_t cancels = read_cancels(b);
    size_t obtained = 0, told = 0;
    bool enough = false;

    while (!enough) {
        uint64_t start = wm_clock_ns(), pause;
        warm_status status =
            obtain_region(space, node, bytes, cancels, &obtained, &enough);
        size_t ready = ready_bytes(space, node, bytes, obtained);
        bool goes_on;

        if (status != WARM_OK) {
            return not_all(space, node, bytes, status);
        }
        pause = pause_after(b, wm_clock_ns() - start, how->pause_ns);
        goes_on = tell_ready(how, enough ? bytes : ready, bytes, &told);
        if (!enough && ready < bytes &&
            !(goes_on && pause_for(b, cancels, pause))) {
            return cancelled(space, node, bytes);
        }
        /* Else what is allocated by now would be replaced in spite of it. */
        enough |= !goes_on;
    }
    return WARM_OK;
}

warm_status wm_prewarm_region(wm_background *b, int node, size_t bytes)
{
    uint64_t cancels = read_cancels(b);
    bool enough = false;
    size_t obtained = 0;
    warm_status status =
        obtain_region(b->space, node, bytes, cancels, &obtained, &enough);

    (void)pause_for(b, cancels, wm_turn_gap(turn_of(b)));
    return status;
}

/* ---- prewarm jobs ------------------------------------------------------- */

bool wm_prewarm_has_jobs_locked(const wm_background *b)
{
    bool has = false;

    for (int i = 0; i < b->space->group.nodes; i++) {
        has |= b->job[i].bytes > 0;
    }
    return has;
}

/* How long all jobs pause, in ns; WM_NEVER if there is none. *node: of the job
 * that is due first. */
uint64_t wm_prewarm_due_locked(const wm_background *b, int *node)
{
    uint64_t now = wm_clock_ns(), least = WM_NEVER;

    for (int i = 0; i < b->space->group.nodes; i++) {
        const wm_prewarm_job *job = &b->job[i];
        uint64_t left = job->due_ns > now ? job->due_ns - now : 0;

        if (job->bytes > 0 && left < least) {
            least = left;
            *node = i;
        }
    }
    return least;
}

/* The caller wakes the threads that wait for it. */
static void end_job_locked(wm_prewarm_job *job)
{
    *job = (wm_prewarm_job){.number = job->number + 1};
}

/* Counts what was obtained for the job copied to *was, and copies it again;
 * false: it was cancelled meanwhile, and another one may be queued. */
static bool count_step_locked(wm_background *b, int node, wm_prewarm_job *was)
{
    wm_prewarm_job *job = &b->job[node];
    size_t done;

    if (job->number != was->number) {
        return false;
    }
    job->obtained = was->obtained;
    done = ready_bytes(b->space, node, job->bytes, job->obtained);
    if (done > job->reported) {
        b->obtained += done - job->reported;
        job->reported = done;
    }
    *was = *job;
    return true;
}

/* Ends a step of the job copied to *was. pause_ns: until its next one. */
static void end_step_locked(wm_background *b, int node,
                            const wm_prewarm_job *was, bool goes_on,
                            warm_status status, uint64_t pause_ns)
{
    wm_prewarm_job *job = &b->job[node];

    b->obtaining = false;
    wm_cond_broadcast(&b->over);
    if (status != WARM_OK && b->failure.status == WARM_OK) {
        b->failure = wm_error_save();
    }
    if (job->number != was->number) {
        return;
    }
    if (job->how.progress == was->how.progress) { /* else a later call's */
        job->told = was->told;
    }
    /* More bytes may have been requested meanwhile. */
    if (!goes_on || status != WARM_OK || job->reported >= job->bytes) {
        end_job_locked(job);
    } else if (pause_ns > 0) {
        job->due_ns = wm_clock_ns() + pause_ns;
    }
}

void wm_prewarm_step(wm_background *b)
{
    uint64_t cancels, start = wm_clock_ns(), pause;
    bool enough = false, same, goes_on = true;
    warm_status status;
    wm_prewarm_job job;
    int node = 0;

    wm_lock_acquire(&b->waker.lock);
    if (wm_prewarm_due_locked(b, &node) > 0) {
        wm_lock_release(&b->waker.lock);
        return;
    }
    b->obtaining = true;
    job = b->job[node];
    cancels = b->cancels;
    wm_lock_release(&b->waker.lock);
    status = obtain_region(b->space, node, job.bytes, cancels, &job.obtained,
                           &enough);
    if (status != WARM_OK) {
        status = not_all(b->space, node, job.bytes, status);
    }
    pause = pause_after(b, wm_clock_ns() - start, job.how.pause_ns);
    wm_lock_acquire(&b->waker.lock);
    same = count_step_locked(b, node, &job);
    wm_lock_release(&b->waker.lock);
    if (same && status == WARM_OK) {
        goes_on = tell_ready(&job.how, job.reported, job.bytes, &job.told);
    }
    wm_lock_acquire(&b->waker.lock);
    end_step_locked(b, node, &job, goes_on, status, pause);
    wm_lock_release(&b->waker.lock);
}

void wm_prewarm_cancel_locked(wm_background *b)
{
    b->cancels++;
    wm_cond_broadcast(&b->over); /* also for threads that pause */
    for (int i = 0; i < b->space->group.nodes; i++) {
        if (b->job[i].bytes > 0) {
            end_job_locked(&b->job[i]);
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
