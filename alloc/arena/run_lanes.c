/* run_lanes.c: room in several lanes: idle runs side by side, of a lane and the
 * common one, become one. See lane.h, arena_int.h. */
#include "alloc/arena/arena_int.h"

wm_block *wm_run_join_lanes_locked(wm_arena *arena, wm_lane *lane,
                                   wm_block *first, size_t bytes)
{
    wm_fit_remove(wm_run_bins(first), first);
    if (first->lane != lane) {
        first->put_at = 0;
        wm_run_move(first, lane);
    }
    while (first->bytes < bytes || wm_run_may_join(first, first->after)) {
        wm_block *next = first->after;

        wm_fit_remove(wm_run_bins(next), next);
        if (next->lane != lane) {
            next->put_at = 0;
        }
        wm_run_absorb_locked(arena, first);
    }
    wm_fit_insert(wm_run_bins(first), first);
    if (first->bytes == first->segment->bytes && first->segment->unit == 0) {
        wm_segment_note_whole_locked(arena, first->segment, true);
    }
    return first;
}

/* Of a segment: the first of neighbours that do together, or null. */
static wm_block *find_neighbours_locked(const wm_arena *arena,
                                        const wm_lane *lane,
                                        wm_segment *segment, size_t bytes)
{
    wm_block *first = NULL;
    size_t sum = 0;

    for (wm_block *run = wm_segment_first_run(segment); run != NULL;
         run = run->after) {
        if (!wm_run_may_have(arena, lane, run)) {
            sum = 0;
            continue;
        }
        first = sum == 0 ? run : first;
        sum += run->bytes;
        if (sum >= bytes) {
            return first;
        }
    }
    return NULL;
}

wm_block *wm_run_join_any_locked(wm_arena *arena, wm_lane *lane, size_t bytes)
{
    bool small = bytes <= arena->small_max;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        wm_block *first = s->small == small && !s->apart && s->bytes >= bytes
                              ? find_neighbours_locked(arena, lane, s, bytes)
                              : NULL;

        if (first != NULL) {
            return wm_run_join_lanes_locked(arena, lane, first, bytes);
        }
    }
    return NULL;
}
