/* trace.h: a file of all requests that a program makes of the allocator.
 *
 *   header   "WARMTRC\n", varint version, varint process, varint mark of the
 *            process (random), varint bytes, the options in force as
 *            "name:value\n"
 *   chunk    'C', varint thread, varint order, varint ns, varint records,
 *            varint bytes, that many of records, checksum
 *   end      'E', varint why, varint records of the whole file, checksum
 *            why 0: the runtime was destroyed; 1: the process exited; 2 +
 *            errno: a write failed, and nothing was recorded after it
 *
 *   record   op + 16 × gap  gap: records of other threads since this thread's
 *            [varint gap-15]     last one; 15 means 15 or more
 *            varint ns      since this thread's last record
 *            then the fields of the op (wm_trace_fields()), in this order:
 *            [zigzag block - the last block of the chunk]
 *            [varint bytes]
 *            [varint stream]  its number; 0: none; 1: the legacy default one
 *            [varint place]   0: page-locked; 1: pageable memory used instead;
 *                             2 + device: that device's memory
 *                             256 + 3 × device + sort: a buffer of the shared
 *                             space; sort 0: private, 1: shared, 2: a scalar
 *            [varint pool]    2 × number of a private pool, + 1 for one with
 *                             WARM_POOL_USER; 0: none
 *
 * A varint has seven bits a byte, the lowest first, the top bit set in all but
 * the last. A checksum is FNV-1a of its chunk, four bytes, the lowest first.
 * Each chunk is decoded by itself: its order and ns are those of its first
 * record, whose differences count from them, and from block 0. One counter
 * numbers all records (order): a record has a smaller number than every record
 * that happened after it.
 *
 * A file without an end was written by a process that was killed or has not
 * ended its runtime yet; it lacks up to one buffer of each thread.
 *
 * Recorded: every block of the caches (page-locked, pageable used instead, of
 * devices, of private pools, also those of storages) and every buffer of the
 * shared space. Not recorded:
 * - refused requests, and trims: they depend on the configuration in force,
 *   while a replay shows what another configuration would do
 * - memory of the _uncached functions and of other processes: not cached
 * - captures, and the nodes that warm_pinned_alloc_on() names
 * - users of shared buffers (warm_shared_retain()), shapes and waits
 *
 * One file belongs to one runtime. A runtime cannot open a file that another
 * runtime writes, in any process, nor one that an earlier runtime of the same
 * process wrote; %r and %p in the name make names differ. A file of an earlier
 * process is overwritten when the runtime is complete; if making the runtime
 * fails, the file stays as it was.
 *
 * Every thread fills its own buffer and writes it as one chunk when it is full:
 * memory is bounded and chunks are whole. If a write fails, tracing ends with
 * one warning; no call of the program fails. Any thread may call; functions
 * that say so need that no lock is held. */
#ifndef WM_TRACE_H
#define WM_TRACE_H

#include "runtime/base/options.h"
#include "warmpool/base.h"

#include <stdbool.h>

#define WM_TRACE_MAGIC "WARMTRC\n"
enum { WM_TRACE_VERSION = 3, WM_TRACE_GAP = 15, WM_TRACE_LEGACY = 1 };

enum wm_trace_op {
    WM_TRACE_ALLOC = 1, /* page-locked, of no private pool */
    WM_TRACE_PLACED,    /* any other allocation */
    WM_TRACE_FREE,
    WM_TRACE_USE,    /* the program recorded a stream on a block */
    WM_TRACE_COPY,   /* a copy recorded its stream on a block */
    WM_TRACE_ADOPT,  /* of a stream; place: 2 + device, or 0: unknown */
    WM_TRACE_RETIRE, /* of a stream; its number is not used again */
    WM_TRACE_POOL,   /* a private pool ended; its number is not used again */
    WM_TRACE_LEAVE,  /* the thread ended; its number is not used again */
    WM_TRACE_OPS
};

enum wm_trace_place {
    WM_TRACE_PINNED,
    WM_TRACE_PAGEABLE,
    WM_TRACE_DEVICE,      /* + device */
    WM_TRACE_SHARED = 256 /* + WM_TRACE_SORTS × device + sort */
};
/* Sorts of buffers of the shared space: as enum wm_shared_kind (shared.h). */
enum { WM_TRACE_SORTS = 3 };

/* Whether a place is memory of a device, allocated in the order of a stream. */
static inline bool wm_trace_is_device(uint64_t place)
{
    return place >= WM_TRACE_DEVICE && place < WM_TRACE_SHARED;
}

/* Why a trace ended. */
enum wm_trace_why {
    WM_TRACE_DESTROYED,
    WM_TRACE_EXITED,
    WM_TRACE_FAILED /* + errno */
};

enum wm_trace_field {
    WM_TRACE_HAS_BLOCK = 1,
    WM_TRACE_HAS_BYTES = 2,
    WM_TRACE_HAS_STREAM = 4,
    WM_TRACE_HAS_PLACE = 8,
    WM_TRACE_HAS_POOL = 16
};

/* A decoded record; fields that its op lacks are 0. */
typedef struct wm_trace_record {
    enum wm_trace_op op;
    uint32_t block;
    uint64_t bytes, stream, place, pool;
} wm_trace_record;

static inline unsigned wm_trace_fields(enum wm_trace_op op)
{
    static const unsigned char has[WM_TRACE_OPS] = {
        [WM_TRACE_ALLOC] = WM_TRACE_HAS_BLOCK | WM_TRACE_HAS_BYTES,
        [WM_TRACE_PLACED] = WM_TRACE_HAS_BLOCK | WM_TRACE_HAS_BYTES |
                            WM_TRACE_HAS_STREAM | WM_TRACE_HAS_PLACE |
                            WM_TRACE_HAS_POOL,
        [WM_TRACE_FREE] = WM_TRACE_HAS_BLOCK,
        [WM_TRACE_USE] = WM_TRACE_HAS_BLOCK | WM_TRACE_HAS_STREAM,
        [WM_TRACE_COPY] = WM_TRACE_HAS_BLOCK | WM_TRACE_HAS_STREAM,
        [WM_TRACE_ADOPT] = WM_TRACE_HAS_STREAM | WM_TRACE_HAS_PLACE,
        [WM_TRACE_RETIRE] = WM_TRACE_HAS_STREAM,
        [WM_TRACE_POOL] = WM_TRACE_HAS_POOL};

    return has[op];
}

typedef struct wm_trace wm_trace;
typedef struct wm_trace_buffer wm_trace_buffer;

/* Opens and locks the file that option trace names; *trace is null if it names
 * none. The file's content stays until wm_trace_begin(). In the name %p is the
 * pid, %r the number of the runtime in its process, %% a percent sign. Status:
 * INVALID_OPTION (the file cannot be opened or another runtime has it, with
 * name and reason), OUT_OF_MEMORY. */
warm_status wm_trace_open(const wm_options *options, wm_trace **trace);

/* Truncates the file and writes the header; call it when making the runtime
 * cannot fail any more. Null is ignored. Call without a lock. */
void wm_trace_begin(wm_trace *trace);

/* In the child of a fork: closes the file, which belongs to the parent. */
void wm_trace_forked(wm_trace *trace);

/* Writes the remaining records and the end, unless the trace was never begun.
 * No thread traces any more. Null is ignored. Call without a lock. */
void wm_trace_close(wm_trace *trace);

/* At exit of the process: writes the remaining records and the end; records
 * that other threads add later are dropped. Logs nothing, so that locks may be
 * held. False if the file could not be completed: text then gets the reason
 * with the file's name. */
bool wm_trace_exit(wm_trace *trace, char *text, size_t bytes);

/* A buffer for the calling thread, with a new thread number; without memory the
 * shared buffer, number 0. */
wm_trace_buffer *wm_trace_enter(wm_trace *trace);
/* The shared buffer, for threads that cannot have their own. */
wm_trace_buffer *wm_trace_shared(wm_trace *trace);
/* The thread ends: writes its buffer, which another thread may get then. */
void wm_trace_leave(wm_trace_buffer *buffer);

/* Records an allocation (ALLOC or PLACED; record.block is ignored) and returns
 * the block's number; 0 once tracing has ended. Call without a lock, after the
 * block was allocated. */
uint32_t wm_trace_alloc(wm_trace_buffer *buffer, wm_trace_record record);

/* Records anything else; a record whose op has a block is ignored if block is
 * 0. Call it for a free before another thread can allocate the block. Call
 * without a lock. */
void wm_trace_put(wm_trace_buffer *buffer, const wm_trace_record *record);

/* The number of a stream, counted in the order of first use. It stays until the
 * stream is forgotten or WM_TRACE_STREAMS other streams were used. The legacy
 * default stream has 1 under both of its names, the per-thread default stream
 * one number for each buffer. Streams are known by their address, without a
 * driver call: if a stream is destroyed without retiring it, the next stream at
 * that address has its number. */
enum { WM_TRACE_STREAMS = 4096 };
uint32_t wm_trace_stream(wm_trace_buffer *buffer, warm_stream stream);
/* Forgets a stream that ends and returns its number; 0 if it had none. */
uint32_t wm_trace_forget(wm_trace_buffer *buffer, warm_stream stream);

#endif
