/* paused.c: the segments of an arena whose memory is paused (row C11): which
 * there are, and what of them is in use; see arena.h. Takes lock arena in every
 * function. */
#include "alloc/arena/arena_int.h"

/* The part of a segment from the first run that is not idle to the last one. */
static wm_paused_segment look_locked(wm_segment *segment)
{
    wm_paused_segment paused = {.segment = segment};

    for (wm_block *run = segment->first; run != NULL; run = run->after) {
        if (!wm_run_is_idle(run)) {
            paused.used = paused.used != NULL ? paused.used : run->base;
            paused.used_bytes = (size_t)(run->base + run->bytes - paused.used);
        }
    }
    return paused;
}

size_t wm_arena_pause(wm_arena *arena, wm_paused_segment *list, size_t room)
{
    size_t count = 0;

    wm_lock_acquire(&arena->lock);
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (count < room) {
            list[count] = look_locked(s);
        }
        count++;
    }
    arena->paused = count <= room;
    wm_lock_release(&arena->lock);
    return count;
}

void wm_arena_unpause(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    arena->paused = false;
    wm_lock_release(&arena->lock);
}

void wm_arena_note_unmapped(const wm_segment *segment, bool unmapped)
{
    wm_arena *arena = segment->arena;
    size_t *bytes = &arena->paused_bytes[!segment->small];

    wm_lock_acquire(&arena->lock);
    *bytes += unmapped ? segment->bytes : -segment->bytes;
    wm_lock_release(&arena->lock);
}

size_t wm_arena_paused(wm_arena *arena)
{
    size_t bytes;

    wm_lock_acquire(&arena->lock);
    bytes = arena->paused_bytes[0] + arena->paused_bytes[1];
    wm_lock_release(&arena->lock);
    return bytes;
}
