/* trace_streams.h: numbers streams in the order of their first use. The legacy
 * default stream has WM_TRACE_LEGACY, all others a larger number.
 *
 * A hash table of fixed size: when it is full the oldest entry is replaced, and
 * its stream gets a new number when it is used again. Streams are known by
 * their address, without a driver call: if a stream is destroyed without
 * retiring it, the next stream at that address has its number.
 * Takes no lock: the caller guards its table. */
#ifndef WM_TRACE_STREAMS_H
#define WM_TRACE_STREAMS_H

#include "warmpool/base.h"

enum { WM_TRACE_STREAMS = 4096 };

typedef struct wm_trace_streams {
    uint32_t last;                   /* last number, less WM_TRACE_LEGACY */
    uint32_t next_entry;             /* the one to be used next */
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
/* Forgets the stream and returns its number; 0 if it had none. */
uint32_t wm_trace_streams_forget(wm_trace_streams *streams, warm_stream stream,
                                 uint64_t thread);

#endif
