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
    bool failed; /* lock adopted: it could not be unlocked, which was logged */
    void (*done)(void *context); /* lock adopted, and context */
    void *context;
} wm_adoption;

/* Memory that a thread adopts: from the check of the page map until the page
 * map knows it, or for as long as pieces of it stay locked though it could not
 * be adopted. */
typedef struct wm_adopt_range {
    struct wm_adopt_range *next;      /* lock wm_process_lock */
    struct wm_adopt_range *next_left; /* lock adopted */
    /* Why pieces stay locked: CAPTURE_ERROR, DRIVER_ERROR, or OK. Lock
     * wm_process_lock. */
    warm_status left;
    /* The thread's that adopts, or undoes it: */
    char *base;
    size_t bytes;
    unsigned flags;
    bool hidden;             /* from forked children */
    size_t locked, unlocked; /* bytes of the first pieces */
} wm_adopt_range;

typedef struct wm_adopted {
    wm_space space; /* first */
    wm_space *host; /* const: the pinned space, whose watermarks count it */
    wm_lock lock;
    wm_adoption *list;       /* lock */
    wm_adopt_range *left;    /* lock */
    _Atomic unsigned ending; /* relaxed: a hint: adoptions that are ENDING, and
                                ranges that are left */
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

/* Gives up what became idle of adoptions that are ENDING and have a callback,
 * and unlocks what could not be adopted. False: some is left, since a stream
 * captures or the driver failed. */
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

/* adopt_lock.c, for adopt.c and adopt_end.c. claim(): *out is no runtime's
 * memory, and no other thread adopts any of it. Status: INVALID_ARGUMENT,
 * OUT_OF_MEMORY; CAPTURE_ERROR, DRIVER_ERROR (an earlier call has left pieces
 * locked). unclaim() ends that, and the record. */
warm_status wm_adopt_claim(char *base, size_t bytes, unsigned flags,
                           wm_adopt_range **out);
void wm_adopt_unclaim(wm_adopt_range *range);

/* lock(): hides the range from forked children, unless its flags say that they
 * may see it, then page-locks it in pieces. Status: OUT_OF_MEMORY, UNSUPPORTED,
 * INVALID_ARGUMENT, the driver's. undo() follows if that failed, or later: it
 * unlocks, shows and unclaims the range, whose bytes count toward the watermark
 * no more, or leaves it for undo_left(). The last error stays. undo_left()
 * tries again; false: some is left. forget_left(): at the end of the runtime.
 */
warm_status wm_adopt_lock(wm_adopted *adopted, wm_adopt_range *range);
void wm_adopt_undo(wm_adopted *adopted, wm_adopt_range *range);
bool wm_adopt_undo_left(wm_adopted *adopted);
void wm_adopt_forget_left(wm_adopted *adopted);

/* Unlocks the pieces from *done on, up to bytes of what begins at base, and
 * adds them to *done. Status: CAPTURE_ERROR (a stream captures), the driver's.
 */
warm_status wm_adopt_unlock(wm_adopted *adopted, char *base, size_t bytes,
                            size_t *done);
/* wm_timelines_refuse() for memory that stays locked. */
warm_status wm_adopt_refuse(const wm_breaking *breaking);
/* A poll calls wm_adopted_tend(). */
void wm_adopt_note_later(const wm_adopted *adopted);
/* Shows a range that was hidden, or a part of one. */
void wm_adopt_show(char *base, size_t bytes, unsigned flags);

#endif
