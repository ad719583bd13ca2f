/* check_memory_model.c: random steps over all memory against a plain model
 * (rows B4 to B7, C1, C4, C10, E1 to E8): two devices and page-locked memory;
 * streams that are held, retired, adopted, replaced and capture; private pools;
 * graphs that are launched; limits and a driver without memory.
 *
 * The model knows of every block what must have passed before its memory may be
 * somebody else's, and whether it may be ever (model.h). So it tells of each
 * block that is handed out whether that was right; and work on the streams
 * looks whether anybody has written where a block was. What the figures must
 * be, it knows as well. */
#include "model/model.h"

#include "alloc/device_space.h"
#include "alloc/magazine.h"
#include "alloc/pinned.h"
#include "alloc/private_pool.h"
#include "runtime/base/meta.h"
#include "runtime/runtime.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

enum {
    DEVICES = 2,
    SPACES = 1 + DEVICES, /* page-locked, device 0, device 1 */
    EACH = 4,             /* streams of a device, beside the default ones */
    NOW = DEVICES * EACH + 2,
    STREAMS = 64,
    LIVE = 128,
    FREED = 1024,
    POOLS = 4,
    CAPTURES = 2,
    GRAPHS = 6,
    KEPT_MOST = 200 /* blocks that graphs of no pool may have */
};

struct pool {
    warm_private_pool number;
    bool user, recording, alive;
    unsigned references;
    enum { OF_THREAD, OF_ALL, OF_STREAM } filter;
    warm_stream stream;
};

/* While it is under way, and the graph that comes of it. */
struct capture {
    struct stream *origin, *branch; /* null: no other stream is in it */
    bool announced;
    struct pool *pool; /* whose memory its work uses, with a reference */
    struct work *work, **last;
    warm_graph graph;
    int device;
};

enum kept { NOT_KEPT, WITH_POOL, FOR_EVER };

struct range {
    char *base;
    size_t bytes;
    int space; /* 0: page-locked; else 1 + its device */
    struct point own, use[MODEL_USES];
    unsigned uses;
    struct pool *pool;  /* or null */
    warm_stream lane;   /* allocated while that stream captured; or null */
    struct capture *by; /* filled by that graph, only */
    bool captured;      /* was used in a capture, or allocated there */
    enum kept kept;     /* once it is freed */
    bool filled;        /* by its stream, or by the caller */
    uint64_t filled_at, pattern;
};

static struct {
    warm_runtime *runtime;
    struct stream *ever, *now[NOW], *launcher[DEVICES], *last[SPACES];
    size_t evers, most_ever;
    struct range live[LIVE], freed[FREED];
    unsigned lives, freeds;
    struct pool *pools_ever, *pool[POOLS], *recording[POOLS];
    size_t pools_made;
    unsigned pools, recordings;
    struct capture *capture[CAPTURES], *graph[GRAPHS];
    unsigned captures, graphs;
    uint64_t kept[SPACES], with_pools, allocated[SPACES];
    uint64_t random;
    unsigned long step;
    bool dry, limited, sealed;
    bool beside; /* another thread gives memory back */
    bool waits;  /* streams, for each other, if that gets them memory */
} m;

#define MUST(condition, ...)                                                   \
    wt_require(condition, "seed %lu step %lu: %s", (unsigned long)wt_seed(),   \
               m.step, __VA_ARGS__)

static uint64_t pick(uint64_t below)
{
    return wt_random(&m.random) % below;
}

static bool is_graphs(const struct pool *pool)
{
    return pool != NULL && !pool->user;
}

static bool has_graphs(const struct range *r)
{
    return is_graphs(r->pool) && r->pool->alive;
}

/* ---- streams ---------------------------------------------------------- */

static struct stream *new_stream(int device)
{
    struct stream *s = &m.ever[m.evers++];

    ck_assert_uint_le(m.evers, m.most_ever);
    s->device = device;
    s->adopted = true;
    wt_ok(warm_stream_create(m.runtime, device, &s->name));
    return s;
}

static struct stream *named_stream(warm_stream name, bool mine)
{
    struct stream *s = &m.ever[m.evers++];

    s->name = name;
    s->by_name = true;
    s->mine = mine;
    return s;
}

static struct stream *any_stream(void)
{
    return m.now[pick(NOW)];
}

static struct stream *stream_of(int device)
{
    struct stream *s = any_stream();

    while (s->device != device) {
        s = any_stream();
    }
    return s;
}

/* What was recorded on it, or allocated, does not follow it any more. */
static void fix_points(struct stream *s, struct range *r)
{
    for (unsigned u = 0; u < r->uses; u++) {
        if (r->use[u].stream == s) {
            model_point_now(&r->use[u]);
            r->use[u].over = true;
        }
    }
    if (r->own.stream == s) {
        model_point_now(&r->own);
        r->own.over = true;
    }
}

static void retired(struct stream *s)
{
    for (unsigned i = 0; i < m.lives; i++) {
        fix_points(s, &m.live[i]);
    }
    for (unsigned i = 0; i < m.freeds; i++) {
        if (m.freed[i].kept == WITH_POOL) {
            fix_points(s, &m.freed[i]);
        }
    }
}

static void release_hold(struct stream *s)
{
    if (s->held) {
        wt_ok(warm_testing_resume(m.runtime, s->name));
        s->held = false;
    }
}

static void step_hold(void)
{
    struct stream *s = any_stream();

    if (!s->held) {
        wt_ok(warm_testing_hold(m.runtime, s->name));
        s->held = true;
    } else if (!m.waits && pick(3) != 0) {
        wt_ok(warm_testing_step(m.runtime, s->name, 1 + (unsigned)pick(4)));
    } else {
        release_hold(s);
    }
}

/* Its work may go on after its end, and another one have its address. */
static void step_replace(void)
{
    unsigned i = (unsigned)pick(NOW);
    struct stream *s = m.now[i];

    if (s->by_name || s->capture != NULL || m.evers == m.most_ever) {
        return;
    }
    release_hold(s);
    for (unsigned k = 0; k < NOW && m.waits; k++) {
        release_hold(m.now[k]); /* it may wait for that */
    }
    if (m.captures == 0 && pick(2) == 0) {
        wt_ok(warm_stream_synchronize(m.runtime, s->name));
    }
    wt_ok(warm_stream_destroy(m.runtime, s->name));
    retired(s);
    s->gone = true;
    m.now[i] = new_stream(s->device);
}

static void step_adopt(void)
{
    struct stream *s = any_stream();

    if (s->by_name || s->capture != NULL) {
        return;
    }
    if (pick(2) == 0) {
        wt_ok(warm_stream_adopt(m.runtime, s->name));
        s->adopted = true;
    } else {
        wt_ok(warm_stream_retire(m.runtime, s->name));
        retired(s);
        s->adopted = false;
    }
}

/* ---- what may be handed out ----------------------------------------------
 */

/* fresh: for whom, whose own stream does it all in order; or null. */
static bool all_passed(const struct range *r, const struct range *fresh)
{
    for (unsigned u = 0; u < r->uses; u++) {
        if (!model_has_passed(&r->use[u]) &&
            (fresh == NULL || fresh->lane != NULL ||
             fresh->own.stream != r->use[u].stream)) {
            return false;
        }
    }
    return true;
}

/* Whether what was freed in the order of its stream is in that of another. */
static bool in_order(const struct range *old, const struct range *fresh)
{
    if (old->space == 0 || (old->lane != NULL && !has_graphs(old))) {
        return true;
    }
    if (has_graphs(old)) {
        return old->lane == fresh->lane &&
               (old->lane != NULL || old->own.stream == fresh->own.stream);
    }
    return (fresh->lane == NULL && old->own.stream == fresh->own.stream) ||
           model_has_passed(&old->own);
}

struct order {
    struct point before;
    unsigned long step;
};

static void is_behind(void *argument)
{
    struct order *o = argument;
    unsigned long none = 0;

    if (!model_has_passed(&o->before)) {
        (void)atomic_compare_exchange_strong_explicit(
            &model_wrong, &none, o->step + 1, memory_order_relaxed,
            memory_order_relaxed);
    }
    free(o);
}

/* Whether the stream that it is for may have been made to wait: if so, the
 * stream itself looks whether it was. */
static bool is_awaited(const struct range *old, const struct range *fresh)
{
    struct stream *s = fresh->own.stream;
    struct order *o;

    if (!m.waits || s->capture != NULL || s->by_name) {
        return false;
    }
    o = malloc(sizeof *o);
    ck_assert_ptr_nonnull(o);
    *o = (struct order){old->own, m.step};
    wt_ok(warm_stream_host_func(m.runtime, s->name, is_behind, o));
    model_queue(m.runtime, s, (struct work){.step = m.step});
    return true;
}

static const char *wrong_to_get(const struct range *old,
                                const struct range *fresh)
{
    if (old->kept == FOR_EVER) {
        return "a graph may use what was handed out";
    }
    if (old->kept == WITH_POOL) {
        return "graphs of a pool have what was handed out";
    }
    if (has_graphs(old) && old->pool != fresh->pool) {
        return "memory left its pool";
    }
    if (!all_passed(old, fresh)) {
        return "handed out while a stream uses it";
    }
    return in_order(old, fresh) || is_awaited(old, fresh)
               ? NULL
               : "handed out before its stream passed";
}

static bool is_history(const struct range *old)
{
    return old->kept == NOT_KEPT && !has_graphs(old) && all_passed(old, NULL) &&
           model_has_passed(&old->own);
}

static void check_new(const struct range *fresh)
{
    for (unsigned i = 0; i < m.lives; i++) {
        MUST(!model_overlap(m.live[i].base, m.live[i].bytes, fresh->base,
                            fresh->bytes),
             "two live blocks overlap");
    }
    for (unsigned i = 0; i < m.freeds;) {
        if (is_history(&m.freed[i])) {
            m.freed[i] = m.freed[--m.freeds];
            m.freed[m.freeds].kept = NOT_KEPT;
            continue;
        }
        if (model_overlap(m.freed[i].base, m.freed[i].bytes, fresh->base,
                          fresh->bytes)) {
            const char *why = wrong_to_get(&m.freed[i], fresh);

            MUST(why == NULL, why);
        }
        i++;
    }
}

/* ---- pools ------------------------------------------------------------ */

static int is_stream(void *context, warm_stream stream)
{
    return stream == ((struct pool *)context)->stream;
}

static int is_any(void *context, warm_stream stream)
{
    (void)context;
    (void)stream;
    return 1;
}

static void begin_pool(struct pool *pool, const struct stream *s)
{
    warm_private_pool before = pool->number;
    warm_pool_filter_fn filter = NULL;

    pool->filter = s != NULL ? OF_STREAM : pick(2) == 0 ? OF_THREAD : OF_ALL;
    if (pool->filter != OF_THREAD) {
        filter = pool->filter == OF_ALL ? is_any : is_stream;
    }
    pool->stream = s != NULL ? s->name : NULL;
    wt_ok(warm_private_pool_begin(m.runtime, &pool->number,
                                  pool->user ? WARM_POOL_USER : 0, filter,
                                  pool));
    MUST(before == 0 || before == pool->number, "a pool's number changed");
    pool->references++;
    pool->recording = pool->alive = true;
    m.recording[m.recordings++] = pool;
}

static struct pool *make_pool(bool user)
{
    struct pool *pool;

    if (m.pools == POOLS || m.pools_made == m.most_ever) {
        return NULL;
    }
    pool = &m.pools_ever[m.pools_made++];
    pool->user = user;
    m.pool[m.pools++] = pool;
    return pool;
}

static void end_pool(struct pool *pool)
{
    unsigned i = 0;

    wt_ok(warm_private_pool_end(m.runtime, pool->number));
    pool->recording = false;
    while (m.recording[i] != pool) {
        i++;
    }
    m.recordings--;
    for (; i < m.recordings; i++) {
        m.recording[i] = m.recording[i + 1];
    }
}

static bool captures_now(const struct range *r)
{
    for (unsigned u = 0; u < r->uses; u++) {
        if (!r->use[u].over && r->use[u].stream->capture != NULL) {
            return true;
        }
    }
    return false;
}

/* What its graphs had waits for work outside of them, from now on. */
static void let_go(struct pool *pool)
{
    for (unsigned i = 0; i < m.lives; i++) {
        if (m.live[i].pool == pool && is_graphs(pool)) {
            m.live[i].captured = false;
        }
    }
    for (unsigned i = 0; i < m.freeds; i++) {
        struct range *r = &m.freed[i];

        if (r->pool != pool || r->kept != WITH_POOL) {
            continue;
        }
        for (unsigned u = 0; u < r->uses; u++) {
            model_point_now(&r->use[u]);
        }
        r->kept = captures_now(r) ? FOR_EVER : NOT_KEPT;
        m.with_pools--;
        m.kept[r->space] += r->kept == FOR_EVER;
    }
}

static void release_pool(struct pool *pool)
{
    unsigned i = 0;

    if (pool->references == 1 && pool->recording) {
        wt_fails(WARM_INVALID_ARGUMENT,
                 warm_private_pool_release(m.runtime, pool->number));
        return;
    }
    wt_ok(warm_private_pool_release(m.runtime, pool->number));
    if (--pool->references > 0) {
        return;
    }
    pool->alive = false;
    let_go(pool);
    while (m.pool[i] != pool) {
        i++;
    }
    m.pool[i] = m.pool[--m.pools];
    wt_fails(WARM_NOT_FOUND, warm_private_pool_retain(m.runtime, pool->number));
}

/* References that no graph has; what graphs still launch is theirs. */
static unsigned spare_references(const struct pool *pool)
{
    unsigned count = pool->references;

    for (unsigned i = 0; i < m.graphs; i++) {
        count -= m.graph[i]->pool == pool;
    }
    for (unsigned i = 0; i < m.captures; i++) {
        count -= m.capture[i]->pool == pool;
    }
    return count;
}

static void step_pool(void)
{
    struct pool *pool = m.pools > 0 ? m.pool[pick(m.pools)] : NULL;

    if (pool == NULL || pick(4) == 0) {
        pool = make_pool(pick(2) == 0);
        if (pool != NULL) {
            begin_pool(pool, pick(2) == 0 ? any_stream() : NULL);
        }
    } else if (pool->recording && pick(3) != 0) {
        end_pool(pool);
    } else if (!pool->recording && pick(3) == 0) {
        begin_pool(pool, pick(2) == 0 ? any_stream() : NULL);
    } else if (pick(8) == 0) {
        wt_ok(warm_private_pool_retain(m.runtime, pool->number));
        pool->references++;
    } else if (spare_references(pool) > 0) {
        release_pool(pool);
    }
}

/* The innermost one that matches. */
static struct pool *expected_pool(const struct stream *s, bool main_thread)
{
    for (unsigned i = m.recordings; i-- > 0;) {
        struct pool *p = m.recording[i];

        if (p->filter == OF_ALL || (p->filter == OF_THREAD && main_thread) ||
            (p->filter == OF_STREAM && p->stream == s->name)) {
            return p;
        }
    }
    return NULL;
}

/* ---- work ------------------------------------------------------------- */

static struct work work_on(const struct range *r, bool looks)
{
    return (struct work){.base = r->base,
                         .bytes = r->bytes,
                         .pattern = r->pattern,
                         .looks = looks,
                         .step = m.step};
}

/* The graph has it, and runs it at every launch. */
static void capture_work(struct capture *c, const struct stream *s,
                         struct work like)
{
    struct work *w = model_work(&like);

    *c->last = w;
    c->last = &w->next;
    wt_ok(warm_stream_host_func(m.runtime, s->name, model_run, w));
}

/* A graph that may use the block at every launch, for that pool lives as long
 * as the graph does. */
static bool suits_graph(struct capture *c, const struct range *r)
{
    if (!has_graphs(r)) {
        return true;
    }
    if (c->pool == NULL && r->pool->alive) {
        c->pool = r->pool;
        c->pool->references++;
        wt_ok(warm_private_pool_retain(m.runtime, c->pool->number));
    }
    return c->pool == r->pool;
}

static void fill(struct range *r)
{
    struct stream *s = r->own.stream;

    if (r->space == 0) {
        struct work w = work_on(r, false);

        (void)model_touch(&w);
        r->filled = true;
    } else if (s->capture == NULL) {
        model_queue(m.runtime, s, work_on(r, false));
        r->filled = true;
        r->filled_at = s->queued;
    } else if (suits_graph(s->capture, r)) {
        capture_work(s->capture, s, work_on(r, false));
        r->by = s->capture;
    }
}

static bool is_filled(const struct range *r)
{
    return r->filled &&
           (r->space == 0 || model_passed(r->own.stream) >= r->filled_at);
}

/* Work of a stream that was recorded, or is its own, looks at the block. */
static void look(const struct range *r, struct stream *s, bool own)
{
    struct capture *c = s->capture;

    if (c == NULL) {
        if (r->filled && (own || is_filled(r))) {
            model_queue(m.runtime, s, work_on(r, true));
        }
    } else if (r->by == c ||
               (r->captured && is_filled(r) && suits_graph(c, r))) {
        capture_work(c, s, work_on(r, true));
    }
}

/* ---- blocks ----------------------------------------------------------- */

/* What another thread does, while the main one waits for it. */
static struct {
    struct range *range; /* to be allocated; or null */
    struct stream *stream;
    void *freed;
    warm_status status;
} job;

static warm_status obtain(struct range *r, struct stream *s)
{
    void *pointer = NULL;
    warm_status status;

    if (r->space > 0) {
        status = warm_device_alloc(m.runtime, r->space - 1, s->name, r->bytes,
                                   &pointer);
    } else {
        status = warm_thread_set_stream(m.runtime, s->name);
        if (status == WARM_OK) {
            status = warm_pinned_alloc(m.runtime, r->bytes, &pointer);
        }
    }
    r->base = pointer;
    return status;
}

static void do_job(void *argument, unsigned index)
{
    (void)argument;
    (void)index;
    job.status = job.range != NULL ? obtain(job.range, job.stream)
                                   : warm_free(job.freed);
}

static bool elsewhere(void)
{
    return pick(6) == 0;
}

/* One that stays, with what it keeps, or one that exits. */
static struct {
    pthread_t thread;
    sem_t go, done;
    bool over;
} other;

static void *be_other(void *argument)
{
    while (sem_wait(&other.go) == 0 && !other.over) {
        do_job(argument, 0);
        sem_post(&other.done);
    }
    return NULL;
}

static void do_elsewhere(void)
{
    if (pick(6) == 0) {
        wt_threads(1, do_job, NULL);
    } else {
        sem_post(&other.go);
        while (sem_wait(&other.done) != 0) {
        }
    }
}

static void begin_other(void)
{
    other.over = false;
    sem_init(&other.go, 0, 0);
    sem_init(&other.done, 0, 0);
    ck_assert_int_eq(pthread_create(&other.thread, NULL, be_other, NULL), 0);
}

static void end_other(void)
{
    other.over = true;
    sem_post(&other.go);
    pthread_join(other.thread, NULL);
    sem_destroy(&other.go);
    sem_destroy(&other.done);
}

static void check_pool_of(const struct range *r)
{
    const wm_block *block = wm_space_find(r->base);

    MUST(block != NULL, "a block is not to be found");
    MUST(wm_private_number(block->segment->arena) ==
             (r->pool != NULL ? r->pool->number : 0),
         "a block is of another pool");
    MUST(wm_device_of_block(block) == r->space - 1, "of another space");
}

/* Mostly what threads have ready: a few sizes, and a stream for some time. */
static size_t any_bytes(void)
{
    return pick(2) == 0 ? 4000 + pick(3) * 1000
                        : 1 + pick((size_t)1 << (1 + pick(22)));
}

static struct stream *stream_for(int space)
{
    if (m.last[space] == NULL || m.last[space]->gone || pick(4) == 0) {
        m.last[space] = space > 0 ? stream_of(space - 1) : any_stream();
    }
    return m.last[space];
}

static void step_alloc(void)
{
    struct range r = {.space = (int)pick(SPACES),
                      .bytes = any_bytes(),
                      .pattern = wt_random(&m.random)};
    struct stream *s = stream_for(r.space);
    bool main_thread = s->mine || !elsewhere();
    warm_status status;

    if (r.space > 0) {
        r.own.stream = s;
    }
    r.pool = expected_pool(s, main_thread);
    if (r.space > 0 && s->capture != NULL) {
        if (!is_graphs(r.pool) && (m.sealed || m.kept[r.space] >= KEPT_MOST)) {
            return;
        }
        r.lane = s->name;
        r.captured = !is_graphs(r.pool);
    }
    if (main_thread) {
        status = obtain(&r, s);
    } else {
        job.range = &r;
        job.stream = s;
        do_elsewhere();
        status = job.status;
    }
    if (status == WARM_OUT_OF_MEMORY && (m.dry || m.limited)) {
        return;
    }
    wt_ok(status);
    check_pool_of(&r);
    check_new(&r);
    m.allocated[r.space]++;
    fill(&r);
    m.live[m.lives++] = r;
}

static struct point *find_use(struct range *r, const struct stream *s)
{
    for (unsigned u = 0; u < r->uses; u++) {
        if (r->use[u].stream == s) {
            return &r->use[u];
        }
    }
    return NULL;
}

/* A pool's memory for graphs stays with the streams it was allocated on. */
static bool is_own(const struct range *r, const struct stream *s)
{
    return r->own.stream == s && (r->pool == NULL || r->pool->alive) &&
           (!r->own.over || is_graphs(r->pool)) &&
           (r->lane != NULL) == (s->capture != NULL);
}

/* What is used in a capture stays with the graph. */
static bool may_use(const struct range *r, const struct stream *s)
{
    return has_graphs(r) ? m.with_pools < KEPT_MOST
                         : s->capture == NULL ||
                               (!m.sealed && m.kept[r->space] < KEPT_MOST);
}

static void step_record(void)
{
    struct range *r = &m.live[pick(m.lives)];
    struct stream *s = any_stream();
    struct point *use = find_use(r, s);
    bool own = is_own(r, s);

    if ((s->by_name && r->own.stream == s) || !may_use(r, s) ||
        (use == NULL && r->uses == MODEL_USES)) {
        return;
    }
    if (s->mine) {
        look(r, s, own); /* only what was queued before the record counts */
    }
    wt_ok(warm_record_stream(r->base + pick(r->bytes), s->name));
    if (s->capture != NULL) {
        r->captured = r->captured || !own;
    } else if (!own) {
        use = use != NULL ? use : &r->use[r->uses++];
        *use = (struct point){.stream = s};
        model_point_now(use);
        use->over = s->mine;
    }
    if (!s->mine) {
        look(r, s, own);
    }
}

static enum kept kept_of(const struct range *r)
{
    if (has_graphs(r)) {
        return r->uses > 0 || r->captured ? WITH_POOL : NOT_KEPT;
    }
    return r->captured || captures_now(r) ? FOR_EVER : NOT_KEPT;
}

/* Forgetting one that was not kept only makes the model less strict. */
static void remember(const struct range *r)
{
    unsigned at = m.freeds < FREED ? m.freeds++ : (unsigned)pick(FREED);

    while (m.freed[at].kept != NOT_KEPT) {
        at = (at + 1) % FREED;
    }
    m.freed[at] = *r;
    m.with_pools += r->kept == WITH_POOL;
}

static void step_free(void)
{
    unsigned at = (unsigned)pick(m.lives);
    struct range r = m.live[at];
    struct stream *s = r.own.stream;

    r.kept = kept_of(&r);
    if (r.kept == FOR_EVER && !r.captured &&
        (m.sealed || m.kept[r.space] >= KEPT_MOST ||
         (r.own.over && find_use(&r, s) != NULL))) {
        return; /* its streams capture: later */
    }
    m.live[at] = m.live[--m.lives];
    if (s != NULL && !s->gone && pick(2) == 0 && is_own(&r, s)) {
        look(&r, s, true);
    }
    for (unsigned u = 0; u < r.uses; u++) {
        model_point_now(&r.use[u]);
    }
    model_point_now(&r.own);
    m.kept[r.space] += r.kept == FOR_EVER;
    remember(&r);
    if (elsewhere()) {
        job.range = NULL;
        job.freed = r.base;
        do_elsewhere();
        wt_ok(job.status);
    } else {
        wt_ok(warm_free(r.base));
    }
    wt_fails(WARM_INVALID_POINTER, warm_free(r.base));
}

/* ---- captures and graphs ------------------------------------------------ */

static void join(struct stream *from, struct stream *to)
{
    warm_event event = NULL;

    wt_ok(warm_event_create(m.runtime, from->device, &event));
    wt_ok(warm_event_record(m.runtime, event, from->name));
    wt_ok(warm_stream_wait_event(m.runtime, to->name, event));
    wt_ok(warm_event_destroy(m.runtime, event));
}

/* With a pool for its memory, mostly. */
static void begin_capture(void)
{
    struct stream *s = any_stream(), *branch = stream_of(s->device);
    struct capture *c;
    struct pool *pool = NULL;

    if (s->by_name || s->capture != NULL || m.captures == CAPTURES) {
        return;
    }
    if (pick(4) != 0) {
        pool = m.pools > 0 && pick(2) == 0 ? m.pool[pick(m.pools)]
                                           : make_pool(false);
        if (pool != NULL && !pool->recording) {
            begin_pool(pool, s);
        }
    }
    c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->origin = s;
    c->device = s->device;
    c->last = &c->work;
    c->announced = s->adopted || pick(2) == 0;
    if (c->announced) {
        wt_ok(warm_capture_begin(m.runtime, s->name));
    } else {
        wt_ok(wm_driver_capture_begin(m.runtime->driver, s->name));
    }
    s->capture = c;
    if (branch != s && !branch->by_name && branch->capture == NULL &&
        (c->announced || !branch->adopted)) {
        join(s, branch);
        c->branch = branch;
        branch->capture = c;
    }
    m.capture[m.captures++] = c;
}

static void drop_graph(struct capture *c)
{
    wt_ok(warm_graph_destroy(m.runtime, c->graph));
    if (c->pool != NULL) {
        release_pool(c->pool);
    }
    while (c->work != NULL) {
        struct work *next = c->work->next;

        free(c->work);
        c->work = next;
    }
    free(c);
}

static void end_capture(unsigned at)
{
    struct capture *c = m.capture[at];

    m.capture[at] = m.capture[--m.captures];
    if (c->branch != NULL) {
        join(c->branch, c->origin);
        c->branch->capture = NULL;
    }
    if (c->announced) {
        wt_ok(warm_capture_end(m.runtime, c->origin->name, &c->graph));
    } else {
        wt_ok(wm_driver_capture_end(m.runtime->driver, c->origin->name,
                                    &c->graph));
    }
    c->origin->capture = NULL;
    for (unsigned i = 0; i < m.lives; i++) {
        m.live[i].by = m.live[i].by == c ? NULL : m.live[i].by;
    }
    if (m.graphs == GRAPHS || c->work == NULL) {
        drop_graph(c);
    } else {
        m.graph[m.graphs++] = c;
    }
    for (unsigned i = m.recordings; i-- > 0 && pick(3) != 0;) {
        end_pool(m.recording[i]);
    }
}

static void step_capture(void)
{
    if (m.captures == 0 || pick(3) == 0) {
        begin_capture();
    } else {
        end_capture((unsigned)pick(m.captures));
    }
}

/* Graphs of a device are launched on one stream: never two at once. */
static void step_graph(void)
{
    unsigned at = m.graphs > 0 ? (unsigned)pick(m.graphs) : 0;
    struct capture *c = m.graph[at];
    struct stream *launcher;

    if (m.graphs == 0) {
        return;
    }
    launcher = m.launcher[c->device];
    if (pick(8) != 0) {
        wt_ok(warm_graph_launch(m.runtime, c->graph, launcher->name));
        model_queue(m.runtime, launcher, (struct work){.step = m.step});
        return;
    }
    model_await(launcher);
    m.graph[at] = m.graph[--m.graphs];
    drop_graph(c);
}

/* ---- the rest ----------------------------------------------------------- */

static void step_supply(void)
{
    m.dry = !m.dry;
    wt_ok(warm_testing_fail(m.runtime, "pinned_alloc", m.dry, 1));
    wt_ok(warm_testing_fail(m.runtime, "device_alloc", m.dry, 1));
}

static void set_limits(bool limited)
{
    m.limited = limited;
    for (int d = 0; d < DEVICES; d++) {
        double part = limited ? (double)(1 + pick(64)) / 4096 : 1;

        wt_ok(warm_device_set_memory_fraction(m.runtime, d, part));
        wt_ok(
            warm_device_set_collect_threshold(m.runtime, d, limited ? 0.5 : 1));
    }
}

static void step_trim(void)
{
    size_t target = pick(2) == 0 ? 0 : pick((size_t)64 << 20);
    int device = (int)pick(SPACES) - 1;

    if (device < 0) {
        wt_ok(warm_trim(m.runtime, target, NULL));
    } else {
        wt_ok(warm_device_trim(m.runtime, device, target, NULL));
    }
}

static void step_bad_pointer(void)
{
    const struct range *r = &m.live[pick(m.lives)];

    if (r->bytes > 1) {
        wt_fails(WARM_INVALID_POINTER,
                 warm_free(r->base + 1 + pick(r->bytes - 1)));
    }
    wt_fails(WARM_INVALID_POINTER, warm_free(&m));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(&m, any_stream()->name));
}

/* ---- what must be true ---------------------------------------------------
 */

static wm_space *space_at(int space)
{
    return space == 0 ? &m.runtime->pinned->space
                      : &m.runtime->device_spaces[space - 1].space;
}

/* Every arena's own, and the sums. */
static void check_arenas(void)
{
    for (int i = 0; i < SPACES; i++) {
        wm_space *space = space_at(i);
        warm_space_stats s = {.size = sizeof s};

        MUST(wm_space_check_settled(space), "an arena is broken");
        wm_space_stats(space, &s);
        MUST(s.held_bytes.current == s.block_bytes.current + s.idle_bytes +
                                         s.pending_bytes.current +
                                         s.lost_bytes + s.captured_bytes,
             "the parts are not the whole");
        MUST(s.lost == 0, "a block was lost");
        MUST(m.beside || space->growth.held == s.held_bytes.current,
             "what counts for the limit");
    }
}

static uint64_t kept_with_pools(int space, const struct pool *pool)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < m.freeds; i++) {
        count += m.freed[i].kept == WITH_POOL &&
                 (pool != NULL ? m.freed[i].pool == pool
                               : m.freed[i].space == space);
    }
    return count;
}

static void check_pools(void)
{
    for (unsigned i = 0; i < m.pools; i++) {
        warm_private_pool_info info = {.size = sizeof info};
        uint64_t blocks = 0;

        wt_ok(warm_private_pool_get_info(m.runtime, m.pool[i]->number, &info));
        for (unsigned k = 0; k < m.lives; k++) {
            blocks += m.live[k].pool == m.pool[i];
        }
        MUST(info.references == m.pool[i]->references, "references of a pool");
        MUST(info.recording == m.pool[i]->recording, "a pool records");
        MUST(info.blocks == blocks, "blocks of a pool");
        MUST(m.pool[i]->user || info.captured == kept_with_pools(0, m.pool[i]),
             "what graphs of a pool have");
    }
}

static void check_figures(void)
{
    uint64_t live[SPACES] = {0}, bytes[SPACES] = {0};

    for (unsigned i = 0; i < m.lives; i++) {
        live[m.live[i].space]++;
        bytes[m.live[i].space] += m.live[i].bytes;
    }
    for (int i = 0; i < SPACES; i++) {
        warm_space_stats s = {.size = sizeof s};

        wm_magazines_settle_all(space_at(i));
        wm_space_stats(space_at(i), &s);
        MUST(s.requests.current == live[i], "live blocks");
        MUST(s.requests.allocated == m.allocated[i], "blocks ever");
        MUST(s.requested_bytes.current == bytes[i], "bytes asked for");
        MUST(s.captured == m.kept[i] + kept_with_pools(i, NULL),
             "blocks that graphs have");
    }
    check_pools();
    MUST(atomic_load_explicit(&model_wrong, memory_order_relaxed) == 0,
         "something was written over");
}

/* What streams may use of what graphs of pools have is active. */
static void check_active(int space)
{
    warm_device_stats s = {.size = sizeof s};
    uint64_t active = 0;

    for (unsigned i = 0; i < m.freeds; i++) {
        active += m.freed[i].kept == WITH_POOL && m.freed[i].space == space &&
                  m.freed[i].uses > 0;
    }
    wt_ok(warm_device_get_stats(m.runtime, space - 1, &s));
    MUST(s.all.active.current == s.all.allocations.current + active,
         "active blocks");
}

/* Once all streams have run nothing waits for them. */
static void drain(void)
{
    while (m.captures > 0) {
        end_capture(0);
    }
    for (unsigned i = 0; i < NOW; i++) {
        release_hold(m.now[i]);
    }
    for (size_t i = 0; i < m.evers; i++) {
        model_await(&m.ever[i]);
    }
    for (int i = 0; i < SPACES; i++) {
        warm_space_stats s = {.size = sizeof s};

        do {
            wt_ok(warm_poll(m.runtime));
            wm_space_stats(space_at(i), &s);
        } while (s.pending.current > 0);
        if (i > 0) {
            check_active(i);
        }
    }
}

/* ---- a run --------------------------------------------------------------- */

static void one_step(void)
{
    uint64_t what = pick(1000);

    if (what < 3) {
        step_replace();
    } else if (what < 8) {
        step_adopt();
    } else if (what < 50) {
        step_hold();
    } else if (what < 62) {
        step_capture();
    } else if (what < 80) {
        step_graph();
    } else if (what < 90) {
        step_pool();
    } else if (what < 93) {
        step_trim();
    } else if (what < 96) {
        wt_ok(warm_poll(m.runtime));
    } else if (what < 98) {
        step_supply();
    } else if (what < 100) {
        set_limits(pick(2) == 0);
    } else if (what < 103 && m.lives > 0) {
        step_bad_pointer();
    } else if (what < 380 && m.lives > 0) {
        step_record();
    } else if (m.lives == LIVE || (m.lives > 0 && what < 690)) {
        step_free();
    } else {
        step_alloc();
    }
}

static void be_silent(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
}

/* What runs are like. sealed: graphs have memory of pools only, so that in the
 * end all goes back. */
static const struct kind {
    bool sealed;
    warm_options options;
} kinds[] = {
    {true, {.arenas = 1, .stream_wait = "off"}},
    {false,
     {.arenas = 4, .magazines = "off", .history = 500, .stream_wait = "off"}},
    {false,
     {.arenas = 4,
      .background = "on",
      .batch_ms = 1,
      .decay_ms = 1,
      .expandable_segments = "on"}},
    {true,
     {.arenas = 4,
      .history = 500,
      .numa_nodes = 2,
      .stream_wait = "grow",
      .segment = 1 << 18,
      .expandable_segments = "on"}}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void begin(const struct kind *kind, unsigned long steps)
{
    warm_options options = kind->options;
    unsigned at = 0;

    memset(&m, 0, sizeof m);
    m.random = wt_seed();
    m.sealed = kind->sealed;
    m.beside = kind->options.background != NULL;
    m.most_ever = STREAMS + steps / 50;
    m.waits = kind->options.stream_wait == NULL ||
              strcmp(kind->options.stream_wait, "off") != 0;
    m.ever = calloc(m.most_ever, sizeof *m.ever);
    m.pools_ever = calloc(m.most_ever, sizeof *m.pools_ever);
    ck_assert(m.ever != NULL && m.pools_ever != NULL);
    warm_log_set(be_silent, NULL);
    options.size = sizeof options;
    options.device = "host";
    options.host_devices = DEVICES;
    m.runtime = wt_runtime(&options);
    /* Held streams are not waited for: what goes back is what has passed. */
    wt_ok(warm_testing_fail(m.runtime, "event_synchronize", 1, 1));
    for (int d = 0; d < DEVICES; d++) {
        m.launcher[d] = new_stream(d);
        for (int i = 0; i < EACH; i++) {
            m.now[at++] = new_stream(d);
        }
    }
    m.now[at++] = named_stream(WARM_STREAM_LEGACY, false);
    m.now[at++] = named_stream(WARM_STREAM_PER_THREAD, true);
    begin_other();
}

static void end(void)
{
    drain();
    wt_ok(warm_testing_fail(m.runtime, "event_synchronize", 0, 0));
    while (m.graphs > 0) {
        drop_graph(m.graph[--m.graphs]);
    }
    while (m.recordings > 0) {
        end_pool(m.recording[0]);
    }
    while (m.lives > 0) {
        step_free();
    }
    while (m.pools > 0) {
        release_pool(m.pool[0]);
    }
    drain();
    check_arenas();
    check_figures();
    for (unsigned i = 0; i < NOW; i++) {
        if (!m.now[i]->by_name) {
            wt_ok(warm_stream_destroy(m.runtime, m.now[i]->name));
        }
    }
    end_other();
    wt_ok(warm_empty_cache(m.runtime, NULL));
    for (int d = 0; d < DEVICES; d++) {
        wt_ok(warm_stream_destroy(m.runtime, m.launcher[d]->name));
        wt_ok(warm_device_empty_cache(m.runtime, d, NULL));
    }
    for (int i = 0; i < SPACES; i++) {
        warm_space_stats s = {.size = sizeof s};

        wm_space_stats(space_at(i), &s);
        /* Default streams keep what they had of a range. */
        MUST(s.held_bytes.current == 0 || m.kept[i] > 0 ||
                 space_at(i)->arenas->unit > 0,
             "memory is held");
    }
    wt_runtime_end(m.runtime);
    warm_log_set(NULL, NULL);
    free(m.ever);
    free(m.pools_ever);
    ck_assert_int_le(wm_meta_live(), 1); /* this thread's window */
}

START_TEST(test_B4_C4_E4_random_steps_over_all_memory_agree_with_the_model)
{
    unsigned long steps = wt_scaled(40000);

    begin(&kinds[_i], steps);
    for (m.step = 1; m.step <= steps; m.step++) {
        one_step();
        if (m.step % 64 == 0) {
            check_figures();
        }
        if (m.step % 512 == 0) {
            check_arenas();
        }
        if (m.step % 4096 == 0) {
            drain();
        }
    }
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_model");
    TCase *tcase = tcase_create("model");

    tcase_add_loop_test(
        tcase, test_B4_C4_E4_random_steps_over_all_memory_agree_with_the_model,
        0, KINDS);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
