/* sim.c: see sim.h.
 *
 *   a thread's cache ──► depot (small blocks, unmerged) ──► arena ──► growth
 *
 * A cache is by class, newest first. Not simulated: waiting for locks, batches
 * of events, caches of a device's streams, decay.
 *
 * Prices in ns, measured once: a hit with its free 10, a lock and a block in or
 * out of an arena 100 each, a split or merge 50, a block through the depot 60,
 * a round of visits 26,000 and 125 a block, 4 MiB obtained or returned 20,000.
 * The default rule is the best of 620 settings on other seeds than the bench
 * uses: keep is the only dial that matters, and the others are flat. */
#include "tests/bench/sim.h"

#include "tests/bench/sim_arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cache {
    uint32_t top[SIM_CLASSES], end[SIM_CLASSES], count[SIM_CLASSES], oldest,
        newest;
    uint64_t bytes, used_at;
    double freed, was; /* bytes, in this period and those before */
} cache;

typedef struct pending {
    uint32_t block, next;
    uint64_t done; /* uses of the stream */
} pending;

typedef struct queue {
    uint64_t uses;
    uint32_t head, tail;
} queue;

static struct {
    const bench_sim_rule *rule;
    cache *cache, *depot;
    unsigned threads, active;
    double weight;
    uint64_t period_at, needed, peak, cached;
} sim;

static struct counts {
    uint64_t ops, hits, locks, quick, visits, taken;
    uint64_t moves, splits, segments; /* the arena's */
} n;

/* ---- caches -------------------------------------------------------------- */

static void cache_in(cache *c, uint32_t i)
{
    sim_block *b = sim_at(i);
    int k = b->class;

    b->state = SIM_CACHED;
    b->prev = b->newer = 0;
    b->next = c->top[k];
    b->older = c->newest;
    *(b->next != 0 ? &sim_at(b->next)->prev : &c->end[k]) = i;
    *(b->older != 0 ? &sim_at(b->older)->newer : &c->oldest) = i;
    c->top[k] = c->newest = i;
    c->count[k]++;
    c->bytes += b->bytes;
    sim.cached += c != sim.depot ? b->bytes : 0;
}

static uint32_t cache_out(cache *c, uint32_t i)
{
    sim_block *b = sim_at(i);
    int k = b->class;

    *(b->prev != 0 ? &sim_at(b->prev)->next : &c->top[k]) = b->next;
    *(b->next != 0 ? &sim_at(b->next)->prev : &c->end[k]) = b->prev;
    *(b->newer != 0 ? &sim_at(b->newer)->older : &c->newest) = b->older;
    *(b->older != 0 ? &sim_at(b->older)->newer : &c->oldest) = b->newer;
    c->count[k]--;
    c->bytes -= b->bytes;
    sim.cached -= c != sim.depot ? b->bytes : 0;
    b->state = SIM_LIVE;
    return i;
}

/* The smallest that is large enough, and not too large. */
static uint32_t cache_find(const cache *c, uint64_t bytes, double ratio)
{
    int first = sim_class_of(bytes);

    for (int k = first; k < sim_arena.classes; k++) {
        if (k > first &&
            (double)sim_arena.class_bytes[k] > ratio * (double)bytes) {
            return 0;
        }
        if (c->top[k] != 0) {
            return c->top[k];
        }
    }
    return 0;
}

static double part_of(const cache *c)
{
    double budget = sim.rule->keep * (double)sim.peak + sim.rule->keep_floor;
    double used =
        sim.weight > 0 ? (c->was + c->freed) / sim.weight : 1.0 / sim.threads;

    return budget * (0.25 / (sim.active > 0 ? sim.active : 1) + 0.75 * used);
}

static void to_depot(uint32_t i)
{
    cache_in(sim.depot, i);
    n.quick++;
    while ((double)sim.depot->bytes > sim.rule->depot * (double)sim.peak) {
        sim_put(cache_out(sim.depot, sim.depot->oldest));
    }
}

static bool is_for_depot(uint32_t i)
{
    return sim.rule->depot > 0 &&
           (double)sim_at(i)->bytes <= sim.rule->depot_most;
}

static void drop(cache *c, uint32_t i)
{
    (void)cache_out(c, i);
    if (is_for_depot(i)) {
        to_depot(i);
    } else {
        sim_put(i);
    }
}

/* Of the doubling with the most bytes, the oldest of its largest class. */
static uint32_t victim(const cache *c)
{
    int steps = (int)sim.rule->steps, of = 0;
    uint64_t most = 0;

    for (int low = 0; low < sim_arena.classes; low += steps) {
        uint64_t bytes = 0;
        int last = -1;

        for (int k = low; k < low + steps && k < sim_arena.classes; k++) {
            bytes += c->count[k] * sim_arena.class_bytes[k];
            last = c->count[k] > 0 ? k : last;
        }
        if (last >= 0 && bytes >= most) {
            most = bytes;
            of = last;
        }
    }
    return c->end[of];
}

/* Until so many bytes are left, under one lock. */
static void shed(cache *c, double until)
{
    n.locks += (double)c->bytes > until;
    while ((double)c->bytes > until && c->oldest != 0) {
        drop(c, victim(c));
        n.taken++;
    }
}

/* A freed block that nobody uses any more. */
static void put(unsigned thread, uint32_t i)
{
    cache *c = &sim.cache[thread];

    sim.needed -= sim_at(i)->asked;
    c->freed += (double)sim_at(i)->bytes;
    if (sim_at(i)->class >= sim_arena.classes ||
        (double)sim_at(i)->bytes * sim.rule->big > part_of(c)) {
        if (sim_at(i)->class < sim_arena.classes && is_for_depot(i)) {
            to_depot(i);
        } else {
            n.locks++;
            sim_put(i);
        }
        return;
    }
    cache_in(c, i);
    if ((double)c->bytes > part_of(c)) {
        uint64_t taken = n.taken;

        shed(c, part_of(c) * 7 / 8);
        n.taken = taken;
    }
}

/* Who was active, and how much; the caches of the others are taken. */
static void end_period(void)
{
    uint64_t idle = (uint64_t)sim.rule->idle;

    sim.period_at = n.ops + idle;
    sim.weight = 0;
    sim.active = 0;
    for (unsigned t = 0; t < sim.threads; t++) {
        cache *c = &sim.cache[t];

        c->was = c->was / 2 + c->freed;
        c->freed = 0;
        sim.weight += c->was;
        if (c->used_at + idle > n.ops) {
            sim.active++;
        } else if (c->bytes > 0) {
            n.visits++;
            shed(c, 0);
        }
    }
}

/* ---- a request ----------------------------------------------------------- */

static bool merge_depot(double part)
{
    double left = (1 - part) * (double)sim.depot->bytes;
    bool any = sim.depot->bytes > 0;

    while (sim.depot->oldest != 0 && (double)sim.depot->bytes > left) {
        sim_put(cache_out(sim.depot, sim.depot->oldest));
    }
    n.locks += any;
    return any;
}

static void visit_all(double part)
{
    n.visits += sim.cached > 0;
    for (unsigned t = 0; t < sim.threads; t++) {
        shed(&sim.cache[t], (1 - part) * (double)sim.cache[t].bytes);
    }
    (void)merge_depot(1);
}

/* The smallest larger block of the own cache. */
static uint32_t cut_own(cache *c, uint64_t bytes)
{
    int k = sim_class_of(bytes);

    if (bytes < SIM_SLABS) {
        k = sim_class_of(sim_slab_bytes(k));
    }
    while (k < sim_arena.classes && c->top[k] == 0) {
        k++;
    }
    if (k >= sim_arena.classes) {
        return 0;
    }
    n.locks++;
    sim_put(cache_out(c, c->end[k]));
    return sim_take(bytes, false);
}

static bool is_above(uint64_t bytes)
{
    double bound = (double)sim.peak * (1 + sim.rule->slack) + sim.rule->floor;

    uint64_t more = bytes > SIM_SEGMENT ? sim_pages(bytes) : SIM_SEGMENT;

    return (double)(sim_arena.held + more) > bound;
}

/* Above the bound: everything idle, before anything grows. */
static uint32_t take_idle(cache *c, uint64_t bytes)
{
    const double parts[] = {sim.rule->take, 1};
    uint32_t i = cut_own(c, bytes);

    for (int k = 0; k < 2 && i == 0 && is_above(bytes); k++) {
        if (sim.cached > 0) {
            visit_all(parts[k]);
        }
        i = sim_take(bytes, true);
    }
    return i;
}

static uint32_t get_slow(cache *c, uint64_t bytes)
{
    uint32_t i;

    n.locks++;
    i = sim_take(bytes, false);
    for (int k = 0; i == 0 && merge_depot(k == 0 ? sim.rule->merge : 1); k++) {
        i = sim_take(bytes, false);
    }
    if (i == 0 && is_above(bytes)) {
        i = take_idle(c, bytes);
    }
    if (i == 0) {
        if (is_above(bytes)) {
            sim_return_idle(bytes > SIM_SEGMENT ? bytes : SIM_SEGMENT);
        }
        sim_grow(bytes < SIM_SLABS ? sim_slab_bytes(sim_class_of(bytes))
                                   : bytes,
                 is_above(sim_arena.held / 64));
        i = sim_take(bytes, true);
    }
    return i;
}

static uint32_t get(unsigned thread, uint64_t bytes)
{
    cache *c = &sim.cache[thread];
    uint32_t i;

    n.ops++;
    c->used_at = n.ops;
    if (n.ops >= sim.period_at) {
        end_period();
    }
    i = cache_find(c, bytes, sim.rule->ratio);
    if (i != 0) {
        n.hits++;
        return cache_out(c, i);
    }
    i = cache_find(sim.depot, bytes, sim.rule->ratio);
    if (i != 0) {
        n.quick++;
        return cache_out(sim.depot, i);
    }
    return get_slow(c, bytes);
}

/* ---- a trace ------------------------------------------------------------- */

typedef struct play {
    const bench_trace *trace;
    unsigned lag;
    uint32_t *block, *stream; /* [buffer]; stream 0: nothing was recorded */
    pending *pending;         /* [buffer + 1] */
    queue *queue;             /* [stream] */
} play;

static void use(play *p, const bench_step *s, uint32_t stream)
{
    queue *q = &p->queue[stream];

    p->stream[s->buffer] = stream;
    q->uses++;
    while (q->head != 0 && p->pending[q->head].done <= q->uses) {
        put(s->worker, p->pending[q->head].block);
        q->head = p->pending[q->head].next;
    }
}

static void free_step(play *p, const bench_step *s)
{
    queue *q = &p->queue[p->stream[s->buffer]];
    uint32_t number = s->buffer + 1;

    if (p->stream[s->buffer] == 0 || p->lag == 0) {
        put(s->worker, p->block[s->buffer]);
        return;
    }
    p->pending[number] =
        (pending){.block = p->block[s->buffer], .done = q->uses + p->lag};
    *(q->head == 0 ? &q->head : &p->pending[q->tail].next) = number;
    q->tail = number;
}

static void play_step(play *p, const bench_step *s)
{
    if (bench_step_allocates(s)) {
        sim.needed += s->value;
        sim.peak = sim.needed > sim.peak ? sim.needed : sim.peak;
        p->block[s->buffer] = get(s->worker, s->value);
        sim_at(p->block[s->buffer])->asked = s->value;
    }
    if (s->op == WM_TRACE_PLACED) {
        use(p, s, s->stream + 1);
    } else if (s->op == WM_TRACE_USE) {
        use(p, s, (uint32_t)s->value + 1);
    } else if (s->op == WM_TRACE_FREE) {
        free_step(p, s);
    }
}

static void read_arena(void)
{
    n.moves = sim_arena.moves;
    n.splits = sim_arena.splits;
    n.segments = sim_arena.segments;
}

static bench_sim_result price(const struct counts *half)
{
    double ops = (double)(n.ops - half->ops), arena = sim.rule->arena_ns;
    double ns = 0;

    read_arena();
#define PRICE(what, each) ns += (each) * (double)(n.what - half->what)
    PRICE(hits, 10);
    PRICE(locks, arena);
    PRICE(moves, arena);
    PRICE(splits, 50);
    PRICE(quick, 60);
    PRICE(visits, 26000);
    PRICE(taken, 125);
    PRICE(segments, 20000);
#undef PRICE
    return (bench_sim_result){.held = (double)sim_arena.held_peak,
                              .hits = 100 * (double)(n.hits - half->hits) / ops,
                              .visits = 1000 *
                                        (double)(n.visits - half->visits) / ops,
                              .ns = ns / ops};
}

bench_sim_result bench_sim(const bench_trace *trace, unsigned lag,
                           const bench_sim_rule *rule)
{
    play p = {.trace = trace, .lag = lag};
    struct counts half = {0};
    bench_sim_result result = {0};

    sim_arena_init((unsigned)rule->steps);
    free(sim.cache);
    memset(&sim, 0, sizeof sim);
    memset(&n, 0, sizeof n);
    sim.rule = rule;
    sim.threads = sim.active = trace->workers;
    sim.cache = calloc(trace->workers + 1, sizeof *sim.cache);
    p.block = calloc(trace->buffers + 1, sizeof *p.block);
    p.stream = calloc(trace->buffers + 1, sizeof *p.stream);
    p.pending = calloc(trace->buffers + 1, sizeof *p.pending);
    p.queue = calloc(trace->streams + 1, sizeof *p.queue);
    if (sim.cache != NULL && p.block != NULL && p.stream != NULL &&
        p.pending != NULL && p.queue != NULL) {
        sim.depot = &sim.cache[trace->workers];
        for (size_t i = 0; i < trace->steps; i++) {
            if (i == trace->steps / 2) {
                read_arena();
                half = n;
            }
            play_step(&p, &trace->step[i]);
        }
        result = price(&half);
    }
    free(p.block);
    free(p.stream);
    free(p.pending);
    free(p.queue);
    return result;
}

bool bench_sim_rule_of(const char *text, bench_sim_rule *rule)
{
#define KEY(key, value, meaning) .key = (value),
    *rule = (bench_sim_rule){BENCH_SIM_RULE(KEY)};
#undef KEY
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, "=");
        char *end = NULL;
        double number =
            text[length] == '=' ? strtod(text + length + 1, &end) : 0;
        double unit = end == NULL   ? 0
                      : *end == 'M' ? 0x1p20
                      : *end == 'K' ? 1024
                                    : 1;
        bool known = false;

#define KEY(key, value, meaning)                                               \
    if (length == sizeof #key - 1 && memcmp(text, #key, length) == 0) {        \
        rule->key = number * unit;                                             \
        known = true;                                                          \
    }
        BENCH_SIM_RULE(KEY)
#undef KEY
        if (!known || end == NULL) {
            fprintf(stderr, "bench: no key '%s'; there are\n", text);
#define KEY(key, value, meaning)                                               \
    fprintf(stderr, "  %-11s %9.6g  %s\n", #key, (double)(value), meaning);
            BENCH_SIM_RULE(KEY)
#undef KEY
            return false;
        }
        text = end + (unit > 1);
        text += *text == ',';
    }
    return true;
}
