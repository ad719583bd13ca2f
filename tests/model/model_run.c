/* model_run.c: the steps of a run of memory_model.h, and its begin and end. */
#include "model/memory_model.h"

#include <string.h>

struct memory_model model;
_Atomic unsigned long model_wrong;

/* ---- the rest ----------------------------------------------------------- */

static void step_supply(void)
{
    model.dry = !model.dry;
    wt_ok(warm_testing_fail(model.runtime, "pinned_alloc", model.dry, 1));
    wt_ok(warm_testing_fail(model.runtime, "device_alloc", model.dry, 1));
}

static void set_limits(bool limited)
{
    model.limited = limited;
    for (int d = 0; d < model.devices; d++) {
        double part = limited ? (double)(1 + model_pick(64)) / 4096 : 0;

        wt_ok(warm_watermarks_set_ratio(model.runtime, d, part, part / 2));
    }
}

static void step_trim(void)
{
    size_t target = model_pick(2) == 0 ? 0 : model_pick((size_t)64 << 20);
    int device = (int)model_pick((uint64_t)model_spaces()) - 1;

    if (device < 0) {
        wt_ok(warm_pinned_trim(model.runtime, target, NULL));
    } else if (device >= model.devices) {
        wt_ok(warm_shared_trim(model.runtime, device - model.devices, 0, NULL));
    } else {
        wt_ok(warm_device_trim(model.runtime, device, target, NULL));
    }
}

static void step_bad_pointer(void)
{
    const struct range *r = &model.live[model_pick(model.lives)];

    if (r->bytes > 1) {
        wt_fails(WARM_INVALID_POINTER,
                 warm_free(r->base + 1 + model_pick(r->bytes - 1)));
    }
    wt_fails(WARM_INVALID_POINTER, warm_free(&model));
    wt_fails(WARM_NOT_FOUND,
             warm_record_stream(&model, model_any_stream()->name));
}

void model_drain(void)
{
    while (model.captures > 0) {
        model_end_capture(0);
    }
    for (unsigned i = 0; i < model.nows; i++) {
        model_release_hold(model.now[i]);
    }
    for (size_t i = 0; i < model.evers; i++) {
        model_await(&model.ever[i]);
    }
    model_end_users();
    for (int i = 0; i < model_spaces(); i++) {
        do {
            wt_ok(warm_poll(model.runtime));
        } while (model_pending(i) > 0);
    }
}

/* ---- a run --------------------------------------------------------------- */

void model_step(void)
{
    uint64_t what = model_pick(1000);

    if (what < 3) {
        model_step_replace();
    } else if (what < 8) {
        model_step_adopt();
    } else if (what < 50) {
        model_step_hold();
    } else if (what < 62) {
        model_step_capture();
    } else if (what < 80) {
        model_step_graph();
    } else if (what < 90) {
        model_step_pool();
    } else if (what < 93) {
        step_trim();
    } else if (what < 96) {
        wt_ok(warm_poll(model.runtime));
    } else if (what < 98) {
        step_supply();
    } else if (what < 100) {
        set_limits(model_pick(2) == 0);
    } else if (what < 103 && model.lives > 0) {
        step_bad_pointer();
    } else if (what < 140 && model.lives > 0) {
        model_step_user();
    } else if (what < 380 && model.lives > 0) {
        model_step_record();
    } else if (model.lives == LIVE || (model.lives > 0 && what < 690)) {
        model_step_free();
    } else {
        model_step_alloc();
    }
}

static void be_silent(void *context, warm_log_level level, const char *line)
{
}

/* What runs are like. sealed: graphs have memory of pools only, so that in the
 * end all goes back. */
static const struct {
    bool sealed;
    unsigned nodes;
    warm_options options;
} kinds[MODEL_KINDS] = {
    {true, 0, {.test = "arenas=1", .stream_wait = "off"}},
    {false,
     0,
     {.test = "arenas=4",
      .keep = WARM_OFF,
      .history = 500,
      .stream_wait = "off"}},
    {false,
     0,
     {.test = "arenas=4:batch_ms=1", .background = "on", .decay_ms = 1}},
    {true,
     2,
     {.test = "arenas=4:numa_nodes=2", .history = 500, .segment = 1 << 18}},
    {true,
     0,
     {.test = "arenas=4:batch_ms=1",
      .background = "on",
      .decay_ms = 1,
      .pin_chunk = 64 << 10}}};

static int64_t records; /* that the library has without a runtime */

void model_begin(unsigned kind, unsigned long steps)
{
    warm_options options = kinds[kind].options;
    unsigned at = 0;

    memset(&model, 0, sizeof model);
    atomic_store_explicit(&model_wrong, 0, memory_order_relaxed);
    model.random = wt_seed();
    model.sealed = kinds[kind].sealed;
    model.beside = kinds[kind].options.background != NULL;
    model.nodes = kinds[kind].nodes;
    model.most_ever = STREAMS + steps / 50;
    model.waits = kinds[kind].options.stream_wait == NULL ||
                  strcmp(kinds[kind].options.stream_wait, "off") != 0;
    model.ever = calloc(model.most_ever, sizeof *model.ever);
    model.pools_ever = calloc(model.most_ever, sizeof *model.pools_ever);
    ck_assert(model.ever != NULL && model.pools_ever != NULL);
    warm_log_set(be_silent, NULL);
    setenv("STANDIN_DEVICES", "3", 1); /* read by the first runtime */
    wt_runtime_end(wt_runtime(NULL));
    records = wt_metadata_live();
    options.size = sizeof options;
    options.host_devices = DEVICES;
    options.limit_wait_ms = 1; /* streams stay held while a request waits */
    model.runtime = wt_runtime(&options);
    wt_ok(warm_device_count(model.runtime, &model.devices));
    model.devices = model.devices < DEVICES ? model.devices : DEVICES;
    model_begin_work();
    /* Held streams are not waited for: what goes back is what has passed. */
    wt_ok(warm_testing_fail(model.runtime, "event_synchronize", 1, 1));
    for (int d = 0; d < model.devices; d++) {
        model.launcher[d] = model_new_stream(d);
        for (int i = 0; i < EACH; i++) {
            model.now[at++] = model_new_stream(d);
        }
    }
    model.now[at++] = model_named_stream(WARM_STREAM_LEGACY, false);
    model.now[at++] = model_named_stream(WARM_STREAM_PER_THREAD, true);
    model.nows = at;
    model_begin_other();
}

static void empty_caches(void)
{
    wt_ok(warm_pinned_trim(model.runtime, 0, NULL));
    for (int d = 0; d < model.devices; d++) {
        wt_ok(warm_shared_trim(model.runtime, d, 0, NULL));
        wt_ok(warm_device_trim(model.runtime, d, 0, NULL));
    }
}

static bool holds_any(void)
{
    for (int i = 0; i < model_spaces(); i++) {
        if (model_held(i) != 0 && model.kept[i] == 0) {
            return true;
        }
    }
    return false;
}

void model_end(void)
{
    model_drain();
    wt_ok(warm_testing_fail(model.runtime, "event_synchronize", 0, 0));
    while (model.graphs > 0) {
        model_drop_graph(model.graph[--model.graphs]);
    }
    while (model.recordings > 0) {
        model_end_pool(model.recording[0]);
    }
    while (model.lives > 0) {
        model_step_free();
    }
    while (model.pools > 0) {
        model_release_pool(model.pool[0]);
    }
    model_drain();
    model_check_arenas();
    model_check_figures();
    for (unsigned i = 0; i < model.nows; i++) {
        if (!model.now[i]->by_name) {
            wt_ok(warm_stream_destroy(model.runtime, model.now[i]->name));
        }
    }
    model_end_other();
    for (int d = 0; d < model.devices; d++) {
        wt_ok(warm_stream_destroy(model.runtime, model.launcher[d]->name));
    }
    empty_caches();
    /* What the background thread is returning is held until it has done so. */
    while (model.beside && holds_any()) {
        empty_caches();
        sched_yield();
    }
    MUST(!holds_any(), "memory is held");
    wt_runtime_end(model.runtime);
    model_end_work();
    warm_log_set(NULL, NULL);
    free(model.ever);
    free(model.pools_ever);
    /* This thread's windows of runtimes that are gone: of work and the second
     * one, too. And the list of what forked children do not get, if any memory
     * is kept. */
    ck_assert_int_le(wt_metadata_live(), records + (wt_on_host() ? 3 : 4));
}
