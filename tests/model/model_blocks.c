/* model_blocks.c: allocated, used, freed, by several threads; and work. */
#include "model/memory_model.h"

#include <pthread.h>
#include <semaphore.h>

/* ---- work ------------------------------------------------------------- */

static struct work work_on(const struct range *r, bool looks)
{
    return (struct work){.base = r->base,
                         .bytes = r->bytes,
                         .far = model_is_far(r->space),
                         .pattern = r->pattern,
                         .looks = looks,
                         .step = model.step};
}

/* The graph has it, and runs it at every launch. */
static void capture_work(struct capture *c, const struct stream *s,
                         struct work like)
{
    struct work *w = model_capture(model.runtime, s, like);

    *c->last = w;
    c->last = &w->next;
}

/* A graph that may use the block at every launch, for that pool lives as long
 * as the graph does. */
static bool suits_graph(struct capture *c, const struct range *r)
{
    if (!model_has_graphs(r)) {
        return true;
    }
    if (c->pool == NULL && r->pool->alive) {
        c->pool = r->pool;
        c->pool->references++;
        wt_ok(warm_private_pool_retain(model.runtime, c->pool->name));
    }
    return c->pool == r->pool;
}

static void fill(struct range *r)
{
    struct stream *s = r->own.stream;

    if (!model_is_far(r->space) || s == NULL) {
        struct work w = work_on(r, false);

        (void)model_touch(&w);
        r->filled = true;
    } else if (s->capture == NULL) {
        model_queue(model.runtime, s, work_on(r, false));
        r->filled = true;
        r->filled_at = s->queued;
    } else if (suits_graph(s->capture, r)) {
        capture_work(s->capture, s, work_on(r, false));
        r->by = s->capture;
    }
}

static bool is_filled(const struct range *r)
{
    return r->filled && (!model_is_far(r->space) ||
                         model_passed(r->own.stream) >= r->filled_at);
}

/* Work of a stream that was recorded, or is its own, looks at the block. What a
 * branch of a graph filled the other one does not look at: a GPU runs both at
 * once. */
static void look(const struct range *r, struct stream *s, bool own)
{
    struct capture *c = s->capture;

    if (c == NULL) {
        if (r->filled && (own || is_filled(r))) {
            model_queue(model.runtime, s, work_on(r, true));
        }
    } else if ((r->by == c && own) ||
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

    if (model_is_shared(r->space)) {
        status = warm_shared_alloc(model.runtime, r->space - 1 - model.devices,
                                   r->bytes, WARM_USAGE_SHARED, &pointer);
    } else if (model_is_far(r->space)) {
        status = warm_device_alloc(model.runtime, r->space - 1, s->name,
                                   r->bytes, &pointer);
    } else {
        status = warm_thread_set_stream(model.runtime, s->name);
        if (status == WARM_OK) {
            status = r->node == WARM_NODE_ANY && r->flags == 0
                         ? warm_pinned_alloc(model.runtime, r->bytes, &pointer)
                         : warm_pinned_alloc_on(model.runtime, r->bytes,
                                                r->node, r->flags, &pointer);
        }
    }
    r->base = pointer;
    return status;
}

/* A second runtime, which the same threads use: its blocks are its own, and
 * nothing of the model's is in its figures. */
static struct {
    warm_runtime *runtime;
    warm_stream stream;
    unsigned char *kept; /* bytes are 7 */
    bool wrong;
} second;

enum { SECOND_BYTES = 3000 };

static void use_second(void)
{
    void *host = NULL, *far = NULL;

    second.wrong |=
        warm_pinned_alloc(second.runtime, SECOND_BYTES, &host) != WARM_OK ||
        warm_device_alloc(second.runtime, model.devices - 1, second.stream,
                          SECOND_BYTES, &far) != WARM_OK ||
        warm_free(far) != WARM_OK || warm_free(second.kept) != WARM_OK;
    second.kept = host;
    if (host != NULL) {
        memset(host, 7, SECOND_BYTES);
    }
}

static void check_second(void)
{
    warm_space_stats stats = wt_pinned_stats(second.runtime);

    MUST(!second.wrong && second.kept[0] == 7 &&
             memcmp(second.kept, second.kept + 1, SECOND_BYTES - 1) == 0,
         "a second runtime refuses or has lost what is written");
    MUST(stats.live.current == 1, "its figures count others' blocks");
}

static void do_job(void *argument, unsigned index)
{
    use_second();
    job.status = job.range != NULL ? obtain(job.range, job.stream)
                                   : warm_free(job.freed);
}

static bool elsewhere(void)
{
    return model_pick(6) == 0;
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
    if (model_pick(6) == 0) {
        wt_threads(1, do_job, NULL);
    } else {
        sem_post(&other.go);
        while (sem_wait(&other.done) != 0) {
        }
    }
    check_second();
}

void model_begin_other(void)
{
    second.runtime = wt_runtime_with(.host_devices = DEVICES);
    second.stream = wt_stream(second.runtime, model.devices - 1);
    second.kept = NULL;
    second.wrong = false;
    other.over = false;
    sem_init(&other.go, 0, 0);
    sem_init(&other.done, 0, 0);
    ck_assert_int_eq(pthread_create(&other.thread, NULL, be_other, NULL), 0);
}

void model_end_other(void)
{
    other.over = true;
    sem_post(&other.go);
    pthread_join(other.thread, NULL);
    sem_destroy(&other.go);
    sem_destroy(&other.done);
    wt_ok(warm_free(second.kept));
    wt_stream_end(second.runtime, second.stream);
    wt_runtime_end(second.runtime);
}

static void check_block(struct range *r)
{
    warm_block_info info = {.size = sizeof info};

    wt_ok(warm_block_get_info(r->base, &info));
    MUST(info.pool.number == (r->pool != NULL ? r->pool->name.number : 0),
         "a block is of another pool");
    MUST(info.device == (model_is_far(r->space) ? r->space - 1 : -1),
         "of another space");
    r->pageable = info.pageable != 0;
    MUST(!r->pageable || r->flags != 0, "pageable");
    MUST(r->node == WARM_NODE_ANY || info.node == r->node, "of another node");
    model.allocated[r->space] += !r->pageable;
}

/* Mostly what threads have ready: a few sizes, and a stream for some time. */
static size_t any_bytes(void)
{
    return model_pick(2) == 0
               ? 4000 + model_pick(3) * 1000
               : 1 + model_pick((size_t)1 << (1 + model_pick(22)));
}

static struct stream *stream_for(int space)
{
    if (model.last[space] == NULL || model.last[space]->gone ||
        model_pick(4) == 0) {
        model.last[space] = model_is_far(space) ? model_stream_of(space - 1)
                                                : model_any_stream();
    }
    return model.last[space];
}

/* A node, and pageable memory while there is no other, but not for graphs. */
static void choose_place(struct range *r, const struct stream *s)
{
    if (model.nodes > 1) {
        r->node = (int)model_pick(model.nodes + 1) - 1;
    }
    if (model.dry && r->pool == NULL && s->capture == NULL) {
        r->flags = model_pick(2) == 0 ? WARM_ALLOC_PAGEABLE_OK : 0;
    }
}

void model_step_alloc(void)
{
    struct range r = {.space = (int)model_pick((uint64_t)model_spaces()),
                      .bytes = any_bytes(),
                      .node = WARM_NODE_ANY,
                      .pattern = wt_random(&model.random)};
    struct stream *s = stream_for(r.space);
    bool main_thread = s->mine || !elsewhere();
    warm_status status;

    if (model_is_far(r.space)) {
        r.own.stream = s;
    }
    if (!model_is_shared(r.space)) {
        r.pool = model_expected_pool(s, main_thread);
    }
    if (model_is_far(r.space) && s->capture != NULL) {
        if (!model_is_graphs(r.pool) &&
            (model.sealed || model.kept[r.space] >= KEPT_MOST)) {
            return;
        }
        r.lane = s->name;
        r.captured = !model_is_graphs(r.pool);
    }
    if (r.space == 0) {
        choose_place(&r, s);
    }
    if (main_thread) {
        status = obtain(&r, s);
    } else {
        job.range = &r;
        job.stream = s;
        do_elsewhere();
        status = job.status;
    }
    if (status == WARM_OUT_OF_MEMORY && (model.dry || model.limited)) {
        return;
    }
    wt_ok(status);
    check_block(&r);
    model_check_new(&r);
    fill(&r);
    model.live[model.lives++] = r;
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

/* A pool's memory for graphs stays with the streams it was allocated on. The
 * driver reveals only the address of a stream that captures: captures at one
 * address count as one stream, also if an earlier stream had the address. */
static bool is_own(const struct range *r, const struct stream *s)
{
    bool same = r->lane != NULL ? r->lane == s->name : r->own.stream == s;

    return same && (r->pool == NULL || r->pool->alive) &&
           (!r->own.over || model_is_graphs(r->pool)) &&
           (r->lane != NULL) == (s->capture != NULL);
}

/* What is used in a capture stays with the graph. */
static bool may_use(const struct range *r, const struct stream *s)
{
    return model_has_graphs(r)
               ? model.with_pools < KEPT_MOST
               : s->capture == NULL || (!model.sealed && !r->pageable &&
                                        model.kept[r->space] < KEPT_MOST);
}

void model_step_record(void)
{
    struct range *r = &model.live[model_pick(model.lives)];
    struct stream *s = model_any_stream();
    struct point *use = find_use(r, s);
    bool own = is_own(r, s);

    if ((s->by_name && r->own.stream == s) || !may_use(r, s) ||
        (use == NULL && r->uses == MODEL_USES)) {
        return;
    }
    if (s->mine) {
        look(r, s, own); /* only what was queued before the record counts */
    }
    wt_ok(warm_record_stream(r->base + model_pick(r->bytes), s->name));
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
    if (model_has_graphs(r)) {
        return r->uses > 0 || r->captured ? WITH_POOL : NOT_KEPT;
    }
    return r->captured ? FOR_EVER : NOT_KEPT;
}

/* Forgetting one that was not kept only makes the model less strict. */
static void remember(const struct range *r)
{
    unsigned at =
        model.freeds < FREED ? model.freeds++ : (unsigned)model_pick(FREED);

    while (model.freed[at].kept != NOT_KEPT || model.freed[at].users > 0) {
        at = (at + 1) % FREED;
    }
    model.freed[at] = *r;
    model.with_pools += r->kept == WITH_POOL;
}

void model_step_free(void)
{
    unsigned at = (unsigned)model_pick(model.lives);
    struct range r = model.live[at];
    struct stream *s = r.own.stream;

    r.kept = kept_of(&r);
    model.live[at] = model.live[--model.lives];
    if (s != NULL && !s->gone && model_pick(2) == 0 && is_own(&r, s)) {
        look(&r, s, true);
    }
    for (unsigned u = 0; u < r.uses; u++) {
        model_point_now(&r.use[u]);
    }
    model_point_now(&r.own);
    model.kept[r.space] += r.kept == FOR_EVER;
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

/* ---- users of shared buffers --------------------------------------------- */

void model_step_user(void)
{
    struct range *r = &model.live[model_pick(model.lives)];

    if (model_pick(2) == 0) {
        if (model_is_shared(r->space) && r->users < 3) {
            wt_ok(warm_shared_retain(r->base + model_pick(r->bytes)));
            r->users++;
        }
        return;
    }
    /* One that is freed, if there is one: users do not pile up. */
    for (unsigned i = 0; i < model.freeds && r->users == 0; i++) {
        r = &model.freed[i];
    }
    if (r->users > 0) {
        wt_ok(warm_shared_release(r->base + model_pick(r->bytes)));
        r->users--;
    }
}

void model_end_users(void)
{
    for (unsigned i = 0; i < model.freeds; i++) {
        for (; model.freed[i].users > 0; model.freed[i].users--) {
            wt_ok(warm_shared_release(model.freed[i].base));
        }
    }
    for (int d = 0; d < model.devices; d++) {
        wt_ok(warm_shared_free_inactive(model.runtime, d, NULL));
    }
}
