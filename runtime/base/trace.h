/* trace.h: a file of what a program asked of the allocator, and when.
 *
 *   header   "WARMTRC\n", varint version, varint bytes, the options in force
 *            as "name:value\n"
 *   chunk    'C', varint thread, varint order, varint ns, varint records,
 *            varint bytes, that many of records, checksum
 *   end      'E', varint records of the whole file, checksum
 *
 *   record   op + 8 × gap   gap: records of other threads since the last of
 *            [varint gap-31]     this one; 31 stands for that or more
 *            varint ns      since the last one of this thread
 *            [zigzag block - the last block of the chunk]
 *            [varint bytes, or a stream's number]
 *
 * A varint has seven bits a byte, the lowest first, the top bit set in all but
 * the last. A checksum is FNV-1a of its chunk, four bytes, the lowest first.
 * Chunks are decoded each for itself: order and ns are those of their first
 * record, and stand in for the one before it, the last block is 0. The file's
 * order is the numbers' order: one counter numbers all records, so that
 * whatever happened before something else has a smaller number.
 *
 * Not traced: requests that were refused, and trims. Neither says what the
 * program needs: they are what it got, and did, under the configuration in
 * force, and a replay asks what comes of another one.
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
enum { WM_TRACE_VERSION = 1, WM_TRACE_GAP = 31 };

enum wm_trace_op {
    WM_TRACE_ALLOC = 1, /* block, bytes */
    WM_TRACE_FREE,      /* block */
    WM_TRACE_USE,       /* block, stream: recorded by the program */
    WM_TRACE_COPY,      /* block, stream: recorded by a copy */
    WM_TRACE_ADOPT,     /* stream */
    WM_TRACE_RETIRE,    /* stream: its number does not come again */
    WM_TRACE_LEAVE,     /* the thread is gone: nor does its own */
};

typedef struct wm_trace wm_trace;
typedef struct wm_trace_buffer wm_trace_buffer;

/* Opens the file that the options name; *trace is null if they name none. %p
 * in the name is the process's number, %r the runtime's in it, %% a percent
 * sign. A file that is there is overwritten, but not while another runtime
 * writes it. Status: INVALID_OPTION (the file cannot be opened, and why),
 * OUT_OF_MEMORY. */
warm_status wm_trace_open(const wm_options *options, wm_trace **trace);

/* Writes what is left, and the end. No thread traces any more. Null is
 * ignored. Call without a lock. */
void wm_trace_close(wm_trace *trace);

/* The process exits: writes what there is, and the end; what other threads
 * trace later is dropped. Logs nothing, so that locks may be held; false if
 * the file could not be written. */
bool wm_trace_exit(wm_trace *trace);

/* A buffer for the calling thread, with a number that no other one had; a
 * shared one, numbered 0, if there is no memory. */
wm_trace_buffer *wm_trace_enter(wm_trace *trace);
/* For threads without one: the shared buffer. */
wm_trace_buffer *wm_trace_shared(wm_trace *trace);
/* The thread ends: writes what it traced. */
void wm_trace_leave(wm_trace_buffer *buffer);

/* Traces that bytes were allocated, and returns the block's number, 0 once
 * tracing has ended. Call without a lock, after the block was obtained. */
uint32_t wm_trace_alloc(wm_trace_buffer *buffer, uint64_t bytes);

/* Traces anything else; block 0 is ignored, where a block is meant. A free
 * before others can get the block. Call without a lock. */
void wm_trace_put(wm_trace_buffer *buffer, enum wm_trace_op op, uint32_t block,
                  uint64_t value);

/* The number of a stream, from 1: the same until forgotten, or until a few
 * thousand others were met. A default stream of the thread has one for each
 * buffer. */
uint32_t wm_trace_stream(wm_trace_buffer *buffer, warm_stream stream);
/* The stream ends; its number, 0 if it had none. */
uint32_t wm_trace_forget(wm_trace_buffer *buffer, warm_stream stream);

#endif
