/* tally.c: merges what a set has counted into its arena, and corrects the
 * counts of entries that come or go without a caller.
 *
 * The caller has the biased lock of the set's window, and lock arena for
 * `_locked`. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

#include <string.h>

_Static_assert(sizeof(wm_magazine) == 64, "a line of its own");

/* ---- merging: lock arena ----------------------------------------------- */

static void merge_class_locked(wm_magazine_set *set, wm_magazine *m)
{
    wm_supply *supply = wm_magazine_supply(set, m);
    int32_t blocks = supply->base - (int32_t)wm_magazine_count(m);
    wm_tally tally = {.blocks = blocks,
                      .bytes = blocks * m->bytes,
                      .asked = (int64_t)(m->alloc_bytes - m->free_bytes),
                      .allocs = m->allocs,
                      .taken = m->alloc_bytes};

    if (m->allocs == 0 && blocks == 0 && m->free_bytes == 0) {
        return;
    }
    wm_arena_merge_tally_locked(set->arena, (unsigned)(m - set->of), &tally);
    supply->base -= blocks;
    supply->claimed -= blocks;
    m->allocs = m->alloc_bytes = m->free_bytes = 0;
    set->used = true;
}

void wm_magazine_set_merge_stats_locked(wm_magazine_set *set)
{
    for (unsigned i = 0; i < set->classes; i++) {
        merge_class_locked(set, &set->of[set->in_use[i]]);
    }
    wm_pending_merge_stats_locked(set);
    set->arena->stats.double_frees += set->stale;
    set->stale = 0;
}

/* ---- entries in and out ------------------------------------------------ */

void wm_magazine_recount(wm_magazine_set *set, wm_magazine *m, int64_t change)
{
    m->top += change;
    wm_magazine_supply(set, m)->base += (int32_t)change;
    wm_magazine_claim(set, m);
    wm_magazine_set_move_bytes(set, m, change * m->bytes);
}

/* Another thread has freed the block as well and owns it: this free is not
 * counted. */
static void drop_entry(wm_magazine_set *set, wm_magazine *m, wm_entry *entry)
{
    wm_room *room = &set->rooms[wm_room_index(set, m)];

    wm_room_add(&room->bytes, -m->bytes);
    wm_room_add(&room->blocks, -1);
    m->top--;
    memmove(entry, entry + 1, (size_t)(m->top - entry) * sizeof *entry);
    set->stale++;
}

unsigned wm_magazine_sift(wm_magazine_set *set, wm_magazine *m, unsigned first)
{
    wm_entry *entry = wm_magazine_first(m);
    unsigned i = 0;

    while (i < first) {
        if (wm_magazine_set_caches(set, entry[i].block)) {
            i++;
        } else {
            drop_entry(set, m, &entry[i]);
            first--;
        }
    }
    return first;
}
