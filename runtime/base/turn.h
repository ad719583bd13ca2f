/* turn.h: one process of the machine at a time obtains memory ahead of demand
 * (option pin_lock_file, row B9).
 *
 *   this process ── users ──► flock(file) ◄── other processes
 *
 * The threads of a runtime share its turn: the first one locks the file, the
 * last one unlocks it. The kernel unlocks it when the process ends, however it
 * ends: a forked child closes the file, and a program that is executed does not
 * get it. A thread that waits looks again each WM_TURN_POLL ns, and a runtime
 * that had its turn pauses WM_TURN_GAP ns, so that others find the file
 * unlocked. */
#ifndef WM_TURN_H
#define WM_TURN_H

#include "runtime/base/lock.h"
#include "runtime/base/named_file.h"
#include "runtime/base/options.h"

#define WM_TURN_POLL ((uint64_t)1000000)
#define WM_TURN_GAP  ((uint64_t)3000000)

typedef struct wm_turn {
    bool on; /* const: there is a file */
    int fd;  /* const */
    wm_file_id id;
    unsigned users; /* the lock given to the calls below */
} wm_turn;

/* Opens the file, if the option names one. Status: INVALID_OPTION. */
warm_status wm_turn_open(wm_turn *turn, const wm_options *options);
void wm_turn_close(wm_turn *turn);
/* In the child of a fork: the turn is the parent's. */
void wm_turn_forked(wm_turn *turn);

/* Never waits. False: another process, or another runtime, has its turn. */
bool wm_turn_try_locked(wm_turn *turn);
void wm_turn_end_locked(wm_turn *turn);
/* How long to pause after a turn, in ns; 0: there is no file. */
static inline uint64_t wm_turn_gap(const wm_turn *turn)
{
    return turn->on ? WM_TURN_GAP : 0;
}

#endif
