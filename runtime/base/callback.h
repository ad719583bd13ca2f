/* callback.h: whether the calling thread is in a callback of the program's: of
 * a kind, for the log, or for memory that is short. It may not wait there for
 * what a thread of the runtime does: that may be waiting for the callback. Of
 * the thread, for all runtimes: what waits in a circle may be of several. */
#ifndef WM_CALLBACK_H
#define WM_CALLBACK_H

#include <stdbool.h>

/* Around each callback; pairs nest. */
void wm_callback_begin(void);
void wm_callback_end(void);

bool wm_callback_inside(void);

#endif
