/* trace_chunk.c: see trace_chunk.h. */
#include "runtime/base/trace_chunk.h"

#include <string.h>

void wm_trace_varint(unsigned char **at, uint64_t value)
{
    while (value >= 128) {
        *(*at)++ = (unsigned char)(value | 128);
        value >>= 7;
    }
    *(*at)++ = (unsigned char)value;
}

void wm_trace_checksum(const unsigned char *from, unsigned char *to)
{
    uint32_t sum = 2166136261u;

    for (const unsigned char *c = from; c < to; c++) {
        sum = (sum ^ *c) * 16777619u;
    }
    for (int i = 0; i < WM_CHUNK_SUM; i++) {
        to[i] = (unsigned char)(sum >> (8 * i));
    }
}

static uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

/* Sets the base of the differences that the first record stores. */
static void start(wm_trace_chunk *c, uint64_t order, uint64_t ns)
{
    c->first_order = order;
    c->first_ns = ns;
    c->last_order = order - 1;
    c->last_ns = ns;
    c->last_block = 0;
}

/* Appends the fields that the record's op has. */
static void put_fields(wm_trace_chunk *c, unsigned char **at,
                       const wm_trace_record *r)
{
    unsigned has = wm_trace_fields(r->op);

    if ((has & WM_TRACE_HAS_BLOCK) != 0) {
        wm_trace_varint(at, zigzag((int64_t)r->block - (int64_t)c->last_block));
        c->last_block = r->block;
    }
    if ((has & WM_TRACE_HAS_BYTES) != 0) {
        wm_trace_varint(at, r->bytes);
    }
    if ((has & WM_TRACE_HAS_STREAM) != 0) {
        wm_trace_varint(at, r->stream);
    }
    if ((has & WM_TRACE_HAS_PLACE) != 0) {
        wm_trace_varint(at, r->place);
    }
    if ((has & WM_TRACE_HAS_POOL) != 0) {
        wm_trace_varint(at, r->pool);
    }
}

void wm_trace_chunk_add(wm_trace_chunk *c, const wm_trace_record *record,
                        uint64_t order, uint64_t ns)
{
    unsigned char *at = c->bytes + WM_CHUNK_HEAD + c->used;
    uint64_t gap;

    if (c->records == 0) {
        start(c, order, ns);
    }
    ns = ns > c->last_ns ? ns : c->last_ns; /* a test's clock may run back */
    gap = order - c->last_order - 1;
    *at++ = (unsigned char)((unsigned)record->op +
                            16 * (gap < WM_TRACE_GAP ? gap : WM_TRACE_GAP));
    if (gap >= WM_TRACE_GAP) {
        wm_trace_varint(&at, gap - WM_TRACE_GAP);
    }
    wm_trace_varint(&at, ns - c->last_ns);
    put_fields(c, &at, record);
    c->last_order = order;
    c->last_ns = ns;
    c->used = (size_t)(at - c->bytes) - WM_CHUNK_HEAD;
    c->records++;
}

/* The head is written directly before the records, so that both are one write.
 */
const void *wm_trace_chunk_end(wm_trace_chunk *c, uint64_t thread,
                               size_t *bytes)
{
    unsigned char head[WM_CHUNK_HEAD], *at = head, *from;
    size_t length;

    *at++ = 'C';
    wm_trace_varint(&at, thread);
    wm_trace_varint(&at, c->first_order);
    wm_trace_varint(&at, c->first_ns);
    wm_trace_varint(&at, c->records);
    wm_trace_varint(&at, c->used);
    length = (size_t)(at - head);
    from = c->bytes + WM_CHUNK_HEAD - length;
    memcpy(from, head, length);
    length += c->used;
    wm_trace_checksum(from, from + length);
    *bytes = length + WM_CHUNK_SUM;
    c->records = 0;
    c->used = 0;
    return from;
}
