/* status.c: status texts and the last error of each thread. */
#include "runtime/base/status.h"

#include "runtime/base/shown.h"
#include "runtime/base/sized.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

/* Dynamic TLS on purpose: it is large, and only read on failure. */
static _Thread_local warm_error last_error;

const char *warm_version(void)
{
    return STRING(WARM_VERSION_MAJOR) "." STRING(WARM_VERSION_MINOR) "." STRING(
        WARM_VERSION_PATCH);
}

const char *warm_status_name(warm_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                \
    case WARM_##name:                                                          \
        return #name;
        WARM_STATUS_MAP(CASE)
#undef CASE
    }
    return "UNKNOWN";
}

const char *warm_status_text(warm_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                \
    case WARM_##name:                                                          \
        return text;
        WARM_STATUS_MAP(CASE)
#undef CASE
    }
    return "unknown status";
}

__attribute__((format(printf, 5, 0))) static void
fail(warm_status status, const char *origin, int code, const char *code_text,
     const char *format, va_list list)
{
    char message[sizeof last_error.message];

    /* Composed first: an argument may be the old last error's text. */
    vsnprintf(message, sizeof message, format, list);
    wm_shown(message, sizeof message);
    last_error.size = sizeof last_error;
    last_error.status = status;
    last_error.code = code;
    snprintf(last_error.origin, sizeof last_error.origin, "%s", origin);
    snprintf(last_error.code_text, sizeof last_error.code_text, "%s",
             code_text != NULL ? code_text : "");
    memcpy(last_error.message, message, sizeof message);
}

void wm_fail_note(warm_status status, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    fail(status, "warmpool", 0, NULL, format, list);
    va_end(list);
}

void wm_fail_note_code(warm_status status, const char *origin, int code,
                       const char *code_text, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    fail(status, origin, code, code_text, format, list);
    va_end(list);
}

void warm_last_error(warm_error *error)
{
    if (error == NULL || error->size < sizeof error->size) {
        return;
    }
    wm_sized_out(error, &last_error, sizeof last_error);
}

void wm_error_restore(const warm_error *error)
{
    last_error = *error;
}

warm_status wm_error_hush(void)
{
    warm_status before = last_error.status;

    last_error.status = WARM_OK;
    return before;
}

bool wm_error_heard(warm_status before)
{
    bool heard = last_error.status != WARM_OK;

    if (!heard) {
        last_error.status = before;
    }
    return heard;
}

const char *warm_last_error_message(void)
{
    return last_error.message;
}

#ifndef NDEBUG
_Noreturn void wm_assert_failed(const char *text, const char *file, int line)
{
    fprintf(stderr, "warmpool: bug: %s at %s:%d\n", text, file, line);
    abort();
}
#endif
