/* space_int.h: shared by the files of a space. */
#ifndef WM_SPACE_INT_H
#define WM_SPACE_INT_H

#include "alloc/space/space.h"
#include "runtime/base/quiet.h"

/* What surrounds slow work: no cancellation, the last error is kept, and driver
 * calls that allocate or query are allowed while a stream captures (row B7). */
typedef struct wm_space_work {
    wm_quiet quiet;
    bool mode; /* the thread's capture mode before */
} wm_space_work;

/* Fails, and must not be ended, if the capture mode cannot be set. recovered:
 * the last error becomes what it was at the begin. */
warm_status wm_space_work_begin(wm_space *space, wm_space_work *work);
void wm_space_work_end(wm_space *space, wm_space_work *work, bool recovered);

/* Whether allocations that miss return old idle segments: there is no
 * background thread to do so. */
static inline bool wm_space_decays(const wm_space *space)
{
    return space->decay_ns != 0 && !space->background.on;
}

/* Polls all streams, so that completed blocks become idle; wm_space_poll_now()
 * also returns segments that were idle for decay_ns. Within slow work. */
void wm_space_collect(wm_space *space);
void wm_space_poll_now(wm_space *space);

/* Calls the user's memory callbacks. Returns whether one reports that it freed
 * memory. No lock held. */
bool wm_space_ask_callbacks(wm_space *space, size_t bytes);
/* INVALID_ARGUMENT within such a callback: it would be called for its own
 * request again, and so on. */
warm_status wm_space_check_asking(const wm_space *space);

/* Flushes the pending frees of all threads to their timelines and polls those
 * with entries that no poll has seen. A flush takes a barrier, 26 us in which
 * other threads stand still: it pays before a growth, not at each miss. */
void wm_space_collect_gathered(wm_space *space);

/* Calls wm_private_tend(), which is on a higher floor. */
static inline void wm_space_tend_pools(wm_space *space,
                                       struct wm_private_arena *only)
{
    space->group.runtime->tend_pools(space->group.runtime, only);
}

/* ---- reclaim.c ---------------------------------------------------------- */

/* Before a space grows: flushes this thread's cache to the arena, one larger
 * block if that suffices, else more; then the caches of other threads, one by
 * one, until the arena has a block for the request: *block, or null. Unless
 * must is set nothing is flushed once that has cost as much as a growth.
 * Returns whether blocks were flushed. */
bool wm_space_reclaim(wm_space *space, const wm_request *request, bool must,
                      wm_block **block);

#endif
