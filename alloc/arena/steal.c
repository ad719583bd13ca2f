/* steal.c: an arena takes memory from its siblings before it grows. Takes one
 * lock arena at a time, or two in the order of the shards to move a segment. */
#include "alloc/arena/arena_int.h"

/* ---- whole segments ----------------------------------------------------- */

static void lock_both(wm_arena *one, wm_arena *other)
{
    wm_lock_acquire(one->shard < other->shard ? &one->lock : &other->lock);
    wm_lock_acquire(one->shard < other->shard ? &other->lock : &one->lock);
}

static void unlock_both(wm_arena *one, wm_arena *other)
{
    wm_lock_release(one->shard < other->shard ? &other->lock : &one->lock);
    wm_lock_release(one->shard < other->shard ? &one->lock : &other->lock);
}

/* The smallest wholly idle, common segment that fits, or null. */
static wm_segment *pick_locked(const wm_arena *from, size_t needed)
{
    wm_segment *best = NULL;

    for (wm_segment *s = from->segments; s != NULL; s = s->next) {
        if (s->one_run && s->bytes >= needed && wm_run_suits(s, needed) &&
            wm_segment_first_run(s)->lane == &from->common &&
            (best == NULL || s->bytes < best->bytes)) {
            best = s;
        }
    }
    return best;
}

/* As if the driver had freed it from one and allocated it to the other. */
static bool move_locked(wm_arena *from, wm_arena *to, wm_segment *segment)
{
    size_t needed = segment->dedicated ? segment->bytes : segment->small;
    wm_segment *moved;

    wm_segment_detach_locked(from, segment);
    moved = wm_segment_join_locked(to, segment->base, segment->bytes, needed);
    if (moved == NULL) {
        wm_segment_attach_locked(from, segment);
        return false;
    }
    moved->made_ns = segment->made_ns;
    wm_arena_note_move_locked(from, to, segment);
    wm_segment_give_locked(from, segment);
    return true;
}

static bool adopt_from(wm_arena *from, wm_arena *to, size_t needed)
{
    wm_segment *segment;
    bool moved = false;

    /* Relaxed: a segment that becomes idle right now is missed and stays. */
    if (atomic_load_explicit(&from->idle_segments, memory_order_relaxed) == 0) {
        return false;
    }
    lock_both(from, to);
    segment = pick_locked(from, needed);
    if (segment != NULL) {
        moved = move_locked(from, to, segment);
    }
    unlock_both(from, to);
    return moved;
}

bool wm_arena_steal_segment(wm_arena *arena, size_t bytes)
{
    size_t needed = wm_size_run_bytes(bytes);
    bool moved = false;

    for (wm_arena *from = wm_arena_next(arena, arena); from != arena && !moved;
         from = wm_arena_next(arena, from)) {
        moved = adopt_from(from, arena, needed);
    }
    return moved;
}

/* ---- blocks ------------------------------------------------------------- */

wm_block *wm_arena_take_or_steal(wm_arena *arena, wm_lane *lane, size_t bytes,
                                 bool *starved)
{
    wm_block *block =
        wm_arena_take(arena, lane, bytes, WM_SPLIT_ALLOW, starved);

    if (block == NULL && !*starved && wm_arena_steal_segment(arena, bytes)) {
        block = wm_arena_take(arena, lane, bytes, WM_SPLIT_ALLOW, starved);
    }
    for (wm_arena *a = wm_arena_next(arena, arena);
         a != arena && block == NULL && !*starved;
         a = wm_arena_next(arena, a)) {
        block = wm_arena_take(a, lane, bytes, WM_SPLIT_ALLOW, starved);
    }
    return block;
}

void wm_arena_note_growth_beside(wm_arena *arena, size_t needed, size_t bytes)
{
    for (wm_arena *a = wm_arena_next(arena, arena); a != arena;
         a = wm_arena_next(arena, a)) {
        wm_lock_acquire(&a->lock);
        wm_run_note_growth_locked(a, &a->common, needed, bytes);
        wm_lock_release(&a->lock);
    }
}
