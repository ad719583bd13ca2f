/* pool.c: taking, creating, resetting and giving back; see pool.h.
 *
 * Room for a handle in all arrays is promised before it is created, so that
 * neither the end of a creation nor a lease nor a give-back can run out of
 * memory. */
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

/* Of the process, so that a lease of another runtime is told from ours.
 * Relaxed: only that no two are the same matters. */
static _Atomic uint64_t last_serial;

/* What a thread that wants a handle is to do, decided under the lock. */
enum step { STEP_NONE, STEP_REVIVE, STEP_GROW, STEP_CREATE };

/* A creation that was promised. */
struct creation {
    bool first; /* the pool's very first */
    bool ahead; /* for nobody yet */
    /* Handles held, leased and being made for somebody when it began. */
    uint64_t at_once;
};

void wm_pool_init(wm_pool *pool, wm_kind *kind, int device)
{
    pool->kind = kind;
    pool->device = device;
    wm_lock_init(&pool->lock, WM_RANK_POOL);
    wm_cond_init(&pool->first_ended);
}

static uint64_t at_once_locked(const wm_pool *pool)
{
    return pool->stats.in_use + pool->stats.leased + pool->promised -
           pool->ahead;
}

static void count_in_use_locked(wm_pool *pool, uint64_t at_once)
{
    warm_handle_stats *stats = &pool->stats;

    stats->in_use++;
    if (at_once < at_once_locked(pool)) {
        at_once = at_once_locked(pool);
    }
    if (stats->in_use_peak < at_once) {
        stats->in_use_peak = at_once;
    }
}

static void push_idle_locked(wm_pool *pool, void *handle, uint64_t since_ns)
{
    pool->idle[pool->stats.idle++] = (wm_pool_idle){handle, since_ns};
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

/* Concurrent first creations are known to hang for seconds (cuDNN asks for one
 * that is alone). If it fails, the next thread is the first. */
static void await_first_locked(wm_pool *pool)
{
    while (pool->first == WM_FIRST_RUNNING) {
        wm_cond_wait(&pool->first_ended, &pool->lock);
    }
}

static enum step promise_locked(wm_pool *pool, struct creation *creation)
{
    if (pool->alive + pool->promised == pool->room) {
        return STEP_GROW;
    }
    pool->promised++;
    pool->ahead += creation->ahead;
    creation->at_once = at_once_locked(pool);
    creation->first = pool->first == WM_FIRST_NONE;
    if (creation->first) {
        pool->first = WM_FIRST_RUNNING;
    }
    return STEP_CREATE;
}

static enum step choose_locked(wm_pool *pool, struct creation *creation,
                               void **handle)
{
    await_first_locked(pool);
    if (pool->stats.idle > 0) {
        *handle = pool->idle[--pool->stats.idle].handle;
        count_in_use_locked(pool, 0);
        return STEP_REVIVE;
    }
    return promise_locked(pool, creation);
}

static enum step choose_ahead_locked(wm_pool *pool, unsigned count,
                                     struct creation *creation)
{
    await_first_locked(pool);
    return pool->stats.idle >= count ? STEP_NONE
                                     : promise_locked(pool, creation);
}

/* All three arrays lie in one allocation, that of all. */
enum { PLACE = sizeof(void *) + sizeof(wm_pool_idle) + sizeof(wm_pool_lease) };

static void **swap_room_locked(wm_pool *pool, void **bigger, unsigned room)
{
    void **old = pool->all;
    wm_pool_idle *idle = (wm_pool_idle *)(void *)(bigger + room);
    wm_pool_lease *leases = (wm_pool_lease *)(void *)(idle + room);

    if (room <= pool->room) {
        return bigger;
    }
    if (old != NULL) {
        memcpy(bigger, pool->all, pool->alive * sizeof *bigger);
        memcpy(idle, pool->idle, pool->stats.idle * sizeof *idle);
        memcpy(leases, pool->leases, pool->stats.leased * sizeof *leases);
    }
    pool->all = bigger;
    pool->idle = idle;
    pool->leases = leases;
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
    bigger = wm_meta_alloc((size_t)room * PLACE);
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
    uint64_t ns, end_ns, bytes;
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
    cost->end_ns = wm_clock_ns();
    cost->ns = cost->end_ns - start;
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

static void created_locked(wm_pool *pool, void *handle, const struct cost *cost,
                           const struct creation *creation)
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
    } else if (creation->ahead) {
        push_idle_locked(pool, handle, cost->end_ns);
    } else {
        count_in_use_locked(pool, creation->at_once);
    }
}

static warm_status create(wm_pool *pool, const struct creation *creation,
                          void **handle)
{
    struct cost cost = {0, 0, 0};
    void *made = NULL;
    struct calm calm = calm_begin(pool);
    warm_status status = create_measured(pool, &made, &cost);

    calm_end(pool, &calm);
    wm_lock_acquire(&pool->lock);
    pool->promised--;
    pool->ahead -= creation->ahead;
    if (status == WARM_OK) {
        created_locked(pool, made, &cost, creation);
    } else {
        pool->stats.failed++;
    }
    if (creation->first) {
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

/* Destroys a handle that nobody else can reach, counted in *from until now;
 * says whether it worked. */
static bool discard(wm_pool *pool, void *handle, uint64_t *from)
{
    bool done = destroy(pool, handle);

    wm_lock_acquire(&pool->lock);
    forget_locked(pool, handle);
    if (!pool->closed) {
        *from -= 1;
        *(done ? &pool->stats.destroyed : &pool->stats.leaked) += 1;
    }
    wm_lock_release(&pool->lock);
    return done;
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
    /* The next thread must not inherit a setting (row A15). */
    (void)discard(pool, handle, &pool->stats.in_use);
    wm_error_restore(&before);
    return false;
}

warm_status wm_pool_take(wm_pool *pool, void **handle)
{
    struct creation creation = {.ahead = false};
    warm_status status = WARM_OK;

    while (status == WARM_OK) {
        void *taken = NULL;
        enum step step;

        wm_lock_acquire(&pool->lock);
        step = choose_locked(pool, &creation, &taken);
        wm_lock_release(&pool->lock);
        if (step == STEP_CREATE) {
            return create(pool, &creation, handle);
        }
        if (step == STEP_GROW) {
            status = grow(pool);
        } else if (revive(pool, taken)) {
            *handle = taken;
            return WARM_OK;
        }
    }
    return status;
}

warm_status wm_pool_make_ahead(wm_pool *pool, unsigned count, bool *made)
{
    struct creation creation = {.ahead = true};
    enum step step = STEP_GROW;
    warm_status status = WARM_OK;
    void *handle;

    while (status == WARM_OK && step == STEP_GROW) {
        wm_lock_acquire(&pool->lock);
        step = choose_ahead_locked(pool, count, &creation);
        wm_lock_release(&pool->lock);
        if (step == STEP_GROW) {
            status = grow(pool);
        } else if (step == STEP_CREATE) {
            status = create(pool, &creation, &handle);
        }
    }
    *made = status == WARM_OK && step == STEP_CREATE;
    return status;
}

void wm_pool_give(wm_pool *pool, void *handle)
{
    uint64_t now = wm_clock_ns();

    wm_lock_acquire(&pool->lock);
    if (!pool->closed) {
        pool->stats.in_use--;
        push_idle_locked(pool, handle, now);
    }
    wm_lock_release(&pool->lock);
}

uint64_t wm_pool_lease_out(wm_pool *pool, void *handle)
{
    uint64_t serial =
        atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;

    wm_lock_acquire(&pool->lock);
    if (!pool->closed) {
        pool->stats.in_use--;
        pool->leases[pool->stats.leased++] = (wm_pool_lease){handle, serial};
    }
    wm_lock_release(&pool->lock);
    return serial;
}

/* Ends the lease and returns its handle, or null; searched from the newest, as
 * scopes end. The order of the others stays. */
static void *end_lease_locked(wm_pool *pool, uint64_t serial)
{
    uint64_t i = pool->stats.leased;
    void *handle;

    while (i > 0 && pool->leases[i - 1].serial != serial) {
        i--;
    }
    if (i == 0) {
        return NULL;
    }
    handle = pool->leases[i - 1].handle;
    pool->stats.leased--;
    memmove(&pool->leases[i - 1], &pool->leases[i],
            (pool->stats.leased - (i - 1)) * sizeof *pool->leases);
    return handle;
}

warm_status wm_pool_lease_end(wm_pool *pool, uint64_t serial)
{
    uint64_t now = wm_clock_ns();
    void *handle;
    bool closed;

    wm_lock_acquire(&pool->lock);
    closed = pool->closed;
    handle = end_lease_locked(pool, serial);
    if (handle != NULL) {
        push_idle_locked(pool, handle, now);
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

/* The handle that has been idle longest, if it may go. The oldest ones lie at
 * the bottom of the stack; what came back after now stays. */
static void *take_oldest_locked(wm_pool *pool, uint64_t keep, uint64_t idle_ns,
                                uint64_t now)
{
    wm_pool_idle oldest;

    if (pool->stats.idle <= keep) {
        return NULL;
    }
    oldest = pool->idle[0];
    if (oldest.since_ns > now || now - oldest.since_ns < idle_ns) {
        return NULL;
    }
    pool->stats.idle--;
    pool->ending++;
    memmove(pool->idle, pool->idle + 1, pool->stats.idle * sizeof *pool->idle);
    return oldest.handle;
}

uint64_t wm_pool_trim(wm_pool *pool, uint64_t keep, uint64_t idle_ns)
{
    uint64_t now = wm_clock_ns();
    uint64_t destroyed = 0;
    void *handle;

    /* Once the process exits everything is left (row A6). */
    do {
        wm_lock_acquire(&pool->lock);
        handle = wm_process_exiting()
                     ? NULL
                     : take_oldest_locked(pool, keep, idle_ns, now);
        wm_lock_release(&pool->lock);
        if (handle != NULL && discard(pool, handle, &pool->ending)) {
            destroyed++;
        }
    } while (handle != NULL);
    return destroyed;
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

/* Moves all that lives to leaked; returns how much that was. */
static uint64_t leak_locked(wm_pool *pool)
{
    warm_handle_stats *stats = &pool->stats;
    uint64_t count = stats->idle + pool->ending + stats->in_use + stats->leased;

    pool->closed = true;
    stats->leaked += count;
    stats->idle = 0;
    stats->in_use = 0;
    stats->leased = 0;
    pool->ending = 0;
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
    in_use = pool->stats.in_use + pool->stats.leased;
    leak_locked(pool);
    wm_lock_release(&pool->lock);
    /* Nobody else is in here: the runtime is closing and no thread pins it.
     * But another thread may call exit(): then the rest is left (row A6). */
    for (uint64_t i = 0; i < idle && !wm_process_exiting(); i++) {
        (void)destroy(pool, pool->idle[i].handle);
    }
    wm_meta_free(pool->all);
    pool->all = NULL;
    wm_cond_fini(&pool->first_ended);
    wm_lock_fini(&pool->lock);
    return in_use;
}

void wm_pool_get_stats(wm_pool *pool, warm_handle_stats *stats)
{
    /* Relaxed: a count. */
    uint64_t wanted = atomic_load_explicit(&pool->wanted, memory_order_relaxed);

    wm_lock_acquire(&pool->lock);
    *stats = pool->stats;
    stats->idle += pool->ending;
    stats->prewarming =
        wanted > pool->stats.idle ? wanted - pool->stats.idle : 0;
    wm_lock_release(&pool->lock);
    stats->binds = atomic_load_explicit(&pool->binds, memory_order_relaxed);
}

static unsigned count_locked(const wm_pool *pool, const void *handle)
{
    unsigned count = 0;

    for (unsigned i = 0; i < pool->alive; i++) {
        count += pool->all[i] == handle;
    }
    return count;
}

/* What is idle is alive, and so is what is leased, which is not idle. */
static bool lists_agree_locked(const wm_pool *pool)
{
    for (uint64_t i = 0; i < pool->stats.idle; i++) {
        if (count_locked(pool, pool->idle[i].handle) == 0) {
            return false;
        }
    }
    for (uint64_t i = 0; i < pool->stats.leased; i++) {
        for (uint64_t k = 0; k < pool->stats.idle; k++) {
            if (pool->idle[k].handle == pool->leases[i].handle) {
                return false;
            }
        }
        if (count_locked(pool, pool->leases[i].handle) == 0) {
            return false;
        }
    }
    return true;
}

bool wm_pool_check(wm_pool *pool)
{
    const warm_handle_stats *stats = &pool->stats;
    uint64_t alive;
    bool good;

    wm_lock_acquire(&pool->lock);
    alive = stats->idle + pool->ending + stats->in_use + stats->leased;
    good = stats->created == stats->destroyed + alive + stats->leaked &&
           pool->alive + pool->promised <= pool->room &&
           pool->ahead <= pool->promised &&
           stats->in_use_peak >= stats->in_use + stats->leased &&
           (pool->closed || pool->alive == alive) && lists_agree_locked(pool);
    wm_lock_release(&pool->lock);
    return good;
}
