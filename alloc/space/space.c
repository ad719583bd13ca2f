/* space.c: a space begins and ends, is polled and trimmed. */
#include "alloc/space/space_int.h"

#include "alloc/cache/magazine.h"
#include "alloc/space/node_fallback.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"

#include <string.h>

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
        wm_cache_flush_idle(&space->group);
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

void wm_space_poll_now(wm_space *space)
{
    wm_space_collect(space);
    decay(space);
}

warm_status wm_space_poll(wm_space *space)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status == WARM_OK) {
        wm_space_poll_now(space);
        wm_space_tend_pools(space, NULL);
        wm_space_work_end(space, &work, true);
    }
    return status;
}

void wm_space_tend(wm_space *space)
{
    wm_space_work work;

    if (wm_space_work_begin(space, &work) == WARM_OK) {
        wm_timelines_tend(space->group.timelines);
        wm_space_say_ends(space);
        decay(space);
        wm_space_tend_pools(space, NULL);
        wm_space_work_end(space, &work, true);
    }
}

warm_status wm_space_trim(wm_space *space, size_t target, size_t *released)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status == WARM_OK) {
        wm_space_collect(space);
        wm_cache_flush_all(&space->group);
        wm_cache_trim(&space->group);
        *released = wm_growth_trim(space, target);
        wm_node_fallback_reset(space);
        wm_space_work_end(space, &work, true);
    }
    return status;
}

/* ---- begin and end ---------------------------------------------------- */

/* Of a node: as many as it has of the CPUs that may be used, if nobody says. */
static unsigned shards_of(const wm_space *space, const wm_options *options)
{
    unsigned nodes = (unsigned)space->group.nodes;
    unsigned shards = options->arenas != 0
                          ? (unsigned)options->arenas
                          : (wm_process_cpus() + nodes - 1) / nodes;

    return shards < WM_SIBLINGS ? shards : WM_SIBLINGS;
}

static void begin_arenas(wm_space *space, wm_arena *arenas, int node)
{
    wm_arena *after = wm_group_arenas(&space->group);

    for (unsigned i = space->group.shards; i-- > 0;) {
        wm_arena_init(&arenas[i], &space->group, node);
        arenas[i].history = space->group.runtime->history;
        arenas[i].next_arena = after;
        after = &arenas[i];
    }
    wm_arena_join(arenas, space->group.shards);
    /* Relaxed: nobody has the space yet. */
    atomic_store_explicit(&space->group.all_arenas, after,
                          memory_order_relaxed);
}

warm_status wm_space_init(wm_space *space, const wm_space_traits *traits,
                          warm_runtime *runtime, wm_timelines *timelines,
                          const wm_options *options)
{
    warm_status status;

    memset(space, 0, sizeof *space);
    space->group.nodes = traits->nodeless ? 1 : runtime->driver->numa.nodes;
    space->group.shards = traits->uncached ? 1 : shards_of(space, options);
    space->group.parted = options->arenas != 0;
    space->group.arenas = wm_meta_alloc((size_t)space->group.nodes *
                                        space->group.shards * sizeof(wm_arena));
    if (space->group.arenas == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    space->driver = runtime->driver;
    space->group.device = WM_DEVICE_UNKNOWN;
    status = wm_background_init(&space->background, space, options);
    if (status != WARM_OK) {
        wm_meta_free(space->group.arenas);
        return status;
    }
    space->poller = space;
    space->group.waker = &space->background.waker;
    space->group.laned = traits->laned;
    space->traits = traits;
    space->group.runtime = runtime;
    space->group.timelines = timelines;
    space->group.segment_bytes = wm_page_round(options->segment);
    space->chunk_bytes = wm_page_round(options->pin_chunk);
    atomic_store_explicit(&space->limit_bytes, options->pinned_limit,
                          memory_order_relaxed);
    space->decay_ns = options->decay_ms * 1000000u;
    if (strcmp(options->magazines, "on") == 0 && !traits->uncached) {
        space->group.magazine_blocks = (uint32_t)options->magazine_blocks;
        space->group.magazine_bytes = options->magazine_bytes;
    }
    wm_growth_init(&space->growth);
    for (int i = space->group.nodes - 1; i >= 0; i--) {
        begin_arenas(space, wm_group_arena(&space->group, i),
                     traits->nodeless ? WM_NODE_UNKNOWN : i);
    }
    for (int i = 0; i < space->group.nodes; i++) {
        wm_lives *lives = wm_group_arena(&space->group, i)->live;

        lives->roomy = space->group.magazine_blocks > 0;
        if (space->group.nodes > 1) {
            wm_lives_join(lives, space->group.arenas->live);
        }
    }
    return WARM_OK;
}

bool wm_space_check_settled(wm_space *space)
{
    bool good = true;

    wm_cache_merge_stats(&space->group);
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        good = good && (a->siblings != a || wm_arena_check_settled(a));
    }
    return good;
}

static void forget_block(void *context, wm_block *block)
{
    wm_space *space = context;

    wm_timelines_forget(space->group.timelines, block);
}

void wm_space_forget(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_arena_each_live(a, forget_block, space);
    }
}

bool wm_space_check(wm_space *space)
{
    bool good = true;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        good = (a->siblings != a || wm_arena_check(a)) && good;
    }
    return good;
}

void wm_space_fini(wm_space *space)
{
    wm_cache_fini(&space->group);
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;) {
        wm_arena *next = a->next_arena;

        wm_arena_fini(a);
        a = next;
    }
    wm_meta_free(space->group.arenas);
    wm_growth_fini(&space->growth);
    wm_background_fini(&space->background);
}
