/* paused.c: the pieces of an arena that is paused (row C11): which there are,
 * and what of them is in use; see arena.h. Takes lock arena in every public
 * function. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"

struct list {
    wm_paused_piece *piece;
    size_t room, count;
};

/* Adds the piece at base, which run holds; returns the run that holds the byte
 * behind it, or null. */
static wm_block *list_one_locked(struct list *list, wm_block *run, char *base,
                                 size_t bytes)
{
    wm_paused_piece piece = {
        .segment = run->segment, .base = base, .bytes = bytes};
    const char *end = base + bytes;

    for (; run != NULL && run->base < end; run = run->after) {
        char *from = run->base > base ? run->base : base;
        const char *to = run->base + run->bytes;

        if (!wm_run_is_idle(run)) {
            piece.used = piece.used != NULL ? piece.used : from;
            piece.used_bytes = (size_t)((to < end ? to : end) - piece.used);
        }
        if (to > end) {
            break;
        }
    }
    if (list->count < list->room) {
        list->piece[list->count] = piece;
    }
    list->count++;
    return run;
}

static void list_all_locked(struct list *list, wm_segment *segment)
{
    wm_block *run = segment->first;
    char *at = segment->base;

    while (run != NULL) {
        if (wm_run_has_memory(run)) {
            size_t bytes = wm_piece_from_locked(segment, at);

            run = list_one_locked(list, run, at, bytes);
            at += bytes;
        } else {
            at = run->base + run->bytes;
            run = run->after;
        }
    }
}

size_t wm_pieces_pause(wm_arena *arena, wm_paused_piece *pieces, size_t room)
{
    struct list list = {.piece = pieces, .room = room};

    wm_lock_acquire(&arena->lock);
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (s->unit > 0) {
            list_all_locked(&list, s);
        }
    }
    arena->paused = list.count <= room;
    wm_lock_release(&arena->lock);
    return list.count;
}

void wm_pieces_resume(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    arena->paused = false;
    wm_lock_release(&arena->lock);
}

void wm_pieces_note(const wm_paused_piece *piece, bool unmapped)
{
    wm_arena *arena = piece->segment->arena;
    size_t *bytes = &arena->paused_bytes[!piece->segment->small];

    wm_lock_acquire(&arena->lock);
    *bytes += unmapped ? piece->bytes : -piece->bytes;
    wm_lock_release(&arena->lock);
}

/* Takes a run, which starts at the piece or before it, out of its bin; what of
 * it lies before the piece stays idle. */
static wm_block *take_front_locked(wm_arena *arena, wm_block *run,
                                   const char *base)
{
    wm_block *front = run;

    wm_run_unlink(run);
    if (run->base < base) {
        run = wm_run_cut_locked(arena, front, (size_t)(base - front->base));
        wm_run_link(front);
    }
    return run;
}

/* What of a run, which is in no bin, lies behind the piece is idle again. */
static void put_rest_locked(wm_arena *arena, wm_block *run, const char *end)
{
    if (run->base + run->bytes > end) {
        wm_run_link(wm_run_cut_locked(arena, run, (size_t)(end - run->base)));
    }
}

/* The idle runs of a piece, of any lanes, become one gap. They have no memory
 * that a stream could still use. */
static void drop_locked(wm_arena *arena, wm_block *run,
                        const wm_paused_piece *piece)
{
    wm_segment *segment = piece->segment;
    const char *end = piece->base + piece->bytes;

    run = take_front_locked(arena, run, piece->base);
    put_rest_locked(arena, run, end);
    while (run->base + run->bytes < end) {
        wm_run_unlink(run->after);
        put_rest_locked(arena, run->after, end);
        wm_run_absorb_locked(arena, run);
    }
    wm_run_move(run, &arena->common);
    wm_block_set_state(run, WM_BLOCK_VOID);
    wm_page_map_cover(piece->base, piece->bytes, NULL);
    wm_segment_log(arena, piece->base, piece->bytes, WM_HISTORY_SEGMENT_UNMAP);
    arena->paused_bytes[!segment->small] -= piece->bytes;
    wm_arena_note_part_locked(arena, segment, -(int64_t)piece->bytes);
    wm_piece_set_locked(segment, piece->base, piece->bytes, false);
    wm_gap_put_locked(arena, run);
}

/* The first of the runs of a piece if all of them are idle, else null. */
static wm_block *idle_locked(const wm_paused_piece *piece)
{
    wm_block *first = wm_block_at(piece->base), *run = first;
    const char *end = piece->base + piece->bytes;

    if (first == NULL || first->slab != NULL) {
        return NULL;
    }
    while (wm_run_is_idle(run) && run->base + run->bytes < end) {
        run = run->after;
    }
    return wm_run_is_idle(run) ? first : NULL;
}

bool wm_pieces_drop(const wm_paused_piece *piece)
{
    wm_arena *arena = piece->segment->arena;
    wm_block *run;

    wm_lock_acquire(&arena->lock);
    run = idle_locked(piece);
    if (run != NULL && !wm_record_have_locked(arena)) {
        run = NULL;
    }
    if (run != NULL) {
        drop_locked(arena, run, piece);
    }
    wm_lock_release(&arena->lock);
    return run != NULL;
}

size_t wm_pieces_paused(wm_arena *arena)
{
    size_t bytes;

    wm_lock_acquire(&arena->lock);
    bytes = arena->paused_bytes[0] + arena->paused_bytes[1];
    wm_lock_release(&arena->lock);
    return bytes;
}
