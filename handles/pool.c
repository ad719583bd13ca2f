/* pool.c: acquires, releases, leases and trims handles (pool.h). */
#include "handles/pool_int.h"

#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

/* One counter for the process, so that a lease of another runtime is refused.
 * Relaxed: serials need only be distinct. */
static _Atomic uint64_t last_serial;

void wm_pool_init(wm_pool *pool, wm_kind *kind, wm_meter *meter,
                  wm_workspaces *workspaces, int device)
{
    pool->kind = kind;
    pool->meter = meter;
    pool->workspaces = kind->ops->workspace_bytes != NULL ? workspaces : NULL;
    pool->device = device;
    wm_lock_init(&pool->lock, WM_RANK_POOL);
    wm_cond_init(&pool->first_ended);
}

warm_status wm_pool_acquire(wm_pool *pool, void **handle)
{
    void *taken;

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    taken = wm_pool_pop_idle_locked(pool);
    wm_lock_release(&pool->lock);
    if (wm_unlikely(taken == NULL) || !wm_pool_make_default(pool, taken)) {
        return wm_pool_acquire_slow(pool, handle);
    }
    *handle = taken;
    return WARM_OK;
}

void wm_pool_release(wm_pool *pool, void *handle, uint64_t now_ns)
{
    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    if (!pool->closed) {
        pool->stats.in_use--;
        wm_pool_push_idle_locked(pool, handle, now_ns);
    }
    wm_lock_release(&pool->lock);
}

uint64_t wm_pool_lease_out(wm_pool *pool, void *handle, bool bound)
{
    uint64_t serial =
        atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    if (!pool->closed || pool->lost) {
        wm_map_put(&pool->leases, serial, handle);
    }
    if (!pool->closed) {
        pool->stats.in_use--;
        pool->stats.leased++;
        if (!bound && pool->kind->ops->bind != NULL) {
            wm_pool_note_bound_locked(pool, handle, NULL);
        }
    }
    wm_lock_release(&pool->lock);
    return serial;
}

warm_status wm_pool_lease_end(wm_pool *pool, uint64_t serial)
{
    uint64_t now = wm_clock_ns();
    void *handle;
    bool closed;

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    closed = pool->closed && !pool->lost;
    handle = closed ? NULL : wm_map_take(&pool->leases, serial);
    if (handle != NULL && !pool->lost) {
        pool->stats.leased--;
        if (!wm_pool_return_while_unbinding_locked(pool, handle, now)) {
            wm_pool_push_idle_locked(pool, handle, now);
        }
    }
    wm_lock_release(&pool->lock);
    if (closed) {
        return wm_fail(WARM_EXITING, "the process is exiting");
    }
    return handle != NULL
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "no such lease of a %s handle of device %d; it may "
                         "have been returned",
                         pool->kind->ops->name, pool->device);
}

/* Takes the longest idle handle out of the ring if it may be trimmed; a handle
 * released after `now` may not. */
static void *take_oldest_locked(wm_pool *pool, uint64_t keep, uint64_t idle_ns,
                                uint64_t now)
{
    wm_pool_idle oldest;

    if (pool->stats.idle <= keep) {
        return NULL;
    }
    oldest = *wm_pool_idle_at(pool, 0);
    if (oldest.since_ns > now || now - oldest.since_ns < idle_ns) {
        return NULL;
    }
    pool->oldest = (pool->oldest + 1) & (pool->room - 1);
    pool->stats.idle--;
    pool->ending++;
    return oldest.handle;
}

uint64_t wm_pool_trim(wm_pool *pool, uint64_t keep, uint64_t idle_ns)
{
    uint64_t now = wm_clock_ns();
    uint64_t destroyed = 0;
    void *handle;

    wm_pool_destroy_deferred(pool);
    /* Once the process exits or the device was reset, no handle is destroyed
     * (rows A6, A17). */
    do {
        wm_lock_acquire(&pool->lock);
        handle = wm_pool_is_lost(pool)
                     ? NULL
                     : take_oldest_locked(pool, keep, idle_ns, now);
        wm_lock_release(&pool->lock);
        if (handle != NULL && wm_pool_discard(pool, handle, &pool->ending)) {
            destroyed++;
        }
    } while (handle != NULL);
    return destroyed;
}

warm_status wm_pool_bind(wm_pool *pool, void *handle, warm_stream stream,
                         void *workspace, size_t bytes)
{
    warm_status status;

    /* Relaxed: a count. */
    atomic_fetch_add_explicit(&pool->binds, 1, memory_order_relaxed);
    status = pool->kind->ops->bind(pool->kind, pool->device, handle, stream,
                                   workspace, bytes);
    if (status == WARM_OK) {
        wm_lock_acquire(&pool->lock);
        wm_pool_note_bound_locked(pool, handle, stream);
        wm_lock_release(&pool->lock);
    }
    return status;
}

bool wm_pool_owns(wm_pool *pool, const void *handle)
{
    bool found;

    wm_lock_acquire(&pool->lock);
    /* A live handle of another pool may have the address of a lost one. */
    found = !wm_pool_was_reset(pool) &&
            wm_map_find(&pool->all, (uintptr_t)handle) != NULL;
    wm_lock_release(&pool->lock);
    return found;
}

static uint64_t leak_locked(wm_pool *pool)
{
    uint64_t count = wm_pool_close_locked(pool);

    pool->stats.leaked += count;
    return count;
}

uint64_t wm_pool_leak(wm_pool *pool)
{
    uint64_t count;

    wm_lock_acquire(&pool->lock);
    count = leak_locked(pool);
    wm_lock_release(&pool->lock);
    return count;
}

/* Whether the idle handles that remain are leaked: another thread called exit()
 * (row A6), the device was reset (row A17), or a stream captures. */
static bool must_leak_idle(const wm_pool *pool)
{
    const wm_captures *captures = pool->kind->captures;

    return wm_pool_is_lost(pool) || (captures != NULL && captures->leave_idle);
}

uint64_t wm_pool_close(wm_pool *pool)
{
    uint64_t idle, in_use, deferred;

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    idle = pool->stats.idle;
    deferred = pool->stats.deferred;
    in_use = pool->stats.in_use + pool->stats.leased;
    leak_locked(pool);
    wm_lock_release(&pool->lock);
    /* No other thread uses the pool: the runtime closes and no thread pins it.
     */
    for (uint64_t i = 0; i < deferred && !must_leak_idle(pool); i++) {
        (void)wm_pool_destroy(pool, pool->deferred[i]);
    }
    for (uint64_t i = 0; i < idle && !must_leak_idle(pool); i++) {
        (void)wm_pool_destroy(pool, wm_pool_idle_at(pool, i)->handle);
    }
    wm_map_fini(&pool->all); /* its memory is that of all tables */
    wm_cond_fini(&pool->first_ended);
    wm_lock_fini(&pool->lock);
    return in_use;
}

void wm_pool_get_stats(wm_pool *pool, warm_handle_stats *stats)
{
    /* Relaxed: a count. */
    uint64_t wanted = atomic_load_explicit(&pool->wanted, memory_order_relaxed);

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    *stats = pool->stats;
    stats->idle += pool->ending;
    stats->prewarming = !pool->lost && wanted > pool->stats.idle
                            ? wanted - pool->stats.idle
                            : 0;
    wm_lock_release(&pool->lock);
    stats->binds = atomic_load_explicit(&pool->binds, memory_order_relaxed);
}

/* Idle and leased handles are live, and no handle is both. */
static bool lists_agree_locked(const wm_pool *pool)
{
    const wm_map_entry *leased = NULL;
    bool good = pool->all.count == pool->alive &&
                (pool->closed || pool->leases.count == pool->stats.leased);

    for (uint64_t i = 0; i < pool->stats.idle && good; i++) {
        good = wm_map_find(&pool->all,
                           (uintptr_t)wm_pool_idle_at(pool, i)->handle) != NULL;
    }
    while (good && (leased = wm_map_next(&pool->leases, leased)) != NULL) {
        good = wm_map_find(&pool->all, (uintptr_t)leased->value) != NULL;
        for (uint64_t i = 0; i < pool->stats.idle && good; i++) {
            good = wm_pool_idle_at(pool, i)->handle != leased->value;
        }
    }
    return good;
}

bool wm_pool_check(wm_pool *pool)
{
    const warm_handle_stats *stats = &pool->stats;
    uint64_t alive;
    bool good;

    wm_lock_acquire(&pool->lock);
    alive = stats->idle + pool->ending + stats->deferred + stats->in_use +
            stats->leased;
    good = stats->created ==
               stats->destroyed + alive + stats->leaked + stats->lost &&
           pool->alive + pool->reserved_slots <= pool->room &&
           pool->prewarming <= pool->reserved_slots &&
           stats->in_use_peak >= stats->in_use + stats->leased &&
           (pool->closed || pool->alive == alive) && lists_agree_locked(pool);
    wm_lock_release(&pool->lock);
    return good;
}
