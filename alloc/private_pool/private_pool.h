/* private_pool.h: the private pools of a runtime (rows E1 to E8).
 *
 *   pool 3 ─┬─► arena of pinned memory, node 0    created by the first request
 *   refs 2  ├─► arena of pinned memory, node 1    that is routed there
 *           └─► arena of device 0, lanes by stream
 *   recording: pool 3 ─► pool 1                     innermost first
 *
 * An arena of a pool belongs to its space for the life of the runtime:
 *
 *   pool_number     n               0                  0
 *   dead            no ──end────►  yes ──no memory──► no ──► another pool's
 *
 * An arena for graphs retains freed blocks (arena.c) while the pool lives.
 *
 * Takes lock private; under it lock registry and lock arena. Requests take none
 * once their pool has an arena, and filters are called without one. */
#ifndef WM_PRIVATE_POOL_H
#define WM_PRIVATE_POOL_H

#include "alloc/arena/arena.h"
#include "alloc/stream/stream_lane.h"
#include "alloc/space/space.h"
#include "runtime/thread/window.h"
#include "warmpool/private_pool.h"

typedef struct wm_private_arena {
    wm_arena arena;
    wm_lane_registry registry; /* of a device's arena that is not for graphs */
    wm_space *space;           /* const */
    wm_arena *beside;          /* const: replaced by this one for the pool */
    /* Requests in flight, plus the thread that ends the pool. Requests begin
     * by readers (private_int.h) while the arena's pool records; no other pool
     * uses the arena until all have ended. Release and acquire. */
    _Atomic unsigned routed;
    /* Its pool has ended, and some of its memory is not returned yet. Lock
     * private to change; relaxed to read. */
    _Atomic bool dead;
    struct wm_private_arena *next; /* const: of the runtime's */
} wm_private_arena;

/* Status: OUT_OF_MEMORY. wm_private_close() ends the pools, before the spaces
 * return their memory; wm_private_fini() frees the records, after that. A pool
 * for graphs that has references is not ended: its arenas retain their memory
 * for good. Returns how many these are. */
warm_status wm_private_open(warm_runtime *runtime);
uint64_t wm_private_close(warm_runtime *runtime);
void wm_private_fini(warm_runtime *runtime);

/* The number of pools that record. If it is not 0 an allocation takes the slow
 * path, which routes it. */
static inline unsigned wm_private_routing(const warm_runtime *runtime)
{
    /* Relaxed: the thread that begins a pool and a thread that allocates for it
     * are the same, or the program orders them. */
    return atomic_load_explicit(&runtime->routes, memory_order_relaxed);
}

static inline bool wm_private_routes(const warm_runtime *runtime)
{
    return wm_unlikely(wm_private_routing(runtime) != 0);
}

/* If the filter of a pool accepts the request, replaces request->arena by the
 * pool's, and sets request->lane if the pool is for graphs and the memory a
 * device's. device: of the space; -1: pinned. Status: OUT_OF_MEMORY, or the
 * driver's for the stream. */
warm_status wm_private_route(wm_space *space, int device, warm_stream stream,
                             wm_request *request);

/* wm_private_route() for page-locked memory, on the thread's current stream. */
warm_status wm_private_route_pinned(wm_space *space, wm_request *request);

/* Whether a pool's memory of devices is paused (alloc/api/pause.c). While it is
 * CHANGING or PAUSED no allocation of such memory is routed to it, and its last
 * reference cannot be dropped. */
enum wm_pause { WM_RUNNING, WM_CHANGING, WM_PAUSED };

struct wm_paused; /* what has to be mapped again: pause.c */

/* Begins the change from RUNNING, or (resume) from PAUSED, of which *paused is
 * the record. end() ends it: paused with a record, else running. Status:
 * NOT_FOUND, INVALID_ARGUMENT, UNSUPPORTED (not a pausable pool). */
warm_status wm_private_pause_begin(warm_runtime *runtime, uint64_t number,
                                   bool resume, struct wm_paused **paused);
void wm_private_pause_end(warm_runtime *runtime, uint64_t number,
                          struct wm_paused *paused);
/* At the end of a runtime: the record of a pool that is paused, which is from
 * then on running; null: there is none. */
struct wm_paused *wm_private_take_paused(warm_runtime *runtime);
/* Waits until no request that was routed to the arena is in flight. False: some
 * are, after a while. */
bool wm_private_await_requests(const wm_private_arena *arena);

/* Ends a request that was routed to the arena, served or refused. */
void wm_private_routed(wm_private_arena *arena);

/* The number of the pool for graphs to which an allocation on the stream would
 * be routed; 0: none. */
uint64_t wm_private_pool_of(warm_runtime *runtime, warm_stream stream);

/* Returns the memory that dead arenas still hold; only: that of one, null: of
 * all. Within slow work. */
void wm_private_tend(warm_runtime *runtime, wm_private_arena *only);

#endif
