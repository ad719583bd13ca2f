/* grow_int.h: what the files of growth share, and nobody else.
 *
 *   grow.c         errands, and requests until they are served or refused
 *   obtain.c  a request looks, claims room, obtains what is missing
 *   obtain_piece.c   which comes in pieces where segments stretch
 *   return_idle.c  idle segments go back
 */
#ifndef WM_GROW_INT_H
#define WM_GROW_INT_H

#include "alloc/space/grow.h"
#include "alloc/space/space.h"
#include "alloc/arena/expand.h"

/* One thread's business with the driver; lives on its stack. */
struct wm_growth_call {
    struct wm_growth_call *next;
    uint64_t number;
    wm_arena *arena;
    size_t bytes; /* that come; 0: segments go back */
    size_t room;  /* of those: not promised to anybody */
    bool held;    /* they have come */
};

/* What it leaves behind for those that wait. */
enum wm_outcome { WM_CALL_NOTHING, WM_CALL_MADE_ROOM, WM_CALL_FREED };

void wm_growth_call_begin_locked(wm_growth *growth,
                                 struct wm_growth_call *errand);
/* What comes is held before anybody finds it, and gives it back again. */
void wm_growth_call_arrive(wm_growth *growth, struct wm_growth_call *errand);
void wm_growth_call_end(wm_growth *growth, struct wm_growth_call *errand,
                        enum wm_outcome outcome);
/* Until the errand of that number is over. */
void wm_growth_call_wait_locked(wm_growth *growth, uint64_t number);

/* A request, and what it has met. */
struct wm_grow_request {
    wm_arena *arena;
    wm_arena *give_back; /* whose idle segments may go for it; null: all */
    wm_lane *lane;
    size_t bytes;  /* 0: none yet, memory is to be had ahead */
    size_t needed; /* bytes of a run for it */
    size_t wanted; /* bytes that are to come for it, if all goes well */
    size_t tried;  /* bytes that the driver was asked for last; 0: none */
    wm_block *block;
    wm_expansion stretch;     /* where it is to come, if segments stretch */
    bool by_limit;            /* the last refusal: ours, not the driver's */
    uint64_t gained, vacated; /* at its last look */
    bool alone;               /* tries alone */
    bool waited;              /* for streams, once */
    bool unseen;              /* something may be idle since its last look */
};

/* Obtains bytes, or less where the limit leaves less that will do; or serves
 * the request without. */
warm_status wm_growth_obtain(wm_space *space, struct wm_grow_request *request,
                             size_t bytes);

/* Gives idle segments of one large request of less than below bytes back, of an
 * arena and its siblings, at most most bytes of them. Says nothing. */
void wm_growth_give_own(wm_space *space, wm_arena *arena, size_t below,
                        size_t most);
/* Where segments stretch, as those of an arena or (null) any do, and more than
 * target bytes are held: waits for streams. Whether there may be more than
 * polls bring. */
bool wm_growth_settle(wm_space *space, const wm_arena *of, size_t target,
                      enum wm_settle whose);
/* The driver takes a region, or a piece of a segment (of, else null),
 * counted. */
warm_status wm_growth_driver_free(wm_space *space, wm_arena *arena,
                                  const wm_segment *of, char *base,
                                  size_t bytes);
/* The driver puts memory into a part that was claimed, counted; or, but see
 * *torn, none of it: then some stays that could not be taken out.
 * Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_growth_commit(wm_space *space, const wm_expansion *stretch,
                             bool *torn);
/* Takes it out of the part's first bytes, whole pieces. False: some stays. */
bool wm_growth_uncommit(wm_space *space, const wm_expansion *stretch,
                        size_t bytes);
/* Trouble: notes it, with this thread's last error; says what was noted, once
 * the thread's errand is over. That keeps the last error. */
enum wm_warning_kind { WM_REFUSED, WM_TORN, WM_UNRECORDED };
void wm_growth_note(wm_growth *growth, enum wm_warning_kind kind, size_t bytes);
void wm_growth_say(wm_space *space);
/* Bytes held by an arena and its siblings. */
size_t wm_growth_held_beside(wm_arena *arena);

#endif
