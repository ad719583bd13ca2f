/* segment_event.c: memory callbacks hear of segments before any block of them
 * is handed out, before the driver gets them back, and when a reset of their
 * device has ended them (row B24). No lock held. */
#include "alloc/space/space_int.h"

#include "alloc/arena/arena.h"

static warm_segment describe(const wm_space *space, int node, void *base,
                             size_t bytes, uint64_t id)
{
    const wm_arena_group *group = &space->group;
    bool host = group->device < 0 || group->shared;

    return (warm_segment){.size = sizeof(warm_segment),
                          .base = base,
                          .bytes = bytes,
                          .id = id,
                          .device = host ? -1 : group->device,
                          .node = host ? node : WM_NODE_UNKNOWN};
}

warm_status wm_segment_expect(wm_space *space)
{
    return wm_segment_ids_reserve(&space->group.runtime->segment_ids)
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY,
                         "no memory for the number of a segment");
}

void wm_segment_expect_none(wm_space *space)
{
    wm_segment_ids_unreserve(&space->group.runtime->segment_ids);
}

void wm_segment_obtained(wm_space *space, int node, void *base, size_t bytes)
{
    warm_runtime *runtime = space->group.runtime;
    warm_segment segment;

    if (wm_space_is_lost(space)) { /* while it was obtained, or returned */
        wm_segment_expect_none(space);
        return;
    }
    segment = describe(space, node, base, bytes,
                       wm_segment_ids_add(&runtime->segment_ids, base));
    wm_listeners_tell(&runtime->listeners, WARM_MEMORY_OBTAINED, &segment);
}

bool wm_segment_returning(wm_space *space, int node, void *base, size_t bytes)
{
    warm_runtime *runtime = space->group.runtime;
    uint64_t id = wm_segment_ids_take(&runtime->segment_ids, base);
    const warm_segment segment = describe(space, node, base, bytes, id);

    if (id != 0) {
        wm_listeners_tell(&runtime->listeners, WARM_MEMORY_RETURNING, &segment);
    }
    return id != 0;
}

void wm_segment_returned(wm_space *space, int node, void *base, size_t bytes)
{
    if (wm_segment_returning(space, node, base, bytes)) {
        wm_segment_expect_none(space);
    }
}

/* A stream's lane has memory that is idle in the order of the stream, whose
 * queue may have work on it. */
static bool has_lanes(const wm_segment *segment)
{
    const wm_block *run = segment->first;

    while (run != NULL && run->lane == &segment->arena->common) {
        run = run->after;
    }
    return run != NULL;
}

bool wm_segment_leaves(wm_space *space, const wm_segment *segment,
                       wm_breaking *breaking)
{
    int node = segment->arena->node;
    bool hears = wm_listeners_hear(&space->group.runtime->listeners,
                                   WARM_MEMORY_RETURNING);

    if ((hears || segment->arena->ranged) && has_lanes(segment) &&
        wm_driver_device_synchronize(space->driver, space->group.device) !=
            WARM_OK) {
        wm_space_end_break(space, breaking);
        return false;
    }
    if (!hears) {
        (void)wm_segment_returning(space, node, segment->base, segment->bytes);
        return true;
    }
    /* A capture may be announced while the program's callback runs. */
    wm_space_end_break(space, breaking);
    (void)wm_segment_returning(space, node, segment->base, segment->bytes);
    if (wm_space_begin_break(space, breaking)) {
        return true;
    }
    wm_segment_obtained(space, node, segment->base, segment->bytes);
    return false;
}

/* A few extents at a time: there may be no memory for a list. The records of a
 * lost space stay, so that the extents keep their order; one that is listed
 * twice has no number the second time. */
enum { EXTENTS = 64 };

void wm_space_tell_lost(wm_space *space)
{
    wm_extent extent[EXTENTS];

    if (!wm_space_is_lost(space)) {
        return;
    }
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        size_t told = 0, count;

        do {
            count = wm_arena_extents(a, told, extent, EXTENTS);
            for (size_t i = 0; i < count; i++) {
                wm_segment_returned(space, a->node, extent[i].base,
                                    extent[i].bytes);
            }
            told += count;
        } while (count > 0);
    }
}
