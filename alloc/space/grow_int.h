/* grow_int.h: shared by the files of growth only.
 *
 *   grow.c          a request, until it is served or refused
 *   growth_call.c   the list of calls in flight; deferred warnings
 *   obtain.c        looks again, claims room, obtains what is missing
 *   obtain_piece.c  the same piece by piece, for expandable segments
 *   return_idle.c   idle segments are returned to the driver
 */
#ifndef WM_GROW_INT_H
#define WM_GROW_INT_H

#include "alloc/space/grow.h"
#include "alloc/space/space.h"
#include "alloc/arena/expand.h"

/* A call of the driver in flight; on the stack of the thread that makes it. */
struct wm_growth_call {
    struct wm_growth_call *next;
    uint64_t number;
    wm_arena *arena;
    size_t bytes; /* to be obtained; 0: segments are returned */
    size_t room;  /* part of bytes that no request has claimed */
    bool held;    /* bytes were obtained, and count as held */
};

/* What the end of a call changes for requests that wait for it. */
enum wm_outcome { WM_CALL_NOTHING, WM_CALL_MADE_ROOM, WM_CALL_FREED };

void wm_growth_call_begin_locked(wm_growth *growth,
                                 struct wm_growth_call *call);
/* Counts the bytes as held: before another thread can find and return them. */
void wm_growth_call_arrive(wm_growth *growth, struct wm_growth_call *call);
void wm_growth_call_end(wm_growth *growth, struct wm_growth_call *call,
                        enum wm_outcome outcome);
/* Waits until the call of that number has ended. */
void wm_growth_call_wait_locked(wm_growth *growth, uint64_t number);

/* The state of one request while the space grows for it. */
struct wm_grow_request {
    wm_arena *arena;
    wm_arena *give_back; /* whose idle segments may be returned; null: all */
    wm_lane *lane;
    size_t bytes;  /* 0: no request, memory is obtained ahead of demand */
    size_t needed; /* bytes of a run for it */
    size_t wanted; /* bytes to obtain, if neither driver nor limit refuses */
    size_t tried;  /* bytes last requested from the driver; 0: none */
    wm_block *block;
    wm_expansion stretch;     /* the part of an expandable segment to fill */
    bool by_limit;            /* the limit refused last, not the driver */
    uint64_t gained, vacated; /* those of wm_growth at its last look */
    bool alone;               /* grows with no other growth in flight */
    bool waited;              /* for streams, which is done once */
    bool unseen;              /* memory may be idle since its last look */
};

/* Obtains bytes, or what the limit leaves if that suffices for the request; or
 * serves the request from what others obtained meanwhile. */
warm_status wm_growth_obtain(wm_space *space, struct wm_grow_request *request,
                             size_t bytes);

/* Returns idle oversize segments smaller than below bytes, of an arena and its
 * siblings, most bytes of them at most. Logs nothing. */
void wm_growth_give_own(wm_space *space, wm_arena *arena, size_t below,
                        size_t most);
/* If the segments of an arena or (null) of any expand, and more than target
 * bytes are held: waits for streams. Returns whether memory may have become
 * idle that polls do not find. */
bool wm_growth_settle(wm_space *space, const wm_arena *of, size_t target,
                      enum wm_settle whose);
/* Returns a region, or a piece of an expandable segment (of, else null), to the
 * driver, and counts the call. */
warm_status wm_growth_driver_free(wm_space *space, wm_arena *arena,
                                  const wm_segment *of, char *base,
                                  size_t bytes);
/* Has the driver commit memory to a claimed part, and counts the calls. On
 * failure nothing stays committed; if *torn, some of it could not be removed.
 * Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_growth_commit(wm_space *space, const wm_expansion *stretch,
                             bool *torn);
/* Decommits the first bytes of a part, whole pieces. False: some stay. */
bool wm_growth_uncommit(wm_space *space, const wm_expansion *stretch,
                        size_t bytes);
/* Notes a warning, with this thread's last error; and logs what was noted, once
 * the thread's call has ended. The last error stays. */
enum wm_warning_kind { WM_REFUSED, WM_TORN, WM_UNRECORDED };
void wm_growth_note(wm_growth *growth, enum wm_warning_kind kind, size_t bytes);
void wm_growth_say(wm_space *space);
/* Bytes held by an arena and its siblings. */
size_t wm_growth_held_beside(wm_arena *arena);

#endif
