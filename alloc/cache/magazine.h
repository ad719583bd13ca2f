/* magazine.h: blocks that a thread keeps ready for itself, by size class.
 *
 *   alloc hit   window ─► set ─► magazine of the class ─► last entry
 *   free hit    window's guess, or page map ─► block: live, and of this set?
 *               ─► becomes an entry
 *   miss        an arena's lock, once: several blocks in, or the older half out
 *
 * A hit takes no lock, makes no read-modify-write and calls nothing: it is a
 * hit of the window's section (runtime/thread/section.h). Everything else is
 * done with the section locked, and under it the lock of the arena.
 *
 * States. A cached block is CACHED and a live one LIVE, with the number of the
 * set above (block.h). A number is never used twice, so that a block that
 * outlives its set belongs to nobody: its free takes the slow path, as that by
 * another thread does, which claims it LIVE → FREEING.
 *
 * A pointer freed twice. One after the other: the second finds no live block,
 * and is refused. Two threads at the same time: of two slow paths one claims
 * the block. A hit claims it too if the thread recorded a stream. Else it does
 * not; where it and a slow path both find the block live, within the few
 * instructions that a hit takes, both keep it, but the state says who was last:
 * an entry whose state is not that of its set is dropped when it comes up. What
 * is not detected, as in every allocator: a second free after the block was
 * handed out again; and one thread that is stopped in the middle of a hit while
 * the other frees the same block and hands it out again.
 *
 * Bounds. A class keeps magazine_blocks at most, and all together keep
 * magazine_bytes. A class that is full gives its older half to the arena's
 * depot (transfer_cache.h), where those that miss look first; when the bytes
 * are full every class does, to the arena, so that what is not used any more
 * leaves. A class that misses gets one block, then two, four …, while it is
 * among the few that keep missing: with many sizes in use what one of them is
 * given ahead is what another has to cut from larger runs. Memory is taken back
 * from all sets before a space grows; see space/reclaim.c.
 *
 * Figures. A set counts for itself, as a thread would on paper: the number of
 * entries tells how many blocks went to callers since it settled with the
 * arena, which it does for a reader. What callers have at most is told by what
 * sets claim: live.h. */
#ifndef WM_MAGAZINE_H
#define WM_MAGAZINE_H

#include "alloc/arena/arena_stats.h"
#include "alloc/cache/pending.h"
#include "alloc/block/page_map.h"
#include "runtime/thread/window.h"

struct wm_arena_group;

/* Rent or buy. To take memory back costs now, and its owners miss later; to
 * grow costs page-locking, and memory held. Costs are counted in blocks taken
 * back, getting there as RECLAIM_PRICE of them, a visit to a window as
 * VISIT_PRICE (a barrier, and another thread stands still): once they come to
 * what a growth costs, a price for each segment of it, one growth goes before
 * the next reclaim. Page-locking 4 MiB takes 2 ms: on the host device two
 * threads got warm soonest at a price of 512, at 256 and 2,048 they took 6 %
 * and 25 % longer. A device has less memory than time: at 8,192 a trace of the
 * bench holds 5 % more. */
enum {
    WM_GROWTH_PRICE = 512,
    WM_DEVICE_PRICE = 16384,
    WM_RECLAIM_PRICE = 8,
    WM_VISIT_PRICE = 16
};
struct wm_request;

/* What a thread may still hand out before it claims more (live.h), of small or
 * of large requests. Relaxed: others ask whether a visit is worth it. */
typedef struct wm_room {
    _Atomic int64_t bytes; /* of the entries */
    _Atomic int64_t low;   /* those may not become less: room is what is above;
                              a free that is not cached lowers it, too */
    int64_t high;          /* nor more, by a hit */
    _Atomic int64_t blocks, requested;
} wm_room;

/* A line. Of the section, but for what is const. Before the first entry lies
 * one of no block: what a hit finds where there is none is not its set's. A
 * class that the thread has not used has no room: hits miss, and what goes over
 * a set looks at those in use only. Room is made at the first use of a class,
 * and stays with the set. */
typedef struct wm_magazine {
    _Alignas(64) wm_entry *top; /* after the last entry, which goes first */
    wm_entry *end;              /* of its room */
    int64_t bytes;              /* const: of a block */
    /* Bytes asked for in blocks handed out since it settled, and in those that
     * came back; and those blocks. (Not side by side: the compiler would add to
     * both at once, which takes it longer.) */
    uint64_t alloc_bytes, free_bytes, allocs;
    uint32_t room;        /* most entries, or 0: not in use */
    uint32_t room_offset; /* const: where in the set its wm_room is */
} wm_magazine;

/* What only misses look at. */
typedef struct wm_supply {
    int32_t base;    /* entries as of when it settled, less the frees that were
                        not cached, and more by what came since */
    int32_t claimed; /* of the class; at least base */
    uint16_t batch;  /* blocks that the next miss gets */
    uint16_t missed_at; /* misses of the set at the last one, as it wraps */
    wm_entry *entries;  /* its room, after one of no block; null: the set was
                           never used for the class */
} wm_supply;

typedef struct wm_magazine_set {
    /* First, so that hits find a class without a sum more. */
    _Alignas(64) wm_magazine of[WM_CLASSES];
    wm_state cached, live; /* of its blocks; changed between threads */
    int64_t bytes_max;     /* const */
    wm_room rooms[2];      /* small and large; all large, if not for a lane */
    unsigned sharers;      /* sets of the thread in the space, this one too */
    /* Bytes that the arenas had ever got, and what has passed beyond a multiple
     * of those that came since. */
    uint64_t grown;
    int64_t completed;
    int64_t completed_max; /* bytes of it that may stay, when looked at last, */
    unsigned batches;      /* and batches since then */
    bool footprint_stable; /* much has: what passes is kept here */
    uint64_t stale;        /* entries that somebody else had freed as well */
    wm_arena *arena; /* where it is filled, and its figures go; its blocks are
                        of that or a sibling */
    const struct wm_arena_group *group; /* const: whose arenas these are */
    uint16_t misses;
    uint16_t self_served;       /* see carve.c */
    uint16_t locked, contended; /* of the arena's lock; times it was held */
    uint8_t classes;            /* in use, numbers of which follow */
    uint8_t in_use[WM_CLASSES];
    bool used; /* since it was looked at for age */
    /* For the memory of a stream (stream_slot.h), else null and 0: whose
     * blocks these are. */
    wm_lane *lane;
    struct wm_magazine_set *next; /* of spare sets: wm_space.spare_sets */
    /* Atomic, relaxed: peeked at, perhaps when another thread has the set. */
    _Atomic uint64_t number;
    /* Null: the thread has gathered nothing; and of a lane. Release and
     * acquire: others peek at it. */
    _Atomic(wm_pending *) pending;
    wm_supply supply[WM_CLASSES];
} wm_magazine_set;

/* Null: there is none. Acquire pairs with the release of the owner. */
static inline wm_pending *wm_magazine_set_pending(const wm_magazine_set *set)
{
    return atomic_load_explicit(&set->pending, memory_order_acquire);
}

static inline wm_entry *wm_magazine_first(const wm_magazine *m)
{
    return m->end - m->room;
}

static inline uint32_t wm_magazine_count(const wm_magazine *m)
{
    return (uint32_t)(m->top - wm_magazine_first(m));
}

/* Of all entries. */
static inline int64_t wm_magazine_set_bytes(const wm_magazine_set *set)
{
    return atomic_load_explicit(&set->rooms[0].bytes, memory_order_relaxed) +
           atomic_load_explicit(&set->rooms[1].bytes, memory_order_relaxed);
}

/* ---- misses ------------------------------------------------------------ */

/* What a miss came to. */
enum wm_refill {
    WM_REFILL_DONE,   /* a block */
    WM_REFILL_MISSED, /* the arena has none either */
    WM_REFILL_NONE    /* no magazines for this thread, size or node */
};

/* A LIVE block for the calling thread, if one is idle: as a hit where only the
 * section was closed, else with others of its class from the arena. */
enum wm_refill wm_cache_refill(struct wm_arena_group *group,
                               const struct wm_request *request,
                               enum wm_split split, wm_block **block);

/* A LIVE block that the arena handed out for the request is the calling
 * thread's. */
void wm_cache_tag_block(struct wm_arena_group *group,
                        const struct wm_request *request, wm_block *block);

/* Takes a FREEING block without uses; false: not one for magazines.
 */
bool wm_cache_free(struct wm_arena_group *group, wm_block *block);

/* Counts the free of a FREEING block that is not to be cached. */
void wm_cache_count_free(struct wm_arena_group *group, wm_block *block);

/* The arena of a node that the calling thread is to use, which has none of its
 * own yet if it cannot have a set. */
wm_arena *wm_cache_arena(struct wm_arena_group *group, int node);

/* The set of the calling thread for a space that is not laned, made if there is
 * none, with its section locked by *mine; or null. */
wm_magazine_set *wm_cache_lock_mine(struct wm_arena_group *group,
                                    wm_window **mine);

/* With the section: takes PENDING blocks that no queue has any more, chained by
 * next_done. Returns those that find no room, or are to be kept. */
wm_block *wm_cache_add_completed(wm_magazine_set *set, wm_block *chain);

/* The same of a batch of the set's own, GATHERED but for what the arena was
 * told of; the rest goes where it belongs. */
void wm_cache_add_pending_batch(wm_magazine_set *set,
                                const wm_pending_batch *batch);

/* After an allocation that was no hit: the peaks of what callers have. No lock
 * held. */
void wm_cache_raise_peaks(struct wm_arena_group *group);
/* Those become what callers have. No lock held. */
void wm_cache_reset_peaks(struct wm_arena_group *group);

/* Settles what all threads have counted, and takes their room, for a reader. */
void wm_cache_merge_stats(struct wm_arena_group *group);
/* The same, and calls read before any of them goes on: what arenas have counted
 * is all there is then, but for calls that need no magazine. read: takes no
 * lock below that of arenas. No lock held. */
void wm_cache_merge_stats_and_read(struct wm_arena_group *group,
                                   void (*read)(void *context), void *context);

/* Gives what the threads keep back to the arena. */
void wm_cache_flush_all(struct wm_arena_group *group);
/* Of those threads only that neither allocated nor freed since the last call.
 */
void wm_cache_flush_idle(struct wm_arena_group *group);

/* What a thread keeps of a group, by its window. */
int64_t wm_cache_bytes_of(const wm_window *window,
                          const struct wm_arena_group *group);

/* Whether the calling thread's memory has been steady for long. */
bool wm_cache_is_footprint_stable(const struct wm_arena_group *group);

/* What growing by so many bytes costs. */
uint64_t wm_cache_growth_cost(const struct wm_arena_group *group, size_t bytes);

/* A LIVE block, the calling thread's, for a request that misses, out of what
 * the thread keeps in the order of the request's stream: cut from one that is
 * larger, or some side by side; or null, if growth is the better deal by now,
 * and now and then, for others to be asked. Calls no driver. */
wm_block *wm_cache_take_own(struct wm_arena_group *group,
                            const struct wm_request *request);
/* After others were asked: from a larger one, also of memory that is in no
 * stream's order and has been steady for long; and as above. */
wm_block *wm_cache_take_larger(struct wm_arena_group *group,
                               const struct wm_request *request);
wm_block *wm_cache_take_row(struct wm_arena_group *group,
                            const struct wm_request *request);

/* Ends the window's sets: their blocks go back to the arenas, and the space
 * keeps the sets for other threads. For warm_runtime.window_empty. */
void wm_cache_end(warm_runtime *runtime, wm_window *window);

/* Frees the spare sets of a group, which threads left that have gone: all but
 * WM_SETS_KEPT, for threads to come. */
enum { WM_SETS_KEPT = 16 };
void wm_cache_trim(struct wm_arena_group *group);
/* All of them, at its end. */
void wm_cache_fini(struct wm_arena_group *group);

#endif
