/* pool.h: the handles of one kind on one device (rows A3, A4, A8, A11 to A14).
 *
 *           acquire              release
 *   idle ───────────► a window ───────────► idle      last in, first out
 *   ▲  │  reset first     ▲    without a library call
 *   │  └── trimmed        └── created when none is idle; no cap
 *   └── created ahead
 *
 *   a handle to be destroyed while a stream captures: deferred ───► destroyed
 *
 * A window belongs to a thread; a lease to the holder of its number. A handle
 * is reset when it is acquired, not when it is released: an exiting thread
 * calls no library, and no thread gets another thread's settings. The pool
 * calls its kind with no lock held. Any thread; the lock is WM_RANK_POOL.
 * Whenever it is free created = destroyed + idle + ending + deferred + in_use +
 * leased + leaked + lost.
 *
 * After a reset of the device (row A17) all its handles count as lost, wherever
 * they are; their library is not called for them, and the pool neither accepts
 * nor hands out one. Handles of the host are not affected. */
#ifndef WM_POOL_H
#define WM_POOL_H

#include "handles/kind.h"
#include "handles/meter.h"
#include "handles/workspace.h"
#include "runtime/base/map.h"

enum wm_pool_first { WM_FIRST_NONE, WM_FIRST_RUNNING, WM_FIRST_DONE };

/* An idle handle and the time it was released. */
typedef struct wm_pool_idle {
    void *handle;
    uint64_t since_ns;
} wm_pool_idle;

/* A stream that a held handle is bound to, or was before. */
typedef struct wm_bound {
    wm_rebind again; /* all that it takes to bind the handle to it again */
    /* The runtime's stream_epoch before the stream was looked up, or 0: it must
     * be looked up again. */
    uint64_t epoch;
    uint64_t stream_id;
    wm_workspace *workspace; /* null: the library's own */
} wm_bound;

/* What a handle of a window is bound to, and was before; lives as long as the
 * runtime. Owner thread, but for `again` and `next`. */
typedef struct wm_binding {
    wm_bound *present; /* of the stream in the row; one of both */
    wm_bound *before;  /* the other one */
    uint64_t *row;     /* const: the words `bound` of the row */
    bool is_noted;     /* the pool knows the stream in the row */
    wm_bound both[2];
    /* Calls of wm_kind_ops.bind or rebind that wm_binding_again() made.
     * Relaxed: written by the owner thread alone, and read for statistics. */
    _Atomic uint64_t again;
    struct wm_binding *next; /* lock pool */
} wm_binding;

/* Embedded in the table of kinds. pool*.c use the fields, prewarm.c the last
 * three. Acquire, release and lease cost the same with 100,000 handles as with
 * ten. */
/* A handle whose library is called without the lock, to take it off its stream
 * or to bind it to another; on the thread's stack. The retirement of the stream
 * waits for the call, since the library may access the stream. */
struct wm_unbinding {
    struct wm_unbinding *next; /* lock pool; all below too */
    void *handle;
    warm_stream stream; /* null: it was bound to none */
    uint64_t thread;    /* that makes the call */
    uint64_t since_ns;
    bool ours; /* it was idle, or its lease has ended meanwhile */
};

typedef struct wm_pool {
    wm_lock lock;    /* first: at the address of the pool */
    wm_kind *kind;   /* const */
    wm_meter *meter; /* const; the device's, shared by its pools */
    wm_workspaces
        *workspaces;       /* const; the device's; null: the kind has none */
    wm_workspaces *beside; /* const; the device's, whose memory a creation may
                              need */
    int device;            /* const */
    wm_cond first_ended;
    enum wm_pool_first first; /* lock pool: the pool's first creation */
    bool closed;        /* lock pool: released handles are leaked, or lost */
    bool lost;          /* lock pool: closed because the device was reset */
    unsigned room;      /* lock pool: capacity, a power of two */
    wm_pool_idle *idle; /* lock pool: ring of `room` slots */
    wm_map all;         /* lock pool: live handles by address, each with
                         * the stream it is bound to; null: none, or a
                         * default stream */
    wm_map leases;      /* lock pool: leased handles by serial, unique in
                         * the process */
    wm_map serials;     /* lock pool: serials of leases by handle */
    unsigned oldest;    /* lock pool: slot of the longest idle handle */
    unsigned alive;     /* lock pool: live handles, in any state */
    unsigned reserved_slots; /* lock pool: creations in flight */
    unsigned prewarming; /* lock pool: of these, creations of idle handles */
    uint64_t ending;     /* lock pool: being trimmed or unbound by a thread */
    void **deferred;     /* lock pool: stats.deferred handles to destroy when no
                          * stream captures */
    /* Most handles in use at once since the last trim. Relaxed: written under
     * lock pool, read without it. */
    _Atomic uint64_t recent_peak;
    wm_binding *bindings;           /* lock pool: of all windows; owned */
    struct wm_unbinding *unbinding; /* lock pool: of threads that unbind */
    wm_cond unbound;                /* one of these has ended */
    _Atomic uint64_t binds;
    warm_handle_stats stats; /* lock pool, but for binds */
    /* Idle handles that the prewarm thread shall make, or 0. Relaxed: written
     * under lock prewarm, read for statistics without it. */
    _Atomic unsigned wanted;
    unsigned made;                /* lock prewarm: of these, made so far */
    struct wm_pool *next_to_warm; /* lock prewarm: in its queue */
} wm_pool;

/* meter and workspaces are the device's. */
void wm_pool_init(wm_pool *pool, wm_kind *kind, wm_meter *meter,
                  wm_workspaces *workspaces, int device);

/* Destroys idle handles, unless the process exits, and leaks handles in use or
 * leased, whose number it returns. Frees the pool's memory. */
uint64_t wm_pool_close(wm_pool *pool);

/* Counts every handle as leaked, now and when it is released later; calls no
 * library. Returns the number leaked now. For the end of the process (row A6).
 */
uint64_t wm_pool_leak(wm_pool *pool);

/* Returns an idle handle, reset, or a new one. Waits for another thread only
 * during the pool's first creation. Status: as create of the kind;
 * OUT_OF_MEMORY. A failure changes only the count of failures. */
warm_status wm_pool_acquire(wm_pool *pool, void **handle);
/* The same for a handle that has a workspace for the stream, if one is idle. */
warm_status wm_pool_acquire_for(wm_pool *pool, warm_stream stream,
                                uint64_t stream_id, void **handle);

static inline uint64_t wm_pool_recent_peak(const wm_pool *pool)
{
    return atomic_load_explicit(&pool->recent_peak, memory_order_relaxed);
}

/* Releases an acquired handle at time now_ns. One lock, no library call, cannot
 * fail. A handle of a device that was reset does not return to the pool. */
void wm_pool_release(wm_pool *pool, void *handle, uint64_t now_ns);
/* The same for a handle in no window, that may be bound to a workspace. */
void wm_pool_release_left(wm_pool *pool, void *handle, uint64_t now_ns);

/* Turns an acquired handle into a leased one; bound: the caller bound it to a
 * stream. Returns the serial of the lease. */
uint64_t wm_pool_lease_out(wm_pool *pool, void *handle, bool bound);

/* Around a call that binds the handle of a lease, u->handle, which is no longer
 * recorded as bound. Waits for a thread that takes the handle off its stream.
 * Status: INVALID_ARGUMENT (no such lease); nothing is begun then. bound: else
 * the handle is recorded as bound to the stream that it had. */
warm_status wm_pool_rebind_begin(wm_pool *pool, uint64_t serial,
                                 struct wm_unbinding *u);
void wm_pool_rebind_end(wm_pool *pool, struct wm_unbinding *u, bool bound);

/* The serial of a handle's lease, or 0. lost: gets whether a reset of the
 * device destroyed the handle. One lock. */
uint64_t wm_pool_lease_of(wm_pool *pool, const void *handle, bool *lost);

/* Ends a lease and releases its handle. One lock, no library call. Status:
 * INVALID_ARGUMENT (no such lease), EXITING; nothing is changed then. */
warm_status wm_pool_lease_end(wm_pool *pool, uint64_t serial);

/* Creates one idle handle unless `count` are idle; *made: it did. Status: as
 * wm_pool_acquire(). */
warm_status wm_pool_create_idle(wm_pool *pool, unsigned count, bool *made);

/* Destroys deferred handles until a capture prevents it. */
void wm_pool_destroy_deferred(wm_pool *pool);

/* Destroys handles that were idle for idle_ns or longer, the oldest first,
 * while more than `keep` are idle. Returns the number destroyed. */
uint64_t wm_pool_trim(wm_pool *pool, uint64_t keep, uint64_t idle_ns);

/* Binds an acquired handle by wm_kind_ops.bind; workspace: may be null. */
warm_status wm_pool_bind(wm_pool *pool, void *handle, warm_stream stream,
                         const wm_workspace *workspace, size_t bytes);

/* Adds a window's record, whose calls of wm_kind_ops.bind or rebind count from
 * then on, and which the pool frees when it closes. */
void wm_pool_add_binding(wm_pool *pool, wm_binding *binding);

/* Records the stream that an acquired handle is bound to since. */
void wm_pool_note_bound(wm_pool *pool, void *handle, warm_stream stream);

/* Binds a handle that only the caller can reach to the default stream. False,
 * and a warning is logged, if the library refuses. */
bool wm_pool_unbind(wm_pool *pool, void *handle);

/* Called before the stream is destroyed: unbinds every idle or leased handle
 * that is bound to it. An idle handle that cannot be unbound is destroyed. */
void wm_pool_unbind_stream(wm_pool *pool, warm_stream stream);

/* Whether handle is a live handle of this pool. */
bool wm_pool_owns(wm_pool *pool, const void *handle);

/* Fills all fields except the size and the workspaces. */
void wm_pool_get_stats(wm_pool *pool, warm_handle_stats *stats);

/* For tests: whether the pool's invariants hold. */
bool wm_pool_check(wm_pool *pool);

#endif
