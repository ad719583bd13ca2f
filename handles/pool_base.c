/* pool_base.c: which stream a handle is bound to, and taking it off (rows A10,
 * B6); a pool that counts nothing of its own as alive any more. */
#include "handles/pool_int.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

void wm_pool_note_bound_locked(wm_pool *pool, void *handle, warm_stream stream)
{
    bool is_default = (uintptr_t)stream <= (uintptr_t)WARM_STREAM_PER_THREAD;

    wm_handle_map_set(&pool->all, (uintptr_t)handle,
                      is_default ? NULL : stream);
}

bool wm_pool_unbind(wm_pool *pool, void *handle)
{
    warm_error before = {.size = sizeof before};
    bool done;

    if (wm_pool_is_lost(pool)) {
        return true; /* it is nobody's any more */
    }
    warm_last_error(&before);
    done = pool->kind->ops->bind(pool->kind, pool->device, handle, NULL, NULL,
                                 0) == WARM_OK;
    if (!done) {
        wm_log(WARM_LOG_WARNING,
               "a %s handle of device %d cannot be taken off its stream: %s",
               pool->kind->ops->name, pool->device, warm_last_error_message());
    }
    wm_error_restore(&before);
    return done;
}

void wm_pool_take_off(wm_pool *pool, void *handle)
{
    bool bound;

    wm_lock_acquire(&pool->lock);
    bound = wm_handle_map_find(&pool->all, (uintptr_t)handle) != NULL;
    wm_pool_note_bound_locked(pool, handle, NULL);
    wm_lock_release(&pool->lock);
    if (bound) {
        (void)wm_pool_unbind(pool, handle);
    }
}

/* Nothing of the pool lives any more, for its figures; returns how much did. */
uint64_t wm_pool_close_locked(wm_pool *pool)
{
    warm_handle_stats *stats = &pool->stats;
    uint64_t count = stats->idle + pool->ending + stats->deferred +
                     stats->in_use + stats->leased;

    pool->closed = true;
    stats->idle = 0;
    stats->in_use = 0;
    stats->leased = 0;
    stats->deferred = 0;
    pool->ending = 0;
    return count;
}

void wm_pool_lose_locked(wm_pool *pool)
{
    if (!pool->closed) {
        pool->stats.lost += wm_pool_close_locked(pool);
        pool->lost = true;
    }
}
