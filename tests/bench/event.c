/* event.c: events that cost a set time and are done after a set lag. */
#include "tests/bench/event.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { AGE_NS = 100000 };

/* const once the threads run */
static struct {
    uint64_t record, query, age; /* in ticks */
    uint64_t lag;
    bool aging;
    uint64_t (*clock)(void); /* null: ticks */
} price;

static _Atomic uint64_t last_id = 16;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Both clocks at one moment: again if the thread was descheduled between, and
 * the nearest where a look at the system's clock takes long. */
static uint64_t both(uint64_t *ns)
{
    uint64_t least = UINT64_MAX, nearest = 0;

    for (int i = 0; i < 100 && least >= 500; i++) {
        uint64_t before = now_ns(), t = bench_ticks(), after = now_ns();

        if (after - before < least) {
            least = after - before;
            nearest = t;
            *ns = after;
        }
    }
    return nearest;
}

/* Sleeps instead of spinning: instruction counts must not depend on it. */
double bench_ticks_per_ns(void)
{
    uint64_t ns = 0, ns_later = 0, t = both(&ns), later;

    nanosleep(&(struct timespec){0, 5000000}, NULL);
    later = both(&ns_later);
    return (double)(later - t) / (double)(ns_later - ns);
}

void bench_event_price(unsigned record_ns, unsigned query_ns, unsigned lag,
                       bool aging)
{
    double rate = bench_ticks_per_ns();

    price.record = (uint64_t)(record_ns * rate);
    price.query = (uint64_t)(query_ns * rate);
    price.age = price.clock != NULL ? AGE_NS : (uint64_t)(AGE_NS * rate);
    price.lag = lag;
    price.aging = aging;
}

void bench_event_clock(uint64_t (*clock)(void))
{
    price.clock = clock;
}

static inline uint64_t age_ticks(void)
{
    return price.clock != NULL ? price.clock() : bench_ticks();
}

static void spend(uint64_t length)
{
    uint64_t start;

    if (length > 0) {
        start = bench_ticks();
        while (bench_ticks() - start < length) {
        }
    }
}

bench_stream *bench_stream_new(void)
{
    bench_stream *stream = aligned_alloc(64, sizeof *stream);

    if (stream != NULL) {
        atomic_init(&stream->uses, 0);
        stream->device = 0;
        stream->id =
            atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed);
    }
    return stream;
}

void bench_stream_end(bench_stream *stream)
{
    free(stream);
}

bench_event *bench_event_new(void)
{
    bench_event *event = aligned_alloc(64, sizeof *event);

    if (event != NULL) {
        atomic_init(&event->stream, NULL);
        atomic_init(&event->number, 0);
        atomic_init(&event->ticks, 0);
    }
    return event;
}

void bench_event_end(bench_event *event)
{
    free(event);
}

/* ---- streams that wait --------------------------------------------------- */

/* A wait of which it is not known yet when one of both has passed. */
typedef struct wait {
    struct wait *next;
    const bench_stream *of[2]; /* that waits, and that is waited for */
    uint64_t due[2];           /* their uses at which both have passed */
    uint64_t passed[2];        /* the tick; 0: not yet */
} wait;

static struct {
    pthread_mutex_t lock;
    _Atomic bool any; /* a wait is open */
    wait *open;       /* lock */
    uint64_t waits, delayed;
    _Atomic uint64_t ticks, streams;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The stream has been used so many times, now. */
static void pass(const bench_stream *stream, uint64_t uses, uint64_t now)
{
    wait **link = &waiting.open;

    pthread_mutex_lock(&waiting.lock);
    while (*link != NULL) {
        wait *w = *link;

        for (int i = 0; i < 2; i++) {
            if (w->of[i] == stream && w->passed[i] == 0 && uses >= w->due[i]) {
                w->passed[i] = now;
            }
        }
        if (w->passed[0] == 0 || w->passed[1] == 0) {
            link = &w->next;
            continue;
        }
        *link = w->next;
        waiting.delayed +=
            w->passed[1] > w->passed[0] ? w->passed[1] - w->passed[0] : 0;
        free(w);
    }
    atomic_store_explicit(&waiting.any, waiting.open != NULL,
                          memory_order_relaxed);
    pthread_mutex_unlock(&waiting.lock);
}

static uint64_t ticks_of_uses(void)
{
    return atomic_load_explicit(&waiting.ticks, memory_order_relaxed);
}

void bench_stream_wait(bench_stream *stream, bench_event *event)
{
    bench_stream *other =
        atomic_load_explicit(&event->stream, memory_order_relaxed);
    wait *w = price.aging || other == NULL ? NULL : malloc(sizeof *w);

    spend(price.record);
    pthread_mutex_lock(&waiting.lock);
    waiting.waits++;
    if (w != NULL) {
        uint64_t number =
            atomic_load_explicit(&event->number, memory_order_relaxed);
        uint64_t uses[2] = {
            atomic_load_explicit(&stream->uses, memory_order_relaxed),
            atomic_load_explicit(&other->uses, memory_order_relaxed)};

        *w = (wait){.next = waiting.open,
                    .of = {stream, other},
                    .due = {uses[0] + price.lag, number + price.lag}};
        for (int i = 0; i < 2; i++) {
            w->passed[i] = uses[i] >= w->due[i] ? ticks_of_uses() + 1 : 0;
        }
        waiting.open = w;
        atomic_store_explicit(&waiting.any, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&waiting.lock);
}

bench_waits bench_stream_waits(void)
{
    bench_waits w;

    pthread_mutex_lock(&waiting.lock);
    w = (bench_waits){
        waiting.waits, waiting.delayed, ticks_of_uses(),
        atomic_load_explicit(&waiting.streams, memory_order_relaxed)};
    pthread_mutex_unlock(&waiting.lock);
    return w;
}

/* ---- uses and events ----------------------------------------------------- */

/* Not a read-modify-write, which would cost as much as what is measured: two
 * threads that use a stream at once may count for one. */
void bench_stream_use(bench_stream *stream)
{
    uint64_t uses = atomic_load_explicit(&stream->uses, memory_order_relaxed);

    atomic_store_explicit(&stream->uses, uses + 1, memory_order_relaxed);
    if (!price.aging) {
        uint64_t now = ticks_of_uses() + 1;

        atomic_store_explicit(&waiting.ticks, now, memory_order_relaxed);
        if (uses == 0) {
            atomic_fetch_add_explicit(&waiting.streams, 1,
                                      memory_order_relaxed);
        }
        if (atomic_load_explicit(&waiting.any, memory_order_relaxed)) {
            pass(stream, uses + 1, now);
        }
    }
}

/* Relaxed throughout: no other memory depends on these numbers, and the library
 * under test orders a record before the queries of its event. */
void bench_event_record(bench_event *event, bench_stream *stream)
{
    spend(price.record);
    atomic_store_explicit(
        &event->number,
        atomic_load_explicit(&stream->uses, memory_order_relaxed),
        memory_order_relaxed);
    if (price.aging) {
        atomic_store_explicit(&event->ticks, age_ticks(), memory_order_relaxed);
    }
    atomic_store_explicit(&event->stream, stream, memory_order_relaxed);
}

bool bench_event_done(bench_event *event)
{
    bench_stream *stream =
        atomic_load_explicit(&event->stream, memory_order_relaxed);
    uint64_t number;

    spend(price.query);
    if (stream == NULL) {
        return true;
    }
    number = atomic_load_explicit(&event->number, memory_order_relaxed);
    if (atomic_load_explicit(&stream->uses, memory_order_relaxed) - number >=
        price.lag) {
        return true;
    }
    return price.aging &&
           age_ticks() -
                   atomic_load_explicit(&event->ticks, memory_order_relaxed) >=
               price.age;
}

uint64_t bench_event_left(bench_event *event)
{
    bench_stream *stream =
        atomic_load_explicit(&event->stream, memory_order_relaxed);
    uint64_t since;

    if (stream == NULL) {
        return 0;
    }
    since = atomic_load_explicit(&stream->uses, memory_order_relaxed) -
            atomic_load_explicit(&event->number, memory_order_relaxed);
    return since < price.lag ? price.lag - since : 0;
}

bool bench_stream_idle(void)
{
    spend(price.query);
    return price.lag == 0;
}
