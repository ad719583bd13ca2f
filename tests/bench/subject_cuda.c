/* subject_cuda.c: peers on a real cudart, which is loaded, never linked:
 * cudaMallocAsync on the thread's own stream, from the device's pool, which is
 * told to keep what is freed. */
#include "tests/bench/bench.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

enum { NON_BLOCKING = 1, RELEASE_THRESHOLD = 4 };

/* As cudart declares them; 0 is success. */
static struct {
    int (*set_device)(int device);
    int (*stream_create)(void **stream, unsigned flags);
    int (*malloc_async)(void **pointer, size_t bytes, void *stream);
    int (*free_async)(void *pointer, void *stream);
    int (*default_pool)(void **pool, int device);
    int (*pool_set)(void *pool, int attribute, void *value);
} rt;

static _Thread_local void *own_stream;

void *bench_cudart(void)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12",
                                        "libcudart.so"};
    void *library = NULL;

    for (size_t i = 0; library == NULL && i < sizeof names / sizeof *names;
         i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        fprintf(stderr, "skip: cudart: %s\n", dlerror());
    }
    return library;
}

static bool find(void *library, const char *name, void *slot)
{
    *(void **)slot = dlsym(library, name);
    if (*(void **)slot == NULL) {
        fprintf(stderr, "skip: cudart has no %s\n", name);
    }
    return *(void **)slot != NULL;
}

static bool async_open(const bench_setup *setup)
{
    void *library = bench_cudart(), *pool = NULL;
    uint64_t keep = UINT64_MAX;

    if (library == NULL ||
        !find(library, "cudaSetDevice", (void *)&rt.set_device) ||
        !find(library, "cudaStreamCreateWithFlags",
              (void *)&rt.stream_create) ||
        !find(library, "cudaMallocAsync", (void *)&rt.malloc_async) ||
        !find(library, "cudaFreeAsync", (void *)&rt.free_async) ||
        !find(library, "cudaDeviceGetDefaultMemPool",
              (void *)&rt.default_pool) ||
        !find(library, "cudaMemPoolSetAttribute", (void *)&rt.pool_set)) {
        return false;
    }
    if (rt.set_device(0) != 0 || rt.default_pool(&pool, 0) != 0 ||
        rt.pool_set(pool, RELEASE_THRESHOLD, &keep) != 0) {
        fprintf(stderr, "skip: cudaMallocAsync: no device or no pool\n");
        return false;
    }
    return true;
}

static void must(const char *what, int code)
{
    if (__builtin_expect(code != 0, 0)) {
        fprintf(stderr, "bench: %s: code %d\n", what, code);
        exit(1);
    }
}

static void async_enter(void)
{
    must("cudaSetDevice", rt.set_device(0));
    must("cudaStreamCreateWithFlags",
         rt.stream_create(&own_stream, NON_BLOCKING));
}

static void *async_alloc(size_t bytes)
{
    void *pointer = NULL;

    must("cudaMallocAsync", rt.malloc_async(&pointer, bytes, own_stream));
    return pointer;
}

static void async_free(void *pointer, size_t bytes)
{
    must("cudaFreeAsync", rt.free_async(pointer, own_stream));
}

/* A block belongs to the stream it was allocated on. */
static void async_record(void *pointer, unsigned stream)
{
}

const bench_subject bench_async = {.name = "cuda-async",
                                   .open = async_open,
                                   .enter = async_enter,
                                   .alloc = async_alloc,
                                   .free = async_free,
                                   .record = async_record};
