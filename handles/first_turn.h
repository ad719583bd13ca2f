/* first_turn.h: first creations of a kind on a device take turns in the process
 * (row A8), whatever runtimes they are for: concurrent ones can hang for
 * seconds, and cuDNN's documentation calls for a single one.
 *
 * Each runtime's first creation takes a turn, not the process's alone: another
 * runtime may have named another file of the library, or the device may have
 * been reset since. Any thread that holds no lock. */
#ifndef WM_FIRST_TURN_H
#define WM_FIRST_TURN_H

#include "handles/kind.h"

/* On the stack of the creating thread. */
typedef struct wm_first_turn {
    const wm_kind *kind;
    int device;
    struct wm_first_turn *next; /* lock process */
} wm_first_turn;

/* Waits for other threads' turns of that kind and device; but a thread that has
 * a turn already, and creates one handle inside the callback of another, waits
 * for none. */
void wm_first_turn_begin(wm_first_turn *turn, const wm_kind *kind, int device);
void wm_first_turn_end(wm_first_turn *turn);

/* Whether the calling thread has a turn: other threads may wait for it, and so
 * it waits for no first creation. */
bool wm_first_turn_is_mine(void);

#endif
