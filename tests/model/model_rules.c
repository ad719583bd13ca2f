/* model_rules.c: which allocation may get which freed memory. */
#include "model/memory_model.h"

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
    if (!model_is_far(old->space) ||
        (old->lane != NULL && !model_has_graphs(old))) {
        return true;
    }
    if (model_has_graphs(old)) {
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

    if (!model.waits || s->capture != NULL || s->by_name) {
        return false;
    }
    o = malloc(sizeof *o);
    ck_assert_ptr_nonnull(o);
    *o = (struct order){old->own, model.step};
    wt_ok(warm_stream_host_func(model.runtime, s->name, is_behind, o));
    model_queue(model.runtime, s, (struct work){.step = model.step});
    return true;
}

static const char *wrong_to_get(const struct range *old,
                                const struct range *fresh)
{
    if (old->users > 0) {
        return "handed out while it has users";
    }
    if (old->kept == FOR_EVER) {
        return "a graph may use what was handed out";
    }
    if (old->kept == WITH_POOL) {
        return "graphs of a pool have what was handed out";
    }
    if (model_has_graphs(old) && old->pool != fresh->pool) {
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
    return old->kept == NOT_KEPT && old->users == 0 && !model_has_graphs(old) &&
           all_passed(old, NULL) && model_has_passed(&old->own);
}

void model_check_new(const struct range *fresh)
{
    for (unsigned i = 0; i < model.lives; i++) {
        MUST(!model_overlap(model.live[i].base, model.live[i].bytes,
                            fresh->base, fresh->bytes),
             "two live blocks overlap");
    }
    for (unsigned i = 0; i < model.freeds;) {
        if (is_history(&model.freed[i])) {
            model.freed[i] = model.freed[--model.freeds];
            model.freed[model.freeds].kept = NOT_KEPT;
            model.freed[model.freeds].users = 0;
            continue;
        }
        if (model_overlap(model.freed[i].base, model.freed[i].bytes,
                          fresh->base, fresh->bytes)) {
            const char *why = wrong_to_get(&model.freed[i], fresh);

            MUST(why == NULL, why);
        }
        i++;
    }
}
