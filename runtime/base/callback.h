/* callback.h: whether the calling thread is inside a callback of the program: a
 * kind's, the log's, or one for low memory. Inside, the thread must not wait
 * for a thread of any runtime, which may itself be waiting for the callback:
 * such a circle can run through several runtimes, so the mark belongs to the
 * thread and not to one of them. */
#ifndef WM_CALLBACK_H
#define WM_CALLBACK_H

#include <stdbool.h>

/* Around each callback, which defers cancellation; pairs nest. */
void wm_callback_begin(void);
void wm_callback_end(void);

bool wm_callback_inside(void);

/* Notifies an operation that its own thread enters a callback (inside) or has
 * left it, so that threads which wait for the operation do not wait for the
 * callback. Lives on the stack of that thread, which begins and ends it. */
typedef struct wm_callback_watch {
    void (*tell)(struct wm_callback_watch *watch, bool inside);
    struct wm_callback_watch *next;
} wm_callback_watch;

void wm_callback_watch_begin(wm_callback_watch *watch);
void wm_callback_watch_end(wm_callback_watch *watch);

#endif
