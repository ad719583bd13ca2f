/* streams.c: warmpool hears of the program's streams, so that a free waits for
 * all of them: they are adopted when they are made, retired before they are
 * destroyed, and their captures are announced. The real function does the work.
 */
#include "preload.h"

enum { NOT_FOUND = 500 };
enum { ANY = WP_HANDLES | WP_PINNED | WP_DEVICE };

typedef int create_fn(void **stream);
typedef int flags_fn(void **stream, unsigned flags);
typedef int priority_fn(void **stream, unsigned flags, int priority);
typedef int destroy_fn(void *stream);
typedef int begin_fn(void *stream, int mode);
typedef int end_fn(void *stream, void **graph);

static void *stream_at(void **stream)
{
    return stream != NULL ? *stream : NULL;
}

/* The first one may be what starts warmpool. A stream that cannot be adopted is
 * looked up when it is used. */
static int made(int code, void **stream)
{
    if (wp_answered(code) == 0 && wp_enter(ANY)) {
        (void)warm_stream_adopt(wp_runtime(), stream_at(stream));
        wp_leave();
    }
    return code;
}

static int create(void **stream)
{
    WP_RETURN_REAL(cudaStreamCreate, create_fn, NOT_FOUND, stream);
}

static int create_with_flags(void **stream, unsigned flags)
{
    WP_RETURN_REAL(cudaStreamCreateWithFlags, flags_fn, NOT_FOUND, stream,
                   flags);
}

static int create_with_priority(void **stream, unsigned flags, int priority)
{
    WP_RETURN_REAL(cudaStreamCreateWithPriority, priority_fn, NOT_FOUND, stream,
                   flags, priority);
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

WP_EXPORT int cudaStreamDestroy(void *stream);
WP_EXPORT int cudaStreamDestroy(void *stream)
{
    if (stream != NULL && wp_enter(ANY)) {
        (void)warm_stream_retire(wp_runtime(), stream);
        wp_leave();
    }
    WP_RETURN_REAL(cudaStreamDestroy, destroy_fn, NOT_FOUND, stream);
}

/* Relaxed: a thread that works with a capturing stream was synchronized with
 * the one that began. */
static atomic_int captures;

int wp_captures(void)
{
    return atomic_load_explicit(&captures, memory_order_relaxed);
}

static bool announce(void *stream)
{
    bool announced = wp_enter(ANY);

    if (announced) {
        announced = warm_capture_announce(wp_runtime(), stream) == WARM_OK;
        wp_leave();
    }
    if (announced) {
        atomic_fetch_add_explicit(&captures, 1, memory_order_relaxed);
    }
    return announced;
}

/* Of a stream whose capture nobody announced: nothing. */
static void announce_end(void *stream)
{
    bool ended = wp_enter(ANY);

    if (ended) {
        ended = warm_capture_announce_end(wp_runtime(), stream) == WARM_OK;
        wp_leave();
    }
    if (ended) {
        atomic_fetch_sub_explicit(&captures, 1, memory_order_relaxed);
    }
}

#define CAPTURE(begin, end)                                                    \
    static int begin##_real(void *stream, int mode)                            \
    {                                                                          \
        WP_RETURN_REAL(begin, begin_fn, NOT_FOUND, stream, mode);              \
    }                                                                          \
                                                                               \
    static int end##_real(void *stream, void **graph)                          \
    {                                                                          \
        WP_RETURN_REAL(end, end_fn, NOT_FOUND, stream, graph);                 \
    }                                                                          \
                                                                               \
    WP_EXPORT int begin(void *stream, int mode);                               \
    WP_EXPORT int begin(void *stream, int mode)                                \
    {                                                                          \
        bool announced = announce(stream);                                     \
        int code = begin##_real(stream, mode);                                 \
                                                                               \
        if (announced && code != 0) {                                          \
            announce_end(stream);                                              \
        }                                                                      \
        return code;                                                           \
    }                                                                          \
                                                                               \
    WP_EXPORT int end(void *stream, void **graph);                             \
    WP_EXPORT int end(void *stream, void **graph)                              \
    {                                                                          \
        int code = end##_real(stream, graph);                                  \
                                                                               \
        announce_end(stream);                                                  \
        return code;                                                           \
    }

CAPTURE(cudaStreamBeginCapture, cudaStreamEndCapture)
CAPTURE(cudaStreamBeginCapture_ptsz, cudaStreamEndCapture_ptsz)
