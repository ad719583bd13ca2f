/* grow.h: how a space obtains memory from the driver and returns it (rows B9,
 * B11, B12).
 *
 * Each call of the driver in flight is a record in a list under lock growth;
 * the driver itself is called with no lock held:
 *
 *   thread 1  needs 1, grows by 4  ──────► driver            room 3
 *   thread 2  needs 2: claims room, waits                    room 1
 *   thread 3  needs 9: no room, grows on its own ──────────► driver
 *   thread 4  trims: its segments are returned ────────────► driver
 *   thread 5  hits, frees, polls: does not wait
 *
 * A thread that waited for a growth retries its allocation when that growth
 * completes, and grows only if the memory does not suffice. If a request is
 * refused while another call returns memory to the driver, or holds room under
 * the limit that it may give up, the request waits for that call: out of memory
 * is reported only if no call in flight could change it. Where segments expand
 * piece by piece, a growth that is going to fail holds memory for a while: a
 * request that was refused meanwhile tries once more, with no other growth in
 * flight.
 *
 * Warnings are logged by a thread for which no other thread waits: the user's
 * log function may allocate. */
#ifndef WM_GROW_H
#define WM_GROW_H

#include "alloc/arena/arena.h"
#include "runtime/base/lock.h"

struct wm_space;
struct wm_request;
struct wm_growth_call;
struct wm_grow_request;

/* Failures of the driver that are not logged yet. */
typedef struct wm_deferred_warning {
    size_t refused;    /* bytes that the driver did not take back */
    size_t torn;       /* bytes of which a part stayed mapped */
    size_t unrecorded; /* bytes not taken back, and without a record: leaked */
    warm_error cause;  /* the last error of the first two kinds */
} wm_deferred_warning;

/* Embedded in a space. Lock growth, but for the lock itself. */
typedef struct wm_growth {
    wm_lock lock;
    wm_cond over; /* a call ended, or alone or reserving was cleared */
    struct wm_growth_call *calls; /* in flight */
    uint64_t begun;   /* calls begun so far: the number of the last */
    size_t coming;    /* bytes requested from the driver, not obtained yet */
    size_t held;      /* bytes obtained and not returned */
    size_t peak;      /* maximum of held */
    size_t lost;      /* part of held: regions without a record in an arena */
    uint64_t gained;  /* calls that freed or added memory: a refused request
                       * may retry */
    uint64_t vacated; /* calls that failed and left room under the limit */
    bool reserving;   /* a thread reserves more addresses */
    /* Idle memory could not be returned because a stream captures. Relaxed: for
     * messages. */
    _Atomic bool put_off;
    /* The request that grows with no other growth in flight, or null. */
    const struct wm_grow_request *alone;
    wm_deferred_warning warning;
} wm_growth;

void wm_growth_init(wm_growth *growth);
void wm_growth_fini(wm_growth *growth);

/* Maximum of the bytes held, of all arenas, since the last reset. */
size_t wm_growth_peak(wm_growth *growth);
void wm_growth_reset_peak(wm_growth *growth);

/* Allocates a block of an arena after a miss: looks again, waits for a growth
 * in flight that has room, or grows; if the driver refuses, by less; then
 * returns idle segments, of arena give_back and its siblings or (null) of all
 * arenas, and tries again.
 * Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_growth_alloc(struct wm_space *space,
                            const struct wm_request *wanted, wm_arena *arena,
                            wm_arena *give_back, wm_block **block);

/* Whether memory was obtained or returned to the driver since the last call, or
 * a call of the driver is in flight: a request that was refused meanwhile may
 * retry. *gained: growth->gained of the last call; set to the present one. */
bool wm_growth_moves(wm_growth *growth, uint64_t *gained);

/* Obtains a region ahead of demand: bytes, or if refused half of that, and so
 * on down to least; both whole pages. Requests can claim room in it as in any
 * other growth.
 * Status: OUT_OF_MEMORY, or another of the driver's; nothing is obtained. */
warm_status wm_growth_ahead(struct wm_space *space, wm_arena *arena,
                            size_t bytes, size_t least, size_t *obtained);

/* Returns idle segments of an arena and its siblings or (null) of all arenas,
 * the largest first, until at most target bytes are held. A segment that the
 * driver refused is tried last, now and later; for pieces of expandable
 * segments that is not recorded, and the caller has waited for their streams.
 * Returns the bytes that the driver took back. */
size_t wm_growth_give_back(struct wm_space *space, wm_arena *arena,
                           size_t target);
/* The same of all arenas, for warm_trim() and the like. Idle memory of
 * expandable segments may wait for streams that have no name any more: then the
 * device is waited for. */
size_t wm_growth_trim(struct wm_space *space, size_t target);

/* Returns the segments of an arena and its siblings that are idle longest,
 * until bytes are returned. Called by a growth, which logs warnings itself. */
void wm_growth_collect(struct wm_space *space, wm_arena *arena, size_t bytes);

/* Returns the segments of all arenas that are idle since before_ns or earlier,
 * except the reserve. */
void wm_growth_decay(struct wm_space *space, uint64_t before_ns);

/* Releases the reserved addresses of expandable segments without memory. */
void wm_growth_end_ranges(struct wm_space *space);

#endif
