/* warmpool/base.h: version, status codes, the last error of a thread.
 *
 * Every function that can fail returns a warm_status, one of the values below.
 * warm_last_error() has the details: a message, and the driver's or library's
 * own code and text. The same thread can read it until its next failing call.
 * The library never aborts or exits, and prints nothing but its log, which
 * without a log callback is one warning at most, and one notice that CUDA is
 * not used (warm_log_set()).
 *
 * Outputs come last in every argument list and are written on success only,
 * but for texts, of which a buffer that is too small gets the beginning
 * (TRUNCATED; stats.h).
 * Structs that cross this interface start with their size in bytes. WARM_INIT()
 * sets it, and every other field to zero, which means its default. Structs grow
 * at their end: a smaller size, from a program built with an older header, is
 * accepted, and the missing fields are read as zero or not written. A size that
 * is larger than the library's, or that no version of the struct had, is
 * refused with INVALID_ARGUMENT.
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

/* The version is defined here only; the build and warmpool.pc read it. */
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
    X(INTERNAL, 16,                                                            \
      "records of warmpool contradict each other: a bug in warmpool")          \
    X(TRUNCATED, 17, "the text is longer than its buffer, and was cut")

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

/* The last failing call of a thread. */
typedef struct warm_error {
    size_t size;        /* sizeof(warm_error), set by the caller */
    warm_status status; /* WARM_OK if no call of this thread failed yet */
    int code;           /* the driver's or library's own code, 0 if none */
    char origin[32];    /* what reported code: "cuda", "cublas", "host", … */
    char code_text[96]; /* the origin's own text for code, or "" */
    char message[1024]; /* one line: what failed, with which value, why */
} warm_error;

/* The library's version, "major.minor.patch". Any thread; never blocks. */
WARM_API const char *warm_version(void);

/* The name of a status ("OUT_OF_MEMORY"), or "UNKNOWN". Static string. */
WARM_API const char *warm_status_name(warm_status status);

/* One sentence for a status. Static string, any thread, never blocks. */
WARM_API const char *warm_status_text(warm_status status);

/* Copies the calling thread's last error to *error. A success leaves the last
 * error as it was.
 * error: borrowed, size set; null is ignored. A struct with a smaller size, of
 * an older program, gets the fields that it has; one with a larger size gets
 * the fields that this library knows. */
WARM_API void warm_last_error(warm_error *error);

/* The message of the calling thread's last error; "" if there was none.
 * Borrowed: valid until this thread's next failing call, or its exit. */
WARM_API const char *warm_last_error_message(void);

/* A stream of the driver: on CUDA a cudaStream_t, without a cast. */
typedef void *warm_stream;

/* The legacy default stream, and the default stream of the calling thread (one
 * name, another stream in each thread). On CUDA these are the values of
 * cudaStreamLegacy and cudaStreamPerThread.
 *
 * A null stream means what it means in CUDA: the legacy one; in code built with
 * nvcc --default-stream per-thread, or with CUDA_API_PER_THREAD_DEFAULT_STREAM
 * defined before the first header, the calling thread's (per_thread.h), also
 * where a header says that null is the legacy stream. Code with the macro
 * passes WARM_STREAM_DEFAULT, not null, to code built without it. */
#define WARM_STREAM_LEGACY     ((warm_stream)(uintptr_t)1)
#define WARM_STREAM_PER_THREAD ((warm_stream)(uintptr_t)2)

/* An event of the driver: on CUDA a cudaEvent_t, which points to the struct of
 * this name, so that no cast is needed. */
typedef struct CUevent_st *warm_event;

/* A private pool of memory (private_pool.h). */
typedef struct warm_private_pool {
    uint64_t number; /* never used twice in a runtime; 0: no pool */
} warm_private_pool;

/* A runtime: pools, caches and the driver they work on. Opaque. The pointer
 * stays a valid argument for ever: after warm_runtime_destroy() every call with
 * it returns WARM_RUNTIME_GONE. */
typedef struct warm_runtime warm_runtime;

/* Flags of warm_handle_prewarm() and warm_pinned_prewarm(). */
#define WARM_PREWARM_BACKGROUND 1u

#ifdef __cplusplus
}
#endif
#endif
