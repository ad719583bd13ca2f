/* memory.c: CUDA's allocations become blocks of warmpool, and its frees keep
 * CUDA's meaning: the memory is used again only once all that was queued before
 * has finished. CUDA waits for that; here the block does, unless option
 * free:wait says that the caller shall wait as well.
 *
 * A pointer that is none of warmpool's blocks is CUDA's. */
#include "preload.h"

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, UNLOADING = 4, NOT_FOUND = 500 };

/* cudaHostAlloc: portable and mapped, which all page-locked memory is. */
enum { PORTABLE = 1, MAPPED = 2 };

/* Streams of CUDA's API that are names. */
static bool is_default(const void *stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY ||
           stream == WARM_STREAM_PER_THREAD;
}

typedef int alloc_fn(void **pointer, size_t bytes);
typedef int host_alloc_fn(void **pointer, size_t bytes, unsigned flags);
typedef int alloc_async_fn(void **pointer, size_t bytes, void *stream);
typedef int free_fn(void *pointer);
typedef int free_async_fn(void *pointer, void *stream);

/* What an allocation answers: NOT_SERVED: the real function is to be asked. */
enum { NOT_SERVED = -1 };

static int answer(warm_status status)
{
    return status == WARM_OK              ? 0
           : status == WARM_OUT_OF_MEMORY ? OUT_OF_MEMORY
                                          : NOT_SERVED;
}

static int alloc_pinned(void **pointer, size_t bytes)
{
    void *block = NULL;
    int code = NOT_SERVED;

    if (pointer == NULL || bytes == 0 || !wp_enter(WP_PINNED)) {
        return NOT_SERVED;
    }
    if (bytes <= wp_pinned_most()) {
        code = answer(warm_pinned_alloc(wp_runtime(), bytes, &block));
    }
    wp_leave();
    if (code == 0) {
        *pointer = block;
    }
    return code;
}

/* Memory of a default stream is legacy stream's, whichever it is: what is idle
 * there has passed on all streams. A stream that cannot be adopted may be gone
 * before the memory is freed: its memory is CUDA's. So is memory of streams
 * while one captures: of CUDA it is part of the graph, and ours could never be
 * used again. */
static int alloc_device(void **pointer, size_t bytes, void *stream)
{
    void *block = NULL, *order = is_default(stream) ? NULL : stream;
    warm_status status;
    int device = 0;

    if (pointer == NULL || bytes == 0 || (order != NULL && wp_captures() > 0) ||
        !wp_enter(WP_DEVICE)) {
        return NOT_SERVED;
    }
    status = warm_device_current(wp_runtime(), &device);
    if (status == WARM_OK && order != NULL) {
        status = warm_stream_adopt(wp_runtime(), order);
    }
    if (status == WARM_OK) {
        status = warm_device_alloc(wp_runtime(), device, order, bytes, &block);
    }
    wp_leave();
    if (status == WARM_OK) {
        *pointer = block;
    }
    return answer(status);
}

static int free_block(void *pointer, bool of_device)
{
    warm_block_info info = WARM_INIT(warm_block_info);
    warm_status status = warm_block_get_info(pointer, &info);

    if (status == WARM_OK &&
        (info.base != pointer || (info.device >= 0) != of_device)) {
        return INVALID_VALUE;
    }
    if (wp_free_waits()) {
        wp_synchronize();
    }
    if (status == WARM_OK) {
        status = warm_free_deferred(pointer);
    }
    if (status == WARM_OUT_OF_MEMORY) { /* no room for a record */
        wp_synchronize();
        status = warm_free(pointer);
    }
    return status == WARM_OK                ? 0
           : status == WARM_INVALID_POINTER ? INVALID_VALUE
                                            : UNLOADING;
}

/* The code, or NOT_SERVED: the pointer is none of ours. A thread that is inside
 * is asked as well: a library that is destroyed may free what was served when
 * it asked for it. */
static int free_ours(void *pointer, bool of_device)
{
    int code;

    if (pointer == NULL || !warm_owns(pointer)) {
        return NOT_SERVED;
    }
    wp_in();
    code = free_block(pointer, of_device);
    wp_out();
    return code;
}

WP_EXPORT int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
WP_EXPORT int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    int code = (flags & ~(unsigned)(PORTABLE | MAPPED)) == 0
                   ? alloc_pinned(pointer, bytes)
                   : NOT_SERVED;

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaHostAlloc, host_alloc_fn, NOT_FOUND, pointer, bytes,
                   flags);
}

WP_EXPORT int cudaMallocHost(void **pointer, size_t bytes);
WP_EXPORT int cudaMallocHost(void **pointer, size_t bytes)
{
    int code = alloc_pinned(pointer, bytes);

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaMallocHost, alloc_fn, NOT_FOUND, pointer, bytes);
}

WP_EXPORT int cudaMalloc(void **pointer, size_t bytes);
WP_EXPORT int cudaMalloc(void **pointer, size_t bytes)
{
    int code = alloc_device(pointer, bytes, NULL);

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaMalloc, alloc_fn, NOT_FOUND, pointer, bytes);
}

WP_EXPORT int cudaFreeHost(void *pointer);
WP_EXPORT int cudaFreeHost(void *pointer)
{
    int code = free_ours(pointer, false);

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaFreeHost, free_fn, NOT_FOUND, pointer);
}

WP_EXPORT int cudaFree(void *pointer);
WP_EXPORT int cudaFree(void *pointer)
{
    int code = free_ours(pointer, true);

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaFree, free_fn, NOT_FOUND, pointer);
}

/* In the order of a stream: the caller has made that one wait for all others
 * that use the memory. What a default stream frees may be allocated next for
 * any stream, and so waits for all. */
static int free_async(void *pointer, void *stream)
{
    bool ours = pointer != NULL && warm_owns(pointer);
    warm_status status;

    if (!ours || is_default(stream)) {
        return ours ? free_ours(pointer, true) : NOT_SERVED;
    }
    wp_in();
    status = warm_record_stream(pointer, stream);
    if (status == WARM_OK) {
        status = warm_free(pointer);
    }
    wp_out();
    return status == WARM_OK ? 0 : INVALID_VALUE;
}

/* Code for per-thread default streams calls those with _ptsz. */
#define ASYNC(alloc, free)                                                     \
    WP_EXPORT int alloc(void **pointer, size_t bytes, void *stream);           \
    WP_EXPORT int alloc(void **pointer, size_t bytes, void *stream)            \
    {                                                                          \
        int code = alloc_device(pointer, bytes, stream);                       \
                                                                               \
        if (code != NOT_SERVED) {                                              \
            return code;                                                       \
        }                                                                      \
        WP_RETURN_REAL(alloc, alloc_async_fn, NOT_FOUND, pointer, bytes,       \
                       stream);                                                \
    }                                                                          \
                                                                               \
    WP_EXPORT int free(void *pointer, void *stream);                           \
    WP_EXPORT int free(void *pointer, void *stream)                            \
    {                                                                          \
        int code = free_async(pointer, stream);                                \
                                                                               \
        if (code != NOT_SERVED) {                                              \
            return code;                                                       \
        }                                                                      \
        WP_RETURN_REAL(free, free_async_fn, NOT_FOUND, pointer, stream);       \
    }

ASYNC(cudaMallocAsync, cudaFreeAsync)
ASYNC(cudaMallocAsync_ptsz, cudaFreeAsync_ptsz)
