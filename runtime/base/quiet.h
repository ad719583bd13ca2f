/* quiet.h: for work inside a call that may still succeed: defers cancellation,
 * and restores the thread's last error after failures that the call recovers
 * from. */
#ifndef WM_QUIET_H
#define WM_QUIET_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

typedef struct wm_quiet {
    const void *open; /* itself from its begin to its end, for debug builds */
    int cancel;       /* the thread's cancellation state before */
    warm_error error;
} wm_quiet;

static inline void wm_quiet_begin(wm_quiet *quiet)
{
    quiet->open = quiet;
    quiet->cancel = wm_cancel_off();
    quiet->error = wm_error_save();
}

/* From now on the last error is the one to be restored. */
static inline void wm_quiet_keep(wm_quiet *quiet)
{
    quiet->error = wm_error_save();
}

static inline void wm_quiet_restore(const wm_quiet *quiet)
{
    wm_error_restore(&quiet->error);
}

/* Ends work that failed: the last error keeps the reason. */
static inline void wm_quiet_fail(wm_quiet *quiet)
{
    wm_assert(quiet->open == quiet);
    quiet->open = NULL;
    wm_cancel_restore(quiet->cancel);
}

static inline void wm_quiet_end(wm_quiet *quiet)
{
    wm_quiet_restore(quiet);
    wm_quiet_fail(quiet);
}

#endif
