/* status.h: how a call fails: a status, and a message for warm_last_error().
 *
 * The function that first decides that a call fails calls wm_fail() once and
 * returns its value; callers return the status unchanged. The last error
 * belongs to the thread; no lock is taken. A thread's first error allocates the
 * record of its message; without memory only the status is kept. */
#ifndef WM_STATUS_H
#define WM_STATUS_H

#include "warmpool/base.h"

#include <stdbool.h>

/* Stores the thread's last error and evaluates to status. A macro, so that
 * static analysers see the value; status is evaluated twice and must have no
 * side effects. */
#define wm_fail(status, ...) (wm_fail_note((status), __VA_ARGS__), (status))

/* wm_fail() with the code and text of a driver or library. origin: "cudart",
 * "cublas", "host", …; code_text may be null. */
#define wm_fail_code(status, origin, code, code_text, ...)                     \
    (wm_fail_note_code((status), (origin), (code), (code_text), __VA_ARGS__),  \
     (status))

void wm_fail_note(warm_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void wm_fail_note_code(warm_status status, const char *origin, int code,
                       const char *code_text, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* For a caller that recovers from an inner failure, because a success leaves
 * the last error as it was: wm_error_save() returns it, without copying texts
 * if there is none; wm_error_restore() restores it. */
warm_error wm_error_save(void);
void wm_error_restore(const warm_error *error);

/* Restores the last error when the scope is left, whatever happens there. */
#define WM_KEEP_ERROR()                                                        \
    __attribute__((cleanup(wm_error_restore), unused))                         \
    const warm_error kept_ = wm_error_save()

/* Around a callback of the user, which may fail without setting an error:
 * wm_error_hush() clears the last status and returns it; wm_error_heard()
 * returns whether the callback set one, and restores the old one if not. */
warm_status wm_error_hush(void);
bool wm_error_heard(warm_status before);

/* For bugs of the library: stops debug builds, free in release builds. */
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
