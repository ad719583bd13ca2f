/* shared.h: buffers of a device, private or shared with the host (rows F1 to
 * F6).
 *
 *   runtime ─► wm_shared ─┬─► device 0 ─► private │ shared │ scalars
 *                         ├─► device 1 ─► …           a space each
 *                         └─► address ─► wm_buffer: id, users, shape, marks
 *
 * The spaces are ordinary ones: only what a program says about a buffer is new,
 * and stands in a record beside the block.
 *
 *   LIVE ──free──► no users: the block is freed as any other, its record ends
 *          └─────► users: the block is PENDING, as if a stream used it
 *                    └─► last release: inactive ─► wm_buffers_free_inactive()
 *
 * A release only counts, so a host function of the driver may call it. Lock
 * shared guards the records and the map; no other lock is taken with it. */
#ifndef WM_SHARED_H
#define WM_SHARED_H

#include "alloc/space/space.h"
#include "runtime/base/map.h"
#include "warmpool/shared.h"

enum wm_shared_kind {
    WM_SHARED_PRIVATE, /* the device's memory */
    WM_SHARED_BOTH,    /* seen by host and device */
    WM_SHARED_SCALARS, /* the same, of at most WARM_SCALAR_MAX bytes */
    WM_SHARED_KINDS
};

/* Bytes of the segments for small and for large requests. A request of
 * WM_SHARED_OWN has a segment of its own. */
enum {
    WM_SHARED_SMALL = 1 << 20,
    WM_SHARED_SMALL_SEGMENT = 8 << 20,
    WM_SHARED_LARGE_SEGMENT = 32 << 20,
    WM_SHARED_OWN = 10 << 20,
    WM_SHARED_SCALAR_SEGMENT = 64 << 10
};

/* An event behind the work that a stream had queued when a list of buffers was
 * recorded. */
typedef struct wm_mark {
    warm_event event;
    int device;
    uint64_t stream; /* its id */
    /* Of wm_shared.last_mark, before the event was recorded and after: a mark
     * stands for another one of its stream if it began after that had ended. */
    uint64_t begun, ended;
    size_t references;
    bool passed;          /* the work is known to have completed */
    struct wm_mark *next; /* of those that nothing refers to any more */
} wm_mark;

/* One of the marks of a buffer, the newest first. */
typedef struct wm_marked {
    wm_mark *mark;
    struct wm_marked *next;
} wm_marked;

/* What is said about a buffer. Lock shared. */
typedef struct wm_buffer {
    wm_block *block; /* const */
    size_t bytes;    /* const: of the block */
    uint64_t id;     /* const */
    unsigned users;
    bool freed; /* by warm_free(), while it had users */
    wm_marked *marks;
    size_t mark_count;
    size_t mark_most; /* with more, those that have passed are looked for */
    int64_t *shape;
    size_t dimensions;
    struct wm_buffer *next; /* of the inactive ones */
} wm_buffer;

typedef struct wm_shared_space {
    wm_space space;           /* first: a block leads to it */
    enum wm_shared_kind kind; /* const, as all below */
    int device;
    bool managed; /* its memory is managed, else the device's or page-locked */
} wm_shared_space;

typedef struct wm_shared {
    warm_runtime *runtime; /* const */
    wm_lock lock;
    wm_map buffers;              /* lock; by the block's first byte */
    uint64_t last_id, last_mark; /* lock */
    wm_buffer *inactive; /* lock: freed, and the last user has released them */
    wm_space **fellows;  /* const: the lists of spaces with a limit */
    wm_shared_space spaces[][WM_SHARED_KINDS]; /* by device */
} wm_shared;

/* Status: OUT_OF_MEMORY. */
warm_status wm_shared_open(warm_runtime *runtime, const wm_options *options);
/* stop(), before device and pinned memory end: returns idle memory and reports
 * memory in use. close(), after that: frees the records. */
void wm_shared_stop(warm_runtime *runtime, warm_destroy_report *report);
void wm_shared_close(warm_runtime *runtime);

/* The place (history.h) of the first space of a device; those of its other
 * kinds follow. They lie behind those of devices, nodes and pageable memory
 * (pinned.c). */
static inline uint64_t wm_shared_place(const warm_runtime *runtime, int device)
{
    return (uint64_t)runtime->devices + (uint64_t)runtime->driver->numa.nodes +
           1 + (uint64_t)device * WM_SHARED_KINDS;
}

static inline wm_shared_space *wm_shared_space_of(const wm_block *block)
{
    return (wm_shared_space *)wm_space_of(block);
}

/* Allocates a block and its record; bytes is not 0. Status: that of
 * wm_space_alloc(), OUT_OF_MEMORY also for the record. */
warm_status wm_buffer_alloc(wm_shared *shared, int device,
                            enum wm_shared_kind kind, size_t bytes,
                            void **pointer);

/* Frees the blocks of the device's inactive buffers; returns their bytes. */
size_t wm_buffers_free_inactive(wm_shared *shared, int device);

/* The buffer of a LIVE block of the runtime that holds pointer, or null. */
wm_buffer *wm_buffer_find_locked(const wm_shared *shared, const void *pointer);

/* Whether the block was allocated as a buffer, of whichever runtime. */
static inline bool wm_block_is_buffer(const wm_block *block)
{
    return wm_space_of(block)->traits->is_retained != NULL;
}

static inline bool wm_buffer_is_private(const wm_buffer *buffer)
{
    return wm_shared_space_of(buffer->block)->kind == WM_SHARED_PRIVATE;
}

/* Fills all of *info but the device's address of page-locked memory. */
void wm_buffer_describe_locked(const wm_buffer *buffer, warm_shared_info *info);

enum wm_release { WM_RELEASE_DONE, WM_RELEASE_NO_USER, WM_RELEASE_NO_BUFFER };

/* Counts one user less of the buffer of the block, which holds pointer and may
 * have been freed. */
enum wm_release wm_buffer_release(wm_shared *shared, wm_block *block,
                                  const void *pointer);

/* begin(): a mark behind the present work of the stream, with one reference.
 * Status: the driver's, CAPTURE_ERROR, OUT_OF_MEMORY; nothing has changed then.
 * put(): puts it on each shared buffer of the list, and takes the reference;
 * one for none, as after an error. Status: OUT_OF_MEMORY. */
warm_status wm_mark_begin(wm_shared *shared, warm_stream stream,
                          wm_mark **mark);
warm_status wm_mark_put(wm_shared *shared, void *const *pointers, size_t count,
                        wm_mark *mark);

/* Waits for the marks that the buffer has now, and drops them. *any: there was
 * one that was not known to have passed. Status: OUT_OF_MEMORY, the driver's
 * (the other marks have passed then). */
warm_status wm_buffer_await(wm_shared *shared, const void *pointer, bool *any);

#endif
