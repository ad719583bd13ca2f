/* log.h: one line for the user's log callback.
 *
 * Call without a lock: the callback is the user's code. Without a callback
 * the first warning of the process goes to standard error, later ones are
 * dropped.
 */
#ifndef WM_LOG_H
#define WM_LOG_H

#include "warmpool/runtime.h"

void wm_log(warm_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The least severe level that is logged; 0 for none. Process-wide. */
void wm_log_set_level(int level);

#endif
