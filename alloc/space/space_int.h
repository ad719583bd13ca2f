/* space_int.h: what the files of a space share. */
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

/* Fails, and needs no end, if the capture mode cannot be set. */
warm_status wm_space_work_begin(wm_space *space, wm_space_work *work);
void wm_space_work_end(wm_space *space, wm_space_work *work, bool recovered);

/* Whether what was idle for long goes back by the calls that miss. */
static inline bool wm_space_decays(const wm_space *space)
{
    return space->decay_ns != 0 && !space->background.on;
}

/* Takes back what has passed; and gives back what is idle for long. Within
 * slow work. */
void wm_space_collect(wm_space *space);
void wm_space_poll_now(wm_space *space);

/* Asks the user's callbacks for memory; whether one says that it has freed
 * some. No lock held. */
bool wm_space_ask_callbacks(wm_space *space, size_t bytes);
/* INVALID_ARGUMENT from one of these callbacks: it would be asked for what it
 * asks for, and so on. */
warm_status wm_space_check_asking(const wm_space *space);

/* Asks for what threads have freed and told nobody of, as far as nobody has
 * since it came. To look takes a barrier, 26 us, in which others stand still:
 * a growth is worth that, or what they keep; not every miss. */
void wm_space_collect_gathered(wm_space *space);

/* As wm_private_tend(), of the floor above. */
static inline void wm_space_tend_pools(wm_space *space,
                                       struct wm_private_arena *only)
{
    space->group.runtime->tend_pools(space->group.runtime, only);
}

/* ---- reclaim.c ---------------------------------------------------------- */

/* Before a space grows: gives back to the arena what this thread keeps, one
 * larger block if that will do, else what it takes; then what others do, one
 * after the other, until the arena has a block for the request. *block: that
 * one, or null. must: even if it was done often lately; else growing is taken
 * for the better deal then. Whether anything was there to be given back.
 */
bool wm_space_reclaim(wm_space *space, const wm_request *request, bool must,
                      wm_block **block);

#endif
