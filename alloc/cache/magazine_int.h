/* magazine_int.h: what the files of the magazines share. The caller has the
 * section of the set's window; `_locked`: and lock arena. */
#ifndef WM_MAGAZINE_INT_H
#define WM_MAGAZINE_INT_H

#include "alloc/arena/group.h"
#include "alloc/cache/stream_slot.h"

/* With the section; null: none yet. */
static inline wm_magazine_set *wm_cache_set_of(wm_window *window)
{
    return atomic_load_explicit(&window->magazines, memory_order_relaxed);
}

/* In whose order blocks are taken from an arena. */
static inline wm_lane *wm_magazine_set_lane(const wm_magazine_set *set,
                                            wm_arena *arena)
{
    return set->lane != NULL ? set->lane : &arena->common;
}

/* Whether a set may keep a block at all. */
static inline bool wm_magazine_set_has_place(const wm_magazine_set *set,
                                             const wm_block *block)
{
    return block->size_class < WM_CLASSES &&
           wm_arena_is_sibling(block->segment->arena, set->arena) &&
           set->of[block->size_class].bytes <= set->bytes_max;
}

/* The sets of a window that are of a group, one by one: *at begins with 0;
 * null: no more. Without the section only to peek. */
static inline wm_magazine_set *
wm_cache_next_set(const wm_window *window, const struct wm_arena_group *group,
                  unsigned *at)
{
    /* Acquire pairs with the release in begin_set(), here and in
     * stream_slot.c. */
    if (!group->laned) {
        return (*at)++ == 0 ? atomic_load_explicit(&window->magazines,
                                                   memory_order_acquire)
                            : NULL;
    }
    while (*at < WM_STREAM_SLOTS) {
        wm_magazine_set *set = atomic_load_explicit(&window->slot[(*at)++].set,
                                                    memory_order_acquire);

        if (set != NULL && set->group == group) {
            return set;
        }
    }
    return NULL;
}

/* ---- magazine.c -------------------------------------------------------- */

/* The set of the calling thread for a request, made if there is none, with its
 * section locked by *mine; or null. */
wm_magazine_set *wm_cache_lock_for(struct wm_arena_group *group,
                                   const struct wm_request *request,
                                   wm_window **mine);

/* A LIVE block that an arena handed out is the set's. */
void wm_magazine_set_tag_block(wm_magazine_set *set, wm_block *block);

/* As a hit takes a block back, whatever has to go for it. False: there is no
 * memory for entries of the class, and the thread has settled. */
bool wm_cache_push_slow(wm_magazine_set *set, wm_block *block);

/* ---- magazine_room.c --------------------------------------------------- */

static inline int wm_room_index(const wm_magazine_set *set,
                                const wm_magazine *m)
{
    return (const char *)set + m->room_offset == (const char *)&set->rooms[1];
}

/* Room for one more block of the class, if there is too little; the caller sees
 * to it that wm_cache_raise_peaks() is called before anybody has that block. */
void wm_magazine_need_room(wm_magazine_set *set, const wm_magazine *m,
                           size_t requested);
/* Where there is much, also for one that a caller gives back: some goes. */
void wm_magazine_trim_room(wm_magazine_set *set, const wm_magazine *m);
/* Until wm_magazine_set_note_high() a push may fill all that the set may keep,
 * not only the share of small or of large requests. */
void wm_magazine_open_room(wm_magazine_set *set, const wm_magazine *m);
/* The arena claimed room for a block that it handed out: what the set has of
 * that goes back in its stead. */
void wm_magazine_set_use_room(wm_magazine_set *set, const wm_block *block);
/* All of it goes. */
void wm_magazine_set_return_room(wm_magazine_set *set);
/* And of classes all that is claimed ahead. */
void wm_magazine_set_end_claims(wm_magazine_set *set);
/* Up to where hits may go. */
void wm_magazine_set_note_high(wm_magazine_set *set);
/* Entries of a class came, or went, without a caller. */
void wm_magazine_set_move_bytes(wm_magazine_set *set, const wm_magazine *m,
                                int64_t bytes);

/* ---- tally.c ------------------------------------------------- */

/* What was counted since the last time goes to the arena's figures. */
void wm_magazine_set_merge_stats_locked(wm_magazine_set *set);

/* Entries that came or went without a caller. */
void wm_magazine_recount(wm_magazine_set *set, wm_magazine *m, int64_t change);

/* Drops what is not the set's any more among the first entries; answers how
 * many of those are left. */
unsigned wm_magazine_sift(wm_magazine_set *set, wm_magazine *m, unsigned first);

/* ---- flush.c --------------------------------------------------- */

/* What is given back to the arena at once, of each class. Answers how many
 * blocks that were. */
enum wm_part { WM_HALF, WM_ALL };
uint64_t wm_cache_flush_locked(wm_magazine_set *set, enum wm_part part);
uint64_t wm_cache_flush(wm_magazine_set *set, enum wm_part part);
/* What the set has of its arena's siblings, which is never kept in part. Takes
 * their locks. */
uint64_t wm_cache_flush_siblings(wm_magazine_set *set);

/* The older half of one class. */
void wm_magazine_flush_half(wm_magazine_set *set, wm_magazine *m);
/* One run of the set's. Lock arena, of the one that it is of. */
void wm_cache_flush_block_locked(wm_magazine_set *set, wm_block *block);

/* Gives classes back, the largest first, until the arena has a LIVE block for a
 * request; *block: that one. Answers how many blocks were given back. */
uint64_t wm_cache_trade(wm_magazine_set *set, size_t bytes, wm_block **block);

/* ---- carve.c ---------------------------------------------------- */

/* *block: a LIVE one for the request, cut out of one that the set has, the
 * smallest such; or out of several that lie side by side, with what is idle
 * between them, as few as will do; else it stays null. Answers how many were
 * given back. */
uint64_t wm_cache_split_larger(wm_magazine_set *set,
                               const struct wm_request *request,
                               wm_block **block);
uint64_t wm_cache_merge_row(wm_magazine_set *set,
                            const struct wm_request *request, wm_block **block);

/* ---- magazine_set.c ---------------------------------------------------- */

/* Every so many takings of its arena's lock a set looks whether it met others
 * there so often that it had better go to a sibling. */
enum { WM_CONTENTION_SAMPLE = 128, WM_CONTENTION_LIMIT = 4 };
void wm_cache_move_to_sibling(wm_magazine_set *set);
/* A set is filled from an arena from now on, or not any more. */
void wm_cache_count_set(wm_arena *arena, int change);
/* Where a thread that has no set of a space that is laned asks for memory. */
wm_arena *wm_cache_first_arena(const struct wm_arena_group *group);

/* A set that is filled from an arena: spare or new; with a number of its own
 * from now on, that no block has, in which slot is to be found; and it goes
 * back with all of its blocks, and is the window's no more. */
wm_magazine_set *wm_magazine_set_create(struct wm_arena_group *group,
                                        wm_arena *arena);
void wm_magazine_set_renumber(wm_magazine_set *set, unsigned slot,
                              _Atomic uint64_t *live_tag);
void wm_magazine_set_retire(wm_magazine_set *set,
                            _Atomic(struct wm_magazine_set *) *from,
                            _Atomic uint64_t *live_tag);

/* The calling thread's window of a space that has magazines, made if there is
 * none; or null. */
/* The thread has moved to another node: what its set has of page-locked memory
 * follows it, and its section opens again. */
void wm_cache_move_home(wm_window *window, int node);

wm_window *wm_cache_window(const struct wm_arena_group *group);

/* Puts a class to use that may be so already. Null: its blocks are larger than
 * all that a set may keep, or there is no memory for its entries. */
wm_magazine *wm_magazine_use(wm_magazine_set *set, unsigned size_class);

#endif
