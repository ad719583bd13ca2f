/* check_pending.c: frees on adopted streams that wait in the thread's slots
 * (rows B4 to B7): the bounds of a slot, which threads flush it, and what is
 * counted meanwhile. Host device; the tests drive time and streams. */
#include "pending_bed.h"

#include "wt_barrier.h"

#include "alloc/space/space_int.h"

/* ---- bounds -------------------------------------------------------------- */

WT_CASE("pending", .setup = set_up, .teardown = tear_down);

/* The first record makes the slot; after that frees batch in it until there
 * are as many as make a batch worth a question. */
WT_LOOP_TEST(test_count_bounds_what_a_slot_batches, 2)
{
    unsigned most = _i == 0 ? WM_BATCH_RIPE : 3;

    reopen(
        (warm_options){.test = _i == 0 ? "batch_count=100" : "batch_count=3"});
    wt_stop(runtime, stream);
    for (unsigned i = 1; i < most; i++) {
        wt_free_used(take(), stream);
        ck_assert_uint_eq(batched(stream), i);
        ck_assert_uint_eq(timeline_of(stream)->open.count, 0);
        ck_assert_uint_eq(batched_blocks(), i);
    }
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 0);
    ck_assert_uint_eq(batched_blocks(), 0);
    /* Full there as well, or joined to what others may add to. */
    ck_assert_uint_eq(timeline_of(stream)->open.count, _i == 0 ? most : 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), _i != 0);
    check_references(stream, most);
    pass_all();
    check_references(stream, 0);
}

/* A slot has a part of what a batch may have. */
WT_TEST(test_bytes_bound_what_a_slot_batches)
{
    reopen((warm_options){.test = wt_list("batch_bytes=%d", 4 * 3 * BYTES)});
    wt_stop(runtime, stream);
    for (unsigned round = 1; round <= 3; round++) {
        for (unsigned i = 1; i < 3; i++) {
            wt_free_used(take(), stream);
            ck_assert_uint_eq(batched(stream), i);
        }
        wt_free_used(take(), stream);
        ck_assert_uint_eq(batched(stream), 0);
        ck_assert_uint_eq(timeline_of(stream)->open.bytes, round * 3u * BYTES);
    }
    wt_go(runtime, stream);
}

/* By age the oldest of all slots counts, and nothing that is younger goes. */
WT_TEST(test_age_bounds_what_slots_batch)
{
    warm_stream other = stream_beside();

    wt_stop(runtime, stream);
    wt_stop(runtime, other);
    wt_free_used(take(), stream);
    now_ns += 10;
    wt_free_used(take(), other);
    wm_timelines_close_old(timelines(), now_ns - 11);
    ck_assert_uint_eq(batched(stream), 1);
    ck_assert_uint_eq(batched(other), 1);
    wm_timelines_close_old(timelines(), now_ns - 10);
    ck_assert_uint_eq(batched(stream), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    ck_assert_uint_eq(timeline_of(stream)->queued, 1);
    wm_timelines_close_old(timelines(), now_ns);
    ck_assert_uint_eq(batched(other), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 2);
    wt_go(runtime, stream);
    wt_go(runtime, other);
}

/* What joins younger blocks keeps its age. */
WT_TEST(test_age_is_that_of_the_oldest_block)
{
    void *block = take();
    uint64_t began = now_ns;

    wt_stop(runtime, stream);
    wt_free_used(take(), stream);
    now_ns += 10;
    /* Another's stream in the way: this free does not batch. */
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_record_stream(block, WARM_STREAM_LEGACY));
    wt_ok(warm_free(block));
    ck_assert_uint_eq(timeline_of(stream)->open.since_ns, now_ns);
    wm_pending_collect_all(timelines(), NULL, UINT64_MAX);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 2);
    ck_assert_uint_eq(timeline_of(stream)->open.since_ns, began);
    ck_assert_uint_eq(timeline_of(stream)->open.bytes, 2 * BYTES);
    wt_go(runtime, stream);
}

/* ---- slots, and their references ----------------------------------------- */

/* A stream that no other one keeps from its entry, once the table is as large
 * as it may be. */
static warm_stream stream_with_entry(bool *taken)
{
    const wm_pending largest = {.bits = WM_PENDING_BITS_MAX};
    warm_stream made;

    do {
        wt_ok(warm_stream_create(runtime, 0, &made));
    } while (taken[wm_pending_index(&largest, made)]);
    taken[wm_pending_index(&largest, made)] = true;
    return made;
}

/* Each stream has a slot, whose record is below 1 KiB; a miss polls a few of
 * them. */
WT_TEST(test_B25_each_stream_has_a_slot)
{
    bool taken[1 << WM_PENDING_BITS_MAX] = {false};
    warm_stream all[MANY_STREAMS];
    uint64_t flushed;

    for (int i = 0; i < MANY_STREAMS; i++) {
        all[i] = stream_with_entry(taken);
        wt_stop(runtime, all[i]);
        wt_free_used(take(), all[i]); /* the way that makes the slot */
        wt_free_used(take(), all[i]);
    }
    for (int i = 0; i < MANY_STREAMS; i++) {
        ck_assert_uint_eq(batched(all[i]), 2);
        check_references(all[i], 2);
    }
    ck_assert_uint_le(
        sizeof(wm_pending_stream) + 4 * sizeof(wm_pending_stream *), 1024);
    flushed = batched_blocks();
    ck_assert(!wm_pending_poll_mine(&runtime->pinned->space.group, 1));
    ck_assert_uint_eq(batched_blocks(), flushed - 2 * WM_PENDING_FEW);
    for (int i = 0; i < MANY_STREAMS; i++) {
        wt_go(runtime, all[i]);
    }
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    for (int i = 0; i < MANY_STREAMS; i++) {
        check_references(all[i], 0);
        wt_ok(warm_stream_destroy(runtime, all[i]));
    }
    ck_assert_uint_eq(slots_in_use(), 0);
    wt_free_used(take(), stream); /* slots without a stream have no turn */
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 2);
    (void)wm_pending_poll_mine(&runtime->pinned->space.group, 2);
    ck_assert_uint_eq(batched_blocks(), 0);
}

/* Streams that the thread does not use any more have no turn at a miss, and the
 * batch of the one that it uses is as large as if it had used no other. */
WT_TEST(test_B25_streams_of_the_past_do_not_make_batches_small)
{
    wm_arena_group *group = &runtime->pinned->space.group;
    warm_stream past[2 * WM_PENDING_FEW];

    for (int i = 0; i < 2 * WM_PENDING_FEW; i++) {
        wt_ok(warm_stream_create(runtime, 0, &past[i]));
        wt_free_used(take(), past[i]);
        wt_free_used(take(), past[i]);
    }
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(slots_in_turn(), 2 * WM_PENDING_FEW);
    for (int i = 0; i < 6; i++) { /* polls each, and looks at each once more */
        (void)wm_pending_poll_mine(group, ++now_ns);
    }
    ck_assert_uint_eq(slots_in_turn(), 0);
    ck_assert_uint_eq(slots_in_use(), 2 * WM_PENDING_FEW);
    wt_stop(runtime, past[0]);
    do { /* the next batch has the new bounds */
        wt_free_used(take(), past[0]);
    } while (batched(past[0]) > 0);
    for (unsigned i = 1; i < WM_BATCH_RIPE; i++) {
        wt_free_used(take(), past[0]);
        ck_assert_uint_eq(batched(past[0]), i);
    }
    ck_assert_uint_eq(slots_in_turn(), 1);
    wt_go(runtime, past[0]);
}

/* Slots of streams that are not used for long are detached, so that another
 * thread may have the stream alone; those of streams in rotation are not. */
WT_TEST(test_B25_slots_of_the_past_are_detached)
{
    enum { ALL = 4 * WM_PENDING_FEW, TURNS = 3 };
    wm_arena_group *group = &runtime->pinned->space.group;
    const wm_pending_stream *newest;
    warm_stream all[ALL];

    for (unsigned i = 0; i < TURNS * ALL; i++) {
        if (i < ALL) {
            wt_ok(warm_stream_create(runtime, 0, &all[i]));
        }
        wt_free_used(take(), all[i % ALL]);
        (void)wm_pending_poll_mine(group, ++now_ns);
        ck_assert_uint_eq(slots_in_use(), i < ALL ? i + 1 : ALL);
    }
    wt_ok(warm_poll(runtime));
    newest = wm_pending_first(pending_of_mine());
    for (int i = 0; i < 2 * WM_PENDING_IDLE * ALL; i++) {
        (void)wm_pending_poll_mine(group, ++now_ns);
    }
    ck_assert_uint_eq(slots_in_use(), 0);
    check_references(all[0], 0);
    for (int i = 0; i < ALL; i++) { /* the records serve again */
        wt_free_used(take(), all[i]);
    }
    ck_assert_ptr_eq(wm_pending_first(pending_of_mine()), newest);
}

/* The table is full: the stream that comes last has the slot, and what the one
 * before had batched is in its timeline. */
WT_TEST(test_a_slot_that_another_stream_wants_is_emptied)
{
    warm_stream other;

    wt_stop(runtime, stream);
    wt_free_used(take(), stream);
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 2);
    other = take_slot_of(stream);
    ck_assert_ptr_null(slot_of(stream)->stream);
    ck_assert_ptr_eq(slot_of(other)->stream, other);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 2);
    check_references(stream, 2);
    wt_go(runtime, stream);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    check_references(stream, 0);
}

/* More live blocks than a slot has references for at once. */
WT_TEST(test_a_slot_never_gives_its_last_reference)
{
    static void *block[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        block[i] = take();
        wt_ok(warm_record_stream(block[i], stream));
        wt_ok(warm_record_stream(block[i], stream));
        check_references(stream, i + 1);
    }
    wt_free_all(block, MANY);
    wt_ok(warm_poll(runtime));
    check_references(stream, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
}

/* A block that waits is nobody's: its free is refused, by the same thread and
 * by another one, in the slot and told. */
static void *free_it(void *block)
{
    return (void *)(uintptr_t)warm_free(block);
}

WT_TEST(test_a_batched_block_is_freed_once)
{
    void *block = take();
    void *status = NULL;
    pthread_t thread;

    wt_stop(runtime, stream);
    wt_free_used(take(), stream);
    wt_free_used(block, stream);
    ck_assert_uint_eq(batched(stream), 2);
    for (int i = 0; i < 2; i++) {
        wt_fails(WARM_INVALID_POINTER, warm_free(block));
        wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
        ck_assert_int_eq(pthread_create(&thread, NULL, free_it, block), 0);
        pthread_join(thread, &status);
        ck_assert_uint_eq((uintptr_t)status, WARM_INVALID_POINTER);
        ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 2);
    }
    wt_go(runtime, stream);
}

/* Somebody is about to visit the window, and may be so for long: what its
 * thread frees meanwhile batches as ever; not where hits are not wanted at all.
 */
WT_TEST(test_frees_before_a_visit_batch_too)
{
    wm_biased_lock *biased;
    char *block[12];

    for (int i = 0; i < 12; i++) {
        block[i] = take();
        wt_ok(warm_record_stream(block[i], stream));
    }
    biased = &wm_window_mine()->biased; /* the thread has one now */
    wt_stop(runtime, stream);
    wt_ok(warm_free(block[0]));
    wm_biased_revoke(biased, WM_REVOKED_VISIT);
    wt_fails(WARM_INVALID_POINTER, warm_free(block[1] + 1));
    wt_ok(warm_free(block[1]));
    wt_fails(WARM_INVALID_POINTER, warm_free(block[1]));
    ck_assert_uint_eq(batched(stream), 2);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 0);
    wm_biased_revoke(biased, WM_REVOKED_SLOW);
    wt_ok(warm_free(block[2]));
    ck_assert_uint_eq(batched(stream), 2);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 1);
    wm_biased_restore(biased, WM_REVOKED_SLOW);
    for (int i = 3; i < 11; i++) { /* fills a batch */
        wt_ok(warm_free(block[i]));
    }
    ck_assert_uint_eq(batched(stream), 2);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 9);
    wm_biased_restore(biased, WM_REVOKED_VISIT);
    wt_ok(warm_free(block[11]));
    ck_assert_uint_eq(batched(stream), 3);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 12);
    pass_all();
    check_references(stream, 0);
}

/* A block that another thread frees as well, by mistake, may name a timeline
 * that is gone by then: who does not get the block does not look at it. */
WT_TEST(test_C10_a_free_that_comes_second_reads_no_timeline)
{
    wm_timeline *gone = (wm_timeline *)(uintptr_t)4096;
    void *pointer = take();
    wm_block *block = wm_space_find(pointer);
    wm_timeline *own;
    wm_state live;

    wt_ok(warm_record_stream(pointer, stream));
    own = atomic_exchange(&block->owner_stream, gone);
    live = atomic_exchange(&block->state, WM_BLOCK_BATCHED);
    ck_assert(!wm_pending_free(wm_window_mine(), block));
    /* Nor is one kept that has been handed out anew. */
    atomic_store(&block->owner_stream, NULL);
    atomic_store(&block->state, live);
    ck_assert(!wm_pending_free(wm_window_mine(), block));
    ck_assert_uint_eq(atomic_load(&block->state), live);
    atomic_store(&block->owner_stream, own);
    wt_ok(warm_free(pointer));
    ck_assert_uint_eq(batched(stream), 1);
}

/* A thread moves to another node: what it batched stays what it is, and where
 * it is; what it keeps does not come with it. */
WT_TEST(test_a_thread_that_moves_leaves_its_slots)
{
    warm_space_stats node[2] = {{.size = sizeof *node}, {.size = sizeof *node}};
    warm_block_info info = {.size = sizeof info};
    warm_stream pooled;
    void *block;

    reopen((warm_options){.host_devices = 2, .test = "numa_nodes=2"});
    wt_ok(warm_stream_reserve(runtime, 0, &pooled));
    wt_stop(runtime, stream);
    block = take();
    wt_free_used(take(), stream);
    wt_free_used(take(), stream);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(batched(stream), 2);
    wt_ok(warm_stream_reserve(runtime, 1, &pooled));
    block = take();
    wt_ok(warm_block_get_info(block, &info));
    ck_assert_int_eq(info.node, 1);
    ck_assert_uint_eq(batched(stream), 0);
    for (unsigned i = 0; i < 2; i++) {
        wt_ok(warm_pinned_get_node_stats(runtime, (int)i, &node[i]));
        ck_assert_uint_eq(node[i].pending.current, i == 0 ? 2 : 0);
        ck_assert_uint_eq(node[i].live.current, i);
    }
    ck_assert_uint_eq(node[0].cached_bytes, 0);
    ck_assert(wm_space_check_settled(&runtime->pinned->space));
    wt_ok(warm_free(block));
    wt_go(runtime, stream);
}

/* ---- what is counted ----------------------------------------------------- */

WT_TEST(test_figures_are_right_while_slots_are_open)
{
    warm_space_stats stats;
    void *live = take();

    wt_stop(runtime, stream);
    for (unsigned i = 1; i < 5; i++) {
        wt_free_used(take(), stream);
        stats = wt_pinned_stats(runtime);
        ck_assert_uint_eq(batched(stream), i);
        ck_assert_uint_eq(stats.pending.current, i);
        ck_assert_uint_eq(stats.pending_bytes.current, i * BYTES);
        ck_assert_uint_eq(stats.live.current, 1);
        ck_assert_uint_eq(stats.live.freed, i);
        wt_peak(stats.live.peak, 2, WT_ROOM_BLOCKS);
        ck_assert_uint_eq(stats.requested_bytes.current, SIZE);
        ck_assert_uint_eq(stats.live_bytes.current, BYTES);
        ck_assert(wm_space_check_settled(&runtime->pinned->space));
    }
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 4);
    wt_go(runtime, stream);
    wt_ok(warm_poll(runtime));
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 0);
    ck_assert_uint_eq(stats.pending.current, 0);
    ck_assert_uint_eq(stats.pending.allocated, 4);
    ck_assert_uint_eq(stats.pending.freed, 4);
    wt_ok(warm_free(live));
}

/* Two threads that refill from different arenas: one counts as pending what
 * the other allocated. */
struct freer {
    pthread_barrier_t barrier;
    void *block[8];
    bool over;
    warm_status status;
};

static void *free_rounds(void *argument)
{
    struct freer *freer = argument;

    for (;;) {
        pthread_barrier_wait(&freer->barrier);
        if (freer->over) {
            return NULL;
        }
        for (int i = 0; i < 8 && freer->status == WARM_OK; i++) {
            freer->status = warm_record_stream(freer->block[i], stream);
            if (freer->status == WARM_OK) {
                freer->status = warm_free(freer->block[i]);
            }
        }
        pthread_barrier_wait(&freer->barrier);
    }
}

WT_TEST(test_B14_pending_blocks_are_those_of_all_arenas)
{
    struct freer freer = {.over = false};
    pthread_t thread;

    reopen((warm_options){.test = "arenas=2"});
    wt_ok(warm_free(take())); /* this thread has one of the arenas */
    pthread_barrier_init(&freer.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_rounds, &freer), 0);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 8; i++) {
            freer.block[i] = take();
        }
        pthread_barrier_wait(&freer.barrier);
        pthread_barrier_wait(&freer.barrier);
        wt_ok(freer.status);
        wt_ok(warm_poll(runtime));
        check_pending(0);
    }
    freer.over = true;
    pthread_barrier_wait(&freer.barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&freer.barrier);
}

/* A batch that cannot get its event closes inside a free: that leaves the
 * thread's last error alone. */
WT_TEST(test_a_full_slot_leaves_the_last_error_alone)
{
    reopen((warm_options){.test = "batch_count=2"});
    wt_fails(WARM_INVALID_POINTER, warm_free(&runtime));
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, 0));
    wt_free_used(take(), stream);
    wt_free_used(take(), stream);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    wt_says("not allocated");
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
}

/* What has passed goes to the thread that asked, as far as it may keep so
 * much; the rest goes where it belongs. Either way all of it is there. */
WT_TEST(test_what_passes_comes_back_to_the_thread)
{
    void *block[4];
    warm_block_info info = {.size = sizeof info};
    warm_space_stats stats;

    reopen((warm_options){
        .test = wt_list("batch_count=4:magazine_bytes=%d", 16 * 6 * BYTES)});
    for (int i = 0; i < 4; i++) {
        block[i] = take();
    }
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    for (int i = 0; i < 4; i++) {
        wt_free_used(block[i], stream);
    }
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.pending.current, 0);
    ck_assert_uint_eq(stats.cached_bytes, 4 * BYTES);
    ck_assert(wm_space_check_settled(&runtime->pinned->space));
    for (int i = 0; i < 4; i++) {
        block[i] = take();
        wt_ok(warm_block_get_info(block[i], &info));
        ck_assert_uint_eq(info.streams, 0);
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    check_references(stream, 0);
    wt_free_all(block, 4);
}

/* As far as its part of the budget goes: the rest is where every thread finds
 * it. */
WT_TEST(test_B25_what_passes_stays_with_the_thread_within_its_part)
{
    enum { LARGE = 256 << 10, COUNT = 24 };
    void *block[COUNT];

    /* Batches of 1 MiB, which are not too large beside one that is out. */
    reopen((warm_options){.test = "batch_count=4", .keep = 1});
    for (int i = 0; i < COUNT; i++) {
        block[i] = wt_pinned(runtime, LARGE);
    }
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    for (int i = 0; i < COUNT; i++) {
        wt_free_used(block[i], stream);
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes,
                      WM_KEEP_FLOOR / LARGE * LARGE);
    ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes,
                      wt_pinned_stats(runtime).held_bytes.current);
}

/* ---- other threads ------------------------------------------------------- */

/* One of two threads that use a stream has a part, so that the other finds what
 * is ready. */
WT_TEST(test_a_steady_thread_batches_whole_batches)
{
    struct idler idler;

    become_steady(20, 16);
    wt_stop(runtime, stream);
    for (size_t i = 1; i < 20; i++) {
        wt_free_used(take(), stream);
        ck_assert_uint_eq(batched(stream), i);
    }
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 0);
    ck_assert_uint_eq(slot_of(stream)->closed, 1);
    idle_begin(&idler, 1);
    wt_free_used(take(), stream);
    wm_timelines_close_old(timelines(), UINT64_MAX);
    for (size_t i = 1; i < WM_BATCH_RIPE; i++) {
        wt_free_used(take(), stream);
        ck_assert_uint_eq(batched(stream), i);
    }
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 0);
    idle_end(&idler);
    wt_go(runtime, stream);
}

/* Time passes for a thread that never misses, too: a full batch is a use. */
WT_TEST(test_B25_full_batches_are_uses)
{
    enum { FREES = WM_ECONOMY_STEP * WM_BATCH_RIPE };
    void *block[FREES];
    uint32_t uses;

    for (int i = 0; i < FREES; i++) {
        block[i] = take();
    }
    wt_stop(runtime, stream);
    uses = atomic_load(&economy()->uses);
    for (int i = 0; i < FREES; i++) {
        wt_free_used(block[i], stream);
    }
    ck_assert_uint_ge(atomic_load(&economy()->uses), uses + WM_ECONOMY_STEP);
    pass_all();
}

/* After a growth, whoever's it is, what passes is needed elsewhere: batches are
 * small again. */
WT_TEST(test_a_growth_ends_what_is_steady)
{
    enum { MORE = 256 << 10 };
    void *live;

    become_steady(20, 16);
    live = take();
    wt_ok(warm_free(wt_pinned(runtime, MORE)));
    wt_ok(warm_free(live));
    ck_assert(!wm_economy_is_stable(economy()));
    wt_free_used(take(), stream);
    wt_ok(warm_poll(runtime)); /* the next batch has the new bounds */
    wt_stop(runtime, stream);
    for (size_t i = 1; i < WM_BATCH_RIPE; i++) {
        wt_free_used(take(), stream);
        ck_assert_uint_eq(batched(stream), i);
    }
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 0);
    pass_all();
}

/* Who is steady leaves alone what another thread has asked for just now: that
 * would miss it. */
WT_LOOP_TEST(test_who_is_steady_asks_for_nobody_else, 3)
{
    const wm_arena *arena;
    struct idler idler;

    idle_begin(&idler, WM_BATCH_RIPE);
    arena = atomic_load(&timeline_of(stream)->home);
    ck_assert_uint_eq(timeline_of(stream)->open.count, WM_BATCH_RIPE);
    timeline_of(stream)->polled_ns = now_ns;
    now_ns += _i == 0 ? 999999 : 1000000;
    wm_timelines_poll_for(timelines(), 8, arena, _i < 2, now_ns);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current,
                      _i == 0 ? WM_BATCH_RIPE : 0);
    idle_end(&idler);
}

/* A stream that was busy when it was queried gets events for the next batches,
 * and is then queried again. */
WT_TEST(test_B4_B25_a_stream_that_was_busy_is_not_queried_each_time)
{
    enum { TRUSTED = 8 };

    for (unsigned i = 0; i <= 1 + TRUSTED; i++) {
        uint64_t asked = wt_calls(runtime, "stream_passed");
        uint64_t marks = wt_calls(runtime, "event_mark");

        wt_stop(runtime, stream);
        for (unsigned k = 0; k < WM_BATCH_RIPE; k++) {
            wt_free_used(take(), stream);
        }
        (void)wm_pending_poll_mine(&runtime->pinned->space.group, ++now_ns);
        ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + 1);
        ck_assert_uint_eq(wt_calls(runtime, "stream_passed"),
                          asked + (i % (1 + TRUSTED) == 0));
        wt_go(runtime, stream);
    }
}

/* Bytes of a segment: a second one would pass the bound. */
enum { ALL = 2 * WM_ECONOMY_FLOOR };

/* Memory is taken from the slots of others before any is obtained beyond the
 * limit, or the bound. */
WT_LOOP_TEST(test_B25_a_miss_finds_what_an_idle_thread_batched, 2)
{
    struct idler idler;
    void *block = NULL;

    reopen((warm_options){.segment = ALL, .pinned_high = _i == 0 ? ALL : 0});
    idle_begin(&idler, 3);
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 3);
    wt_ok(warm_pinned_alloc(runtime, ALL, &block));
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    wt_ok(warm_free(block));
    idle_end(&idler);
    ck_assert_uint_eq(idler.left, 0);
}

/* And what another thread that misses as well has just taken from them, and not
 * asked for yet. What was asked for is not asked for again. */
WT_LOOP_TEST(test_B12_a_miss_asks_for_what_another_one_fetched, 2)
{
    wm_space *space = &runtime->pinned->space;
    struct idler idler;
    uint64_t queries;

    idle_begin(&idler, 3);
    ck_assert(!wm_timelines_unasked(timelines()));
    ck_assert(wm_pending_collect_all(timelines(), NULL, UINT64_MAX));
    ck_assert(wm_timelines_unasked(timelines()));
    if (_i == 1) {
        wt_stop(runtime, stream);
    }
    wm_space_collect_pending(space);
    ck_assert(!wm_timelines_unasked(timelines()));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current,
                      _i == 0 ? 0 : 3);
    queries =
        wt_calls(runtime, "stream_passed") + wt_calls(runtime, "event_passed");
    wm_space_collect_pending(space);
    ck_assert_uint_eq(wt_calls(runtime, "stream_passed") +
                          wt_calls(runtime, "event_passed"),
                      queries);
    if (_i == 1) {
        wt_go(runtime, stream);
    }
    idle_end(&idler);
}

/* What an idle thread batched is taken before what it keeps. */
static void *batch_and_keep(void *argument)
{
    struct idler *idler = argument;
    void *block[5] = {NULL};

    for (int i = 0; i < 5 && idler->status == WARM_OK; i++) {
        idler->status = warm_pinned_alloc(
            runtime, i == 0 ? 512 << 10 : 64 << 10, &block[i]);
    }
    if (idler->status == WARM_OK) {
        idler->status = warm_record_stream(block[0], stream);
    }
    for (int i = 0; i < 5; i++) {
        (void)warm_free(block[i]);
    }
    pthread_barrier_wait(&idler->barrier);
    pthread_barrier_wait(&idler->barrier);
    idler->left = (size_t)wm_magazine_set_bytes(
        atomic_load(&wm_window_mine()->magazines));
    return NULL;
}

WT_TEST(test_what_others_batch_goes_before_what_they_keep)
{
    struct idler idler = {.blocks = 0};
    void *rest, *block = NULL;

    reopen((warm_options){.test = "arenas=1", .segment = ALL});
    rest = wt_pinned(runtime, ALL - (768 << 10));
    pthread_barrier_init(&idler.barrier, NULL, 2);
    ck_assert_int_eq(
        pthread_create(&idler.thread, NULL, batch_and_keep, &idler), 0);
    idle_await(&idler);
    wt_ok(warm_pinned_alloc(runtime, 512 << 10, &block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    idle_end(&idler);
    ck_assert_uint_eq(idler.left, 4 * (64 << 10));
    wt_free(rest, block);
}

/* As long as there is something else no thread is interrupted for it. */
WT_TEST(test_a_miss_leaves_alone_what_others_batch)
{
    void *block[16], *whole = NULL, *rest;
    warm_stream other;
    uint64_t visits;
    struct idler idler;

    reopen((warm_options){.test = "arenas=1", .segment = ALL});
    rest = wt_pinned(runtime, ALL - (2 << 20));
    other = stream_beside();
    wt_stop(runtime, other); /* there is something to be asked for */
    wt_free_used(take(), other);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_pinned_alloc(runtime, 1 << 20, &whole));
    idle_begin(&idler, 3);
    wt_ok(warm_free(whole)); /* kept: cut once there is nothing else */
    visits = atomic_load(&timelines()->visits);
    for (int i = 0; i < 16; i++) {
        wt_ok(warm_pinned_alloc(runtime, 64 << 10, &block[i]));
    }
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 3);
    ck_assert_uint_eq(atomic_load(&timelines()->visits), visits);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    wt_free_all(block, 16);
    wt_ok(warm_free(rest));
    wt_go(runtime, other);
    idle_end(&idler);
}

/* A miss asks for what the thread itself has batched, and for nobody else's if
 * that is enough. */
WT_TEST(test_a_miss_that_fills_a_batch_asks_nobody_else)
{
    enum { RUN = 128 << 10, FULL = 10, OTHERS = WM_BATCH_RIPE };
    void *block[FULL + OTHERS];
    warm_stream other;

    reopen(
        (warm_options){.test = wt_list("batch_count=%d:batch_bytes=64M", FULL),
                       .segment = (FULL + OTHERS) * RUN,
                       .pinned_high = (FULL + OTHERS) * RUN});
    other = stream_beside();
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    for (int i = 0; i < FULL + OTHERS; i++) {
        wt_ok(warm_pinned_alloc(runtime, RUN, &block[i]));
    }
    for (int i = 0; i < FULL + OTHERS; i++) {
        wt_free_used(block[i], i < FULL ? stream : other);
    }
    ck_assert_uint_eq(batched(stream), FULL - WM_BATCH_RIPE);
    wt_ok(warm_pinned_alloc(runtime, RUN, &block[0]));
    ck_assert_uint_eq(timeline_of(other)->open.count, OTHERS);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 0);
    ck_assert_uint_eq(wt_calls(runtime, "stream_passed"), 0);
    wt_ok(warm_free(block[0]));
}

/* A thread that ends leaves what it batched to the timeline, and no slot. */
WT_TEST(test_a_thread_ends_with_open_slots)
{
    struct idler idler;

    wt_stop(runtime, stream);
    idle_begin(&idler, 3);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 0);
    ck_assert_uint_eq(atomic_load(&timeline_of(stream)->slots), 1);
    idle_end(&idler);
    ck_assert_uint_eq(idler.left, 3);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 3);
    ck_assert_uint_eq(atomic_load(&timeline_of(stream)->slots), 0);
    ck_assert_uint_eq(atomic_load(&timeline_of(stream)->references), 1 + 3);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 3);
    pass_all();
}

/* Nor do the slots outlive a trim: the set waits for another thread. */
static warm_stream all_streams[MANY_STREAMS];

static void *use_streams(void *argument)
{
    struct idler *idler = argument;

    for (int i = 0; i < MANY_STREAMS; i++) {
        stream = all_streams[i];
        free_some(idler, 2);
    }
    return NULL;
}

WT_TEST(test_B25_a_trim_frees_the_slots_of_ended_threads)
{
    struct idler idler = {.blocks = 0};
    warm_stream own = stream;
    void *block[2 * MANY_STREAMS];
    int64_t live;

    for (int i = 0; i < MANY_STREAMS; i++) {
        wt_ok(warm_stream_create(runtime, 0, &all_streams[i]));
    }
    for (int i = 0; i < 2 * MANY_STREAMS; i++) {
        block[i] = take();
    }
    wt_free_all(block, 2 * MANY_STREAMS);
    live = wm_meta_live(); /* with the records of as many blocks */
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(
            pthread_create(&idler.thread, NULL, use_streams, &idler), 0);
        pthread_join(idler.thread, NULL);
        wt_ok(idler.status);
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
        ck_assert_int_lt(wm_meta_live() - live, MANY_STREAMS / 4);
    }
    stream = own;
}

/* A stream retires while others have slots for it: what they batched waits
 * for its final event, and the slots are given up. */
WT_TEST(test_B6_a_stream_retires_that_others_batch_for)
{
    struct idler idler;

    wt_stop(runtime, stream);
    wt_free_used(take(), stream);
    idle_begin(&idler, 3);
    ck_assert_uint_eq(atomic_load(&timeline_of(stream)->slots), 2);
    wt_ok(warm_stream_retire(runtime, stream));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    ck_assert_ptr_null(slot_of(stream)->stream);
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 0);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 4);
    wt_go(runtime, stream);
    wt_ok(wm_driver_stream_destroy(runtime->driver, stream));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    ck_assert_uint_eq(timelines()->count, 0);
    idle_end(&idler);
    ck_assert_uint_eq(idler.left, 0);
}

/* One stream retires: what is batched for others stays where it is. */
WT_TEST(test_a_stream_that_retires_empties_its_own_slots_only)
{
    warm_stream brief = stream_beside();

    wt_free_used(take(), stream);
    wt_free_used(take(), brief);
    wt_ok(warm_stream_retire(runtime, brief));
    ck_assert_uint_eq(batched(brief), 0);
    ck_assert_uint_eq(batched(stream), 1);
    ck_assert_uint_eq(batched_blocks(), 1);
}

/* A runtime that was born without barriers, instead of one whose threads cannot
 * be visited any more: its figures lack theirs. */
static void renew(void)
{
    wt_ok(warm_runtime_destroy(runtime, NULL));
    set_up();
}

/* A slot that could not be emptied when its stream retired, since barriers are
 * refused, batches what was recorded before, and records nothing. */
WT_TEST(test_a_slot_that_outlives_its_stream)
{
    void *before, *after, *later;
    uint64_t marks;

    wt_needs(wt_barriers_stay() == NULL, wt_barriers_stay());
    before = take();
    after = take();
    later = take();
    wt_ok(warm_record_stream(before, stream));
    wt_ok(warm_record_stream(later, stream));
    wt_refuse_barriers();
    wt_ok(warm_stream_retire(runtime, stream));
    ck_assert_ptr_eq(slot_of(stream)->stream, stream);
    marks = wt_calls(runtime, "event_mark");
    wt_ok(warm_free(before));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks);
    /* The stream goes on: its final event does not stand for this. */
    wt_stop(runtime, stream);
    wt_free_used(after, stream);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + 1);
    (void)wm_pending_poll_mine(&runtime->pinned->space.group, wm_clock_ns());
    ck_assert_uint_eq(batched(stream), 0);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 1);
    /* Adopted again: the slot is filled anew. */
    wt_ok(warm_stream_adopt(runtime, stream));
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 1);
    ck_assert_ptr_eq(atomic_load(&slot_of(stream)->timeline),
                     timeline_of(stream));
    wt_ok(warm_free(later)); /* of the timeline before */
    ck_assert_uint_eq(batched(stream), 1);
    wt_go(runtime, stream);
    renew();
}

/* A slot that nobody could empty when its stream retired, since barriers are
 * refused: what is closed in it cannot be asked for there any more. */
WT_TEST(test_B6_closed_batches_of_a_stream_that_retired)
{
    enum { FULL = 10 };
    wm_pending_stream *slot;

    wt_needs(wt_barriers_stay() == NULL, wt_barriers_stay());
    become_steady(FULL, 256);
    slot = slot_of(stream);
    wt_stop(runtime, stream);
    for (int i = 0; i < FULL + 1; i++) {
        wt_free_used(take(), stream);
    }
    wt_refuse_barriers();
    wt_ok(warm_stream_retire(runtime, stream));
    ck_assert_uint_eq(slot->closed, 1);
    (void)wm_pending_poll_mine(&runtime->pinned->space.group, wm_clock_ns());
    ck_assert_uint_eq(slot->closed, 0);
    ck_assert_uint_eq(slot->open.count, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, FULL + 1);
    wt_go(runtime, stream);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    renew();
}

static void *retire_it(void *status)
{
    *(warm_status *)status = warm_stream_retire(runtime, stream);
    return NULL;
}

/* What comes to the timeline meanwhile waits for that event, and not for one
 * that nobody will record: out of a slot that was kept, and by a free. */
WT_TEST(test_what_comes_while_a_stream_retires)
{
    void *block[2] = {take(), take()};
    warm_status status = WARM_INVALID_ARGUMENT;
    wm_timeline *t;
    pthread_t thread;

    if (wt_barriers_stay() == NULL) {
        wt_refuse_barriers();
    }
    t = timeline_of(stream);
    wt_stop(runtime, stream);
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_record_stream(block[i], stream));
        wt_ok(warm_record_stream(block[i], WARM_STREAM_LEGACY));
    }
    wt_free_used(take(), stream);
    close_door(false);
    ck_assert_int_eq(pthread_create(&thread, NULL, retire_it, &status), 0);
    await_inside();
    (void)wm_pending_poll_mine(&runtime->pinned->space.group, wm_clock_ns());
    ck_assert_uint_eq(t->queued, 1);
    ck_assert_uint_eq(t->open.count, 0);
    runtime->driver->ops = door.real;
    wt_ok(warm_free(block[0]));
    ck_assert_uint_eq(t->queued, 2);
    ck_assert_uint_eq(t->open.count, 0);
    wt_ok(warm_poll(runtime)); /* nothing has passed for want of an event */
    ck_assert_uint_eq(t->queued, 2);
    atomic_store(&door.open, true);
    pthread_join(thread, NULL);
    wt_ok(status);
    wt_ok(warm_free(block[1]));
    ck_assert_uint_eq(t->queued, 3);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(t->queued, 3);
    wt_go(runtime, stream);
    wt_ok(warm_stream_synchronize(runtime, WARM_STREAM_LEGACY));
    wt_ok(warm_poll(runtime));
    renew();
}

static _Atomic bool polled;

static void *poll_it(void *status)
{
    *(warm_status *)status = warm_poll(runtime);
    atomic_store(&polled, true);
    return NULL;
}

/* A batch that another thread closes is in no queue yet, and of one that it
 * asks for it knows more: who polls waits for both. */
WT_LOOP_TEST(test_a_poll_waits_for_who_closes_or_polls, 2)
{
    warm_status status = WARM_INVALID_ARGUMENT;
    wt_linger linger = {0};
    struct idler idler;
    pthread_t thread;

    reopen((warm_options){.test = "batch_count=3"});
    wt_stop(runtime, stream);
    atomic_store(&polled, false);
    close_door(_i == 1);
    idle_start(&idler, 3);
    await_inside();
    /* Nothing to be asked for, now, but the stream is not done with. */
    wm_timelines_poll_some(timelines(), 8, now_ns);
    ck_assert_int_eq(pthread_create(&thread, NULL, poll_it, &status), 0);
    while (wt_lingers(&linger)) {
    }
    ck_assert(!atomic_load(&polled));
    atomic_store(&door.open, true);
    pthread_join(thread, NULL);
    wt_ok(status);
    idle_await(&idler);
    idle_end(&idler);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 3);
    pass_all();
    runtime->driver->ops = door.real;
}

/* Before a capture what all threads batched on its stream gets its event. */
WT_TEST(test_a_capture_finds_nothing_batched)
{
    struct idler idler;

    wt_stop(runtime, stream);
    wt_free_used(take(), stream);
    idle_begin(&idler, 3);
    wt_ok(warm_capture_announce(runtime, stream));
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    ck_assert_uint_eq(timeline_of(stream)->queued, 1);
    wt_free_used(take(), stream); /* by itself: nothing batches meanwhile */
    ck_assert_uint_eq(wm_pending_blocks(timelines()), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    wt_ok(warm_capture_announce_end(runtime, stream));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 2);
    wt_free_used(take(), stream);
    ck_assert_uint_eq(batched(stream), 1);
    wt_go(runtime, stream);
    idle_end(&idler);
}

/* A graph uses the block; that it was recorded again later makes no batched
 * block of it. */
WT_TEST(test_a_block_of_a_graph_is_not_batched)
{
    void *block = take(), *other = take();
    warm_graph graph = NULL;

    wt_ok(warm_record_stream(other, stream)); /* makes the slot */
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    ck_assert_uint_eq(batched(stream), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 1);
    check_references(stream, 1);
    wt_ok(warm_free(other));
    ck_assert_uint_eq(batched(stream), 1);
    wt_ok(warm_graph_destroy(runtime, graph));
}
