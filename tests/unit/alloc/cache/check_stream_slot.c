/* check_stream_slot.c: device memory cached in stream order (rows C1, C2, C8;
 * B14 of a device): hits, and which threads may use a block next; streams that
 * retire and come back; other threads; counts. */
/* memcheck: one process */
#include "wt.h"
#include "wt_economy.h"

#include "alloc/kinds/device_space.h"
#include "alloc/cache/stream_slot.h"
#include "runtime/base/lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
enum { BLOCKS = 8, STREAMS = WM_STREAM_SLOTS + 3, HELD = 2 * BLOCKS };

static warm_runtime *runtime;
static warm_stream stream[STREAMS];

static wm_space *space(void)
{
    return &runtime->device_spaces[0].space;
}

/* So much has been needed that threads may cache blocks of any size that they
 * ever do. */
static void set_up(void)
{
    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options),
                        .device = "host",
                        .segment = 2 * MIB,
                        .host_devices = 2,
                        .stream_wait = "off",
                        .keep = 1000,
                        .test = wt_list("magazine_blocks=%d", BLOCKS)});
    wt_peak_at(&space()->group, 1024 * MIB);
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
    }
}

static void tear_down(void)
{
    ck_assert(wm_space_check_settled(space()));
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_synchronize(runtime, stream[i]));
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static void *take(warm_stream on, size_t bytes)
{
    return wt_device(runtime, on, bytes);
}

static void give(void *pointer)
{
    wt_ok(warm_free(pointer));
}

static warm_device_stats stats_now(void)
{
    return wt_device_stats(runtime);
}

static uint64_t obtained(void)
{
    return stats_now().driver_alloc.count;
}

/* Blocks that the calling thread keeps for a stream. */
static unsigned kept(warm_stream on)
{
    wm_stream_slot *slot = wm_stream_slot_of(wm_window_mine(), 0, on);

    unsigned count = 0;

    for (unsigned i = 0; slot != NULL && i < WM_CLASSES; i++) {
        count += wm_magazine_count(&wm_stream_slot_set(slot)->of[i]);
    }
    return count;
}

static size_t lanes(void)
{
    size_t count = 0;

    for (const wm_lane *l = space()->group.arenas[0].lanes; l != NULL;
         l = l->next) {
        count++;
    }
    return count;
}

/* ---- hits ---------------------------------------------------------------- */

WT_CASE("stream_slot", .setup = set_up, .teardown = tear_down);

WT_TEST(test_C1_what_is_freed_is_kept_for_its_stream)
{
    static const size_t sizes[] = {100, 60 * KIB, MIB};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = take(stream[0], sizes[i]);
        uint64_t locks;

        give(block);
        locks = wm_lock_taken();
        for (int k = 0; k < 3; k++) {
            ck_assert_ptr_eq(take(stream[0], sizes[i]), block);
            give(block);
        }
        ck_assert_uint_eq(wm_lock_taken(), locks);
        wt_fails(WARM_INVALID_POINTER, warm_free(block));
        wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    }
    ck_assert_uint_eq(stats_now().all.live.current, 0);
    ck_assert_uint_eq(stats_now().all.live.allocated,
                      4 * (sizeof sizes / sizeof *sizes));
}

WT_TEST(test_C1_streams_in_turn_hit_without_a_lock)
{
    void *block[2] = {take(stream[0], 60 * KIB), take(stream[1], 60 * KIB)};
    void *first[2] = {block[0], block[1]};
    uint64_t locks;

    wt_free_all(first, 2);
    locks = wm_lock_taken();
    for (int i = 0; i < 6; i++) {
        ck_assert_ptr_eq(take(stream[i % 2], 60 * KIB), block[i % 2]);
        give(block[i % 2]);
    }
    ck_assert_uint_eq(wm_lock_taken(), locks);
}

WT_LOOP_TEST(test_C1_legacy_stream_keeps_as_well, 2)
{
    static const warm_stream legacy[] = {NULL, WARM_STREAM_LEGACY};
    void *block = take(legacy[_i], 60 * KIB);
    uint64_t locks;

    give(block);
    locks = wm_lock_taken();
    ck_assert_ptr_eq(take(legacy[_i], 60 * KIB), block);
    give(block);
    ck_assert_uint_eq(wm_lock_taken(), locks);
}

/* Where nothing of its size is kept a request takes what is up to twice as
 * large, and at most 1 MiB larger, without a lock; nothing larger, nor a large
 * block for a small one. */
WT_LOOP_TEST(test_C3_C1_a_block_of_up_to_twice_the_size_will_do, 12)
{
    static const struct {
        size_t kept, asked;
        bool serves;
    } row[] = {{72 * KIB, 64 * KIB, true},    {128 * KIB, 64 * KIB, true},
               {144 * KIB, 71 * KIB, false},  {72 * KIB, 72 * KIB + 1, false},
               {512 * KIB, 256 * KIB, true},  {512 * KIB, 255 * KIB, false},
               {576 * KIB, 512 * KIB, false}, {1024 * KIB, 513 * KIB, true},
               {2 * MIB, 1024 * KIB, true},   {2 * MIB, 1023 * KIB, false},
               {4 * MIB, 3072 * KIB, true},   {4 * MIB, 3071 * KIB, false}};
    void *kept = take(stream[0], row[_i].kept), *block;
    uint64_t locks;

    give(take(stream[0], 512)); /* of a slab */
    give(kept);
    locks = wm_lock_taken();
    block = take(stream[0], row[_i].asked);
    ck_assert(!row[_i].serves || block == kept);
    ck_assert(!row[_i].serves || wm_lock_taken() == locks);
    ck_assert_uint_eq(wm_space_find(block)->bytes,
                      row[_i].serves ? row[_i].kept
                                     : wm_size_round(row[_i].asked));
    ck_assert_uint_eq(stats_now().all.requested_bytes.current, row[_i].asked);
    ck_assert_uint_eq(stats_now().all.live_bytes.current,
                      wm_space_find(block)->bytes);
    ck_assert_uint_eq(stats_now().small.live.current,
                      row[_i].asked <= 512 * KIB);
    give(block);
    ck_assert_uint_eq(stats_now().all.live_bytes.current, 0);
}

/* Of one that nobody adopted nothing is known; nor of a device that is not. */
WT_TEST(test_C1_streams_that_are_not_adopted_keep_nothing)
{
    warm_stream foreign, there;
    void *block;

    wt_ok(wm_driver_stream_create(runtime->driver, 0, &foreign));
    block = take(foreign, 60 * KIB);
    give(block);
    ck_assert_uint_eq(wm_window_current->slots_used, 0);
    ck_assert_ptr_eq(take(foreign, 60 * KIB), block);
    give(block);
    wt_ok(wm_driver_stream_destroy(runtime->driver, foreign));
    wt_ok(warm_stream_create(runtime, 1, &there));
    wt_ok(warm_device_alloc(runtime, 1, there, 100, &block));
    give(block);
    wt_invalid(warm_device_alloc(runtime, 0, there, 100, &block));
    wt_invalid(warm_device_alloc(runtime, -1, NULL, 100, &block));
    wt_ok(warm_stream_destroy(runtime, there));
}

/* More than fit: the older half of a class goes, back to the lane, and not to
 * where anybody has it. */
WT_TEST(test_a_set_has_bounds)
{
    void *block[3 * BLOCKS];

    for (int i = 0; i < 3 * BLOCKS; i++) {
        block[i] = take(stream[0], 60 * KIB);
    }
    for (int i = 0; i < 3 * BLOCKS; i++) {
        give(block[i]);
        ck_assert_uint_le(kept(stream[0]), BLOCKS);
    }
    ck_assert_uint_ge(kept(stream[0]), BLOCKS / 2);
    ck_assert_uint_eq(
        wm_transfer_bytes(&space()->group.arenas[0].transfer_cache), 0);
    ck_assert_uint_eq(stats_now().all.active.current, 0);
}

/* Streams of one thread, more than it has slots for. */
WT_TEST(test_C1_slots_are_handed_on)
{
    void *block[STREAMS];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < STREAMS; i++) {
            block[i] = take(stream[i], 60 * KIB);
        }
        for (int i = 0; i < STREAMS; i++) {
            for (int k = 0; k < i; k++) {
                ck_assert_ptr_ne(block[i], block[k]);
            }
        }
        wt_free_all(block, STREAMS);
        ck_assert_uint_eq(wm_window_current->slots_used, WM_STREAM_SLOTS);
        ck_assert_uint_eq(stats_now().all.live.current, 0);
        ck_assert(wm_space_check_settled(space()));
    }
    ck_assert_uint_eq(stats_now().all.live.allocated, 3 * STREAMS);
    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_eq(wm_group_arenas(&space()->group)->out_bytes, 0);
}

/* In turn, more streams than slots: most requests leave the slots as they are,
 * and what they cache. A stream that is used again and again gets one. */
WT_TEST(test_C1_streams_without_a_slot_seldom_take_one_over)
{
    enum { ROUNDS = 100, AGAIN = 200 };
    uint64_t number[WM_STREAM_SLOTS] = {0};
    unsigned changes = 0, without = 0;

    for (int i = 0; i < ROUNDS * STREAMS; i++) {
        give(take(stream[i % STREAMS], 60 * KIB));
        const wm_window *window = wm_window_current;
        for (int k = 0; k < WM_STREAM_SLOTS; k++) {
            const wm_magazine_set *set = wm_stream_slot_set(&window->slot[k]);
            uint64_t now = set != NULL ? set->number : 0;

            changes += now != number[k];
            number[k] = now;
        }
    }
    ck_assert_uint_le(changes, WM_STREAM_SLOTS + ROUNDS * STREAMS / 50);
    while (wm_stream_slot_of(wm_window_mine(), 0, stream[without]) != NULL) {
        without++;
    }
    for (int i = 0; i < AGAIN; i++) {
        give(take(stream[without], 60 * KIB));
    }
    ck_assert_uint_gt(kept(stream[without]), 0);
    ck_assert(wm_space_check_settled(space()));
}

/* ---- whose it is next ---------------------------------------------------- */

/* The device is full: what lies in the magazine is all there is. */
static void limit(double bytes)
{
    wt_limit(runtime, bytes);
}

WT_LOOP_TEST(test_C1_C2_others_get_it_once_the_stream_has_passed, 2)
{
    static const size_t sizes[] = {500, 60 * KIB};
    size_t bytes = sizes[_i];
    void *block[HELD], *pointer;
    wt_gate *gate;

    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    block[0] = take(stream[0], bytes);
    limit((double)stats_now().all.held_bytes.current + 1);
    for (int i = 1; i < HELD; i++) {
        block[i] = take(stream[0], bytes);
    }
    gate = wt_gate_close(runtime, stream[0]);
    wt_gate_await(gate);
    wt_free_all(block, HELD);
    ck_assert_uint_gt(kept(stream[0]), 0);
    /* Whatever it gets now was never handed out. */
    while (warm_device_alloc(runtime, 0, stream[1], bytes, &pointer) ==
           WARM_OK) {
        for (int i = 0; i < HELD; i++) {
            wt_require(pointer != block[i], "in use on another stream");
        }
    }
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream[0]));
    wt_ok(warm_device_alloc(runtime, 0, stream[1], bytes, &pointer));
    wt_ok(warm_runtime_destroy(runtime, NULL)); /* with all of those */
    set_up();
}

/* The stream is retired and adopted once more, at the same address: what was
 * kept for it is not its any more, and the others get neither that nor what is
 * handed out since before it has passed. */
WT_LOOP_TEST(test_C1_a_stream_that_comes_back_begins_anew, 2)
{
    size_t bytes = _i == 0 ? 500 : 60 * KIB;
    void *old = take(stream[0], bytes), *late = take(stream[0], bytes), *block;
    size_t before = lanes();
    wt_gate *gate;

    give(old);
    wt_ok(warm_stream_retire(runtime, stream[0]));
    wt_ok(warm_stream_adopt(runtime, stream[0]));
    wt_ok(warm_stream_synchronize(runtime, stream[0]));
    wt_ok(warm_poll(runtime));
    block = take(stream[0], bytes);
    give(late); /* of the old time */
    gate = wt_gate_close(runtime, stream[0]);
    wt_gate_await(gate);
    give(block);
    for (int i = 0; i < HELD; i++) {
        void *other = take(stream[1], bytes);

        ck_assert_ptr_ne(other, block);
        give(other);
    }
    wt_gate_open(gate);
    ck_assert_uint_eq(kept(stream[0]), 1);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_le(lanes(), before + 1); /* that of the other one */
    ck_assert_uint_eq(stats_now().all.held_bytes.current, 0);
}

/* Nobody could have it, until its thread came by. */
WT_TEST(test_C1_what_outlives_its_stream_is_everybodys_at_once)
{
    void *late = take(stream[0], 60 * KIB);

    wt_ok(warm_stream_retire(runtime, stream[0]));
    wt_ok(warm_stream_synchronize(runtime, stream[0]));
    wt_ok(warm_poll(runtime));
    give(late);
    ck_assert_uint_eq(kept(stream[0]), 0);
    ck_assert_uint_eq(wm_group_arenas(&space()->group)->out_bytes, 0);
    wt_ok(warm_stream_adopt(runtime, stream[0]));
}

WT_TEST(test_C1_nothing_is_kept_while_a_capture_is_announced)
{
    void *kept_block = take(stream[0], 60 * KIB), *block;
    warm_graph graph;

    give(kept_block);
    wt_ok(warm_capture_begin(runtime, stream[0]));
    block = take(stream[0], 60 * KIB);
    ck_assert_ptr_ne(block, kept_block);
    ck_assert(atomic_load_explicit(&wm_space_find(block)->captured,
                                   memory_order_relaxed));
    wt_ok(warm_capture_end(runtime, stream[0], &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    ck_assert_ptr_eq(take(stream[0], 60 * KIB), kept_block);
    give(kept_block);
    ck_assert_uint_eq(kept(stream[0]), 1);
    wt_ok(warm_capture_announce(runtime, stream[1]));
    give(block); /* is kept for ever */
    block = take(stream[0], 60 * KIB);
    ck_assert_ptr_ne(block, kept_block);
    give(block);
    ck_assert_uint_eq(kept(stream[0]), 1);
    wt_ok(warm_capture_announce_end(runtime, stream[1]));
    ck_assert_ptr_eq(take(stream[0], 60 * KIB), kept_block);
    give(kept_block);
}

/* It cannot capture: a block of its own is a graph's only by a use on a stream
 * that does. */
WT_TEST(test_C1_E4_the_legacy_stream_keeps_while_others_capture)
{
    void *block = take(NULL, 60 * KIB), *other;
    warm_graph graph;

    give(block);
    wt_ok(warm_capture_begin(runtime, stream[0]));
    ck_assert_ptr_eq(take(NULL, 60 * KIB), block);
    ck_assert(!atomic_load_explicit(&wm_space_find(block)->captured,
                                    memory_order_relaxed));
    give(block);
    ck_assert_ptr_eq(take(NULL, 60 * KIB), block);
    wt_ok(warm_record_stream(block, stream[0]));
    give(block);
    other = take(NULL, 60 * KIB);
    ck_assert_ptr_ne(other, block);
    give(other);
    ck_assert_uint_eq(stats_now().captured, 1);
    wt_ok(warm_capture_end(runtime, stream[0], &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* A use on another stream: the block waits for that. */
WT_TEST(test_C4_a_block_that_is_used_elsewhere_is_not_kept)
{
    void *block = take(stream[0], 60 * KIB), *next;
    wt_gate *gate = wt_gate_close(runtime, stream[1]);

    wt_ok(warm_record_stream(block, stream[1]));
    give(block);
    ck_assert_uint_eq(kept(stream[0]), 0);
    next = take(stream[0], 60 * KIB);
    ck_assert_ptr_ne(next, block);
    ck_assert_uint_eq(stats_now().all.live.current, 1);
    ck_assert_uint_eq(stats_now().all.active.current, 2);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream[1]));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().all.active.current, 1);
    give(next);
}

/* ---- other threads ------------------------------------------------------- */

static struct {
    pthread_barrier_t ready, over;
    void *block[HELD];
    warm_status status;
} aside;

/* Keeps some, and sleeps. */
static void *keep_some(void *on)
{
    for (int i = 0; i < HELD; i++) {
        aside.status =
            warm_device_alloc(runtime, 0, on, 300 * KIB, &aside.block[i]);
        if (aside.status != WARM_OK) {
            break;
        }
    }
    for (int i = 0; i < HELD && aside.status == WARM_OK; i++) {
        aside.status = warm_free(aside.block[i]);
    }
    pthread_barrier_wait(&aside.ready);
    pthread_barrier_wait(&aside.over);
    return NULL;
}

static pthread_t begin_aside(warm_stream on)
{
    pthread_t thread;

    pthread_barrier_init(&aside.ready, NULL, 2);
    pthread_barrier_init(&aside.over, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_some, on), 0);
    pthread_barrier_wait(&aside.ready);
    wt_ok(aside.status);
    return thread;
}

static void end_aside(pthread_t thread)
{
    pthread_barrier_wait(&aside.over);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&aside.ready);
    pthread_barrier_destroy(&aside.over);
}

/* With an idle segment of a large request more is held than the bound. What the
 * other thread keeps comes before another segment, and before a part of that
 * one. */
WT_LOOP_TEST(test_C2_B25_what_another_thread_keeps_is_found_before_growth, 2)
{
    enum { LARGE = 32 << 20 };
    warm_stream on = _i == 0 ? stream[0] : stream[1];
    pthread_t thread = begin_aside(stream[0]);
    char *block[HELD], *large = take(on, LARGE);
    uint64_t before;

    give(large);
    wt_peak_at(&space()->group, 0);
    before = obtained();
    for (int i = 0; i < HELD; i++) {
        block[i] = take(on, 300 * KIB);
        ck_assert(block[i] < large || block[i] >= large + LARGE);
    }
    ck_assert_uint_eq(obtained(), before);
    wt_free_all(block, HELD);
    end_aside(thread);
}

WT_LOOP_TEST(test_C8_what_threads_keep_goes_with_the_cache, 2)
{
    pthread_t thread = begin_aside(stream[0]);
    warm_device_cache info = {.size = sizeof info};
    size_t released = 0, held;

    give(take(stream[1], 3 * MIB));
    give(take(NULL, 100));
    held = stats_now().all.held_bytes.current;
    ck_assert_uint_gt(held, 0);
    wt_ok(warm_device_cache_info(runtime, 0, &info));
    ck_assert_uint_eq(info.idle_bytes, held);
    ck_assert_uint_ge(info.largest_bytes, 3 * MIB);
    if (_i > 0) {
        wt_ok(warm_stream_retire(runtime, stream[0])); /* and never used */
        wt_ok(warm_stream_adopt(runtime, stream[0]));
    }
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_eq(released, held);
    ck_assert_uint_eq(stats_now().all.held_bytes.current, 0);
    end_aside(thread);
}

static void *free_aside(void *block)
{
    aside.status = warm_free(block);
    return NULL;
}

WT_TEST(test_C1_another_thread_may_free_it)
{
    void *block = take(stream[0], 60 * KIB);
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, free_aside, block), 0);
    pthread_join(thread, NULL);
    wt_ok(aside.status);
    ck_assert_uint_eq(stats_now().all.live.current, 0);
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    ck_assert_ptr_eq(take(stream[0], 60 * KIB), block);
    give(block);
}

WT_TEST(test_B11_what_is_not_used_any_more_goes)
{
    give(take(stream[0], 60 * KIB));
    give(take(stream[1], 60 * KIB));
    wm_cache_flush_idle(&space()->group); /* used since the last time */
    ck_assert_uint_eq(kept(stream[0]), 1);
    give(take(stream[1], 60 * KIB));
    wm_cache_flush_idle(&space()->group);
    ck_assert_uint_eq(kept(stream[0]), 0);
    ck_assert_uint_eq(kept(stream[1]), 1);
}

/* By option, and while events are told. */
WT_LOOP_TEST(test_nothing_is_kept_where_it_shall_not_be, 2)
{
    static const warm_options options[] = {
        {.size = sizeof(warm_options), .device = "host", .keep = WARM_OFF},
        {.size = sizeof(warm_options), .device = "host", .history = 100}};
    warm_runtime *other = wt_runtime(&options[_i]);
    warm_device_stats stats = {.size = sizeof stats};
    void *block;

    for (int i = 0; i < 3; i++) {
        wt_ok(warm_device_alloc(other, 0, NULL, 60 * KIB, &block));
        wt_ok(warm_free(block));
    }
    ck_assert_uint_eq(wm_window_current->slots_used, 0);
    wt_ok(warm_device_get_stats(other, 0, &stats));
    ck_assert_uint_eq(stats.all.live.freed, 3);
    wt_runtime_end(other);
}

/* ---- figures ------------------------------------------------------------- */

WT_TEST(test_B14_C6_figures_are_exact_with_magazines)
{
    void *small[3], *large[2];
    warm_device_stats s;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            small[i] = take(stream[0], 100 * KIB + 1);
        }
        give(small[0]);
        for (int i = 0; i < 2; i++) {
            large[i] = take(stream[0], 2 * MIB - 5);
        }
        s = stats_now();
        ck_assert_uint_eq(s.all.live.current, 4);
        ck_assert_uint_eq(s.small.live.current, 2);
        ck_assert_uint_eq(s.large.live.current, 2);
        ck_assert_uint_eq(s.small.requested_bytes.current, 200 * KIB + 2);
        ck_assert_uint_eq(s.large.requested_bytes.current, 4 * MIB - 10);
        ck_assert_uint_eq(s.large.live_bytes.current, 4 * MIB);
        ck_assert_uint_eq(s.all.active.current, 4);
        give(small[1]);
        give(small[2]);
        give(large[0]);
        give(large[1]);
    }
    s = stats_now();
    wt_peak(s.all.live.peak, 4, WT_ROOM_BLOCKS);
    ck_assert_uint_eq(s.all.live.allocated, 10);
    ck_assert_uint_eq(s.all.live.freed, 10);
    ck_assert_uint_eq(s.small.live.freed, 6);
    ck_assert_uint_eq(s.large.active.freed, 4);
    ck_assert_uint_eq(s.all.active_bytes.current, 0);
    ck_assert_uint_eq(s.cache_hits + s.driver_alloc.count, 10);
    wt_ok(warm_device_reset_peaks(runtime, 0));
    wt_ok(warm_device_reset_totals(runtime, 0));
    s = stats_now();
    ck_assert_uint_eq(s.all.live.peak, 0);
    ck_assert_uint_eq(s.all.live.allocated, 0);
}
