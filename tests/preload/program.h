/* program.h: what the programs that know CUDA alone share: every call must
 * succeed, or the program ends; and what the stand-ins counted. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline void try(int code, const char *call, int line)
{
    if (code != 0) {
        printf("line %d: %s: %d\n", line, call, code);
        exit(1);
    }
}

static inline void must(bool good, const char *what, int line)
{
    if (!good) {
        printf("line %d: not %s\n", line, what);
        exit(1);
    }
}

#define TRY(call)       try((int)(call), #call, __LINE__)
#define MUST(condition) must(condition, #condition, __LINE__)

/* ---- what the stand-ins counted ------------------------------------------ */

static inline uint64_t calls_of(const char *function)
{
    uint64_t (*calls)(const char *) = NULL;
    void *standin = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    MUST(standin != NULL);
    *(void **)(void *)&calls = dlsym(standin, "standin_calls");
    dlclose(standin);
    MUST(calls != NULL);
    return calls(function);
}

static inline uint64_t misuses(void)
{
    uint64_t (*misuse)(char *, size_t) = NULL;
    void *standin = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    char text[256] = "";
    uint64_t count;

    *(void **)(void *)&misuse = dlsym(standin, "standin_misuse");
    dlclose(standin);
    count = misuse(text, sizeof text);
    if (count > 0) {
        printf("misuse: %s\n", text);
    }
    return count;
}

#endif
