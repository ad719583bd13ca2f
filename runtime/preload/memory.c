/* memory.c: CUDA's allocations become blocks of warmpool, and its frees keep
 * CUDA's meaning: the memory is used again only once all that was queued before
 * has finished. CUDA waits for that; here the block does, unless option
 * free:wait says that the caller shall wait as well.
 *
 * A pointer that is none of warmpool's blocks is CUDA's. */
#include "preload.h"

/* cudaHostAlloc: portable and mapped, which all page-locked memory is. */
enum { PORTABLE = 1, MAPPED = 2, COMBINED = 4 };

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
           : status == WARM_OUT_OF_MEMORY ? WP_OUT_OF_MEMORY
                                          : NOT_SERVED;
}

/* Write-combined memory is never in pieces. */
static warm_status pin(size_t bytes, unsigned flags, void **block)
{
    if ((flags & COMBINED) != 0) {
        return warm_pinned_alloc_on(wp_runtime(), bytes, WARM_NODE_ANY,
                                    WARM_ALLOC_WRITE_COMBINED, block);
    }
    return bytes <= wp_pinned_most()
               ? warm_pinned_alloc(wp_runtime(), bytes, block)
               : WARM_UNSUPPORTED;
}

static int alloc_pinned(void **pointer, size_t bytes, unsigned flags)
{
    void *block = NULL;
    int code;

    if (pointer == NULL || bytes == 0 ||
        (flags & ~(unsigned)(PORTABLE | MAPPED | COMBINED)) != 0 ||
        !wp_enter(WP_PINNED)) {
        return NOT_SERVED;
    }
    code = answer(pin(bytes, flags, &block));
    if (code == 0) {
        wp_pinned_served();
    }
    wp_leave();
    if (code == 0) {
        *pointer = block;
    }
    return wp_failed(code);
}

/* Memory of a default stream is legacy stream's, whichever it is: what is idle
 * there has passed on all streams. A stream that cannot be adopted may be gone
 * before the memory is freed: its memory is CUDA's. */
static int alloc_device(void **pointer, size_t bytes, void *stream)
{
    void *block = NULL, *order = is_default(stream) ? NULL : stream;
    warm_status status;
    int device = 0;

    if (pointer == NULL || bytes == 0 || !wp_enter(WP_DEVICE)) {
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
    return wp_failed(answer(status));
}

/* 0: the pointer is the start of a block of ours; else the answer. What was
 * freed already must not go to CUDA: it may be the start of memory that holds
 * other blocks. In a process that is forked, or exits, nothing is known. */
static int check(void *pointer, bool of_device)
{
    warm_block_info info = WARM_INIT(warm_block_info);
    warm_status status;

    if (!warm_owns(pointer)) {
        return warm_holds(pointer) && !wp_has_reset() ? WP_INVALID_VALUE
                                                      : NOT_SERVED;
    }
    status = warm_block_get_info(pointer, &info);
    if (status == WARM_FORKED || status == WARM_EXITING) {
        return WP_UNLOADING;
    }
    if (status == WARM_OK && wp_is_lost(info.device)) {
        return NOT_SERVED;
    }
    return status == WARM_OK && info.base == pointer &&
                   (info.device >= 0) == of_device
               ? 0
               : WP_INVALID_VALUE;
}

/* Waits for all that may use the block; false: that is more than the device of
 * the thread, for which alone CUDA waits. */
static bool wait_for(void *pointer)
{
    warm_block_info info = WARM_INIT(warm_block_info);
    int device = 0, count = 0;

    return warm_block_get_info(pointer, &info) == WARM_OK &&
           warm_device_current(wp_runtime(), &device) == WARM_OK &&
           warm_device_count(wp_runtime(), &count) == WARM_OK &&
           (info.device >= 0 ? info.device == device : count == 1) &&
           wp_synchronize();
}

/* The block stays live where that cannot be recorded which it must wait for:
 * CUDA waits for the rest instead. */
static int free_block(void *pointer)
{
    warm_status status;

    wp_unshare(pointer);
    status = warm_free_deferred(pointer);
    if ((status == WARM_OUT_OF_MEMORY || status == WARM_DRIVER_ERROR ||
         status == WARM_UNSUPPORTED) &&
        wait_for(pointer)) {
        status = warm_free(pointer);
    }
    return status == WARM_OK                ? 0
           : status == WARM_INVALID_POINTER ? WP_INVALID_VALUE
                                            : WP_UNLOADING;
}

/* The code, or NOT_SERVED: the pointer is none of ours. A thread that is inside
 * is asked as well: a library that is destroyed may free what was served when
 * it asked for it. */
static int free_ours(void *pointer, bool of_device, bool waits)
{
    int code;

    if (pointer == NULL) {
        return NOT_SERVED;
    }
    wp_in();
    code = check(pointer, of_device);
    if (code == 0) {
        if (waits) {
            (void)wp_synchronize();
        }
        code = free_block(pointer);
    }
    wp_out();
    return wp_failed(code);
}

WP_EXPORT int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
WP_EXPORT int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    int code = alloc_pinned(pointer, bytes, flags);

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaHostAlloc, host_alloc_fn, WP_NO_FUNCTION, pointer, bytes,
                   flags);
}

WP_EXPORT int cudaMallocHost(void **pointer, size_t bytes);
WP_EXPORT int cudaMallocHost(void **pointer, size_t bytes)
{
    int code = alloc_pinned(pointer, bytes, 0);

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaMallocHost, alloc_fn, WP_NO_FUNCTION, pointer, bytes);
}

WP_EXPORT int cudaMalloc(void **pointer, size_t bytes);
WP_EXPORT int cudaMalloc(void **pointer, size_t bytes)
{
    int code = alloc_device(pointer, bytes, NULL);

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaMalloc, alloc_fn, WP_NO_FUNCTION, pointer, bytes);
}

WP_EXPORT int cudaFreeHost(void *pointer);
WP_EXPORT int cudaFreeHost(void *pointer)
{
    int code = free_ours(pointer, false, wp_free_waits());

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaFreeHost, free_fn, WP_NO_FUNCTION, pointer);
}

WP_EXPORT int cudaFree(void *pointer);
WP_EXPORT int cudaFree(void *pointer)
{
    int code = free_ours(pointer, true, wp_free_waits());

    if (code != NOT_SERVED) {
        return code;
    }
    WP_RETURN_REAL(cudaFree, free_fn, WP_NO_FUNCTION, pointer);
}

/* In the order of a stream: the caller has made that one wait for all others
 * that use the memory. What a default stream frees may be allocated next for
 * any stream, and so waits for all. */
static int free_in_order(void *pointer, void *stream)
{
    int code = check(pointer, true);
    warm_status status;

    if (code != 0) {
        return code;
    }
    if (wp_captures(stream)) {
        return WP_INVALID_VALUE; /* a graph frees its own memory only */
    }
    if (is_default(stream)) {
        return free_block(pointer);
    }
    status = warm_record_stream(pointer, stream);
    if (status == WARM_OK) {
        wp_unshare(pointer);
        status = warm_free(pointer);
    }
    return status == WARM_OK ? 0 : WP_INVALID_VALUE;
}

static int free_async(void *pointer, void *stream)
{
    int code;

    if (pointer == NULL) {
        return NOT_SERVED;
    }
    wp_in();
    code = free_in_order(pointer, stream);
    wp_out();
    return wp_failed(code);
}

/* In a capture the memory is the graph's, and there in each of its launches:
 * only CUDA can allocate that. */
static int alloc_async(void **pointer, size_t bytes, void *stream)
{
    return wp_captures(stream) ? NOT_SERVED
                               : alloc_device(pointer, bytes, stream);
}

/* Code for per-thread default streams calls those with _ptsz: none, the null
 * pointer, is the thread's own stream there. */
#define ASYNC(alloc, free, none)                                               \
    WP_EXPORT int alloc(void **pointer, size_t bytes, void *stream);           \
    WP_EXPORT int alloc(void **pointer, size_t bytes, void *stream)            \
    {                                                                          \
        int code =                                                             \
            alloc_async(pointer, bytes, stream != NULL ? stream : (none));     \
                                                                               \
        if (code != NOT_SERVED) {                                              \
            return code;                                                       \
        }                                                                      \
        WP_RETURN_REAL(alloc, alloc_async_fn, WP_NO_FUNCTION, pointer, bytes,  \
                       stream);                                                \
    }                                                                          \
                                                                               \
    WP_EXPORT int free(void *pointer, void *stream);                           \
    WP_EXPORT int free(void *pointer, void *stream)                            \
    {                                                                          \
        int code = free_async(pointer, stream != NULL ? stream : (none));      \
                                                                               \
        if (code != NOT_SERVED) {                                              \
            return code;                                                       \
        }                                                                      \
        WP_RETURN_REAL(free, free_async_fn, WP_NO_FUNCTION, pointer, stream);  \
    }

ASYNC(cudaMallocAsync, cudaFreeAsync, NULL)
ASYNC(cudaMallocAsync_ptsz, cudaFreeAsync_ptsz, WARM_STREAM_PER_THREAD)
