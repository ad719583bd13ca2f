/* trace_chunk.h: records of a trace as bytes, some of one thread; the format is
 * in trace.h. No lock: whoever has one guards it. */
#ifndef WM_TRACE_CHUNK_H
#define WM_TRACE_CHUNK_H

#include "runtime/base/trace.h"

enum {
    WM_CHUNK_HEAD = 64,       /* bytes before the records, at most */
    WM_CHUNK_ROOM = 16 << 10, /* of records */
    WM_CHUNK_RECORD = 80,     /* of one, at most */
    WM_CHUNK_SUM = 4
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

/* Perhaps no room for another record. */
static inline bool wm_trace_chunk_is_full(const wm_trace_chunk *chunk)
{
    return chunk->used > WM_CHUNK_ROOM - WM_CHUNK_RECORD;
}

/* order: above that of the last one; ns: since the trace began. */
void wm_trace_chunk_add(wm_trace_chunk *chunk, const wm_trace_record *record,
                        uint64_t order, uint64_t ns);

/* What is to be written of it, which stays until the next record; it is empty
 * then. */
const void *wm_trace_chunk_end(wm_trace_chunk *chunk, uint64_t thread,
                               size_t *bytes);

void wm_trace_varint(unsigned char **at, uint64_t value);
/* Of from up to to, where it is put. */
void wm_trace_checksum(const unsigned char *from, unsigned char *to);

#endif
