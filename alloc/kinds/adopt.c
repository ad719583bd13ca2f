/* adopt.c: memory of the program is adopted (adopt.h). Takes lock adopted, and
 * calls the driver without a lock. */
#include "alloc/kinds/adopt.h"

#include "alloc/space/space_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"
#include "warmpool/adopt.h"

#include <string.h>

/* ---- records ------------------------------------------------------------- */

static wm_adoption *make_record(wm_adopted *adopted, int node)
{
    wm_arena_group *group = &adopted->space.group;
    wm_adoption *made = wm_meta_alloc(sizeof *made);

    if (made == NULL) {
        return NULL;
    }
    wm_arena_init(&made->arena, group, node);
    made->arena.history = group->arenas->history;
    made->state = WM_ADOPTION_BUSY;
    wm_lock_acquire(&adopted->lock);
    made->next = adopted->list;
    adopted->list = made;
    /* Release: a thread that finds the arena sees its fields. */
    made->arena.next_arena = wm_group_arenas(group);
    atomic_store_explicit(&group->all_arenas, &made->arena,
                          memory_order_release);
    wm_lock_release(&adopted->lock);
    return made;
}

/* Of a node, which is const in an arena. */
static wm_adoption *take_record(wm_adopted *adopted, int node)
{
    wm_adoption *a;

    wm_lock_acquire(&adopted->lock);
    a = adopted->list;
    while (a != NULL && (a->state != WM_ADOPTION_SPARE || a->visitors > 0 ||
                         a->arena.node != node)) {
        a = a->next;
    }
    if (a != NULL) {
        a->state = WM_ADOPTION_BUSY;
    }
    wm_lock_release(&adopted->lock);
    return a != NULL ? a : make_record(adopted, node);
}

static void set_state(wm_adopted *adopted, wm_adoption *a,
                      enum wm_adoption_state state)
{
    wm_lock_acquire(&adopted->lock);
    a->state = state;
    wm_lock_release(&adopted->lock);
}

/* ---- segments ------------------------------------------------------------ */

/* Takes the first bytes of the segments back out. They are idle, and no other
 * thread uses them yet. */
static void remove_segments(wm_adoption *a)
{
    wm_purge what = {.bytes = SIZE_MAX, .before_ns = UINT64_MAX};
    wm_segment *segment = wm_arena_purge(&a->arena, &what), *next;
    wm_space *space = (wm_space *)a->arena.group;

    for (; segment != NULL; segment = next) {
        next = segment->next;
        wm_segment_returned(space, a->arena.node, segment->base,
                            segment->bytes);
        wm_arena_released(&a->arena, segment);
    }
}

static warm_status add_segment(wm_adoption *a, char *base, size_t bytes)
{
    wm_space *space = (wm_space *)a->arena.group;
    wm_block *none = NULL;
    warm_status status = wm_segment_expect(space);

    if (status != WARM_OK) {
        return status;
    }
    wm_segment_obtained(space, a->arena.node, base, bytes);
    status = wm_arena_grow(&a->arena, NULL, base, bytes, 0, &none);
    if (status != WARM_OK) {
        wm_segment_returned(space, a->arena.node, base, bytes);
    }
    return status;
}

static warm_status add_segments(wm_adopted *adopted, wm_adoption *a)
{
    size_t chunk = (a->flags & WARM_ADOPT_SERVE) != 0
                       ? adopted->host->chunk_bytes
                       : a->bytes;
    warm_status status = WARM_OK;

    for (size_t done = 0; done < a->bytes && status == WARM_OK;) {
        size_t piece = a->bytes - done < chunk ? a->bytes - done : chunk;

        status = add_segment(a, a->base + done, piece);
        done += piece;
    }
    if (status != WARM_OK) {
        remove_segments(a);
    }
    return status;
}

/* ---- all ----------------------------------------------------------------- */

static warm_status find_node(wm_adopted *adopted, const wm_adopt_range *range,
                             int *node)
{
    wm_driver *driver = adopted->space.driver;

    *node = 0;
    return driver->numa.nodes > 1
               ? wm_driver_node_of(driver, range->base, range->bytes, node)
               : WARM_OK;
}

/* The block of the program's memory, or the arena's service. */
static void publish(wm_adopted *adopted, wm_adoption *a)
{
    bool serves = (a->flags & WARM_ADOPT_SERVE) != 0;
    warm_runtime *runtime = adopted->space.group.runtime;
    wm_block *block = NULL;

    a->arena.lent = !serves;
    a->arena.read_only = (a->flags & WARM_ADOPT_READ_ONLY) != 0;
    if (!serves) {
        block = wm_arena_take_whole(&a->arena);
        if (wm_runtime_is_traced(runtime)) {
            wm_traced_alloc(runtime, block->base, NULL);
        }
    }
    wm_arena_set_serves(&a->arena, serves);
    wm_lock_acquire(&adopted->lock);
    a->block = block;
    a->left = a->bytes;
    a->state = WM_ADOPTION_HELD; /* from here on another thread may end it */
    wm_lock_release(&adopted->lock);
}

/* The memory is locked. */
static warm_status record(wm_adopted *adopted, const wm_adopt_range *range)
{
    int node;
    wm_adoption *a;
    warm_status status = find_node(adopted, range, &node);

    if (status != WARM_OK) {
        return status;
    }
    a = take_record(adopted, node);
    if (a == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the record of adopted memory");
    }
    a->base = range->base;
    a->bytes = range->bytes;
    a->flags = range->flags;
    a->unlocked = 0;
    a->done = NULL;
    status = add_segments(adopted, a);
    if (status == WARM_OK) {
        publish(adopted, a);
    } else {
        set_state(adopted, a, WM_ADOPTION_SPARE);
    }
    return status;
}

/* Done, or undone; the range is claimed no more, but for pieces that stay
 * locked. */
static warm_status lock_and_record(wm_adopted *adopted, wm_adopt_range *range)
{
    warm_status status;

    if (!wm_space_claim(adopted->host, range->bytes, true)) {
        status = wm_fail(WARM_OUT_OF_MEMORY,
                         "%s cannot be adopted: the limit of %s for host "
                         "memory, or that of all memory, is reached",
                         wm_bytes(range->bytes).text,
                         wm_bytes(wm_high_bytes(&adopted->host->marks)).text);
        wm_adopt_unclaim(range);
        return status;
    }
    if ((status = wm_adopt_lock(adopted, range)) == WARM_OK &&
        (status = record(adopted, range)) == WARM_OK) {
        wm_adopt_unclaim(range);
    } else {
        wm_adopt_undo(adopted, range);
    }
    return status;
}

warm_status wm_adopt(wm_adopted *adopted, char *base, size_t bytes,
                     unsigned flags)
{
    wm_adopt_range *range = NULL;
    wm_space_work work;
    warm_status status =
        wm_adopt_check(base, bytes, (flags & WARM_ADOPT_READ_ONLY) == 0);

    if (status != WARM_OK ||
        (status = wm_driver_look(adopted->space.driver, WM_DEVICE_HOST)) !=
            WARM_OK) {
        return status;
    }
    (void)wm_adopt_undo_left(adopted);
    status = wm_adopt_claim(base, bytes, flags, &range);
    if (status != WARM_OK) {
        return status;
    }
    status = wm_space_work_begin(adopted->host, &work);
    if (status == WARM_OK) {
        status = lock_and_record(adopted, range);
        wm_space_work_end(adopted->host, &work, status == WARM_OK);
    } else {
        wm_adopt_unclaim(range);
    }
    return status;
}

/* ---- begin and end ------------------------------------------------------- */

/* A block, or all of the memory, became idle. */
static void freed(wm_space *space, wm_segment *segment)
{
    (void)segment;
    /* Relaxed: hints; captures_over() looks. */
    if (atomic_load_explicit(&((wm_adopted *)space)->ending,
                             memory_order_relaxed) > 0) {
        atomic_store_explicit(&space->group.runtime->put_off, true,
                              memory_order_relaxed);
        wm_waker_note_pending(space->group.waker);
    }
}

static const wm_space_traits adopted_traits = {
    .name = "adopted", .freed = freed, .nodeless = true, .uncached = true};

warm_status wm_adopted_init(wm_adopted *adopted, wm_space *host,
                            const wm_options *options)
{
    wm_arena_group *group = &adopted->space.group;
    warm_status status =
        wm_space_init(&adopted->space, &adopted_traits, host->group.runtime,
                      host->group.timelines, options);

    if (status == WARM_OK) {
        group->device = WM_DEVICE_HOST;
        group->waker = host->group.waker;
        adopted->space.poller = host;
        adopted->host = host;
        adopted->list = NULL;
        adopted->left = NULL;
        wm_lock_init(&adopted->lock, WM_RANK_ADOPTED);
    }
    return status;
}

void wm_adopted_fini(wm_adopted *adopted)
{
    wm_adoption *next;

    wm_space_fini(&adopted->space);
    wm_adopt_forget_left(adopted);
    for (wm_adoption *a = adopted->list; a != NULL; a = next) {
        next = a->next;
        wm_meta_free(a);
    }
}
