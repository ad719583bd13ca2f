/* trace.c: buffers of records; see trace.h.
 *
 * Locks: the buffer's, and inside it the trace's, which guards the file, the
 * list of buffers and the streams. */
#include "runtime/base/trace.h"

#include "runtime/base/clock.h"
#include "runtime/base/lock.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/base/trace_file.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct wm_trace_buffer {
    wm_lock lock;
    wm_trace *trace;       /* const */
    uint64_t thread;       /* lock buffer */
    bool idle;             /* lock trace: its thread has ended */
    wm_trace_buffer *next; /* const: the buffer made before this one */
    wm_trace_chunk chunk;  /* lock buffer */
};

struct wm_trace {
    /* Relaxed: read-modify-writes of one variable have a single order, which
     * agrees with the order of the calls where those are ordered. */
    _Alignas(64) _Atomic uint64_t order;
    _Atomic uint32_t blocks;
    /* Tracing has ended. Relaxed: threads read it again under the lock of their
     * buffer, which orders it. */
    _Atomic bool off;
    _Atomic int unsaid; /* relaxed: an errno not logged yet, or 0 */
    uint64_t start_ns;  /* const */
    wm_lock lock;
    wm_trace_file file;       /* lock trace */
    bool begun;               /* lock trace: the header is written */
    bool ended;               /* lock trace: nothing more is written */
    char *options;            /* lock trace: for the header; null: no memory */
    uint64_t threads;         /* lock trace: last thread number */
    uint64_t records;         /* lock trace: in the file */
    wm_trace_buffer *buffers; /* lock trace */
    uint32_t last_stream;     /* lock trace: last number of a stream */
    wm_map streams;           /* lock trace: numbers by key_of() */
    wm_trace_buffer shared;   /* thread 0 */
    char path[PATH_MAX];      /* const */
    /* lock trace: the key of stream number n, at n % WM_TRACE_STREAMS; memory
     * of the map of numbers. */
    uint64_t stream_key[WM_TRACE_STREAMS];
    wm_map_entry entries[2 * WM_TRACE_STREAMS];
};

/* ---- writing ------------------------------------------------------------ */

/* Composes why the file is incomplete. */
static void explain(const wm_trace *trace, int error, char *text, size_t bytes)
{
    char reason[96];

    snprintf(text, bytes, "the trace %.300s is incomplete: %s", trace->path,
             error == EOVERFLOW
                 ? "it has 2^32 blocks, its format allows no more"
                 : strerror_r(error, reason, sizeof reason));
}

/* Logs a failure once. Call without a lock: the log callback is user code. */
static void say(wm_trace *trace)
{
    int error = atomic_load_explicit(&trace->unsaid, memory_order_relaxed);
    char text[512];

    if (wm_unlikely(error != 0) &&
        atomic_exchange_explicit(&trace->unsaid, 0, memory_order_relaxed) !=
            0) {
        explain(trace, error, text, sizeof text);
        wm_log(WARM_LOG_WARNING,
               "%s; tracing has stopped, the program is not affected", text);
    }
}

static int put_end_locked(wm_trace *trace, int why)
{
    unsigned char end[WM_CHUNK_HEAD], *at = end;

    *at++ = 'E';
    wm_trace_varint(&at, (uint64_t)why);
    wm_trace_varint(&at, trace->records);
    wm_trace_checksum(end, at);
    trace->ended = true;
    return wm_trace_file_write(&trace->file, end,
                               (size_t)(at - end) + WM_CHUNK_SUM);
}

/* The end record is a few bytes, which may fit where a chunk did not; on a full
 * disk the file has no end. */
static void fail_locked(wm_trace *trace, int error)
{
    atomic_store_explicit(&trace->off, true, memory_order_relaxed);
    atomic_store_explicit(&trace->unsaid, error, memory_order_relaxed);
    (void)put_end_locked(trace, WM_TRACE_FAILED + error);
}

static void begin_locked(wm_trace *trace);

static void write_locked(wm_trace *trace, const void *data, size_t bytes,
                         uint64_t records)
{
    int error;

    begin_locked(trace);
    if (!trace->ended) {
        error = wm_trace_file_write(&trace->file, data, bytes);
        trace->records += error == 0 ? records : 0;
        if (error != 0) {
            fail_locked(trace, error);
        }
    }
}

static void flush_locked(wm_trace_buffer *b)
{
    unsigned records = b->chunk.records;
    const void *data;
    size_t bytes;

    if (records == 0) {
        return;
    }
    data = wm_trace_chunk_end(&b->chunk, b->thread, &bytes);
    wm_lock_acquire(&b->trace->lock);
    write_locked(b->trace, data, bytes, records);
    wm_lock_release(&b->trace->lock);
}

static void flush(wm_trace_buffer *b)
{
    wm_lock_acquire(&b->lock);
    flush_locked(b);
    wm_lock_release(&b->lock);
}

/* ---- records ------------------------------------------------------------ */

static void add_locked(wm_trace_buffer *b, const wm_trace_record *record)
{
    wm_trace *trace = b->trace;
    uint64_t now = wm_clock_ns() - trace->start_ns;
    uint64_t order =
        atomic_fetch_add_explicit(&trace->order, 1, memory_order_relaxed);

    if (wm_trace_chunk_is_full(&b->chunk)) {
        flush_locked(b);
    }
    wm_trace_chunk_add(&b->chunk, record, order, now);
}

void wm_trace_put(wm_trace_buffer *buffer, const wm_trace_record *record)
{
    wm_trace *trace = buffer->trace;

    if (record->block == 0 &&
        (wm_trace_fields(record->op) & WM_TRACE_HAS_BLOCK) != 0) {
        return;
    }
    wm_lock_acquire(&buffer->lock);
    if (!atomic_load_explicit(&trace->off, memory_order_relaxed)) {
        add_locked(buffer, record);
    }
    wm_lock_release(&buffer->lock);
    say(trace);
}

/* Block numbers have 32 bits: a trace with more blocks ends there. */
static void out_of_numbers(wm_trace *trace)
{
    wm_lock_acquire(&trace->lock);
    if (!trace->ended) {
        fail_locked(trace, EOVERFLOW);
    }
    wm_lock_release(&trace->lock);
    say(trace);
}

uint32_t wm_trace_alloc(wm_trace_buffer *buffer, wm_trace_record record)
{
    wm_trace *trace = buffer->trace;
    uint32_t block;

    if (atomic_load_explicit(&trace->off, memory_order_relaxed)) {
        return 0;
    }
    block = atomic_fetch_add_explicit(&trace->blocks, 1, memory_order_relaxed);
    if (block == UINT32_MAX) {
        out_of_numbers(trace);
        return 0;
    }
    record.block = block + 1;
    wm_trace_put(buffer, &record);
    return block + 1;
}

/* ---- streams ------------------------------------------------------------ */

static bool is_legacy(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY;
}

/* WARM_STREAM_PER_THREAD is another stream in each thread; streams have even
 * addresses. */
static uint64_t key_of(const wm_trace_buffer *buffer, warm_stream stream)
{
    return stream == WARM_STREAM_PER_THREAD ? buffer->thread << 1 | 1
                                            : (uintptr_t)stream;
}

static uint32_t add_stream_locked(wm_trace *trace, uint64_t key)
{
    uint32_t number = ++trace->last_stream;
    uint64_t *oldest = &trace->stream_key[number % WM_TRACE_STREAMS];

    /* Forgets the key of this slot, unless that was forgotten before or has a
     * newer number. */
    if ((uintptr_t)wm_map_get(&trace->streams, *oldest) ==
        number - WM_TRACE_STREAMS) {
        (void)wm_map_take(&trace->streams, *oldest);
    }
    *oldest = key;
    wm_map_put(&trace->streams, key, (void *)(uintptr_t)number);
    return number;
}

uint32_t wm_trace_stream(wm_trace_buffer *buffer, warm_stream stream)
{
    wm_trace *trace = buffer->trace;
    uint64_t key = key_of(buffer, stream);
    uint32_t number;

    if (is_legacy(stream)) {
        return WM_TRACE_LEGACY;
    }
    wm_lock_acquire(&trace->lock);
    number = (uint32_t)(uintptr_t)wm_map_get(&trace->streams, key);
    if (number == 0) {
        number = add_stream_locked(trace, key);
    }
    wm_lock_release(&trace->lock);
    return number;
}

uint32_t wm_trace_forget(wm_trace_buffer *buffer, warm_stream stream)
{
    wm_trace *trace = buffer->trace;
    void *number;

    if (is_legacy(stream)) {
        return 0;
    }
    wm_lock_acquire(&trace->lock);
    number = wm_map_take(&trace->streams, key_of(buffer, stream));
    wm_lock_release(&trace->lock);
    return (uint32_t)(uintptr_t)number;
}

/* ---- threads ------------------------------------------------------------ */

static void init_buffer(wm_trace_buffer *b, wm_trace *trace, uint64_t thread)
{
    wm_lock_init(&b->lock, WM_RANK_TRACING);
    b->trace = trace;
    b->thread = thread;
}

/* A buffer whose thread has ended, or null. */
static wm_trace_buffer *take_idle_locked(wm_trace *trace)
{
    wm_trace_buffer *b = trace->buffers;

    while (b != NULL && !b->idle) {
        b = b->next;
    }
    if (b != NULL) {
        b->idle = false;
        b->thread = ++trace->threads;
    }
    return b;
}

wm_trace_buffer *wm_trace_enter(wm_trace *trace)
{
    wm_trace_buffer *b;

    wm_lock_acquire(&trace->lock);
    b = take_idle_locked(trace);
    wm_lock_release(&trace->lock);
    if (b != NULL) {
        return b;
    }
    b = wm_meta_alloc(sizeof *b);
    if (b == NULL) {
        return &trace->shared;
    }
    wm_lock_acquire(&trace->lock);
    init_buffer(b, trace, ++trace->threads);
    b->next = trace->buffers;
    trace->buffers = b;
    wm_lock_release(&trace->lock);
    return b;
}

wm_trace_buffer *wm_trace_shared(wm_trace *trace)
{
    return &trace->shared;
}

void wm_trace_leave(wm_trace_buffer *buffer)
{
    wm_trace *trace = buffer->trace;

    if (buffer == &trace->shared) {
        return;
    }
    wm_trace_put(buffer, &(wm_trace_record){.op = WM_TRACE_LEAVE});
    flush(buffer);
    wm_lock_acquire(&trace->lock);
    buffer->idle = true;
    wm_lock_release(&trace->lock);
    say(trace);
}

/* ---- begin and end ------------------------------------------------------ */

/* Truncates the file and writes the header. */
static void begin_locked(wm_trace *trace)
{
    size_t bytes = trace->options != NULL ? strlen(trace->options) : 0;
    unsigned char head[WM_CHUNK_HEAD], *at;
    int error;

    if (trace->begun || trace->ended) {
        return;
    }
    trace->begun = true;
    error = wm_trace_file_empty(&trace->file);
    if (error != 0) { /* an untruncated file gets no end either */
        trace->ended = true;
        atomic_store_explicit(&trace->off, true, memory_order_relaxed);
        atomic_store_explicit(&trace->unsaid, error, memory_order_relaxed);
        return;
    }
    at = wm_trace_file_head(head);
    wm_trace_varint(&at, bytes);
    write_locked(trace, head, (size_t)(at - head), 0);
    if (bytes > 0) {
        write_locked(trace, trace->options, bytes, 0);
    }
}

void wm_trace_begin(wm_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    wm_lock_acquire(&trace->lock);
    begin_locked(trace);
    wm_meta_free(trace->options);
    trace->options = NULL;
    wm_lock_release(&trace->lock);
    say(trace);
}

warm_status wm_trace_open(const wm_options *options, wm_trace **trace)
{
    wm_text text = {NULL, 0, 0};
    wm_trace *made;
    warm_status status;

    *trace = NULL;
    if (options->trace[0] == '\0') {
        return WARM_OK;
    }
    made = wm_meta_alloc(sizeof *made);
    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a trace");
    }
    status = wm_trace_file_open(&made->file, options->trace, options->number,
                                made->path);
    if (status != WARM_OK) {
        wm_meta_free(made);
        return status;
    }
    wm_lock_init(&made->lock, WM_RANK_TRACE);
    init_buffer(&made->shared, made, 0);
    made->start_ns = wm_clock_ns();
    made->last_stream = WM_TRACE_LEGACY;
    (void)wm_map_move(&made->streams, made->entries, WM_TRACE_STREAMS);
    wm_options_put(options, &text);
    made->options = wm_meta_alloc(text.used + 1);
    if (made->options != NULL) {
        text = (wm_text){made->options, text.used + 1, 0};
        wm_options_put(options, &text);
    }
    *trace = made;
    return WARM_OK;
}

void wm_trace_forked(wm_trace *trace)
{
    wm_trace_file_forked(&trace->file);
}

static void write_end(wm_trace *trace, enum wm_trace_why why)
{
    int error;

    wm_lock_acquire(&trace->lock);
    if (!trace->ended) {
        error = put_end_locked(trace, (int)why);
        atomic_store_explicit(&trace->unsaid, error, memory_order_relaxed);
    }
    wm_lock_release(&trace->lock);
}

/* Ends tracing: writes all buffers and the end. */
static void finish(wm_trace *trace, enum wm_trace_why why)
{
    wm_trace_buffer *b;

    atomic_store_explicit(&trace->off, true, memory_order_relaxed);
    wm_lock_acquire(&trace->lock);
    b = trace->buffers; /* buffers made later stay empty: off is set */
    wm_lock_release(&trace->lock);
    for (; b != NULL; b = b->next) {
        flush(b);
    }
    flush(&trace->shared);
    write_end(trace, why);
}

bool wm_trace_exit(wm_trace *trace, char *text, size_t bytes)
{
    int error;

    finish(trace, WM_TRACE_EXITED);
    /* A failure that was logged before is not reported again. */
    error = atomic_exchange_explicit(&trace->unsaid, 0, memory_order_relaxed);
    if (error != 0) {
        explain(trace, error, text, bytes);
    }
    return error == 0;
}

void wm_trace_close(wm_trace *trace)
{
    int error;

    if (trace == NULL) {
        return;
    }
    wm_lock_acquire(&trace->lock);
    /* If the trace was never begun, the file stays as it was. */
    trace->ended = trace->ended || !trace->begun;
    wm_lock_release(&trace->lock);
    finish(trace, WM_TRACE_DESTROYED);
    error = wm_trace_file_close(&trace->file);
    if (error != 0) {
        atomic_store_explicit(&trace->unsaid, error, memory_order_relaxed);
    }
    say(trace);
    while (trace->buffers != NULL) {
        wm_trace_buffer *b = trace->buffers;

        trace->buffers = b->next;
        wm_meta_free(b);
    }
    wm_meta_free(trace->options);
    wm_meta_free(trace);
}
