/* check_private_threads.c: many threads that begin, end and release private
 * pools of their own, with captures and without, while blocks of them are freed
 * by others, and the caches emptied all the while (rows E1 to E4, E8). On the
 * host device, so that each thread writes to its blocks and checks them. */
#include "wt_mail.h"

enum { WORKERS = 4, BLOCKS = 6 };

static struct shared {
    warm_runtime *runtime;
    warm_stream stream; /* used by all */
    _Atomic unsigned working;
    unsigned rounds;
} s;

typedef struct worker {
    uint64_t random;
    warm_stream stream;
    warm_private_pool pool; /* of graphs; 0: none */
    unsigned references;
} worker;

static uint64_t choose(worker *w, uint64_t below)
{
    return wt_random(&w->random) % below;
}

/* A GPU's memory is not. */
static bool is_readable(const void *block)
{
    return !wt_on_gpu() || wt_block_info(block).device < 0;
}

static uint64_t *take(worker *w)
{
    size_t bytes = (size_t)64 << choose(w, 16);
    void *block = NULL;

    if (choose(w, 2) == 0) {
        wt_expect_ok(warm_device_alloc(s.runtime, 0, w->stream, bytes, &block));
    } else {
        wt_expect_ok(warm_pinned_alloc(s.runtime, bytes, &block));
    }
    if (block != NULL && is_readable(block)) {
        *(uint64_t *)block = (uint64_t)(uintptr_t)block;
    }
    return block;
}

static void give(worker *w, uint64_t *block)
{
    if (block == NULL) {
        return;
    }
    if (is_readable(block)) {
        wt_expect(*block == (uint64_t)(uintptr_t)block);
        *block = 0;
    }
    wt_mail_free(block, choose(w, 4 * WT_MAIL));
}

/* What another thread frees while its stream captures is a graph's: the stream
 * of all never does. */
static void use_memory(worker *w, bool captured)
{
    uint64_t *block[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        block[i] = take(w);
        if (block[i] != NULL && choose(w, 3) == 0) {
            wt_expect_ok(
                warm_record_stream(block[i], captured ? w->stream : s.stream));
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        give(w, block[i]);
    }
}

static void capture(worker *w)
{
    warm_graph graph = NULL;

    wt_expect_ok(warm_private_pool_begin(s.runtime, &w->pool, 0, NULL, NULL));
    w->references++;
    wt_expect_ok(warm_thread_set_stream(s.runtime, w->stream));
    wt_expect_ok(warm_capture_begin(s.runtime, w->stream));
    use_memory(w, true);
    wt_expect_ok(warm_capture_end(s.runtime, w->stream, &graph));
    wt_expect_ok(warm_private_pool_end(s.runtime, w->pool));
    wt_expect_ok(warm_graph_destroy(s.runtime, graph));
}

static void release(worker *w)
{
    while (w->references > 0) {
        wt_expect_ok(warm_private_pool_release(s.runtime, w->pool));
        w->references--;
    }
    w->pool = (warm_private_pool){0};
}

static void route(worker *w)
{
    warm_private_pool pool = {0};
    warm_private_pool_info info = {.size = sizeof info};

    wt_expect_ok(
        warm_private_pool_begin(s.runtime, &pool, WARM_POOL_USER, NULL, NULL));
    use_memory(w, false);
    wt_expect_ok(warm_private_pool_get_info(s.runtime, pool, &info));
    wt_expect(info.references == 1);
    wt_expect_ok(warm_private_pool_end(s.runtime, pool));
    wt_expect_ok(warm_private_pool_release(s.runtime, pool));
}

static void work(worker *w)
{
    wt_expect_ok(warm_stream_create(s.runtime, 0, &w->stream));
    for (unsigned round = 0; round < s.rounds; round++) {
        switch (choose(w, 8)) {
        case 0:
        case 1:
        case 2:
            capture(w);
            break;
        case 3:
            release(w);
            break;
        case 4:
        case 5:
            route(w);
            break;
        case 6:
            use_memory(w, false);
            break;
        default:
            wt_expect_ok(warm_stream_destroy(s.runtime, w->stream));
            wt_expect_ok(warm_stream_create(s.runtime, 0, &w->stream));
        }
    }
    release(w);
    wt_expect_ok(warm_stream_destroy(s.runtime, w->stream));
    atomic_fetch_sub_explicit(&s.working, 1, memory_order_release);
}

/* Looks on, and takes back. */
static void keep(void)
{
    while (atomic_load_explicit(&s.working, memory_order_acquire) > 0) {
        warm_device_stats stats = {.size = sizeof stats};

        wt_expect_ok(warm_device_get_stats(s.runtime, 0, &stats));
        wt_expect_ok(warm_poll(s.runtime));
        wt_expect_ok(warm_device_trim(s.runtime, 0, 0, NULL));
        wt_expect_ok(warm_pinned_trim(s.runtime, 0, NULL));
        wt_expect(warm_testing_check(s.runtime, 0) == WARM_OK);
    }
}

static void run(void *argument, unsigned index)
{
    worker w = {.random = wt_seed() + index + 1};

    if (index == WORKERS) {
        keep();
    } else {
        work(&w);
    }
}

static void held_is_nothing(void)
{
    warm_device_stats device = wt_device_stats(s.runtime);
    warm_space_stats pinned = wt_pinned_stats(s.runtime);

    ck_assert_uint_eq(device.all.active.current, 0);
    ck_assert_uint_eq(device.captured, 0);
    ck_assert_uint_eq(device.all.held_bytes.current, 0);
    ck_assert_uint_eq(pinned.live.current, 0);
    ck_assert_uint_eq(pinned.captured, 0);
    ck_assert_uint_eq(pinned.held_bytes.current, 0);
}

WT_CASE("private_threads", .timeout = 120);

WT_TEST(test_E1_E3_E4_E8_pools_come_and_go_in_many_threads)
{
    warm_options options = {.size = sizeof options};

    s.runtime = wt_runtime(&options);
    s.rounds = wt_scaled(2000);
    atomic_store_explicit(&s.working, WORKERS, memory_order_relaxed);
    s.stream = wt_stream(s.runtime, 0);
    wt_threads(WORKERS + 1, run, NULL);
    wt_mail_end();
    wt_stream_end(s.runtime, s.stream);
    wt_ok(warm_poll(s.runtime));
    wt_ok(warm_device_trim(s.runtime, 0, 0, NULL));
    wt_ok(warm_pinned_trim(s.runtime, 0, NULL));
    held_is_nothing();
    wt_runtime_end(s.runtime);
}
