/* model_graphs.c: captures, and graphs that are launched. */
#include "model/memory_model.h"

static void join(struct stream *from, struct stream *to)
{
    warm_event event = NULL;

    wt_ok(warm_event_create(model.runtime, from->device, &event));
    wt_ok(warm_event_record(model.runtime, event, from->name));
    wt_ok(warm_stream_wait_event(model.runtime, to->name, event));
    wt_ok(warm_event_destroy(model.runtime, event));
}

/* With a pool for its memory, mostly. */
static void begin_capture(void)
{
    struct stream *s = model_any_stream(), *branch = model_stream_of(s->device);
    struct capture *c;
    struct pool *pool = NULL;

    if (s->by_name || s->capture != NULL || model.captures == CAPTURES) {
        return;
    }
    if (model_pick(4) != 0) {
        pool = model.pools > 0 && model_pick(2) == 0
                   ? model.pool[model_pick(model.pools)]
                   : model_make_pool(false);
        if (pool != NULL && !pool->recording) {
            model_begin_pool(pool, s);
        }
    }
    c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->origin = s;
    c->device = s->device;
    c->last = &c->work;
    /* CUDA breaks those of which nothing tells, when memory goes back. */
    c->announced = s->adopted || model_pick(2) == 0 || !wt_on_host();
    if (c->announced) {
        wt_ok(warm_capture_begin(model.runtime, s->name));
    } else {
        wt_ok(warm_testing_capture_begin(model.runtime, s->name));
    }
    s->capture = c;
    if (branch != s && !branch->by_name && branch->capture == NULL &&
        (c->announced || !branch->adopted)) {
        join(s, branch);
        c->branch = branch;
        branch->capture = c;
    }
    model.capture[model.captures++] = c;
}

void model_drop_graph(struct capture *c)
{
    wt_ok(warm_graph_destroy(model.runtime, c->graph));
    if (c->pool != NULL) {
        model_release_pool(c->pool);
    }
    while (c->work != NULL) {
        struct work *next = c->work->next;

        model_drop_work(c->work);
        c->work = next;
    }
    free(c);
}

void model_end_capture(unsigned at)
{
    struct capture *c = model.capture[at];

    model.capture[at] = model.capture[--model.captures];
    if (c->branch != NULL) {
        join(c->branch, c->origin);
        c->branch->capture = NULL;
    }
    if (c->announced) {
        wt_ok(warm_capture_end(model.runtime, c->origin->name, &c->graph));
    } else {
        wt_ok(warm_testing_capture_end(model.runtime, c->origin->name,
                                       &c->graph));
    }
    c->origin->capture = NULL;
    for (unsigned i = 0; i < model.lives; i++) {
        model.live[i].by = model.live[i].by == c ? NULL : model.live[i].by;
    }
    if (model.graphs == GRAPHS || c->work == NULL) {
        model_drop_graph(c);
    } else {
        model.graph[model.graphs++] = c;
    }
    for (unsigned i = model.recordings; i-- > 0 && model_pick(3) != 0;) {
        model_end_pool(model.recording[i]);
    }
}

void model_step_capture(void)
{
    if (model.captures == 0 || model_pick(3) == 0) {
        begin_capture();
    } else {
        model_end_capture((unsigned)model_pick(model.captures));
    }
}

/* Graphs of a device are launched on one stream: never two at once. */
void model_step_graph(void)
{
    unsigned at = model.graphs > 0 ? (unsigned)model_pick(model.graphs) : 0;
    struct capture *c = model.graph[at];
    struct stream *launcher;

    if (model.graphs == 0) {
        return;
    }
    launcher = model.launcher[c->device];
    if (model_pick(8) != 0) {
        wt_ok(warm_graph_launch(model.runtime, c->graph, launcher->name));
        model_queue(model.runtime, launcher, (struct work){.step = model.step});
        return;
    }
    model_await(launcher);
    model.graph[at] = model.graph[--model.graphs];
    model_drop_graph(c);
}
