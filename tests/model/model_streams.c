/* model_streams.c: held, retired, adopted, replaced. */
#include "model/memory_model.h"

struct stream *model_new_stream(int device)
{
    struct stream *s = &model.ever[model.evers++];

    ck_assert_uint_le(model.evers, model.most_ever);
    s->device = device;
    s->adopted = true;
    wt_ok(warm_stream_create(model.runtime, device, &s->name));
    return s;
}

struct stream *model_named_stream(warm_stream name, bool mine)
{
    struct stream *s = &model.ever[model.evers++];

    s->name = name;
    s->by_name = true;
    s->mine = mine;
    return s;
}

struct stream *model_any_stream(void)
{
    return model.now[model_pick(model.nows)];
}

struct stream *model_stream_of(int device)
{
    struct stream *s = model_any_stream();

    while (s->device != device) {
        s = model_any_stream();
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
    for (unsigned i = 0; i < model.lives; i++) {
        fix_points(s, &model.live[i]);
    }
    for (unsigned i = 0; i < model.freeds; i++) {
        if (model.freed[i].kept == WITH_POOL) {
            fix_points(s, &model.freed[i]);
        }
    }
}

void model_release_hold(struct stream *s)
{
    if (s->held) {
        wt_stall_end(model.runtime, s->name);
        s->held = false;
    }
}

void model_step_hold(void)
{
    struct stream *s = model_any_stream();

    if (!s->held) {
        wt_stall(model.runtime, s->name);
        s->held = true;
    } else if (!model.waits && model_pick(3) != 0) {
        wt_stall_step(model.runtime, s->name, 1 + (unsigned)model_pick(4));
    } else {
        model_release_hold(s);
    }
}

/* Its work may go on after its end, and another one have its address. */
void model_step_replace(void)
{
    unsigned i = (unsigned)model_pick(model.nows);
    struct stream *s = model.now[i];

    if (s->by_name || s->capture != NULL || model.evers == model.most_ever) {
        return;
    }
    model_release_hold(s);
    for (unsigned k = 0; k < model.nows && model.waits; k++) {
        model_release_hold(model.now[k]); /* it may wait for that */
    }
    if (model.captures == 0 && model_pick(2) == 0) {
        wt_ok(warm_stream_synchronize(model.runtime, s->name));
    }
    wt_ok(warm_stream_destroy(model.runtime, s->name));
    retired(s);
    s->gone = true;
    model.now[i] = model_new_stream(s->device);
}

void model_step_adopt(void)
{
    struct stream *s = model_any_stream();

    if (s->by_name || s->capture != NULL) {
        return;
    }
    if (model_pick(2) == 0) {
        wt_ok(warm_stream_adopt(model.runtime, s->name));
        s->adopted = true;
    } else {
        wt_ok(warm_stream_retire(model.runtime, s->name));
        retired(s);
        s->adopted = false;
    }
}
