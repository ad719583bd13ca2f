/* trace_chunk.h: encodes trace records of one thread into a chunk; trace.h has
 * the format. Takes no lock: the caller guards its chunk. */
#ifndef WM_TRACE_CHUNK_H
#define WM_TRACE_CHUNK_H

#include "runtime/base/trace.h"

enum {
    WM_CHUNK_HEAD = 64,       /* most bytes of a head */
    WM_CHUNK_ROOM = 16 << 10, /* bytes for records */
    WM_CHUNK_RECORD = 80,     /* most bytes of one record */
    WM_CHUNK_SUM = 4          /* bytes of a checksum */
};

/* All zeros: empty. */
typedef struct wm_trace_chunk {
    uint64_t first_order, first_ns;
    uint64_t last_order, last_ns;
    uint32_t last_block;
    unsigned records;
    size_t used;
    unsigned char bytes[WM_CHUNK_HEAD + WM_CHUNK_ROOM + WM_CHUNK_SUM];
} wm_trace_chunk;

/* Whether another record might not fit. */
static inline bool wm_trace_chunk_is_full(const wm_trace_chunk *chunk)
{
    return chunk->used > WM_CHUNK_ROOM - WM_CHUNK_RECORD;
}

/* Appends a record. order: larger than the last record's; ns: since the trace
 * began. */
void wm_trace_chunk_add(wm_trace_chunk *chunk, const wm_trace_record *record,
                        uint64_t order, uint64_t ns);

/* Completes the chunk with head and checksum and returns its bytes, which stay
 * valid until the next record is added. The chunk is empty afterwards. */
const void *wm_trace_chunk_end(wm_trace_chunk *chunk, uint64_t thread,
                               size_t *bytes);

void wm_trace_varint(unsigned char **at, uint64_t value);
/* Writes the checksum of [from, to) at to. */
void wm_trace_checksum(const unsigned char *from, unsigned char *to);

#endif
