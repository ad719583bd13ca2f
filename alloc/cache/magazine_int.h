/* magazine_int.h: what the files of the magazines share. The caller has the
 * section of the set's window; `_locked`: and lock arena. */
#ifndef WM_MAGAZINE_INT_H
#define WM_MAGAZINE_INT_H

#include "alloc/arena/group.h"
#include "alloc/cache/magazine_lane.h"

/* With the section; null: none yet. */
static inline wm_magazines *wm_magazines_of(wm_window *window)
{
    return atomic_load_explicit(&window->magazines, memory_order_relaxed);
}

/* In whose order blocks are taken from an arena. */
static inline wm_lane *wm_magazines_lane(const wm_magazines *set,
                                         wm_arena *arena)
{
    return set->lane != NULL ? set->lane : &arena->common;
}

/* Whether a set may keep a block at all. */
static inline bool wm_magazines_has_place(const wm_magazines *set,
                                          const wm_block *block)
{
    return block->size_class < WM_CLASSES &&
           wm_arena_beside(block->segment->arena, set->arena) &&
           set->of[block->size_class].bytes <= set->bytes_max;
}

/* The sets of a window that are of a group, one by one: *at begins with 0;
 * null: no more. Without the section only to peek. */
static inline wm_magazines *
wm_magazines_next(const wm_window *window, const struct wm_arena_group *group,
                  unsigned *at)
{
    /* Acquire pairs with the release in begin_set(), here and in
     * magazine_lane.c. */
    if (!group->laned) {
        return (*at)++ == 0 ? atomic_load_explicit(&window->magazines,
                                                   memory_order_acquire)
                            : NULL;
    }
    while (*at < WM_LANE_SLOTS) {
        wm_magazines *set = atomic_load_explicit(&window->lane[(*at)++].set,
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
wm_magazines *wm_magazines_lock_for(struct wm_arena_group *group,
                                    const struct wm_request *request,
                                    wm_window **mine);

/* A LIVE block that an arena handed out is the set's. */
void wm_magazines_make_own(wm_magazines *set, wm_block *block);

/* As a hit takes a block back, whatever has to go for it. False: there is no
 * memory for entries of the class, and the thread has settled. */
bool wm_magazines_push_slow(wm_magazines *set, wm_block *block);

/* ---- magazine_room.c --------------------------------------------------- */

static inline int wm_room_index(const wm_magazines *set, const wm_magazine *m)
{
    return (const char *)set + m->sort == (const char *)&set->rooms[1];
}

/* Room for one more block of the class, if there is too little; the caller sees
 * to it that wm_magazines_raise() is called before anybody has that block. */
void wm_magazine_need_room(wm_magazines *set, const wm_magazine *m,
                           size_t requested);
/* Where there is much, also for one that a caller gives back: some goes. */
void wm_magazine_cut_room(wm_magazines *set, const wm_magazine *m);
/* Until wm_magazines_set_high() a push may fill all that the set may keep, not
 * only the share of small or of large requests. */
void wm_magazine_open_room(wm_magazines *set, const wm_magazine *m);
/* The arena claimed room for a block that it handed out: what the set has of
 * that goes back in its stead. */
void wm_magazines_use_room(wm_magazines *set, const wm_block *block);
/* All of it goes. */
void wm_magazines_drop_room(wm_magazines *set);
/* And of classes all that is claimed ahead. */
void wm_magazines_claim_no_more(wm_magazines *set);
/* Up to where hits may go. */
void wm_magazines_set_high(wm_magazines *set);
/* Entries of a class came, or went, without a caller. */
void wm_magazines_move_bytes(wm_magazines *set, const wm_magazine *m,
                             int64_t bytes);

/* ---- magazine_settle.c ------------------------------------------------- */

/* What was counted since the last time goes to the arena's figures. */
void wm_magazines_settle_locked(wm_magazines *set);

/* Entries that came or went without a caller. */
void wm_magazine_recount(wm_magazines *set, wm_magazine *m, int64_t change);

/* Drops what is not the set's any more among the first entries; answers how
 * many of those are left. */
unsigned wm_magazine_sift(wm_magazines *set, wm_magazine *m, unsigned first);

/* ---- magazine_give.c --------------------------------------------------- */

/* What is given back to the arena at once, of each class. Answers how many
 * blocks that were. */
enum wm_part { WM_HALF, WM_ALL };
uint64_t wm_magazines_give_back_locked(wm_magazines *set, enum wm_part part);
uint64_t wm_magazines_give_back(wm_magazines *set, enum wm_part part);
/* What the set has of its arena's siblings, which is never kept in part. Takes
 * their locks. */
uint64_t wm_magazines_give_beside(wm_magazines *set);

/* The older half of one class. */
void wm_magazine_give_back_half(wm_magazines *set, wm_magazine *m);
/* One run of the set's. Lock arena, of the one that it is of. */
void wm_magazine_give_block_locked(wm_magazines *set, wm_block *block);

/* Gives classes back, the largest first, until the arena has a LIVE block for a
 * request; *block: that one. Answers how many blocks were given back. */
uint64_t wm_magazines_trade(wm_magazines *set, size_t bytes, wm_block **block);

/* ---- magazine_own.c ---------------------------------------------------- */

/* *block: a LIVE one for the request, cut out of one that the set has, the
 * smallest such; or out of several that lie side by side, with what is idle
 * between them, as few as will do; else it stays null. Answers how many were
 * given back. */
uint64_t wm_magazines_cut_larger(wm_magazines *set,
                                 const struct wm_request *request,
                                 wm_block **block);
uint64_t wm_magazines_cut_row(wm_magazines *set,
                              const struct wm_request *request,
                              wm_block **block);

/* ---- magazine_set.c ---------------------------------------------------- */

/* Every so many takings of its arena's lock a set looks whether it met others
 * there so often that it had better go to a sibling. */
enum { WM_MEET_TAKINGS = 128, WM_MEET_OFTEN = 4 };
void wm_magazines_spread(wm_magazines *set);
/* A set is filled from an arena from now on, or not any more. */
void wm_magazines_count_set(wm_arena *arena, int change);
/* Where a thread that has no set of a space that is laned asks for memory. */
wm_arena *wm_magazines_first(const struct wm_arena_group *group);

/* A set that is filled from an arena: spare or new; with a number of its own
 * from now on, that no block has, in which slot is to be found; and it goes
 * back with all of its blocks, and is the window's no more. */
wm_magazines *wm_magazines_make(struct wm_arena_group *group, wm_arena *arena);
void wm_magazines_renumber(wm_magazines *set, unsigned slot,
                           _Atomic uint64_t *live_tag);
void wm_magazines_retire(wm_magazines *set,
                         _Atomic(struct wm_magazines *) *from,
                         _Atomic uint64_t *live_tag);

/* The calling thread's window of a space that has magazines, made if there is
 * none; or null. */
/* The thread has moved to another node: what its set has of page-locked memory
 * follows it, and its section opens again. */
void wm_magazines_follow(wm_window *window, int node);

wm_window *wm_magazines_window(const struct wm_arena_group *group);

/* Puts a class to use that may be so already. Null: its blocks are larger than
 * all that a set may keep, or there is no memory for its entries. */
wm_magazine *wm_magazine_use(wm_magazines *set, unsigned size_class);

#endif
