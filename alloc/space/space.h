/* space.h: a kind of memory: its arenas, and how segments are obtained from the
 * driver and returned.
 *
 * An allocation that the thread's cache cannot serve tries in this order, and
 * stops as early as it can (the table in ladder.c):
 *
 *   idle blocks            of the thread's cache, refilled from its arena
 *   completed blocks       that this thread freed, then of a few streams
 *   larger cached blocks   split; of a stream's lane: adjacent ones merged
 *   sibling arenas         an idle segment moves over, or a block is allocated
 *   completed blocks       of all streams; then the siblings once more
 *   other threads' caches  flushed, while that costs less than growth does
 *   frees of all threads   that wait in their caches, and are complete
 *   the driver             a segment; idle segments of the node are returned;
 *                          other nodes; idle segments of all are returned
 *   all threads' caches    flushed, whatever that costs; the driver again
 *   other streams' memory  the stream waits for them
 *   the user's callbacks   free something; the driver again
 *   out of memory
 *
 * No lock is held across a driver call. Blocks of all spaces are freed and
 * recorded by the functions below: a block leads to its space. */
#ifndef WM_SPACE_H
#define WM_SPACE_H

#include "alloc/arena/group.h"
#include "alloc/space/background.h"
#include "alloc/space/grow.h"
#include "alloc/stream/stream_lane.h"
#include "alloc/stream/timeline.h"
#include "runtime/thread/runtime_body.h"

struct wm_space;

/* What to wait for before idle memory is returned: adopted streams with idle
 * memory; also streams with pending frees; or the whole device. */
enum wm_settle { WM_SETTLE_IDLE, WM_SETTLE_PENDING, WM_SETTLE_DEVICE };

/* How a kind of memory has expandable segments (expand.h). */
typedef struct wm_range_traits {
    /* Reserves addresses for a request of needed bytes, and more. */
    warm_status (*reserve)(struct wm_space *space, size_t needed, void **base,
                           size_t *bytes);
    warm_status (*release)(struct wm_space *space, void *base, size_t bytes);
    /* Called before a growth by bytes. */
    void (*prepare)(struct wm_space *space, size_t bytes);
    /* Maps a piece of memory at an offset of a range; and unmaps it. *torn: as
     * in driver.h. */
    warm_status (*commit)(struct wm_space *space, void *base, size_t offset,
                          size_t bytes, bool *torn);
    warm_status (*decommit)(struct wm_space *space, void *base, size_t offset,
                            size_t bytes);
    /* Waits for the work queued on idle memory, which is then safe on every
     * stream. Returns whether memory may be idle that polls do not find. */
    bool (*settle)(struct wm_space *space, enum wm_settle whose);
} wm_range_traits;

/* What one kind of memory does in its own way. */
typedef struct wm_space_traits {
    const char *name; /* "pinned" */
    warm_status (*obtain)(struct wm_space *space, int node, size_t bytes,
                          void **base);
    warm_status (*give_back)(struct wm_space *space, void *base, size_t bytes);
    /* Called after a block of the segment became idle; another thread may have
     * allocated it again. May be null. No lock held. */
    void (*freed)(struct wm_space *space, wm_segment *segment);
    /* Makes idle memory of other streams safe for a request that missed: its
     * stream waits for theirs. is_short: the space cannot grow; else only if
     * waiting for a single stream suffices. Returns whether it did so. May be
     * null. No lock held. */
    bool (*share)(struct wm_space *space, const wm_request *request,
                  bool is_short);
    /* Writes what the driver reports about its memory, for the message of a
     * refused request: part of a sentence after ", ". May be null. */
    void (*describe)(struct wm_space *space, char *text, size_t bytes);
    const wm_range_traits *ranges; /* null: its segments never expand */
    bool nodeless;                 /* on no NUMA node in particular */
    bool uncached;                 /* threads do not cache its blocks */
    bool laned; /* idle memory belongs to the lane of a stream */
} wm_space_traits;

enum { WM_CALLBACKS = 16 };

typedef struct wm_space {
    wm_arena_group group;          /* first: an arena leads to its space */
    const wm_space_traits *traits; /* const */
    wm_driver *driver;             /* const */
    size_t chunk_bytes;            /* const: most obtained ahead at once */
    /* Most bytes held; 0: no limit. Relaxed: set at any time. */
    _Atomic size_t limit_bytes;
    size_t beside_bytes; /* lock growth: held by others below that limit */
    bool shares;         /* const: streams wait for others before it grows */
    uint64_t decay_ns;   /* const: age of segments to return; 0: none */
    _Atomic uint64_t aged_ns; /* time of the last flush of unused caches */
    /* A block leaked, which was logged: because the driver cannot say whether
     * it is in use; because a graph may use it. */
    _Atomic bool kept_lost, kept_captured;
    _Atomic size_t lost; /* bytes that a timeline leaked, to be logged */
    wm_growth growth;
    wm_background background;
    struct wm_space *poller; /* const: whose background thread polls it */
    struct wm_space *beside; /* const: one that its own polls as well, or null
                              */
    struct {
        warm_memory_fn function;
        void *context;
    } callback[WM_CALLBACKS]; /* lock growth */
} wm_space;

static inline size_t wm_space_limit(const wm_space *space)
{
    return atomic_load_explicit(&space->limit_bytes, memory_order_relaxed);
}

/* wm_timelines_begin_break() before the space's memory is returned or its
 * device is waited for. At the end of a runtime only what the driver reports
 * counts: an announced capture may be over. */
static inline bool wm_space_begin_break(wm_space *space, wm_breaking *breaking)
{
    wm_timelines *timelines = space->group.timelines;
    bool ending =
        atomic_load_explicit(&timelines->ending, memory_order_relaxed);

    return wm_timelines_begin_break(timelines, breaking, space->group.device,
                                    NULL, !ending);
}

static inline void wm_space_end_break(wm_space *space, wm_breaking *breaking)
{
    wm_timelines_end_break(space->group.timelines, breaking);
}

/* Status: OUT_OF_MEMORY; then it must not be ended. */
warm_status wm_space_init(wm_space *space, const wm_space_traits *traits,
                          warm_runtime *runtime, wm_timelines *timelines,
                          const wm_options *options);
/* Before the timelines end: drops the uses of blocks that stay live. */
void wm_space_forget(wm_space *space);
/* Frees the records; segments with live blocks stay mapped for their users. */
void wm_space_fini(wm_space *space);

/* Status: OUT_OF_MEMORY, as memory.h says; as wm_driver_look(). */
warm_status wm_space_alloc(wm_space *space, const wm_request *request,
                           void **pointer);

/* Counts a request that cannot be served, and fails with the space's figures. A
 * caller that passed request->cause calls it if its other memory fails, too. */
warm_status wm_space_refuse(wm_space *space, const wm_request *request);

/* Sums over the arenas, of private pools too; stats->size is the caller's.
 * node: theirs, or WM_NODE_UNKNOWN for all; what stats has is added to. */
void wm_space_stats(wm_space *space, warm_space_stats *stats);
void wm_space_node_stats(wm_space *space, int node, warm_space_stats *stats);
void wm_space_class_stats(wm_space *space, unsigned size_class,
                          warm_class_stats *stats);
/* The same at one moment: includes what threads counted in their caches,
 * whose biased locks are revoked meanwhile. A peak is at least the current
 * value; sums over several moments could be more than there ever was. */
void wm_space_settled_stats(wm_space *space, int node, warm_space_stats *stats);
void wm_space_settled_class_stats(wm_space *space, unsigned size_class,
                                  warm_class_stats *stats);
void wm_space_reset_peaks(wm_space *space);
void wm_space_reset_totals(wm_space *space);

/* The memory ended with the context of a device that was reset (row A17). The
 * records stay, since users may free their blocks; nothing is allocated except
 * what threads have cached, and nothing is returned to the driver. */
static inline bool wm_space_is_lost(const wm_space *space)
{
    return wm_driver_is_lost(space->driver, space->group.device);
}

/* wm_arena_check() of every arena, for tests. */
bool wm_space_check(wm_space *space);

/* As wm_growth_ahead(). */
warm_status wm_space_ahead(wm_space *space, int node, size_t bytes,
                           size_t least, size_t *obtained);

/* The LIVE block that holds pointer, else null. */
wm_block *wm_space_find(const void *pointer);

/* Fails for a pointer that is no such block; the message names what it is. of:
 * "" or " of a device", the kind of block. Returns RUNTIME_GONE if a destroyed
 * runtime left the memory behind, else NOT_FOUND. */
warm_status wm_space_not_found(const void *pointer, const char *of);
/* RUNTIME_GONE in that case, with a message; else OK. */
warm_status wm_space_check_left(const void *pointer);
static inline wm_space *wm_space_of(const wm_block *block)
{
    return (wm_space *)block->segment->arena->group;
}

/* Frees PENDING blocks whose streams have completed; see timeline.h. */
void wm_space_finish(wm_block *chain);
/* Logs, once, that such a block leaked. No lock held: the log calls back. */
void wm_space_say_ends(wm_space *space);

/* Frees a block whose state this thread changed from LIVE to FREEING. */
void wm_space_free(wm_space *space, wm_block *block);

warm_status wm_space_record(wm_space *space, wm_block *block,
                            warm_stream stream);

/* The stream will be destroyed; see wm_timelines_retire(). */
void wm_space_retire(wm_space *space, warm_stream stream,
                     const wm_stream_info *info);

/* Makes completed blocks idle and returns segments that were idle for decay_ns.
 * Fails only if the driver does not let this thread set its capture mode;
 * nothing was done then. */
warm_status wm_space_poll(wm_space *space);
/* The same, but returns no segment. */
warm_status wm_space_fetch(wm_space *space);
/* As wm_space_poll(), for a thread that polls regularly: young batches stay
 * open. */
void wm_space_tend(wm_space *space);
/* Returns idle segments until at most target bytes are held. */
warm_status wm_space_trim(wm_space *space, size_t target, size_t *released);

/* For tests, while no other thread is inside: merges the counts of caches, and
 * checks that the figures are those of the live blocks. */
bool wm_space_check_settled(wm_space *space);

warm_status wm_space_callback_add(wm_space *space, warm_memory_fn function,
                                  void *context);
warm_status wm_space_callback_remove(wm_space *space, warm_memory_fn function,
                                     void *context);

#endif
