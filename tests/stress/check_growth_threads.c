/* check_growth_threads.c: many threads on a cache that grows and shrinks all
 * the while (rows B9, B10, B12, B17).
 *
 * Workers ask for anything between a page and several segments, record a stream
 * on every other block, and hold a few. A keeper asks for memory ahead and
 * calls it off, trims, empties the cache, has calls to the driver fail and
 * walks the arenas. Out of memory is an answer; anything else that is not OK is
 * a failure, and in the end everything must be back and add up. */
#include "wt.h"

#include <stdatomic.h>
#include <string.h>

enum { WORKERS = 4, KEEPER = WORKERS, HELD = 6 };
#define MIB ((size_t)1 << 20)

static struct shared {
    warm_runtime *runtime;
    warm_stream stream[WORKERS];
    _Atomic unsigned working;
    unsigned failures[WORKERS + 1];
    unsigned steps;
} s;

static const struct {
    const char *pin, *background;
    uint64_t limit, reserve, decay_ms, nodes;
} cases[] = {
    {"alloc", "off", 0, 0, 0, 1},
    {"alloc", "off", 40 * MIB, 0, 0, 1},
    {"register", "off", 24 * MIB, 0, 1, 1},
    {"alloc", "on", 0, 8 * MIB, 0, 1},
    {"alloc", "on", 40 * MIB, 12 * MIB, 1, 1},
    {"register", "on", 40 * MIB, 4 * MIB, 1, 2},
};

static bool good(warm_status status)
{
    return status == WARM_OK || status == WARM_OUT_OF_MEMORY;
}

static size_t some_size(uint64_t *random)
{
    return 4096 +
           wt_random(random) % ((size_t)1 << (12 + wt_random(random) % 11));
}

static unsigned replace(char **block, uint64_t *random, warm_stream stream)
{
    size_t bytes = some_size(random);
    unsigned failures = 0;
    void *pointer = NULL;

    if (*block != NULL) {
        if (wt_random(random) % 2 == 0) {
            failures += warm_record_stream(*block, stream) != WARM_OK;
        }
        failures += warm_free(*block) != WARM_OK;
        *block = NULL;
    }
    failures += !good(warm_pinned_alloc(s.runtime, bytes, &pointer));
    if (pointer != NULL) {
        *block = pointer;
        (*block)[0] = (*block)[bytes - 1] = 1;
    }
    return failures;
}

static void work(unsigned index)
{
    uint64_t random = wt_seed() + 7919 * (index + 1);
    char *block[HELD] = {NULL};
    unsigned failures = 0;

    for (unsigned i = 0; i < s.steps; i++) {
        failures += replace(&block[wt_random(&random) % HELD], &random,
                            s.stream[index]);
    }
    for (int i = 0; i < HELD; i++) {
        failures += warm_free(block[i]) != WARM_OK;
    }
    s.failures[index] = failures;
    atomic_fetch_sub_explicit(&s.working, 1, memory_order_release);
}

static unsigned look_after(uint64_t *random)
{
    static const char *const calls[] = {"pinned_alloc", "pinned_register",
                                        "pinned_free", "pinned_unregister",
                                        "event_query"};
    uint64_t done = 0, wanted = 0;
    unsigned failures = 0;

    switch (wt_random(random) % 8) {
    case 0:
        failures += !good(warm_pinned_prewarm(
            s.runtime, wt_random(random) % (12 * MIB), WARM_NODE_ANY, 0));
        break;
    case 1:
    case 2:
        failures += warm_pinned_prewarm(
                        s.runtime, 1 + wt_random(random) % (32 * MIB),
                        WARM_NODE_ANY, WARM_PREWARM_BACKGROUND) != WARM_OK;
        break;
    case 3:
        failures += warm_pinned_prewarm_cancel(s.runtime) != WARM_OK;
        break;
    case 4:
        failures += !good(warm_pinned_prewarm_wait(s.runtime));
        break;
    case 5:
        failures += warm_pinned_trim(s.runtime, 8 * MIB, NULL) != WARM_OK;
        break;
    case 6:
        failures += warm_testing_fail(s.runtime, calls[wt_random(random) % 5],
                                      1 + wt_random(random) % 3, 0) != WARM_OK;
        break;
    default:
        failures += warm_testing_check(s.runtime, 0) != WARM_OK;
        break;
    }
    failures +=
        warm_pinned_prewarm_progress(s.runtime, &done, &wanted) != WARM_OK ||
        done > wanted;
    return failures;
}

static void run(void *argument, unsigned index)
{
    uint64_t random = wt_seed();
    unsigned failures = 0;

    if (index < WORKERS) {
        work(index);
        return;
    }
    while (atomic_load_explicit(&s.working, memory_order_acquire) > 0) {
        failures += look_after(&random);
    }
    s.failures[KEEPER] = failures;
}

static void begin(int i)
{
    memset(&s, 0, sizeof s);
    wt_may_leak();
    s.runtime =
        wt_runtime_with(.segment = 1 * MIB, .pin_chunk = 4 * MIB,
                        .pin = cases[i].pin, .background = cases[i].background,
                        .pinned_high = cases[i].limit,
                        .reserve_bytes = cases[i].reserve,
                        .decay_ms = cases[i].decay_ms,
                        .test = wt_list("arenas=%d:numa_nodes=%d", 1 + i % 3,
                                        (int)cases[i].nodes));
    s.steps = wt_scaled(20000);
    atomic_store_explicit(&s.working, WORKERS, memory_order_relaxed);
    for (int k = 0; k < WORKERS; k++) {
        s.stream[k] = wt_stream(s.runtime, 0);
    }
}

static void end(void)
{
    warm_space_stats stats;

    wt_ok(warm_testing_fail(s.runtime, "pinned_alloc", 0, 0));
    wt_ok(warm_testing_fail(s.runtime, "pinned_register", 0, 0));
    wt_ok(warm_testing_fail(s.runtime, "pinned_free", 0, 0));
    wt_ok(warm_testing_fail(s.runtime, "pinned_unregister", 0, 0));
    wt_ok(warm_testing_fail(s.runtime, "event_query", 0, 0));
    wt_ok(warm_pinned_prewarm_cancel(s.runtime));
    (void)warm_pinned_prewarm_wait(s.runtime);
    for (int k = 0; k < WORKERS; k++) {
        wt_ok(warm_stream_synchronize(s.runtime, s.stream[k]));
        wt_ok(warm_stream_destroy(s.runtime, s.stream[k]));
    }
    wt_ok(warm_poll(s.runtime));
    stats = wt_pinned_stats(s.runtime);
    ck_assert_uint_eq(stats.live.current, 0);
    ck_assert_uint_eq(stats.pending.current, 0);
    ck_assert_uint_eq(stats.lost, 0);
    ck_assert_uint_eq(stats.idle_bytes, stats.held_bytes.current);
    wt_ok(warm_testing_check(s.runtime, 0));
    wt_runtime_end(s.runtime);
}

WT_LOOP_TEST(test_cache_that_grows_and_shrinks_under_many_threads,
             sizeof cases / sizeof cases[0])
{
    begin(_i);
    wt_threads(WORKERS + 1, run, NULL);
    for (int i = 0; i <= KEEPER; i++) {
        ck_assert_msg(s.failures[i] == 0, "thread %d: %u failures", i,
                      s.failures[i]);
    }
    end();
}
