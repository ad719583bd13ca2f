/* magazine_room.c: the room of a set, and the tallies that are merged into its
 * arena; and entries that are added or removed without a caller.
 *
 * The caller has locked or entered the set's window, and has lock arena for
 * `_locked`. Takes no lock. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

#include <string.h>

_Static_assert(sizeof(wm_magazine) == 64, "a line of its own");
_Static_assert(WM_ROOM_BYTES / WM_GRAIN + WM_CLASS_LIMIT / WM_GRAIN <
                   1 << WM_ROOM_SHIFT,
               "a block more than the room shows in its own field");
_Static_assert(2 * WM_ROOM_BLOCKS < 1 << (32 - WM_ROOM_SHIFT), "the same");

/* ---- room ---------------------------------------------------------------- */

/* Stores a room of so many blocks and grains beside what is cached, and claims
 * or returns the difference to what the thread has. */
static void move_to(wm_magazine_set *set, int64_t blocks, int64_t grains,
                    int64_t more_blocks, int64_t more, int64_t cached)
{
    uint64_t base = (uint64_t)(cached - grains);

    wm_live_claim(&set->group->live, more_blocks, more * WM_GRAIN);
    wm_room_set(set, base << 32 | (uint64_t)blocks << WM_ROOM_SHIFT |
                         (uint64_t)grains);
}

/* The room to have after a block of so many grains was allocated (0: none): a
 * half, unless its free would then be beyond the bound. */
static int64_t half_of(const wm_magazine_set *set, int64_t taken)
{
    int64_t half = set->grains_max / 2, left = set->grains_max - 1 - taken;

    return left >= 0 && left < half ? left : half;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The most grains of a base with which no hit fills the set beyond its bytes.
 */
static int64_t base_max(const wm_magazine_set *set)
{
    return set->bytes_max / WM_GRAIN - ((int64_t)set->grains_max - 1);
}

/* The bits that a room within its bounds does not have. */
static uint32_t beyond(const wm_magazine_set *set)
{
    return ~((set->blocks_max - 1) << WM_ROOM_SHIFT | (set->grains_max - 1));
}

bool wm_room_check(const wm_magazine_set *set)
{
    uint64_t room = atomic_load_explicit(&set->has, memory_order_relaxed);
    int64_t base = wm_room_cached(room) - wm_room_grains(room);
    bool full = base > base_max(set);

    return set->beyond == beyond(set)
               ? !full
               : set->beyond == UINT32_MAX &&
                     (full ||
                      (wm_room_grains(room) == 0 && wm_room_blocks(room) == 0));
}

/* taken: grains of a block that is allocated, or 0. The base may be so large
 * that the set is full when the room is at its bound; while it is larger, every
 * hit is a miss. */
static void change(wm_magazine_set *set, int64_t blocks, int64_t grains,
                   int64_t cached, int64_t taken)
{
    uint64_t room = wm_room_get(set);
    int64_t most = set->grains_max, least, to_blocks, to;

    cached += wm_room_cached(room);
    blocks += wm_room_blocks(room);
    grains += wm_room_grains(room);
    to_blocks =
        blocks >= 0 && blocks < set->blocks_max ? blocks : set->blocks_max / 2;
    to = grains >= 0 && grains < most ? grains : half_of(set, taken);
    least = smaller(cached - base_max(set), most - 1);
    to = to > least ? to : least;
    set->beyond = cached - to > base_max(set) ? UINT32_MAX : beyond(set);
    move_to(set, to_blocks, to, to_blocks - blocks, to - grains, cached);
}

void wm_room_change(wm_magazine_set *set, const wm_magazine *m, int64_t blocks,
                    int64_t cached)
{
    int64_t grains = m->bytes / WM_GRAIN;

    change(set, blocks, blocks * grains, cached / WM_GRAIN,
           blocks < 0 ? grains : 0);
}

void wm_room_cache(wm_magazine_set *set, int64_t cached)
{
    change(set, 0, 0, cached / WM_GRAIN, 0);
}

void wm_room_return(wm_magazine_set *set)
{
    uint64_t room = wm_room_get(set);

    set->beyond = UINT32_MAX;
    move_to(set, 0, 0, -wm_room_blocks(room), -wm_room_grains(room),
            wm_room_cached(room));
}

void wm_room_bound(wm_magazine_set *set)
{
    set->blocks_max = WM_ROOM_BLOCKS;
    set->grains_max = WM_ROOM_BYTES / WM_GRAIN;
    for (unsigned sets = 1; sets < set->sharers; sets *= 2) {
        set->blocks_max /= 2;
        set->grains_max /= 2;
    }
    while (set->grains_max > 1 &&
           (int64_t)set->grains_max * WM_GRAIN > set->bytes_max) {
        set->grains_max /= 2;
    }
    change(set, 0, 0, 0, 0);
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
    m->top += change;
    wm_magazine_supply(set, m)->base += (int32_t)change;
    wm_room_cache(set, change * m->bytes);
}

/* Another thread has freed the block as well and owns it: this free is not
 * counted. */
static __attribute__((noinline, cold)) void
drop_entry(wm_magazine_set *set, wm_magazine *m, wm_entry *entry)
{
    wm_room_change(set, m, -1, -m->bytes);
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
