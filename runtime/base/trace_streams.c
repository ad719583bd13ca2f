/* trace_streams.c: see trace_streams.h. */
#include "runtime/base/trace_streams.h"

#include "runtime/base/trace.h"

/* Identifies a stream: WARM_STREAM_PER_THREAD is another stream in each thread.
 */
typedef struct key {
    warm_stream stream;
    uint64_t thread;
} key;

static key key_of(warm_stream stream, uint64_t thread)
{
    return (key){stream, stream == WARM_STREAM_PER_THREAD ? thread : 0};
}

static bool is_legacy(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY;
}

static uint16_t *head_of(wm_trace_streams *s, key k)
{
    uint64_t hash =
        ((uintptr_t)k.stream + k.thread) * UINT64_C(0x9e3779b97f4a7c15);

    return &s->head[hash >> 52]; /* the top 12 bits: 4096 */
}

_Static_assert(WM_TRACE_STREAMS == 1 << 12, "head_of() shifts for it");

/* The link that leads to the entry, or to the end of its chain. */
static uint16_t *link_to(wm_trace_streams *s, key k)
{
    uint16_t *link = head_of(s, k);

    while (*link != 0 && (s->entry[*link - 1].stream != k.stream ||
                          s->entry[*link - 1].thread != k.thread)) {
        link = &s->entry[*link - 1].next;
    }
    return link;
}

static uint32_t take_out(wm_trace_streams *s, key k)
{
    uint16_t *link = link_to(s, k);
    uint32_t number;
    uint16_t found = *link;

    if (found == 0) {
        return 0;
    }
    number = s->entry[found - 1].number;
    *link = s->entry[found - 1].next;
    s->entry[found - 1].number = 0;
    return number;
}

static uint32_t put_in(wm_trace_streams *s, key k)
{
    uint32_t i = s->next_entry;
    uint16_t *head;

    if (s->entry[i].number != 0) {
        (void)take_out(s, (key){s->entry[i].stream, s->entry[i].thread});
    }
    head = head_of(s, k);
    s->next_entry = (i + 1) % WM_TRACE_STREAMS;
    s->entry[i].stream = k.stream;
    s->entry[i].thread = k.thread;
    s->entry[i].number = WM_TRACE_LEGACY + ++s->last;
    s->entry[i].next = *head;
    *head = (uint16_t)(i + 1);
    return s->entry[i].number;
}

uint32_t wm_trace_streams_number(wm_trace_streams *streams, warm_stream stream,
                                 uint64_t thread)
{
    key k = key_of(stream, thread);
    uint16_t link;

    if (is_legacy(stream)) {
        return WM_TRACE_LEGACY;
    }
    link = *link_to(streams, k);
    return link != 0 ? streams->entry[link - 1].number : put_in(streams, k);
}

uint32_t wm_trace_streams_forget(wm_trace_streams *streams, warm_stream stream,
                                 uint64_t thread)
{
    return is_legacy(stream) ? 0 : take_out(streams, key_of(stream, thread));
}
