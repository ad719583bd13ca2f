/* pool_int.h: shared by pool.c and pool_create.c. */
#ifndef WM_POOL_INT_H
#define WM_POOL_INT_H

#include "handles/pool.h"
#include "runtime/base/process.h"
#include "runtime/thread/window.h"

#include <inttypes.h>

/* Handles that threads hold, lease or wait for. */
static inline uint64_t wm_pool_demand_locked(const wm_pool *pool)
{
    return pool->stats.in_use + pool->stats.leased + pool->reserved_slots -
           pool->prewarming;
}

/* Counts a handle as in use. peak_candidate: the demand when its creation
 * began, or 0. */
static inline void wm_pool_count_in_use_locked(wm_pool *pool,
                                               uint64_t peak_candidate)
{
    warm_handle_stats *stats = &pool->stats;

    stats->in_use++;
    if (peak_candidate < wm_pool_demand_locked(pool)) {
        peak_candidate = wm_pool_demand_locked(pool);
    }
    if (stats->in_use_peak < peak_candidate) {
        stats->in_use_peak = peak_candidate;
    }
}

/* The i-th place of the ring of idle handles; 0: the longest idle. */
static inline wm_pool_idle *wm_pool_idle_at(const wm_pool *pool, uint64_t i)
{
    return &pool->idle[(pool->oldest + i) & (pool->room - 1)];
}

static inline void wm_pool_push_idle_locked(wm_pool *pool, void *handle,
                                            uint64_t since_ns)
{
    *wm_pool_idle_at(pool, pool->stats.idle++) =
        (wm_pool_idle){handle, since_ns};
}

/* A handle whose library takes it off a stream, in a call without the lock; on
 * the thread's stack. The retirement of that stream waits for the call, since
 * the library may access the stream. */
struct wm_unbinding {
    struct wm_unbinding *next; /* lock pool; all below too */
    void *handle;
    warm_stream stream; /* null: it was bound to none */
    uint64_t thread;    /* that makes the call */
    uint64_t since_ns;
    bool ours; /* it was idle, or its lease has ended meanwhile */
};

/* Around such a call. begin: handle is set; the record still says what it is
 * bound to. */
static inline void wm_pool_begin_unbinding_locked(wm_pool *pool,
                                                  struct wm_unbinding *u)
{
    u->stream = wm_map_get(&pool->all, (uintptr_t)u->handle);
    u->thread = wm_window_thread();
    u->next = pool->unbinding;
    pool->unbinding = u;
}

static inline void wm_pool_end_unbinding_locked(wm_pool *pool,
                                                struct wm_unbinding *u)
{
    struct wm_unbinding **at = &pool->unbinding;

    while (*at != u) {
        at = &(*at)->next;
    }
    *at = u->next;
    if (u->stream != NULL) {
        wm_cond_broadcast(&pool->unbound);
    }
}

static inline bool wm_pool_is_bound_locked(const wm_pool *pool,
                                           const void *handle)
{
    return wm_map_get(&pool->all, (uintptr_t)handle) != NULL;
}

/* Pops the handle released last and counts it as in use; null: none is idle.
 * u: begun if the handle is bound to a stream, off which a reset will take it;
 * else its handle is null. */
static inline void *wm_pool_pop_idle_locked(wm_pool *pool,
                                            struct wm_unbinding *u)
{
    void *handle;

    u->handle = NULL;
    if (pool->stats.idle == 0) {
        return NULL;
    }
    pool->stats.idle--;
    wm_pool_count_in_use_locked(pool, 0);
    handle = wm_pool_idle_at(pool, pool->stats.idle)->handle;
    if (pool->kind->ops->reset != NULL &&
        wm_pool_is_bound_locked(pool, handle)) {
        u->handle = handle;
        u->ours = false;
        wm_pool_begin_unbinding_locked(pool, u);
    }
    return handle;
}

/* wm_pool_acquire() when no handle is idle, or the reset of one failed. */
warm_status wm_pool_acquire_slow(wm_pool *pool, void **handle);

/* Resets a handle that another thread used; destroys it and returns false if
 * that fails. For kinds with a reset. */
bool wm_pool_reset(wm_pool *pool, void *handle);

/* u: of wm_pool_pop_idle_locked(). */
static inline bool wm_pool_make_default(wm_pool *pool, void *handle,
                                        struct wm_unbinding *u)
{
    bool good = pool->kind->ops->reset == NULL || wm_pool_reset(pool, handle);

    if (u->handle != NULL) {
        wm_lock_acquire(&pool->lock);
        wm_pool_end_unbinding_locked(pool, u);
        wm_lock_release(&pool->lock);
    }
    return good;
}

/* Whether a reset of the device destroyed the handles (row A17). */
static inline bool wm_pool_was_reset(const wm_pool *pool)
{
    return wm_driver_is_lost(pool->kind->driver, pool->device) &&
           !pool->kind->ops->of_host;
}

/* Whether the library must not be called: a reset device, or the process exits
 * (row A6). */
static inline bool wm_pool_is_lost(const wm_pool *pool)
{
    return wm_process_exiting() || wm_pool_was_reset(pool);
}

/* Closes the pool and sets its counts of live handles to 0; returns their sum.
 */
uint64_t wm_pool_close_locked(wm_pool *pool);
/* Counts all live handles as lost and closes the pool. */
void wm_pool_mark_lost_locked(wm_pool *pool);
/* Marks the pool lost after a reset of its device. Called before every change
 * of a handle's state. */
static inline void wm_pool_check_reset_locked(wm_pool *pool)
{
    if (wm_pool_was_reset(pool)) {
        wm_pool_mark_lost_locked(pool);
    }
}

/* Records that the handle is bound to the stream. */
void wm_pool_note_bound_locked(wm_pool *pool, void *handle, warm_stream stream);

/* Unbinds a handle that only the caller can reach, if it is bound to a stream.
 */
void wm_pool_unbind_if_bound(wm_pool *pool, void *handle);

/* Calls destroy of the kind; false: it failed, and the handle is leaked. */
bool wm_pool_destroy(wm_pool *pool, void *handle);

/* Destroys a handle that only the caller can reach, or defers that during a
 * capture. *from: the count that includes it. True: it is destroyed. */
bool wm_pool_discard(wm_pool *pool, void *handle, uint64_t *from);

#endif
