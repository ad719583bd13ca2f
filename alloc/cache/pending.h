/* pending.h: what a thread records and frees on adopted streams, before it is
 * in any timeline.
 *
 *   record  window ─► set ─► slot of the stream: its timeline, by address
 *   free    block ─► its own timeline ─► slot: into its open batch
 *   full    its event is recorded, the oldest one is asked for, and what has
 *           passed goes into the magazines: all of it in the slot, where the
 *           thread is alone with the stream (pending_close.c); else in the
 *           timeline
 *
 *   slot    closed [..] [..]   open [....          each: blocks, and an event
 *
 * A record and a free are hits of the window's section: no lock; and no read-
 * modify-write but one, by which a free claims the block, because others may
 * free it at the same time, by mistake. What a slot has is a front of the
 * timeline's own: it goes there when the slot is wanted for another stream,
 * when the thread ends, or when somebody else wants it there: before memory is
 * obtained, or taken from others (not for every miss: it takes a barrier), when
 * a stream retires or captures, when all is polled. All bounds of batches hold
 * for each slot, which has a part of them; all where nobody else gathers for
 * the stream, and the thread's memory is steady: nobody looks for it then.
 *
 * A block in a slot is GATHERED: its arena counts it as if its caller had it,
 * until it is told so, if ever: what passes before that adds to the totals of
 * what was pending. The thread's figures know that it was freed.
 *
 * A slot has references of its timeline in stock: one a record, which goes with
 * the use, and comes back when that has passed in the slot; so that threads
 * that share a stream do not share a count. */
#ifndef WM_PENDING_H
#define WM_PENDING_H

#include "alloc/stream/timeline.h"
#include "runtime/base/waker.h"

/* Slots: a power of two. Larger blocks that another thread was handed do not
 * wait in them: memory would be obtained meanwhile by who allocates such. */
enum { WM_PENDING_SLOTS = 8, WM_PENDING_OTHERS = 64 << 10 };
/* Most blocks of a slot's batch, and closed ones that it keeps. */
enum { WM_PENDING_BLOCKS = 64, WM_PENDING_CLOSED = 3 };

typedef struct wm_pending_batch {
    size_t count, bytes;
    uint64_t since_ns;             /* when the first one came */
    size_t counted, counted_bytes; /* of the first ones the arena knows */
    warm_event event;              /* of a closed one */
    wm_block *block[WM_PENDING_BLOCKS];
} wm_pending_batch;

/* Who wanted what the owner had with the driver: somebody did in the timeline,
 * or it retires. */
enum wm_pending_request {
    WM_REQUEST_NONE,
    WM_REQUEST_FLUSH,
    WM_REQUEST_DETACH
};

/* Of the section, but for what others peek at. Made when the thread first
 * gathers for a stream that falls into it, then kept for the next one. */
typedef struct wm_pending_stream {
    warm_stream stream; /* null: empty */
    /* Relaxed. Others ask whether a visit is worth it. */
    _Atomic(wm_timeline *) timeline;
    wm_timelines *timelines; /* const */
    wm_waker *waker;         /* const: of the thread that polls */
    /* Relaxed, for others who peek: blocks in batches, and when the oldest of
     * those was begun, or before. */
    _Atomic size_t blocks;
    _Atomic uint64_t since_ns;
    size_t references; /* at least one */
    size_t count_max;  /* of the batch, */
    size_t bytes_max;  /* and in bytes */
    unsigned closed;   /* batches, oldest first */
    /* The owner asks the driver about its batches, and has left the section:
     * others leave them alone, and call. */
    bool in_driver;
    enum wm_pending_request requested;
    wm_pending_batch open;
    wm_pending_batch batch[WM_PENDING_CLOSED];
} wm_pending_stream;

/* Of the section. Made when the thread first gathers; a set of a stream's
 * memory never has one. */
typedef struct wm_pending {
    /* What has passed and the arena was not told of, since it settled; and how
     * much was there at most. */
    size_t completed, completed_bytes, peak, peak_bytes;
    /* Null: not made. Release and acquire: others peek at them. */
    _Atomic(wm_pending_stream *) slot[WM_PENDING_SLOTS];
} wm_pending;

/* The slot of no stream: what a window looks at that has looked for none. */
extern const wm_pending_stream wm_pending_no_stream
    __attribute__((visibility("hidden")));

struct wm_magazine_set;
struct wm_arena_group;
struct wm_window;

static inline unsigned wm_pending_index(warm_stream stream)
{
    return (unsigned)(((uint64_t)(uintptr_t)stream *
                       UINT64_C(0x9E3779B97F4A7C15)) >>
                      61);
}
_Static_assert(WM_PENDING_SLOTS == 8, "the highest three bits");

/* Null: it is not made, as no slot is where gather is null. */
static inline wm_pending_stream *wm_pending_stream_at(const wm_pending *pending,
                                                      unsigned index)
{
    /* Acquire pairs with the release of the owner, who made it. */
    return pending != NULL ? atomic_load_explicit(&pending->slot[index],
                                                  memory_order_acquire)
                           : NULL;
}

/* A hit brought the last block of a batch; mine: that the thread was handed. */
void wm_pending_close(struct wm_window *window, wm_pending_stream *slot,
                      bool mine);

/* wm_pending_free() of a block that starts at base where somebody is about to
 * visit the window, or does: with the section's lock. */
bool wm_pending_free_visited(struct wm_window *window, wm_block *block,
                             const void *base);

/* Gathers a FREEING block that one adopted stream uses, and that another thread
 * may have been handed. False: the slow path. */
bool wm_pending_free_other(struct wm_arena_group *group, wm_block *block,
                           wm_stream_use *uses);

/* The one stream that is to have a slot for that, or null: see
 * wm_pending_attach(). uses: of a FREEING block. */
warm_stream wm_pending_use_stream(wm_stream_use *uses);

/* The calling thread's slot for the stream, made if the stream is adopted; then
 * wm_pending_record() may do. yields: not in place of another stream's. */
void wm_pending_attach(struct wm_arena_group *group, warm_stream stream,
                       bool yields);

/* The calling thread's batches go into the timelines' own; those are asked, if
 * they are worth it, until something has passed, which goes into the thread's
 * magazines. Whether any. now: see wm_timelines_poll_some(). */
bool wm_pending_poll_mine(struct wm_arena_group *group, uint64_t now);

/* All threads' batches begun at older_than or before go into the timelines'
 * own; those for t, which retires, with their slots. Whether a window was
 * visited for it. The caller holds no lock from WM_RANK_WINDOWS on. */
bool wm_pending_collect_all(wm_timelines *set, wm_timeline *t,
                            uint64_t older_than);

/* Blocks in all threads' open batches; those of every free that does not see
 * what the caller wrote before are counted. Lock as above. */
size_t wm_pending_blocks(wm_timelines *set);

/* As many as make a timeline's batch worth a question: what is gathered is
 * where others find it before they would. */
static inline size_t wm_pending_count_max(const wm_timelines *set)
{
    return set->batch_count < WM_BATCH_RIPE ? set->batch_count : WM_BATCH_RIPE;
}

/* The arena is told that the blocks of all slots are pending. */
void wm_pending_count_all(struct wm_magazine_set *set);

/* What passed without that goes to its figures; lock arena. */
void wm_pending_merge_stats_locked(struct wm_magazine_set *set);

/* With the window's section: the set has another arena now; everything leaves
 * the set. */
void wm_pending_note_home(struct wm_magazine_set *set);
void wm_pending_end(struct wm_magazine_set *set);

/* Frees what a set that nobody has gathered with. */
void wm_pending_fini(struct wm_magazine_set *set);

#endif
