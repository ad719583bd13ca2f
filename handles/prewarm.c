/* prewarm.c: warm_handle_prewarm() and its background thread (prewarm.h). */
#include "handles/prewarm.h"

#include "handles/handle.h"
#include "runtime/base/callback.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_start.h"

#include <stdatomic.h>

/* Creates one idle handle unless `count` are idle; *made: it did. On the
 * prewarm thread (ours) handles that callbacks reserved are released: no
 * callback uses them after its return, and the thread may live as long as the
 * runtime. */
static warm_status make_one(warm_runtime *runtime, wm_window_call call,
                            unsigned count, bool ours, bool *made)
{
    wm_window *window = NULL;
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK ||
        (status = wm_handle_begin(runtime, &call, &window)) != WARM_OK) {
        return status;
    }
    status = wm_handle_check_nested(runtime, &call);
    if (status == WARM_OK) {
        status = wm_pool_create_idle(
            wm_kind_table_pool(runtime->kinds, call.kind, call.device), count,
            made);
    }
    if (ours) {
        /* Needs no pin: warm_runtime_destroy() joins this thread before the
         * pools close. */
        wm_handles_release(runtime, window);
    }
    wm_handle_end(window);
    return status;
}

/* Creates at most `count`, so that threads which acquire the new handles cannot
 * keep this thread creating forever. */
static warm_status prewarm_now(warm_runtime *runtime, warm_kind kind,
                               int device, unsigned count)
{
    const wm_window_call call = {.kind = kind, .device = device};
    warm_status status = WARM_OK;
    bool made = true;

    for (unsigned i = 0; i < count && made && status == WARM_OK; i++) {
        status = make_one(runtime, call, count, false, &made);
    }
    return status;
}

static unsigned wanted_locked(wm_pool *pool)
{
    /* Relaxed: written under the lock. */
    return atomic_load_explicit(&pool->wanted, memory_order_relaxed);
}

static void want_locked(wm_pool *pool, unsigned count)
{
    atomic_store_explicit(&pool->wanted, count, memory_order_relaxed);
    pool->made = 0;
}

/* Removes the head: its request is served, failed or cancelled. */
static void finish_locked(wm_prewarm *prewarm)
{
    wm_pool *pool = prewarm->first;

    want_locked(pool, 0);
    prewarm->first = pool->next_to_warm;
    pool->next_to_warm = NULL;
    if (prewarm->first == NULL) {
        prewarm->last = &prewarm->first;
        wm_cond_broadcast(&prewarm->done);
    }
}

/* Creates one handle for the head of the queue with no lock held; the pool
 * stays the head meanwhile. */
static void serve(wm_prewarm *prewarm, warm_runtime *runtime, wm_pool *pool,
                  unsigned count)
{
    const wm_window_call call = {.kind = pool->kind->index,
                                 .device = pool->device};
    bool made = false;
    warm_status status = make_one(runtime, call, count, true, &made);

    wm_lock_acquire(&prewarm->lock);
    if (status != WARM_OK && prewarm->failure.status == WARM_OK) {
        prewarm->failure = wm_error_save();
    }
    pool->made += made;
    /* The request may have grown or been cancelled meanwhile. */
    if (status != WARM_OK || pool->made >= wanted_locked(pool) ||
        (!made && wanted_locked(pool) <= count)) {
        finish_locked(prewarm);
    }
    wm_lock_release(&prewarm->lock);
}

/* Waits for a request; null once the runtime is being destroyed. */
static wm_pool *next(wm_prewarm *prewarm, unsigned *count)
{
    wm_pool *pool = NULL;

    wm_lock_acquire(&prewarm->lock);
    while (!prewarm->stop && pool == NULL) {
        if (prewarm->first == NULL) {
            wm_cond_wait(&prewarm->work, &prewarm->lock);
        } else if (wanted_locked(prewarm->first) == 0) {
            finish_locked(prewarm);
        } else {
            pool = prewarm->first;
            *count = wanted_locked(pool);
        }
    }
    wm_lock_release(&prewarm->lock);
    return pool;
}

static void *thread_main(void *argument)
{
    warm_runtime *runtime = argument;
    wm_prewarm *prewarm = &runtime->kinds->prewarm;
    wm_pool *pool;
    unsigned count = 0;

    while ((pool = next(prewarm, &count)) != NULL) {
        serve(prewarm, runtime, pool, count);
    }
    return NULL;
}

static bool start_locked(wm_prewarm *prewarm, warm_runtime *runtime)
{
    if (!prewarm->started) {
        prewarm->started =
            wm_thread_start(&prewarm->thread, NULL, thread_main, runtime);
    }
    return prewarm->started;
}

static bool is_queued_locked(const wm_prewarm *prewarm, const wm_pool *pool)
{
    return pool->next_to_warm != NULL || prewarm->last == &pool->next_to_warm;
}

static void enqueue_locked(wm_prewarm *prewarm, wm_pool *pool, unsigned count)
{
    if (count > wanted_locked(pool)) {
        want_locked(pool, count);
    }
    if (!is_queued_locked(prewarm, pool)) {
        *prewarm->last = pool;
        prewarm->last = &pool->next_to_warm;
        wm_cond_signal(&prewarm->work);
    }
}

static warm_status prewarm_in_background(warm_runtime *runtime, warm_kind kind,
                                         int device, unsigned count)
{
    wm_prewarm *prewarm = &runtime->kinds->prewarm;
    bool started;

    if (count == 0) {
        return WARM_OK;
    }
    wm_lock_acquire(&prewarm->lock);
    started = start_locked(prewarm, runtime);
    if (started) {
        enqueue_locked(prewarm,
                       wm_kind_table_pool(runtime->kinds, kind, device), count);
    }
    wm_lock_release(&prewarm->lock);
    return started
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY, "no thread could be started to "
                                             "make handles in the background");
}

warm_status warm_handle_prewarm(warm_runtime *runtime, warm_kind kind,
                                int device, unsigned count, unsigned flags)
{
    warm_status status = wm_handle_check(runtime, kind, device, runtime);

    if (status != WARM_OK) {
        return status;
    }
    if ((flags & ~WARM_PREWARM_BACKGROUND) != 0) {
        return wm_fail(
            WARM_INVALID_ARGUMENT,
            "flags %#x are not known; known is WARM_PREWARM_BACKGROUND", flags);
    }
    return flags != 0 ? prewarm_in_background(runtime, kind, device, count)
                      : prewarm_now(runtime, kind, device, count);
}

static warm_status wait(wm_prewarm *prewarm)
{
    warm_error failure;

    wm_lock_acquire(&prewarm->lock);
    while (prewarm->first != NULL) {
        wm_cond_wait(&prewarm->done, &prewarm->lock);
    }
    failure = prewarm->failure;
    prewarm->failure.status = WARM_OK;
    wm_lock_release(&prewarm->lock);
    if (failure.status != WARM_OK) {
        wm_error_restore(&failure);
    }
    return failure.status;
}

warm_status warm_handle_prewarm_wait(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    /* It could wait for the prewarm thread, which runs the callback, or for the
     * creation that the callback is part of. */
    if (status == WARM_OK && wm_callback_inside()) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "warm_handle_prewarm_wait() was called by a callback "
                       "of the program, which could wait for itself there");
    }
    return status != WARM_OK ? status : wait(&runtime->kinds->prewarm);
}

warm_status warm_handle_prewarm_cancel(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_prewarm *prewarm = &runtime->kinds->prewarm;

        wm_lock_acquire(&prewarm->lock);
        for (wm_pool *p = prewarm->first; p != NULL; p = p->next_to_warm) {
            want_locked(p, 0);
        }
        wm_lock_release(&prewarm->lock);
    }
    return status;
}

void wm_prewarm_stop(wm_prewarm *prewarm)
{
    bool started;

    wm_lock_acquire(&prewarm->lock);
    started = prewarm->started;
    prewarm->stop = true;
    wm_cond_signal(&prewarm->work);
    wm_lock_release(&prewarm->lock);
    if (started) {
        pthread_join(prewarm->thread, NULL);
    }
}
