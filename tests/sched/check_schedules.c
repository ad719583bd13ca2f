/* check_schedules.c: few threads, few calls, and their schedules: what a thread
 * caches or holds, and what others do with it meanwhile. A block is written
 * whole by whoever has it, so that a block with two owners is noticed; after
 * the players every record of the runtime is compared, and the runtime ends
 * with nothing left. */
#include "sched.h"
#include "wt_kind.h"

#include "alloc/arena/group.h"
#include "alloc/arena/live.h"
#include "runtime/thread/window.h"

#include <string.h>

WT_CASE("schedules", .timeout = 3600);

static struct {
    warm_runtime *runtime;
    warm_stream stream;
    void *first, *block[2];
    warm_private_pool pool;
    warm_storage *storage;
    wt_toy toy[2];
    warm_kind kind[2];
    warm_kind late; /* 0: not registered */
    warm_lease again;
    bool held, ended;
    int ends;     /* of adopted memory */
    int left;     /* handles in use as the runtime ended */
    size_t bytes; /* of block[0], or 0 */
} s;

/* A test plays one scenario; the players are what follows. */
#define PLAY(id, setup, warm, check, ...)                                      \
    PLAY_FROM(id, setup, NULL, warm, check, __VA_ARGS__)
#define PLAY_FROM(id, ...)                                                     \
    WT_TEST(id)                                                                \
    {                                                                          \
        wt_play(&(wt_scenario){PLAYERS(__VA_ARGS__)});                         \
    }                                                                          \
    struct wt_entry /* takes the semicolon */
#define PLAYERS(setup, begin, warm, check, ...)                                \
    setup, begin, warm, check,                                                 \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

enum { BYTES = 1024, KIB = 1 << 10 };

static void begin(const warm_options *options)
{
    warm_options o = *options;

    o.size = sizeof o;
    o.device = "host";
    o.test = wt_list("arenas=1:%s", o.test != NULL ? o.test : "");
    o.segment = 64 * KIB;
    o.host_memory = 16 * 1024 * KIB;
    wt_ok(warm_runtime_create(&o, &s.runtime));
    wt_ok(warm_stream_create(s.runtime, 0, &s.stream));
}

static void setup_empty(void)
{
    begin(&(warm_options){0});
}

/* A block of the thread that has gone: memory need not be obtained. */
static void setup(void)
{
    setup_empty();
    wt_ok(warm_pinned_alloc(s.runtime, BYTES, &s.first));
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

static void end(void)
{
    warm_destroy_report report = {.size = sizeof report};
    warm_space_stats stats = {.size = sizeof stats};

    wt_must_ok(warm_free(s.first));
    wt_must_ok(warm_testing_check(s.runtime, 1));
    wt_must_ok(warm_pinned_get_stats(s.runtime, &stats));
    wt_must(stats.double_frees == 0);
    wt_must_ok(warm_stream_destroy(s.runtime, s.stream));
    wt_must_ok(warm_runtime_destroy(s.runtime, &report));
    wt_must(report.live == 0 && report.pending == 0 && report.handles == 0 &&
            report.pools == 0);
}

static void end_settled(void)
{
    wt_must_ok(warm_stream_synchronize(s.runtime, s.stream));
    wt_must_ok(warm_poll(s.runtime));
    end();
}

static void end_kinds(void)
{
    end();
    for (int i = 0; i < 2; i++) {
        wt_must(s.toy[i].alive == 0 && s.toy[i].shared == 0);
    }
}

/* ---- what a thread caches ------------------------------------------------ */

/* Players of one statement; of one call. */
#define PLAYER(name, statement)                                                \
    static void name(void)                                                     \
    {                                                                          \
        statement;                                                             \
    }                                                                          \
    struct wt_entry /* takes the semicolon */
#define CALL(name, call) PLAYER(name, wt_must_ok(call))
CALL(trim_all, warm_pinned_trim(s.runtime, 0, NULL));
CALL(trim_device, warm_device_trim(s.runtime, 0, 0, NULL));
CALL(trim_handles, warm_handle_trim(s.runtime, s.kind[0], 0, 0, 0, NULL));
CALL(reset_peaks, warm_pinned_reset_peaks(s.runtime));
CALL(poll, warm_poll(s.runtime));
CALL(retire, warm_stream_retire(s.runtime, s.stream));
CALL(end_capture, warm_capture_announce_end(s.runtime, s.stream));

static void allocate_twice(void)
{
    use_and_free(allocate(BYTES), 1);
    use_and_free(allocate(BYTES), 2);
}

PLAYER(allocate_once, use_and_free(allocate(BYTES), 3));

/* The biased lock: its owner enters, a visitor revokes it. */
PLAY(test_T4_B11_a_hit_beside_a_trim, setup, allocate_once, end, allocate_once,
     trim_all);
PLAY(test_T4_B11_first_calls_beside_a_trim, setup_empty, NULL, end,
     allocate_twice, trim_all);

static void read_figures(void)
{
    warm_space_stats stats = {.size = sizeof stats};

    wt_must_ok(warm_pinned_get_stats(s.runtime, &stats));
    wt_must(stats.live.current <= 2);
    wt_must(stats.live_bytes.current <= stats.held_bytes.current);
}

PLAY(test_T4_B14_hits_beside_figures, setup, allocate_once, end, allocate_twice,
     read_figures, reset_peaks);

/* What a thread publishes, and others read without its lock. */
PLAY(test_T5_B14_first_calls_beside_figures, setup_empty, NULL, end,
     allocate_once, read_figures, read_figures);

/* The address comes by no order at all: what is found there is whole. What was
 * in memory before the size is set is over. */
static void show(void)
{
    for (size_t i = 1; i < 3; i++) {
        wt_tell(&s.held);
        s.bytes = BYTES - 8 * i;
        s.block[0] = allocate(s.bytes);
        wt_here();
        use(s.block[0], 14);
        s.bytes = 0;
        wt_must_ok(warm_free(s.block[0]));
    }
}

static void look(void)
{
    warm_block_info info = {.size = sizeof info};

    for (int i = 0; i < 3; i++) {
        size_t bytes = s.bytes;

        if (s.block[0] != NULL && bytes != 0 &&
            warm_block_get_info(s.block[0], &info) == WARM_OK &&
            s.bytes == bytes) {
            wt_must(info.base == s.block[0] && info.runtime == s.runtime);
            wt_must(info.requested == bytes);
        }
        wt_here();
    }
}

static void allocate_shown(void)
{
    s.block[0] = allocate(BYTES);
    use_and_free(s.block[0], 15);
}

PLAY(test_T5_B2_look_ups_beside_first_calls, setup_empty, NULL, end, show,
     look);
PLAY(test_T5_B2_look_ups_beside_hits, setup, allocate_shown, end, show, look);

static void take_snapshot(void)
{
    static char text[1 << 16];

    wt_must_ok(warm_snapshot_viz(s.runtime, text, sizeof text, NULL));
}

PLAY(test_T5_C7_a_snapshot_beside_hits, setup, allocate_once, end, show,
     take_snapshot);

static void setup_small_magazines(void)
{
    begin(&(warm_options){.test = "magazine_blocks=2:magazine_bytes=16K"});
    wt_ok(warm_pinned_alloc(s.runtime, BYTES, &s.first));
}

/* More than a magazine has room for: it flushes some, and refills. */
static void allocate_and_free(int count)
{
    void *block[6];

    for (int i = 0; i < count; i++) {
        block[i] = allocate(BYTES);
        memset(block[i], i + 1, BYTES);
    }
    for (int i = 0; i < count; i++) {
        use_and_free(block[i], 20 + i);
    }
}

PLAYER(flush_and_refill, allocate_and_free(3));

PLAYER(fill_transfer_cache, allocate_and_free(6));

PLAY(test_T4_B8_a_hit_beside_a_flush, setup_small_magazines, flush_and_refill,
     end, flush_and_refill, flush_and_refill);
PLAY_FROM(test_T4_B8_a_transfer_cache_is_emptied_beside_a_flush,
          setup_small_magazines, fill_transfer_cache, flush_and_refill, end,
          flush_and_refill, trim_all);
PLAY(test_T4_B8_threads_end_beside_a_flush, setup_small_magazines, NULL, end,
     flush_and_refill, allocate_twice);

static void allocate_two(void)
{
    s.block[0] = allocate(BYTES);
    s.block[1] = allocate(BYTES);
}

static void free_first(void)
{
    use_and_free(s.block[0], 4);
    allocate_once();
}

static void free_second(void)
{
    use_and_free(s.block[1], 5);
    allocate_twice();
}

PLAY_FROM(test_T4_B2_frees_by_other_threads, setup, allocate_two, NULL, end,
          free_first, free_second);

static void leave_it(void)
{
    s.block[0] = allocate(BYTES);
    wt_here();
}

PLAYER(leave_large, s.block[0] = allocate(3 * KIB * KIB); wt_here());

static void free_it(void)
{
    wt_here();
    if (s.block[0] != NULL && warm_free(s.block[0]) == WARM_OK) {
        s.block[0] = NULL; /* else it is not seen yet */
    }
}

static void end_left(void)
{
    wt_must_ok(warm_free(s.block[0]));
    end_settled();
}

/* The address comes by no order. */
PLAY(test_T5_B2_a_first_block_is_freed_by_another_thread, setup_empty, NULL,
     end_left, leave_it, free_it);
PLAY(test_T5_B2_a_first_large_block_is_freed_by_another_thread, setup_empty,
     NULL, end_left, leave_large, free_it);

static void send(void)
{
    s.block[0] = allocate(BYTES);
    wt_tell(&s.held);
    allocate_once();
}

static void receive(void)
{
    wt_await(&s.held);
    use_and_free(s.block[0], 6);
    allocate_twice();
}

/* The block is the second thread's then; the first one ends. */
PLAY(test_T4_B2_a_block_changes_its_owner, setup, allocate_once, end, send,
     receive, trim_all);

/* ---- what streams use ---------------------------------------------------- */

static void do_work(void *argument)
{
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

/* A batch closes while another thread polls, and while its stream retires. */
PLAY(test_T4_B4_a_batch_beside_a_poll, setup, free_used, end_settled, free_used,
     poll);
PLAY(test_T4_B6_a_batch_beside_a_retirement, setup, allocate_once, end_settled,
     free_used, retire);
PLAY(test_T4_B4_B6_a_thread_ends_beside_a_poll_and_a_retirement, setup, NULL,
     end_settled, free_used, poll, retire);

static void free_recorded(void)
{
    void *block = allocate(BYTES);

    wt_must_ok(warm_record_stream(block, s.stream));
    wt_must_ok(warm_free(block));
    wt_tell(&s.held);
}

static void retire_then(void)
{
    wt_await(&s.held);
    retire();
}

PLAY(test_T4_B6_a_thread_ends_beside_a_retirement, setup, NULL, end_settled,
     free_recorded, retire_then);

PLAY(test_T5_B4_B14_a_first_batch_beside_figures, setup, NULL, end_settled,
     free_used, read_figures);

static void setup_batches_of_one(void)
{
    begin(&(warm_options){.test = "batch_count=1"});
    wt_ok(warm_pinned_alloc(s.runtime, BYTES, &s.first));
}

/* The delay of a batch is measured, if it begins at certain moments. */
static void free_measured(void)
{
    while (!wm_reuse_is_sampled(wm_clock_ns())) {
    }
    free_used();
}

/* Leaves it complete, and to a poll. */
static void complete_measured(void)
{
    wt_must_ok(warm_testing_hold(s.runtime, s.stream));
    free_measured();
    wt_must_ok(warm_testing_resume(s.runtime, s.stream));
    wt_must_ok(wm_driver_stream_synchronize(s.runtime->driver, s.stream));
}

PLAY_FROM(test_T5_B4_a_measured_batch_beside_a_poll, setup_batches_of_one,
          complete_measured, NULL, end_settled, free_measured, poll);

CALL(record_default, warm_record_stream(s.block[0], WARM_STREAM_LEGACY));
CALL(record_adopted, warm_record_stream(s.block[0], s.stream));
CALL(record_thread, warm_record_stream(s.block[0], WARM_STREAM_PER_THREAD));
PLAYER(read_streams, warm_block_info info = {.size = sizeof info};
       wt_must_ok(warm_block_get_info(s.block[0], &info));
       wt_must(info.streams <= 2));

PLAY_FROM(test_T5_B3_records_cross, setup, leave_it, NULL, end_left,
          record_default, record_adopted, read_streams);
PLAY_FROM(test_T5_B3_three_records_cross, setup, leave_it, NULL, end_left,
          record_default, record_thread, record_adopted);

PLAYER(free_recorded_twice, leave_it(); record_default(); record_adopted();
       wt_must_ok(warm_free(s.block[0])));
PLAYER(poll_and_reuse, poll(); free_used());

PLAY_FROM(test_T5_B4_two_queues_end_a_block, setup, free_recorded_twice, NULL,
          end_settled, poll_and_reuse, poll);

/* As before, but the second queue is polled as its next batch closes, and the
 * block is reused at once. */
static void free_recorded_held(void)
{
    wt_must_ok(warm_testing_hold(s.runtime, s.stream));
    free_recorded_twice();
    wt_must_ok(warm_testing_resume(s.runtime, s.stream));
    wt_must_ok(wm_driver_stream_synchronize(s.runtime->driver, s.stream));
}

PLAYER(close_and_reuse, free_used(); free_used());

PLAY_FROM(test_T5_B4_a_block_of_two_queues_is_reused_beside_a_poll,
          setup_batches_of_one, free_recorded_held, NULL, end_settled, poll,
          close_and_reuse);

/* The batch is open as the retirement begins: it waits for the final event. */
PLAY_FROM(test_T5_B6_an_open_batch_beside_a_retirement, setup, free_used, NULL,
          end_settled, poll, retire);

static void use_device(void)
{
    void *block = NULL;

    for (int i = 0; i < 2; i++) {
        wt_must_ok(warm_device_alloc(s.runtime, 0, s.stream, BYTES, &block));
        use_and_free(block, 8 + i);
    }
}

PLAY(test_T4_C1_C8_memory_of_a_stream_beside_a_trim_and_its_retirement, setup,
     NULL, end_settled, use_device, trim_device, retire);

/* ---- at a limit ---------------------------------------------------------- */

static void setup_limit(void)
{
    begin(&(warm_options){.pinned_high = 128 * KIB});
}

static void fill(void)
{
    for (int i = 0; i < 2; i++) {
        use_and_free(allocate(44 * KIB), 10 + i);
    }
}

/* Two blocks fit: whoever finds none waits for the other one's free. */
PLAY(test_T4_B12_growth_beside_a_trim_at_a_limit, setup_limit, NULL, end, fill,
     fill, trim_all);

/* ---- adopted memory ------------------------------------------------------ */

static _Alignas(64 * KIB) unsigned char program[64 * KIB];

static void count_end(void *ended)
{
    ++*(int *)ended;
}

CALL(adopt,
     warm_pinned_adopt(s.runtime, program, sizeof program, WARM_ADOPT_SERVE));

/* Its memory is idle, and given up by a poll. */
static void begin_end_of_adoption(void)
{
    void *block;

    adopt();
    block = allocate(BYTES);
    wt_must_ok(warm_pinned_adopt_end(s.runtime, program, count_end, &s.ends));
    wt_must_ok(warm_free(block));
    wt_must(s.ends == 0);
}

/* Waits for the end, unless that is over. */
static warm_status end_adoption(void)
{
    return warm_pinned_adopt_end(s.runtime, program, NULL, NULL);
}

static void adopt_again(void)
{
    warm_status status = end_adoption();

    wt_must(status == WARM_OK || status == WARM_INVALID_POINTER);
    adopt();
}

static void end_adopted(void)
{
    wt_must(s.ends == 1);
    wt_must_ok(end_adoption());
    end();
}

PLAY_FROM(test_T4_B23_memory_is_adopted_again_beside_a_poll, setup_empty,
          begin_end_of_adoption, NULL, end_adopted, poll, adopt_again);

PLAYER(end_first_adoption, wt_must_ok(end_adoption()); end_settled());

/* The first adoption makes an arena, which others find without a lock. */
PLAY(test_T5_B23_a_first_adoption_beside_figures, setup, NULL,
     end_first_adoption, adopt, read_figures, trim_all);

/* ---- private pools ------------------------------------------------------- */

/* ended: of the pool; null: not known. */
static int every_stream(void *ended, warm_stream stream)
{
    (void)stream;
    wt_here();
    wt_must(ended == NULL || !*(const bool *)ended);
    return 1;
}

static void setup_pool(void)
{
    setup();
    s.pool = (warm_private_pool){0};
    wt_ok(warm_private_pool_begin(s.runtime, &s.pool, WARM_POOL_USER,
                                  every_stream, &s.ended));
}

static void end_pool(void)
{
    wt_must_ok(warm_private_pool_end(s.runtime, s.pool));
    s.ended = true;
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

PLAY(test_T4_E1_E3_allocations_beside_the_end_of_their_pool, setup_pool,
     allocate_once, end, allocate_twice, end_pool);
PLAY(test_T4_E1_a_thread_ends_beside_the_end_of_a_pool, setup_pool, NULL, end,
     allocate_once, end_pool);

PLAYER(end_recording, end_pool(); end());

PLAY(test_T5_E8_a_pool_begins_beside_an_allocation, setup_pool, NULL,
     end_recording, begin_another, allocate_once);

PLAY(test_T4_E8_two_pools_record_at_once, setup_pool, NULL, end, begin_another,
     end_pool);

/* ---- storages ------------------------------------------------------------ */

static void setup_storage(void)
{
    static unsigned char memory[BYTES];
    warm_data_pointer data = {.size = sizeof data, .data = memory};

    setup();
    wt_ok(warm_storage_wrap(&data, BYTES, NULL, &s.storage));
    warm_storage_weak_retain(s.storage);
    warm_storage_weak_retain(s.storage);
}

static void lock_weak(bool writes)
{
    if (warm_storage_lock(s.storage)) {
        wt_must(warm_storage_data(s.storage) != NULL);
        if (writes) {
            use(warm_storage_data(s.storage), 13);
        }
        warm_storage_release(s.storage);
    }
    warm_storage_weak_release(s.storage);
}

PLAYER(lock_and_write, lock_weak(true));

PLAYER(lock_only, lock_weak(false));

PLAYER(release_strong, warm_storage_release(s.storage));

PLAY(test_T4_D2_a_weak_reference_beside_the_last_release, setup_storage, NULL,
     end, lock_and_write, release_strong, lock_only);

/* ---- handles ------------------------------------------------------------- */

static int create(void *context, int device, void **handle)
{
    wt_here();
    return wt_toy_create(context, device, handle);
}

/* The handle is in use meanwhile, and its stream is there: two users at once,
 * and a call after the stream's retirement, would be noticed. */
static void enter(wt_toy_handle *handle)
{
    wt_must(atomic_fetch_add(&handle->users, 1) == 0);
    wt_here();
    wt_must(handle->stream == NULL || !s.ended);
}

static int bind(void *context, int device, void *handle, warm_stream stream)
{
    warm_lease lease = s.again;
    int code;

    s.again = (warm_lease){0};
    if (lease.number != 0) { /* the callback itself binds it once more */
        wt_must_ok(warm_lease_bind(s.runtime, lease, s.stream));
    }
    enter(handle);
    code = wt_toy_bind(context, device, handle, stream);
    wt_toy_leave(handle);
    return code;
}

static int reset(void *context, int device, void *handle)
{
    enter(handle);
    wt_toy_leave(handle);
    return wt_toy_reset(context, device, handle);
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
                             .reset = reset};

        wt_toy_init(&s.toy[i]);
        wt_ok(warm_kind_register(s.runtime, &ops, &s.kind[i]));
    }
}

static void lease_and_bind(void)
{
    warm_lease lease = {0};
    void *handle;

    wt_must_ok(warm_handle_lease_on(s.runtime, s.kind[0], 0, s.stream, &lease,
                                    &handle));
    s.again = lease;
    wt_must_ok(warm_lease_bind(s.runtime, lease, s.stream));
    wt_must_ok(warm_handle_return(s.runtime, lease));
}

/* A binding is taken off a stream that retires; not while another binds. */
PLAY(test_T4_A13_a_lease_is_bound_beside_a_retirement, setup_kinds, NULL,
     end_kinds, lease_and_bind, retire);

static void reserve(int first)
{
    for (int i = 0; i < 2; i++) {
        wt_toy_handle *handle = NULL;

        wt_must_ok(warm_handle_reserve(s.runtime, s.kind[(first + i) % 2], 0,
                                       (void **)&handle));
        enter(handle);
        wt_toy_leave(handle);
    }
}

PLAYER(reserve_first, reserve(0));

PLAYER(reserve_second, reserve(1));

/* A kind is known once its name is; the number comes by no order. */
static void register_kind(void)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "late",
                         .context = &s.toy[1],
                         .create = create,
                         .destroy = wt_toy_destroy};

    wt_must_ok(warm_kind_register(s.runtime, &ops, &s.late));
}

static void reserve_late(void)
{
    void *handle = NULL;

    for (int i = 0; i < 3; i++) {
        if (s.late != 0) {
            warm_status status =
                warm_handle_reserve(s.runtime, s.late, 0, &handle);

            wt_must(status == WARM_OK || status == WARM_INVALID_ARGUMENT);
        }
        wt_here();
    }
}

PLAY(test_T5_A8_a_kind_is_used_when_it_is_known, setup_kinds, NULL, end_kinds,
     register_kind, reserve_late);

/* First creations take turns; the threads end, and others get the handles. */
PLAY(test_T4_A4_A8_first_creations_cross, setup_kinds, NULL, end_kinds,
     reserve_first, reserve_second);

PLAY(test_T4_A12_threads_end_beside_a_trim_of_handles, setup_kinds, NULL,
     end_kinds, reserve_first, trim_handles, reserve_first);

static void prewarm_and_capture(void)
{
    wt_must_ok(warm_handle_prewarm(s.runtime, s.kind[0], 0, 1, 0));
    wt_must_ok(warm_capture_announce(s.runtime, s.stream));
}

static void end_deferred(void)
{
    wt_must(wt_stat(s.runtime, s.kind[0], 0, deferred) == 0);
    end_kinds();
}

/* A handle that is deferred as the last capture ends. */
PLAY_FROM(test_T4_A16_a_trim_of_handles_beside_the_end_of_a_capture,
          setup_kinds, prewarm_and_capture, NULL, end_deferred, trim_handles,
          end_capture);

static void retire_and_end(void)
{
    retire();
    s.ended = true;
}

/* The retirement waits for a handle that is being taken off the stream. */
PLAY(test_T4_A13_idle_handles_are_used_beside_a_retirement, setup_kinds,
     lease_and_bind, end_kinds, trim_handles, reserve_first, retire_and_end);

/* ---- the end of a thread ------------------------------------------------- */

static void leave(void)
{
    allocate_twice();
    reserve(0);
    wt_tell(&s.held);
    (void)wm_window_find(NULL); /* frees its window once that is cut */
}

static void destroy(void)
{
    warm_destroy_report report = {.size = sizeof report};

    wt_await(&s.held);
    wt_must_ok(warm_free(s.first));
    wt_must_ok(warm_stream_destroy(s.runtime, s.stream));
    wt_must_ok(warm_runtime_destroy(s.runtime, &report));
    wt_must(report.live == 0 && report.pending == 0);
    s.left = (int)report.handles;
}

/* What the thread still had is left to it, and counted. */
static void end_destroyed(void)
{
    wt_must(s.toy[0].alive + s.toy[1].alive == s.left);
    wt_must(s.toy[0].shared == 0 && s.toy[1].shared == 0);
}

PLAY(test_T4_A5_a_thread_ends_beside_the_end_of_its_runtime, setup_kinds, NULL,
     end_destroyed, leave, destroy);

PLAY(test_T4_G1_a_thread_ends_beside_a_trim_and_a_request, setup, NULL, end,
     allocate_once, trim_all, allocate_once);

/* ---- the orders of single words -------------------------------------------
 */

static void see_runtime(warm_runtime *runtime, void *unused)
{
    (void)runtime;
    (void)unused;
    use(program, 16);
    wt_must(!s.ended);
}

PLAYER(pin, wm_runtime_each(see_runtime, NULL));

static void begin_close(void)
{
    wt_must(wm_runtime_begin_close(s.runtime));
    s.ended = true;
    use(program, 17);
}

/* Of a pin and the end of the runtime at least one sees the other. */
PLAY(test_T5_A5_a_pin_beside_the_end_of_its_runtime, setup, NULL, NULL, pin,
     begin_close);

/* Of the claim and the reset at least one sees the other. */
static wm_live live = {.blocks = {.peak = 2}};

static void claim(void)
{
    wm_claim_add(&live.blocks, 1);
    wt_here();
}

static void reset_live(void)
{
    wm_live_reset(&live);
    wt_here();
}

static void end_live(void)
{
    wt_must(wm_claim_peak(&live.blocks) >= 1);
    end();
}

PLAY(test_T5_B14_a_claim_beside_a_reset_of_its_peak, setup, NULL, end_live,
     claim, reset_live);
