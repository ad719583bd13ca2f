/* grow.h: how a space gets memory from the driver, and gives it back (rows
 * B9, B11, B12).
 *
 * What is under way is an errand; errands stand in a list under lock growth,
 * and their calls to the driver are made with no lock held at all:
 *
 *   thread 1  needs 1, grows by 4  ──────► driver            room 3
 *   thread 2  needs 2: takes part, waits                     room 1
 *   thread 3  needs 9: does not fit, grows by itself ──────► driver
 *   thread 4  trims: its segments go back ─────────────────► driver
 *   thread 5  hits, frees, polls: goes on
 *
 * Who waited looks again, and does not grow again for what has come. A request
 * that is refused while memory is on its way back, or while others hold room
 * under the limit that they may not need in the end, waits for them: out of
 * memory is said only where nothing under way could change it. Where segments
 * stretch a growth that will fail has memory for a while, piece by piece: who
 * was refused beside one tries once more, alone.
 *
 * The log is told of trouble by a thread that nobody waits for: who listens may
 * ask for memory. */
#ifndef WM_GROW_H
#define WM_GROW_H

#include "alloc/arena/arena.h"
#include "runtime/base/lock.h"

struct wm_space;
struct wm_request;
struct wm_growth_call;
struct wm_grow_request;

/* What the driver did not do as it should have, until it is said. */
typedef struct wm_deferred_warning {
    size_t refused;    /* bytes that it did not take back */
    size_t torn;       /* bytes of which it left a part behind */
    size_t unrecorded; /* that it did not take, and nobody knows any more */
    warm_error cause;  /* of the last of the first two */
} wm_deferred_warning;

/* Embedded in a space. All but the lock: lock growth. */
typedef struct wm_growth {
    wm_lock lock;
    wm_cond over; /* an errand is, or what is said below */
    struct wm_growth_call *errands;
    uint64_t begun;   /* errands, which number them */
    size_t coming;    /* bytes asked of the driver that are not held yet */
    size_t held;      /* bytes that came, and are not known to be gone */
    size_t peak;      /* most of those */
    size_t lost;      /* of what is held: regions that no arena knows */
    uint64_t gained;  /* errands that left memory with the driver, or idle */
    uint64_t vacated; /* errands that failed, and left room under the limit */
    bool reserving;   /* a thread has more addresses made */
    /* Idle memory could not go back: a stream captures. Relaxed: for messages.
     */
    _Atomic bool put_off;
    /* A request that tries with no other growth under way, or null. */
    const struct wm_grow_request *alone;
    wm_deferred_warning trouble;
} wm_growth;

void wm_growth_init(wm_growth *growth);
void wm_growth_fini(wm_growth *growth);

/* The most bytes that were held, of all arenas, since the last reset. */
size_t wm_growth_peak(wm_growth *growth);
void wm_growth_reset_peak(wm_growth *growth);

/* A block of an arena for a request that it could not serve: looks again, takes
 * part in a growth, or grows, by less where much is refused; then gives idle
 * segments back, of an arena and its siblings or (null) of all, and tries
 * again.
 * Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_growth_alloc(struct wm_space *space,
                            const struct wm_request *wanted, wm_arena *arena,
                            wm_arena *give_back, wm_block **block);

/* Whether memory came, or went back to the driver, since it was asked last, or
 * is on its way: there may be some for a request that was refused meanwhile.
 * *gained: as of the last time; then, of now. */
bool wm_growth_moves(wm_growth *growth, uint64_t *gained);

/* Obtains a region of at most bytes that nobody has asked for yet, or half of
 * it, and so on, but not less than least; both whole pages. What waits for it
 * finds room in it as in any other growth.
 * Status: OUT_OF_MEMORY, or another of the driver's; nothing is obtained. */
warm_status wm_growth_ahead(struct wm_space *space, wm_arena *arena,
                            size_t bytes, size_t least, size_t *obtained);

/* Gives idle segments of an arena and its siblings or (null) of all back, the
 * largest first, until at most target bytes are held. Those that the driver
 * does not take go last, here and later; but of segments that stretch nobody
 * knows that they are those, and streams are waited for before, by the caller.
 * Returns the bytes that the driver took. */
size_t wm_growth_give_back(struct wm_space *space, wm_arena *arena,
                           size_t target);
/* The same, of all, for a user who asks for it: where segments stretch, and
 * streams have some that nobody can name, in the end the device is waited for.
 */
size_t wm_growth_trim(struct wm_space *space, size_t target);

/* Gives those of an arena and its siblings back that are idle longest, until
 * bytes have gone. For who obtains memory: says nothing. */
void wm_growth_collect(struct wm_space *space, wm_arena *arena, size_t bytes);

/* Gives those of all arenas back that are idle since before_ns or earlier, but
 * for the reserve. */
void wm_growth_decay(struct wm_space *space, uint64_t before_ns);

/* Gives back the addresses of segments that stretch and have no memory. */
void wm_growth_end_ranges(struct wm_space *space);

#endif
