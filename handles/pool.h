/* pool.h: the handles of one kind on one device (rows A3, A4, A8, A11 to A14).
 *
 *            take                 give
 *   idle ───────────► a window ───────────► idle      last in, first out
 *   ▲  │  reset first     ▲    takes no call at all
 *   │  └── trimmed        └── created when nothing is idle; no cap
 *   └── created ahead
 *
 *   a handle that is to go while a stream captures: deferred ───► destroyed
 *
 * A window is that of a thread; a lease is one too, of whoever has its number.
 * A handle is reset when it is taken, not when it is given back: a thread that
 * exits makes no call, and no handle serves a new thread without a reset.
 * Every call of the kind is made with no lock held. Any thread; the lock is
 * WM_RANK_POOL. created = destroyed + idle + ending + deferred + in_use +
 * leased + leaked + lost whenever the lock is free.
 *
 * When the device was reset its handles are lost: wherever they are they count
 * as that from then on, nobody calls their library for one any more, and the
 * pool takes none in and hands none out (row A17). Handles of the host are none
 * of these. */
#ifndef WM_POOL_H
#define WM_POOL_H

#include "handles/handle_map.h"
#include "handles/kind.h"
#include "handles/meter.h"
#include "handles/workspace.h"

enum wm_pool_first { WM_FIRST_NONE, WM_FIRST_RUNNING, WM_FIRST_DONE };

/* An idle handle, and since when. */
typedef struct wm_pool_idle {
    void *handle;
    uint64_t since_ns;
} wm_pool_idle;

/* Embedded in the table of pools; fields belong to pool.c and pool_create.c,
 * but for the last three, which belong to prewarm.c. Nothing in it is searched
 * for one after the other: what is cheap with ten handles is with 100,000. */
typedef struct wm_pool {
    wm_lock lock;              /* first: at the address of the pool */
    wm_kind *kind;             /* const */
    wm_meter *meter;           /* const; of the device, for all pools */
    wm_workspaces *workspaces; /* const; of the device; null: none for these */
    int device;                /* const */
    wm_cond first_ended;
    enum wm_pool_first first; /* lock pool: the very first creation */
    bool closed;              /* lock pool: what comes now is leaked, or lost */
    bool lost;                /* lock pool: that, since the device was reset */
    unsigned room;            /* lock pool: handles at most; a power of two */
    void *memory;             /* lock pool: that of idle, the maps, deferred */
    wm_pool_idle *idle;       /* lock pool: ring of room places */
    wm_handle_map all;        /* lock pool: live handles by their address; of
                               * each the stream it was bound to last, null: a
                               * default stream, or none */
    wm_handle_map leases;     /* lock pool: leased ones by their serial, which
                               * no other lease of the process has */
    unsigned oldest;          /* lock pool: place of the longest idle one */
    unsigned alive;           /* lock pool: handles in all */
    unsigned promised;        /* lock pool: creations under way */
    unsigned ahead;           /* lock pool: those of them for nobody yet */
    uint64_t ending; /* lock pool: being destroyed by trim, or unbound */
    void **deferred; /* lock pool: to be destroyed when no capture is under way;
                      * stats.deferred of them */
    struct wm_unbinding *unbinding; /* lock pool: see pool_unbind.c */
    _Atomic uint64_t binds;
    warm_handle_stats stats; /* lock pool, but for binds */
    /* Idle handles wanted of the background, or 0. Relaxed: a count, for
     * statistics to read; written under lock prewarm. */
    _Atomic unsigned wanted;
    unsigned made;                /* lock prewarm: of those, so far */
    struct wm_pool *next_to_warm; /* lock prewarm: in its queue */
} wm_pool;

/* workspaces: of the device. */
void wm_pool_init(wm_pool *pool, wm_kind *kind, wm_meter *meter,
                  wm_workspaces *workspaces, int device);

/* Destroys what is idle, until the process exits, and leaks what is in use or
 * leased. Returns how many that were. The pool has no memory after it. */
uint64_t wm_pool_close(wm_pool *pool);

/* Counts everything as leaked, from now on too, and calls nothing; returns
 * how many that were. For the end of the process (row A6). */
uint64_t wm_pool_leak(wm_pool *pool);

/* An idle handle, reset, or a new one. Never waits for another thread but for
 * the pool's very first creation. Status: as create of the kind;
 * OUT_OF_MEMORY. A failure has changed nothing but the count of failures. */
warm_status wm_pool_acquire(wm_pool *pool, void **handle);

/* Gives a taken handle back at the time now. One lock, no call, cannot fail.
 * One of a device that was reset does not go into the pool. */
void wm_pool_release(wm_pool *pool, void *handle, uint64_t now_ns);

/* Turns a taken handle into a leased one, which was bound or not; returns the
 * serial of the lease. */
uint64_t wm_pool_lease_out(wm_pool *pool, void *handle, bool bound);

/* Gives a leased handle back. One lock, no call. Status: INVALID_ARGUMENT (no
 * such lease), EXITING; nothing is changed then. */
warm_status wm_pool_lease_end(wm_pool *pool, uint64_t serial);

/* Creates one handle for nobody yet, unless count are idle; *made says which.
 * Status: as wm_pool_acquire(). */
warm_status wm_pool_create_idle(wm_pool *pool, unsigned count, bool *made);

/* Destroys what was deferred, unless a capture is still under way. */
void wm_pool_destroy_deferred(wm_pool *pool);

/* Destroys what has been idle for idle_ns or longer, the oldest first, while
 * more than keep are idle. Returns how many that were. */
uint64_t wm_pool_trim(wm_pool *pool, uint64_t keep, uint64_t idle_ns);

/* Binds a taken handle to stream; see wm_kind_ops.bind. */
warm_status wm_pool_bind(wm_pool *pool, void *handle, warm_stream stream,
                         void *workspace, size_t bytes);

/* Binds a handle that nobody else uses to the default stream instead; false,
 * and a warning, if its library does not. */
bool wm_pool_unbind(wm_pool *pool, void *handle);

/* The stream will go: the same for all handles that are idle or leased and
 * bound to it. One that cannot be unbound and is idle is destroyed. */
void wm_pool_unbind_stream(wm_pool *pool, warm_stream stream);

/* Takes the workspaces from handles that have been idle for idle_ns or longer;
 * for kinds that have some. */
void wm_pool_detach_workspaces(wm_pool *pool, uint64_t idle_ns);

/* Whether handle is alive and came from this pool. */
bool wm_pool_owns(wm_pool *pool, const void *handle);

/* Fills all but the size and the workspaces. */
void wm_pool_get_stats(wm_pool *pool, warm_handle_stats *stats);

/* For tests: whether the pool's invariants hold. */
bool wm_pool_check(wm_pool *pool);

#endif
