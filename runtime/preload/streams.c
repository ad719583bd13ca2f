/* streams.c: warmpool hears of the program's streams, so that a free waits for
 * all of them: they are adopted when they are made, retired before they are
 * destroyed, and their captures are announced. The real function does the work.
 */
#include "preload.h"

enum { ANY = WP_HANDLES | WP_PINNED | WP_DEVICE };

typedef int create_fn(void **stream);
typedef int flags_fn(void **stream, unsigned flags);
typedef int priority_fn(void **stream, unsigned flags, int priority);
typedef int destroy_fn(void *stream);
typedef int end_fn(void *stream, void **graph);

static void *stream_at(void **stream)
{
    return stream != NULL ? *stream : NULL;
}

/* Of a call that warmpool must not miss; whatever else it refuses is CUDA's.
 * Each of these calls may fail so by CUDA's documentation, and wp_failed() can
 * leave either as the last error. */
static int answer(warm_status status)
{
    return status == WARM_OUT_OF_MEMORY  ? WP_OUT_OF_MEMORY
           : status == WARM_DRIVER_ERROR ? WP_INVALID_VALUE
                                         : 0;
}

WP_INLINED int destroy(void *stream)
{
    WP_RETURN_REAL(cudaStreamDestroy, destroy_fn, WP_NO_FUNCTION, stream);
}

/* The first one may be what starts warmpool. A stream that cannot be adopted is
 * destroyed: frees would not wait for it. */
static int made(int code, void **stream)
{
    if (wp_answered(code) == 0 && wp_enter(ANY)) {
        code = answer(warm_stream_adopt(wp_runtime(), stream_at(stream)));
        wp_leave();
        if (code != 0) {
            (void)destroy(stream_at(stream));
            (void)wp_failed(code);
        }
    }
    return code;
}

WP_INLINED int create(void **stream)
{
    WP_RETURN_REAL(cudaStreamCreate, create_fn, WP_NO_FUNCTION, stream);
}

WP_INLINED int create_with_flags(void **stream, unsigned flags)
{
    WP_RETURN_REAL(cudaStreamCreateWithFlags, flags_fn, WP_NO_FUNCTION, stream,
                   flags);
}

WP_INLINED int create_with_priority(void **stream, unsigned flags, int priority)
{
    WP_RETURN_REAL(cudaStreamCreateWithPriority, priority_fn, WP_NO_FUNCTION,
                   stream, flags, priority);
}

WP_EXPORT int cudaStreamCreate(void **stream);
WP_EXPORT int cudaStreamCreate(void **stream)
{
    return made(create(stream), stream);
}

WP_EXPORT int cudaStreamCreateWithFlags(void **stream, unsigned flags);
WP_EXPORT int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
    return made(create_with_flags(stream, flags), stream);
}

WP_EXPORT int cudaStreamCreateWithPriority(void **stream, unsigned flags,
                                           int priority);
WP_EXPORT int cudaStreamCreateWithPriority(void **stream, unsigned flags,
                                           int priority)
{
    return made(create_with_priority(stream, flags, priority), stream);
}

static void ended(int code);

/* A capture of the stream ends with it. */
WP_EXPORT int cudaStreamDestroy(void *stream);
WP_EXPORT int cudaStreamDestroy(void *stream)
{
    int code = 0;

    if (wp_any_captures() && wp_captures(stream)) {
        ended(0);
    }
    if (stream != NULL && wp_enter(ANY)) {
        code = wp_carry(stream)
                   ? answer(warm_stream_retire(wp_runtime(), stream))
                   : WP_INVALID_VALUE;
        wp_leave();
    }
    /* A stream that cannot retire stays: what waits for it names it. */
    return code != 0 ? wp_failed(code) : destroy(stream);
}

/* 0, and whether there was anything to announce; or why the capture must not
 * begin. */
static int announce(void *stream, bool *announced)
{
    int code = 0;

    *announced = wp_enter(ANY);
    if (*announced) {
        warm_status status = warm_capture_announce(wp_runtime(), stream);

        *announced = status == WARM_OK;
        code = answer(status);
        wp_leave();
    }
    return code;
}

/* In code for per-thread default streams none, the null pointer, is the
 * thread's own (below). Does nothing for a stream whose capture nobody
 * announced. */
static void announce_end(void *stream)
{
    if (wp_enter(ANY)) {
        (void)warm_capture_announce_end(wp_runtime(), stream);
        wp_leave();
    }
}

/* Captures that begin, or have begun and not ended. Relaxed: a count, tied to
 * no data. */
static atomic_int captures;

bool wp_any_captures(void)
{
    return atomic_load_explicit(&captures, memory_order_relaxed) > 0;
}

/* Before a capture begins, and if it did not. */
static void begins(int more)
{
    atomic_fetch_add_explicit(&captures, more, memory_order_relaxed);
}

/* One that is invalid has ended as well. */
static void ended(int code)
{
    enum { INVALIDATED = 901 };

    if (code == 0 || code == INVALIDATED) {
        begins(-1);
    }
}

static int begins_on(void *stream, bool *announced)
{
    int code = announce(stream, announced);

    begins(code == 0);
    return code;
}

static int begun(int code, bool announced, void *stream)
{
    if (code != 0) {
        begins(-1);
    }
    if (code != 0 && announced) {
        announce_end(stream);
    }
    return code;
}

/* none: the stream of the null pointer, as above. */
#define BEGIN(begin, none, parameters, ...)                                    \
    typedef int begin##_fn parameters;                                         \
    WP_INLINED int begin##_real parameters                                     \
    {                                                                          \
        WP_RETURN_REAL(begin, begin##_fn, WP_NO_FUNCTION, __VA_ARGS__);        \
    }                                                                          \
                                                                               \
    WP_EXPORT begin##_fn begin;                                                \
    WP_EXPORT int begin parameters                                             \
    {                                                                          \
        void *captured = stream != NULL ? stream : (none);                     \
        bool announced;                                                        \
        int code = begins_on(captured, &announced);                            \
                                                                               \
        return code != 0                                                       \
                   ? wp_failed(code)                                           \
                   : begun(begin##_real(__VA_ARGS__), announced, captured);    \
    }

#define END(end, none)                                                         \
    WP_INLINED int end##_real(void *stream, void **graph)                      \
    {                                                                          \
        WP_RETURN_REAL(end, end_fn, WP_NO_FUNCTION, stream, graph);            \
    }                                                                          \
                                                                               \
    WP_EXPORT end_fn end;                                                      \
    WP_EXPORT int end(void *stream, void **graph)                              \
    {                                                                          \
        int code = end##_real(stream, graph);                                  \
                                                                               \
        ended(code);                                                           \
        announce_end(stream != NULL ? stream : (none));                        \
        return code;                                                           \
    }

#define CAPTURES(begin, begin_to, end, none)                                   \
    BEGIN(begin, none, (void *stream, int mode), stream, mode)                 \
    BEGIN(begin_to, none,                                                      \
          (void *stream, void *graph, const void *nodes, const void *edges,    \
           size_t count, int mode),                                            \
          stream, graph, nodes, edges, count, mode)                            \
    END(end, none)

CAPTURES(cudaStreamBeginCapture, cudaStreamBeginCaptureToGraph,
         cudaStreamEndCapture, NULL)
CAPTURES(cudaStreamBeginCapture_ptsz, cudaStreamBeginCaptureToGraph_ptsz,
         cudaStreamEndCapture_ptsz, WARM_STREAM_PER_THREAD)

/* ---- resets ---------------------------------------------------------------
 */

typedef int reset_fn(void);

/* Before the reset: nothing is served while it goes on. One before warmpool has
 * started ends nothing of its. */
WP_EXPORT int cudaDeviceReset(void);
WP_EXPORT int cudaDeviceReset(void)
{
    reset_fn *real;
    int device = 0, code = WP_NO_FUNCTION;

    if (wp_has_started() && wp_runtime() != NULL && !wp_is_inside()) {
        wp_in();
        if (warm_device_current(wp_runtime(), &device) == WARM_OK) {
            wp_reset(device);
        }
        wp_out();
    }
    real = (reset_fn *)wp_real(WP_AT_cudaDeviceReset, NULL);
    if (real != NULL) {
        wp_in();
        code = real();
        wp_out();
    }
    return code;
}
