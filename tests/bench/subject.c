/* subject.c: the yardsticks, and finding a subject by its name.
 *
 * none   hands out one constant: what the loop itself costs
 * floor  a thread's own stack of free buffers for each power of two, no lock
 *        and no event: the least such a call can cost
 * malloc whatever malloc is: glibc's, or what was preloaded */
#include "tests/bench/bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- none -----------------------------------------------------------------
 */

static char nothing[64];

static bool none_open(const bench_setup *setup)
{
    (void)setup;
    return true;
}

static void *none_alloc(size_t bytes)
{
    (void)bytes;
    return nothing;
}

static void none_free(void *pointer, size_t bytes)
{
    (void)pointer;
    (void)bytes;
}

const bench_subject bench_none = {
    .name = "none", .open = none_open, .alloc = none_alloc, .free = none_free};

/* ---- floor ----------------------------------------------------------------
 */

enum { FLOOR_CLASSES = 40, FLOOR_DEPTH = 256 };

/* The stack lies outside the buffers, which stay untouched; and outside of
 * thread-local memory, which every new thread would have to clear. */
typedef struct floor_stack {
    unsigned depth;
    void *free[FLOOR_DEPTH];
} floor_stack;

static _Thread_local floor_stack *own;

static void floor_enter(void)
{
    own = calloc(FLOOR_CLASSES, sizeof *own);
    if (own == NULL) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
}

static inline unsigned class_of(size_t bytes)
{
    return 64 - (unsigned)__builtin_clzll(bytes - 1);
}

static void *floor_alloc(size_t bytes)
{
    unsigned class = class_of(bytes);
    floor_stack *stack = &own[class];

    if (__builtin_expect(stack->depth > 0, 1)) {
        return stack->free[--stack->depth];
    }
    return bench_map((size_t)1 << class);
}

static void floor_free(void *pointer, size_t bytes)
{
    unsigned class = class_of(bytes);
    floor_stack *stack = &own[class];

    if (__builtin_expect(stack->depth < FLOOR_DEPTH, 1)) {
        stack->free[stack->depth++] = pointer;
    } else {
        bench_unmap(pointer, (size_t)1 << class);
    }
}

const bench_subject bench_floor = {.name = "floor",
                                   .open = none_open,
                                   .enter = floor_enter,
                                   .alloc = floor_alloc,
                                   .free = floor_free};

/* ---- malloc ---------------------------------------------------------------
 */

static void *malloc_alloc(size_t bytes)
{
    return malloc(bytes);
}

static void malloc_free(void *pointer, size_t bytes)
{
    (void)bytes;
    free(pointer);
}

const bench_subject bench_malloc = {.name = "malloc",
                                    .open = none_open,
                                    .alloc = malloc_alloc,
                                    .free = malloc_free};

/* ---- by name --------------------------------------------------------------
 */

/* CUB's allocator is C++ over the toolkit's headers, and so a library of its
 * own beside the program, where it could be built. */
static const bench_subject *find_cub(const char *name)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    const bench_subject *subject;
    void *library;
    char *slash;

    path[length > 0 ? length : 0] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL) {
        return NULL;
    }
    strcpy(slash + 1, "libbench_cub.so");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    subject = library != NULL ? dlsym(library, "bench_cub") : NULL;
    if (subject == NULL) {
        fprintf(stderr, "skip: %s: built without CUDA's headers or C++\n",
                name);
    }
    return subject;
}

const bench_subject *bench_subject_find(const char *name)
{
    static const bench_subject *const all[] = {&bench_none,     &bench_floor,
                                               &bench_malloc,   &bench_raw,
                                               &bench_warmpool, &bench_host};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    if (strcmp(name, "cub") == 0) {
        return find_cub(name);
    }
    fprintf(stderr, "bench: no subject '%s'\n", name);
    return NULL;
}
