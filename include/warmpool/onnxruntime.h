/* warmpool/onnxruntime.h: allocators for ONNX Runtime.
 *
 * Includes ONNX Runtime's own header, unless the program has included it
 * before. The functions are inline: they add no symbol, and link nothing.
 *
 *   static warm_ort_allocator memory;
 *   warm_ort_host_init(&memory, api, runtime, "Cpu", 0);
 *   api->RegisterAllocator(env, &memory.base);
 *   api->AddSessionConfigEntry(options, "session.use_env_allocators", "1");
 *   … sessions with these options allocate from warmpool …
 *   api->UnregisterAllocator(env, memory.info);
 *   warm_ort_fini(&memory);
 *
 * ONNX Runtime calls an allocator from any thread. Alloc and Reserve differ in
 * the statistics alone. Fields that the included header does not declare
 * (Reserve from version 18 on, GetStats and AllocOnStream from 23, Shrink from
 * 25) do not exist in the struct, and its version says so: a library of another
 * version reads no field that is not there.
 *
 * Out of memory. ONNX Runtime checks what it gets for weights, but not for the
 * other tensors (1.20 and 1.32 were tried): these are at null then, and are
 * written to.
 * - Memory of the host is pageable when no more can be page-locked, as with
 *   WARM_ALLOC_PAGEABLE_OK (memory.h).
 * - In C++, a request that fails throws std::runtime_error with the message of
 *   warm_last_error_message(). ONNX Runtime catches it, as what its own
 *   allocators throw, and returns an OrtStatus with the message.
 * - In C, and in C++ without exceptions, a request that fails returns null. Let
 *   the file that calls warm_ort_device_init() be of C++ where memory of the
 *   device may run out.
 *
 * Free has no stream.
 * - Memory of the host: Free calls warm_free() and records no stream, so the
 *   block may be allocated again at once, as from ONNX Runtime's own arena. The
 *   CUDA provider frees a block that its copies use once they have finished,
 *   perhaps in a host function of the stream, where no driver may be called.
 *   AllocOnStream is therefore null, and ONNX Runtime calls Alloc.
 * - Memory of a device: see warm_ort_device_init().
 *
 * Status: an OrtStatus, which the caller releases, or null for success. */
#ifndef WARMPOOL_ONNXRUNTIME_H
#define WARMPOOL_ONNXRUNTIME_H

#include "warmpool/warmpool.h"

#ifndef ORT_API_VERSION
#include <onnxruntime_c_api.h>
#endif

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifdef __cpp_exceptions
#include <stdexcept>
#endif

#ifdef __cplusplus
#define WARM_ORT_NOEXCEPT noexcept
extern "C" {
#else
#define WARM_ORT_NOEXCEPT
#endif

/* Must stay where it is, and live, until it was unregistered and its last block
 * was freed. All fields are read only for the program. */
typedef struct warm_ort_allocator {
    OrtAllocator base;   /* for RegisterAllocator() */
    OrtMemoryInfo *info; /* for UnregisterAllocator() */
    const OrtApi *api;
    warm_runtime *runtime;
    int device;         /* -1: memory of the host */
    warm_stream stream; /* of Alloc and Reserve, for memory of a device */
    uint64_t allocs, reserves, largest; /* atomic, relaxed */
} warm_ort_allocator;

/* The allocator that ONNX Runtime calls: base is the first field. */
static inline warm_ort_allocator *warm_ort_of(const OrtAllocator *base)
{
    return (warm_ort_allocator *)(uintptr_t)base;
}

/* Counts a request that succeeded. */
static inline void warm_ort_count(warm_ort_allocator *a, uint64_t *counter,
                                  uint64_t bytes)
{
    uint64_t largest = __atomic_load_n(&a->largest, __ATOMIC_RELAXED);

    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    while (largest < bytes &&
           !__atomic_compare_exchange_n(&a->largest, &largest, bytes, 1,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Ends a request that failed. */
static inline void *warm_ort_refuse(void)
{
#ifdef __cpp_exceptions
    throw std::runtime_error(warm_last_error_message());
#else
    return NULL;
#endif
}

static inline void *warm_ort_get(warm_ort_allocator *a, size_t bytes,
                                 warm_stream stream, uint64_t *counter)
{
    void *block = NULL;
    warm_status status =
        a->device < 0
            ? warm_pinned_alloc_on(a->runtime, bytes, WARM_NODE_ANY,
                                   WARM_ALLOC_PAGEABLE_OK, &block)
            : warm_device_alloc(a->runtime, a->device, stream, bytes, &block);

    if (status != WARM_OK) {
        return warm_ort_refuse();
    }
    if (block != NULL) {
        warm_ort_count(a, counter, bytes);
    }
    return block;
}

static inline void *ORT_API_CALL warm_ort_alloc(OrtAllocator *base,
                                                size_t bytes)
{
    warm_ort_allocator *a = warm_ort_of(base);

    return warm_ort_get(a, bytes, a->stream, &a->allocs);
}

static inline void ORT_API_CALL warm_ort_free(OrtAllocator *base, void *block)
{
    const warm_ort_allocator *a = warm_ort_of(base);

    /* A block whose free fails stays live, which the runtime reports. */
    if (a->device < 0 || a->stream != NULL) {
        (void)warm_free(block);
    } else {
        (void)warm_free_deferred(block);
    }
}

static inline const OrtMemoryInfo *ORT_API_CALL
warm_ort_info(const OrtAllocator *base)
{
    return warm_ort_of(base)->info;
}

/* The last error of the thread, for ONNX Runtime. */
static inline OrtStatus *warm_ort_error(const OrtApi *api)
{
    return api->CreateStatus(ORT_FAIL, warm_last_error_message());
}

#if ORT_API_VERSION >= 18
static inline void *ORT_API_CALL warm_ort_reserve(OrtAllocator *base,
                                                  size_t bytes)
{
    warm_ort_allocator *a = warm_ort_of(base);

    return warm_ort_get(a, bytes, a->stream, &a->reserves);
}
#endif

#if ORT_API_VERSION >= 23
static inline void *ORT_API_CALL warm_ort_alloc_on_stream(OrtAllocator *base,
                                                          size_t bytes,
                                                          OrtSyncStream *stream)
{
    warm_ort_allocator *a = warm_ort_of(base);
    warm_stream on = stream == NULL
                         ? a->stream
                         : (warm_stream)a->api->SyncStream_GetHandle(stream);

    return warm_ort_get(a, bytes, on, &a->allocs);
}

static inline void warm_ort_put(const OrtApi *api, OrtKeyValuePairs *pairs,
                                const char *key, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    api->AddKeyValuePair(pairs, key, text);
}

/* Statistics under the names of ONNX Runtime's own arena. InUse, MaxInUse,
 * TotalAllocated (bytes held) and both counts of extensions are those of the
 * runtime's memory of this kind, whoever uses it, without pageable memory;
 * NumAllocs, NumReserves and MaxAllocSize are this allocator's. */
static inline OrtStatus *ORT_API_CALL warm_ort_stats(
    const OrtAllocator *base, OrtKeyValuePairs **pairs) WARM_ORT_NOEXCEPT
{
    warm_ort_allocator *a = warm_ort_of(base);
    warm_space_stats host = WARM_INIT(warm_space_stats);
    warm_device_stats device = WARM_INIT(warm_device_stats);
    const warm_stat *live = &host.live_bytes, *held = &host.held_bytes,
                    *segments = &host.segments;
    warm_status status;

    if (a->device < 0) {
        status = warm_pinned_get_stats(a->runtime, &host);
    } else {
        status = warm_device_get_stats(a->runtime, a->device, &device);
        live = &device.all.live_bytes;
        held = &device.all.held_bytes;
        segments = &device.all.segments;
    }
    if (status != WARM_OK) {
        return warm_ort_error(a->api);
    }
    a->api->CreateKeyValuePairs(pairs);
    warm_ort_put(a->api, *pairs, "InUse", live->current);
    warm_ort_put(a->api, *pairs, "MaxInUse", live->peak);
    warm_ort_put(a->api, *pairs, "TotalAllocated", held->current);
    warm_ort_put(a->api, *pairs, "NumArenaExtensions", segments->allocated);
    warm_ort_put(a->api, *pairs, "NumArenaShrinkages", segments->freed);
    warm_ort_put(a->api, *pairs, "NumAllocs",
                 __atomic_load_n(&a->allocs, __ATOMIC_RELAXED));
    warm_ort_put(a->api, *pairs, "NumReserves",
                 __atomic_load_n(&a->reserves, __ATOMIC_RELAXED));
    warm_ort_put(a->api, *pairs, "MaxAllocSize",
                 __atomic_load_n(&a->largest, __ATOMIC_RELAXED));
    return NULL;
}
#endif

/* Returns idle memory of this kind, of the whole runtime, to the driver. For
 * the program, with a header of any version: ONNX Runtime (1.20 to 1.32) calls
 * Shrink of no allocator of RegisterAllocator(), and Run() with the entry
 * memory.enable_memory_arena_shrinkage for its device fails, since it is no
 * arena of ONNX Runtime's. */
static inline OrtStatus *ORT_API_CALL warm_ort_shrink(OrtAllocator *base)
    WARM_ORT_NOEXCEPT
{
    const warm_ort_allocator *a = warm_ort_of(base);
    warm_status status = a->device < 0
                             ? warm_pinned_trim(a->runtime, 0, NULL)
                             : warm_device_trim(a->runtime, a->device, 0, NULL);

    return status == WARM_OK ? NULL : warm_ort_error(a->api);
}

/* What both kinds share. The allocator is written on success only. */
static inline OrtStatus *warm_ort_init(warm_ort_allocator *allocator,
                                       warm_ort_allocator *given,
                                       const char *name, int device,
                                       OrtMemType type)
{
    warm_device_stats stats = WARM_INIT(warm_device_stats);
    OrtStatus *failed;

    if (warm_device_get_stats(given->runtime, device, &stats) != WARM_OK) {
        return warm_ort_error(given->api);
    }
    failed = given->api->CreateMemoryInfo(name, OrtDeviceAllocator, device,
                                          type, &given->info);
    if (failed != NULL) {
        return failed;
    }
    *allocator = *given;
    allocator->base.version = ORT_API_VERSION;
    allocator->base.Alloc = warm_ort_alloc;
    allocator->base.Free = warm_ort_free;
    allocator->base.Info = warm_ort_info;
#if ORT_API_VERSION >= 18
    allocator->base.Reserve = warm_ort_reserve;
#endif
#if ORT_API_VERSION >= 23
    allocator->base.GetStats = warm_ort_stats;
    if (given->device >= 0) {
        allocator->base.AllocOnStream = warm_ort_alloc_on_stream;
    }
#endif
#if ORT_API_VERSION >= 25
    allocator->base.Shrink = warm_ort_shrink;
#endif
    return NULL;
}

/* Makes an allocator of page-locked memory.
 * allocator: the caller's; ended with warm_ort_fini(). api, runtime: borrowed,
 * must outlive it. name: as for CreateMemoryInfo(): "Cpu" for memory that
 * sessions on the CPU use, "CudaPinned" for what the CUDA provider copies from
 * and to.
 * device: with "CudaPinned", from version 23 on, that of the sessions: one of
 * each device has an allocator of its own. Else 0.
 * A block larger than option pin_chunk is page-locked in pieces, and CUDA
 * copies no range that lies in two (memory.h): raise pin_chunk above the size
 * of the largest tensor that is copied.
 * Status: no runtime, no such device, and what CreateMemoryInfo() refuses. */
static inline OrtStatus *warm_ort_host_init(warm_ort_allocator *allocator,
                                            const OrtApi *api,
                                            warm_runtime *runtime,
                                            const char *name, int device)
{
    warm_ort_allocator given;

    memset(&given, 0, sizeof given);
    given.api = api;
    given.runtime = runtime;
    given.device = -1;
    return warm_ort_init(allocator, &given, name, device,
                         strcmp(name, "Cpu") == 0 ? OrtMemTypeDefault
                                                  : OrtMemTypeCPUOutput);
}

/* Makes an allocator of a device's memory, named "Cuda".
 * allocator, api, runtime: as above. device: 0 … count - 1.
 * stream: the stream on which sessions work (has_user_compute_stream and
 * user_compute_stream of the CUDA provider), of that device, adopted, such as
 * one of warm_stream_create(); borrowed, must outlive the allocator's blocks.
 * Alloc and Reserve allocate in its order, and Free frees in it.
 * Null: Alloc and Reserve allocate in the order of the legacy default stream,
 * and every Free is a warm_free_deferred(), which waits for adopted streams,
 * for default streams and those that wait for these. It does not know of the
 * streams that the CUDA provider makes for itself, which wait for none: give
 * sessions a stream of warmpool.
 * AllocOnStream allocates in the order of the stream that ONNX Runtime names.
 * If sessions on other streams use a block, record them (warm_record_stream())
 * before it is freed.
 * Status: as above. */
static inline OrtStatus *warm_ort_device_init(warm_ort_allocator *allocator,
                                              const OrtApi *api,
                                              warm_runtime *runtime, int device,
                                              warm_stream stream)
{
    warm_ort_allocator given;

    memset(&given, 0, sizeof given);
    given.api = api;
    given.runtime = runtime;
    given.device = device;
    given.stream = stream;
    return warm_ort_init(allocator, &given, "Cuda", device, OrtMemTypeDefault);
}

/* Ends an allocator that is not registered any more, or whose environment was
 * released. Sessions and values that use it were released before: else they
 * free blocks by an allocator that is gone. */
static inline void warm_ort_fini(warm_ort_allocator *allocator)
{
    allocator->api->ReleaseMemoryInfo(allocator->info);
    memset(allocator, 0, sizeof *allocator);
}

#ifdef __cplusplus
}
#endif
#endif
