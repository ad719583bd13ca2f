/* suspend.c: pieces of paused arenas are unmapped and mapped again, and counted
 * (row C11). Takes lock growth, and lock arena inside it; calls the driver with
 * no lock held. */
#include "alloc/space/space_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

static warm_status refuse(const wm_breaking *breaking)
{
    return wm_timelines_refuse(breaking, "memory cannot be unmapped");
}

/* The piece keeps room for the number that it gets when it is mapped again. */
warm_status wm_growth_unmap(wm_space *space, const wm_paused_piece *piece)
{
    wm_growth *growth = &space->growth;
    wm_arena *arena = piece->segment->arena;
    wm_breaking breaking;
    warm_status status;

    if (!wm_space_begin_break(space, &breaking)) {
        return refuse(&breaking);
    }
    /* A capture may be announced while the program's callback runs. */
    wm_space_end_break(space, &breaking);
    (void)wm_segment_returning(space, arena->node, piece->base, piece->bytes);
    if (wm_space_begin_break(space, &breaking)) {
        status = wm_growth_driver_free(space, arena, piece->segment,
                                       piece->base, piece->bytes, false);
        wm_space_end_break(space, &breaking);
    } else {
        status = refuse(&breaking);
    }
    if (status != WARM_OK) {
        wm_segment_obtained(space, arena->node, piece->base, piece->bytes);
        return status;
    }
    wm_lock_acquire(&growth->lock);
    growth->held -= piece->bytes;
    growth->paused += piece->bytes;
    wm_whole_unclaim(space, piece->bytes);
    wm_pieces_note(piece, true);
    growth->vacated++; /* a request that the limit refused may retry */
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
    return WARM_OK;
}

static warm_status commit(wm_space *space, const wm_paused_piece *piece,
                          bool *torn)
{
    wm_segment *segment = piece->segment;
    size_t offset = (size_t)(piece->base - segment->base);
    int device = space->group.device;
    uint64_t start = wm_clock_ns();
    warm_status status;

    if (*torn) {
        wm_breaking breaking;

        if (!wm_space_begin_break(space, &breaking)) {
            return refuse(&breaking);
        }
        /* If this fails it is the commit that says so. */
        (void)wm_driver_range_decommit(space->driver, device, segment->base,
                                       offset, piece->bytes);
        wm_space_end_break(space, &breaking);
        *torn = false;
    }
    status = wm_driver_range_commit(space->driver, device, segment->base,
                                    offset, piece->bytes, torn);
    wm_arena_count_driver(segment->arena, false, wm_clock_ns() - start);
    if (status == WARM_OK) {
        wm_segment_obtained(space, segment->arena->node, piece->base,
                            piece->bytes);
    }
    return status;
}

warm_status wm_growth_map(wm_space *space, const wm_paused_piece *piece,
                          bool *torn)
{
    wm_growth *growth = &space->growth;
    warm_status status;

    if (!wm_space_claim(space, piece->bytes, true)) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "a high watermark leaves no room for %s of %s memory",
                       wm_bytes(piece->bytes).text, space->traits->name);
    }
    status = commit(space, piece, torn);
    if (status != WARM_OK) {
        wm_space_unclaim(space, piece->bytes);
        return status;
    }
    wm_lock_acquire(&growth->lock);
    space->beside_bytes -= piece->bytes; /* what was claimed is held now */
    growth->held += piece->bytes;
    growth->paused -= piece->bytes;
    growth->peak = growth->held > growth->peak ? growth->held : growth->peak;
    wm_pieces_note(piece, false);
    wm_lock_release(&growth->lock);
    return WARM_OK;
}

void wm_growth_forget_paused(wm_space *space, size_t bytes)
{
    wm_segment_expect_none(space);
    wm_lock_acquire(&space->growth.lock);
    space->growth.paused -= bytes;
    wm_lock_release(&space->growth.lock);
}
