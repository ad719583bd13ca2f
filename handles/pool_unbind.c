/* pool_unbind.c: unbinds handles from streams that retire, and detaches idle
 * handles from workspaces (rows A10, B6).
 *
 * A library may read the stream of a handle when the handle is bound again or
 * destroyed, so no handle may stay bound to a destroyed stream. Only its thread
 * binds a held handle. An idle handle is out of the ring while it is unbound. A
 * leased handle must not be used once its stream retires; if its lease ends
 * while it is unbound, the unbinding thread returns it to the ring. */
#include "handles/pool_int.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

/* A handle that a thread unbinds; on the thread's stack. */
struct wm_unbinding {
    struct wm_unbinding *next; /* lock pool; all below too */
    void *handle;
    uint64_t since_ns;
    bool ours; /* it was idle, or its lease has ended meanwhile */
};

bool wm_pool_return_while_unbinding_locked(wm_pool *pool, const void *handle,
                                           uint64_t now)
{
    struct wm_unbinding *u = pool->unbinding;

    while (u != NULL && u->handle != handle) {
        u = u->next;
    }
    if (u == NULL) {
        return false;
    }
    u->ours = true;
    u->since_ns = now;
    pool->ending++;
    return true;
}

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

static void begin_locked(wm_pool *pool, struct wm_unbinding *u)
{
    u->next = pool->unbinding;
    pool->unbinding = u;
    wm_pool_note_bound_locked(pool, u->handle, NULL);
}

static void unlink_locked(wm_pool *pool, const struct wm_unbinding *u)
{
    struct wm_unbinding **at = &pool->unbinding;

    while (*at != u) {
        at = &(*at)->next;
    }
    *at = u->next;
}

/* Finds an idle or leased handle that is bound to the stream. */
static bool find_locked(wm_pool *pool, warm_stream stream,
                        struct wm_unbinding *u)
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
        if (wm_map_get(&pool->all, (uintptr_t)leased->value) == stream) {
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
    unlink_locked(pool, u);
    discard = u->ours && !done;
    if (u->ours && done && !pool->closed) {
        put_idle_locked(pool, u);
    }
    wm_lock_release(&pool->lock);
    if (discard) {
        (void)wm_pool_discard(pool, u->handle, &pool->ending);
    }
}

void wm_pool_unbind_stream(wm_pool *pool, warm_stream stream)
{
    struct wm_unbinding u = {.handle = NULL};
    bool found = true;

    /* Relaxed: a bind to this stream happened before its retirement. */
    if (pool->kind->ops->bind == NULL ||
        atomic_load_explicit(&pool->binds, memory_order_relaxed) == 0) {
        return;
    }
    while (found) {
        wm_lock_acquire(&pool->lock);
        found = !pool->closed && find_locked(pool, stream, &u);
        if (found) {
            begin_locked(pool, &u);
        }
        wm_lock_release(&pool->lock);
        if (found) {
            end(pool, &u, wm_pool_unbind(pool, u.handle));
        }
    }
}

/* Takes the i-th idle handle out of the ring if it is idle since `before`. */
static bool take_old_locked(wm_pool *pool, uint64_t i, uint64_t before,
                            struct wm_unbinding *u)
{
    if (pool->closed || wm_pool_is_lost(pool) || i >= pool->stats.idle ||
        wm_pool_idle_at(pool, i)->since_ns > before) {
        return false;
    }
    take_idle_locked(pool, i, u);
    begin_locked(pool, u);
    return true;
}

void wm_pool_detach_workspaces(wm_pool *pool, uint64_t idle_ns)
{
    uint64_t now = wm_clock_ns();
    struct wm_unbinding u = {.handle = NULL};
    bool found = now >= idle_ns;

    for (uint64_t i = 0; found; i++) {
        wm_lock_acquire(&pool->lock);
        found = take_old_locked(pool, i, now - idle_ns, &u);
        wm_lock_release(&pool->lock);
        if (found) {
            bool done = wm_pool_unbind(pool, u.handle);

            if (done) {
                wm_workspaces_detach(pool->workspaces, u.handle);
            }
            end(pool, &u, done);
        }
    }
}
