/* check_snapshot_threads.c: snapshots while threads allocate and free, of a
 * device and pinned, with streams that hold blocks up, and the cache emptied
 * (row C7). Each text is complete and consistent: for each place, undoing the
 * events one by one leads from the blocks shown back to the start. */
#include "wt.h"
#include "wt_viz.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { WORKERS = 3, READERS = 2, HELD = 8, TEXT = 16 << 20 };

static struct shared {
    warm_runtime *runtime;
    warm_stream stream;
    unsigned steps;
    _Atomic unsigned working, failures, reads;
    char wrong[READERS][256];
} s;

static void ok(warm_status status)
{
    if (status != WARM_OK) {
        atomic_fetch_add_explicit(&s.failures, 1, memory_order_relaxed);
    }
}

static void *take(uint64_t *random)
{
    size_t bytes = (size_t)64 << (wt_random(random) % 16);
    void *block = NULL;

    if (wt_random(random) % 2 == 0) {
        ok(warm_device_alloc(s.runtime, 0, s.stream, bytes, &block));
    } else {
        ok(warm_pinned_alloc(s.runtime, bytes, &block));
    }
    if (wt_random(random) % 4 == 0) {
        ok(warm_record_stream(block, s.stream));
    }
    return block;
}

static void work(unsigned index)
{
    uint64_t random = wt_seed() + index;
    void *block[HELD] = {NULL};

    for (unsigned i = 0; i < s.steps; i++) {
        size_t k = wt_random(&random) % HELD;

        ok(warm_free(block[k]));
        block[k] = take(&random);
        if (i % 64 == 0) {
            ok(warm_device_trim(s.runtime, 0, 0, NULL));
            ok(warm_pinned_trim(s.runtime, 0, NULL));
        }
        if (i % 32 == 0) {
            ok(warm_memory_tag_set(i % 64 == 0 ? "even" : NULL));
        }
    }
    for (int i = 0; i < HELD; i++) {
        ok(warm_free(block[i]));
    }
    atomic_fetch_sub_explicit(&s.working, 1, memory_order_release);
}

static bool viz_is_good(wt_viz *viz, const char *text, char *wrong)
{
    json_t *all = wt_json_read(text);
    size_t places = json_array_size(json_object_get(all, "device_traces"));
    bool good = places > 0;

    if (!good) {
        snprintf(wrong, 256, "no traces in %.200s", text);
    }
    for (size_t i = 0; good && i < places; i++) {
        good = wt_viz_check(viz, all, i);
        if (!good) {
            snprintf(wrong, 256, "place %zu: %.200s", i, viz->wrong);
        }
    }
    json_decref(all);
    return good;
}

static bool is_good(wt_viz *viz, char *text, char *wrong)
{
    ok(warm_snapshot_viz(s.runtime, text, TEXT, NULL));
    return viz_is_good(viz, text, wrong);
}

static void read_on(unsigned index)
{
    wt_viz *viz = malloc(sizeof *viz);
    char *text = malloc(TEXT);
    bool good = viz != NULL && text != NULL;

    while (good && atomic_load_explicit(&s.working, memory_order_acquire) > 0) {
        good = is_good(viz, text, s.wrong[index]);
        atomic_fetch_add_explicit(&s.reads, 1, memory_order_relaxed);
    }
    if (!good) {
        ok(WARM_UNSUPPORTED);
    }
    free(text);
    free(viz);
}

static void work_or_read(void *argument, unsigned index)
{
    if (index < WORKERS) {
        work(index);
    } else {
        read_on(index - WORKERS);
    }
}

static const struct {
    uint64_t history, frames;
    const char *test;
} kinds[] = {{0, 0, "arenas=3"},
             {3, 0, "arenas=1"},
             {200, 0, "arenas=2:numa_nodes=2"},
             {4000, 8, "arenas=4"}};

WT_CASE("threads", .timeout = 120);

WT_LOOP_TEST(test_C7_snapshots_while_threads_allocate,
             sizeof kinds / sizeof kinds[0])
{
    s.runtime =
        wt_runtime_with(.segment = 1 << 20, .history = kinds[_i].history,
                        .history_frames = kinds[_i].frames,
                        .test = kinds[_i].test);
    s.steps = wt_scaled(1500);
    s.stream = wt_stream(s.runtime, 0);
    atomic_store_explicit(&s.working, WORKERS, memory_order_relaxed);
    wt_threads(WORKERS + READERS, work_or_read, NULL);
    for (int i = 0; i < READERS; i++) {
        ck_assert_str_eq(s.wrong[i], "");
    }
    ck_assert_uint_eq(s.failures, 0);
    wt_ok(warm_stream_synchronize(s.runtime, s.stream));
    wt_ok(warm_stream_destroy(s.runtime, s.stream));
    wt_ok(warm_poll(s.runtime));
    wt_runtime_end(s.runtime);
}
