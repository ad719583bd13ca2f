/* made.c: see made.h. */
#include "tests/bench/made.h"

#include <stdlib.h>
#include <string.h>

enum {
    REQUESTS = 20000,
    BUFFERS_MAX = 6,
    LATER_MAX = 64,
    LATER_ROOM = 4096,
    PHASES = 8,
    PHASE_SLOTS = 2048, /* of small buffers */
    AT_ONCE = 8         /* threads of trotate */
};

/* What is made, of which work, and how far it is. */
typedef struct maker {
    const struct work *work;
    bench_made made; /* nothing is 0 but the seed */
    bool record;
    bench_trace *trace;
    uint64_t state;
    size_t calls;   /* allocations and frees so far */
    uint32_t *slot; /* tmixed and the like: buffer + 1, 0: empty */
} maker;

typedef struct work {
    const char *name;
    void (*make)(maker *m);
    bench_made usual;
    uint64_t seed;
    size_t least;       /* bytes: log-uniform from here */
    unsigned doublings; /* to here */
} work;

/* ---- steps ------------------------------------------------------------- */

static void add_free(maker *m, uint32_t worker, uint32_t buffer)
{
    bench_trace_add(
        m->trace,
        (bench_step){.op = WM_TRACE_FREE, .worker = worker, .buffer = buffer});
    m->calls++;
}

/* The next buffer. */
static uint32_t add_alloc(maker *m, uint32_t worker, uint64_t bytes)
{
    uint32_t buffer = m->trace->buffers;
    uint32_t stream =
        worker * m->made.streams + (uint32_t)(buffer % m->made.streams);
    bench_step step = {.op = WM_TRACE_ALLOC,
                       .worker = worker,
                       .buffer = buffer,
                       .value = bytes};

    if (m->record && m->made.device) {
        step.op = WM_TRACE_PLACED;
        step.place = WM_TRACE_DEVICE;
        step.stream = stream;
    }
    bench_trace_add(m->trace, step);
    if (m->record && !m->made.device) {
        step.op = WM_TRACE_USE;
        step.value = stream;
        bench_trace_add(m->trace, step);
    }
    m->calls++;
    return buffer;
}

static void adopt_streams(maker *m)
{
    for (uint32_t s = 0; s < m->made.threads * m->made.streams; s++) {
        bench_trace_add(m->trace, (bench_step){.op = WM_TRACE_ADOPT,
                                               .worker = s / m->made.streams,
                                               .value = s});
    }
}

/* ---- mixed, and what is like it ---------------------------------------- */

/* below: not 0. */
static uint32_t draw(maker *m, uint32_t below)
{
    below = below > 0 ? below : 1;
    return (uint32_t)(bench_random(&m->state) % below);
}

static void empty(maker *m, uint32_t worker, uint32_t *slot)
{
    if (*slot != 0) {
        add_free(m, worker, *slot - 1);
        *slot = 0;
    }
}

static uint32_t *slots_of(const maker *m, uint32_t worker)
{
    return &m->slot[(size_t)worker * m->made.slots];
}

/* A worker from first on; one of its first slots. */
static void replace(maker *m, uint32_t first, uint32_t workers, uint32_t slots,
                    size_t least, unsigned doublings)
{
    uint32_t w = first + draw(m, workers);
    uint32_t *slot = slots_of(m, w) + draw(m, slots);

    empty(m, w, slot);
    *slot = add_alloc(m, w, bench_log_uniform(&m->state, least, doublings)) + 1;
}

static void empty_all(maker *m, uint32_t worker)
{
    for (uint32_t i = 0; i < m->made.slots; i++) {
        empty(m, worker, slots_of(m, worker) + i);
    }
}

static void make_mixed(maker *m)
{
    for (uint32_t i = 0; i < m->made.buffers; i++) {
        replace(m, 0, m->made.threads, m->made.slots, m->work->least,
                m->work->doublings);
    }
}

static void make_burst(maker *m)
{
    for (uint32_t i = 0; i < m->made.buffers; i += m->made.slots) {
        uint32_t w = draw(m, m->made.threads);

        for (uint32_t k = 0; k < m->made.slots; k++) {
            slots_of(m, w)[k] =
                add_alloc(m, w,
                          bench_log_uniform(&m->state, m->work->least,
                                            m->work->doublings)) +
                1;
        }
        empty_all(m, w);
    }
}

static void make_phases(maker *m)
{
    for (uint32_t i = 0; i < m->made.buffers; i++) {
        uint32_t phase = i / (m->made.buffers / PHASES);

        if (i % (m->made.buffers / PHASES) == 0) {
            for (uint32_t w = 0; w < m->made.threads; w++) {
                empty_all(m, w);
            }
        }
        if (phase % 2 == 0) {
            replace(m, 0, m->made.threads, PHASE_SLOTS, 4096, 4);
        } else {
            replace(m, 0, m->made.threads, BENCH_SLOTS, 256 << 10, 4);
        }
    }
}

static void make_turns(maker *m, bool leave)
{
    uint32_t turns = m->made.threads / AT_ONCE;
    uint32_t length = m->made.buffers / turns / (leave ? 1 : 3);

    uint32_t end = leave ? turns * length : m->made.buffers;

    for (uint32_t i = 0; i < end; i++) {
        uint32_t first = i / length * AT_ONCE % m->made.threads;

        replace(m, first, AT_ONCE, m->made.slots, m->work->least,
                m->work->doublings);
        for (uint32_t w = first; (i + 1) % length == 0 && w < first + AT_ONCE;
             w++) {
            empty_all(m, w);
            if (leave) {
                bench_trace_add(
                    m->trace, (bench_step){.op = WM_TRACE_LEAVE, .worker = w});
            }
        }
    }
}

static void make_rotate(maker *m)
{
    make_turns(m, false);
}

static void make_leave(maker *m)
{
    make_turns(m, true);
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
    maker *maker;
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
    uint32_t buffer = add_alloc(s->maker, worker, bytes);
    bench_trace *t = s->maker->trace;

    if (bytes <= (32 << 20) && t->live - s->odd > t->peak_common) {
        t->peak_common = t->live - s->odd;
    }
    return buffer;
}

static void postpone(server *s, uint32_t buffer, uint32_t worker)
{
    uint64_t random = bench_random(&s->maker->state);

    s->later[s->waiting].buffer = buffer;
    s->later[s->waiting].worker =
        (worker + 1 + (uint32_t)(random % (BENCH_WORKERS - 1))) % BENCH_WORKERS;
    s->later[s->waiting].due = s->maker->calls + 1 + (random >> 32) % LATER_MAX;
    s->waiting++;
}

static void free_due(server *s, bool all)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->waiting; i++) {
        if (all || s->later[i].due <= s->maker->calls) {
            add_free(s->maker, s->later[i].worker, s->later[i].buffer);
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
        r->buffer[r->made++] =
            allocate(s, worker, server_size(&s->maker->state));
        return true;
    }
    if (r->freed < r->count) {
        uint32_t buffer = r->buffer[r->freed++];

        if (bench_uniform(&s->maker->state) < 0.3) {
            postpone(s, buffer, worker);
        } else {
            add_free(s->maker, worker, buffer);
        }
        return true;
    }
    return false;
}

static void start(server *s, uint32_t worker)
{
    s->request[worker] = (request){
        .count = 1 + (unsigned)(bench_random(&s->maker->state) % BUFFERS_MAX)};
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
        add_free(s->maker, odd[*next].worker, *buffer);
        s->odd = 0;
        *held = false;
        ++*next;
    }
}

static void make_server(maker *m)
{
    server *s = calloc(1, sizeof *s);
    unsigned next = 0, busy = 0;
    uint32_t single = 0;
    bool held = false;

    if (s == NULL) {
        return;
    }
    s->maker = m;
    do {
        uint32_t w = draw(m, BENCH_WORKERS);

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
}

/* ---- by name ----------------------------------------------------------- */

#define USUAL(b, t, s)                                                         \
    {                                                                          \
        .buffers = (b), .threads = (t), .slots = (s), .streams = 1             \
    }

static const work works[] = {
    {"tmixed", make_mixed, USUAL(100000, 8, 64), 20260101, 4096, 10},
    {"tsmall", make_mixed, USUAL(100000, 8, 64), 20260103, 64, 10},
    {"tlarge", make_mixed, USUAL(20000, 8, 64), 20260104, 1 << 20, 6},
    {"tserver", make_server, USUAL(REQUESTS *BUFFERS_MAX + 3, 8, 1), 20260102,
     0, 0},
    {"tburst", make_burst, USUAL(100000, 4, 1000), 20260105, 4096, 6},
    {"tphases", make_phases, USUAL(200000, 8, PHASE_SLOTS), 20260106, 0, 0},
    {"trotate", make_rotate, USUAL(200000, 64, 64), 20260107, 4096, 10},
    {"tleave", make_leave, USUAL(200000, 64, 64), 20260108, 4096, 10},
};

/* The name without, or with an s. */
static const work *work_of(const char *name, bool *record)
{
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        size_t length = strlen(works[i].name);

        if (strncmp(works[i].name, name, length) == 0 &&
            (name[length] == '\0' || strcmp(name + length, "s") == 0)) {
            *record = name[length] == 's';
            return &works[i];
        }
    }
    return NULL;
}

static bench_made merge(const bench_made *usual, const bench_made *made)
{
    bench_made m = *usual;

    if (made != NULL) {
        m.seed = made->seed;
        m.device = made->device;
        m.buffers = made->buffers != 0 ? made->buffers : m.buffers;
        m.threads = made->threads != 0 ? made->threads : m.threads;
        m.slots = made->slots != 0 ? made->slots : m.slots;
        m.streams = made->streams != 0 ? made->streams : m.streams;
    }
    return m;
}

bool bench_trace_known(const char *name)
{
    bool record;

    return work_of(name, &record) != NULL;
}

bench_trace *bench_trace_make(const char *name, const bench_made *made)
{
    maker m = {.record = false};
    size_t steps;

    m.work = work_of(name, &m.record);
    if (m.work == NULL) {
        return NULL;
    }
    m.made = merge(&m.work->usual, made);
    if (m.work->make == make_server) {
        m.made.threads = BENCH_WORKERS;
    }
    m.state = m.work->seed + m.made.seed * UINT64_C(0x9e3779b97f4a7c15);
    steps = (size_t)m.made.buffers * (m.record ? 3 : 2) +
            (size_t)m.made.threads * (m.made.streams + 1);
    m.slot = calloc((size_t)m.made.threads * m.made.slots, sizeof *m.slot);
    m.trace = bench_trace_new(steps, m.made.buffers);
    if (m.trace != NULL && m.slot != NULL) {
        if (m.record) {
            adopt_streams(&m);
        }
        m.work->make(&m);
    }
    free(m.slot);
    return m.trace;
}
