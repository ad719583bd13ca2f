/* log.h: one line for the user's log callback.
 *
 * Call without a lock: the callback is the user's code. Without a callback a
 * line goes to the file of option log_file; without that to standard error, if
 * WARMPOOL_CONF gave option log or log_memory; else the first warning of the
 * process goes there and later lines are dropped. A notice is a warning about
 * the machine, not about the program: it goes there beside the first warning.
 */
#ifndef WM_LOG_H
#define WM_LOG_H

#include "warmpool/runtime.h"

#include <stdbool.h>

void wm_log(warm_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* wm_log() at level warning; where lines are printed unasked, once in the
 * process, and the program's own first warning is printed all the same. */
void wm_log_notice(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* wm_log() at level debug whatever level is logged: for option log_memory. */
void wm_log_memory(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
/* Without a callback all warnings are printed from now on. */
void wm_log_print_all(void);

/* The least severe level that is logged; 0 for none. Process-wide. */
void wm_log_set_level(int level);

/* Whether lines go to standard error without a callback. Process-wide. */
void wm_log_set_printing(bool printing);

/* Opens the file that option log_file names, to which lines are appended from
 * now on. Process-wide. Status: INVALID_OPTION; the old file stays. */
warm_status wm_log_open(const char *name);

/* Writes the table of options to standard error, the first time. */
void wm_log_help(void);

#endif
