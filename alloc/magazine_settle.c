/* magazine_settle.c: what a set has counted goes to the arena. See magazine.h.
 *
 * The caller has the section of the set's window; takes lock arena. */
#include "alloc/magazine_int.h"

#include "alloc/arena_int.h"

#include <string.h>

_Static_assert(sizeof(wm_magazine) == 64, "a line of its own");

/* ---- settling: lock arena ---------------------------------------------- */

void wm_magazine_rebase(wm_magazines *set, wm_magazine *m)
{
    wm_magazine_supply(set, m)->base = (int32_t)wm_magazine_count(m);
    m->low = (intptr_t)m->top;
}

void wm_magazine_settle_locked(wm_magazines *set, wm_magazine *m)
{
    int64_t base = wm_magazine_supply(set, m)->base;
    int64_t low =
        (m->low - (intptr_t)wm_magazine_first(m)) / (int64_t)sizeof(wm_entry);
    int64_t most = wm_magazine_supply(set, m)->asked_most;
    wm_tally tally = {.blocks = base - wm_magazine_count(m),
                      .most_blocks = base - low,
                      .asked = most - m->asked_room,
                      .most_asked = most};

    if (m->allocs == 0 && tally.blocks == 0) {
        return;
    }
    tally.bytes = tally.blocks * m->bytes;
    tally.most_bytes = tally.most_blocks * m->bytes;
    wm_arena_settle_class_locked(set->arena, (unsigned)(m - set->of), &tally,
                                 m->allocs, m->taken);
    wm_magazine_rebase(set, m);
    m->allocs = m->taken = 0;
    m->asked_room = wm_magazine_supply(set, m)->asked_most = 0;
    set->used = true;
}

static void settle_sort_locked(wm_magazines *set, bool large)
{
    wm_sums *sort = &set->sort[large];
    wm_tally tally = {.blocks = wm_peak_now(&sort->blocks),
                      .most_blocks = sort->blocks.most,
                      .bytes = wm_peak_now(&sort->bytes),
                      .most_bytes = sort->bytes.most,
                      .asked = wm_peak_now(&sort->asked),
                      .most_asked = sort->asked.most};

    wm_arena_settle_sort_locked(set->arena, large, &tally);
    *sort = (wm_sums){.blocks = {.room = 0}};
}

void wm_magazines_settle_sums_locked(wm_magazines *set)
{
    int64_t bytes = wm_magazines_bytes(set);
    wm_tally tally = {.blocks = wm_peak_now(&set->blocks),
                      .most_blocks = set->blocks.most,
                      .bytes = set->bytes_base - bytes,
                      .most_bytes = set->bytes_base - set->bytes_low,
                      .asked = wm_peak_now(&set->asked),
                      .most_asked = set->asked.most};

    wm_arena_settle_locked(set->arena, &tally);
    wm_gather_settle_locked(set);
    for (int i = 0; set->lane != NULL && i < 2; i++) {
        settle_sort_locked(set, i);
    }
    set->arena->stats.double_frees += set->stale;
    set->bytes_base = set->bytes_low = bytes;
    set->blocks = set->asked = (wm_peak){.room = 0};
    set->stale = 0;
}

void wm_magazine_settle(wm_magazines *set, wm_magazine *m)
{
    wm_lock_acquire(&set->arena->lock);
    wm_magazine_settle_locked(set, m);
    wm_magazines_settle_sums_locked(set);
    wm_lock_release(&set->arena->lock);
}

void wm_magazines_settle_set_locked(wm_magazines *set)
{
    for (unsigned i = 0; i < set->classes; i++) {
        wm_magazine_settle_locked(set, &set->of[set->in_use[i]]);
    }
    wm_magazines_settle_sums_locked(set);
}

/* ---- entries in and out ------------------------------------------------ */

void wm_magazine_recount(wm_magazines *set, wm_magazine *m, int64_t change)
{
    int64_t bytes = wm_magazines_bytes(set) + change * m->bytes;

    m->top += change;
    wm_magazine_rebase(set, m);
    wm_magazines_set_bytes(set, bytes);
    set->bytes_base = set->bytes_low = bytes;
}

/* Somebody else has freed the block too, and has it: this free does not count
 * any more. */
static void drop_entry(wm_magazines *set, wm_magazine *m, wm_entry *entry)
{
    wm_magazines_set_bytes(set, wm_magazines_bytes(set) - m->bytes);
    wm_peak_add(&set->blocks, 1);
    wm_peak_add(&wm_magazine_sort(set, m)->blocks, 1);
    wm_peak_add(&wm_magazine_sort(set, m)->bytes, m->bytes);
    m->top--;
    memmove(entry, entry + 1, (size_t)(m->top - entry) * sizeof *entry);
    set->stale++;
}

static bool is_own(const wm_magazines *set, wm_block *block)
{
    return atomic_load_explicit(&block->state, memory_order_relaxed) ==
           set->cached;
}

unsigned wm_magazine_sift(wm_magazines *set, wm_magazine *m, unsigned first)
{
    wm_entry *entry = wm_magazine_first(m);
    unsigned i = 0;

    while (i < first) {
        if (is_own(set, entry[i].block)) {
            i++;
        } else {
            drop_entry(set, m, &entry[i]);
            first--;
        }
    }
    return first;
}

void wm_magazines_settle_mine(wm_magazines *set)
{
    wm_lock_acquire(&set->arena->lock);
    wm_magazines_settle_sums_locked(set);
    wm_lock_release(&set->arena->lock);
}
