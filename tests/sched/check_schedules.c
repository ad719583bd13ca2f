/* check_schedules.c: few threads, few calls, and their schedules: what a thread
 * caches or holds, and what others do with it meanwhile. A block is written
 * whole by whoever has it, so that a block with two owners is noticed; after
 * the players every record of the runtime is compared, and the runtime ends
 * with nothing left. */
#include "sched.h"
#include "wt_kind.h"

#include <string.h>

WT_CASE("schedules", .timeout = 3600);

static struct {
    warm_runtime *runtime;
    warm_stream stream;
    void *block[2];
    warm_private_pool pool;
    warm_storage *storage;
    wt_toy toy[2];
    warm_kind kind[2];
    bool held, freed;
} s;

/* The players are what follows. */
#define PLAY(setup, begin, check, ...)                                         \
    wt_play(&(wt_scenario){setup, begin, {__VA_ARGS__}, check})

enum { BYTES = 1024, MIB = 1 << 20 };

static void begin(const warm_options *options)
{
    warm_options o = *options;

    o.size = sizeof o;
    o.device = "host";
    o.arenas = 1;
    o.segment = 1 * MIB;
    o.host_memory = 64 * MIB;
    wt_ok(warm_runtime_create(&o, &s.runtime));
    wt_ok(warm_stream_create(s.runtime, 0, &s.stream));
}

static void setup(void)
{
    begin(&(warm_options){0});
}

static void *allocate(size_t bytes)
{
    void *block = NULL;

    wt_must_ok(warm_pinned_alloc(s.runtime, bytes, &block));
    wt_must(block != NULL);
    return block;
}

/* Whoever else had the block would have written to it. */
static void use(void *block, int mark)
{
    const unsigned char *bytes = block;

    memset(block, mark, BYTES);
    wt_here();
    for (int i = 0; i < BYTES; i++) {
        wt_must(bytes[i] == mark);
    }
}

static void use_and_free(void *block, int mark)
{
    use(block, mark);
    wt_must_ok(warm_free(block));
}

static void check(void)
{
    wt_must_ok(warm_testing_check(s.runtime, 1));
}

static void end(void)
{
    warm_destroy_report report = {.size = sizeof report};

    check();
    wt_must_ok(warm_stream_destroy(s.runtime, s.stream));
    wt_must_ok(warm_runtime_destroy(s.runtime, &report));
    wt_must(report.live == 0 && report.pending == 0 && report.handles == 0 &&
            report.pools == 0);
}

static void end_kinds(void)
{
    end();
    for (int i = 0; i < 2; i++) {
        wt_must(s.toy[i].alive == 0 && s.toy[i].shared == 0);
    }
}

/* ---- what a thread caches --------------------------------------------------
 */

static void allocate_twice(void)
{
    use_and_free(allocate(BYTES), 1);
    use_and_free(allocate(BYTES), 2);
}

static void allocate_once(void)
{
    use_and_free(allocate(BYTES), 3);
}

static void trim_all(void)
{
    wt_must_ok(warm_pinned_empty_cache(s.runtime, NULL));
}

/* The biased lock: its owner enters, a visitor revokes it. */
WT_TEST(test_T4_B11_a_hit_beside_a_trim)
{
    PLAY(setup, NULL, end, allocate_twice, trim_all);
}

static void read_figures(void)
{
    warm_space_stats stats = {.size = sizeof stats};

    wt_must_ok(warm_pinned_get_stats(s.runtime, &stats));
    wt_must(stats.live.current <= 2);
    wt_must(stats.live_bytes.current <= stats.held_bytes.current);
}

WT_TEST(test_T4_B14_hits_beside_figures)
{
    PLAY(setup, NULL, end, allocate_twice, read_figures);
}

static void allocate_two(void)
{
    s.block[0] = allocate(BYTES);
    s.block[1] = allocate(BYTES);
}

static void free_first(void)
{
    use_and_free(s.block[0], 4);
}

static void free_second_and_allocate(void)
{
    use_and_free(s.block[1], 5);
    allocate_twice();
}

WT_TEST(test_T4_B2_frees_by_other_threads)
{
    PLAY(setup, allocate_two, end, free_first, free_second_and_allocate);
}

/* ---- what streams use ------------------------------------------------------
 */

static void do_work(void *argument)
{
    wt_must(!s.freed);
    memset(argument, 6, BYTES);
}

static void free_used(void)
{
    void *block = allocate(BYTES);

    wt_must_ok(warm_stream_host_func(s.runtime, s.stream, do_work, block));
    wt_must_ok(warm_record_stream(block, s.stream));
    wt_must_ok(warm_free(block));
    use_and_free(allocate(BYTES), 7);
}

static void poll(void)
{
    wt_must_ok(warm_poll(s.runtime));
    allocate_once();
}

static void retire(void)
{
    wt_must_ok(warm_stream_retire(s.runtime, s.stream));
}

static void end_settled(void)
{
    wt_must_ok(warm_stream_synchronize(s.runtime, s.stream));
    wt_must_ok(warm_poll(s.runtime));
    end();
}

/* A batch closes while another thread polls, and while its stream retires. */
WT_TEST(test_T4_B4_B6_a_batch_beside_a_poll_and_a_retirement)
{
    PLAY(setup, NULL, end_settled, free_used, poll, retire);
}

static void use_device(void)
{
    void *block = NULL;

    for (int i = 0; i < 2; i++) {
        wt_must_ok(warm_device_alloc(s.runtime, 0, s.stream, BYTES, &block));
        use_and_free(block, 8 + i);
    }
}

static void trim_device(void)
{
    wt_must_ok(warm_device_empty_cache(s.runtime, 0, NULL));
}

WT_TEST(test_T4_C1_C8_memory_of_a_stream_beside_a_trim_and_its_retirement)
{
    PLAY(setup, NULL, end_settled, use_device, trim_device, retire);
}

/* ---- at a limit ------------------------------------------------------------
 */

static void setup_limit(void)
{
    begin(&(warm_options){.pinned_high = 2 * MIB});
}

static void fill(void)
{
    for (int i = 0; i < 2; i++) {
        use_and_free(allocate(700000), 10 + i);
    }
}

/* Two blocks fit: whoever finds none waits for the other one's free. */
WT_TEST(test_T4_B12_growth_beside_a_trim_at_a_limit)
{
    PLAY(setup_limit, NULL, end, fill, fill, trim_all);
}

/* ---- private pools ----------------------------------------------------------
 */

static int every_stream(void *context, warm_stream stream)
{
    (void)context, (void)stream;
    return 1;
}

static void setup_pool(void)
{
    setup();
    s.pool = (warm_private_pool){0};
    wt_ok(warm_private_pool_begin(s.runtime, &s.pool, WARM_POOL_USER,
                                  every_stream, NULL));
}

static void end_pool(void)
{
    wt_must_ok(warm_private_pool_end(s.runtime, s.pool));
    wt_must_ok(warm_private_pool_release(s.runtime, s.pool));
}

static void begin_another(void)
{
    warm_private_pool pool = {0};

    wt_must_ok(warm_private_pool_begin(s.runtime, &pool, WARM_POOL_USER,
                                       every_stream, NULL));
    use_and_free(allocate(BYTES), 12);
    wt_must_ok(warm_private_pool_end(s.runtime, pool));
    wt_must_ok(warm_private_pool_release(s.runtime, pool));
}

WT_TEST(test_T4_E1_E3_allocations_beside_the_end_of_their_pool)
{
    PLAY(setup_pool, NULL, end, allocate_twice, end_pool);
}

WT_TEST(test_T4_E8_two_pools_record_at_once)
{
    PLAY(setup_pool, NULL, end, begin_another, end_pool);
}

/* ---- storages --------------------------------------------------------------
 */

static void setup_storage(void)
{
    static unsigned char memory[BYTES];
    warm_data_pointer data = {.size = sizeof data, .data = memory};

    setup();
    wt_ok(warm_storage_wrap(&data, BYTES, NULL, &s.storage));
    warm_storage_weak_retain(s.storage);
    warm_storage_weak_retain(s.storage);
}

static void lock_weak(void)
{
    if (warm_storage_lock(s.storage)) {
        wt_must(warm_storage_data(s.storage) != NULL);
        use(warm_storage_data(s.storage), 13);
        warm_storage_release(s.storage);
    }
    warm_storage_weak_release(s.storage);
}

static void release_strong(void)
{
    warm_storage_release(s.storage);
}

WT_TEST(test_T4_D2_a_weak_reference_beside_the_last_release)
{
    PLAY(setup_storage, NULL, end, lock_weak, release_strong, lock_weak);
}

/* ---- handles ----------------------------------------------------------------
 */

static int create(void *context, int device, void **handle)
{
    wt_here();
    return wt_toy_create(context, device, handle);
}

/* The handle is in use meanwhile: two at once would be noticed. */
static int bind(void *context, int device, void *handle, warm_stream stream)
{
    int code;

    wt_must(atomic_fetch_add(&((wt_toy_handle *)handle)->users, 1) == 0);
    wt_here();
    code = wt_toy_bind(context, device, handle, stream);
    wt_toy_leave(handle);
    return code;
}

static void setup_kinds(void)
{
    static const char *const name[] = {"first", "second"};

    setup();
    for (int i = 0; i < 2; i++) {
        warm_kind_ops ops = {.size = sizeof ops,
                             .name = name[i],
                             .context = &s.toy[i],
                             .create = create,
                             .destroy = wt_toy_destroy,
                             .bind_stream = bind,
                             .reset = wt_toy_reset};

        wt_toy_init(&s.toy[i]);
        wt_ok(warm_kind_register(s.runtime, &ops, &s.kind[i]));
    }
}

static void lease_and_bind(void)
{
    warm_lease lease;
    void *handle;

    wt_must_ok(warm_handle_lease_on(s.runtime, s.kind[0], 0, s.stream, &lease,
                                    &handle));
    wt_must_ok(warm_lease_bind(s.runtime, lease, s.stream));
    wt_must_ok(warm_handle_return(s.runtime, lease));
}

/* A binding is taken off a stream that retires; not while another binds. */
WT_TEST(test_T4_A13_a_lease_is_bound_beside_a_retirement)
{
    PLAY(setup_kinds, NULL, end_kinds, lease_and_bind, retire);
}

static void reserve(int first)
{
    for (int i = 0; i < 2; i++) {
        wt_toy_handle *handle = NULL;

        wt_must_ok(warm_handle_reserve(s.runtime, s.kind[(first + i) % 2], 0,
                                       (void **)&handle));
        wt_must(atomic_fetch_add(&handle->users, 1) == 0);
        wt_here();
        wt_toy_leave(handle);
    }
}

static void reserve_first(void)
{
    reserve(0);
}

static void reserve_second(void)
{
    reserve(1);
}

/* First creations take turns; the threads end, and others get the handles. */
WT_TEST(test_T4_A4_A8_first_creations_cross)
{
    PLAY(setup_kinds, NULL, end_kinds, reserve_first, reserve_second);
}

static void trim_handles(void)
{
    wt_must_ok(warm_handle_trim(s.runtime, s.kind[0], 0, 0, 0, NULL));
}

WT_TEST(test_T4_A12_threads_end_beside_a_trim_of_handles)
{
    PLAY(setup_kinds, NULL, end_kinds, reserve_first, trim_handles,
         reserve_first);
}

/* ---- the end of a thread
 * ----------------------------------------------------- */

static void leave(void)
{
    allocate_twice();
    reserve(0);
    s.held = true;
}

static void destroy(void)
{
    warm_destroy_report report = {.size = sizeof report};

    while (!s.held) {
        wt_wait();
    }
    wt_must_ok(warm_stream_destroy(s.runtime, s.stream));
    wt_must_ok(warm_runtime_destroy(s.runtime, &report));
    wt_must(report.live == 0 && report.pending == 0);
}

static void check_nothing(void)
{
}

WT_TEST(test_T4_A5_a_thread_ends_beside_the_end_of_its_runtime)
{
    PLAY(setup_kinds, NULL, check_nothing, leave, destroy);
}

WT_TEST(test_T4_G1_a_thread_ends_beside_a_trim_and_a_request)
{
    PLAY(setup, NULL, end, allocate_once, trim_all, allocate_once);
}
