/* suspend.c: segments of paused arenas are unmapped and mapped again, and
 * counted (row C11). Takes lock growth, and lock arena inside it; calls the
 * driver with no lock held. */
#include "alloc/space/space_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

static warm_status refuse(const wm_breaking *breaking)
{
    return wm_timelines_refuse(breaking, "memory cannot be unmapped");
}

static warm_status decommit(wm_space *space, const wm_segment *segment)
{
    return wm_driver_range_decommit(space->driver, space->group.device,
                                    segment->base, segment->bytes);
}

/* The segment keeps room for the number that it gets when it is mapped again.
 */
warm_status wm_growth_unmap(wm_space *space, const wm_segment *segment)
{
    wm_growth *growth = &space->growth;
    wm_arena *arena = segment->arena;
    wm_breaking breaking;
    warm_status status;

    if (!wm_space_begin_break(space, &breaking)) {
        return refuse(&breaking);
    }
    /* A capture may be announced while the program's callback runs. */
    wm_space_end_break(space, &breaking);
    (void)wm_segment_returning(space, arena->node, segment->base,
                               segment->bytes);
    if (wm_space_begin_break(space, &breaking)) {
        uint64_t start = wm_clock_ns();

        status = decommit(space, segment);
        wm_arena_count_driver(arena, true, wm_clock_ns() - start);
        wm_space_end_break(space, &breaking);
    } else {
        status = refuse(&breaking);
    }
    if (status != WARM_OK) {
        wm_segment_obtained(space, arena->node, segment->base, segment->bytes);
        return status;
    }
    wm_space_unclaim_below(space, segment->bytes);
    wm_lock_acquire(&growth->lock);
    growth->held -= segment->bytes;
    growth->paused += segment->bytes;
    wm_whole_unclaim(space, segment->bytes);
    wm_arena_note_unmapped(segment, true);
    growth->vacated++; /* a request that the limit refused may retry */
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
    return WARM_OK;
}

static warm_status commit(wm_space *space, const wm_segment *segment,
                          bool *torn)
{
    uint64_t start = wm_clock_ns();
    warm_status status;

    if (*torn) {
        wm_breaking breaking;

        if (!wm_space_begin_break(space, &breaking)) {
            return refuse(&breaking);
        }
        (void)decommit(space, segment); /* a failed commit will say so */
        wm_space_end_break(space, &breaking);
        *torn = false;
    }
    status = wm_driver_range_commit(space->driver, space->group.device,
                                    segment->base, segment->bytes, torn);
    wm_arena_count_driver(segment->arena, false, wm_clock_ns() - start);
    if (status == WARM_OK) {
        wm_segment_obtained(space, segment->arena->node, segment->base,
                            segment->bytes);
    }
    return status;
}

warm_status wm_growth_map(wm_space *space, const wm_segment *segment,
                          bool *torn)
{
    wm_growth *growth = &space->growth;
    warm_status status;

    if (!wm_space_claim(space, segment->bytes, true)) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "a high watermark leaves no room for %s of %s memory",
                       wm_bytes(segment->bytes).text, space->traits->name);
    }
    status = commit(space, segment, torn);
    if (status != WARM_OK) {
        wm_space_unclaim(space, segment->bytes);
        return status;
    }
    wm_lock_acquire(&growth->lock);
    space->beside_bytes -= segment->bytes; /* what was claimed is held now */
    growth->held += segment->bytes;
    growth->paused -= segment->bytes;
    growth->peak = growth->held > growth->peak ? growth->held : growth->peak;
    wm_arena_note_unmapped(segment, false);
    wm_lock_release(&growth->lock);
    return WARM_OK;
}

bool wm_growth_drop_unmapped(wm_space *space, wm_segment *segment)
{
    wm_growth *growth = &space->growth;

    if (!wm_arena_detach_idle(segment->arena, segment)) {
        return false;
    }
    /* Addresses that cannot be released stay reserved, without memory. */
    (void)wm_driver_range_release(space->driver, space->group.device,
                                  segment->base, segment->bytes);
    wm_segment_expect_none(space);
    wm_lock_acquire(&growth->lock);
    growth->paused -= segment->bytes;
    wm_arena_note_unmapped(segment, false);
    wm_arena_released(segment->arena, segment);
    wm_lock_release(&growth->lock);
    return true;
}
