/* check_runtime.c: pins, the list of runtimes, and faults while one is made
 * (rows A5, G2, G6).
 * backends: host, standin */
#include "wt.h"

#include "runtime/base/meta.h"
#include "runtime/thread/control.h"

#include <stdatomic.h>

START_TEST(test_A5_G2_a_pin_is_refused_once_the_runtime_closes)
{
    warm_runtime *runtime = wt_runtime(NULL);

    ck_assert(wm_runtime_pin(runtime));
    wm_runtime_unpin(runtime);
    wt_runtime_end(runtime);
    ck_assert(!wm_runtime_pin(runtime));
    ck_assert_uint_eq(runtime->pinned_threads, 0);
    ck_assert(!wm_runtime_begin_close(runtime));
}
END_TEST

struct closer {
    warm_runtime *runtime;
    _Atomic int done;
};

static void *close_it(void *argument)
{
    struct closer *closer = argument;

    (void)warm_runtime_destroy(closer->runtime, NULL);
    closer->done = 1;
    return NULL;
}

START_TEST(test_A5_G2_destroy_waits_for_pinned_threads)
{
    struct closer closer = {wt_runtime(NULL), 0};
    warm_runtime *runtime = closer.runtime;
    wt_linger linger = {0};
    pthread_t thread;

    ck_assert(wm_runtime_pin(runtime));
    pthread_create(&thread, NULL, close_it, &closer);
    while (atomic_load(&runtime->state) == WM_RUNTIME_LIVE) {
        sched_yield();
    }
    /* CLOSING: the pools are still there for whoever is pinned, however
     * often the other thread has its turn. */
    while (wt_lingers(&linger)) {
    }
    ck_assert_int_eq(runtime->state, WM_RUNTIME_CLOSING);
    ck_assert_ptr_nonnull(runtime->pools);
    ck_assert_int_eq(closer.done, 0);
    wt_fails(WARM_RUNTIME_GONE, wm_runtime_check(runtime));
    ck_assert(!wm_runtime_pin(runtime));
    wm_runtime_unpin(runtime);
    pthread_join(thread, NULL);
    ck_assert_int_eq(closer.done, 1);
    ck_assert_int_eq(runtime->state, WM_RUNTIME_GONE);
}
END_TEST

static void count_one(warm_runtime *runtime, void *argument)
{
    (void)runtime;
    ++*(unsigned *)argument;
}

START_TEST(test_G2_only_live_runtimes_are_visited)
{
    warm_runtime *a = wt_runtime(NULL), *b = wt_runtime(NULL);
    unsigned count = 0;

    wm_runtime_each(count_one, &count);
    ck_assert_uint_eq(count, 2);
    wt_runtime_end(a);
    count = 0;
    wm_runtime_each(count_one, &count);
    ck_assert_uint_eq(count, 1);
    wt_runtime_end(b);
}
END_TEST

/* Metadata fails at the n-th allocation, once and from then on, until a
 * runtime can be made: nothing may be left behind by those that failed. */
START_TEST(test_G2_G6_a_runtime_without_memory_leaves_nothing)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda"};
    warm_runtime *runtime = NULL;
    warm_status status = WARM_OUT_OF_MEMORY;
    int64_t live;
    unsigned n = 0;

    /* What the process keeps for ever is made by the first runtime. */
    wt_runtime_end(wt_runtime(NULL));
    live = wm_meta_live();
    while (status != WARM_OK && ++n < 200) {
        wm_meta_fail(n, _i != 0);
        status = warm_runtime_create(&options, &runtime);
        wm_meta_fail(0, false);
        if (status != WARM_OK) {
            ck_assert_int_eq(status, WARM_OUT_OF_MEMORY);
            ck_assert_ptr_null(runtime);
            ck_assert_int_eq(wm_meta_live(), live);
        }
    }
    ck_assert_uint_gt(n, 5);
    wt_ok(status);
    wt_runtime_end(runtime);
    ck_assert_int_eq(wm_meta_live(), live + 1); /* the block itself stays */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime");
    TCase *tcase = tcase_create("control");

    tcase_add_test(tcase, test_A5_G2_a_pin_is_refused_once_the_runtime_closes);
    tcase_add_test(tcase, test_A5_G2_destroy_waits_for_pinned_threads);
    tcase_add_test(tcase, test_G2_only_live_runtimes_are_visited);
    tcase_add_loop_test(
        tcase, test_G2_G6_a_runtime_without_memory_leaves_nothing, 0, 2);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
