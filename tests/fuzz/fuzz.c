/* fuzz.c: what all harnesses need. They run without Check's runner, so its two
 * functions behind every assertion are replaced: one that fails ends the
 * process, and libFuzzer keeps the input. The library logs nothing. */
#include "fuzz/fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void _ck_assert_failed(const char *file, int line, const char *expr,
                       const char *msg, ...)
{
    va_list arguments;

    fprintf(stderr, "%s:%d: %s: ", file, line, expr);
    va_start(arguments, msg);
    if (msg != NULL) {
        vfprintf(stderr, msg, arguments);
    }
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

void _mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

static void be_silent(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
}

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count;
    (void)words;
    warm_log_set(be_silent, NULL);
    return 0;
}
