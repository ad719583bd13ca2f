/* flush.c: flushes blocks of a set to the arenas that they belong to.
 *
 * The caller has the section of the set's window; takes lock arena, of one
 * sibling at a time. The set counts a block until it is in its arena: a thread
 * that looks for memory finds it in one of the two. */
#include "alloc/cache/magazine_int.h"

#include "alloc/arena/arena_int.h"

#include <string.h>

/* The transfer cache's bound, as a part of a set's. */
enum { DEPOT_PART = 4 };

/* ---- blocks of siblings ------------------------------------------------- */

static wm_arena *arena_of(const wm_entry *entry)
{
    return entry->block->segment->arena;
}

static void note_gone(wm_magazine_set *set, wm_magazine *m, unsigned count)
{
    wm_magazine_recount(set, m, -(int64_t)count);
}

/* Puts those of the first entries that belong to an arena there. Lock arena, of
 * that one. */
static unsigned give_to_locked(wm_magazine_set *set, wm_magazine *m,
                               wm_arena *arena, unsigned first)
{
    wm_entry *entry = wm_magazine_first(m);
    unsigned kept = 0;

    for (unsigned i = 0; i < first; i++) {
        if (arena_of(&entry[i]) == arena) {
            wm_arena_put_locked(arena, entry[i].block);
        } else {
            entry[kept++] = entry[i];
        }
    }
    if (kept < first) {
        memmove(entry + kept, entry + first,
                (wm_magazine_count(m) - first) * sizeof *entry);
        note_gone(set, m, first - kept);
    }
    return first - kept;
}

/* The siblings that have blocks among the first entries: a bit each. */
static uint32_t siblings_in(const wm_magazine_set *set, const wm_magazine *m,
                            unsigned first)
{
    const wm_entry *entry = wm_magazine_first(m);
    uint32_t found = 0;

    for (unsigned i = 0; i < first; i++) {
        if (arena_of(&entry[i]) != set->arena) {
            found |= 1u << arena_of(&entry[i])->shard;
        }
    }
    return found;
}

static bool has_siblings(const wm_magazine_set *set)
{
    return wm_arena_next(set->arena, set->arena) != set->arena;
}

uint64_t wm_cache_flush_siblings(wm_magazine_set *set)
{
    uint64_t blocks = 0;
    uint32_t found = 0;

    for (unsigned i = 0; has_siblings(set) && i < set->classes; i++) {
        wm_magazine *m = &set->of[set->in_use[i]];

        found |=
            siblings_in(set, m, wm_magazine_sift(set, m, wm_magazine_count(m)));
    }
    for (wm_arena *a = set->arena->siblings; found != 0; a = a->next_sibling) {
        if ((found & 1) != 0) {
            wm_lock_acquire(&a->lock);
            for (unsigned i = 0; i < set->classes; i++) {
                wm_magazine *m = &set->of[set->in_use[i]];

                blocks += give_to_locked(set, m, a, wm_magazine_count(m));
            }
            wm_lock_release(&a->lock);
        }
        found >>= 1;
    }
    return blocks;
}

/* The bound of the transfer cache: none for blocks of a stream. */
static size_t depot_bytes(const wm_magazine_set *set)
{
    return set->lane != NULL ? 0 : (size_t)set->bytes_max / DEPOT_PART;
}

/* As give_to_locked(), into the transfer cache as long as there is room. */
static unsigned depot_to_locked(wm_magazine_set *set, wm_magazine *m,
                                wm_arena *arena, unsigned first)
{
    wm_entry *entry = wm_magazine_first(m);
    unsigned begin = 0, end = 0;

    while (begin < first) {
        unsigned kept;

        while (begin < first && arena_of(&entry[begin]) != arena) {
            begin++;
        }
        end = begin;
        while (end < first && arena_of(&entry[end]) == arena) {
            end++;
        }
        kept = wm_transfer_cache_put_locked(arena, (unsigned)(m - set->of),
                                            entry + begin, end - begin,
                                            depot_bytes(set));
        for (unsigned i = begin + kept; i < end; i++) {
            wm_arena_put_locked(arena, entry[i].block);
        }
        memmove(entry + begin, entry + end,
                (wm_magazine_count(m) - end) * sizeof *entry);
        note_gone(set, m, end - begin);
        first -= end - begin;
    }
    return first;
}

/* Moves siblings' blocks of the first entries into their transfer caches.
 * Returns how many of the first entries are left. */
static unsigned give_depots(wm_magazine_set *set, wm_magazine *m,
                            unsigned first)
{
    uint32_t found = has_siblings(set) ? siblings_in(set, m, first) : 0;

    for (wm_arena *a = set->arena->siblings; found != 0; a = a->next_sibling) {
        if ((found & 1) != 0) {
            wm_lock_acquire(&a->lock);
            first = depot_to_locked(set, m, a, first);
            wm_lock_release(&a->lock);
        }
        found >>= 1;
    }
    return first;
}

/* ---- flush -------------------------------------------------------------- */

/* Puts the oldest entries of a class back; the first of them are in the
 * transfer cache already. */
static void give_locked(wm_magazine_set *set, wm_magazine *m, unsigned first,
                        unsigned oldest)
{
    wm_entry *entry = wm_magazine_first(m);

    for (unsigned i = first; i < oldest; i++) {
        wm_arena_put_locked(set->arena, entry[i].block);
    }
    memmove(entry, entry + oldest,
            (wm_magazine_count(m) - oldest) * sizeof *entry);
    note_gone(set, m, oldest);
}

uint64_t wm_cache_flush_locked(wm_magazine_set *set, enum wm_part part)
{
    uint64_t blocks = 0;

    for (unsigned i = 0; i < set->classes; i++) {
        wm_magazine *m = &set->of[set->in_use[i]];

        (void)wm_magazine_sift(set, m, wm_magazine_count(m));
    }
    for (unsigned i = 0; i < set->classes; i++) {
        wm_magazine *m = &set->of[set->in_use[i]];
        unsigned count = wm_magazine_count(m);
        unsigned oldest = part == WM_ALL ? count : (count + 1) / 2;

        if (oldest > 0) {
            give_locked(set, m, 0, oldest);
            wm_magazine_supply(set, m)->batch = 1;
            blocks += oldest;
        }
    }
    return blocks;
}

uint64_t wm_cache_flush(wm_magazine_set *set, enum wm_part part)
{
    uint64_t blocks = wm_cache_flush_siblings(set);

    wm_lock_acquire(&set->arena->lock);
    blocks += wm_cache_flush_locked(set, part);
    wm_lock_release(&set->arena->lock);
    return blocks;
}

void wm_magazine_flush_half(wm_magazine_set *set, wm_magazine *m)
{
    wm_supply *supply = wm_magazine_supply(set, m);
    unsigned oldest = wm_magazine_sift(set, m, (wm_magazine_count(m) + 1) / 2);
    unsigned kept;

    oldest = give_depots(set, m, oldest);
    wm_lock_acquire(&set->arena->lock);
    kept = wm_transfer_cache_put_locked(set->arena, (unsigned)(m - set->of),
                                        wm_magazine_first(m), oldest,
                                        depot_bytes(set));
    give_locked(set, m, kept, oldest);
    wm_lock_release(&set->arena->lock);
    supply->batch = (uint16_t)(supply->batch > 1 ? supply->batch / 2 : 1);
}

void wm_cache_flush_block_locked(wm_magazine_set *set, wm_block *block)
{
    wm_magazine *m = &set->of[block->size_class];
    wm_entry *entry = wm_magazine_first(m);
    unsigned count = wm_magazine_count(m), at = 0;

    while (at < count && entry[at].block != block) {
        at++;
    }
    wm_assert(at < count);
    if (at == count) {
        return; /* its pointer was freed more than twice */
    }
    memmove(entry + at, entry + at + 1, (count - at - 1) * sizeof *entry);
    note_gone(set, m, 1);
    wm_arena_put_locked(block->segment->arena, block);
}

/* Flushes a whole class. */
static unsigned give_class_locked(wm_magazine_set *set, wm_magazine *m)
{
    unsigned count = wm_magazine_sift(set, m, wm_magazine_count(m));

    if (count > 0) {
        give_locked(set, m, 0, count);
        wm_magazine_supply(set, m)->batch = 1;
    }
    return count;
}

uint64_t wm_cache_trade(wm_magazine_set *set, size_t bytes, wm_block **block)
{
    wm_arena *arena = set->arena;
    uint64_t blocks = wm_cache_flush_siblings(set);
    bool starved = false;

    if (blocks > 0) {
        *block = wm_arena_take_or_steal(arena, set->lane, bytes, &starved);
    }
    if (*block != NULL) {
        return blocks;
    }
    wm_lock_acquire(&arena->lock);
    for (unsigned i = WM_CLASSES; i-- > 0 && *block == NULL;) {
        unsigned count = give_class_locked(set, &set->of[i]);

        blocks += count;
        if (count > 0) {
            *block =
                wm_arena_take_locked(arena, wm_magazine_set_lane(set, arena),
                                     bytes, WM_SPLIT_NO_JOIN, &starved);
        }
    }
    if (*block == NULL && set->lane != NULL) {
        *block = wm_arena_take_locked(arena, set->lane, bytes, WM_SPLIT_ALLOW,
                                      &starved);
    }
    arena->stats.cache_hits += *block != NULL;
    wm_lock_release(&arena->lock);
    return blocks;
}
