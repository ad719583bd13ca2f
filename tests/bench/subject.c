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

/* ---- none -------------------------------------------------------------- */

static char nothing[64];

static bool none_open(const bench_setup *setup)
{
    return true;
}

static void *none_alloc(size_t bytes)
{
    return nothing;
}

static void none_free(void *pointer, size_t bytes)
{
}

const bench_subject bench_none = {
    .name = "none", .open = none_open, .alloc = none_alloc, .free = none_free};

/* ---- floor ------------------------------------------------------------- */

enum { FLOOR_CLASSES = 40, FLOOR_DEPTH = 256 };

/* The stacks lie outside the buffers, which stay untouched; and outside of
 * thread-local memory, which every new thread would have to clear. top: the
 * last one put, or a null below all of them. */
typedef struct floor_stack {
    void **top, **end;
} floor_stack;

static _Thread_local floor_stack *own;

static void floor_enter(void)
{
    void **room = calloc(FLOOR_CLASSES, (FLOOR_DEPTH + 1) * sizeof *room);

    own = calloc(FLOOR_CLASSES, sizeof *own);
    if (own == NULL || room == NULL) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
    for (int i = 0; i < FLOOR_CLASSES; i++) {
        own[i].top = room + (size_t)i * (FLOOR_DEPTH + 1);
        own[i].end = own[i].top + FLOOR_DEPTH;
    }
}

/* Sizes from a half, without, to the whole power of two, with. */
static inline unsigned class_of(size_t bytes)
{
    return (unsigned)__builtin_clzll(bytes - 1) ^ 63U;
}

static void *floor_alloc(size_t bytes)
{
    floor_stack *stack = &own[class_of(bytes)];
    void *pointer = *stack->top;

    if (__builtin_expect(pointer != NULL, 1)) {
        stack->top--;
        return pointer;
    }
    return bench_map((size_t)2 << class_of(bytes));
}

static void floor_free(void *pointer, size_t bytes)
{
    floor_stack *stack = &own[class_of(bytes)];

    if (__builtin_expect(stack->top != stack->end, 1)) {
        *++stack->top = pointer;
    } else {
        bench_unmap(pointer, (size_t)2 << class_of(bytes));
    }
}

const bench_subject bench_floor = {.name = "floor",
                                   .open = none_open,
                                   .enter = floor_enter,
                                   .alloc = floor_alloc,
                                   .free = floor_free};

/* ---- malloc ------------------------------------------------------------ */

static void *malloc_alloc(size_t bytes)
{
    return malloc(bytes);
}

static void malloc_free(void *pointer, size_t bytes)
{
    free(pointer);
}

const bench_subject bench_malloc = {.name = "malloc",
                                    .open = none_open,
                                    .alloc = malloc_alloc,
                                    .free = malloc_free};

/* ---- by name ----------------------------------------------------------- */

/* Peers are C++, and so libraries of their own beside the program, where they
 * could be built; CUB's twice: for the bench's cudart, and for a real one.
 * Lazy, since the bench's cudart has only what is called. */
static const bench_subject *find_in(const char *file, const char *name,
                                    const char *symbol)
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
    strcpy(slash + 1, file);
    library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    subject = library != NULL ? dlsym(library, symbol) : NULL;
    if (subject == NULL) {
        fprintf(stderr, "skip: %s: %s\n", name,
                library == NULL ? dlerror() : "is not in its library");
    }
    return subject;
}

const bench_subject *bench_subject_find(const char *name)
{
    static const bench_subject *const all[] = {
        &bench_none,     &bench_floor,    &bench_malloc, &bench_raw,
        &bench_warmpool, &bench_host,     &bench_cuda,   &bench_raw_cuda,
        &bench_async,    &bench_on_device};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    if (strcmp(name, "cub") == 0) {
        return find_in("libbench_cub.so", name, "bench_cub");
    }
    if (strcmp(name, "cuda-cub") == 0) {
        return bench_cudart() != NULL
                   ? find_in("libbench_cub_cuda.so", name, "bench_cub")
                   : NULL;
    }
    if (strcmp(name, "torch") == 0) {
        return find_in("libbench_torch.so", name, "bench_torch");
    }
    if (strcmp(name, "torch-device") == 0) {
        return find_in("libbench_torch.so", name, "bench_torch_device");
    }
    fprintf(stderr, "bench: no subject '%s'\n", name);
    return NULL;
}
