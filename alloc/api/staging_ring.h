/* staging_ring.h: the slices of a staging ring (warmpool/staging.h), for
 * staging.c.
 *
 *   slice   0          1          2          3
 *         │ closed   │ open ···▓▓      │ idle     │ closed   │
 *           newest     ▲ used  ▲ run                oldest: the next to be used
 *
 * closed    an event is recorded behind its copies; in use until that passed
 * open      the next copy goes here; what is not queued yet is the run, whose
 *           end is the end of what is used
 *
 * The functions are called by the one thread that is inside the ring, take no
 * lock and call the driver. */
#ifndef WM_STAGING_RING_H
#define WM_STAGING_RING_H

#include "runtime/thread/runtime_body.h"
#include "warmpool/staging.h"

/* Bytes that go from a slice to memory of the host once they are there. */
typedef struct wm_staged_part {
    char *to;
    const char *from;
    size_t bytes;
} wm_staged_part;

/* A slice with so many parts is full. */
enum { WM_STAGED_PARTS = 128 };

typedef struct wm_slice {
    char *base;       /* const: a block of page-locked memory */
    warm_event event; /* const: of the ring's device */
    bool queued;      /* copies were queued that may not have passed */
    bool marked;      /* the event is behind the last of them */
    bool stuck;       /* no event could be recorded behind them, nor will be */
    unsigned count;   /* of parts */
    wm_staged_part *part; /* const pointer */
} wm_slice;

/* Gathered copies, which will be one copy of the driver. */
typedef struct wm_staged_run {
    char *device, *slice;
    size_t bytes; /* 0: there is none */
    warm_copy_direction direction;
} wm_staged_run;

/* Relaxed: written by the thread inside, read by any. */
typedef struct wm_staged_figures {
#define WM_STAGED_FIGURE(name, unit, meaning) _Atomic uint64_t name;
    WARM_STAGING_STAT_MAP(WM_STAGED_FIGURE)
#undef WM_STAGED_FIGURE
} wm_staged_figures;

static inline void wm_staged_count(_Atomic uint64_t *figure, uint64_t n)
{
    atomic_store_explicit(
        figure, atomic_load_explicit(figure, memory_order_relaxed) + n,
        memory_order_relaxed);
}

struct warm_staging {
    warm_runtime *runtime; /* const, as all down to parts */
    int device;
    unsigned slices, wait_ms;
    size_t slice_bytes;
    wm_staged_part *parts;
    /* A thread is inside. Acquire to enter, release to leave: one thread sees
     * what the one before it did. */
    _Atomic bool busy;
    /* All below: the thread inside. */
    unsigned open, closed; /* index of the open slice; how many are closed */
    size_t used;           /* bytes of the open slice, the run included */
    wm_staged_run run;
    warm_stream stream; /* whose copies are in the open slice */
    uint64_t stream_id; /* its number; 0: none yet */
    uint64_t epoch;     /* the runtime's stream_epoch when it was looked up */
    bool known;         /* stream still names the stream of that number */
    wm_staged_figures figures;
    wm_slice slice[];
};

/* How long one call waits for slices. */
typedef struct wm_staging_wait {
    bool never;
    uint64_t until_ns; /* 0: it has not waited yet */
} wm_staging_wait;

/* Makes stream the one of the open slice: the run of another stream is queued,
 * and its slice is closed. Status: as warm_staging_copy(). */
warm_status wm_staging_use_stream(warm_staging *s, warm_stream stream,
                                  wm_staging_wait *wait);
/* Queues the run; if that fails it stays. */
warm_status wm_staging_queue(warm_staging *s);
/* Records the event of the open slice behind its copies. */
warm_status wm_staging_mark(warm_staging *s);
/* mark() for a default stream, whose name may mean another stream in the next
 * call: if no event can be recorded the stream is waited for, and if that fails
 * the slice is never used again. */
warm_status wm_staging_mark_default(warm_staging *s);
/* Closes the open slice, which has no run, and opens the next one, which may
 * have to be waited for. */
warm_status wm_staging_turn(warm_staging *s, wm_staging_wait *wait);
/* Waits for all slices, the oldest first; there is no run, and the open one is
 * marked. */
warm_status wm_staging_await_all(warm_staging *s, wm_staging_wait *wait);

#endif
