/* warmpool/base.h: version, status codes, the last error of a thread.
 *
 * Every function of the library that can fail returns a warm_status. A status
 * is one of a few values below; what exactly was wrong, and the driver's or
 * library's own code and text, can be read with warm_last_error() by the same
 * thread until its next failing call. The library never prints (a log
 * callback does), never aborts and never exits.
 *
 * Outputs come last in every argument list and are written on success only.
 * Structs that cross this interface start with their size in bytes. WARM_INIT()
 * sets it, and every other field to zero, which means its default. They grow at
 * their end:
 * a smaller size, from a program built with an older header, is accepted, and
 * the fields past it are taken as zero or not written. One that is larger than
 * the library's, or no struct's at all, is refused with INVALID_ARGUMENT.
 */
#ifndef WARMPOOL_BASE_H
#define WARMPOOL_BASE_H

#if defined(__linux__) && defined(__LP64__)
#include <features.h> /* glibc's defines __GLIBC__ */
#endif
#ifndef __GLIBC__
#error "warmpool needs 64-bit Linux with glibc; this compiler targets another"
#endif

#include "warmpool/per_thread.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version stands here only; the build and warmpool.pc read it. */
#define WARM_VERSION_MAJOR 0
#define WARM_VERSION_MINOR 1
#define WARM_VERSION_PATCH 0

#if defined(__GNUC__)
#define WARM_API __attribute__((visibility("default")))
#else
#define WARM_API
#endif

/* name, value, text */
#define WARM_STATUS_MAP(X)                                                     \
    X(OK, 0, "success")                                                        \
    X(NOT_READY, 1, "the work has not finished yet")                           \
    X(NOT_FOUND, 2, "no such block, private pool, allocator or callback")      \
    X(INVALID_ARGUMENT, 3, "an argument is not valid")                         \
    X(INVALID_OPTION, 4, "an option is unknown or its value is not allowed")   \
    X(INVALID_POINTER, 5, "the pointer is not the start of a live block")      \
    X(INVALID_STREAM, 6,                                                       \
      "no such stream, event or graph, or it was destroyed")                   \
    X(OUT_OF_MEMORY, 7, "out of memory")                                       \
    X(UNSUPPORTED, 8, "not supported by this build, driver or device")         \
    X(UNAVAILABLE, 9, "a device, driver or library could not be used")         \
    X(DRIVER_ERROR, 10, "the device driver reported an error")                 \
    X(LIBRARY_ERROR, 11, "a library reported an error")                        \
    X(CAPTURE_ERROR, 12, "not allowed while a stream captures")                \
    X(RUNTIME_GONE, 13, "the runtime has been destroyed")                      \
    X(FORKED, 14, "the runtime was made before this process was forked")       \
    X(EXITING, 15,                                                             \
      "the process is exiting; the driver is not called any more")             \
    X(INTERNAL, 16, "records of the library contradict each other: its fault")

typedef enum warm_status {
#define WARM_STATUS_ENUM(name, value, text) WARM_##name = value,
    WARM_STATUS_MAP(WARM_STATUS_ENUM)
#undef WARM_STATUS_ENUM
} warm_status;

/* A struct of this interface with its size set and every other field zero, as
 * an expression:
 *
 *   warm_options options = WARM_INIT(warm_options);
 */
#ifdef __cplusplus
extern "C++" {
template <typename type> inline type warm_init()
{
    type value = type();

    value.size = sizeof value;
    return value;
}
}
#define WARM_INIT(type) (::warm_init<type>())
#else
#define WARM_INIT(type) ((type){.size = sizeof(type)})
#endif

/* What the last failing call of the calling thread left behind. */
typedef struct warm_error {
    size_t size;        /* sizeof(warm_error), set by the caller */
    warm_status status; /* WARM_OK if no call of this thread failed yet */
    int code;           /* the driver's or library's own code, 0 if none */
    char origin[32];    /* who reported code: "cuda", "cublas", "host", … */
    char code_text[96]; /* the origin's own text for code, or "" */
    char message[512];  /* one line for people that names the thing */
} warm_error;

/* The library's version, "major.minor.patch". Any thread; never blocks. */
WARM_API const char *warm_version(void);

/* The name of a status ("OUT_OF_MEMORY"), or "UNKNOWN". Static string. */
WARM_API const char *warm_status_name(warm_status status);

/* One sentence for a status. Static string, any thread, never blocks. */
WARM_API const char *warm_status_text(warm_status status);

/* Copies the calling thread's last error to *error.
 * error: borrowed, size set; a smaller one, of an older program, gets the
 * fields that it has, a larger one those known here.
 * Null is ignored. A success leaves the last error as it was. */
WARM_API void warm_last_error(warm_error *error);

/* The message of the calling thread's last error; "" if there was none.
 * Borrowed: valid until this thread's next failing call, or its exit. */
WARM_API const char *warm_last_error_message(void);

/* A stream, as the driver names it: on CUDA the cudaStream_t itself, so that
 * one can be passed where the other is asked for, without a cast. */
typedef void *warm_stream;

/* The legacy default stream, and the default stream of the calling thread
 * (one name, another stream in every thread). On CUDA these are the values of
 * cudaStreamLegacy and cudaStreamPerThread.
 *
 * A null stream means what it means in CUDA: the legacy one, but in code that
 * was built with nvcc --default-stream per-thread, or with the macro
 * CUDA_API_PER_THREAD_DEFAULT_STREAM defined before the first header, the one
 * of the calling thread (per_thread.h). Where a header says that null is the
 * legacy stream this is to be read with it. What was built without the macro
 * and is called by such code names the stream: WARM_STREAM_DEFAULT. */
#define WARM_STREAM_LEGACY     ((warm_stream)(uintptr_t)1)
#define WARM_STREAM_PER_THREAD ((warm_stream)(uintptr_t)2)

/* An event, as the driver names it: on CUDA the cudaEvent_t itself, which
 * points to the struct of this name, so that no cast is needed. */
typedef struct CUevent_st *warm_event;

/* A private pool of memory (private_pool.h). */
typedef struct warm_private_pool {
    uint64_t number; /* never used twice in a runtime; 0: no pool */
} warm_private_pool;

/* A runtime: pools, caches and the driver they work on. Opaque; the pointer
 * stays a valid argument for ever, also after warm_runtime_destroy(), where
 * every call answers WARM_RUNTIME_GONE. */
typedef struct warm_runtime warm_runtime;

/* Flags of warm_handle_prewarm() and warm_pinned_prewarm(). */
#define WARM_PREWARM_BACKGROUND 1u

#ifdef __cplusplus
}
#endif
#endif
