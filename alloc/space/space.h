/* space.h: a kind of memory: its arenas, and how to obtain and return segments.
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
 * recorded on through here: a block knows its space. */
#ifndef WM_SPACE_H
#define WM_SPACE_H

#include "alloc/arena/group.h"
#include "alloc/space/background.h"
#include "alloc/space/grow.h"
#include "alloc/stream/stream_lane.h"
#include "alloc/stream/timeline.h"
#include "runtime/thread/control.h"

struct wm_space;

/* Whom idle memory waits for: streams that can be named; those that freed
 * blocks may wait for as well; or, of the others, the device. */
enum wm_settle { WM_SETTLE_IDLE, WM_SETTLE_PENDING, WM_SETTLE_DEVICE };

/* How a kind of memory has segments that stretch (expand.h). */
typedef struct wm_range_traits {
    /* Addresses for a request of so many bytes, and more. */
    warm_status (*reserve)(struct wm_space *space, size_t needed, void **base,
                           size_t *bytes);
    warm_status (*release)(struct wm_space *space, void *base, size_t bytes);
    /* Before a growth of so many bytes. */
    void (*prepare)(struct wm_space *space, size_t bytes);
    /* Puts a piece of memory into a range, and takes it out; torn: as the
     * driver's (driver.h). */
    warm_status (*commit)(struct wm_space *space, void *base, size_t offset,
                          size_t bytes, bool *torn);
    warm_status (*decommit)(struct wm_space *space, void *base, size_t offset,
                            size_t bytes);
    /* Waits for what is queued on idle memory, so that it is common. Whether
     * there may be more than polls bring. */
    bool (*settle)(struct wm_space *space, enum wm_settle whose);
} wm_range_traits;

/* What one kind of memory does its own way. */
typedef struct wm_space_traits {
    const char *name; /* "pinned" */
    warm_status (*obtain)(struct wm_space *space, int node, size_t bytes,
                          void **base);
    warm_status (*give_back)(struct wm_space *space, void *base, size_t bytes);
    /* A block of the segment is idle now, and perhaps with somebody else; null:
     * nothing is done then. No lock held. */
    void (*freed)(struct wm_space *space, wm_segment *segment);
    /* A request finds nothing: what is idle for others is made safe for it as
     * well, if that can be; null: there is none. is_short: there is no more to
     * be had; else only where one does it. Whether anything was. No lock held.
     */
    bool (*share)(struct wm_space *space, const wm_request *request,
                  bool is_short);
    /* What a request that cannot be served is told of the driver's side, a
     * part of a sentence with ", " before it; null: nothing. */
    void (*describe)(struct wm_space *space, char *text, size_t bytes);
    const wm_range_traits *ranges; /* null: its segments never stretch */
    bool nodeless;                 /* of no node in particular */
    bool uncached;                 /* kept by no thread */
    bool laned; /* what is idle is so in the order of a stream */
} wm_space_traits;

enum { WM_CALLBACKS = 16 };

typedef struct wm_space {
    wm_arena_group group;          /* first: arenas know their space by it */
    const wm_space_traits *traits; /* const */
    wm_driver *driver;             /* const */
    size_t chunk_bytes;            /* const: most at once that nobody needs */
    /* Most that is held, 0: no limit. Relaxed: set at any time. */
    _Atomic size_t limit_bytes;
    size_t beside_bytes; /* lock growth: what others hold below that limit */
    bool shares;         /* const: before it grows; see stream_lane.h */
    uint64_t decay_ns;   /* const: 0: never */
    _Atomic uint64_t aged_ns; /* when idle magazines were looked for */
    /* A block was kept for ever, and it was logged: by what keeps it. */
    _Atomic bool kept_lost, kept_captured;
    _Atomic size_t lost; /* bytes of one that a timeline lost, to be logged */
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

/* wm_timelines_begin_break() for the space's memory that goes back, or when its
 * device is waited for. At the end of a runtime only what the driver says
 * counts, for what was announced may be over. */
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

/* Status: OUT_OF_MEMORY; nothing is to be ended then. */
warm_status wm_space_init(wm_space *space, const wm_space_traits *traits,
                          warm_runtime *runtime, wm_timelines *timelines,
                          const wm_options *options);
/* Before the timelines end: drops the uses of blocks that stay live. */
void wm_space_forget(wm_space *space);
/* Ends the records; segments that are left stay with whoever uses them. */
void wm_space_fini(wm_space *space);

/* Status: OUT_OF_MEMORY, as memory.h says; as wm_driver_look(). */
warm_status wm_space_alloc(wm_space *space, const wm_request *request,
                           void **pointer);

/* What wm_space_alloc() does with a request that cannot be served, for one
 * with a cause, later. */
warm_status wm_space_refuse(wm_space *space, const wm_request *request);

/* Sums over the arenas, of private pools too; stats->size is the caller's.
 * node: theirs, or WM_NODE_UNKNOWN for all; what stats has is added to. */
void wm_space_stats(wm_space *space, warm_space_stats *stats);
void wm_space_node_stats(wm_space *space, int node, warm_space_stats *stats);
void wm_space_class_stats(wm_space *space, unsigned size_class,
                          warm_class_stats *stats);
/* The same of one moment: what threads counted for themselves is in it, and
 * none goes on until it is read. A peak is at least what is current: of several
 * moments that could be more than there ever was. */
void wm_space_settled_stats(wm_space *space, int node, warm_space_stats *stats);
void wm_space_settled_class_stats(wm_space *space, unsigned size_class,
                                  warm_class_stats *stats);
void wm_space_reset_peaks(wm_space *space);
void wm_space_reset_totals(wm_space *space);

/* The memory went with the context of a device that was reset (row A17). Its
 * records stay, for those who free what they had; nothing of it is handed out
 * but what threads have ready, and nothing goes back to the driver. */
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

/* Why it did not: the last error says whose the pointer is. of: "" or " of a
 * device", what was looked for. Returns RUNTIME_GONE where a destroyed runtime
 * left the memory behind, else NOT_FOUND. */
warm_status wm_space_not_found(const void *pointer, const char *of);
/* RUNTIME_GONE there, with words; else OK. */
warm_status wm_space_check_left(const void *pointer);
static inline wm_space *wm_space_of(const wm_block *block)
{
    return (wm_space *)block->segment->arena->group;
}

/* The last timelines have let go of PENDING blocks; see timeline.h. */
void wm_space_finish(wm_block *chain);
/* Says once that one of those was kept. No lock held: the log calls back. */
void wm_space_say_ends(wm_space *space);

/* Frees a block that this thread has taken from LIVE to FREEING. */
void wm_space_free(wm_space *space, wm_block *block);

warm_status wm_space_record(wm_space *space, wm_block *block,
                            warm_stream stream);

/* The stream will be destroyed; see wm_timelines_retire(). */
void wm_space_retire(wm_space *space, warm_stream stream,
                     const wm_stream_info *info);

/* Both fail only if the driver does not let this thread set its capture mode;
 * nothing was done then. */
warm_status wm_space_poll(wm_space *space);
/* The same where nothing is to go for its age: what was freed and is done is
 * idle. */
warm_status wm_space_fetch(wm_space *space);
/* As wm_space_poll(), for who comes again by itself: leaves batches open that
 * are not old yet. */
void wm_space_tend(wm_space *space);
/* Returns idle segments until at most target bytes are held. */
warm_status wm_space_trim(wm_space *space, size_t target, size_t *released);

/* The same while no other thread is inside: settles before, and asks whether
 * the figures are those of the live blocks. */
bool wm_space_check_settled(wm_space *space);

warm_status wm_space_callback_add(wm_space *space, warm_memory_fn function,
                                  void *context);
warm_status wm_space_callback_remove(wm_space *space, warm_memory_fn function,
                                     void *context);

#endif
