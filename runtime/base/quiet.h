/* quiet.h: for work inside a call that may still succeed: defers cancellation,
 * and restores the thread's last error after failures that the call recovers
 * from. */
#ifndef WM_QUIET_H
#define WM_QUIET_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

typedef struct wm_quiet {
    int cancel;       /* the thread's cancellation state before */
    warm_error error; /* its last error before */
} wm_quiet;

static inline void wm_quiet_begin(wm_quiet *quiet)
{
    quiet->cancel = wm_cancel_off();
    quiet->error.size = sizeof quiet->error;
    warm_last_error(&quiet->error);
}

static inline void wm_quiet_end(const wm_quiet *quiet)
{
    wm_error_restore(&quiet->error);
    wm_cancel_restore(quiet->cancel);
}

/* wm_quiet_end() for work that failed: the last error keeps the reason. */
static inline void wm_quiet_fail(const wm_quiet *quiet)
{
    wm_cancel_restore(quiet->cancel);
}

#endif
