/* economy.h: how much memory a space may hold before it asks for idle memory
 * first, and how much of it threads may cache (row B25). The one place with
 * numbers about that.
 *
 *   needed  bytes with callers, pending, cached, or idle and wanted: the
 *           reserve, and what was obtained ahead of demand and not yet used
 *   peak    the most that was needed lately
 *   bound   peak * (1 + slack) + WM_ECONOMY_FLOOR
 *   keep    peak * keep + WM_KEEP_FLOOR
 *   part    of one cache: WM_KEEP_EACH, an even share of a quarter of keep, and
 *           of the rest as much as it was used lately
 *
 * A miss grows at once while no more than the bound is held. Above it, whatever
 * is idle anywhere is tried before, and what is obtained all the same replaces
 * wholly idle segments (obtain.c).
 *
 * keep is what all threads' caches may have together. A cache that has more
 * than its part gives back blocks of the doubling of sizes that has most bytes,
 * so that large blocks do not drive out small ones.
 *
 * The time of caches is counted in periods of WM_PERIOD uses, that is misses,
 * overflows and full batches; hits count nothing. A peak decays by the clock.
 *
 * Where the numbers come from: tests/bench/PROFILE.md, "Economy". Atomic and
 * relaxed throughout: all figures are estimates, on which no memory depends. */
#ifndef WM_ECONOMY_H
#define WM_ECONOMY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WM_ECONOMY_FLOOR = 4 << 20,
    WM_KEEP_FLOOR = 4 << 20,
    WM_KEEP_EACH = 64 << 10,
    WM_BLOCK_PART = 4,     /* of a part: the largest block that is cached */
    WM_TRANSFER_PART = 32, /* of keep: the largest block that is not merged */
    WM_TRANSFER_LEAST = 256 << 10,
    WM_PERIOD = 4096,
    WM_ECONOMY_STEP = 16 /* uses that a cache counts at once */
};

struct wm_arena;
struct wm_arena_group;
struct wm_lane;

typedef struct wm_economy {
    size_t slack, keep;       /* const: options, per mille of the peak */
    size_t reserve;           /* const: option reserve_bytes */
    _Atomic size_t peak;      /* bytes */
    _Atomic size_t ahead;     /* bytes obtained ahead of demand and not used */
    _Atomic uint64_t peak_ns; /* time of its last decay */
    /* of this period, and of the last: uses, and caches that had any */
    _Alignas(64) _Atomic uint32_t period, uses, users, last_uses, last_users;
    _Atomic uint32_t grown; /* period of the last growth */
    _Atomic bool swept;     /* the caches of idle threads were visited since the
                               last period began */
} wm_economy;

/* The use of one cache; written by its owner. */
typedef struct wm_share {
    _Atomic uint32_t period; /* of the last use; read by other threads */
    uint32_t uses, last;     /* in that period, and in the one before */
} wm_share;

/* Bytes that all threads' caches may have together. */
size_t wm_economy_keep(const wm_economy *economy);
/* The largest block that passes through transfer caches (transfer_cache.h):
 * larger ones are merged when they are freed, so that what is idle serves large
 * requests. */
size_t wm_economy_transfer_max(const wm_economy *economy);
/* Counts WM_ECONOMY_STEP uses of a cache, and returns its part of the budget in
 * bytes. Every WM_PERIOD uses it takes the lock of each arena. */
int64_t wm_economy_part(struct wm_arena_group *group, wm_share *share);
/* True once in each period: the calling thread then flushes caches that are
 * idle, with no lock held. */
static inline bool wm_economy_must_sweep(wm_economy *economy)
{
    return !atomic_load_explicit(&economy->swept, memory_order_relaxed) &&
           !atomic_exchange_explicit(&economy->swept, true,
                                     memory_order_relaxed);
}
/* Whether a cache was not used for a whole period. */
bool wm_economy_is_idle(const wm_economy *economy, const wm_share *share);

/* Adds up what is needed now, and raises or decays the peak. Takes the lock of
 * each arena. */
void wm_economy_look(struct wm_arena_group *group);
/* Whether the space may hold so many bytes before anything idle is tried, for a
 * request of an arena. Takes the lock of each arena. lane: of the request, or
 * null; what other lanes have idle counts as needed now, and is not remembered
 * in the peak. */
bool wm_economy_allows(const struct wm_arena *arena, const struct wm_lane *lane,
                       size_t held);
/* Bytes above the bound if the space holds `held` and serves a request of
 * `more` bytes, which are not live yet. *spare: so many of the bytes held are
 * idle then and not wanted. Takes the lock of each arena. */
size_t wm_economy_excess(const struct wm_arena *arena,
                         const struct wm_lane *lane, size_t held, size_t more,
                         size_t *spare);
/* The arena has obtained bytes, ahead of demand or for a block that has been
 * allocated, of the stream of lane or of none; the space holds so many now.
 * Raises the peak, and counts what is above the bound all the same. Takes the
 * lock of each arena. */
void wm_economy_note_growth(struct wm_arena *arena, const struct wm_lane *lane,
                            size_t bytes, size_t held, bool ahead);

/* Whether the space has not grown for a whole period. */
static inline bool wm_economy_is_stable(const wm_economy *economy)
{
    return atomic_load_explicit(&economy->period, memory_order_relaxed) -
               atomic_load_explicit(&economy->grown, memory_order_relaxed) >
           1;
}

#endif
