/* status.h: failing with words, for all of the library.
 *
 * The function that first decides that a call fails calls wm_fail() once and
 * returns what it returns; callers pass the status on. The last error belongs
 * to the thread; no lock is taken. The first of a thread allocates the record
 * of its words: without memory the status stands alone, with a text that says
 * so. */
#ifndef WM_STATUS_H
#define WM_STATUS_H

#include "warmpool/base.h"

#include <stdbool.h>

/* Stores the thread's last error; the value is status, also for analysers. A
 * status is written twice in the expansion: it has no side effects. */
#define wm_fail(status, ...) (wm_fail_note((status), __VA_ARGS__), (status))

/* As wm_fail(), with the code and the text of a driver or library: origin
 * "cudart", "cublas", "host", …; code_text may be null. */
#define wm_fail_code(status, origin, code, code_text, ...)                     \
    (wm_fail_note_code((status), (origin), (code), (code_text), __VA_ARGS__),  \
     (status))

void wm_fail_note(warm_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void wm_fail_note_code(warm_status status, const char *origin, int code,
                       const char *code_text, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Puts back what warm_last_error() gave: for a caller that recovers from a
 * failure inside, because a success leaves the last error as it was. */
void wm_error_restore(const warm_error *error);

/* Around a function of the user's, which may fail and leave no words: the
 * first gives what the second takes, and that is true if there are some. */
warm_status wm_error_hush(void);
bool wm_error_heard(warm_status before);

/* For our own bugs: stops debug builds, costs nothing in release builds. */
#ifdef NDEBUG
#define wm_assert(condition) ((void)sizeof(condition))
#else
#define wm_assert(condition)                                                   \
    ((condition) ? (void)0 : wm_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void wm_assert_failed(const char *text, const char *file, int line);
#endif

#define wm_likely(x)   __builtin_expect(!!(x), 1)
#define wm_unlikely(x) __builtin_expect(!!(x), 0)

#endif
