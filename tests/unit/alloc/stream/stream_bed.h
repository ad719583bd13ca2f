/* stream_bed.h: a runtime and a stream for tests of timelines; blocks that a
 * stream uses; calls of the driver that fail, or are replaced. Host device,
 * whose streams the test stops and lets go. */
#ifndef STREAM_BED_H
#define STREAM_BED_H

#include "wt.h"

#include "alloc/cache/magazine.h"
#include "alloc/cache/pending.h"
#include "alloc/kinds/pinned.h"
#include "alloc/stream/timeline_int.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 100000, BYTES = 106496 };

static warm_runtime *runtime;
static warm_stream stream;

static inline void *take(void)
{
    return wt_pinned(runtime, SIZE);
}

static inline void free_many(unsigned count, warm_stream s)
{
    for (unsigned i = 0; i < count; i++) {
        wt_free_used(take(), s);
    }
}

static inline uint64_t pending(void)
{
    return wt_pinned_stats(runtime).pending.current;
}

/* After a poll so many blocks are pending. */
#define poll_leaves(blocks)                                                    \
    do {                                                                       \
        wt_ok(warm_poll(runtime));                                             \
        ck_assert_uint_eq(pending(), blocks);                                  \
    } while (0)

/* A stream goes on, and no block is pending once its work is done. */
#define go_and_poll(s)                                                         \
    do {                                                                       \
        wt_go(runtime, s);                                                     \
        poll_leaves(0);                                                        \
    } while (0)

static inline wm_timelines *timelines(void)
{
    return &runtime->pinned->timelines;
}

static inline unsigned captures(void)
{
    return atomic_load(&timelines()->captures);
}

/* ---- the driver ---------------------------------------------------------- */

static inline void make_stream(warm_stream *s)
{
    wt_ok(wm_driver_stream_create(runtime->driver, 0, s));
}

/* Destroyed behind the library's back, by the driver's own call. */
static inline void destroy_unannounced(warm_stream s)
{
    wt_ok(wm_driver_stream_destroy(runtime->driver, s));
}

/* A stream at the address of one that was destroyed; adopted: by the library.
 */
static inline warm_stream make_again(warm_stream address, bool adopted)
{
    warm_stream s = NULL;

    for (int i = 0; i < 100 && s != address; i++) {
        if (s != NULL && adopted) {
            wt_ok(warm_stream_destroy(runtime, s));
        } else if (s != NULL) {
            destroy_unannounced(s);
        }
        if (adopted) {
            wt_ok(warm_stream_create(runtime, 0, &s));
        } else {
            make_stream(&s);
        }
    }
    ck_assert_ptr_eq(s, address);
    return s;
}

static inline void fail_call(const char *call, uint64_t n, int persistent)
{
    wt_ok(warm_testing_fail(runtime, call, n, persistent));
}

static inline uint64_t events_out(void)
{
    wm_event_counts events;

    wm_event_pool_counts(&runtime->pinned->events, 0, &events);
    return events.out;
}

/* The driver's calls, which the test may replace. */
static wm_driver_ops ops;
static const wm_driver_ops *real;

static inline void replace_ops(void)
{
    real = runtime->driver->ops;
    ops = *real;
    runtime->driver->ops = &ops;
}

static inline void restore_ops(void)
{
    runtime->driver->ops = real;
}

/* For other threads, which set the flag. */
static inline void await_flag(_Atomic bool *flag)
{
    while (!atomic_load(flag)) {
        sched_yield();
    }
}

/* ---- the log ------------------------------------------------------------- */

static unsigned lines;
static char last_line[256];

static inline void hear(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

#endif
