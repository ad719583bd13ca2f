/* magazine.h: blocks that a thread keeps ready for itself, by size class.
 *
 *   alloc hit   window ─► set ─► magazine of the class ─► last entry
 *   free hit    page map ─► block: live, and of this set? ─► becomes an entry
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
 * the block. The hit does not claim; where it and a slow path both find the
 * block live, within the few instructions that a hit takes, both keep it, but
 * the state says who was last: an entry whose state is not that of its set is
 * dropped when it comes up. What is not detected, as in every allocator: a
 * second free after the block was handed out again; and one thread that is
 * stopped in the middle of a hit while the other frees the same block and
 * hands it out again.
 *
 * Bounds. A class keeps magazine_blocks at most, and all together keep
 * magazine_bytes. A class that is full gives its older half to the arena's
 * depot (depot.h), where those that miss look first; when the bytes are full
 * every class does, to the arena, so that what is not used any more leaves. A
 * class that misses gets one block, then two, four …, while it is
 * among the few that keep missing: with many sizes in use what one of them is
 * given ahead is what another has to cut from larger runs. Memory is taken back
 * from all sets before a space grows; see wm_magazines_reclaim().
 *
 * Figures. A set counts for itself, as a thread would on paper: the number of
 * entries tells how many blocks went to callers since it settled, the lowest
 * number how many they were at most. It settles with the arena, class and sums,
 * each time it takes or gives blocks. */
#ifndef WM_MAGAZINE_H
#define WM_MAGAZINE_H

#include "alloc/arena_stats.h"
#include "alloc/gather.h"
#include "alloc/page_map.h"
#include "runtime/thread/window.h"

struct wm_space;
struct wm_request;

/* 64 bytes. Of the section, but for what is const. Before the first entry lies
 * one of no block: what a hit finds where there is none is not its set's. A
 * class that the thread has not used has no room: hits miss, and what goes over
 * a set looks at those in use only. */
typedef struct wm_magazine {
    wm_entry *top; /* after the last entry, which goes first */
    wm_entry *end; /* of its room */
    /* Address of top where most blocks were with callers since it settled. A
     * free that is not cached lowers it, as if one more were to come. */
    intptr_t low;
    /* Bytes asked for in blocks that were handed out, and that came back,
     * since; and their difference where it was highest. (Not beside allocs, or
     * the compiler adds to both in a vector, and waits for both.) */
    uint64_t taken, given;
    uint64_t allocs; /* handed out since it settled */
    int64_t most_asked;
    uint32_t bytes; /* const: of a block */
    uint32_t room;  /* most entries, or 0: not in use */
} wm_magazine;

/* What only misses look at. */
typedef struct wm_supply {
    int32_t base;       /* entries as of when it settled, less the frees that
                           were not cached */
    uint16_t batch;     /* blocks that the next miss gets */
    uint16_t missed_at; /* misses of the set at the last one, as it wraps */
    uint16_t room;      /* const: once it is in use */
    uint32_t first;     /* const: of the set's entries, where its room begins */
} wm_supply;

typedef struct wm_magazines {
    wm_state cached, live; /* of its blocks; changed between threads */
    int64_t bytes_max;     /* const */
    /* Of all classes, as in a magazine. bytes: atomic, relaxed, for others
     * who ask whether a visit is worth it. */
    _Atomic int64_t bytes;
    int64_t bytes_low, count, count_low, asked, most_asked;
    int64_t bytes_base, count_base;
    /* Bytes that the arenas had ever got, and what has passed beyond a multiple
     * of those that came since. */
    uint64_t grown;
    int64_t passed;
    bool steady;     /* much has: what passes is kept here */
    uint64_t stale;  /* entries that somebody else had freed as well */
    wm_arena *arena; /* where it is filled, and its figures go; its blocks are
                        of that or a sibling */
    uint16_t misses;
    uint16_t takings, met; /* of the arena's lock; times it was held */
    uint8_t classes;       /* in use, numbers of which follow */
    uint8_t in_use[WM_CLASSES];
    bool used; /* since it was looked at for age */
    /* For the memory of a stream (magazine_lane.h), else null and 0: whose
     * blocks these are, and which of them are large. */
    wm_lane *lane;
    uint64_t lane_made;
    size_t small_max;
    wm_tally sort[2];          /* small and large, since it settled */
    struct wm_magazines *next; /* lock arena: spare sets */
    /* Atomic, relaxed: peeked at, perhaps when another thread has the set. */
    _Atomic uint64_t number;
    wm_gather gather;
    _Alignas(64) wm_magazine of[WM_CLASSES];
    wm_supply supply[WM_CLASSES];
    wm_entry entries[];
} wm_magazines;

static inline wm_entry *wm_magazine_first(const wm_magazine *m)
{
    return m->end - m->room;
}

static inline uint32_t wm_magazine_count(const wm_magazine *m)
{
    return (uint32_t)(m->top - wm_magazine_first(m));
}

static inline int64_t wm_magazines_bytes(const wm_magazines *set)
{
    return atomic_load_explicit(&set->bytes, memory_order_relaxed);
}

static inline void wm_magazines_set_bytes(wm_magazines *set, int64_t bytes)
{
    atomic_store_explicit(&set->bytes, bytes, memory_order_relaxed);
}

/* A magazine's address is made once, and not again for each of its fields. */
#define WM_ONE_ADDRESS(m) __asm__("" : "+r"(m))

/* ---- hits: the caller is in the section ------------------------------- */

/* The figures of a block that goes to a caller, and was the last entry. Each is
 * a load, a sum and a store; that there is a new extreme is rare. */
static inline __attribute__((always_inline)) void
wm_magazine_note_take(wm_magazines *set, wm_magazine *m, wm_entry *top,
                      size_t requested)
{
    uint64_t taken = m->taken + requested;
    int64_t bytes = wm_magazines_bytes(set) - m->bytes;
    int64_t count = set->count - 1;
    int64_t asked = set->asked + (int64_t)requested;

    m->top = top;
    if (wm_unlikely((intptr_t)top < m->low)) {
        m->low = (intptr_t)top;
    }
    m->allocs++;
    m->taken = taken;
    if (wm_unlikely((int64_t)(taken - m->given) > m->most_asked)) {
        m->most_asked = (int64_t)(taken - m->given);
    }
    wm_magazines_set_bytes(set, bytes);
    if (wm_unlikely(bytes < set->bytes_low)) {
        set->bytes_low = bytes;
    }
    set->count = count;
    if (wm_unlikely(count < set->count_low)) {
        set->count_low = count;
    }
    set->asked = asked;
    if (wm_unlikely(asked > set->most_asked)) {
        set->most_asked = asked;
    }
}

/* A block of 1 … WM_CLASS_LIMIT bytes, or null. Its entry is free, and as it
 * was. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop(wm_magazines *set, size_t bytes)
{
    wm_magazine *m = &set->of[wm_size_class_fixed(bytes)];
    wm_entry *entry;
    wm_block *block;

    WM_ONE_ADDRESS(m);
    entry = m->top - 1;
    block = entry->block;

    /* Relaxed: written by this thread, or before the section was ours. */
    if (wm_unlikely(atomic_load_explicit(&block->state, memory_order_relaxed) !=
                    set->cached)) {
        return NULL;
    }
    wm_block_set_requested(block, bytes);
    /* Release pairs with the acquire of look-ups: fields before state. */
    atomic_store_explicit(&block->state, set->live, memory_order_release);
    wm_magazine_note_take(set, m, entry, bytes);
    return entry;
}

/* Takes a block back from its caller; false: there is no room. */
static inline __attribute__((always_inline)) bool
wm_magazine_push(wm_magazines *set, wm_block *block, char *base)
{
    wm_magazine *m = &set->of[block->size_class];
    size_t requested = wm_block_requested(block);
    wm_entry *top;
    int64_t bytes;

    WM_ONE_ADDRESS(m);
    top = m->top;
    bytes = wm_magazines_bytes(set) + m->bytes;

    if (wm_unlikely(top == m->end) || wm_unlikely(bytes > set->bytes_max)) {
        return false;
    }
    top->block = block;
    top->base = base;
    m->top = top + 1;
    m->given += requested;
    wm_magazines_set_bytes(set, bytes);
    set->count++;
    set->asked -= (int64_t)requested;
    /* Relaxed: who takes it out has the section; others only compare. */
    atomic_store_explicit(&block->state, set->cached, memory_order_relaxed);
    return true;
}

static inline wm_supply *wm_magazine_supply(wm_magazines *set,
                                            const wm_magazine *m)
{
    return &set->supply[m - set->of];
}

/* The figures of a block that its caller gives back, and that goes elsewhere.
 */
static inline __attribute__((always_inline)) void
wm_magazine_count_free(wm_magazines *set, wm_block *block)
{
    wm_magazine *m = &set->of[block->size_class];

    wm_magazine_supply(set, m)->base--;
    m->low -= (intptr_t)sizeof(wm_entry);
    set->count_base--;
    set->count_low--;
    set->bytes_base -= m->bytes;
    set->bytes_low -= m->bytes;
    set->asked -= (int64_t)wm_block_requested(block);
    m->given += wm_block_requested(block);
    block->counted = true;
}

/* ---- whole hits -------------------------------------------------------- */

/* node: of the block, or WM_NODE_UNKNOWN for what the thread keeps. False: a
 * miss. */
static inline __attribute__((always_inline)) bool
wm_magazine_alloc(wm_window *window, size_t bytes, int node, void **pointer)
{
    const wm_entry *entry = NULL;
    wm_magazines *set;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL) &&
        (node == WM_NODE_UNKNOWN || node == set->arena->node)) {
        entry = wm_magazine_pop(set, bytes);
    }
    if (wm_likely(entry != NULL)) {
        *pointer = entry->base;
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

/* Whether that is the state of a block that is live and was handed out by the
 * window. */
static inline __attribute__((always_inline)) bool
wm_magazine_is_of(const wm_window *window, wm_state state)
{
    return wm_likely(
        state == atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Whether a block, which may be null, is live and was handed out by the window.
 * Acquire: its other fields are those of its owner then. */
static inline __attribute__((always_inline)) bool
wm_magazine_owns(const wm_window *window, wm_block *block)
{
    return wm_likely(block != NULL) &&
           wm_likely(
               atomic_load_explicit(&block->state, memory_order_acquire) ==
               atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Such a block, which starts at base and has no uses. False: there is no room,
 * or the section is closed. */
static inline __attribute__((always_inline)) bool
wm_magazine_free(wm_window *window, wm_block *block, char *base)
{
    bool cached;

    /* Relaxed: the caller orders records before the free. */
    if (wm_unlikely(
            atomic_load_explicit(&block->captured, memory_order_relaxed)) ||
        wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    /* There is a set: the state named it, and the section is open. */
    cached = wm_magazine_push(
        atomic_load_explicit(&window->magazines, memory_order_relaxed), block,
        base);
    wm_section_leave(&window->section);
    return cached;
}

/* ---- misses ------------------------------------------------------------ */

/* What a miss came to. */
enum wm_refill {
    WM_REFILL_DONE,   /* a block */
    WM_REFILL_MISSED, /* the arena has none either */
    WM_REFILL_NONE    /* no magazines for this thread, size or node */
};

/* A LIVE block for the calling thread, if one is idle: as a hit where only the
 * section was closed, else with others of its class from the arena. Settles,
 * whatever comes of it. cut: see wm_arena_take_fitting(). */
enum wm_refill wm_magazines_refill(struct wm_space *space,
                                   const struct wm_request *request,
                                   enum wm_cut cut, wm_block **block);

/* A LIVE block that the arena handed out for the request is the calling
 * thread's. */
void wm_magazines_adopt(struct wm_space *space,
                        const struct wm_request *request, wm_block *block);

/* Takes a FREEING block without uses; false: not one for magazines, and the
 * thread has settled. */
bool wm_magazines_free(struct wm_space *space, wm_block *block);

/* Counts the free of a FREEING block that is not to be cached. */
void wm_magazines_count_free(struct wm_space *space, wm_block *block);

/* The arena of a node that the calling thread is to use, which has none of its
 * own yet if it cannot have a set. */
wm_arena *wm_magazines_arena(struct wm_space *space, int node);

/* The set of the calling thread for a space that is not laned, made if there is
 * none, with its section locked by *mine; or null. */
wm_magazines *wm_magazines_lock_mine(struct wm_space *space, wm_window **mine);

/* With the section: takes PENDING blocks that no queue has any more, chained by
 * next_done. Returns those that find no room, or are to be kept. */
wm_block *wm_magazines_put_passed(wm_magazines *set, wm_block *chain);

/* Settles what all threads have counted, for a reader. */
void wm_magazines_settle_all(struct wm_space *space);

/* Gives what the threads keep back to the arena. */
void wm_magazines_flush_all(struct wm_space *space);
/* Of those threads only that neither allocated nor freed since the last call.
 */
void wm_magazines_flush_idle(struct wm_space *space);

/* Whether the calling thread's memory has been steady for long. */
bool wm_magazines_steady(const struct wm_space *space);

/* Gives one block of the calling thread's, out of which the request can be cut,
 * back to the arena, if its memory has been steady for long, or is in the order
 * of a stream, where others would have to be asked. Whether it did. */
bool wm_magazines_spare_larger(struct wm_space *space,
                               const struct wm_request *request);

/* Before a space grows: gives back to the arena what this thread keeps, one
 * larger block if that will do, else what it takes; then what others
 * do, one after the other, until the arena has a block for the request. *block:
 * that one, or null. must: even if it was done often lately; else growing is
 * taken for the better deal then. Whether anything was there to be given back.
 */
bool wm_magazines_reclaim(struct wm_space *space,
                          const struct wm_request *request, bool must,
                          wm_block **block);

/* Ends the window's sets, each in one taking of the arena's lock, which keeps
 * it for another thread. For warm_runtime.window_empty. */
void wm_magazines_end(warm_runtime *runtime, wm_window *window);

/* Before the arena ends: frees the sets that it keeps. */
void wm_magazines_fini(wm_arena *arena);

#endif
