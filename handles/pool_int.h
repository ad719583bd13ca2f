/* pool_int.h: what pool.c and pool_create.c share. */
#ifndef WM_POOL_INT_H
#define WM_POOL_INT_H

#include "handles/pool.h"
#include "runtime/base/process.h"

#include <inttypes.h>

static inline uint64_t wm_pool_demand_locked(const wm_pool *pool)
{
    return pool->stats.in_use + pool->stats.leased + pool->promised -
           pool->ahead;
}

/* Counts one more in use; at_once: held, leased and being made for somebody
 * when its creation began, or 0. */
static inline void wm_pool_count_in_use_locked(wm_pool *pool, uint64_t at_once)
{
    warm_handle_stats *stats = &pool->stats;

    stats->in_use++;
    if (at_once < wm_pool_demand_locked(pool)) {
        at_once = wm_pool_demand_locked(pool);
    }
    if (stats->in_use_peak < at_once) {
        stats->in_use_peak = at_once;
    }
}

static inline void wm_pool_push_idle_locked(wm_pool *pool, void *handle,
                                            uint64_t since_ns)
{
    unsigned place = pool->oldest + (unsigned)pool->stats.idle++;

    pool->idle[place & (pool->room - 1)] = (wm_pool_idle){handle, since_ns};
}

/* The handle that came back last, counted as in use, or null. */
static inline void *wm_pool_pop_idle_locked(wm_pool *pool)
{
    unsigned place;

    if (pool->stats.idle == 0) {
        return NULL;
    }
    place = pool->oldest + (unsigned)--pool->stats.idle;
    wm_pool_count_in_use_locked(pool, 0);
    return pool->idle[place & (pool->room - 1)].handle;
}

/* As wm_pool_acquire(), where none is idle, or the one that was could not be
 * put back into its default state. */
warm_status wm_pool_acquire_slow(wm_pool *pool, void **handle);

/* Puts a handle that another thread used back into its default state; one that
 * cannot be is destroyed. For kinds that have a state. */
bool wm_pool_reset(wm_pool *pool, void *handle);

static inline bool wm_pool_make_default(wm_pool *pool, void *handle)
{
    return pool->kind->ops->reset == NULL || wm_pool_reset(pool, handle);
}

/* Whether the handles ended with the context of their device (row A17). */
static inline bool wm_pool_was_reset(const wm_pool *pool)
{
    return wm_driver_is_lost(pool->kind->driver, pool->device) &&
           !pool->kind->ops->of_host;
}

/* Whether handles are left alone for ever: that, or the process exits (row A6).
 */
static inline bool wm_pool_is_lost(const wm_pool *pool)
{
    return wm_process_exiting() || wm_pool_was_reset(pool);
}

/* Nothing of the pool lives any more, for its figures; returns how much did. */
uint64_t wm_pool_close_locked(wm_pool *pool);
/* Once the device was reset: all that lives is lost, and what comes is not put
 * into the pool. Every change of who has a handle asks first. */
void wm_pool_mark_lost_locked(wm_pool *pool);
static inline void wm_pool_check_reset_locked(wm_pool *pool)
{
    if (wm_pool_was_reset(pool)) {
        wm_pool_mark_lost_locked(pool);
    }
}

/* The handle is bound to the stream. */
void wm_pool_note_bound_locked(wm_pool *pool, void *handle, warm_stream stream);

/* Unbinds a handle that nobody uses, if it is bound to a stream. */
void wm_pool_unbind_if_bound(wm_pool *pool, void *handle);

/* A lease has ended whose handle another thread is just unbinding: that puts it
 * into the ring afterwards. False: nobody is. */
bool wm_pool_return_while_unbinding_locked(wm_pool *pool, const void *handle,
                                           uint64_t now);

/* Calls destroy of the kind; says whether it worked. */
bool wm_pool_destroy(wm_pool *pool, void *handle);

/* Destroys a handle that nobody else can reach, counted in *from until now, or
 * defers that; says whether it is gone. */
bool wm_pool_discard(wm_pool *pool, void *handle, uint64_t *from);

#endif
