/* skip.h: a test program that lacks what it needs reports that it was skipped.
 */
#ifndef SKIP_H
#define SKIP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints a line, and writes one to the TAP log; returns main's result. */
static inline int skip_program(const char *program, const char *why)
{
    const char *log_name = getenv("CK_TAP_LOG_FILE_NAME");
    FILE *log = log_name != NULL ? fopen(log_name, "w") : NULL;

    printf("skip: %s: %s\n", program, why);
    if (log != NULL) {
        fprintf(log, "1..1\nok 1 - %s # skip %s\n", program, why);
        fclose(log);
    }
    return EXIT_SUCCESS;
}

/* SKIP_MAIN: a main that only skips. SKIP_MAIN_IF: a main that skips if the
 * condition holds, else runs the tests (wt.h). */
#define SKIP_MAIN(why)                                                         \
    int main(void)                                                             \
    {                                                                          \
        return skip_program(program_invocation_short_name, why);               \
    }
#define SKIP_MAIN_IF(condition, why)                                           \
    int main(void)                                                             \
    {                                                                          \
        return (condition) ? skip_program(program_invocation_short_name, why)  \
                           : wt_run();                                         \
    }

#endif
