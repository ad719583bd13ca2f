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

/* Is told, by the thread that began it, when that enters a callback, and when
 * it has left it: what others wait for meanwhile must not be the callback. On
 * the stack of the thread, which ends it. */
typedef struct wm_callback_watch {
    void (*tell)(struct wm_callback_watch *watch, bool inside);
    struct wm_callback_watch *next;
} wm_callback_watch;

void wm_callback_watch_begin(wm_callback_watch *watch);
void wm_callback_watch_end(wm_callback_watch *watch);

#endif
