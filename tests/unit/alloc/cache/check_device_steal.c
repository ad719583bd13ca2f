/* check_device_steal.c: several arenas of a device (rows C1 to C4, C6): a
 * stream uses its memory in whichever of them it lies; each thread refills from
 * one, and from the siblings before the driver is called. */
/* memcheck: one process */
#include "wt.h"
#include "wt_economy.h"

#include "alloc/kinds/device_space.h"
#include "alloc/space/space_int.h"
#include "alloc/cache/cache_int.h"

#include <pthread.h>

#define MIB ((size_t)1 << 20)
enum { SIZE = 64 << 10 };

static warm_runtime *runtime;
static warm_stream mine, its; /* streams of this thread, and of the other */

static wm_space *space(void)
{
    return &runtime->device_spaces[0].space;
}

static wm_arena *arena(unsigned i)
{
    return &space()->group.arenas[i];
}

static void *take(warm_stream on, size_t bytes)
{
    return wt_device(runtime, on, bytes);
}

/* This thread uses the first arena from then on. */
static void begin(warm_options options)
{
    options.size = sizeof options;
    options.device = "host";
    options.test = wt_list("arenas=2:%s", options.test ? options.test : "");
    options.stream_wait = options.stream_wait ? options.stream_wait : "off";
    runtime = wt_runtime(&options);
    wt_ok(warm_stream_create(runtime, 0, &mine));
    wt_ok(warm_stream_create(runtime, 0, &its));
    wt_ok(warm_free(take(mine, 512)));
}

static void end(void)
{
    ck_assert(wm_space_check_settled(space()));
    wt_ok(warm_stream_destroy(runtime, mine));
    if (its != NULL) {
        wt_ok(warm_stream_destroy(runtime, its));
    }
    wt_runtime_end(runtime);
}

static uint64_t obtained(void)
{
    return wt_device_stats(runtime).driver_alloc.count;
}

static wm_arena *arena_of(const void *pointer)
{
    return wm_space_find(pointer)->segment->arena;
}

static const wm_lane *lane_of(const void *pointer)
{
    const wm_block *block = wm_space_find(pointer);

    return block->slab != NULL ? block->slab->run->lane : block->lane;
}

/* What a thread of its own does, while the caller waits for it: takes blocks on
 * its stream, and leaves them there, idle, but for the last one if it keeps
 * that. */
static struct {
    size_t bytes[2];
    void *block[2];
    bool keeps;
    warm_status status;
} other;

static void in_other(void *argument, unsigned index)
{
    (void)argument;
    (void)index;
    for (int i = 0; i < 2 && other.status == WARM_OK; i++) {
        other.status =
            warm_device_alloc(runtime, 0, its, other.bytes[i], &other.block[i]);
    }
    for (int i = 0; i < (other.keeps ? 1 : 2); i++) {
        (void)warm_free(other.block[i]);
    }
}

static void other_leaves(size_t first, size_t last, bool keeps)
{
    other.bytes[0] = first;
    other.bytes[1] = last;
    other.keeps = keeps;
    wt_threads(1, in_other, NULL);
    wt_ok(other.status);
}

/* ---- who uses which ------------------------------------------------------ */

/* A thread is in one arena, whatever its streams; those that have gone count no
 * more. */
WT_TEST(test_C1_threads_use_an_arena_each)
{
    void *block[2];

    begin((warm_options){.size = 0});
    block[0] = take(mine, SIZE);
    ck_assert_ptr_eq(arena_of(block[0]), arena(0));
    for (int i = 0; i < 3; i++) {
        other_leaves(3 * MIB, 0, false);
        ck_assert_ptr_eq(wm_block_at(other.block[0])->segment->arena, arena(1));
    }
    block[1] = take(its, 100);
    ck_assert_ptr_eq(arena_of(block[1]), arena(0));
    ck_assert_uint_eq(arena(0)->sets, 2);
    ck_assert_uint_eq(arena(1)->sets, 0);
    wt_free_all(block, 2);
    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_eq(arena(0)->sets, 0);
    end();
}

static struct {
    pthread_barrier_t step;
    unsigned after[2];
    bool met;
    warm_status status[2];
} parting;

static wm_magazine_set *set_of(warm_stream stream)
{
    return wm_stream_slot_set(wm_stream_slot_of(wm_window_mine(), 0, stream));
}

/* As if each had met the other at the lock again and again. */
static void part(void *argument, unsigned index)
{
    warm_stream on = index == 0 ? mine : its;
    void *block = NULL, *miss = NULL;

    (void)argument;
    parting.status[index] = warm_device_alloc(runtime, 0, on, SIZE, &block);
    pthread_barrier_wait(&parting.step);
    wm_biased_acquire(&wm_window_mine()->biased);
    set_of(on)->contended = parting.met ? WM_CONTENTION_LIMIT : 0;
    set_of(on)->locked = WM_CONTENTION_SAMPLE;
    wm_biased_release(&wm_window_mine()->biased);
    (void)warm_device_alloc(runtime, 0, on, 10000 + 3000 * index, &miss);
    pthread_barrier_wait(&parting.step);
    parting.after[index] = set_of(on)->arena->shard;
    (void)warm_free(miss);
    (void)warm_free(block);
    /* What it has now, and what it takes, is in the order of its stream still.
     */
    if (parting.status[index] == WARM_OK) {
        void *again = NULL;

        parting.status[index] = warm_device_alloc(runtime, 0, on, SIZE, &again);
        parting.status[index] =
            again == block ? parting.status[index] : WARM_NOT_FOUND;
        (void)warm_free(again);
    }
}

/* Without a number they share one until they meet there: runs of the loop, with
 * and without that. */
WT_LOOP_TEST(test_C1_threads_that_meet_part, 2)
{
    begin((warm_options){.size = 0});
    wt_ok(warm_thread_release(runtime));
    space()->group.parted = false;
    parting.met = _i == 1;
    pthread_barrier_init(&parting.step, NULL, 2);
    wt_threads(2, part, NULL);
    pthread_barrier_destroy(&parting.step);
    wt_ok(parting.status[0]);
    wt_ok(parting.status[1]);
    ck_assert_uint_eq(parting.after[0] + parting.after[1], _i == 1 ? 1 : 0);
    ck_assert_uint_eq(arena(0)->sets + arena(1)->sets, 0);
    end();
}

/* Of what a thread keeps one block is given back for a request that can be cut
 * out of it, and is looked for in the arena that it is of: all the others stay
 * with the thread. */
WT_TEST(test_C2_C3_one_block_of_a_sibling_serves_a_request)
{
    enum { LESS = 800 << 10 };
    wm_block *found = NULL;
    void *block, *larger;
    int64_t before;

    begin((warm_options){
        .segment = 16 * MIB, .keep = 1000, .test = "magazine_bytes=8M"});
    wt_peak_at(&space()->group, 128 * MIB);
    other_leaves(6 * MIB, MIB, true); /* or the region would move over */
    larger = take(its, MIB + MIB / 2);
    block = take(its, MIB);
    ck_assert_ptr_eq(arena_of(larger), arena(1));
    ck_assert_ptr_eq(arena_of(block), arena(1));
    wt_free(larger, block);
    before = wm_magazine_set_bytes(set_of(its));
    ck_assert_int_eq(before, 2 * MIB + MIB / 2);
    ck_assert(wm_space_reclaim(space(),
                               &(wm_request){.bytes = LESS,
                                             .arena = arena(0),
                                             .lane = set_of(its)->lane,
                                             .stream = its,
                                             .epoch = 1},
                               true, &found));
    ck_assert_ptr_nonnull(found);
    ck_assert_ptr_eq(found->segment->arena, arena(1));
    ck_assert_int_eq(wm_magazine_set_bytes(set_of(its)), before - (int64_t)MIB);
    wm_arena_free(arena(1), found, WM_BLOCK_IDLE);
    wt_ok(warm_free(other.block[1]));
    end();
}

/* As is one with what is idle beside it. */
WT_TEST(test_C2_C3_a_row_in_a_sibling_serves_a_request)
{
    wm_request request = {.bytes = 2 * MIB};
    wm_block *found;
    void *block[2];

    begin((warm_options){
        .segment = 16 * MIB, .keep = 1000, .test = "magazine_bytes=8M"});
    wt_peak_at(&space()->group, 128 * MIB);
    other_leaves(6 * MIB, MIB, true);
    for (int i = 0; i < 2; i++) {
        block[i] = take(its, MIB);
        ck_assert_ptr_eq(arena_of(block[i]), arena(1));
    }
    wt_free_all(block, 2);
    request.arena = arena(0);
    request.lane = set_of(its)->lane;
    request.stream = its;
    request.epoch = atomic_load(&runtime->stream_epoch);
    found = wm_cache_carve(&space()->group, &request, true);
    ck_assert_ptr_nonnull(found);
    ck_assert_ptr_eq(found->segment->arena, arena(1));
    ck_assert_int_eq(wm_magazine_set_bytes(set_of(its)), (int64_t)MIB);
    wt_free(found->base, other.block[1]);
    end();
}

/* ---- in the order of streams --------------------------------------------- */

/* The queue of the stream stands still: a request on it may have what was freed
 * on it, in whichever arena; by a size that threads keep, and by others. */
WT_LOOP_TEST(test_C1_a_stream_has_its_memory_back_in_any_arena, 3)
{
    static const size_t sizes[] = {MIB + MIB / 2, 3 * MIB, 6 * MIB};
    size_t bytes = sizes[_i];
    uint64_t before;
    wt_gate *gate;
    void *block;

    begin((warm_options){.size = 0});
    gate = wt_gate_close(runtime, its);
    wt_gate_await(gate);
    other_leaves(bytes, bytes, false);
    ck_assert_uint_gt(wm_arena_held(arena(1)), 0);
    before = obtained();
    block = take(its, bytes);
    ck_assert(block == other.block[0] || block == other.block[1]);
    ck_assert_uint_eq(obtained(), before);
    wt_gate_open(gate);
    wt_ok(warm_free(block));
    end();
}

/* Another stream has it once its own has passed, and not before; then before
 * memory is obtained, or taken back from threads. A region that is wholly idle,
 * which moves over, and a part of one that stays; asked for before, or for the
 * first time: runs of the loop. */
WT_LOOP_TEST(test_C1_C3_another_stream_has_it_once_its_own_has_passed, 4)
{
    bool stays = _i % 2 == 1, early = _i < 2;
    void *block[2] = {NULL, NULL};
    uint64_t before;
    int64_t kept;
    wt_gate *gate;

    begin((warm_options){.segment = stays ? 8 * MIB : 0});
    wt_peak_at(&space()->group, 128 * MIB);
    gate = wt_gate_close(runtime, its);
    wt_gate_await(gate);
    other_leaves(6 * MIB, stays ? MIB + 1 : 0, stays);
    ck_assert_uint_gt(wm_arena_held(arena(1)), 0);
    before = obtained();
    if (early) {
        block[0] = take(mine, 6 * MIB);
        ck_assert_ptr_ne(block[0], other.block[0]);
        ck_assert_uint_eq(obtained(), before + 1);
    }
    wt_ok(warm_free(take(mine, 512)));
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, its));
    kept = wm_magazine_set_bytes(set_of(mine));
    ck_assert_int_gt(kept, 0);
    block[1] = take(mine, 6 * MIB);
    /* Before what threads keep is taken back. */
    ck_assert_int_eq(wm_magazine_set_bytes(set_of(mine)), kept);
    ck_assert_ptr_eq(block[1], other.block[0]);
    ck_assert_ptr_eq(arena_of(block[1]), arena(stays ? 1 : 0));
    ck_assert_uint_eq(obtained(), before + early);
    for (int i = 0; i < 2; i++) {
        wt_free(block[i], stays && i == 1 ? other.block[1] : NULL);
    }
    end();
}

/* What a stream has left in several arenas is for others when it is retired. */
WT_TEST(test_C4_a_stream_that_is_retired_leaves_what_it_has_in_all)
{
    const size_t bytes = 6 * MIB;
    void *here, *block[2];
    uint64_t before;

    begin((warm_options){.size = 0});
    here = take(its, bytes);
    ck_assert_ptr_eq(arena_of(here), arena(0));
    other_leaves(bytes, 0, false);
    wt_ok(warm_free(here));
    wt_ok(warm_stream_destroy(runtime, its));
    its = NULL;
    wt_ok(warm_poll(runtime));
    before = obtained();
    for (int i = 0; i < 2; i++) {
        block[i] = take(mine, bytes);
        ck_assert(block[i] == here || block[i] == other.block[0]);
    }
    ck_assert_uint_eq(obtained(), before);
    wt_free_all(block, 2);
    end();
}

/* One that goes on after it was retired is told as any other, for what it has
 * in any of them. */
WT_TEST(test_C4_a_stream_that_was_retired_is_told_in_all)
{
    const size_t bytes = 6 * MIB;
    wt_gate *gate;
    void *block;

    begin((warm_options){.size = 0});
    other_leaves(0, bytes, true);
    ck_assert_ptr_eq(arena_of(other.block[1]), arena(1));
    wt_ok(warm_stream_retire(runtime, its));
    wt_ok(warm_poll(runtime));
    gate = wt_gate_close(runtime, its);
    wt_gate_await(gate);
    wt_ok(warm_record_stream(other.block[1], its));
    wt_ok(warm_free(other.block[1]));
    block = take(mine, bytes);
    ck_assert_ptr_ne(block, other.block[1]);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, its));
    wt_ok(warm_poll(runtime));
    wt_ok(warm_free(block));
    end();
}

static size_t lanes_of(const wm_arena *arena)
{
    size_t count = 0;

    for (const wm_lane *l = arena->lanes; l != NULL; l = l->next) {
        count++;
    }
    return count;
}

/* A stream ends, and another one has memory, while the driver is asked for some
 * in the order of the first one. */
static struct {
    const wm_driver_ops *real;
    wm_driver_ops ops;
    void *block;
    warm_status status;
} meanwhile;

static void replace_stream(void *argument, unsigned index)
{
    (void)argument;
    (void)index;
    meanwhile.status = warm_stream_retire(runtime, mine);
    if (meanwhile.status == WARM_OK) {
        meanwhile.status = warm_poll(runtime);
    }
    if (meanwhile.status == WARM_OK) {
        meanwhile.status = warm_stream_create(runtime, 0, &its);
    }
    if (meanwhile.status == WARM_OK) {
        meanwhile.status =
            warm_device_alloc(runtime, 0, its, 512, &meanwhile.block);
    }
}

static warm_status alloc_slowly(wm_driver *d, int device, size_t bytes,
                                void **pointer)
{
    runtime->driver->ops = meanwhile.real;
    wt_threads(1, replace_stream, NULL);
    return meanwhile.real->device_alloc(d, device, bytes, pointer);
}

static void replace_meanwhile(void)
{
    meanwhile.real = runtime->driver->ops;
    meanwhile.ops = *meanwhile.real;
    meanwhile.ops.device_alloc = alloc_slowly;
    runtime->driver->ops = &meanwhile.ops;
}

/* What was asked for is nobody's then: with magazines, of which a set names the
 * lane as well, and without. */
WT_LOOP_TEST(test_C4_a_stream_ends_while_it_is_allocated_for, 2)
{
    void *block;

    begin((warm_options){.keep = _i == 0 ? 0 : WARM_OFF});
    wt_ok(warm_stream_destroy(runtime, its));
    replace_meanwhile();
    block = take(mine, 20 * MIB);
    wt_ok(meanwhile.status);
    ck_assert_uint_eq(wm_space_find(block)->lane_id, 0);
    ck_assert_ptr_ne(lane_of(block), lane_of(meanwhile.block));
    wt_free(block, meanwhile.block);
    end();
}

/* A thread that kept memory in the order of a stream that has ended. */
WT_TEST(test_C4_a_lane_that_a_set_names_is_no_other_streams)
{
    const wm_lane *old;
    void *block;

    begin((warm_options){.size = 0});
    wt_ok(warm_stream_destroy(runtime, its));
    block = take(mine, 512);
    old = lane_of(block);
    wt_ok(warm_free(block));
    wt_threads(1, replace_stream, NULL);
    wt_ok(meanwhile.status);
    ck_assert_ptr_ne(lane_of(meanwhile.block), old);
    wt_ok(warm_free(meanwhile.block));
    end();
}

/* A stream has a lane where it takes memory, besides its first: not where it
 * only looked. */
WT_TEST(test_C1_lanes_are_made_where_memory_is_taken)
{
    enum { STREAMS = 8 };
    warm_stream stream[STREAMS];
    void *block[STREAMS];

    begin((warm_options){.size = 0});
    other_leaves(0, 3 * MIB, true);
    ck_assert_uint_eq(lanes_of(arena(1)), 1);
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
        block[i] = take(stream[i], 40 * MIB);
    }
    ck_assert_uint_eq(lanes_of(arena(1)), 1);
    ck_assert_uint_eq(lanes_of(arena(0)), STREAMS + 2);
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_free(block[i]));
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    wt_ok(warm_free(other.block[1]));
    end();
}

/* ---- short of memory ----------------------------------------------------- */

/* Regions that siblings have idle go for one that is larger, be it that the
 * device has no more, or that the limit says so. */
WT_LOOP_TEST(test_C2_C8_what_siblings_have_idle_goes_back_before_it_is_refused,
             2)
{
    void *block;

    begin((warm_options){.host_memory = 64 * MIB});
    other_leaves(20 * MIB, 12 * MIB, false);
    wt_ok(warm_stream_synchronize(runtime, its));
    if (_i == 1) {
        wt_ok(warm_watermarks_set_ratio(runtime, 0, 0.75, 0));
    }
    block = take(mine, 42 * MIB);
    ck_assert_uint_eq(wm_arena_held(arena(1)), 0);
    ck_assert_uint_ge(wt_device_stats(runtime).driver_free.count, 2);
    ck_assert_uint_eq(wt_device_stats(runtime).failures, 0);
    wt_ok(warm_free(block));
    other_leaves(20 * MIB, 12 * MIB, false);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current, 0);
    end();
}

/* What is idle longest goes first, in whichever arena it lies: a third stream
 * may have neither, the others stand still. */
WT_TEST(test_C8_those_of_all_siblings_idle_longest_go_first)
{
    const size_t bytes = 32 * MIB;
    wt_gate *gate[2];
    warm_stream third;
    size_t held, threshold;
    void *block, *small;

    /* Within the bound: only the watermark returns anything. */
    begin((warm_options){
        .host_memory = 512 * MIB, .segment = bytes, .slack = 1000});
    small = take(mine, 512);
    wt_ok(warm_stream_create(runtime, 0, &third));
    gate[0] = wt_gate_close(runtime, mine);
    gate[1] = wt_gate_close(runtime, its);
    wt_gate_await(gate[0]);
    wt_gate_await(gate[1]);
    block = take(mine, bytes);
    other_leaves(0, bytes, true);
    wt_free(other.block[1], block);
    held = wm_arena_held(arena(0));
    ck_assert_uint_eq(wm_arena_held(arena(1)), bytes);
    threshold = held + bytes + bytes / 2;
    wt_ok(warm_watermarks_set(runtime, 0, 0, threshold));
    block = take(third, 20 * MIB);
    ck_assert_uint_eq(wm_arena_held(arena(1)), 0);
    ck_assert_uint_eq(wm_arena_held(arena(0)), held + bytes);
    wt_gate_open(gate[0]);
    wt_gate_open(gate[1]);
    wt_free(small, block);
    wt_ok(warm_stream_destroy(runtime, third));
    end();
}

/* The largest, be they in turn in one and the other, and no more than is asked
 * for. */
WT_TEST(test_C8_the_largest_of_all_siblings_go_first)
{
    void *here[2];
    size_t held, released = 0;

    begin((warm_options){.host_memory = 512 * MIB});
    here[0] = take(mine, 70 * MIB);
    here[1] = take(mine, 20 * MIB);
    held = wm_arena_held(arena(0));
    other_leaves(0, 60 * MIB, true);
    ck_assert_uint_eq(wm_arena_held(arena(1)), 60 * MIB);
    wt_ok(warm_free(other.block[1]));
    wt_free_all(here, 2);
    wt_ok(warm_device_trim(runtime, 0, held - 20 * MIB, &released));
    ck_assert_uint_eq(released, 130 * MIB);
    ck_assert_uint_eq(wm_arena_held(arena(0)), held - 70 * MIB);
    end();
}

/* A stream waits for one whose memory lies in a sibling. */
WT_TEST(test_C2_a_stream_waits_for_memory_of_a_sibling)
{
    wt_gate *gate;
    void *block;

    begin((warm_options){.host_memory = 64 * MIB, .stream_wait = "short"});
    gate = wt_gate_close(runtime, its);
    wt_gate_await(gate);
    /* The rest of the region is live, or the device would be waited for. */
    other_leaves(40 * MIB, 0, false);
    other_leaves(0, 2 * MIB, true);
    ck_assert_ptr_eq(arena_of(other.block[1]), arena(1));
    block = take(mine, 30 * MIB);
    ck_assert_ptr_eq(arena_of(block), arena(1));
    ck_assert_uint_eq(wt_device_stats(runtime).failures, 0);
    wt_gate_open(gate);
    wt_free(block, other.block[1]);
    end();
}

/* ---- figures ------------------------------------------------------------- */

/* Blocks of one arena in the figures of another; a region that moves. */
WT_TEST(test_C6_B14_figures_are_sums_over_siblings)
{
    warm_device_cache info = {.size = sizeof info};
    warm_device_stats s;
    void *block;

    begin((warm_options){.segment = 4 * MIB});
    wt_peak_at(&space()->group, 128 * MIB); /* growth is free */
    other_leaves(3 * MIB, SIZE, true);
    wt_ok(warm_stream_synchronize(runtime, its));
    block = take(mine, 3 * MIB);
    wt_ok(warm_free(other.block[1]));
    s = wt_device_stats(runtime);
    ck_assert_uint_eq(s.all.segments.allocated, 2);
    ck_assert_uint_eq(s.all.held_bytes.current, 8 * MIB);
    ck_assert_uint_eq(s.all.held_bytes.peak, 8 * MIB);
    ck_assert_uint_eq(s.all.live.allocated, 4);
    ck_assert_uint_eq(s.all.live.current, 1);
    ck_assert_uint_eq(s.all.active_bytes.current, 3 * MIB);
    ck_assert_uint_eq(s.small.live.current, 0);
    ck_assert_uint_eq(s.small.held_bytes.current, 4 * MIB);
    ck_assert_uint_eq(s.large.live_bytes.current, 3 * MIB);
    ck_assert_uint_eq(s.large.inactive_split_bytes, MIB);
    ck_assert_uint_eq(s.cache_hits + s.driver_alloc.count, 4);
    wt_ok(warm_device_cache_info(runtime, 0, &info));
    ck_assert_uint_eq(info.idle_bytes, 5 * MIB);
    ck_assert_uint_gt(info.largest_bytes, 3 * MIB);
    wt_ok(warm_free(block));
    s = wt_device_stats(runtime);
    ck_assert_uint_eq(s.all.active.current, 0);
    ck_assert_uint_eq(s.large.live.freed, 2);
    end();
}

static struct {
    size_t bytes;
    unsigned moves, moved;
    _Atomic bool over;
    uint64_t least, most;  /* bytes held, as they were read */
    uint64_t fewest, many; /* segments */
} moving;

/* One moves it to and fro; the other looks on. */
static void move_or_look(void *argument, unsigned index)
{
    (void)argument;
    if (index == 0) {
        for (unsigned i = 0; i < moving.moves; i++) {
            moving.moved += wm_arena_steal_segment(arena(i % 2), moving.bytes);
        }
        atomic_store(&moving.over, true);
        return;
    }
    while (!atomic_load(&moving.over)) {
        warm_device_stats stats = {.size = sizeof stats};
        warm_space_stats sum = {.size = sizeof sum};
        uint64_t held;

        (void)warm_device_get_stats(runtime, 0, &stats);
        wm_space_stats(space(), &sum);
        held = stats.all.held_bytes.current;
        moving.least = held < moving.least ? held : moving.least;
        moving.most = held > moving.most ? held : moving.most;
        held = sum.segments.current;
        moving.fewest = held < moving.fewest ? held : moving.fewest;
        moving.many = held > moving.many ? held : moving.many;
    }
}

/* A region that moves meanwhile is counted once. */
WT_TEST(test_C6_figures_are_of_one_moment)
{
    warm_device_stats s;

    begin((warm_options){.size = 0});
    other_leaves(6 * MIB, 0, false);
    wt_ok(warm_stream_destroy(runtime, its));
    its = NULL;
    wt_ok(warm_poll(runtime));
    s = wt_device_stats(runtime);
    moving.bytes = 6 * MIB;
    moving.moves = wt_scaled(4000);
    moving.least = moving.fewest = UINT64_MAX;
    wt_threads(2, move_or_look, NULL);
    ck_assert_uint_eq(moving.moved, moving.moves);
    if (moving.most > 0) { /* it looked at least once */
        ck_assert_uint_eq(moving.least, s.all.held_bytes.current);
        ck_assert_uint_eq(moving.most, s.all.held_bytes.current);
        ck_assert_uint_eq(moving.fewest, s.all.segments.current);
        ck_assert_uint_eq(moving.many, s.all.segments.current);
    }
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.peak,
                      s.all.held_bytes.peak);
    end();
}
