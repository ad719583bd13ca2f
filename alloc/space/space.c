/* space.c: a space begins and ends; what surrounds slow work; polls and trims,
 * and the user's callbacks. */
#include "alloc/space/space_int.h"

#include "alloc/cache/magazine.h"
#include "alloc/private_pool/private_pool.h"
#include "alloc/space/spill.h"
#include "runtime/base/callback.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"

#include <string.h>

/* ---- slow work -------------------------------------------------------- */

warm_status wm_space_work_begin(wm_space *space, wm_space_work *work)
{
    warm_status status;

    work->cancel = wm_cancel_off();
    work->mode = true;
    work->error.size = sizeof work->error;
    warm_last_error(&work->error);
    status = wm_driver_capture_mode(space->driver, &work->mode);
    if (status != WARM_OK) {
        wm_cancel_restore(work->cancel);
    }
    return status;
}

void wm_space_work_end(wm_space *space, wm_space_work *work, bool recovered)
{
    wm_driver_unrelax(space->driver, &work->mode);
    if (recovered) {
        wm_error_restore(&work->error);
    }
    wm_cancel_restore(work->cancel);
}

/* ---- what may be taken back -------------------------------------------- */

/* What a thread keeps and does not use goes first, or its segments would never
 * be idle. */
static void decay_magazines(wm_space *space, uint64_t now)
{
    uint64_t before =
        atomic_load_explicit(&space->aged_ns, memory_order_relaxed);

    /* Relaxed: of two threads one finds that it is time. */
    if (now - before >= space->decay_ns &&
        atomic_compare_exchange_strong_explicit(&space->aged_ns, &before, now,
                                                memory_order_relaxed,
                                                memory_order_relaxed)) {
        wm_magazines_flush_idle(space);
    }
}

static void decay(wm_space *space)
{
    uint64_t now;

    if (space->decay_ns == 0) {
        return;
    }
    now = wm_clock_ns();
    decay_magazines(space, now);
    if (now > space->decay_ns) {
        wm_growth_decay(space, now - space->decay_ns);
    }
}

void wm_space_collect(wm_space *space)
{
    wm_timelines_poll(space->timelines);
    wm_space_say_ends(space);
}

void wm_space_collect_gathered(wm_space *space)
{
    if ((!space->traits->laned &&
         wm_gather_fetch(space->timelines, NULL, UINT64_MAX)) ||
        wm_timelines_unasked(space->timelines)) {
        wm_timelines_poll_queued(space->timelines);
        wm_space_say_ends(space);
    }
}

void wm_space_poll_now(wm_space *space)
{
    wm_space_collect(space);
    decay(space);
}

warm_status wm_space_fetch(wm_space *space)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status == WARM_OK) {
        wm_space_collect(space);
        wm_space_work_end(space, &work, true);
    }
    return status;
}

warm_status wm_space_poll(wm_space *space)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status == WARM_OK) {
        wm_space_poll_now(space);
        wm_private_tend(space->runtime);
        wm_space_work_end(space, &work, true);
    }
    return status;
}

void wm_space_tend(wm_space *space)
{
    wm_space_work work;

    if (wm_space_work_begin(space, &work) == WARM_OK) {
        wm_timelines_tend(space->timelines);
        wm_space_say_ends(space);
        decay(space);
        wm_private_tend(space->runtime);
        wm_space_work_end(space, &work, true);
    }
}

warm_status wm_space_trim(wm_space *space, size_t target, size_t *released)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status == WARM_OK) {
        wm_space_collect(space);
        wm_magazines_flush_all(space);
        wm_magazines_trim(space);
        *released = wm_growth_trim(space, target);
        wm_spill_reset(space);
        wm_space_work_end(space, &work, true);
    }
    return status;
}

/* ---- callbacks -------------------------------------------------------- */

/* A request for which the thread asks the callbacks of a runtime; on its stack,
 * which may have several: a callback may allocate from another runtime. */
struct asking {
    const warm_runtime *runtime;
    const struct asking *outer;
};

static _Thread_local const struct asking *asking;

warm_status wm_space_check_asking(const wm_space *space)
{
    const struct asking *a = asking;

    while (a != NULL && a->runtime != space->runtime) {
        a = a->outer;
    }
    return a == NULL ? WARM_OK
                     : wm_fail(WARM_INVALID_ARGUMENT,
                               "a memory callback allocates %s memory from the "
                               "runtime that called it, and that is short of "
                               "memory: a callback may only free there",
                               space->traits->name);
}

static int find_callback_locked(wm_space *space, warm_memory_fn function,
                                void *context)
{
    for (int i = 0; i < WM_CALLBACKS; i++) {
        if (space->callback[i].function == function &&
            (function == NULL || space->callback[i].context == context)) {
            return i;
        }
    }
    return -1;
}

warm_status wm_space_callback_add(wm_space *space, warm_memory_fn function,
                                  void *context)
{
    int i;

    wm_lock_acquire(&space->growth.lock);
    i = find_callback_locked(space, NULL, NULL);
    if (i >= 0) {
        space->callback[i].function = function;
        space->callback[i].context = context;
    }
    wm_lock_release(&space->growth.lock);
    return i >= 0
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "there are %d memory callbacks already", WM_CALLBACKS);
}

warm_status wm_space_callback_remove(wm_space *space, warm_memory_fn function,
                                     void *context)
{
    int i;

    wm_lock_acquire(&space->growth.lock);
    i = find_callback_locked(space, function, context);
    if (i >= 0) {
        space->callback[i].function = NULL;
    }
    wm_lock_release(&space->growth.lock);
    return i >= 0 ? WARM_OK
                  : wm_fail(WARM_NOT_FOUND,
                            "that memory callback is not registered");
}

bool wm_space_ask_callbacks(wm_space *short_of, size_t bytes)
{
    wm_space *space = short_of->polled_by->space; /* has all of a runtime's */
    struct asking mine = {space->runtime, asking};
    warm_error cause = {.size = sizeof cause};
    bool again = false;

    warm_last_error(&cause);
    asking = &mine;
    for (int i = 0; i < WM_CALLBACKS; i++) {
        warm_memory_fn function;
        void *context;

        wm_lock_acquire(&space->growth.lock);
        function = space->callback[i].function;
        context = space->callback[i].context;
        wm_lock_release(&space->growth.lock);
        if (function != NULL) {
            wm_callback_begin();
            again = function(context, bytes) != 0 || again;
            wm_callback_end();
        }
    }
    asking = mine.outer;
    /* What failed in a callback is not why the request does. */
    wm_error_restore(&cause);
    return again;
}

/* ---- begin and end ---------------------------------------------------- */

/* Of a node: as many as it has of the CPUs that may be used, if nobody says. */
static unsigned shards_of(const wm_space *space, const wm_options *options)
{
    unsigned nodes = (unsigned)space->nodes;
    unsigned shards = options->arenas != 0
                          ? (unsigned)options->arenas
                          : (wm_process_cpus() + nodes - 1) / nodes;

    return shards < WM_SIBLINGS ? shards : WM_SIBLINGS;
}

static void begin_arenas(wm_space *space, wm_arena *arenas, int node)
{
    wm_arena *after = wm_space_arenas(space);

    for (unsigned i = space->shards; i-- > 0;) {
        wm_arena_init(&arenas[i], space, node);
        arenas[i].history = space->runtime->history;
        arenas[i].next_arena = after;
        after = &arenas[i];
    }
    wm_arena_join(arenas, space->shards);
    /* Relaxed: nobody has the space yet. */
    atomic_store_explicit(&space->all_arenas, after, memory_order_relaxed);
}

warm_status wm_space_init(wm_space *space, const wm_space_traits *traits,
                          warm_runtime *runtime, wm_timelines *timelines,
                          const wm_options *options)
{
    warm_status status;

    memset(space, 0, sizeof *space);
    space->nodes = traits->nodeless ? 1 : runtime->driver->numa.nodes;
    space->shards = traits->uncached ? 1 : shards_of(space, options);
    space->parted = options->arenas != 0;
    space->arenas =
        wm_meta_alloc((size_t)space->nodes * space->shards * sizeof(wm_arena));
    if (space->arenas == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    space->driver = runtime->driver;
    space->device = WM_DEVICE_UNKNOWN;
    status = wm_background_init(&space->background, space, options);
    if (status != WARM_OK) {
        wm_meta_free(space->arenas);
        return status;
    }
    space->polled_by = &space->background;
    space->traits = traits;
    space->runtime = runtime;
    space->timelines = timelines;
    space->segment_bytes = wm_page_round(options->segment);
    space->chunk_bytes = wm_page_round(options->pin_chunk);
    atomic_store_explicit(&space->limit_bytes, options->pinned_limit,
                          memory_order_relaxed);
    space->decay_ns = options->decay_ms * 1000000u;
    if (strcmp(options->magazines, "on") == 0 && !traits->uncached) {
        space->magazine_blocks = (uint32_t)options->magazine_blocks;
        space->magazine_bytes = options->magazine_bytes;
    }
    wm_growth_init(&space->growth);
    for (int i = space->nodes - 1; i >= 0; i--) {
        begin_arenas(space, wm_space_arena(space, i),
                     traits->nodeless ? WM_NODE_UNKNOWN : i);
    }
    for (int i = 0; i < space->nodes; i++) {
        wm_lives *lives = wm_space_arena(space, i)->live;

        lives->roomy = space->magazine_blocks > 0;
        if (space->nodes > 1) {
            wm_lives_join(lives, space->arenas->live);
        }
    }
    return WARM_OK;
}

bool wm_space_check_settled(wm_space *space)
{
    bool good = true;

    wm_magazines_settle_all(space);
    for (wm_arena *a = wm_space_arenas(space); a != NULL; a = a->next_arena) {
        good = good && (a->siblings != a || wm_arena_check_settled(a));
    }
    return good;
}

static void forget_block(void *context, wm_block *block)
{
    wm_space *space = context;

    wm_timelines_forget(space->timelines, block);
}

void wm_space_forget(wm_space *space)
{
    for (wm_arena *a = wm_space_arenas(space); a != NULL; a = a->next_arena) {
        wm_arena_each_live(a, forget_block, space);
    }
}

bool wm_space_check(wm_space *space)
{
    bool good = true;

    for (wm_arena *a = wm_space_arenas(space); a != NULL; a = a->next_arena) {
        good = (a->siblings != a || wm_arena_check(a)) && good;
    }
    return good;
}

void wm_space_fini(wm_space *space)
{
    wm_magazines_fini(space);
    for (wm_arena *a = wm_space_arenas(space); a != NULL;) {
        wm_arena *next = a->next_arena;

        wm_arena_fini(a);
        wm_private_arena_end(a->pool);
        a = next;
    }
    wm_meta_free(space->arenas);
    wm_growth_fini(&space->growth);
    wm_background_fini(&space->background);
}
