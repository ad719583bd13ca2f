/* model.h: what a random run knows of streams and of memory, for models that
 * follow the allocator step by step.
 *
 *   stream ── queued 7, passed 5        work counts itself when it has run
 *   range ──► own 3@6, use 4@2          points that streams must have passed
 *
 * Freed memory may be allocated again once every point has passed; the stream
 * that it is allocated on need not have passed its own. Work fills a range with
 * a pattern, or checks the pattern; graphs do so at each launch. Memory of the
 * host device is read and written in place, memory of CUDA by copies from and
 * to a page-locked record of the work. */
#ifndef WT_MODEL_H
#define WT_MODEL_H

#include "wt.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

struct capture;

/* One record for each that was ever made: work outlives its stream. */
struct stream {
    warm_stream name;
    int device;
    bool by_name; /* a default stream: never ends, captures or is adopted */
    bool mine;    /* of the main thread only */
    bool gone, held, adopted;
    struct capture *capture;
    uint64_t queued;
    _Atomic uint64_t passed;
};

static inline uint64_t model_passed(struct stream *s)
{
    /* Acquire: what ran on the stream before is over. */
    return atomic_load_explicit(&s->passed, memory_order_acquire);
}

/* ---- points --------------------------------------------------------- */

struct point {
    struct stream *stream;
    uint64_t at;
    bool over; /* fixed: the stream was retired, or may be another one's */
};

static inline bool model_has_passed(const struct point *p)
{
    return p->stream == NULL || model_passed(p->stream) >= p->at;
}

/* The point of now, unless it is fixed. */
static inline void model_point_now(struct point *p)
{
    if (p->stream != NULL && !p->over) {
        p->at = p->stream->queued;
    }
}

/* ---- work ----------------------------------------------------------- */

enum { MODEL_TOUCHES = 16 }; /* words of a range that work looks at */

struct work {
    struct stream *stream; /* counts there, and is freed; null: a graph's */
    char *base;
    size_t bytes;
    bool far;              /* memory of a device */
    struct staged *staged; /* null: memory that can be touched */
    uint64_t pattern;
    bool looks;
    unsigned long step;
    struct work *next; /* of its graph */
};

/* The first step whose work found something else. */
extern _Atomic unsigned long model_wrong;

/* model_work.c: called while there is no other thread. */
void model_begin_work(void);
void model_end_work(void);

/* Whether the range is as it should be; what the caller does to memory of the
 * host, too. */
bool model_touch(const struct work *w);

/* Queues it on a stream that does not capture. */
void model_queue(warm_runtime *runtime, struct stream *s, struct work like);
/* On one that does: it runs at each launch. Owned, ended by model_drop_work().
 */
struct work *model_capture(warm_runtime *runtime, const struct stream *s,
                           struct work like);
void model_drop_work(struct work *w);

/* ---- ranges ------------------------------------------------------------ */

enum { MODEL_USES = 5 };

static inline bool model_overlap(const char *a, size_t a_bytes, const char *b,
                                 size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* Waits for all that is queued on a stream, which may be gone. */
static inline void model_await(struct stream *s)
{
    while (model_passed(s) < s->queued) {
        sched_yield();
    }
}

#endif
