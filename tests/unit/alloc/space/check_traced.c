/* check_traced.c: what a snapshot shows of a block that is just being allocated
 * or freed (row C7): between its change of state and its event in the history.
 * Tests stop there by calling the space instead of the public functions. */
/* memcheck: one process */
#include "wt.h"
#include "wt_viz.h"

#include "alloc/kinds/pinned.h"

static warm_runtime *runtime;
static json_t *snapshot; /* the last one */
static wt_viz viz;

static void setup(void)
{
    warm_options options = {
        .size = sizeof options, .device = "host", .history = 100};

    wt_ok(warm_runtime_create(&options, &runtime));
}

static void teardown(void)
{
    json_decref(snapshot);
    snapshot = NULL;
    wt_runtime_end(runtime);
}

static wm_space *space_now(void)
{
    return &runtime->pinned->space;
}

/* A block whose alloc event is missing. */
static void *take_unrecorded(size_t bytes)
{
    wm_request request = {.bytes = bytes,
                          .arena = wm_group_arena(&space_now()->group, 0)};
    void *pointer = NULL;

    wt_ok(wm_space_alloc(space_now(), &request, &pointer));
    return pointer;
}

static void read_snapshot(void)
{
    static char text[1 << 18];

    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, NULL));
    json_decref(snapshot);
    snapshot = wt_json_read(text);
    ck_assert_msg(snapshot != NULL, "not JSON: %s", text);
}

static void assert_viz(size_t blocks)
{
    read_snapshot();
    ck_assert_msg(wt_viz_check(&viz, snapshot, 1), "%s", viz.wrong);
    ck_assert_uint_eq(viz.blocks.count, blocks);
}

/* The block at an address, as the snapshot shows it. */
static const json_t *shown(const void *address)
{
    const json_t *s, *b;
    size_t i, k;

    read_snapshot();
    json_array_foreach (wt_json_at(snapshot, "segments"), i, s) {
        json_array_foreach (json_object_get(s, "blocks"), k, b) {
            if (wt_json_get_number(b, "address") == (uintptr_t)address) {
                return b;
            }
        }
    }
    ck_abort_msg("no block at %p", address);
    return NULL;
}

WT_CASE("between", .setup = setup, .teardown = teardown, .timeout = 60);

WT_TEST(test_C7_block_without_its_alloc_is_not_active_yet)
{
    void *block = take_unrecorded(70000);
    const json_t *b = shown(block);

    ck_assert(wt_json_is(json_object_get(b, "exact_state"), "live"));
    ck_assert_uint_eq(wt_json_get_number(b, "requested_size"), 70000);
    ck_assert_ptr_null(json_object_get(b, "thread"));
    assert_viz(0);
    wt_ok(warm_free(block));
}

WT_TEST(test_C7_who_had_it_before_does_not_have_it_now)
{
    void *block = NULL;

    wt_ok(warm_memory_tag_set("before"));
    wt_ok(warm_pinned_alloc(runtime, 70000, &block));
    ck_assert(wt_json_is(wt_json_at(shown(block), "frames.0.name"), "before"));
    wt_ok(warm_free(block));
    wt_ok(warm_memory_tag_set(NULL));
    ck_assert_ptr_eq(take_unrecorded(70000), block);
    ck_assert(wt_json_is(json_object_get(shown(block), "exact_state"), "live"));
    ck_assert_ptr_null(wt_json_at(shown(block), "frames.0"));
    ck_assert_ptr_null(json_object_get(shown(block), "thread"));
    assert_viz(0);
    wt_ok(warm_free(block));
}

WT_TEST(test_C7_block_without_its_free_is_active_still)
{
    void *block = NULL;
    wm_block *record;

    wt_ok(warm_pinned_alloc(runtime, 70000, &block));
    record = wm_space_find(block);
    ck_assert_ptr_nonnull(record);
    atomic_store_explicit(&record->state, WM_BLOCK_FREEING,
                          memory_order_relaxed);
    ck_assert(wt_json_is(json_object_get(shown(block), "exact_state"), "live"));
    ck_assert_ptr_nonnull(json_object_get(shown(block), "thread"));
    assert_viz(0);
    wm_space_free(space_now(), record);
}
