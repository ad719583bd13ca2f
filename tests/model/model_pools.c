/* model_pools.c: private pools, and which allocations they serve. */
#include "model/memory_model.h"

static int is_stream(void *context, warm_stream stream)
{
    return stream == ((struct pool *)context)->stream;
}

static int is_any(void *context, warm_stream stream)
{
    return 1;
}

void model_begin_pool(struct pool *pool, const struct stream *s)
{
    uint64_t before = pool->name.number;
    warm_pool_filter_fn filter = NULL;

    pool->filter = s != NULL            ? OF_STREAM
                   : model_pick(2) == 0 ? OF_THREAD
                                        : OF_ALL;
    if (pool->filter != OF_THREAD) {
        filter = pool->filter == OF_ALL ? is_any : is_stream;
    }
    pool->stream = s != NULL ? s->name : NULL;
    wt_ok(warm_private_pool_begin(model.runtime, &pool->name,
                                  pool->user ? WARM_POOL_USER : 0, filter,
                                  pool));
    MUST(before == 0 || before == pool->name.number, "a pool's number changed");
    pool->references++;
    pool->recording = pool->alive = true;
    model.recording[model.recordings++] = pool;
}

struct pool *model_make_pool(bool user)
{
    struct pool *pool;

    if (model.pools == POOLS || model.pools_made == model.most_ever) {
        return NULL;
    }
    pool = &model.pools_ever[model.pools_made++];
    pool->user = user;
    model.pool[model.pools++] = pool;
    return pool;
}

/* What streams may use is recorded for them now, or when they capture no more.
 */
static void let_range_go(struct range *r)
{
    for (unsigned u = 0; u < r->uses; u++) {
        model_point_now(&r->use[u]);
    }
    r->kept = NOT_KEPT;
    model.with_pools--;
}

void model_end_pool(struct pool *pool)
{
    unsigned i = 0;

    wt_ok(warm_private_pool_end(model.runtime, pool->name));
    pool->recording = false;
    while (model.recording[i] != pool) {
        i++;
    }
    model.recordings--;
    for (; i < model.recordings; i++) {
        model.recording[i] = model.recording[i + 1];
    }
}

/* What its graphs had waits for work outside of them, from now on. */
static void let_go(struct pool *pool)
{
    for (unsigned i = 0; i < model.lives; i++) {
        if (model.live[i].pool == pool && model_is_graphs(pool)) {
            model.live[i].captured = false;
        }
    }
    for (unsigned i = 0; i < model.freeds; i++) {
        struct range *r = &model.freed[i];

        if (r->pool == pool && r->kept == WITH_POOL) {
            let_range_go(r);
        }
    }
}

void model_release_pool(struct pool *pool)
{
    unsigned i = 0;

    if (pool->references == 1 && pool->recording) {
        wt_invalid(warm_private_pool_release(model.runtime, pool->name));
        return;
    }
    wt_ok(warm_private_pool_release(model.runtime, pool->name));
    if (--pool->references > 0) {
        return;
    }
    pool->alive = false;
    let_go(pool);
    while (model.pool[i] != pool) {
        i++;
    }
    model.pool[i] = model.pool[--model.pools];
    wt_fails(WARM_NOT_FOUND,
             warm_private_pool_retain(model.runtime, pool->name));
}

/* References that no graph has; what graphs still launch is theirs. */
static unsigned spare_references(const struct pool *pool)
{
    unsigned count = pool->references;

    for (unsigned i = 0; i < model.graphs; i++) {
        count -= model.graph[i]->pool == pool;
    }
    for (unsigned i = 0; i < model.captures; i++) {
        count -= model.capture[i]->pool == pool;
    }
    return count;
}

void model_step_pool(void)
{
    struct pool *pool =
        model.pools > 0 ? model.pool[model_pick(model.pools)] : NULL;

    if (pool == NULL || model_pick(4) == 0) {
        pool = model_make_pool(model_pick(2) == 0);
        if (pool != NULL) {
            model_begin_pool(pool,
                             model_pick(2) == 0 ? model_any_stream() : NULL);
        }
    } else if (pool->recording && model_pick(3) != 0) {
        model_end_pool(pool);
    } else if (!pool->recording && model_pick(3) == 0) {
        model_begin_pool(pool, model_pick(2) == 0 ? model_any_stream() : NULL);
    } else if (model_pick(8) == 0) {
        wt_ok(warm_private_pool_retain(model.runtime, pool->name));
        pool->references++;
    } else if (spare_references(pool) > 0) {
        model_release_pool(pool);
    }
}

/* The innermost one that matches. */
struct pool *model_expected_pool(const struct stream *s, bool main_thread)
{
    for (unsigned i = model.recordings; i-- > 0;) {
        struct pool *p = model.recording[i];

        if (p->filter == OF_ALL || (p->filter == OF_THREAD && main_thread) ||
            (p->filter == OF_STREAM && p->stream == s->name)) {
            return p;
        }
    }
    return NULL;
}
