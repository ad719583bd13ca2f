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
    pool->beside = workspaces;
    pool->device = device;
    wm_lock_init(&pool->lock, WM_RANK_POOL);
}

void wm_pool_prefer_locked(wm_pool *pool, const void *const *wanted,
                           unsigned count)
{
    for (uint64_t i = pool->stats.idle; count > 0 && i-- > 0;) {
        wm_pool_idle idle = *wm_pool_idle_at(pool, i);
        unsigned k = 0;

        while (k < count && wanted[k] != idle.handle) {
            k++;
        }
        if (k < count) {
            for (; i + 1 < pool->stats.idle; i++) {
                *wm_pool_idle_at(pool, i) = *wm_pool_idle_at(pool, i + 1);
            }
            *wm_pool_idle_at(pool, i) = idle;
            return;
        }
    }
}

/* Handles of one stream are few, unless threads share it. */
enum { WANTED = 8 };

warm_status wm_pool_acquire_for(wm_pool *pool, warm_stream stream,
                                uint64_t stream_id, void **handle)
{
    const void *wanted[WANTED];
    unsigned count = pool->workspaces == NULL
                         ? 0
                         : wm_workspaces_handles_for(pool->workspaces, stream,
                                                     stream_id, wanted, WANTED);

    if (count > 0) {
        wm_lock_acquire(&pool->lock);
        wm_pool_prefer_locked(pool, wanted, count);
        wm_lock_release(&pool->lock);
    }
    return wm_pool_acquire(pool, handle);
}

warm_status wm_pool_acquire(wm_pool *pool, void **handle)
{
    struct wm_unbinding u;
    void *taken;

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    taken = wm_pool_pop_idle_locked(pool, &u);
    wm_lock_release(&pool->lock);
    if (wm_unlikely(taken == NULL) || !wm_pool_make_default(pool, taken, &u)) {
        return wm_pool_acquire_slow(pool, handle);
    }
    *handle = taken;
    return WARM_OK;
}

void wm_pool_release(wm_pool *pool, void *handle, uint64_t now_ns)
{
    wm_lock_acquire(&pool->lock);
    if (!pool->closed) {
        pool->stats.in_use--;
        wm_pool_push_idle_locked(pool, handle, now_ns);
    }
    wm_lock_release(&pool->lock);
}

static void leave_workspaces(wm_pool *pool, const void *handle, uint64_t now)
{
    if (pool->workspaces != NULL) {
        wm_workspaces_leave_handle(pool->workspaces, handle, NULL, now);
    }
}

void wm_pool_release_left(wm_pool *pool, void *handle, uint64_t now_ns)
{
    leave_workspaces(pool, handle, now_ns);
    wm_pool_release(pool, handle, now_ns);
}

uint64_t wm_pool_lease_out(wm_pool *pool, void *handle, bool bound)
{
    uint64_t serial =
        atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;

    wm_lock_acquire(&pool->lock);
    if (!pool->closed || pool->lost) {
        wm_map_put(&pool->leases, serial, handle);
        /* A number, never followed as an address. */
        wm_map_put(&pool->serials, (uintptr_t)handle,
                   (void *)(uintptr_t)serial);
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

static warm_status refuse_lease(const wm_pool *pool)
{
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "no such lease of a %s handle of device %d; it may have "
                   "been returned",
                   pool->kind->ops->name, pool->device);
}

uint64_t wm_pool_lease_of(wm_pool *pool, const void *handle, bool *lost)
{
    uint64_t serial;

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    serial = (uintptr_t)wm_map_get(&pool->serials, (uintptr_t)handle);
    *lost = pool->lost;
    wm_lock_release(&pool->lock);
    return serial;
}

/* Called when a lease ends while a thread unbinds its handle: that thread then
 * returns the handle to the ring, at the end of the outermost of its calls,
 * which is the last of the list. False: no thread unbinds it. */
static bool return_while_unbinding_locked(wm_pool *pool, const void *handle,
                                          uint64_t now)
{
    struct wm_unbinding *u = NULL;

    for (struct wm_unbinding *i = pool->unbinding; i != NULL; i = i->next) {
        u = i->handle == handle ? i : u;
    }
    if (u == NULL) {
        return false;
    }
    u->ours = true;
    u->since_ns = now;
    pool->ending++;
    return true;
}

warm_status wm_pool_lease_end(wm_pool *pool, uint64_t serial)
{
    uint64_t now = wm_clock_ns();
    void *handle;
    bool closed;

    wm_lock_acquire(&pool->lock);
    closed = pool->closed && !pool->lost;
    handle = closed ? NULL : wm_map_take(&pool->leases, serial);
    (void)wm_map_take(&pool->serials, (uintptr_t)handle); /* null: none */
    if (handle != NULL && !pool->lost) {
        leave_workspaces(pool, handle, now);
        pool->stats.leased--;
        if (!return_while_unbinding_locked(pool, handle, now)) {
            wm_pool_push_idle_locked(pool, handle, now);
        }
    }
    wm_lock_release(&pool->lock);
    if (closed) {
        return wm_fail(WARM_EXITING, "the process is exiting");
    }
    return handle != NULL ? WARM_OK : refuse_lease(pool);
}

/* Removes the longest idle handle from the ring if it may be trimmed; a handle
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

/* The most handles in use at once count from now on. */
static void reset_peak(wm_pool *pool)
{
    uint64_t recent;

    wm_lock_acquire(&pool->lock);
    recent = wm_pool_recent_peak(pool);
    if (pool->stats.in_use_peak < recent) {
        pool->stats.in_use_peak = recent;
    }
    atomic_store_explicit(&pool->recent_peak, wm_pool_demand_locked(pool),
                          memory_order_relaxed);
    wm_lock_release(&pool->lock);
}

uint64_t wm_pool_trim(wm_pool *pool, uint64_t keep, uint64_t idle_ns)
{
    uint64_t now = wm_clock_ns();
    uint64_t destroyed = 0;
    struct wm_unbinding u;
    void *handle;

    wm_pool_destroy_deferred(pool);
    reset_peak(pool);
    /* Once the process exits or the device was reset, no handle is destroyed
     * (rows A6, A17). */
    do {
        wm_lock_acquire(&pool->lock);
        handle = wm_pool_is_lost(pool)
                     ? NULL
                     : take_oldest_locked(pool, keep, idle_ns, now);
        if (handle != NULL) {
            wm_pool_begin_if_bound_locked(pool, handle, &u);
        }
        wm_lock_release(&pool->lock);
        if (handle != NULL &&
            wm_pool_discard_bound(pool, handle, &u, &pool->ending)) {
            destroyed++;
        }
    } while (handle != NULL);
    return destroyed;
}

void wm_pool_add_binding(wm_pool *pool, wm_binding *binding)
{
    wm_lock_acquire(&pool->lock);
    binding->next = pool->bindings;
    pool->bindings = binding;
    wm_lock_release(&pool->lock);
}

void wm_pool_note_bound(wm_pool *pool, void *handle, warm_stream stream)
{
    wm_lock_acquire(&pool->lock);
    wm_pool_note_bound_locked(pool, handle, stream);
    wm_lock_release(&pool->lock);
}

warm_status wm_pool_bind(wm_pool *pool, void *handle, warm_stream stream,
                         const wm_workspace *workspace, size_t bytes)
{
    void *memory = workspace != NULL ? wm_workspace_memory(workspace) : NULL;
    warm_status status;

    WM_CANCEL_OFF();
    /* Relaxed: a count. */
    atomic_fetch_add_explicit(&pool->binds, 1, memory_order_relaxed);
    status = pool->kind->ops->bind(pool->kind, pool->device, handle, stream,
                                   memory, bytes);
    if (status == WARM_OK) {
        wm_pool_note_bound(pool, handle, stream);
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

/* ---- unbinding -----------------------------------------------------------
 *
 * A library may read the stream of a handle when the handle is bound again or
 * destroyed, so no handle may stay bound to a destroyed stream. A held handle
 * is bound only by its thread. An idle handle is out of the ring while it is
 * unbound. A leased handle is bound by any thread, which waits while another
 * thread unbinds it; a retirement waits while a thread binds it. If its lease
 * ends in such a call, the calling thread returns it to the ring. */

static void take_idle_locked(wm_pool *pool, uint64_t i, struct wm_unbinding *u)
{
    u->handle = wm_pool_idle_at(pool, i)->handle;
    u->since_ns = wm_pool_idle_at(pool, i)->since_ns;
    u->ours = true;
    for (; i + 1 < pool->stats.idle; i++) {
        *wm_pool_idle_at(pool, i) = *wm_pool_idle_at(pool, i + 1);
    }
    pool->stats.idle--;
    pool->ending++;
}

/* Returns the handle to its place: the ring is ordered by since_ns. */
static void put_idle_locked(wm_pool *pool, const struct wm_unbinding *u)
{
    uint64_t i = pool->stats.idle++;

    for (; i > 0 && wm_pool_idle_at(pool, i - 1)->since_ns > u->since_ns; i--) {
        *wm_pool_idle_at(pool, i) = *wm_pool_idle_at(pool, i - 1);
    }
    *wm_pool_idle_at(pool, i) = (wm_pool_idle){u->handle, u->since_ns};
    pool->ending--;
}

/* Whether another thread takes that handle, or any, off that stream. A call of
 * this thread is around this one, a callback's. */
static bool others_unbind_locked(const wm_pool *pool, const void *handle,
                                 warm_stream stream)
{
    const struct wm_unbinding *u = pool->unbinding;

    while (u != NULL &&
           ((u->handle != handle && (stream == NULL || u->stream != stream)) ||
            u->thread == wm_window_thread())) {
        u = u->next;
    }
    return u != NULL;
}

/* Finds an idle or leased handle that is bound to the stream. *busy: another
 * thread binds one, which a callback of it has bound to the stream. */
static bool find_locked(wm_pool *pool, warm_stream stream,
                        struct wm_unbinding *u, bool *busy)
{
    const wm_map_entry *leased = NULL;

    for (uint64_t i = 0; i < pool->stats.idle; i++) {
        if (wm_map_get(&pool->all,
                       (uintptr_t)wm_pool_idle_at(pool, i)->handle) == stream) {
            take_idle_locked(pool, i, u);
            return true;
        }
    }
    while ((leased = wm_map_next(&pool->leases, leased)) != NULL) {
        if (wm_map_get(&pool->all, (uintptr_t)leased->value) != stream) {
            continue;
        }
        if (others_unbind_locked(pool, leased->value, NULL)) {
            *busy = true;
        } else {
            u->handle = leased->value;
            u->ours = false;
            return true;
        }
    }
    return false;
}

/* A handle that could not be unbound is destroyed while its stream exists. */
static void end(wm_pool *pool, struct wm_unbinding *u, bool done)
{
    bool discard;

    wm_lock_acquire(&pool->lock);
    wm_pool_end_unbinding_locked(pool, u);
    discard = u->ours && !done;
    if (u->ours && done && !pool->closed) {
        /* A bind may have taken a workspace after the lease had ended. */
        leave_workspaces(pool, u->handle, u->since_ns);
        put_idle_locked(pool, u);
    }
    wm_lock_release(&pool->lock);
    if (discard) {
        (void)wm_pool_discard(pool, u->handle, &pool->ending);
    }
}

/* Finds and begins; waits for other threads' calls, of which one may fail and
 * leave its handle bound. */
static bool begin_next(wm_pool *pool, warm_stream stream,
                       struct wm_unbinding *u)
{
    bool found, waits;

    wm_lock_acquire(&pool->lock);
    do {
        bool busy = false;

        found = !pool->closed && find_locked(pool, stream, u, &busy);
        waits = !found && (busy || others_unbind_locked(pool, NULL, stream));
        if (waits) {
            wm_cond_wait(&pool->unbound, &pool->lock);
        }
    } while (waits);
    if (found) {
        wm_pool_begin_unbinding_locked(pool, u);
    }
    wm_lock_release(&pool->lock);
    return found;
}

void wm_pool_unbind_stream(wm_pool *pool, warm_stream stream)
{
    struct wm_unbinding u = {.handle = NULL};

    /* Relaxed: a bind to this stream happened before its retirement. */
    if (pool->kind->ops->bind == NULL ||
        atomic_load_explicit(&pool->binds, memory_order_relaxed) == 0) {
        return;
    }
    while (begin_next(pool, stream, &u)) {
        end(pool, &u, wm_pool_unbind(pool, u.handle));
    }
}

warm_status wm_pool_rebind_begin(wm_pool *pool, uint64_t serial,
                                 struct wm_unbinding *u)
{
    void *handle;

    wm_lock_acquire(&pool->lock);
    while ((handle = wm_map_get(&pool->leases, serial)) != NULL &&
           others_unbind_locked(pool, handle, NULL)) {
        wm_cond_wait(&pool->unbound, &pool->lock);
    }
    if (handle != NULL) {
        u->handle = handle;
        u->ours = false;
        wm_pool_begin_unbinding_locked(pool, u);
    }
    wm_lock_release(&pool->lock);
    return handle != NULL ? WARM_OK : refuse_lease(pool);
}

void wm_pool_rebind_end(wm_pool *pool, struct wm_unbinding *u, bool bound)
{
    if (!bound) {
        wm_pool_note_bound(pool, u->handle, u->stream);
    }
    end(pool, u, bound);
}

/* ---- the end ------------------------------------------------------------- */

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
    while (pool->bindings != NULL) {
        wm_binding *b = pool->bindings;

        pool->bindings = b->next;
        wm_meta_free(b);
    }
    wm_map_fini(&pool->all); /* frees the memory of all tables */
    return in_use;
}

void wm_pool_get_stats(wm_pool *pool, warm_handle_stats *stats)
{
    /* Relaxed: a count. */
    uint64_t wanted = atomic_load_explicit(&pool->wanted, memory_order_relaxed);

    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    *stats = pool->stats;
    stats->binds = atomic_load_explicit(&pool->binds, memory_order_relaxed);
    for (const wm_binding *b = pool->bindings; b != NULL; b = b->next) {
        stats->binds += atomic_load_explicit(&b->again, memory_order_relaxed);
    }
    if (stats->in_use_peak < wm_pool_recent_peak(pool)) {
        stats->in_use_peak = wm_pool_recent_peak(pool);
    }
    stats->idle += pool->ending;
    stats->prewarming = !pool->lost && wanted > pool->stats.idle
                            ? wanted - pool->stats.idle
                            : 0;
    wm_lock_release(&pool->lock);
}

/* Idle and leased handles are live, and no handle is both. */
static bool lists_agree_locked(const wm_pool *pool)
{
    const wm_map_entry *leased = NULL;
    bool good = pool->all.count == pool->alive &&
                pool->serials.count == pool->leases.count &&
                (pool->closed || pool->leases.count == pool->stats.leased);

    for (uint64_t i = 0; i < pool->stats.idle && good; i++) {
        good = wm_map_find(&pool->all,
                           (uintptr_t)wm_pool_idle_at(pool, i)->handle) != NULL;
    }
    while (good && (leased = wm_map_next(&pool->leases, leased)) != NULL) {
        good = wm_map_find(&pool->all, (uintptr_t)leased->value) != NULL &&
               (uintptr_t)wm_map_get(&pool->serials,
                                     (uintptr_t)leased->value) == leased->key;
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
           wm_pool_recent_peak(pool) >= stats->in_use + stats->leased &&
           (pool->closed || pool->alive == alive) && lists_agree_locked(pool);
    wm_lock_release(&pool->lock);
    return good;
}
