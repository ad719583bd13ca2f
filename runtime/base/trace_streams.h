/* trace_streams.h: numbers for streams, in the order in which they are met: the
 * legacy default stream has WM_TRACE_LEGACY, others come after it.
 *
 * A hash table of a fixed size: when it is full the oldest entry makes room,
 * and its stream gets a new number if it comes again. The number belongs to
 * the address, which is all that can be had without asking a driver: a stream
 * that was destroyed without a word goes on as the one that gets its place.
 * No lock: whoever has one guards it. */
#ifndef WM_TRACE_STREAMS_H
#define WM_TRACE_STREAMS_H

#include "warmpool/base.h"

enum { WM_TRACE_STREAMS = 4096 };

typedef struct wm_trace_streams {
    uint32_t last;                   /* number given, less WM_TRACE_LEGACY */
    uint32_t next_entry;             /* to be taken */
    uint16_t head[WM_TRACE_STREAMS]; /* entry + 1, 0: none */
    struct {
        warm_stream stream;
        uint64_t thread; /* of a default stream of one thread, else 0 */
        uint32_t number; /* 0: not in use */
        uint16_t next;   /* entry + 1, 0: none */
    } entry[WM_TRACE_STREAMS];
} wm_trace_streams;

/* thread: number of the calling thread. */
uint32_t wm_trace_streams_number(wm_trace_streams *streams, warm_stream stream,
                                 uint64_t thread);
/* Forgets it; its number, or 0. */
uint32_t wm_trace_streams_forget(wm_trace_streams *streams, warm_stream stream,
                                 uint64_t thread);

#endif
