/* adopt.h: memory that the program has mapped, page-locked where it lies (row
 * B23).
 *
 *   as it is    arena ─► segment ─► one LIVE block over all pieces
 *   served      arena ─► segment ─► idle runs, slabs    a segment for each
 * piece └───► segment ─► …
 *
 * Each adoption has an arena of its own, in a space of its own: no purge finds
 * it, no thread caches its blocks, and its figures stay apart. The ladder of
 * the pinned space takes blocks from the arenas that serve (ladder.c). Records
 * of adoptions are used again, and freed with the runtime.
 *
 * Giving up: the arena serves no more; once all of it is idle its segments are
 * detached, and unlocked piece by piece. If something is live or pending until
 * later, `freed` sets runtime->put_off then, and captures_over() comes here. */
#ifndef WM_ADOPT_H
#define WM_ADOPT_H

#include "alloc/space/space.h"

enum wm_adoption_state {
    WM_ADOPTION_SPARE,
    WM_ADOPTION_BUSY, /* a thread is adopting */
    WM_ADOPTION_HELD,
    WM_ADOPTION_ENDING
};

typedef struct wm_adoption {
    wm_arena arena;               /* first */
    struct wm_adoption *next;     /* lock adopted */
    enum wm_adoption_state state; /* lock adopted */
    uint64_t ended;               /* lock adopted: uses of the record so far */
    /* Lock adopted: threads that give it up, or wait: while there are any, the
     * record serves no other adoption. */
    unsigned visitors;
    /* From BUSY to SPARE const: */
    char *base;
    size_t bytes;
    unsigned flags;
    size_t left;     /* lock adopted: bytes that are not given up */
    size_t unlocked; /* of memory that is lent: of its first pieces; the thread
                        that has detached the segment */
    wm_block *block; /* lock adopted: the one that is lent, or null */
    void (*done)(void *context); /* lock adopted, and context */
    void *context;
} wm_adoption;

typedef struct wm_adopted {
    wm_space space; /* first */
    wm_space *host; /* const: the pinned space, whose watermarks count it */
    wm_lock lock;
    wm_adoption *list;       /* lock */
    _Atomic unsigned ending; /* relaxed: a hint that there are ENDING ones */
} wm_adopted;

/* Status: OUT_OF_MEMORY. */
warm_status wm_adopted_init(wm_adopted *adopted, wm_space *host,
                            const wm_options *options);
/* At the end of a runtime: gives up what is idle. */
void wm_adopted_stop(wm_adopted *adopted);
/* After wm_space_forget() of its space. */
void wm_adopted_fini(wm_adopted *adopted);

/* Arguments are checked but for what lies at base. As warm_pinned_adopt(). */
warm_status wm_adopt(wm_adopted *adopted, char *base, size_t bytes,
                     unsigned flags);
/* As warm_pinned_adopt_end(). */
warm_status wm_adopt_end(wm_adopted *adopted, const char *base,
                         void (*done)(void *context), void *context);

/* Gives up what became idle of adoptions that are ENDING. False: a stream
 * captures, and some is left. */
bool wm_adopted_tend(wm_adopted *adopted);

/* Bytes from an address in a block up to the next cut between two pieces that
 * are page-locked each by a call of its own; SIZE_MAX: there is none. Served
 * blocks lie in one piece. block: or null. */
static inline size_t wm_adopt_to_cut(const wm_block *block, const char *at)
{
    const wm_arena *arena = block != NULL ? block->segment->arena : NULL;
    size_t chunk;

    if (arena == NULL || !arena->lent) {
        return SIZE_MAX;
    }
    chunk = ((const wm_adopted *)arena->group)->host->chunk_bytes;
    return chunk - (size_t)(at - block->base) % chunk;
}

/* adopt_check.c: whether all of the range is mapped, readable, and, if wanted,
 * writable. Status: INVALID_ARGUMENT. */
warm_status wm_adopt_check(const char *base, size_t bytes, bool write);

/* adopt_end.c, for adopt.c. Unlocks the pieces from *done on, up to bytes of
 * what begins at base, and adds them to *done. Status: CAPTURE_ERROR (a stream
 * captures), the driver's. */
warm_status wm_adopt_unlock(wm_adopted *adopted, char *base, size_t bytes,
                            size_t *done);
/* Hides a range from forked children, and shows it again, unless flags say that
 * it may be seen. Status: UNSUPPORTED. */
warm_status wm_adopt_hide(char *base, size_t bytes, unsigned flags);
void wm_adopt_show(char *base, size_t bytes, unsigned flags);

#endif
