/* made.c: makes the two traces. */
#include "tests/bench/made.h"

#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>

enum {
    MIXED_BUFFERS = 100000,
    REQUESTS = 20000,
    BUFFERS_MAX = 6,
    LATER_MAX = 64,
    LATER_ROOM = 4096
};

static const uint64_t mixed_seed = 20260101, server_seed = 20260102;

/* ---- steps ------------------------------------------------------------- */

static void add_free(bench_trace *t, uint32_t worker, uint32_t buffer)
{
    bench_trace_add(
        t,
        (bench_step){.op = WM_TRACE_FREE, .worker = worker, .buffer = buffer});
}

/* The next buffer. */
static uint32_t add_alloc(bench_trace *t, uint32_t worker, uint64_t bytes)
{
    uint32_t buffer = t->buffers;

    bench_trace_add(t, (bench_step){.op = WM_TRACE_ALLOC,
                                    .worker = worker,
                                    .buffer = buffer,
                                    .value = bytes});
    return buffer;
}

/* ---- streams ----------------------------------------------------------- */

static void add_all(bench_trace *to, const bench_trace *from)
{
    for (uint32_t w = 0; w < BENCH_WORKERS; w++) {
        bench_trace_add(
            to, (bench_step){.op = WM_TRACE_ADOPT, .worker = w, .value = w});
    }
    for (size_t i = 0; i < from->steps; i++) {
        bench_step step = from->step[i];

        bench_trace_add(to, step);
        if (step.op == WM_TRACE_ALLOC) {
            step.op = WM_TRACE_USE;
            step.value = step.worker;
            bench_trace_add(to, step);
        }
    }
}

/* The same with the workers' streams in it; plain is taken. */
static bench_trace *with_streams(bench_trace *plain)
{
    bench_trace *t = NULL;

    if (plain != NULL) {
        t = bench_trace_new(plain->steps + plain->buffers + BENCH_WORKERS,
                            plain->buffers);
    }
    if (t != NULL) {
        add_all(t, plain);
        t->peak_common = plain->peak_common;
    }
    bench_trace_end(plain);
    return t;
}

/* ---- mixed ------------------------------------------------------------- */

static bench_trace *make_mixed(void)
{
    bench_trace *t = bench_trace_new(2 * MIXED_BUFFERS, MIXED_BUFFERS);
    uint32_t slot[BENCH_WORKERS][BENCH_SLOTS] = {{0}}; /* buffer + 1 */
    uint64_t state = mixed_seed;

    for (uint32_t i = 0; t != NULL && i < MIXED_BUFFERS; i++) {
        uint32_t w = (uint32_t)(bench_random(&state) % BENCH_WORKERS);
        uint32_t k = (uint32_t)(bench_random(&state) % BENCH_SLOTS);

        if (slot[w][k] != 0) {
            add_free(t, w, slot[w][k] - 1);
        }
        slot[w][k] = add_alloc(t, w, bench_log_uniform(&state)) + 1;
    }
    return t;
}

/* ---- server: sizes ----------------------------------------------------- */

/* e^x by its series, after halving x until it is small. */
static double exponential(double x)
{
    double sum = 1, term = 1;

    x /= 1024;
    for (int i = 1; i < 8; i++) {
        term *= x / i;
        sum += term;
    }
    for (int i = 0; i < 10; i++) {
        sum *= sum;
    }
    return sum;
}

/* ln(y), by Newton on the above. */
static double logarithm(double y)
{
    double x = 0;

    for (int i = 0; i < 60; i++) {
        double e = exponential(x);

        x += 2 * (y - e) / (y + e);
    }
    return x;
}

/* Twelve uniform numbers, less six: a normal one, near enough, but cut at six
 * sigma. */
static double normal(uint64_t *state)
{
    double sum = -6;

    for (int i = 0; i < 12; i++) {
        sum += bench_uniform(state);
    }
    return sum;
}

static uint64_t server_size(uint64_t *state)
{
    double bytes;

    if (bench_uniform(state) < 0.02) {
        double u = 1 - bench_uniform(state);

        bytes = (1 << 20) * exponential(-logarithm(u) / 1.1);
        bytes = bytes < (32 << 20) ? bytes : (32 << 20);
    } else {
        bytes = (150 << 10) * exponential(0.9 * normal(state));
    }
    return bytes < 1 ? 1 : (uint64_t)bytes;
}

/* ---- server: requests -------------------------------------------------- */

typedef struct request {
    uint32_t buffer[BUFFERS_MAX];
    unsigned count, made, freed; /* buffers wanted, made, passed at the end */
} request;

typedef struct server {
    bench_trace *trace;
    uint64_t state;
    request request[BENCH_WORKERS];
    unsigned started;
    struct {
        uint32_t buffer, worker;
        size_t due; /* step */
    } later[LATER_ROOM];
    size_t waiting;
    uint64_t odd; /* bytes of the singles that live */
} server;

static uint32_t allocate(server *s, uint32_t worker, uint64_t bytes)
{
    uint32_t buffer = add_alloc(s->trace, worker, bytes);
    uint64_t common;

    common = s->trace->live - s->odd;
    if (bytes <= (32 << 20) && common > s->trace->peak_common) {
        s->trace->peak_common = common;
    }
    return buffer;
}

static void postpone(server *s, uint32_t buffer, uint32_t worker)
{
    uint64_t random = bench_random(&s->state);

    s->later[s->waiting].buffer = buffer;
    s->later[s->waiting].worker =
        (worker + 1 + (uint32_t)(random % (BENCH_WORKERS - 1))) % BENCH_WORKERS;
    s->later[s->waiting].due = s->trace->steps + 1 + (random >> 32) % LATER_MAX;
    s->waiting++;
}

static void free_due(server *s, bool all)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->waiting; i++) {
        if (all || s->later[i].due <= s->trace->steps) {
            add_free(s->trace, s->later[i].worker, s->later[i].buffer);
        } else {
            s->later[kept++] = s->later[i];
        }
    }
    s->waiting = kept;
}

/* One step of a worker's request; true while there is more to do. */
static bool go_on(server *s, uint32_t worker)
{
    request *r = &s->request[worker];

    if (r->made < r->count) {
        r->buffer[r->made++] = allocate(s, worker, server_size(&s->state));
        return true;
    }
    if (r->freed < r->count) {
        uint32_t buffer = r->buffer[r->freed++];

        if (bench_uniform(&s->state) < 0.3) {
            postpone(s, buffer, worker);
        } else {
            add_free(s->trace, worker, buffer);
        }
        return true;
    }
    return false;
}

static void start(server *s, uint32_t worker)
{
    s->request[worker] = (request){
        .count = 1 + (unsigned)(bench_random(&s->state) % BUFFERS_MAX)};
    s->started++;
}

/* The singles: 20.4, 11.3 and 17.9 GiB / 64, and a byte. */
static const struct {
    uint32_t at, worker;
    uint64_t bytes;
} odd[] = {{REQUESTS / 10, 0, 342255206 + 1},
           {REQUESTS / 5 * 2, 3, 189582540 + 1},
           {REQUESTS / 10 * 7, 6, 300311347 + 1}};

static void singles(server *s, uint32_t *buffer, unsigned *next, bool *held)
{
    if (*next == sizeof odd / sizeof *odd) {
        return;
    }
    if (!*held && s->started >= odd[*next].at) {
        s->odd = odd[*next].bytes;
        *buffer = allocate(s, odd[*next].worker, s->odd);
        *held = true;
    } else if (*held && s->started >= odd[*next].at + REQUESTS / 20) {
        add_free(s->trace, odd[*next].worker, *buffer);
        s->odd = 0;
        *held = false;
        ++*next;
    }
}

static bench_trace *make_server(void)
{
    server *s = calloc(1, sizeof *s);
    bench_trace *t = bench_trace_new((size_t)REQUESTS * BUFFERS_MAX * 2 + 8,
                                     (size_t)REQUESTS * BUFFERS_MAX + 4);
    unsigned next = 0, busy = 0;
    uint32_t single = 0;
    bool held = false;

    if (s == NULL || t == NULL) {
        bench_trace_end(t);
        free(s);
        return NULL;
    }
    s->trace = t;
    s->state = server_seed;
    do {
        uint32_t w = (uint32_t)(bench_random(&s->state) % BENCH_WORKERS);

        free_due(s, false);
        singles(s, &single, &next, &held);
        if (!go_on(s, w) && s->started < REQUESTS) {
            start(s, w);
        }
        busy = 0;
        for (unsigned i = 0; i < BENCH_WORKERS; i++) {
            busy += s->request[i].freed < s->request[i].count;
        }
    } while (s->started < REQUESTS || busy > 0);
    free_due(s, true);
    free(s);
    return t;
}

bench_trace *bench_trace_make(const char *name, bool streams)
{
    bench_trace *t = strcmp(name, "tmixed") == 0    ? make_mixed()
                     : strcmp(name, "tserver") == 0 ? make_server()
                                                    : NULL;

    return streams ? with_streams(t) : t;
}

bench_trace *bench_trace_of(const char *work)
{
    size_t length = strlen(work);
    bool streams = length > 0 && work[length - 1] == 's';
    char name[16] = "";

    strncpy(name, work, sizeof name - 1);
    name[(length < sizeof name ? length : sizeof name - 1) - streams] = '\0';
    return bench_trace_make(name, streams);
}
