/* pool_create.c: creates, resets, unbinds and destroys the handles of a pool.
 *
 * A slot for a handle in the ring and the maps is reserved before the handle is
 * created, so that the end of a creation, a lease and a release cannot run out
 * of memory. The kind is called with no lock held and cancellation off. */
#include "handles/first_turn.h"
#include "handles/pool_int.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

void wm_pool_note_bound_locked(wm_pool *pool, void *handle, warm_stream stream)
{
    wm_map_entry *live = wm_map_find(&pool->all, (uintptr_t)handle);

    if (live != NULL) {
        live->value = wm_stream_is_default(stream) ? NULL : stream;
    }
}

bool wm_pool_unbind(wm_pool *pool, void *handle)
{
    bool done;

    if (wm_pool_is_lost(pool)) {
        return true; /* its library must not be called */
    }
    WM_CANCEL_OFF();
    WM_KEEP_ERROR();
    done = pool->kind->ops->bind(pool->kind, pool->device, handle, NULL, NULL,
                                 0) == WARM_OK;
    if (!done) {
        wm_log(WARM_LOG_WARNING,
               "a %s handle of device %d cannot be unbound from its stream: %s",
               pool->kind->ops->name, pool->device, warm_last_error_message());
    }
    if (done && pool->workspaces != NULL) {
        wm_workspaces_leave_handle(pool->workspaces, handle, NULL,
                                   wm_clock_ns());
    }
    return done;
}

static void end_unbinding(wm_pool *pool, struct wm_unbinding *u)
{
    wm_lock_acquire(&pool->lock);
    wm_pool_end_unbinding_locked(pool, u);
    wm_lock_release(&pool->lock);
}

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

void wm_pool_mark_lost_locked(wm_pool *pool)
{
    if (!pool->closed) {
        pool->stats.lost += wm_pool_close_locked(pool);
        pool->lost = true;
    }
}

enum { FIRST_ROOM = 16 };

/* A thread that needs a handle; once its slot is reserved, its creation. */
struct creation {
    bool ahead; /* of an idle handle, unless `enough` are idle */
    unsigned enough;
    bool first;    /* the pool's first */
    bool has_turn; /* `turn` is begun */
    wm_first_turn turn;
    /* wm_pool_demand_locked() when it began. */
    uint64_t peak_candidate;
    /* Unless ahead: an idle handle that serves the thread after all. */
    void *taken;
    struct wm_unbinding u;
};

/* Waits while another thread makes the pool's first creation (first_turn.h). If
 * it fails, the next thread's is the first. That thread may be inside a
 * callback and need what a thread with a turn creates, which therefore never
 * waits. */
static void await_first_locked(wm_pool *pool)
{
    while (pool->first == WM_FIRST_RUNNING && !wm_first_turn_is_mine()) {
        wm_cond_wait(&pool->first_ended, &pool->lock);
    }
}

static bool is_served_locked(wm_pool *pool, struct creation *creation)
{
    if (creation->ahead) {
        return pool->stats.idle >= creation->enough;
    }
    creation->taken = wm_pool_pop_idle_locked(pool, &creation->u);
    return creation->taken != NULL;
}

/* What the thread does next. */
enum step { SERVED, CREATE, GROW, BEGIN_TURN, END_TURN, LOST };

/* A reset of the device may be what another thread's creation failed of. */
static bool is_lost(const wm_pool *pool)
{
    return !pool->kind->ops->of_host &&
           wm_driver_is_lost(pool->kind->driver, pool->device);
}

/* The turn begins before other threads wait for the creation: whoever they wait
 * for has a turn. */
static enum step look_locked(wm_pool *pool, struct creation *creation)
{
    if (creation->has_turn && pool->first != WM_FIRST_NONE) {
        return END_TURN; /* another thread was the first */
    }
    await_first_locked(pool);
    if (is_lost(pool)) {
        return LOST;
    }
    if (is_served_locked(pool, creation)) {
        return SERVED;
    }
    if (pool->alive + pool->reserved_slots == pool->room) {
        return GROW;
    }
    creation->first = pool->first == WM_FIRST_NONE;
    if (creation->first && !creation->has_turn) {
        return BEGIN_TURN;
    }
    pool->reserved_slots++;
    pool->prewarming += creation->ahead;
    creation->peak_candidate = wm_pool_demand_locked(pool);
    if (creation->first) {
        pool->first = WM_FIRST_RUNNING;
    }
    return CREATE;
}

static void end_turn(struct creation *creation)
{
    if (creation->has_turn) {
        wm_first_turn_end(&creation->turn);
        creation->has_turn = false;
    }
}

/* Bytes of the ring, the maps and the list of deferred handles for `room`
 * handles, which share one allocation. */
static size_t table_bytes(size_t room)
{
    return 3 * wm_map_bytes(room) +
           room * (sizeof(wm_pool_idle) + sizeof(void *));
}

/* Moves the pool's tables into memory for `room` handles; returns the memory to
 * free. */
static void *swap_room_locked(wm_pool *pool, void *memory, unsigned room)
{
    char *at = memory;
    wm_pool_idle *idle;
    void **deferred;

    if (room <= pool->room) {
        return memory;
    }
    idle = (wm_pool_idle *)(void *)(at + 3 * wm_map_bytes(room));
    deferred = (void **)(void *)(idle + room);
    for (unsigned i = 0; i < pool->stats.idle; i++) {
        idle[i] = *wm_pool_idle_at(pool, i);
    }
    for (uint64_t i = 0; i < pool->stats.deferred; i++) {
        deferred[i] = pool->deferred[i];
    }
    pool->idle = idle;
    pool->oldest = 0;
    pool->room = room;
    pool->deferred = deferred;
    (void)wm_map_move(&pool->leases, at + wm_map_bytes(room), room);
    (void)wm_map_move(&pool->serials, at + 2 * wm_map_bytes(room), room);
    /* The map of all handles is at the start of the memory: its address is that
     * of the allocation to free. */
    return wm_map_move(&pool->all, at, room);
}

static warm_status grow(wm_pool *pool)
{
    unsigned room;
    void *bigger;

    wm_lock_acquire(&pool->lock);
    room = pool->room > 0 ? pool->room * 2 : FIRST_ROOM;
    wm_lock_release(&pool->lock);
    bigger = wm_meta_alloc(table_bytes(room));
    if (bigger == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the table of %s handles",
                       pool->kind->ops->name);
    }
    /* If another thread grew the pool first, this memory is freed. */
    wm_lock_acquire(&pool->lock);
    bigger = swap_room_locked(pool, bigger, room);
    wm_lock_release(&pool->lock);
    wm_meta_free(bigger);
    return WARM_OK;
}

/* Reserves a slot; or *served: no handle need be created. */
static warm_status begin(wm_pool *pool, struct creation *creation, bool *served)
{
    enum step step;
    warm_status status = WARM_OK;

    do {
        wm_lock_acquire(&pool->lock);
        step = look_locked(pool, creation);
        wm_lock_release(&pool->lock);
        if (step == BEGIN_TURN) {
            wm_first_turn_begin(&creation->turn, pool->kind, pool->device);
            creation->has_turn = true;
        } else if (step == GROW) {
            status = grow(pool);
        } else if (step == END_TURN) {
            end_turn(creation);
        } else if (step == LOST) {
            status = wm_driver_check_lost(pool->kind->driver, pool->device);
        }
    } while (status == WARM_OK && step > CREATE);
    if (step != CREATE) {
        end_turn(creation);
    }
    *served = step == SERVED;
    return status;
}

/* Duration of a creation, and the result of a measurement that it ended. */
struct cost {
    uint64_t ns, end_ns;
    uint64_t measured, bytes;
};

/* Libraries allocate when they create a handle and free when they destroy it,
 * and the meter queries free memory: in relaxed capture mode none of these
 * breaks a capture of this thread (row B7). Libraries open files, which is a
 * cancellation point. */
static warm_status create_measured(wm_pool *pool, void **handle,
                                   struct cost *cost)
{
    const wm_kind_ops *ops = pool->kind->ops;
    warm_error last = wm_error_save();
    bool mode, relaxed;
    warm_status status;
    uint64_t start;

    WM_CANCEL_OFF();
    relaxed = wm_driver_capture_relaxed_begin(pool->kind->driver, &mode);
    wm_meter_begin(pool->meter, pool);
    start = wm_clock_ns();
    status = ops->create(pool->kind, pool->device, handle);
    cost->end_ns = wm_clock_ns();
    cost->ns = cost->end_ns - start;
    if (status != WARM_OK) {
        last = wm_error_save();
    }
    if (!wm_meter_end(pool->meter, status == WARM_OK, &cost->measured,
                      &cost->bytes)) {
        cost->measured = cost->bytes = 0;
    }
    if (relaxed) {
        wm_driver_capture_relaxed_end(pool->kind->driver, &mode);
    }
    wm_error_restore(&last);
    return status;
}

static void created_locked(wm_pool *pool, void *handle, const struct cost *cost,
                           const struct creation *creation)
{
    warm_handle_stats *stats = &pool->stats;

    wm_map_put(&pool->all, (uintptr_t)handle, NULL);
    pool->alive++;
    stats->created++;
    stats->create_ns += cost->ns;
    if (cost->ns > stats->create_max_ns) {
        stats->create_max_ns = cost->ns;
    }
    if (pool->closed) {
        *(pool->lost ? &stats->lost : &stats->leaked) += 1;
    } else if (creation->ahead) {
        wm_pool_push_idle_locked(pool, handle, cost->end_ns);
    } else {
        wm_pool_count_in_use_locked(pool, creation->peak_candidate);
    }
}

static warm_status create(wm_pool *pool, struct creation *creation,
                          void **handle)
{
    struct cost cost = {0, 0, 0, 0};
    void *made = NULL;
    warm_error before = wm_error_save();
    warm_status status = create_measured(pool, &made, &cost);

    /* A library's code does not always tell that memory was short. */
    if (status != WARM_OK && pool->kind->ops->library != NULL &&
        wm_workspaces_trim(pool->beside, 0) > 0 &&
        (status = create_measured(pool, &made, &cost)) == WARM_OK) {
        wm_error_restore(&before);
    }
    wm_lock_acquire(&pool->lock);
    pool->stats.device_bytes += cost.bytes;
    pool->stats.measured += cost.measured;
    pool->reserved_slots--;
    pool->prewarming -= creation->ahead;
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
    end_turn(creation);
    if (status == WARM_OK) {
        *handle = made;
    }
    return status;
}

bool wm_pool_destroy(wm_pool *pool, void *handle)
{
    const wm_kind_ops *ops = pool->kind->ops;
    bool done, mode, relaxed;

    WM_CANCEL_OFF();
    WM_KEEP_ERROR();
    relaxed = wm_driver_capture_relaxed_begin(pool->kind->driver, &mode);
    wm_meter_exclude_begin(pool->meter);
    done = ops->destroy(pool->kind, pool->device, handle) == WARM_OK;
    wm_meter_exclude_end(pool->meter);
    if (!done) {
        wm_log(WARM_LOG_WARNING,
               "a %s handle of device %d is leaked, destroying it failed: %s",
               ops->name, pool->device, warm_last_error_message());
    }
    if (relaxed) {
        wm_driver_capture_relaxed_end(pool->kind->driver, &mode);
    }
    return done;
}

/* False: destroying the handle would break a capture. A capture of the stream
 * that is itself the handle does not count: it ends with the stream. */
static bool begin_break(const wm_pool *pool, void *handle,
                        wm_breaking *breaking)
{
    warm_stream but = pool->kind->ops->is_stream ? handle : NULL;

    return wm_captures_begin_break(pool->kind->captures, breaking, pool->device,
                                   but);
}

static void defer(wm_pool *pool, void *handle, uint64_t *from)
{
    const wm_captures *captures = pool->kind->captures;
    struct wm_unbinding u;

    wm_lock_acquire(&pool->lock);
    wm_pool_begin_if_bound_locked(pool, handle, &u);
    wm_lock_release(&pool->lock);
    if (u.handle != NULL) { /* its stream may retire first */
        (void)wm_pool_unbind(pool, handle);
        end_unbinding(pool, &u);
    }
    wm_lock_acquire(&pool->lock);
    if (!pool->closed) {
        *from -= 1;
        pool->deferred[pool->stats.deferred++] = handle;
    }
    wm_lock_release(&pool->lock);
    captures->note(captures->runtime);
}

/* False: deferred. True: *done is whether destroy succeeded. */
static bool try_discard(wm_pool *pool, void *handle, uint64_t *from, bool *done)
{
    wm_breaking breaking;

    if (!begin_break(pool, handle, &breaking)) {
        defer(pool, handle, from);
        return false;
    }
    if (pool->workspaces != NULL) {
        wm_workspaces_detach(pool->workspaces, handle);
    }
    *done = wm_pool_destroy(pool, handle);
    wm_lock_acquire(&pool->lock);
    wm_pool_check_reset_locked(pool);
    (void)wm_map_take(&pool->all, (uintptr_t)handle);
    pool->alive--;
    if (!pool->closed) {
        *from -= 1;
        *(*done ? &pool->stats.destroyed : &pool->stats.leaked) += 1;
    }
    wm_lock_release(&pool->lock);
    wm_captures_end_break(pool->kind->captures, &breaking);
    return true;
}

/* Checks again after captures->note(): the last capture may have ended before
 * the note, and then no thread would destroy the deferred handle. */
static bool still_captures(const wm_pool *pool, void *handle)
{
    wm_breaking breaking;
    bool may = begin_break(pool, handle, &breaking);

    if (may) {
        wm_captures_end_break(pool->kind->captures, &breaking);
    }
    return !may;
}

/* After a reset of the device, or while the process exits, the handle is not
 * destroyed: it counts as lost, or stays in its count and is leaked. */
bool wm_pool_discard(wm_pool *pool, void *handle, uint64_t *from)
{
    bool done = false;

    if (wm_pool_is_lost(pool)) {
        wm_lock_acquire(&pool->lock);
        wm_pool_check_reset_locked(pool);
        wm_lock_release(&pool->lock);
        return false;
    }
    if (try_discard(pool, handle, from, &done)) {
        return done;
    }
    if (!still_captures(pool, handle)) {
        wm_pool_destroy_deferred(pool);
    }
    return false;
}

/* Destroying a handle may take longer than a retirement shall wait. One that
 * cannot be unbound is destroyed while its stream exists. */
bool wm_pool_discard_bound(wm_pool *pool, void *handle, struct wm_unbinding *u,
                           uint64_t *from)
{
    bool bound = u->handle != NULL, done;

    if (bound && wm_pool_unbind(pool, handle)) {
        end_unbinding(pool, u);
        bound = false;
    }
    done = wm_pool_discard(pool, handle, from);
    if (bound) {
        end_unbinding(pool, u);
    }
    return done;
}

static void *take_deferred(wm_pool *pool)
{
    void *handle = NULL;

    wm_lock_acquire(&pool->lock);
    if (pool->stats.deferred > 0 && !wm_pool_is_lost(pool)) {
        handle = pool->deferred[--pool->stats.deferred];
        pool->ending++;
    }
    wm_lock_release(&pool->lock);
    return handle;
}

void wm_pool_destroy_deferred(wm_pool *pool)
{
    void *handle;
    bool done;

    while ((handle = take_deferred(pool)) != NULL &&
           (try_discard(pool, handle, &pool->ending, &done) ||
            !still_captures(pool, handle))) {
    }
}

static bool reset(wm_pool *pool, void *handle)
{
    const wm_kind_ops *ops = pool->kind->ops;
    bool done;

    if (ops->reset == NULL) {
        return wm_pool_unbind(pool, handle);
    }
    WM_CANCEL_OFF();
    done = ops->reset(pool->kind, pool->device, handle) == WARM_OK;
    if (!done) {
        wm_log(WARM_LOG_WARNING,
               "a %s handle of device %d is destroyed, resetting it failed: %s",
               ops->name, pool->device, warm_last_error_message());
    }
    return done;
}

bool wm_pool_reset(wm_pool *pool, void *handle, struct wm_unbinding *u)
{
    bool done;

    WM_KEEP_ERROR();
    done = reset(pool, handle);
    if (!done) {
        /* The next thread must not inherit a setting. */
        (void)wm_pool_discard_bound(pool, handle, u, &pool->stats.in_use);
    } else if (u->handle != NULL) {
        end_unbinding(pool, u);
    }
    return done;
}

warm_status wm_pool_acquire_slow(wm_pool *pool, void **handle)
{
    struct creation creation;
    warm_status status;
    bool served;

    wm_pool_destroy_deferred(pool);
    do {
        creation = (struct creation){.ahead = false};
        status = begin(pool, &creation, &served);
        if (status != WARM_OK) {
            return status;
        }
        if (!served) {
            return create(pool, &creation, handle);
        }
    } while (!wm_pool_make_default(pool, creation.taken, &creation.u));
    *handle = creation.taken;
    return WARM_OK;
}

warm_status wm_pool_create_idle(wm_pool *pool, unsigned count, bool *made)
{
    struct creation creation = {.ahead = true, .enough = count};
    bool served = false;
    warm_status status = begin(pool, &creation, &served);
    void *handle;

    if (status == WARM_OK && !served) {
        status = create(pool, &creation, &handle);
    }
    *made = status == WARM_OK && !served;
    return status;
}
