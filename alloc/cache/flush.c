/* flush.c: flushes blocks of a set to the arenas that they belong to.
 *
 * The caller has locked the set's window; takes lock arena, of one sibling at a
 * time. The set counts a block until it is in its arena: a thread
 * that looks for memory finds it in one of the two. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

#include <string.h>

/* Size classes in a doubling of sizes. */
enum { DOUBLING = 1 << WM_CLASS_STEPS };

/* ---- blocks of siblings -------------------------------------------------- */

static wm_arena *arena_of(const wm_entry *entry)
{
    return entry->block->segment->arena;
}

/* Of the first entries, flushes those that belong to arena. Returns how many of
 * the first entries are left. The caller holds that arena's lock. */
static unsigned put_blocks_locked(wm_magazine_set *set, wm_magazine *m,
                                  wm_arena *arena, unsigned first)
{
    wm_entry *entry = wm_magazine_first(m);
    unsigned left = 0;

    for (unsigned i = 0; i < first; i++) {
        if (arena_of(&entry[i]) == arena) {
            wm_arena_put_locked(arena, entry[i].block);
        } else {
            entry[left++] = entry[i];
        }
    }
    if (left < first) {
        memmove(entry + left, entry + first,
                (wm_magazine_count(m) - first) * sizeof *entry);
        wm_magazine_recount(set, m, (int64_t)left - first);
    }
    return left;
}

uint64_t wm_cache_flush_siblings(wm_magazine_set *set)
{
    uint64_t blocks = 0;
    uint32_t found = 0; /* siblings that have blocks in the set: a bit each */

    if (wm_arena_next(set->arena, set->arena) == set->arena) {
        return 0; /* no siblings */
    }
    for (unsigned i = 0; i < set->classes; i++) {
        wm_magazine *m = &set->of[set->in_use[i]];
        unsigned count = wm_magazine_sift(set, m, wm_magazine_count(m));
        const wm_entry *entry = wm_magazine_first(m);

        for (unsigned k = 0; k < count; k++) {
            if (arena_of(&entry[k]) != set->arena) {
                found |= 1u << arena_of(&entry[k])->shard;
            }
        }
    }
    for (wm_arena *a = set->arena->siblings; found != 0; a = a->next_sibling) {
        if ((found & 1) != 0) {
            wm_lock_acquire(&a->lock);
            for (unsigned i = 0; i < set->classes; i++) {
                wm_magazine *m = &set->of[set->in_use[i]];
                unsigned count = wm_magazine_count(m);

                blocks += count - put_blocks_locked(set, m, a, count);
            }
            wm_lock_release(&a->lock);
        }
        found >>= 1;
    }
    return blocks;
}

/* ---- flush --------------------------------------------------------------- */

/* Flushes the older half of a class, or all of it. Returns how many blocks. */
static unsigned flush_class_locked(wm_magazine_set *set, wm_magazine *m,
                                   enum wm_part part)
{
    unsigned count = wm_magazine_sift(set, m, wm_magazine_count(m));
    unsigned oldest = part == WM_ALL ? count : (count + 1) / 2;

    if (oldest > 0) {
        (void)put_blocks_locked(set, m, set->arena, oldest);
        wm_magazine_supply(set, m)->batch = 1;
    }
    return oldest;
}

uint64_t wm_cache_flush_locked(wm_magazine_set *set, enum wm_part part)
{
    uint64_t blocks = 0;

    for (unsigned i = 0; i < set->classes; i++) {
        blocks += flush_class_locked(set, &set->of[set->in_use[i]], part);
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

/* Puts entries of a class into the transfer caches of their arenas, as far as
 * there is room; returns how many are left. The entries after them move up. */
static unsigned transfer(wm_magazine_set *set, wm_magazine *m, unsigned first)
{
    unsigned size_class = (unsigned)(m - set->of), left = 0, end;
    wm_entry *entry = wm_magazine_first(m);

    for (unsigned i = 0; i < first; i = end) {
        wm_arena *arena = arena_of(&entry[i]);
        unsigned put;

        end = i + 1;
        while (end < first && arena_of(&entry[end]) == arena) {
            end++;
        }
        put = wm_transfer_put(&arena->transfer_cache.of[size_class], entry + i,
                              end - i);
        memmove(entry + left, entry + i + put, (end - i - put) * sizeof *entry);
        left += end - i - put;
    }
    memmove(entry + left, entry + first,
            (wm_magazine_count(m) - first) * sizeof *entry);
    wm_magazine_recount(set, m, (int64_t)left - first);
    return left;
}

void wm_magazine_flush(wm_magazine_set *set, wm_magazine *m, unsigned oldest)
{
    unsigned left = wm_magazine_sift(set, m, oldest);

    if (set->lane == NULL &&
        m->bytes <= set->transfer_max) { /* else the blocks are of a stream */
        left = transfer(set, m, left);
    }
    /* One pass for each arena that has blocks among them. */
    while (left > 0) {
        wm_arena *arena = arena_of(wm_magazine_first(m));

        wm_lock_acquire(&arena->lock);
        left = put_blocks_locked(set, m, arena, left);
        wm_lock_release(&arena->lock);
    }
    wm_magazine_supply(set, m)->batch = 1;
}

void wm_cache_put_back(const wm_magazine_set *set, wm_block *block)
{
    wm_arena *home = block->segment->arena;
    const wm_entry entry = {block, block->base};

    if (set->lane != NULL || (int64_t)block->bytes > set->transfer_max ||
        wm_transfer_put(&home->transfer_cache.of[block->size_class], &entry,
                        1) == 0) {
        wm_lock_acquire(&home->lock);
        wm_arena_put_locked(home, block);
        wm_lock_release(&home->lock);
    }
}

static int64_t bytes_of(const wm_magazine *m)
{
    return (int64_t)wm_magazine_count(m) * m->bytes;
}

/* Flushes the older half of each class of a doubling; false: it has no blocks.
 */
static bool halve(wm_magazine_set *set, unsigned doubling)
{
    wm_magazine *m = &set->of[(size_t)doubling * DOUBLING];
    bool any = false;

    for (const wm_magazine *end = m + DOUBLING; m < end; m++) {
        if (wm_magazine_count(m) > 0) {
            wm_magazine_flush(set, m, (wm_magazine_count(m) + 1) / 2);
            any = true;
        }
    }
    return any;
}

/* The doubling that has most bytes of the set; they are not 0. Looks at large
 * classes first, and no further once the rest of the bytes cannot be more. */
static unsigned find_largest(const wm_magazine_set *set)
{
    unsigned i = WM_CLASSES / DOUBLING, best = 0;
    int64_t most = 0, left = wm_magazine_set_bytes(set);

    while (i-- > 0 && most < left) {
        const wm_magazine *m = &set->of[(size_t)i * DOUBLING];
        int64_t bytes = 0;

        for (int k = 0; k < DOUBLING; k++) {
            bytes += bytes_of(&m[k]);
        }
        left -= bytes;
        if (bytes > most) {
            most = bytes;
            best = i;
        }
    }
    return best;
}

void wm_cache_evict(wm_magazine_set *set, int64_t most)
{
    while (wm_magazine_set_bytes(set) > most && halve(set, find_largest(set))) {
    }
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
    wm_magazine_recount(set, m, -1);
    wm_arena_put_locked(block->segment->arena, block);
}

/* Flushes the largest class below *end that has blocks, which *end becomes.
 * Returns how many blocks; 0: there is no such class. */
static unsigned flush_next_locked(wm_magazine_set *set, unsigned *end)
{
    unsigned count = 0;

    while (count == 0 && *end > 0) {
        count = flush_class_locked(set, &set->of[--*end], WM_ALL);
    }
    return count;
}

uint64_t wm_cache_trade(wm_magazine_set *set, size_t bytes, wm_block **block)
{
    wm_arena *arena = set->arena;
    uint64_t blocks = wm_cache_flush_siblings(set);
    unsigned end = WM_CLASSES, count;

    if (blocks > 0) {
        *block = wm_arena_take_or_steal(arena, set->lane, bytes, NULL);
    }
    if (*block != NULL) {
        return blocks;
    }
    wm_lock_acquire(&arena->lock);
    while (*block == NULL && (count = flush_next_locked(set, &end)) > 0) {
        blocks += count;
        *block = wm_arena_take_locked(arena, wm_magazine_set_lane(set, arena),
                                      bytes, WM_SPLIT_NO_JOIN, NULL);
    }
    if (*block == NULL && set->lane != NULL) {
        *block =
            wm_arena_take_locked(arena, set->lane, bytes, WM_SPLIT_ALLOW, NULL);
    }
    arena->stats.cache_hits += *block != NULL;
    wm_lock_release(&arena->lock);
    return blocks;
}
