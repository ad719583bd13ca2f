/* trace.h: a file of what a program asked of the allocator, and when.
 *
 *   header   "WARMTRC\n", varint version, varint process, varint mark of the
 *            process (random), varint bytes, the options in force as
 *            "name:value\n"
 *   chunk    'C', varint thread, varint order, varint ns, varint records,
 *            varint bytes, that many of records, checksum
 *   end      'E', varint why, varint records of the whole file, checksum
 *            why 0: the runtime was destroyed; 1: the process exited; more:
 *            2 + errno of the write after which nothing was recorded
 *
 *   record   op + 16 × gap  gap: records of other threads since the last of
 *            [varint gap-15]     this one; 15 stands for that or more
 *            varint ns      since the last one of this thread
 *            then what the op has (wm_trace_fields()), in this order:
 *            [zigzag block - the last block of the chunk]
 *            [varint bytes]
 *            [varint stream]  its number; 0: none; 1: the legacy default one
 *            [varint place]   0: page-locked; 1: pageable memory in its place;
 *                             2 + device: that device's memory
 *            [varint pool]    2 × number of a private pool, + 1 for one with
 *                             WARM_POOL_USER; 0: none
 *
 * A varint has seven bits a byte, the lowest first, the top bit set in all but
 * the last. A checksum is FNV-1a of its chunk, four bytes, the lowest first.
 * Chunks are decoded each for itself: order and ns are those of their first
 * record, and stand in for the one before it, the last block is 0. The file's
 * order is the numbers' order: one counter numbers all records, so that
 * whatever happened before something else has a smaller number.
 *
 * A file without an end is of a process that was killed, or has not ended its
 * runtime yet: up to one buffer of each thread is missing from it.
 *
 * Recorded: every block of the caches (page-locked, pageable in its place, of
 * devices, of private pools, also those behind storages). Not recorded:
 * - requests that were refused, and trims. Neither says what the program needs:
 *   they are what it got, and did, under the configuration in force, and a
 *   replay asks what comes of another one
 * - memory of the _uncached functions and of other processes: no cache has it
 * - captures, and the nodes that warm_pinned_alloc_on() names
 *
 * One file belongs to one runtime. A second runtime is refused a file that
 * another one writes, in any process, and one that an earlier runtime of the
 * same process wrote: numbers would be put into names that other programs look
 * for, and %r and %p in the name do that where they are wanted. A file of an
 * earlier process is overwritten, once all else of the runtime is made: where
 * that fails the file stays as it was.
 *
 * Every thread fills a buffer of its own and writes it as one chunk when it is
 * full; so memory is bounded, and chunks are whole. Whatever goes wrong with
 * the file later than its opening ends the tracing with one warning, and no
 * call. Any thread; no lock but of this file may be held for what says so. */
#ifndef WM_TRACE_H
#define WM_TRACE_H

#include "runtime/base/options.h"
#include "warmpool/base.h"

#include <stdbool.h>

#define WM_TRACE_MAGIC "WARMTRC\n"
enum { WM_TRACE_VERSION = 2, WM_TRACE_GAP = 15, WM_TRACE_LEGACY = 1 };

enum wm_trace_op {
    WM_TRACE_ALLOC = 1, /* page-locked, of no private pool */
    WM_TRACE_PLACED,    /* any other allocation */
    WM_TRACE_FREE,
    WM_TRACE_USE,    /* a stream was recorded by the program */
    WM_TRACE_COPY,   /* or by a copy */
    WM_TRACE_ADOPT,  /* a stream; its place: 2 + device, or 0: unknown */
    WM_TRACE_RETIRE, /* a stream: its number does not come again */
    WM_TRACE_POOL,   /* a private pool is gone: nor does its own */
    WM_TRACE_LEAVE,  /* the thread is gone: nor does its own */
    WM_TRACE_OPS
};

enum wm_trace_place {
    WM_TRACE_PINNED,
    WM_TRACE_PAGEABLE,
    WM_TRACE_DEVICE /* + device */
};

/* Why a file has ended. */
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

/* What a record has; what it has not is 0. */
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

/* Opens and locks the file that the options name, and leaves what is in it
 * until the trace begins; *trace is null if they name none. %p
 * in the name is the process's number, %r the runtime's in it, %% a percent
 * sign. Status: INVALID_OPTION (the file cannot be opened, or another runtime
 * has it, with its name and the reason), OUT_OF_MEMORY. */
warm_status wm_trace_open(const wm_options *options, wm_trace **trace);

/* Empties the file and writes the header. Once the runtime's making cannot fail
 * any more; null is ignored. Call without a lock. */
void wm_trace_begin(wm_trace *trace);

/* In the child of a fork: lets go of the file, which is the parent's. */
void wm_trace_forked(wm_trace *trace);

/* Writes what is left, and the end; nothing if it was not begun. No thread
 * traces any more. Null is ignored. Call without a lock. */
void wm_trace_close(wm_trace *trace);

/* The process exits: writes what there is, and the end; what other threads
 * trace later is dropped. Logs nothing, so that locks may be held: if the file
 * could not be written to its end the reason, with the file's name, is put
 * into text, and the return is false. */
bool wm_trace_exit(wm_trace *trace, char *text, size_t bytes);

/* A buffer for the calling thread, with a number that no other one had; a
 * shared one, numbered 0, if there is no memory. */
wm_trace_buffer *wm_trace_enter(wm_trace *trace);
/* For threads without one: the shared buffer. */
wm_trace_buffer *wm_trace_shared(wm_trace *trace);
/* The thread ends: writes what it traced. */
void wm_trace_leave(wm_trace_buffer *buffer);

/* Traces an allocation (ALLOC or PLACED, without its block), and returns the
 * block's number, 0 once tracing has ended. Call without a lock, after the
 * block was obtained. */
uint32_t wm_trace_alloc(wm_trace_buffer *buffer, wm_trace_record record);

/* Traces anything else; block 0 is ignored, where a block is meant. A free
 * before others can get the block. Call without a lock. */
void wm_trace_put(wm_trace_buffer *buffer, const wm_trace_record *record);

/* The number of a stream: the same until forgotten, or until a few thousand
 * others were met. The legacy default stream has 1, under both of its names, a
 * default stream of the thread one for each buffer, others one from 2 on. */
uint32_t wm_trace_stream(wm_trace_buffer *buffer, warm_stream stream);
/* The stream ends; its number, 0 if it had none. */
uint32_t wm_trace_forget(wm_trace_buffer *buffer, warm_stream stream);

#endif
