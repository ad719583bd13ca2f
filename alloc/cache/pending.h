/* pending.h: frees of blocks that a stream still uses: the thread batches them
 * per stream before the stream's timeline sees them.
 *
 *   record  window ─► set ─► slot of the stream: its timeline, by address
 *   free    block ─► its recorded timeline ─► slot: appended to its open batch
 *   full    record the open batch's event, query the oldest batch's event,
 *           cache its blocks in the magazines if it has completed: within the
 *           slot if no other thread has a slot for the stream
 *           (pending_close.c), else in the timeline
 *
 *   slot    closed [..] [..]   open [....          each: blocks, and an event
 *
 * A record and a free are hits, without a lock. The only read-modify-write is
 * the one by which a free claims the block, because another thread may free it
 * at the same time by mistake.
 *
 * A slot's batches are the front of the timeline's queue. They are flushed to
 * the timeline if the slot is needed for another stream, the thread ends, or
 * another thread needs the blocks there: before memory is obtained or reclaimed
 * from other threads (not at every miss: it costs a barrier), when a stream
 * retires, when a capture begins, and by wm_timelines_poll(). The bounds of
 * batches hold for each slot (in bytes: wm_timelines.batch_bytes, which
 * magazine_set.c sets), which gets a part of them; it gets all if no other
 * thread has a slot for the stream and the space does not grow: no thread looks
 * for those blocks then.
 *
 * A block in a slot is BATCHED. Its arena counts it as held by the caller until
 * a flush counts it as pending. Blocks that complete before that are added to
 * the totals of pending blocks at the next merge. The set's own counts include
 * the block's free.
 *
 * A slot holds a stock of references to its timeline: a record moves one to the
 * block, and the slot receives it again when the block completes in the slot.
 * So threads that share a stream do not write a shared count. */
#ifndef WM_PENDING_H
#define WM_PENDING_H

#include "alloc/stream/timeline.h"
#include "runtime/base/waker.h"

/* The table of slots begins with 8 entries and grows to 2048; a slot lies in
 * one of 4 entries. A miss polls 8 slots: with more in use each holds less. And
 * the largest block, allocated by another thread, that waits in a slot: a
 * thread that allocates larger ones would meanwhile have to obtain memory. */
enum {
    WM_PENDING_BITS = 3,
    WM_PENDING_BITS_MAX = 11,
    WM_PENDING_PROBES = 4,
    WM_PENDING_FEW = 8,
    WM_PENDING_IDLE = 4,
    WM_PENDING_OTHERS = 64 << 10
};
/* Most blocks of a slot's batch; most closed batches of a slot. */
enum { WM_PENDING_BLOCKS = 64, WM_PENDING_CLOSED = 3 };

typedef struct wm_pending_batch {
    size_t count, bytes;
    uint64_t since_ns; /* when the first block was added */
    /* the first ones, which the arena counts as pending */
    size_t counted, counted_bytes;
    warm_event event; /* recorded; of a closed batch only */
    wm_block *block[WM_PENDING_BLOCKS];
} wm_pending_batch;

/* A request that another thread left while the owner was in a driver call:
 * FLUSH the batches, or DETACH the slot, since the stream retires. */
enum wm_pending_request {
    WM_REQUEST_NONE,
    WM_REQUEST_FLUSH,
    WM_REQUEST_DETACH
};

/* Guarded by the window, except for fields that other threads read. Stays until
 * the set ends, and is reused for other streams.
 *
 * From its first block on the slot has a turn to be polled by a miss, until it
 * is empty at its turn and its timeline was found empty as well: then it is
 * idle. So a thread that used a thousand streams costs what its present streams
 * cost. A slot that stays idle for WM_PENDING_IDLE times as many polls as there
 * are slots is detached: much longer than in a rotation over all of them. */
typedef struct wm_pending_stream {
    warm_stream stream;                   /* null: unused */
    struct wm_pending_stream *next;       /* const: made before it */
    struct wm_pending_stream *next_spare; /* if it is not in the table */
    /* In the ring of slots in turn, or of idle ones; null: unused. */
    struct wm_pending_stream *before, *after;
    bool in_turn;
    uint64_t idle_since; /* pending->polls when it became idle */
    /* Relaxed: other threads read it to decide whether a visit is worth it. */
    _Atomic(wm_timeline *) timeline;
    wm_timelines *timelines; /* const */
    wm_waker *waker;         /* const: wakes the polling thread */
    /* Relaxed, read by other threads: blocks in all batches; and a time not
     * later than that of the oldest block. */
    _Atomic size_t blocks;
    _Atomic uint64_t since_ns;
    /* Its blocks are in the timeline, and the owner's last poll left none
     * there. Relaxed: a hint, which the owner writes without the lock. */
    _Atomic bool drained;
    size_t references; /* at least one, of a slot in use */
    size_t count_max;  /* bounds of the open batch: blocks, */
    size_t bytes_max;  /* and bytes */
    unsigned closed;   /* number of closed batches, oldest first */
    /* The owner is in a driver call about its batches and has unlocked the
     * window: other threads do not touch the batches and leave a request. */
    bool in_driver;
    enum wm_pending_request requested;
    wm_pending_batch *batch; /* closed ones; null until one is closed here */
    wm_pending_batch open;
} wm_pending_stream;

/* Guarded by the window. Made at the thread's first batched free; a set of a
 * stream's memory never has one. */
typedef struct wm_pending {
    /* Blocks that completed while the arena did not count them as pending,
     * since the last merge. */
    size_t completed, completed_bytes;
    /* The slots by stream, from the hash of a stream on; 2^bits entries, and
     * behind them the last ones' probes. An entry once filled stays so until
     * the table grows: a search ends at an empty one. */
    wm_pending_stream **table;
    unsigned bits;
    unsigned in_use;          /* slots with a stream */
    unsigned in_turn;         /* of these, in the ring */
    wm_pending_stream *turn;  /* of the ring: polled next by a miss; or null */
    wm_pending_stream *idle;  /* of theirs: idle for longest; or null */
    uint64_t polls;           /* by misses */
    wm_pending_stream *spare; /* unused, and not in the table */
    /* All slots, the one made last first. Stored with release, loaded with
     * acquire: other threads read them. */
    _Atomic(wm_pending_stream *) first;
} wm_pending;

/* The slot of no stream, for a window that has looked up no stream yet. */
extern const wm_pending_stream wm_pending_no_stream
    __attribute__((visibility("hidden")));

struct wm_arena_group;
struct wm_window;

static inline size_t wm_pending_index(const wm_pending *pending,
                                      warm_stream stream)
{
    return (
        size_t)(((uint64_t)(uintptr_t)stream * UINT64_C(0x9E3779B97F4A7C15)) >>
                (64 - pending->bits));
}

/* The slot of a stream, by the window's owner or under its lock; or null. */
static inline wm_pending_stream *wm_pending_find(const wm_pending *pending,
                                                 warm_stream stream)
{
    wm_pending_stream *const *entry;

    if (pending == NULL || pending->table == NULL) {
        return NULL;
    }
    entry = &pending->table[wm_pending_index(pending, stream)];
    for (int i = 0; i < WM_PENDING_PROBES && entry[i] != NULL; i++) {
        if (entry[i]->stream == stream) {
            return entry[i];
        }
    }
    return NULL;
}

/* Iterates over the slots in turn, from pending->turn on; null: the end.
 * The window is locked, and the ring does not change meanwhile. */
static inline wm_pending_stream *wm_pending_after(const wm_pending *pending,
                                                  const wm_pending_stream *slot)
{
    return slot->after != pending->turn ? slot->after : NULL;
}

/* The first of all slots, which are chained by next; any thread. */
static inline wm_pending_stream *wm_pending_first(const wm_pending *pending)
{
    /* Acquire pairs with the release in make_slot(). */
    return pending != NULL
               ? atomic_load_explicit(&pending->first, memory_order_acquire)
               : NULL;
}

/* Closes the open batch after a hit made it full. mine: the calling thread
 * allocated the last block, so that completed blocks may be cached here. */
void wm_pending_close(struct wm_window *window, wm_pending_stream *slot,
                      bool mine);

/* wm_pending_free() for a block that starts at base, if another thread visits
 * the window or is about to: locks the window instead of entering it. */
bool wm_pending_free_visited(struct wm_window *window, wm_block *block,
                             const void *base);

/* Batches a FREEING block that one adopted stream uses and that another thread
 * may have allocated. False: the slow path. */
bool wm_pending_free_other(struct wm_arena_group *group, wm_block *block,
                           wm_stream_use *uses);

/* The one stream that uses a FREEING block, if a slot for it would serve the
 * next free; or null. */
warm_stream wm_pending_use_stream(wm_stream_use *uses);

/* Gives the calling thread a slot for the stream, if it is adopted, so that the
 * next wm_pending_record() may hit. yields: does not replace another stream's
 * slot. */
void wm_pending_attach(struct wm_arena_group *group, warm_stream stream,
                       bool yields);

/* Flushes the calling thread's batches to the timelines, then polls those that
 * are worth a query until some block has completed and is cached by this
 * thread. Returns whether one has. now: as for wm_timelines_poll_some(). The
 * caller logs leaked blocks afterwards. */
bool wm_pending_poll_mine(struct wm_arena_group *group, uint64_t now);

/* After wm_pending_poll_mine(): flushes the calling thread's other batches. No
 * thread is interrupted for it. */
void wm_pending_flush_rest(struct wm_arena_group *group);

/* Flushes to the timelines all batches of every thread that began one at
 * older_than or before. If t, a timeline that retires, is not null: detaches
 * its slots instead. Returns whether a window was visited. The caller holds no
 * lock from WM_RANK_WINDOWS on. */
bool wm_pending_collect_all(wm_timelines *set, wm_timeline *t,
                            uint64_t older_than);

/* The number of blocks in the batches of all threads. It includes every free
 * that does not see the caller's writes before this call. Locks as above. */
size_t wm_pending_blocks(wm_timelines *set);

#endif
