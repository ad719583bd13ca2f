/* check_steal.c: several arenas of a node: each thread refills from one, from
 * the siblings before the driver is called, and flushes blocks to the arenas
 * that they belong to. */
/* memcheck: one process */
#include "wt.h"

#include "alloc/cache/magazine.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"

#include <stdatomic.h>

#define MIB ((size_t)1 << 20)
enum { SIZE = 64 << 10, MANY = 24 };

static warm_runtime *runtime;

static wm_space *space(void)
{
    return &runtime->pinned->space;
}

static wm_arena *arena(unsigned i)
{
    return &space()->group.arenas[i];
}

static void begin(warm_options options)
{
    options.size = sizeof options;
    options.device = "host";
    options.segment = options.segment != 0 ? options.segment : 4 * MIB;
    runtime = wt_runtime(&options);
}

static void end(void)
{
    ck_assert(wm_space_check_settled(space()));
    wt_runtime_end(runtime);
}

static void *take(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

static wm_arena *arena_of(const void *pointer)
{
    return wm_space_find(pointer)->segment->arena;
}

/* ---- another thread ------------------------------------------------------ */

/* What a thread of its own comes to, while the caller waits for it. */
static struct {
    size_t bytes;
    void *given;    /* is freed */
    void *got;      /* of bytes */
    bool keeps;     /* got stays with its caller */
    unsigned home;  /* which arena the thread used */
    int64_t cached; /* bytes that it kept when it had freed what was given */
    warm_status status;
} other;

static void in_other(void *argument, unsigned index)
{
    const wm_magazine_set *set;

    (void)argument;
    (void)index;
    other.got = NULL;
    other.status = warm_free(other.given);
    set = atomic_load_explicit(&wm_window_current->magazines,
                               memory_order_relaxed);
    other.cached = set != NULL ? wm_magazine_set_bytes(set) : 0;
    if (other.status == WARM_OK && other.bytes > 0) {
        other.status = warm_pinned_alloc(runtime, other.bytes, &other.got);
    }
    set = atomic_load_explicit(&wm_window_current->magazines,
                               memory_order_relaxed);
    other.home = set != NULL ? set->arena->shard : WM_SIBLINGS;
    if (other.status == WARM_OK && !other.keeps) {
        other.status = warm_free(other.got);
    }
}

static void *other_does(size_t bytes, void *given, bool keeps)
{
    other.bytes = bytes;
    other.given = given;
    other.keeps = keeps;
    wt_threads(1, in_other, NULL);
    wt_ok(other.status);
    return other.got;
}

/* ---- what is taken from siblings ----------------------------------------- */

/* A region that is wholly idle moves over, and the driver knows nothing. */
WT_TEST(test_B12_idle_region_of_a_sibling_serves_before_growth)
{
    void *block;

    begin((warm_options){.test = "arenas=2"});
    wt_ok(warm_free(take(3 * MIB)));
    wm_cache_flush_all(&space()->group);
    block = other_does(SIZE, NULL, true);
    ck_assert_uint_eq(other.home, 1);
    ck_assert_ptr_eq(arena_of(block), arena(1));
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_free.count, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.allocated, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.freed, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.peak, 4 * MIB);
    ck_assert_uint_eq(wm_arena_held(arena(0)), 0);
    ck_assert_uint_eq(wm_arena_held(arena(1)), 4 * MIB);
    wt_ok(warm_free(block));
    end();
}

/* Threads part if they meet at the lock of their own arena. */
WT_TEST(test_B25_a_look_at_a_sibling_is_no_sign_that_threads_meet)
{
    wm_request request = {.bytes = 1000};
    const wm_magazine_set *set;
    wm_block *block = NULL;
    unsigned before;

    begin((warm_options){.test = "arenas=2"});
    wt_ok(warm_free(take(SIZE)));
    set = atomic_load(&wm_window_mine()->magazines);
    request.arena = arena(set->arena == arena(0));
    before = set->locked;
    ck_assert_int_eq(
        wm_cache_refill(&space()->group, &request, WM_SPLIT_ALLOW, &block),
        WM_REFILL_MISSED);
    ck_assert_uint_eq(set->locked, before);
    end();
}

/* One that was made for a large request is kept for such wherever it is. */
WT_TEST(test_region_apart_stays_apart_when_it_moves)
{
    void *large, *small;
    uint64_t made;

    begin((warm_options){.test = "arenas=2"});
    wt_ok(warm_free(take(80 * MIB)));
    made = arena(0)->segments->made_ns;
    small = other_does(SIZE, NULL, true);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 2);
    ck_assert_uint_eq(wm_arena_held(arena(0)), 80 * MIB);
    large = other_does(80 * MIB, NULL, true);
    ck_assert_ptr_eq(arena_of(large), arena(1));
    ck_assert_uint_eq(wm_space_find(large)->segment->made_ns, made);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 2);
    wt_ok(warm_free(large));
    wt_ok(warm_free(other_does(4 * MIB, small, true)));
    ck_assert(arena(1)->segments->dedicated);
    end();
}

static int any_stream(void *context, warm_stream stream)
{
    (void)context;
    (void)stream;
    return 1;
}

/* A private pool has one arena for all of them. */
WT_TEST(test_E1_pool_is_one_for_threads_of_all_siblings)
{
    warm_private_pool pool = {0};
    void *block;

    begin((warm_options){.test = "arenas=2"});
    wt_ok(warm_free(other_does(SIZE, take(SIZE), true)));
    ck_assert_uint_eq(other.home, 1);
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, any_stream, NULL));
    block = take(SIZE);
    ck_assert_ptr_eq(other_does(SIZE, block, true), block);
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    end();
}

/* What is in use in part stays, and serves from there: by a size that threads
 * keep, and by one that they do not. */
WT_LOOP_TEST(test_B12_idle_blocks_of_a_sibling_serve_before_growth, 2)
{
    const size_t sizes[] = {SIZE, 5 * MIB};
    size_t bytes = sizes[_i];
    uint64_t cached;
    void *live, *block;

    begin((warm_options){.test = "arenas=2", .segment = 16 * MIB});
    live = take(6 * MIB);
    wt_ok(warm_free(take(3 * SIZE)));
    cached = wt_pinned_stats(runtime).cached_bytes;
    ck_assert_uint_gt(cached, 0);
    block = other_does(bytes, NULL, true);
    /* Nor is taken back what threads keep. */
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, cached);
    ck_assert_ptr_eq(arena_of(block), arena(0));
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 2);
    ck_assert_uint_ge(wt_pinned_stats(runtime).live_bytes.current,
                      6 * MIB + bytes);
    wt_free(block, live);
    end();
}

/* Nor while a sibling has one that is kept for large requests. */
WT_TEST(test_B12_region_apart_of_a_sibling_serves_what_the_driver_refuses)
{
    void *block;

    begin((warm_options){.test = "arenas=2"});
    wt_ok(warm_free(take(80 * MIB)));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
    block = other_does(SIZE, NULL, true);
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 0, 0));
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 1);
    wt_ok(warm_free(block));
    end();
}

static uint64_t questions(void)
{
    uint64_t stream = 0, event = 0;

    wt_ok(warm_testing_calls(runtime, "stream_passed", &stream));
    wt_ok(warm_testing_calls(runtime, "event_passed", &event));
    return stream + event;
}

/* What full magazines gave back is ready in every arena of the node: no stream
 * is asked for it, though one has work that is worth a question. */
WT_TEST(test_transfer_caches_of_siblings_serve_before_streams_are_asked)
{
    unsigned size_class = wm_size_class(SIZE);
    void *block[64];
    warm_stream stream;
    uint64_t before;
    unsigned ready;

    begin((warm_options){.test = "arenas=2"});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    for (int i = 0; i < 64; i++) {
        block[i] = take(SIZE);
    }
    for (int i = 0; i < 64; i++) {
        if (i < 2 * WM_BATCH_RIPE) {
            wt_ok(warm_record_stream(block[i], stream));
        }
        wt_ok(warm_free(block[i]));
    }
    ready = wm_transfer_count(&arena(0)->transfer_cache.of[size_class]);
    ck_assert_uint_gt(ready, 0);
    before = questions();
    ck_assert_ptr_eq(arena_of(other_does(SIZE, NULL, true)), arena(0));
    ck_assert_uint_eq(other.home, 1);
    ck_assert_uint_lt(
        wm_transfer_count(&arena(0)->transfer_cache.of[size_class]), ready);
    ck_assert_uint_eq(questions(), before);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    wt_ok(warm_free(other.got));
    end();
}

/* Nor is a request refused at the limit while a sibling has room, be it in the
 * magazines of another thread. */
WT_TEST(test_B12_limit_counts_what_all_siblings_hold)
{
    void *block;

    begin((warm_options){
        .test = "arenas=4", .segment = 4 * MIB, .pinned_high = 8 * MIB});
    wt_ok(warm_free(take(SIZE)));
    wt_ok(warm_free(take(MIB)));
    ck_assert_uint_gt(wt_pinned_stats(runtime).cached_bytes, 0);
    for (int i = 0; i < 3; i++) {
        block = other_does(4 * MIB, NULL, true);
        ck_assert_uint_le(wt_pinned_stats(runtime).held_bytes.current, 8 * MIB);
        block = other_does(3 * MIB, block, true);
        wt_ok(warm_free(block));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    end();
}

/* ---- what goes back to siblings ------------------------------------------ */

/* Nothing is with callers. */
static void check_classes(void)
{
    for (int i = 0; i < warm_pinned_class_count(); i++) {
        warm_class_stats stats = {.size = sizeof stats};

        wt_ok(warm_pinned_get_class_stats(runtime, i, &stats));
        ck_assert_uint_eq(stats.live.current, 0);
        ck_assert_uint_eq(stats.live.allocated, stats.live.freed);
        ck_assert_uint_eq(stats.live_bytes.current, 0);
    }
}

/* One thread allocates, another frees: what that cannot keep is where the first
 * one finds it. */
WT_TEST(test_freed_blocks_go_back_to_the_arena_that_they_are_of)
{
    void *block[MANY];
    uint64_t held = 0;

    begin((warm_options){.test = "arenas=2"});
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            block[i] = take(SIZE);
            ck_assert_ptr_eq(arena_of(block[i]), arena(0));
        }
        for (int i = 0; i < MANY; i++) {
            (void)other_does(0, block[i], false);
        }
        held = round == 0 ? wt_pinned_stats(runtime).held_bytes.current : held;
        ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, held);
        ck_assert_int_eq(other.cached, SIZE);
        ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
        ck_assert_uint_eq(wt_pinned_stats(runtime).requested_bytes.current, 0);
        ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes, held);
        check_classes();
        ck_assert(wm_space_check_settled(space()));
    }
    end();
}

/* Those of siblings and its own, of several classes, at once: what a set does
 * with them in each of its ways back. */
static struct {
    void *given[MANY];
    unsigned way;
    int64_t left;
    warm_status status;
} back;

static void give_back_some(void *argument, unsigned index)
{
    void *own[MANY] = {NULL};
    wm_window *window;
    wm_magazine_set *set;

    (void)argument;
    (void)index;
    for (int i = 0; i < MANY && back.status == WARM_OK; i++) {
        back.status = warm_pinned_alloc(runtime, i % 2 ? SIZE : 9000, &own[i]);
    }
    for (int i = 0; i < MANY; i++) {
        (void)warm_free(own[i]);
        (void)warm_free(back.given[i]);
    }
    set = wm_cache_lock_for(&space()->group, NULL, &window);
    wm_biased_release(&window->biased);
    switch (back.way) {
    case 0:
        wm_cache_flush_all(&space()->group);
        break;
    case 1:
        wm_cache_flush_idle(&space()->group);
        wm_cache_flush_idle(&space()->group);
        break;
    default: /* a request that takes all there is */
        back.status = warm_pinned_alloc(runtime, 7 * MIB, &own[0]);
        (void)warm_free(own[0]);
        break;
    }
    back.left = wm_magazine_set_bytes(set);
}

WT_LOOP_TEST(test_sets_give_back_blocks_of_several_arenas, 3)
{
    begin((warm_options){
        .test = "arenas=2", .segment = 8 * MIB, .pinned_high = 8 * MIB});
    for (int i = 0; i < MANY; i++) {
        back.given[i] = take(i % 2 ? 9000 : SIZE);
    }
    back.way = (unsigned)_i;
    back.status = WARM_OK;
    wt_threads(1, give_back_some, NULL);
    wt_ok(back.status);
    ck_assert_int_eq(back.left, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    check_classes();
    ck_assert(wm_space_check_settled(space()));
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    end();
}

/* ---- what a space does to all of them ------------------------------------ */

WT_TEST(test_B11_trim_and_decay_reach_all_siblings)
{
    size_t released;
    void *block;

    begin((warm_options){.test = "arenas=4", .segment = MIB});
    block = other_does(MIB, NULL, true);
    wt_ok(warm_free(take(3 * MIB)));
    wt_ok(warm_free(block));
    ck_assert_uint_gt(wm_arena_held(arena(0)) + wm_arena_held(arena(2)) +
                          wm_arena_held(arena(3)),
                      0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 4 * MIB);
    wt_ok(warm_pinned_trim(runtime, 2 * MIB, &released));
    ck_assert_uint_le(wt_pinned_stats(runtime).held_bytes.current, 2 * MIB);
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 0);
    end();
}

static uint64_t now_ns;

static uint64_t clock_of_test(void)
{
    return now_ns;
}

/* As much as is to be kept, of all of them together. */
WT_TEST(test_B11_reserve_that_does_not_decay_is_of_all_siblings)
{
    void *block[4];

    now_ns = 1000000000;
    wm_clock_set(clock_of_test);
    begin((warm_options){.test = "arenas=2",
                         .segment = MIB,
                         .reserve_bytes = 2 * MIB,
                         .decay_ms = 1});
    for (int i = 0; i < 4; i++) {
        block[i] = i % 2 ? take(MIB) : other_does(MIB, NULL, true);
    }
    ck_assert_uint_ge(wm_arena_held(arena(0)), 2 * MIB);
    ck_assert_uint_ge(wm_arena_held(arena(1)), MIB);
    wt_free_all(block, 4);
    wm_cache_flush_all(&space()->group);
    now_ns += 1000000000;
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 2 * MIB);
    wm_clock_set(NULL);
    end();
}

/* Memory that was had ahead is for any thread of the node. */
WT_TEST(test_B17_prewarmed_memory_serves_threads_of_all_arenas)
{
    void *block;

    begin((warm_options){.test = "arenas=3", .segment = MIB});
    wt_ok(warm_pinned_prewarm(runtime, 6 * MIB, 0, 0));
    block = take(SIZE); /* the main thread has the first */
    for (unsigned i = 0; i < 4; i++) {
        (void)other_does((size_t)SIZE << i, NULL, false);
        ck_assert_uint_eq(other.home, 1);
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 6 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 1);
    wt_ok(warm_pinned_prewarm(runtime, 4 * MIB, 0, 0));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 6 * MIB);
    wt_ok(warm_free(block));
    end();
}

/* Nodes, and arenas of each: memory is the node's own, and so are figures. */
WT_TEST(test_B15_every_node_has_its_own_siblings)
{
    void *block[2];

    begin((warm_options){.test = "arenas=2:numa_nodes=2"});
    for (int node = 0; node < 2; node++) {
        warm_space_stats stats = {.size = sizeof stats};

        wt_ok(warm_pinned_alloc_on(runtime, SIZE, node, 0, &block[node]));
        ck_assert_int_eq(arena_of(block[node])->node, node);
        ck_assert_ptr_eq(arena_of(block[node])->siblings,
                         wm_group_arena(&space()->group, node));
        wt_ok(warm_pinned_get_node_stats(runtime, node, &stats));
        ck_assert_uint_eq(stats.live.current, 1);
        ck_assert_uint_eq(stats.held_bytes.current, 4 * MIB);
    }
    (void)other_does(SIZE, block[0], false);
    (void)other_does(SIZE, block[1], false);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 8 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.peak, 8 * MIB);
    end();
}

/* A region that cannot move for want of a record serves from where it is. */
WT_TEST(test_region_stays_where_no_record_can_be_had)
{
    void *block = NULL;

    begin((warm_options){.test = "arenas=2", .keep = WARM_OFF});
    wt_ok(warm_free(take(3 * MIB)));
    for (unsigned i = 0; i < 2; i++) {
        wm_meta_fail(1, true);
        (void)wm_arena_steal_segment(arena(i), SIZE);
        wm_meta_fail(0, false);
        ck_assert(wm_space_check(space()));
        ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 4 * MIB);
        ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes, 4 * MIB);
    }
    block = take(3 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    wt_ok(warm_free(block));
    end();
}
