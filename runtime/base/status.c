/* status.c: status texts and the last error of each thread. */
#include "runtime/base/status.h"

#include "runtime/base/sized.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_data.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

static const char no_words[] =
    "the message of this thread's last error was lost: there was no memory for "
    "it, or the thread is about to end";

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
    char message[sizeof((warm_error *)0)->message];
    wm_thread_data *data = wm_thread_data_make();
    warm_error *error;

    wm_thread_marks_now.last_status = (unsigned char)status;
    if (data == NULL) {
        return;
    }
    error = &data->error;
    /* Composed first: an argument may be the old last error's text. */
    vsnprintf(message, sizeof message, format, list);
    wm_shown(message, sizeof message);
    error->code = code;
    snprintf(error->origin, sizeof error->origin, "%s", origin);
    snprintf(error->code_text, sizeof error->code_text, "%s",
             code_text != NULL ? code_text : "");
    memcpy(error->message, message, sizeof message);
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

/* Whether data holds the message of the last error. If it was allocated only
 * after that error, for a tag or for the next error, it does not. */
static bool has_words(const wm_thread_data *data)
{
    return data != NULL && (wm_thread_marks_now.last_status == WARM_OK ||
                            data->error.origin[0] != '\0');
}

void warm_last_error(warm_error *error)
{
    const wm_thread_data *data = wm_thread_data_get();
    warm_error last = {.code = 0};

    if (error == NULL || error->size < sizeof error->size) {
        return;
    }
    if (has_words(data)) {
        last = data->error;
    } else if (wm_thread_marks_now.last_status != WARM_OK) {
        snprintf(last.origin, sizeof last.origin, "warmpool");
        snprintf(last.message, sizeof last.message, "%s", no_words);
    }
    last.status = (warm_status)wm_thread_marks_now.last_status;
    wm_sized_out(error, &last, sizeof last);
}

/* A hushed error has a message and no status. */
static bool has_error(const wm_thread_data *data)
{
    return wm_thread_marks_now.last_status != WARM_OK ||
           (data != NULL && data->error.origin[0] != '\0');
}

warm_error wm_error_save(void)
{
    warm_error error;

    error.size = sizeof error;
    error.status = WARM_OK;
    error.code = 0;
    error.origin[0] = error.code_text[0] = error.message[0] = '\0';
    if (wm_unlikely(has_error(wm_thread_data_get()))) {
        warm_last_error(&error);
    }
    return error;
}

/* Copies nothing if there is no error before and after. */
void wm_error_restore(const warm_error *error)
{
    wm_thread_data *data =
        error->status != WARM_OK ? wm_thread_data_make() : wm_thread_data_get();
    bool none = error->status == WARM_OK && error->origin[0] == '\0';

    if (none && wm_likely(!has_error(data))) {
        return;
    }
    wm_thread_marks_now.last_status = (unsigned char)error->status;
    if (data != NULL && none) {
        data->error = (warm_error){.code = 0};
    } else if (data != NULL) {
        data->error = *error;
    }
}

warm_status wm_error_hush(void)
{
    warm_status before = (warm_status)wm_thread_marks_now.last_status;

    wm_thread_marks_now.last_status = WARM_OK;
    return before;
}

bool wm_error_heard(warm_status before)
{
    bool heard = wm_thread_marks_now.last_status != WARM_OK;

    if (!heard) {
        wm_thread_marks_now.last_status = (unsigned char)before;
    }
    return heard;
}

/* Allocates the thread's data if needed, so that the next message is kept. */
const char *warm_last_error_message(void)
{
    const wm_thread_data *data = wm_thread_data_make();

    if (has_words(data)) {
        return data->error.message;
    }
    return wm_thread_marks_now.last_status != WARM_OK ? no_words : "";
}

#ifndef NDEBUG
_Noreturn void wm_assert_failed(const char *text, const char *file, int line)
{
    fprintf(stderr, "warmpool: bug: %s at %s:%d\n", text, file, line);
    abort();
}
#endif
