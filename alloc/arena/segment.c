/* segment.c: segments join an arena and leave it, or move to a sibling. Takes
 * lock arena in every public function, or that of two siblings in the order of
 * the shards. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

static void link_locked(wm_arena *arena, wm_segment *segment)
{
    wm_count_locked(&arena->segment_count, 1);
    segment->previous = NULL;
    segment->next = arena->segments;
    if (segment->next != NULL) {
        segment->next->previous = segment;
    }
    arena->segments = segment;
}

static void unlink_locked(wm_arena *arena, wm_segment *segment)
{
    wm_count_locked(&arena->segment_count, -1);
    if (segment->previous != NULL) {
        segment->previous->next = segment->next;
    } else {
        arena->segments = segment->next;
    }
    if (segment->next != NULL) {
        segment->next->previous = segment->previous;
    }
}

/* The segment's runs are in no bin and not IDLE: detached, or just made. */
void wm_segment_attach_locked(wm_arena *arena, wm_segment *segment)
{
    wm_page_map_cover(segment->base, segment->bytes, segment);
    link_locked(arena, segment);
    for (wm_block *run = segment->first, *after; run != NULL; run = after) {
        after = run->after;
        wm_run_init(run, segment, run->base, run->bytes);
        if (run->lane->ended) {
            wm_run_move(run, &arena->common);
        }
        wm_run_join_locked(arena, run);
    }
}

/* All runs are idle; their records stay with the segment. */
void wm_segment_detach_locked(wm_arena *arena, wm_segment *segment)
{
    for (wm_block *run = segment->first; run != NULL; run = run->after) {
        wm_run_unlink(run);
        wm_block_set_state(run, WM_BLOCK_VOID);
        wm_run_mark(segment, run->base, false);
        wm_page_map_set_run(run->base, run->bytes, NULL);
    }
    wm_page_map_cover(segment->base, segment->bytes, NULL);
    unlink_locked(arena, segment);
}

/* Cells are pages in segments up to 16 MiB. In larger ones they are larger, so
 * that the bits stay few; but not larger than a granule, the most that a
 * look-up searches page by page. */
enum { CELLS = 4096 };

static unsigned cell_shift(size_t bytes)
{
    unsigned shift = WM_PAGE_SHIFT;

    while (shift < WM_GRANULE_SHIFT && bytes >> shift > CELLS) {
        shift++;
    }
    return shift;
}

/* A record for a segment of so many bytes, in no list, or null. The bits of a
 * recycled record are all clear: no run starts. shared_as is cleared, since it
 * is the number of the memory that the record described before. */
static wm_segment *record_locked(wm_arena *arena, size_t bytes)
{
    unsigned shift = cell_shift(bytes);
    size_t words = (bytes + ((size_t)64 << shift) - 1) / ((size_t)64 << shift);
    wm_segment **link = &arena->spare_segments;
    wm_segment *segment;

    while (*link != NULL && (*link)->words < words) {
        link = &(*link)->next;
    }
    segment = *link;
    if (segment != NULL) {
        *link = segment->next;
        atomic_store_explicit(&segment->shared_as, 0, memory_order_relaxed);
        atomic_store_explicit(&segment->cell_shift, shift,
                              memory_order_relaxed);
        return segment;
    }
    segment =
        wm_meta_alloc(sizeof *segment + words * sizeof segment->starts[0]);
    if (segment != NULL) {
        segment->words = words;
        atomic_store_explicit(&segment->cell_shift, shift,
                              memory_order_relaxed);
        segment->next_made = arena->all_segments;
        arena->all_segments = segment;
    }
    return segment;
}

static void give_record_locked(wm_arena *arena, wm_segment *segment)
{
    /* Matches no block: wm_arena_detach_idle(). */
    wm_segment_place(segment, NULL, 0);
    segment->next = arena->spare_segments;
    arena->spare_segments = segment;
}

void wm_segment_give_locked(wm_arena *arena, wm_segment *segment)
{
    for (wm_block *run = segment->first, *after; run != NULL; run = after) {
        after = run->after;
        wm_run_move(run, NULL);
        wm_record_give_locked(arena, run);
    }
    give_record_locked(arena, segment);
}

/* A record with that of its first run, which is common and in no bin. */
static wm_segment *make_locked(wm_arena *arena, char *base, size_t bytes)
{
    wm_segment *segment = record_locked(arena, bytes);
    wm_block *run;

    if (segment == NULL) {
        return NULL;
    }
    if (!wm_record_have_locked(arena)) {
        give_record_locked(arena, segment);
        return NULL;
    }
    wm_segment_place(segment, base, bytes);
    segment->arena = arena;
    segment->dedicated = segment->oversize = segment->free_failed = false;
    segment->region_bytes = bytes;
    segment->first = run = wm_record_take_locked(arena);
    wm_block_set_base(run, base);
    wm_block_set_bytes(run, bytes);
    wm_block_set_segment(run, segment);
    run->before = run->after = NULL;
    wm_run_move(run, &arena->common);
    return segment;
}

wm_segment *wm_segment_join_locked(wm_arena *arena, void *base, size_t bytes,
                                   size_t needed, bool small)
{
    wm_segment *segment = make_locked(arena, base, bytes);

    if (segment == NULL) {
        return NULL;
    }
    /* A rest of less than one grain may be left over. */
    segment->dedicated = needed == bytes || (needed > WM_CLASS_LIMIT &&
                                             bytes - needed < arena->grain);
    segment->small = small;
    segment->ahead = needed == 0;
    wm_segment_attach_locked(arena, segment);
    segment->made_ns = segment->idle_since_ns; /* set by the attach */
    return segment;
}

/* False without a record. */
static bool grow_locked(wm_arena *arena, wm_lane *lane, void *base,
                        size_t segment_bytes, size_t bytes, wm_block **block)
{
    size_t needed = bytes > 0 ? wm_size_run_bytes(bytes) : 0;
    bool failed = false;
    wm_segment *segment;

    atomic_fetch_add_explicit(&arena->siblings->grown, segment_bytes,
                              memory_order_relaxed);
    segment = wm_segment_join_locked(arena, base, segment_bytes, needed,
                                     needed > 0 && needed <= arena->small_max);
    if (segment == NULL) {
        return false;
    }
    if (bytes > 0) {
        *block =
            wm_arena_take_locked(arena, lane, bytes, WM_SPLIT_ALLOW, &failed);
        if (*block == NULL) {
            wm_segment_detach_locked(arena, segment);
            wm_segment_give_locked(arena, segment);
            return false;
        }
    }
    wm_arena_note_held_locked(arena, segment, 1, (int64_t)segment_bytes);
    wm_segment_log(arena, base, segment_bytes, WM_HISTORY_SEGMENT_ALLOC);
    return true;
}

warm_status wm_arena_grow(wm_arena *arena, wm_lane *lane, void *base,
                          size_t segment_bytes, size_t bytes, wm_block **block)
{
    warm_status status = wm_page_map_reserve(base, segment_bytes);
    wm_block *taken = NULL;
    bool grown;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&arena->lock);
    grown = grow_locked(arena, lane, base, segment_bytes, bytes, &taken);
    wm_lock_release(&arena->lock);
    if (!grown) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the allocator's records");
    }
    *block = taken;
    return WARM_OK;
}

/* ---- segments and blocks of siblings ------------------------------------ */

/* The smallest wholly idle, common segment that fits, or null. */
static wm_segment *pick_locked(const wm_arena *from, size_t needed)
{
    wm_segment *best = NULL;

    for (wm_segment *s = from->segments; s != NULL; s = s->next) {
        wm_block *run = s->first;

        if (s->bytes >= needed && wm_run_suits(s, needed) &&
            wm_run_is_idle(run) && wm_run_is_segment(run) &&
            run->lane == &from->common &&
            (best == NULL || s->bytes < best->bytes)) {
            best = s;
        }
    }
    return best;
}

/* As if the driver had freed it from one and allocated it to the other. */
static bool move_locked(wm_arena *from, wm_arena *to, wm_segment *segment)
{
    size_t needed = segment->dedicated ? segment->bytes : 0;
    wm_segment *moved;

    wm_segment_detach_locked(from, segment);
    moved = wm_segment_join_locked(to, segment->base, segment->bytes, needed,
                                   segment->small);
    if (moved == NULL) {
        wm_segment_attach_locked(from, segment);
        return false;
    }
    moved->ahead = segment->ahead;
    moved->made_ns = segment->made_ns;
    moved->region_bytes = segment->region_bytes;
    wm_arena_note_move_locked(from, to, segment);
    wm_segment_give_locked(from, segment);
    return true;
}

/* Moves a segment from a sibling; false: none fits. */
static bool steal_from(wm_arena *from, wm_arena *to, size_t needed)
{
    wm_arena *first = from->shard < to->shard ? from : to;
    wm_arena *second = first == from ? to : from;
    wm_segment *segment;
    bool moved;

    /* Relaxed: a segment that becomes idle right now is missed and stays. */
    if (atomic_load_explicit(&from->idle_segments, memory_order_relaxed) == 0) {
        return false;
    }
    wm_lock_acquire(&first->lock);
    wm_lock_acquire(&second->lock);
    segment = pick_locked(from, needed);
    moved = segment != NULL && move_locked(from, to, segment);
    wm_lock_release(&second->lock);
    wm_lock_release(&first->lock);
    return moved;
}

bool wm_arena_steal_segment(wm_arena *arena, size_t bytes)
{
    size_t needed = wm_size_run_bytes(bytes);
    bool moved = false;

    for (wm_arena *a = wm_arena_next(arena, arena); a != arena && !moved;
         a = wm_arena_next(arena, a)) {
        moved = steal_from(a, arena, needed);
    }
    return moved;
}

wm_block *wm_arena_take_or_steal(wm_arena *arena, wm_lane *lane, size_t bytes,
                                 bool *starved)
{
    bool unread = false;
    wm_block *block;

    starved = starved != NULL ? starved : &unread;
    block = wm_arena_take(arena, lane, bytes, WM_SPLIT_ALLOW, starved);
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

/* ---- segments for requests of another sort ----------------------------- */

/* The smallest idle segment for requests of the other sort: one that the lane
 * may use, else one of another lane; or null. */
static wm_segment *find_other_sort_locked(const wm_arena *arena,
                                          const wm_lane *lane, size_t bytes,
                                          bool whole, bool *usable)
{
    bool small = bytes <= arena->small_max;
    wm_segment *best = NULL;

    *usable = false;
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (s->small != small && s->bytes >= bytes &&
            wm_run_is_segment(s->first) && wm_run_is_idle(s->first) &&
            (whole || !wm_run_outsizes(s->first, bytes))) {
            bool mine = wm_run_may_have(arena, lane, s->first);

            if (best == NULL || mine > *usable ||
                (mine == *usable && s->bytes < best->bytes)) {
                best = s;
                *usable = mine;
            }
        }
    }
    return best;
}

/* The segment is idle. */
static void change_sort_locked(wm_arena *arena, wm_segment *segment)
{
    wm_run_unlink(segment->first);
    wm_run_set_sort_locked(arena, segment, !segment->small);
    segment->oversize = false;
    wm_run_link(segment->first);
}

bool wm_arena_open(wm_arena *arena, wm_lane *lane, size_t bytes, bool whole)
{
    wm_segment *segment = NULL;
    bool open, usable = false;

    wm_lock_acquire(&arena->lock);
    lane = wm_lane_look_locked(arena, lane);
    open = wm_run_open_oversize_locked(arena, lane, bytes, whole);
    if (!open && wm_arena_is_sorted(arena)) {
        segment = find_other_sort_locked(arena, lane, bytes, whole, &usable);
    }
    if (segment != NULL) {
        change_sort_locked(arena, segment);
    }
    wm_lock_release(&arena->lock);
    return open || usable;
}

/* ---- what the driver knows ----------------------------------------------- */

size_t wm_arena_extents(wm_arena *arena, size_t skip, wm_extent *extent,
                        size_t room)
{
    size_t count = 0;

    wm_lock_acquire(&arena->lock);
    for (const wm_segment *s = arena->segments; s != NULL && count < room;
         s = s->next) {
        if (skip > 0) {
            skip--;
        } else {
            extent[count++] = (wm_extent){s->base, s->bytes};
        }
    }
    wm_lock_release(&arena->lock);
    return count;
}
