/* adopt_end.c: adopted memory is given up (adopt.h). Takes lock adopted, and
 * calls the driver without a lock. */
#include "alloc/kinds/adopt.h"

#include "alloc/cache/pending.h"
#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/log.h"
#include "warmpool/adopt.h"

#include <inttypes.h>

enum { PAUSE_NS = 200000 };

/* ---- idle segments ------------------------------------------------------- */

/* The last bytes of an adoption are given up: its record is spare. */
static void finish(wm_adopted *adopted, wm_adoption *a)
{
    void (*done)(void *context);
    void *context;

    wm_lock_acquire(&adopted->lock);
    done = a->done;
    context = a->context;
    a->state = WM_ADOPTION_SPARE;
    a->ended++;
    a->base = NULL;
    wm_lock_release(&adopted->lock);
    atomic_fetch_sub_explicit(&adopted->ending, 1, memory_order_relaxed);
    if (done != NULL) {
        wm_callback_begin();
        done(context);
        wm_callback_end();
    }
}

/* The segment is detached: no other thread finds it. */
static warm_status give_up(wm_adopted *adopted, wm_adoption *a,
                           wm_segment *segment)
{
    wm_space *space = &adopted->space;
    char *base = segment->base;
    size_t bytes = segment->bytes;
    /* Of served memory threads may give up several segments at once, each of a
     * single piece; else there is one segment. */
    size_t own = 0;
    bool serves = (a->flags & WARM_ADOPT_SERVE) != 0, last;
    bool numbered = wm_segment_returning(space, a->arena.node, base, bytes);
    warm_status status =
        wm_adopt_unlock(adopted, base, bytes, serves ? &own : &a->unlocked);

    if (status != WARM_OK) {
        if (numbered) {
            wm_segment_obtained(space, a->arena.node, base, bytes);
        }
        wm_arena_reattach(&a->arena, segment);
        return status;
    }
    if (numbered) {
        wm_segment_expect_none(space);
    }
    wm_adopt_show(base, bytes, a->flags);
    wm_arena_released(&a->arena, segment);
    wm_space_unclaim(adopted->host, bytes);
    wm_lock_acquire(&adopted->lock);
    a->left -= bytes;
    last = a->left == 0;
    wm_lock_release(&adopted->lock);
    if (last) {
        finish(adopted, a);
    }
    return WARM_OK;
}

static warm_space_stats figures_of(wm_adoption *a)
{
    warm_space_stats stats = {.size = sizeof stats};

    wm_arena_stats(&a->arena, &stats);
    return stats;
}

/* Waits for the work of a device, if this process has used it. */
static warm_status await_device(wm_driver *driver, int device)
{
    bool entered;
    warm_status status = wm_driver_enter(driver, device, &entered);

    if (status == WARM_NOT_READY) {
        return WARM_OK;
    }
    if (status == WARM_OK) {
        status = wm_driver_device_synchronize(driver, device);
        wm_driver_leave(driver, entered);
    }
    return status;
}

/* The driver could not tell when the work on some blocks ends: once all devices
 * have no work left, it has ended. */
static warm_status find_lost(wm_adopted *adopted, wm_adoption *a,
                             uint64_t bytes)
{
    wm_driver *driver = adopted->space.driver;
    warm_status status = WARM_OK;
    wm_breaking breaking;

    if (!wm_space_begin_break(&adopted->space, &breaking)) {
        return wm_adopt_refuse(&breaking);
    }
    for (int d = 0; d < driver->devices && status == WARM_OK; d++) {
        status =
            wm_driver_is_lost(driver, d) ? WARM_OK : await_device(driver, d);
    }
    wm_space_end_break(&adopted->space, &breaking);
    if (status == WARM_OK) {
        wm_arena_find_lost(&a->arena);
    } else if (status == WARM_NOT_READY) { /* a test holds a stream */
        status = wm_fail(WARM_DRIVER_ERROR,
                         "the driver cannot tell whether %s of the adopted "
                         "memory is in use, which stays locked",
                         wm_bytes(bytes).text);
    }
    return status;
}

/* Once all is idle, and so stays, since the arena serves no more: to unlock the
 * first piece earlier may wait for the work on the last. The thread that has
 * detached a segment gives it up. waits: may wait for devices; else NOT_READY
 * if it must. */
static warm_status give_up_idle(wm_adopted *adopted, wm_adoption *a, bool waits)
{
    wm_purge what = {.bytes = SIZE_MAX, .before_ns = UINT64_MAX};
    warm_space_stats figures = figures_of(a);
    wm_segment *segment, *next;
    warm_status status = WARM_OK;

    if (figures.live.current + figures.pending.current + figures.captured > 0) {
        return WARM_OK;
    }
    if (wm_timelines_holds_back(adopted->space.group.timelines)) {
        /* Before a callback hears of a return. */
        return wm_adopt_refuse(&(wm_breaking){0});
    }
    if (figures.lost > 0 && !waits) {
        return WARM_NOT_READY;
    }
    if (figures.lost > 0) {
        status = find_lost(adopted, a, figures.lost_bytes);
    }
    segment = status == WARM_OK ? wm_arena_purge(&a->arena, &what) : NULL;
    for (; segment != NULL; segment = next) {
        next = segment->next;
        if (status == WARM_OK) {
            status = give_up(adopted, a, segment);
        } else {
            wm_arena_reattach(&a->arena, segment);
        }
    }
    return status;
}

static void leave(wm_adopted *adopted, wm_adoption *a)
{
    wm_lock_acquire(&adopted->lock);
    a->visitors--;
    wm_lock_release(&adopted->lock);
}

/* Visits the first adoption that is ENDING, from a on. One without done is
 * given up by the calls of the program alone, which would not find it after a
 * failure; all: at the end of the runtime. */
static wm_adoption *visit_ending(wm_adopted *adopted, wm_adoption *a, bool all)
{
    wm_lock_acquire(&adopted->lock);
    while (a != NULL &&
           (a->state != WM_ADOPTION_ENDING || (a->done == NULL && !all))) {
        a = a->next;
    }
    if (a != NULL) {
        a->visitors++;
    }
    wm_lock_release(&adopted->lock);
    return a;
}

/* Whether the adoption has failed to end for the first time. */
static bool note_failed(wm_adopted *adopted, wm_adoption *a)
{
    bool first;

    wm_lock_acquire(&adopted->lock);
    first = !a->failed;
    a->failed = true;
    wm_lock_release(&adopted->lock);
    return first;
}

static bool tend_one(wm_adopted *adopted, wm_adoption *a)
{
    warm_status status = give_up_idle(adopted, a, true);

    if (status != WARM_OK && status != WARM_CAPTURE_ERROR &&
        note_failed(adopted, a)) {
        wm_log(WARM_LOG_WARNING,
               "adopted memory stays locked, until it is tried again: %s",
               warm_last_error_message());
    }
    leave(adopted, a);
    return status == WARM_OK;
}

static bool tend(wm_adopted *adopted, bool all)
{
    bool done;
    wm_adoption *a;

    /* Relaxed: a hint. */
    if (atomic_load_explicit(&adopted->ending, memory_order_relaxed) == 0) {
        return true;
    }
    WM_KEEP_ERROR();
    done = wm_adopt_undo_left(adopted);
    wm_lock_acquire(&adopted->lock);
    a = adopted->list;
    wm_lock_release(&adopted->lock);
    while ((a = visit_ending(adopted, a, all)) != NULL) {
        done &= tend_one(adopted, a);
        a = a->next;
    }
    return done;
}

bool wm_adopted_tend(wm_adopted *adopted)
{
    return tend(adopted, false);
}

/* ---- the end of an adoption ---------------------------------------------- */

/* The program's own memory is a block no more: it is idle once the streams have
 * completed. A graph that used it is not launched any more, as the program
 * promises. */
static void free_lent(wm_adopted *adopted, wm_block *block)
{
    wm_space *space = &adopted->space;
    wm_arena *arena = block->segment->arena;
    enum wm_block_state fate = WM_BLOCK_IDLE;
    enum wm_uses uses;
    bool traced, used;

    wm_block_set_state(block, WM_BLOCK_FREEING);
    (void)wm_block_detach_uses(block);
    traced = wm_runtime_is_traced(space->group.runtime);
    if (traced) {
        wm_traced_free(space->group.runtime, block);
    }
    used = atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL ||
           atomic_load_explicit(&block->captured, memory_order_relaxed);
    /* Relaxed: the block is this thread's. */
    atomic_store_explicit(&block->captured, false, memory_order_relaxed);
    uses = wm_timelines_prepare(space->group.timelines, block);
    if (uses == WM_USES_PENDING) {
        fate = WM_BLOCK_PENDING;
    } else if (uses != WM_USES_NONE) {
        fate = WM_BLOCK_LOST;
    } else if (traced && used) {
        wm_traced_unused(space->group.runtime, block);
    }
    wm_arena_free(arena, block, fate);
    if (fate == WM_BLOCK_PENDING) {
        wm_timelines_publish(space->group.timelines, block);
        wm_waker_note_pending(space->group.waker);
    }
}

static wm_adoption *find_locked(wm_adopted *adopted, const char *base)
{
    wm_adoption *a = adopted->list;

    /* The state first: a thread that adopts writes base without the lock. */
    while (a != NULL &&
           ((a->state != WM_ADOPTION_HELD && a->state != WM_ADOPTION_ENDING) ||
            a->base != base)) {
        a = a->next;
    }
    return a;
}

/* The adoption, BUSY by this thread or HELD, becomes ENDING; or HELD. Status:
 * NOT_READY: blocks are live, for which it must not wait. */
static warm_status begin_end(wm_adopted *adopted, wm_adoption *a, bool waits)
{
    wm_block *lent = a->block;
    const char *base = a->base;
    uint64_t live;

    wm_arena_set_serves(&a->arena, false);
    live = figures_of(a).live.current;
    if (lent == NULL && waits && live > 0) {
        wm_arena_set_serves(&a->arena, true);
        wm_lock_acquire(&adopted->lock);
        a->state =
            WM_ADOPTION_HELD; /* from here on another thread may end it */
        wm_lock_release(&adopted->lock);
        return wm_fail(WARM_NOT_READY,
                       "the memory adopted at %p has %s: free all first, or "
                       "give a done callback",
                       (const void *)base, wm_counted(live, "live block").text);
    }
    wm_lock_acquire(&adopted->lock);
    a->block = NULL;
    a->failed = false;
    a->state = WM_ADOPTION_ENDING;
    wm_lock_release(&adopted->lock);
    atomic_fetch_add_explicit(&adopted->ending, 1, memory_order_relaxed);
    if (lent != NULL) {
        free_lent(adopted, lent);
    }
    return WARM_OK;
}

/* Completed work makes memory idle, which is given up. */
static warm_status advance(wm_adopted *adopted, wm_adoption *a, bool waits)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(adopted->host, &work);

    if (status == WARM_OK) {
        wm_space_collect_pending(adopted->host);
        wm_space_collect(adopted->host);
        status = give_up_idle(adopted, a, waits);
        wm_space_work_end(adopted->host, &work, status == WARM_OK);
    }
    return status;
}

static bool is_over(wm_adopted *adopted, const wm_adoption *a, uint64_t turn)
{
    bool over;

    wm_lock_acquire(&adopted->lock);
    over = a->ended != turn;
    wm_lock_release(&adopted->lock);
    return over;
}

static void pause_a_moment(wm_growth *growth)
{
    wm_lock_acquire(&growth->lock);
    wm_cond_wait_for(&growth->over, &growth->lock, PAUSE_NS);
    wm_lock_release(&growth->lock);
}

/* Memory that never becomes idle. */
static warm_status check_stuck(wm_adoption *a)
{
    warm_space_stats stats = figures_of(a);

    if (!a->arena.lent && stats.live.current > 0) { /* done was given before */
        return wm_fail(WARM_NOT_READY,
                       "the memory has %s, and is given up once all are freed",
                       wm_counted(stats.live.current, "live block").text);
    }
    return stats.captured == 0
               ? WARM_OK
               : wm_fail(WARM_CAPTURE_ERROR,
                         "a graph may use %s of the adopted memory, which "
                         "stays locked",
                         wm_bytes(stats.captured_bytes).text);
}

static warm_status await(wm_adopted *adopted, wm_adoption *a, uint64_t turn)
{
    warm_status status = WARM_OK;

    while (!is_over(adopted, a, turn)) {
        status = advance(adopted, a, true);
        if (status == WARM_OK && !is_over(adopted, a, turn)) {
            status = check_stuck(a);
        }
        if (status != WARM_OK && status != WARM_CAPTURE_ERROR) {
            return status;
        }
        if (status == WARM_CAPTURE_ERROR && figures_of(a).captured > 0) {
            return status;
        }
        if (!is_over(adopted, a, turn)) {
            pause_a_moment(&adopted->host->growth);
        }
    }
    return WARM_OK;
}

static warm_status check_wait(const wm_adopted *adopted)
{
    if (wm_callback_inside()) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "warm_pinned_adopt_end() without done in a callback of "
                       "the library could wait for itself");
    }
    if (wm_timelines_holds_back(adopted->space.group.timelines)) {
        return wm_fail(WARM_CAPTURE_ERROR,
                       "adopted memory cannot be unlocked while a stream "
                       "captures; give a done callback, or end the capture");
    }
    return WARM_OK;
}

/* A visit of a thread that ends an adoption, or joins the wait for its end. */
struct visit {
    wm_adoption *adoption;
    bool begins;   /* the thread is the one that ends it */
    uint64_t turn; /* of the record */
};

static warm_status visit(wm_adopted *adopted, const char *base,
                         void (*done)(void *context), void *context,
                         struct visit *v)
{
    wm_adoption *a;

    wm_lock_acquire(&adopted->lock);
    a = find_locked(adopted, base);
    v->begins = a != NULL && a->state == WM_ADOPTION_HELD;
    a = v->begins || done == NULL ? a : NULL;
    if (v->begins) {
        a->state = WM_ADOPTION_BUSY; /* this thread's */
        a->done = done;
        a->context = context;
    }
    if (a != NULL) {
        a->visitors++;
        v->turn = a->ended;
    }
    v->adoption = a;
    wm_lock_release(&adopted->lock);
    return a != NULL ? WARM_OK
                     : wm_fail(WARM_INVALID_POINTER,
                               "%p is not the start of memory that the runtime "
                               "has adopted, or it is being given up",
                               (const void *)base);
}

static void begin_advance(wm_adopted *adopted, wm_adoption *a)
{
    WM_KEEP_ERROR();
    if (advance(adopted, a, false) != WARM_OK) {
        wm_adopt_note_later(adopted);
    }
}

warm_status wm_adopt_end(wm_adopted *adopted, const char *base,
                         void (*done)(void *context), void *context)
{
    bool waits = done == NULL;
    struct visit v = {NULL, false, 0};
    warm_status status = waits ? check_wait(adopted) : WARM_OK;

    if (status != WARM_OK ||
        (status = visit(adopted, base, done, context, &v)) != WARM_OK) {
        return status;
    }
    if (v.begins) {
        status = begin_end(adopted, v.adoption, waits);
    }
    if (status == WARM_OK && waits) {
        status = await(adopted, v.adoption, v.turn);
    } else if (status == WARM_OK) {
        begin_advance(adopted, v.adoption);
    }
    leave(adopted, v.adoption);
    return status;
}

void wm_adopted_stop(wm_adopted *adopted)
{
    for (wm_adoption *a = adopted->list; a != NULL; a = a->next) {
        if (a->state == WM_ADOPTION_HELD) {
            (void)begin_end(adopted, a, false);
        }
    }
    (void)tend(adopted, true);
}
