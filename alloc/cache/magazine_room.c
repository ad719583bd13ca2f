/* magazine_room.c: the counts of a set: its room, its claims of classes, and
 * the tallies that are merged into its arena; and entries that are added or
 * removed without a caller.
 *
 * Room is a count, not memory: how many blocks and bytes the owner of a set may
 * still allocate before it has to claim more (live.h). Only sets of pinned
 * memory count frees that are not cached.
 *
 * The caller has locked the set's window, and lock arena for `_locked`. Takes
 * no lock. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

#include <string.h>

_Static_assert(sizeof(wm_magazine) == 64, "a line of its own");

/* Blocks, bytes requested and bytes: of a room, or to be added to one. */
enum { FIGURES = WM_LIVE_BYTES + 1 };
typedef struct amounts {
    int64_t of[FIGURES];
} amounts;

static inline amounts amounts_of(const wm_room *room)
{
    return (amounts){{[WM_LIVE_BLOCKS] = wm_room_get(&room->blocks),
                      [WM_LIVE_ASKED] = wm_room_get(&room->requested),
                      [WM_LIVE_BYTES] =
                          wm_room_get(&room->bytes) - wm_room_get(&room->low)}};
}

/* The most room that a set has of a figure after a claim: half of a thread's,
 * since frees of what was claimed before may add as much; divided by the rooms
 * that the thread has in the group. A laned set has rooms for small and for
 * large requests. Read from the group, which is const: a set's lane changes
 * while other threads read. */
static int64_t most_of(const wm_magazine_set *set, int figure)
{
    int64_t most = WM_ROOM_BLOCKS;

    if (figure != WM_LIVE_BLOCKS) {
        most = WM_ROOM_LARGEST * set->largest;
        most = most > WM_ROOM_BYTES ? most : WM_ROOM_BYTES;
    }
    most = (most - most / WM_ROOM_ARENA) / 2;
    return set->group->laned ? most / (2 * (int64_t)set->sharers) : most;
}

/* Computes how far hits may fill the set: to its bytes, or to its greatest
 * room. */
static void set_high(wm_magazine_set *set, int i)
{
    wm_room *room = &set->rooms[i];
    int64_t left = set->bytes_max - wm_magazine_set_bytes(set);
    int64_t high =
        wm_room_get(&room->bytes) + (set->group->laned ? left / 2 : left);
    int64_t roomy = wm_room_get(&room->low) + most_of(set, WM_LIVE_BYTES);

    room->high = high < roomy ? high : roomy;
}

void wm_magazine_set_note_high(wm_magazine_set *set)
{
    set_high(set, 0);
    set_high(set, 1);
}

/* Claims more room, or returns some. */
static void add_room(wm_magazine_set *set, int i, const amounts *more)
{
    int64_t blocks = more->of[WM_LIVE_BLOCKS], asked = more->of[WM_LIVE_ASKED];
    int64_t bytes = more->of[WM_LIVE_BYTES];
    wm_room *room = &set->rooms[i];

    if ((blocks | asked | bytes) == 0) {
        return;
    }
    for (int f = 0; f < FIGURES; f++) {
        wm_lives_claim(set->arena->live, i > 0, (enum wm_figure)f, more->of[f]);
    }
    if (wm_arena_is_sorted(set->arena)) {
        wm_lives_claim(set->arena->live, i > 0, WM_LIVE_ACTIVE, blocks);
        wm_lives_claim(set->arena->live, i > 0, WM_LIVE_ACTIVE_BYTES, bytes);
    }
    wm_room_add(&room->blocks, blocks);
    wm_room_add(&room->requested, asked);
    wm_room_add(&room->low, -bytes);
}

/* Claims as much as a set may have, or as is needed if that is more. */
static __attribute__((noinline)) void claim_room(wm_magazine_set *set, int i,
                                                 const amounts *needed)
{
    amounts more = amounts_of(&set->rooms[i]);

    for (int f = 0; f < FIGURES; f++) {
        int64_t before = more.of[f], most = most_of(set, f);

        more.of[f] = 0;
        if (before < needed->of[f]) {
            more.of[f] = (most > needed->of[f] ? most : needed->of[f]) - before;
        }
    }
    add_room(set, i, &more);
    set_high(set, i);
}

void wm_magazine_need_room(wm_magazine_set *set, const wm_magazine *m,
                           size_t requested)
{
    int i = wm_room_index(set, m);
    const wm_room *room = &set->rooms[i];

    if (wm_unlikely(wm_room_get(&room->blocks) < 1 ||
                    wm_room_get(&room->requested) < (int64_t)requested ||
                    wm_room_get(&room->bytes) - wm_room_get(&room->low) <
                        m->bytes)) {
        claim_room(set, i, &(amounts){{1, (int64_t)requested, m->bytes}});
    }
}

void wm_magazine_trim_room(wm_magazine_set *set, const wm_block *block)
{
    int i = wm_room_index(set, &set->of[block->size_class]);
    amounts room = amounts_of(&set->rooms[i]);

    room.of[WM_LIVE_BLOCKS]++;
    room.of[WM_LIVE_ASKED] += (int64_t)wm_block_requested(block);
    room.of[WM_LIVE_BYTES] += (int64_t)block->bytes;
    for (int f = 0; f < FIGURES; f++) {
        int64_t most = most_of(set, f);

        room.of[f] = room.of[f] > most ? most / 2 - room.of[f] : 0;
    }
    add_room(set, i, &room);
    set_high(set, i);
}

void wm_magazine_set_use_room(wm_magazine_set *set, const wm_block *block)
{
    const amounts used = {
        {1, (int64_t)wm_block_requested(block), (int64_t)block->bytes}};
    int i = !set->group->laned || !block->segment->small;
    amounts room = amounts_of(&set->rooms[i]);

    for (int f = 0; f < FIGURES; f++) {
        int64_t n = room.of[f] < used.of[f] ? room.of[f] : used.of[f];

        room.of[f] = n > 0 ? -n : 0;
    }
    add_room(set, i, &room);
}

void wm_magazine_set_return_room(wm_magazine_set *set)
{
    for (int i = 0; i < 2; i++) {
        amounts room = amounts_of(&set->rooms[i]);

        for (int f = 0; f < FIGURES; f++) {
            room.of[f] = -room.of[f];
        }
        add_room(set, i, &room);
        set_high(set, i);
    }
}

/* ---- claims of classes --------------------------------------------------- */

static void claim(wm_magazine_set *set, wm_magazine *m, int32_t claimed)
{
    wm_supply *supply = wm_magazine_supply(set, m);

    wm_claim_add_raise(&set->arena->live->classes->blocks[m - set->of],
                       claimed - supply->claimed);
    supply->claimed = claimed;
}

/* Blocks that wait for streams are freed and completed in batches, so half a
 * room is claimed ahead. */
void wm_magazine_claim_ahead(wm_magazine_set *set, wm_magazine *m)
{
    claim(set, m, wm_magazine_supply(set, m)->base + WM_ROOM_BLOCKS / 2);
}

void wm_magazine_set_end_claims(wm_magazine_set *set)
{
    for (unsigned i = 0; i < set->classes; i++) {
        wm_magazine *m = &set->of[set->in_use[i]];

        claim(set, m, wm_magazine_supply(set, m)->base);
    }
}

/* ---- tallies: lock arena ------------------------------------------------- */

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

/* ---- entries without a caller -------------------------------------------- */

void wm_magazine_recount(wm_magazine_set *set, wm_magazine *m, int64_t change)
{
    wm_supply *supply = wm_magazine_supply(set, m);
    int i = wm_room_index(set, m);

    m->top += change;
    supply->base += (int32_t)change;
    if (supply->base > supply->claimed ||
        supply->claimed - supply->base > WM_ROOM_BLOCKS) {
        claim(set, m, supply->base);
    }
    wm_room_add(&set->rooms[i].bytes, change * m->bytes);
    wm_room_add(&set->rooms[i].low, change * m->bytes);
}

/* Another thread has freed the block as well and owns it: this free is not
 * counted. */
static __attribute__((noinline, cold)) void
drop_entry(wm_magazine_set *set, wm_magazine *m, wm_entry *entry)
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
        if (wm_likely(wm_magazine_set_caches(set, entry[i].block))) {
            i++;
        } else {
            drop_entry(set, m, &entry[i]);
            first--;
        }
    }
    return first;
}
