/* event.h: streams without work and events with a price, for what stands in
 * for CUDA here (the bench driver, the cudart that CUB gets).
 *
 * An event is done once lag later uses came to its stream, or, if aging is
 * set, 100 µs after it was recorded: so a thread that was descheduled does not
 * hold back its last ones for ever. Uses, not records: a device does not become
 * slower for whoever puts several frees under one event, nor faster for
 * whoever records more. A record and a query take as long
 * as they are told to. Any thread; objects own their cache lines.
 *
 * A stream can wait for an event. The clock of such waits counts uses: each
 * use, of whichever stream, is one tick, and a use has passed when lag later
 * uses came to its stream. If stream A waits for stream B's event, A's next use
 * could begin once A's uses so far have passed, and begins once the event has:
 * the ticks in between are work delayed. */
#ifndef BENCH_EVENT_H
#define BENCH_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct bench_stream {
    _Alignas(64) _Atomic uint64_t uses;
    uint64_t id; /* const */
    int device;  /* const once it is used */
} bench_stream;

typedef struct bench_event {
    /* Null: never recorded. Written by the recording thread before others
     * may ask (the library's own promise), read by any. */
    _Alignas(64) _Atomic(bench_stream *) stream;
    _Atomic uint64_t number; /* of uses of its stream before the record */
    _Atomic uint64_t ticks;  /* when */
} bench_event;

/* Prices from now on; called before the threads start. */
void bench_event_price(unsigned record_ns, unsigned query_ns, unsigned lag,
                       bool aging);
/* By what events grow old: nanoseconds; null, as at first: as time passes.
 * Before the prices are set. */
void bench_event_clock(uint64_t (*clock)(void));

bench_stream *bench_stream_new(void); /* null: no memory */
void bench_stream_end(bench_stream *stream);
bench_event *bench_event_new(void); /* null: no memory */
void bench_event_end(bench_event *event);
/* The stream waits for the event, which costs as much as a record. */
void bench_stream_wait(bench_stream *stream, bench_event *event);
/* Waits so far, and the ticks by which they delayed work; ticks in all, and of
 * how many streams. Nothing is delayed, as far as is known, where events grow
 * old. */
typedef struct bench_waits {
    uint64_t waits, delayed, ticks, streams;
} bench_waits;
bench_waits bench_stream_waits(void);
/* A buffer is used on the stream. */
void bench_stream_use(bench_stream *stream);
void bench_event_record(bench_event *event, bench_stream *stream);
bool bench_event_done(bench_event *event);
/* Uses of its stream until it is done. */
uint64_t bench_event_left(bench_event *event);
/* Whether a stream has nothing to do: only where events are done at once. At
 * the price of a query. */
bool bench_stream_idle(void);

/* The processor's own clock: reading the system's costs more than an
 * operation of a good allocator. */
static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t t;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#endif
}

double bench_ticks_per_ns(void);

#endif
