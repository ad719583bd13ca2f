/* pool.c: taking, creating, resetting and giving back; see pool.h.
 *
 * Room for a handle in both arrays is promised before it is created, so that
 * neither the end of a creation nor a give-back can run out of memory. */
#include "handles/pool.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { FIRST_ROOM = 16 };

/* What a thread that wants a handle is to do, decided under the lock. */
enum step { STEP_REVIVE, STEP_GROW, STEP_CREATE, STEP_CREATE_FIRST };

void wm_pool_init(wm_pool *pool, wm_kind *kind, int device)
{
    pool->kind = kind;
    pool->device = device;
    wm_lock_init(&pool->lock, WM_RANK_POOL);
    wm_cond_init(&pool->first_ended);
}

static void count_in_use_locked(wm_pool *pool)
{
    warm_handle_stats *stats = &pool->stats;

    stats->in_use++;
    if (stats->in_use > stats->in_use_peak) {
        stats->in_use_peak = stats->in_use;
    }
}

/* Takes the handle off the list of live ones, which is in any order. */
static void forget_locked(wm_pool *pool, const void *handle)
{
    for (unsigned i = 0; i < pool->alive; i++) {
        if (pool->all[i] == handle) {
            pool->all[i] = pool->all[--pool->alive];
            return;
        }
    }
}

static enum step choose_locked(wm_pool *pool, void **handle)
{
    /* Concurrent first creations are known to hang for seconds (cuDNN asks
     * for one that is alone). If it fails, the next thread is the first. */
    while (pool->first == WM_FIRST_RUNNING) {
        wm_cond_wait(&pool->first_ended, &pool->lock);
    }
    if (pool->stats.idle > 0) {
        *handle = pool->idle[--pool->stats.idle];
        count_in_use_locked(pool);
        return STEP_REVIVE;
    }
    if (pool->alive + pool->promised == pool->room) {
        return STEP_GROW;
    }
    pool->promised++;
    if (pool->first == WM_FIRST_NONE) {
        pool->first = WM_FIRST_RUNNING;
        return STEP_CREATE_FIRST;
    }
    return STEP_CREATE;
}

/* Both arrays lie in one allocation, that of all. */
static void **swap_room_locked(wm_pool *pool, void **bigger, unsigned room)
{
    void **old = pool->all;

    if (room <= pool->room) {
        return bigger;
    }
    if (old != NULL) {
        memcpy(bigger, pool->all, pool->alive * sizeof *bigger);
        memcpy(bigger + room, pool->idle, pool->stats.idle * sizeof *bigger);
    }
    pool->all = bigger;
    pool->idle = bigger + room;
    pool->room = room;
    return old;
}

static warm_status grow(wm_pool *pool)
{
    unsigned room;
    void **bigger;

    wm_lock_acquire(&pool->lock);
    room = pool->room > 0 ? pool->room * 2 : FIRST_ROOM;
    wm_lock_release(&pool->lock);
    bigger = wm_meta_alloc((size_t)room * 2 * sizeof *bigger);
    if (bigger == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to keep %s handles",
                       pool->kind->ops->name);
    }
    /* Another thread may have been faster: then ours is let go. */
    wm_lock_acquire(&pool->lock);
    bigger = swap_room_locked(pool, bigger, room);
    wm_lock_release(&pool->lock);
    wm_meta_free(bigger);
    return WARM_OK;
}

/* Free memory of the device, or 0. Asked only through device_info, which
 * answers 0 for a device that the program does not use yet and makes no
 * context there (row B13); a creation that makes the context is therefore
 * not measured. */
static uint64_t free_bytes(wm_pool *pool)
{
    warm_device_info info = {.size = sizeof info};

    if (wm_driver_device_info(pool->kind->driver, pool->device, &info) !=
        WARM_OK) {
        return 0;
    }
    return info.free_bytes;
}

/* Libraries allocate when a handle is made, free when it goes, and asking for
 * free memory is no better: in relaxed mode none of it spoils the capture of a
 * thread that needs a handle in the middle of one (row B7). */
struct calm {
    bool mode;    /* the thread's capture mode before */
    bool relaxed; /* and whether it was exchanged */
};

static struct calm calm_begin(wm_pool *pool)
{
    struct calm calm;

    calm.relaxed = wm_driver_relax(pool->kind->driver, &calm.mode);
    return calm;
}

static void calm_end(wm_pool *pool, struct calm *calm)
{
    if (calm->relaxed) {
        wm_driver_unrelax(pool->kind->driver, &calm->mode);
    }
}

struct cost {
    uint64_t ns, bytes;
};

static warm_status create_measured(wm_pool *pool, void **handle,
                                   struct cost *cost)
{
    warm_error before = {.size = sizeof before};
    uint64_t free_before, free_after, start;
    warm_status status;

    warm_last_error(&before);
    free_before = free_bytes(pool);
    start = wm_clock_ns();
    status = pool->kind->ops->create(pool->kind, pool->device, handle);
    cost->ns = wm_clock_ns() - start;
    if (status != WARM_OK) {
        return status;
    }
    free_after = free_before > 0 ? free_bytes(pool) : 0;
    cost->bytes = free_after > 0 && free_before > free_after
                      ? free_before - free_after
                      : 0;
    wm_error_restore(&before);
    return WARM_OK;
}

static void created_locked(wm_pool *pool, void *handle, const struct cost *cost)
{
    warm_handle_stats *stats = &pool->stats;

    pool->all[pool->alive++] = handle;
    stats->created++;
    stats->create_ns += cost->ns;
    if (cost->ns > stats->create_max_ns) {
        stats->create_max_ns = cost->ns;
    }
    stats->device_bytes += cost->bytes;
    if (pool->closed) {
        stats->leaked++;
        return;
    }
    count_in_use_locked(pool);
    /* Nothing was idle when this creation was begun: what is idle by now was
     * held meanwhile, by threads that this one could not take it from. */
    if (pool->alive > stats->in_use_peak) {
        stats->in_use_peak = pool->alive;
    }
}

static warm_status create(wm_pool *pool, bool first, void **handle)
{
    struct cost cost = {0, 0};
    void *made = NULL;
    struct calm calm = calm_begin(pool);
    warm_status status = create_measured(pool, &made, &cost);

    calm_end(pool, &calm);
    wm_lock_acquire(&pool->lock);
    pool->promised--;
    if (status == WARM_OK) {
        created_locked(pool, made, &cost);
    } else {
        pool->stats.failed++;
    }
    if (first) {
        pool->first = status == WARM_OK ? WM_FIRST_DONE : WM_FIRST_NONE;
        wm_cond_broadcast(&pool->first_ended);
    }
    wm_lock_release(&pool->lock);
    if (status == WARM_OK) {
        *handle = made;
    }
    return status;
}

/* Calls destroy of the kind; says whether it worked. */
static bool destroy(wm_pool *pool, void *handle)
{
    const wm_kind_ops *ops = pool->kind->ops;
    warm_error before = {.size = sizeof before};
    struct calm calm;
    bool done;

    warm_last_error(&before);
    calm = calm_begin(pool);
    done = ops->destroy(pool->kind, pool->device, handle) == WARM_OK;
    calm_end(pool, &calm);
    if (!done) {
        wm_log(WARM_LOG_WARNING, "a %s handle of device %d is leaked: %s",
               ops->name, pool->device, warm_last_error_message());
        wm_error_restore(&before);
    }
    return done;
}

/* Destroys a taken handle that could not be put back into its default state:
 * the next thread must not inherit a setting (row A15). */
static void discard(wm_pool *pool, void *handle)
{
    bool done = destroy(pool, handle);

    wm_lock_acquire(&pool->lock);
    forget_locked(pool, handle);
    if (!pool->closed) {
        pool->stats.in_use--;
        *(done ? &pool->stats.destroyed : &pool->stats.leaked) += 1;
    }
    wm_lock_release(&pool->lock);
}

/* Puts a handle that another thread used back into its default state. */
static bool revive(wm_pool *pool, void *handle)
{
    const wm_kind_ops *ops = pool->kind->ops;
    warm_error before = {.size = sizeof before};

    if (ops->reset == NULL) {
        return true;
    }
    warm_last_error(&before);
    if (ops->reset(pool->kind, pool->device, handle) == WARM_OK) {
        return true;
    }
    wm_log(WARM_LOG_WARNING,
           "a %s handle of device %d is destroyed, it cannot be reset: %s",
           ops->name, pool->device, warm_last_error_message());
    discard(pool, handle);
    wm_error_restore(&before);
    return false;
}

warm_status wm_pool_take(wm_pool *pool, void **handle)
{
    for (;;) {
        void *taken = NULL;
        enum step step;
        warm_status status;

        wm_lock_acquire(&pool->lock);
        step = choose_locked(pool, &taken);
        wm_lock_release(&pool->lock);
        switch (step) {
        case STEP_REVIVE:
            if (revive(pool, taken)) {
                *handle = taken;
                return WARM_OK;
            }
            break;
        case STEP_GROW:
            status = grow(pool);
            if (status != WARM_OK) {
                return status;
            }
            break;
        case STEP_CREATE:
        case STEP_CREATE_FIRST:
            return create(pool, step == STEP_CREATE_FIRST, handle);
        }
    }
}

void wm_pool_give(wm_pool *pool, void *handle)
{
    wm_lock_acquire(&pool->lock);
    if (!pool->closed) {
        pool->stats.in_use--;
        pool->idle[pool->stats.idle++] = handle;
    }
    wm_lock_release(&pool->lock);
}

warm_status wm_pool_bind(wm_pool *pool, void *handle, warm_stream stream,
                         void *workspace, size_t bytes)
{
    /* Relaxed: a count. */
    atomic_fetch_add_explicit(&pool->binds, 1, memory_order_relaxed);
    return pool->kind->ops->bind(pool->kind, pool->device, handle, stream,
                                 workspace, bytes);
}

bool wm_pool_owns(wm_pool *pool, const void *handle)
{
    bool found = false;

    wm_lock_acquire(&pool->lock);
    for (unsigned i = 0; i < pool->alive && !found; i++) {
        found = pool->all[i] == handle;
    }
    wm_lock_release(&pool->lock);
    return found;
}

/* Moves what is idle and in use to leaked; returns how much that was. */
static uint64_t leak_locked(wm_pool *pool)
{
    warm_handle_stats *stats = &pool->stats;
    uint64_t count = stats->idle + stats->in_use;

    pool->closed = true;
    stats->leaked += count;
    stats->idle = 0;
    stats->in_use = 0;
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

uint64_t wm_pool_close(wm_pool *pool)
{
    uint64_t idle, in_use;

    wm_lock_acquire(&pool->lock);
    idle = pool->stats.idle;
    in_use = pool->stats.in_use;
    leak_locked(pool);
    wm_lock_release(&pool->lock);
    /* Nobody else is in here: the runtime is closing and no thread pins it.
     * But another thread may call exit(): then the rest is left (row A6). */
    for (uint64_t i = 0; i < idle && !wm_process_exiting(); i++) {
        (void)destroy(pool, pool->idle[i]);
    }
    wm_meta_free(pool->all);
    pool->all = NULL;
    wm_cond_fini(&pool->first_ended);
    wm_lock_fini(&pool->lock);
    return in_use;
}

void wm_pool_get_stats(wm_pool *pool, warm_handle_stats *stats)
{
    wm_lock_acquire(&pool->lock);
    *stats = pool->stats;
    wm_lock_release(&pool->lock);
    stats->binds = atomic_load_explicit(&pool->binds, memory_order_relaxed);
}

static bool idle_are_alive_locked(const wm_pool *pool)
{
    for (uint64_t i = 0; i < pool->stats.idle; i++) {
        bool found = false;

        for (unsigned k = 0; k < pool->alive; k++) {
            found = found || pool->all[k] == pool->idle[i];
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

bool wm_pool_check(wm_pool *pool)
{
    const warm_handle_stats *stats = &pool->stats;
    bool good;

    wm_lock_acquire(&pool->lock);
    good = stats->created ==
               stats->destroyed + stats->idle + stats->in_use + stats->leaked &&
           pool->alive + pool->promised <= pool->room &&
           stats->in_use_peak >= stats->in_use &&
           (pool->closed || pool->alive == stats->idle + stats->in_use) &&
           idle_are_alive_locked(pool);
    wm_lock_release(&pool->lock);
    return good;
}
