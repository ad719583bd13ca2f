/* prewarm_jobs.c: memory obtained ahead, and warm_pinned_prewarm(). Takes lock
 * background; no lock is held across a call to the driver. */
#include "alloc/space/prewarm_jobs.h"

#include "alloc/space/space.h"
#include "runtime/base/bytes.h"

/* ---- one region ------------------------------------------------------- */

static size_t idle_on(wm_space *space, int node)
{
    return wm_arena_idle(wm_group_arena(&space->group, node));
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* First what was freed, and is done: nobody may have asked. At least a segment,
 * so that many small wishes do not leave many small ones; that much less only
 * where it cannot be had. */
warm_status wm_prewarm_step(wm_space *space, int node, size_t bytes,
                            size_t *got, bool *enough)
{
    size_t idle = idle_on(space, node);
    size_t missing, region, obtained = 0;
    warm_status status = WARM_OK;

    if (idle < bytes && *got == 0) {
        status = wm_space_fetch(space);
        idle = idle_on(space, node);
    }
    *enough = idle >= bytes || *got >= bytes;
    if (*enough || status != WARM_OK) {
        return status;
    }
    missing = wm_page_round(smaller(bytes - idle, bytes - *got));
    region = smaller(missing, space->chunk_bytes);
    if (region < space->group.segment_bytes) {
        region = space->group.segment_bytes;
    }
    status =
        wm_space_ahead(space, node, region,
                       smaller(missing, space->group.segment_bytes), &obtained);
    *got += obtained;
    return status;
}

/* Adds what there is to the reason why there is not more. */
static warm_status not_all(wm_space *space, int node, size_t bytes,
                           warm_status status)
{
    warm_error cause = {.size = sizeof cause};

    warm_last_error(&cause);
    return wm_fail_code(status, cause.origin, cause.code, cause.code_text,
                        "of %s of %s memory that were to be had ahead %s are "
                        "idle: %s",
                        wm_bytes(bytes).text, space->traits->name,
                        wm_bytes(idle_on(space, node)).text, cause.message);
}

warm_status wm_prewarm_now(wm_space *space, int node, size_t bytes)
{
    warm_status status = WARM_OK;
    bool enough = false;
    size_t got = 0;

    while (status == WARM_OK && !enough) {
        status = wm_prewarm_step(space, node, bytes, &got, &enough);
    }
    return status == WARM_OK ? status : not_all(space, node, bytes, status);
}

/* ---- in the background ------------------------------------------------ */

static int wanting_node_locked(const wm_background *b)
{
    int node = 0;

    while (node < b->space->group.nodes && b->want[node].bytes == 0) {
        node++;
    }
    return node;
}

bool wm_prewarm_has_jobs_locked(const wm_background *b)
{
    return wanting_node_locked(b) < b->space->group.nodes;
}

/* What is idle counts as had, and what was had and taken meanwhile. */
static void count_locked(wm_background *b, wm_prewarm_job *want, size_t idle)
{
    size_t had = smaller(want->bytes, idle > want->got ? idle : want->got);

    if (had > want->told) {
        b->had += had - want->told;
        want->told = had;
    }
}

static void drop_locked(wm_background *b, wm_prewarm_job *want)
{
    *want = (wm_prewarm_job){.number = want->number + 1};
    if (!wm_prewarm_has_jobs_locked(b)) {
        wm_cond_broadcast(&b->over);
    }
}

/* What a region came to for the wish as it was; it may have been called off
 * meanwhile, and another one made. */
static void settle_locked(wm_background *b, int node, const wm_prewarm_job *was,
                          size_t idle, bool enough, warm_status status)
{
    wm_prewarm_job *want = &b->want[node];

    b->getting = false;
    wm_cond_broadcast(&b->over);
    if (status != WARM_OK && b->failure.status == WARM_OK) {
        b->failure.size = sizeof b->failure;
        warm_last_error(&b->failure);
    }
    if (want->number != was->number) {
        return;
    }
    want->got = was->got;
    count_locked(b, want, idle);
    /* More may have been asked for meanwhile. */
    if (status != WARM_OK || (enough && want->told >= want->bytes)) {
        drop_locked(b, want);
    }
}

void wm_prewarm_run_job(wm_background *b)
{
    warm_status status;
    bool enough = false;
    wm_prewarm_job want;
    int node;

    wm_lock_acquire(&b->waker.lock);
    node = wanting_node_locked(b);
    b->getting = node < b->space->group.nodes;
    if (!b->getting) {
        wm_lock_release(&b->waker.lock);
        return;
    }
    want = b->want[node];
    wm_lock_release(&b->waker.lock);
    status = wm_prewarm_step(b->space, node, want.bytes, &want.got, &enough);
    if (status != WARM_OK) {
        status = not_all(b->space, node, want.bytes, status);
    }
    wm_lock_acquire(&b->waker.lock);
    settle_locked(b, node, &want, idle_on(b->space, node), enough, status);
    wm_lock_release(&b->waker.lock);
}

void wm_prewarm_cancel_locked(wm_background *b)
{
    for (int i = 0; i < b->space->group.nodes; i++) {
        if (b->want[i].bytes > 0) {
            drop_locked(b, &b->want[i]);
        }
    }
}

warm_status wm_prewarm_queue(wm_background *b, int node, size_t bytes)
{
    warm_status status;
    wm_prewarm_job *want = &b->want[node];

    if (bytes == 0) {
        return WARM_OK;
    }
    wm_lock_acquire(&b->waker.lock);
    status = wm_background_start_locked(b);
    if (status == WARM_OK && bytes > want->bytes) {
        if (!wm_prewarm_has_jobs_locked(b) && !b->getting) {
            b->asked = b->had = 0;
        }
        b->asked += bytes - want->bytes;
        want->bytes = bytes;
        wm_waker_wake_locked(&b->waker);
    }
    wm_lock_release(&b->waker.lock);
    return status;
}

warm_status wm_prewarm_await(wm_background *b)
{
    warm_error failure;

    wm_lock_acquire(&b->waker.lock);
    while (wm_prewarm_has_jobs_locked(b) || b->getting) {
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
