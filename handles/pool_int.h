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
    pool->stats.in_use++;
    if (peak_candidate < wm_pool_demand_locked(pool)) {
        peak_candidate = wm_pool_demand_locked(pool);
    }
    if (wm_pool_recent_peak(pool) < peak_candidate) {
        atomic_store_explicit(&pool->recent_peak, peak_candidate,
                              memory_order_relaxed);
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

/* Around a call that struct wm_unbinding stands for. begin: handle is set; from
 * then on the record says that it is bound to no stream. */
static inline void wm_pool_begin_unbinding_locked(wm_pool *pool,
                                                  struct wm_unbinding *u)
{
    wm_map_entry *live = wm_map_find(&pool->all, (uintptr_t)u->handle);

    u->stream = live->value;
    live->value = NULL;
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
    wm_cond_broadcast(&pool->unbound);
}

/* Begins if a handle that only the caller can reach is bound to a stream; else
 * u->handle is null. */
static inline void wm_pool_begin_if_bound_locked(wm_pool *pool, void *handle,
                                                 struct wm_unbinding *u)
{
    u->handle = NULL;
    u->ours = false;
    if (pool->kind->ops->bind != NULL &&
        wm_map_get(&pool->all, (uintptr_t)handle) != NULL) {
        u->handle = handle;
        wm_pool_begin_unbinding_locked(pool, u);
    }
}

/* Makes the first of the wanted handles that is idle the one that was released
 * last. */
void wm_pool_prefer_locked(wm_pool *pool, const void *const *wanted,
                           unsigned count);

/* Pops the handle released last and counts it as in use; null: none is idle.
 * u: for wm_pool_make_default(). */
static inline void *wm_pool_pop_idle_locked(wm_pool *pool,
                                            struct wm_unbinding *u)
{
    void *handle;

    if (pool->stats.idle == 0) {
        return NULL;
    }
    pool->stats.idle--;
    wm_pool_count_in_use_locked(pool, 0);
    handle = wm_pool_idle_at(pool, pool->stats.idle)->handle;
    wm_pool_begin_if_bound_locked(pool, handle, u);
    return handle;
}

/* wm_pool_acquire() when no handle is idle, or the reset of one failed. */
warm_status wm_pool_acquire_slow(wm_pool *pool, void **handle);

/* Resets a handle that another thread used, or, if the kind has no reset, takes
 * it off its stream and workspace; destroys it and returns false if that fails.
 */
bool wm_pool_reset(wm_pool *pool, void *handle, struct wm_unbinding *u);

static inline bool wm_pool_make_default(wm_pool *pool, void *handle,
                                        struct wm_unbinding *u)
{
    return (pool->kind->ops->reset == NULL && u->handle == NULL &&
            pool->workspaces == NULL) ||
           wm_pool_reset(pool, handle, u);
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
/* Marks the pool lost after a reset of its device. Called before a handle is
 * handed out or destroyed, and before anything is reported. Handles that are
 * returned in between count as idle, as those do that were before the reset. */
static inline void wm_pool_check_reset_locked(wm_pool *pool)
{
    if (wm_pool_was_reset(pool)) {
        wm_pool_mark_lost_locked(pool);
    }
}

/* Records that the handle is bound to the stream. */
void wm_pool_note_bound_locked(wm_pool *pool, void *handle, warm_stream stream);

/* Calls destroy of the kind; false: it failed, and the handle is leaked. */
bool wm_pool_destroy(wm_pool *pool, void *handle);

/* Destroys a handle that only the caller can reach, or defers that during a
 * capture. *from: the count that includes it. True: it is destroyed. */
bool wm_pool_discard(wm_pool *pool, void *handle, uint64_t *from);

/* As wm_pool_discard(), and ends what wm_pool_begin_if_bound_locked() began. */
bool wm_pool_discard_bound(wm_pool *pool, void *handle, struct wm_unbinding *u,
                           uint64_t *from);

#endif
