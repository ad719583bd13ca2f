/* magazine.h: the contract of the thread cache: a thread's own blocks, by size
 * class, in magazines.
 *
 *   alloc hit   window ─► set ─► magazine of the class ─► last entry
 *   free hit    pointer cache or page map ─► block: LIVE, and of this set?
 *               ─► becomes the last entry
 *   miss        a larger cached block, or the transfer cache: no lock either;
 *               else lock arena, once: refill with a batch
 *
 * The window's biased lock guards its caches (runtime/thread/biased_lock.h). A
 * hit enters it: no lock, no read-modify-write, no call. Every other function
 * here locks it, then lock arena.
 *
 * States. A cached block is CACHED and a block that a caller holds is LIVE; the
 * number of the set is stored above the state (block.h). A number is never used
 * twice, so that a block that outlives its set belongs to no set: its free
 * takes the slow path, as a free by another thread does, and claims it LIVE →
 * FREEING.
 *
 * Double frees. If the two frees follow each other, the second one finds no
 * LIVE block and is refused. If two threads free at the same time on the slow
 * path, one of them claims the block. A hit claims the block only if the thread
 * recorded a stream on it. If another hit and a slow path both find the block
 * LIVE, within the few instructions of the hit, both add it; the state names
 * the last writer, and an entry whose state does not name its set is dropped
 * when it reaches the top. Two cases stay undetected, as in every allocator:
 * the second free comes after the block was allocated again; and a thread is
 * preempted inside a hit while another thread frees the same block and the
 * block is allocated again.
 *
 * Bounds. A set holds its part of what all threads may cache together
 * (economy.h), at most magazine_bytes, and no block larger than a WM_BLOCK_PART
 * of that; a magazine holds at most magazine_blocks. A set with more than its
 * part evicts the older half of each magazine of the doubling of sizes that has
 * most bytes, until it has an eighth less; a full magazine flushes its older
 * half. These blocks, and those that are too large for the set, go to the
 * arena's transfer cache (transfer_cache.h), where the next misses look first,
 * or if they are too large for that, to the arena. A miss refills one block,
 * then two, four …, while the class is among the few that keep missing: with
 * many sizes in use, a block cached ahead for one class has to be split from a
 * larger run by another. Before a space grows above its bound it reclaims
 * blocks from the sets of all threads (space/reclaim.c); the set of a thread
 * that does nothing is flushed (wm_cache_sweep()).
 *
 * Counting. A set counts in plain fields. The number of entries shows how many
 * blocks callers allocated since the counts were last merged into the arena;
 * they are merged when statistics are read. Peaks are bounded by the room that
 * sets claim (live.h): at most WM_ROOM_BLOCKS blocks and WM_ROOM_BYTES of a
 * space for each thread, divided among the sets that it has there. */
#ifndef WM_MAGAZINE_H
#define WM_MAGAZINE_H

#include "alloc/arena/arena.h"
#include "alloc/arena/group.h"
#include "alloc/cache/pending.h"
#include "alloc/block/page_map.h"
#include "runtime/thread/window.h"

/* The room of a set, and the bytes that it caches, in one word:
 *
 *    63           32 31     24 23             0
 *   ├─── base (±) ───┼─ blocks ─┼─── grains ───┤   of WM_GRAIN bytes
 *
 * The thread may allocate so many blocks and grains before it has to claim
 * more. The set caches base + grains. So a hit changes both by one addition of
 * a block (wm_magazine.one), and one test of wm_magazine_set.beyond shows
 * whether a field is then out of its bounds, which are powers of two, or has
 * borrowed from the next one; if so, the hit stores nothing and is a miss. base
 * is bounded as well (magazine_room.c), so that within these bounds no hit
 * fills the set beyond its bytes. */
enum { WM_ROOM_BLOCKS = 64, WM_ROOM_BYTES = 2 << 20, WM_ROOM_SHIFT = 24 };

/* One cache line; guarded by the window, but for const fields. Before the first
 * entry lies an entry of no block, whose state no set has: a hit on an empty
 * magazine finds that entry and misses. A class that the thread has not used
 * has no entries: hits miss, and loops over a set visit only the classes in
 * use. Entries are allocated at the first use of a class and stay with the
 * set. */
typedef struct wm_magazine {
    /* after the last entry, which is allocated first */
    _Alignas(64) wm_entry *top;
    wm_entry *end; /* of the entries */
    int64_t bytes; /* const: of one block */
    /* Requested bytes of the blocks allocated and of the blocks freed since the
     * last merge, and the number of allocations. (Not adjacent: the compiler
     * would add to both in one vector operation, which is slower.) */
    uint64_t alloc_bytes, free_bytes, allocs;
    uint64_t one;  /* const: one block in a room, and its grains */
    uint32_t room; /* capacity in entries; 0: not in use */
} wm_magazine;

/* The part of a magazine that only misses use. */
typedef struct wm_supply {
    /* entries at the last merge, less frees that were not cached, plus entries
     * added without a caller */
    int32_t base;
    uint16_t batch;     /* blocks of the next refill */
    uint16_t missed_at; /* set->misses at the last miss, modulo 2^16 */
    /* allocated entries, after one of no block; null: the class was never
     * used */
    wm_entry *entries;
} wm_supply;

typedef struct wm_magazine_set {
    /* First, so that a hit finds the magazine without adding an offset. */
    _Alignas(64) wm_magazine of[WM_CLASSES];
    /* states of the set's blocks; a new number changes them */
    wm_state cached, live;
    /* Its room. Atomic, relaxed: other threads read from it what is cached, to
     * decide whether a visit is worth it. */
    _Atomic uint64_t has;
    uint32_t beyond; /* bits that are 0 in a room within its bounds */
    uint32_t grains_max, blocks_max; /* these bounds */
    int64_t bytes_max;               /* its part in the budget (economy.h) */
    /* its largest block; relaxed: the owner reads it without a lock */
    _Atomic int64_t block_max;
    int64_t transfer_max; /* the largest block it puts into transfer caches */
    wm_share share;
    uint32_t slow; /* misses and overflows since the last budget */
    /* The magazine of the last request for which a hit found no block, neither
     * in magazines nor in transfer caches; null since the next miss. */
    const struct wm_magazine *empty;
    /* sets that the thread has in the space, this one too */
    unsigned sharers;
    /* entries dropped since another thread freed the block too */
    uint64_t stale;
    /* home arena: refills come from it and counts go to it; the set's blocks
     * are of this arena or of a sibling */
    wm_arena *arena;
    wm_arena_group *group; /* const: the group of all its arenas */
    uint16_t misses;
    /* lock arena taken by refills; of these, those at which another thread held
     * it */
    uint16_t locked, contended;
    uint8_t classes; /* number of entries of in_use */
    uint8_t in_use[WM_CLASSES];
    bool used; /* allocated or freed since the last idle flush */
    /* The lane whose blocks these are, if the set is of a stream
     * (stream_slot.h); else null. */
    wm_lane *lane;
    struct wm_magazine_set *next; /* of spare sets: wm_arena_group.spare_sets */
    /* Atomic, relaxed: other threads read it, perhaps after the set has gone to
     * another thread. */
    _Atomic uint64_t number;
    /* Null: the thread has batched no free; always null in a set of a stream.
     * Stored with release and loaded with acquire: other threads read it. */
    _Atomic(wm_pending *) pending;
    wm_supply supply[WM_CLASSES];
} wm_magazine_set;

/* Null: not made. Acquire pairs with the release in wm_pending_attach(). */
static inline wm_pending *wm_magazine_set_pending(const wm_magazine_set *set)
{
    return atomic_load_explicit(&set->pending, memory_order_acquire);
}

static inline int64_t wm_magazine_set_block_max(const wm_magazine_set *set)
{
    return atomic_load_explicit(&set->block_max, memory_order_relaxed);
}

static inline wm_entry *wm_magazine_first(const wm_magazine *m)
{
    return m->end - m->room;
}

static inline uint32_t wm_magazine_count(const wm_magazine *m)
{
    return (uint32_t)(m->top - wm_magazine_first(m));
}

/* Fields of a room. */
static inline int64_t wm_room_grains(uint64_t room)
{
    return (int64_t)(room % (1u << WM_ROOM_SHIFT));
}

static inline int64_t wm_room_blocks(uint64_t room)
{
    return (int64_t)((uint32_t)room >> WM_ROOM_SHIFT);
}

static inline int64_t wm_room_cached(uint64_t room)
{
    return (int32_t)(room >> 32) + wm_room_grains(room);
}

/* Bytes of all entries. */
static inline int64_t wm_magazine_set_bytes(const wm_magazine_set *set)
{
    return wm_room_cached(
               atomic_load_explicit(&set->has, memory_order_relaxed)) *
           WM_GRAIN;
}

/* ---- misses, and frees that are no hits ---------------------------------- */

/* Result of a refill. */
enum wm_refill {
    WM_REFILL_DONE,   /* a block was allocated */
    WM_REFILL_MISSED, /* the arena has no fitting block either */
    WM_REFILL_NONE    /* the thread has no magazine for this size or node */
};

/* Allocates a LIVE block for the calling thread: from its magazine, if a visit
 * alone prevented the hit; else refills the magazine from the arena. split: the
 * split policy of the arena. */
enum wm_refill wm_cache_refill(wm_arena_group *group, const wm_request *request,
                               enum wm_split split, wm_block **block);

/* Tags a LIVE block, which the arena allocated for the request, as the calling
 * thread's: its free may be a hit. */
void wm_cache_tag_block(wm_arena_group *group, const wm_request *request,
                        wm_block *block);

/* After a miss: allocates a LIVE block for the request from the blocks that the
 * calling thread caches: splits a larger one, or (merge) merges adjacent ones.
 * Null: no block. Calls no driver. */
wm_block *wm_cache_carve(wm_arena_group *group, const wm_request *request,
                         bool merge);

/* Caches a block, FREEING or seen by no caller yet, without recorded streams.
 * False: it fits no magazine. */
bool wm_cache_free(wm_arena_group *group, wm_block *block);

/* Counts the free of a FREEING block that will not be cached. */
void wm_cache_count_free(wm_arena_group *group, wm_block *block);

/* ---- the calling thread's caches ----------------------------------------- */

/* The arena of a node that the thread is to use. A thread that cannot have a
 * set gets one by the hash of its id. */
wm_arena *wm_cache_arena(wm_arena_group *group, int node);

/* Locks *mine, the thread's window, and returns its set for a request; begins a
 * set if there is none. request: null for a group that is not laned; a laned
 * group then has no set. Null: no set, nothing is locked. */
wm_magazine_set *wm_cache_lock_for(wm_arena_group *group,
                                   const wm_request *request, wm_window **mine);

/* Ends a window's sets: their blocks go back to the arenas, and the group
 * caches the sets for other threads. For warm_runtime.window_empty. */
void wm_cache_end(warm_runtime *runtime, wm_window *window);

/* The function of warm_runtime.window_may_wait. */
bool wm_cache_may_wait(warm_runtime *runtime, wm_window *window);

/* ---- the caches of all threads: no lock held ----------------------------- */

/* Resets the peaks to what callers hold now. */
void wm_cache_reset_peaks(wm_arena_group *group);

/* For tests: false if the caches contradict their counts. No other thread is
 * inside. */
bool wm_cache_check(wm_arena_group *group);
/* Merges the counts of all threads into their arenas and returns their room,
 * for a reader of statistics. */
void wm_cache_merge_stats(wm_arena_group *group);
/* Merges the counts as above, then calls read while no visited thread can use
 * its caches: the arenas' counts are then complete, except for concurrent calls
 * that use no magazine. read takes no lock below those of arenas. */
void wm_cache_merge_stats_and_read(wm_arena_group *group,
                                   void (*read)(void *context), void *context);

/* Flushes the sets of all threads to the arenas. */
void wm_cache_flush_all(wm_arena_group *group);
/* Flushes the sets of threads that had no use of them for a period (economy.h),
 * nor a hit since the last call. */
void wm_cache_sweep(wm_arena_group *group);
/* Flushes the sets of threads that neither allocated nor freed since the last
 * call. */
void wm_cache_flush_idle(wm_arena_group *group);

/* Frees the spare sets of a group beyond WM_SETS_KEPT, which stay for new
 * threads, and the slots of these for streams. */
enum { WM_SETS_KEPT = 16 };
void wm_cache_trim(wm_arena_group *group);
/* Frees all spare sets, when the group ends. */
void wm_cache_fini(wm_arena_group *group);

/* ---- for space/reclaim.c: the caller has locked the window --------------- */

/* Iterates over a window's sets of a group: *at begins with 0; null: the end.
 * If the window is not locked, the sets may only be read. */
static inline wm_magazine_set *wm_cache_next_set(const wm_window *window,
                                                 const wm_arena_group *group,
                                                 unsigned *at)
{
    /* Relaxed: by the owner, or under lock windows, under which sets begin. */
    if (!group->laned) {
        return (*at)++ == 0 ? atomic_load_explicit(&window->magazines,
                                                   memory_order_relaxed)
                            : NULL;
    }
    while (*at < WM_STREAM_SLOTS) {
        wm_magazine_set *set = atomic_load_explicit(&window->slot[(*at)++].set,
                                                    memory_order_relaxed);

        if (set != NULL && set->group == group) {
            return set;
        }
    }
    return NULL;
}

/* Bytes that a window caches of a group; it need not be locked. */
int64_t wm_cache_bytes_of(const wm_window *window, const wm_arena_group *group);

/* Flushes half or all of each class, and all blocks of siblings of the home
 * arena. Returns the number of blocks. */
enum wm_part { WM_HALF, WM_ALL };
uint64_t wm_cache_flush(wm_magazine_set *set, enum wm_part part);

/* Flushes class after class, the largest blocks first, until the arena has a
 * LIVE block for a request, in *block. Returns the number of blocks flushed. */
uint64_t wm_cache_trade(wm_magazine_set *set, size_t bytes, wm_block **block);

/* Allocate *block, a LIVE block for the request: split from the smallest
 * sufficient cached block; or merged from as few adjacent blocks as possible
 * and the idle runs between them. *block stays null if there is none. Return
 * the number of blocks flushed for it. */
uint64_t wm_cache_split_larger(wm_magazine_set *set, const wm_request *request,
                               wm_block **block);
uint64_t wm_cache_merge_row(wm_magazine_set *set, const wm_request *request,
                            wm_block **block);

#endif
