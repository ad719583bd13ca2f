/* callback.c: see callback.h. No locks. */
#include "runtime/base/callback.h"

#include "runtime/base/lock.h"
#include "runtime/base/thread_data.h"

#include <stddef.h>

static _Thread_local wm_callback_watch *watches;

static void tell(bool inside)
{
    for (wm_callback_watch *w = watches; w != NULL; w = w->next) {
        w->tell(w, inside);
    }
}

void wm_callback_begin(void)
{
    if (wm_thread_marks_now.callbacks++ == 0) {
        wm_thread_marks_now.cancel = (unsigned char)wm_cancel_off();
    }
    tell(true);
}

void wm_callback_end(void)
{
    tell(false);
    if (--wm_thread_marks_now.callbacks == 0) {
        pthread_setcancelstate(wm_thread_marks_now.cancel, NULL);
    }
}

bool wm_callback_inside(void)
{
    return wm_thread_marks_now.callbacks > 0;
}

void wm_callback_watch_begin(wm_callback_watch *watch)
{
    watch->next = watches;
    watches = watch;
}

void wm_callback_watch_end(wm_callback_watch *watch)
{
    wm_callback_watch **link = &watches;

    while (*link != watch) {
        link = &(*link)->next;
    }
    *link = watch->next;
}
