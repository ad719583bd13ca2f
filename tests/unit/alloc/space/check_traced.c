/* check_traced.c: what a snapshot tells of a block that is just being allocated
 * or freed (row C7): between its change of hands and the event of that. Threads
 * are stopped there by calling the space instead of the public functions. */
/* memcheck: one process */
#include "wt.h"
#include "wt_viz.h"

#include "alloc/kinds/pinned.h"

static warm_runtime *runtime;
static char text[1 << 18];
static wt_viz viz;

static void setup(void)
{
    warm_options options = {
        .size = sizeof options, .device = "host", .history = 100};

    wt_ok(warm_runtime_create(&options, &runtime));
}

static void teardown(void)
{
    wt_runtime_end(runtime);
}

static wm_space *space_now(void)
{
    return &runtime->pinned->space;
}

/* A block whose alloc is not told. */
static void *take_untold(size_t bytes)
{
    wm_request request = {.bytes = bytes,
                          .arena = wm_group_arena(&space_now()->group, 0)};
    void *pointer = NULL;

    wt_ok(wm_space_alloc(space_now(), &request, &pointer));
    return pointer;
}

static void assert_viz(size_t blocks)
{
    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, NULL));
    ck_assert(wt_json_is_whole(text));
    ck_assert_msg(wt_viz_check(&viz, text, 1), "%s", viz.wrong);
    ck_assert_uint_eq(viz.blocks.count, blocks);
}

/* The block at an address of node 0, as it is told. */
static const char *told(const void *address)
{
    const char *s, *b = NULL;

    wt_ok(warm_pinned_snapshot(runtime, text, sizeof text, NULL));
    s = wt_json_first(
        wt_json_get(wt_json_at(wt_json_get(text, "nodes"), 0), "segments"));
    for (; s != NULL && b == NULL; s = wt_json_next(s)) {
        b = wt_json_first(wt_json_get(s, "blocks"));
        while (b != NULL &&
               wt_json_get_number(b, "address") != (uintptr_t)address) {
            b = wt_json_next(b);
        }
    }
    ck_assert_ptr_nonnull(b);
    return b;
}

START_TEST(test_C7_block_without_its_alloc_is_not_active_yet)
{
    void *block = take_untold(70000);
    const char *b = told(block);

    ck_assert(wt_json_is(wt_json_get(b, "state"), "live"));
    ck_assert_uint_eq(wt_json_get_number(b, "requested"), 70000);
    ck_assert_ptr_null(wt_json_get(b, "thread"));
    assert_viz(0);
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_C7_who_had_it_before_does_not_have_it_now)
{
    void *block = NULL;

    wt_ok(warm_memory_tag_set("before"));
    wt_ok(warm_pinned_alloc(runtime, 70000, &block));
    ck_assert(wt_json_is(wt_json_get(told(block), "tag"), "before"));
    wt_ok(warm_free(block));
    wt_ok(warm_memory_tag_set(NULL));
    ck_assert_ptr_eq(take_untold(70000), block);
    ck_assert(wt_json_is(wt_json_get(told(block), "state"), "live"));
    ck_assert_ptr_null(wt_json_get(told(block), "tag"));
    ck_assert_ptr_null(wt_json_get(told(block), "thread"));
    assert_viz(0);
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_C7_block_without_its_free_is_active_still)
{
    void *block = NULL;
    wm_block *record;

    wt_ok(warm_pinned_alloc(runtime, 70000, &block));
    record = wm_space_find(block);
    ck_assert_ptr_nonnull(record);
    atomic_store_explicit(&record->state, WM_BLOCK_FREEING,
                          memory_order_relaxed);
    ck_assert(wt_json_is(wt_json_get(told(block), "state"), "live"));
    ck_assert_ptr_nonnull(wt_json_get(told(block), "thread"));
    assert_viz(0);
    wm_space_free(space_now(), record);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("traced");
    TCase *tcase = tcase_create("between");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_C7_block_without_its_alloc_is_not_active_yet);
    tcase_add_test(tcase, test_C7_who_had_it_before_does_not_have_it_now);
    tcase_add_test(tcase, test_C7_block_without_its_free_is_active_still);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
