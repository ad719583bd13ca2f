/* check_metadata.c: the size of the library's own memory: after many threads as
 * after a few (row B25), and little for what a thread does not use. Host
 * device; wm_meta_live() counts. */
/* memcheck: one process */
#include "wt.h"

#include "alloc/kinds/device_space.h"
#include "alloc/arena/arena_int.h"
#include "alloc/block/page_map.h"
#include "alloc/cache/cache_int.h"
#include "alloc/kinds/pinned.h"
#include "alloc/stream/timeline_int.h"
#include "runtime/base/meta.h"

#include <pthread.h>
#include <string.h>

enum { AT_ONCE = 4, FEW = 8, MANY = 40, SIZE = 5000 };

static warm_runtime *runtime;

/* ---- threads that come and go -------------------------------------------- */

static struct {
    pthread_barrier_t step;
    unsigned round;
    warm_status status[AT_ONCE];
    unsigned moved[AT_ONCE]; /* sets that went to another arena */
} churn;

/* The calling thread's sets go to another arena, as if their threads had met
 * at the lock again and again. */
static unsigned part(void)
{
    wm_window *window = wm_window_mine();
    unsigned moved = 0;

    wm_biased_acquire(&window->biased);
    for (int i = -1; i < WM_STREAM_SLOTS; i++) {
        wm_magazine_set *set = i < 0 ? wm_cache_set_of(window)
                                     : wm_stream_slot_set(&window->slot[i]);

        if (set != NULL) {
            const wm_arena *before = set->arena;

            set->contended = WM_CONTENTION_LIMIT;
            wm_cache_move_to_sibling(set);
            moved += set->arena != before;
        }
    }
    wm_biased_release(&window->biased);
    return moved;
}

static warm_status use_memory(warm_stream stream, int device)
{
    warm_status status = WARM_OK;
    void *block = NULL;

    for (int i = 0; i < 3 && status == WARM_OK; i++) {
        status = warm_pinned_alloc(runtime, SIZE, &block);
        if (status == WARM_OK && i > 0) {
            status = warm_record_stream(block, stream);
        }
        (void)warm_free(block);
        block = NULL;
        if (status == WARM_OK) {
            status = warm_device_alloc(runtime, device, stream, SIZE, &block);
        }
        (void)warm_free(block);
        block = NULL;
    }
    return status;
}

/* Each step one thread after the other, so that every round is as the one
 * before. They end in another order each time. */
static void live_shortly(void *argument, unsigned index)
{
    warm_status *status = &churn.status[index];
    int device = (int)(index % 2);
    warm_stream stream = NULL;

    (void)argument;
    for (unsigned turn = 0; turn < 3 * AT_ONCE; turn++) {
        if (turn == index) {
            *status = warm_stream_reserve(runtime, device, &stream);
            if (*status == WARM_OK) {
                *status = use_memory(stream, device);
            }
        } else if (turn == AT_ONCE + index && *status == WARM_OK) {
            churn.moved[index] += part();
            *status = use_memory(stream, device);
        } else if (turn == 2 * AT_ONCE + (index + churn.round) % AT_ONCE &&
                   *status == WARM_OK) {
            *status = warm_thread_release(runtime);
        }
        pthread_barrier_wait(&churn.step);
    }
}

static uint64_t pending_now(void)
{
    warm_space_stats stats = {.size = sizeof stats};

    wm_space_stats(&runtime->pinned->space, &stats);
    return stats.pending.current;
}

/* An arena keeps the records of as many slabs as it needed at once. How many
 * that are depends on how long blocks were pending, and so on the machine: the
 * most may come in a late round. */
static int64_t slab_records(void)
{
    int64_t count = 0;

    for (int i = -1; i < runtime->devices; i++) {
        const wm_space *space =
            i < 0 ? &runtime->pinned->space : &runtime->device_spaces[i].space;

        for (const wm_arena *a = space->group.arenas; a != NULL;
             a = a->next_arena) {
            for (const wm_slab *s = a->all_slabs; s != NULL; s = s->next_made) {
                count++;
            }
        }
    }
    return count;
}

/* Records of uses that are not done yet count: all are waited for. Those of
 * slabs do not. */
static int64_t live_after(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++, churn.round++) {
        wt_threads(AT_ONCE, live_shortly, NULL);
        for (int k = 0; k < AT_ONCE; k++) {
            wt_ok(churn.status[k]);
        }
        do {
            wt_ok(warm_poll(runtime));
        } while (pending_now() > 0);
    }
    return wm_meta_live() - slab_records();
}

/* Several arenas, into which threads part, and one; with two nodes a thread's
 * page-locked memory follows its device. */
static const struct {
    int arenas, nodes;
} houses[] = {{4, 1}, {1, 1}, {3, 2}, {1, 2}};

WT_LOOP_TEST(test_B25_threads_that_come_and_go_leave_no_metadata,
             sizeof houses / sizeof houses[0])
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .host_devices = 2,
                            .test =
                                wt_list("arenas=%d:numa_nodes=%d",
                                        houses[_i].arenas, houses[_i].nodes)};
    int64_t before = wm_meta_live(), few, slabs;
    unsigned moved = 0;

    runtime = wt_runtime(&options);
    for (int i = 0; houses[_i].arenas != 1 && i < 2; i++) {
        /* They begin in one arena, and part. */
        runtime->pinned->space.group.parted = false;
        runtime->device_spaces[i].space.group.parted = false;
    }
    pthread_barrier_init(&churn.step, NULL, AT_ONCE);
    memset(churn.moved, 0, sizeof churn.moved);
    churn.round = 0;
    few = live_after(FEW);
    slabs = slab_records();
    ck_assert_int_eq(live_after(MANY), few);
    ck_assert_int_le(slab_records(), slabs + AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++) {
        moved += churn.moved[i];
    }
    ck_assert(moved > 0 || houses[_i].arenas <= 1);
    pthread_barrier_destroy(&churn.step);
    wt_runtime_end(runtime);
    ck_assert_int_eq(wm_meta_live(), before + 1); /* what its users hold */
}

static unsigned spare_sets(const wm_space *space)
{
    unsigned count = 0;

    for (const wm_magazine_set *set = space->group.spare_sets; set != NULL;
         set = set->next) {
        count++;
    }
    return count;
}

static void use_all(void *argument, unsigned index)
{
    warm_status *status = argument;
    warm_stream stream = NULL;

    status[index] = warm_stream_reserve(runtime, 0, &stream);
    for (int i = 0; i < 3 && status[index] == WARM_OK; i++) {
        status[index] = use_memory(stream, 0);
    }
    pthread_barrier_wait(&churn.step);
}

/* Many threads at once: what they leave goes with the next trim, but for a few
 * sets, which serve as ever. */
WT_TEST(test_B25_a_trim_frees_what_a_burst_of_threads_left)
{
    enum { BURST = 4 * WM_SETS_KEPT };
    warm_status status[BURST];
    wm_space *pinned, *device;
    int64_t after;

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    pinned = &runtime->pinned->space;
    device = &runtime->device_spaces[0].space;
    pthread_barrier_init(&churn.step, NULL, BURST);
    for (int turn = 0; turn < 2; turn++) {
        wt_threads(BURST, use_all, status);
        for (int i = 0; i < BURST; i++) {
            wt_ok(status[i]);
        }
        wt_ok(warm_poll(runtime));
        ck_assert_uint_eq(spare_sets(pinned), BURST);
        ck_assert_uint_ge(spare_sets(device), BURST);
        after = wm_meta_live_bytes();
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
        wt_ok(warm_device_trim(runtime, 0, 0, NULL));
        ck_assert_uint_eq(spare_sets(pinned), WM_SETS_KEPT);
        ck_assert_uint_eq(spare_sets(device), WM_SETS_KEPT);
        ck_assert_int_gt(
            after - wm_meta_live_bytes(),
            (int64_t)(2 * (BURST - WM_SETS_KEPT) * sizeof(wm_magazine_set)));
        ck_assert(wm_space_check_settled(pinned));
    }
    pthread_barrier_destroy(&churn.step);
    wt_runtime_end(runtime);
}

static void use_default_stream(void *argument, unsigned index)
{
    void *block = NULL;
    warm_status status =
        warm_device_alloc(runtime, 0, WARM_STREAM_PER_THREAD, SIZE, &block);

    (void)argument;
    if (status == WARM_OK) {
        status = warm_free(block);
    }
    churn.status[index] =
        status == WARM_OK ? warm_stream_retire(runtime, WARM_STREAM_PER_THREAD)
                          : status;
}

/* Each thread's is another stream. */
WT_TEST(test_B25_default_streams_of_threads_leave_no_metadata)
{
    int64_t live = 0;

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    for (int i = 0; i < FEW + MANY; i++) {
        wt_threads(1, use_default_stream, NULL);
        wt_ok(churn.status[0]);
        wt_ok(warm_poll(runtime));
        live = i < FEW ? wm_meta_live() : live;
    }
    ck_assert_int_eq(wm_meta_live(), live);
    wt_runtime_end(runtime);
}

/* ---- what a thread costs ------------------------------------------------- */

static struct {
    warm_stream stream;
    warm_status status;
    int64_t pinned, device, batch, other_class; /* bytes of each step */
    bool device_batches, batches_early;
    unsigned slots;
} cost;

static int64_t grown_by(warm_status (*step)(void))
{
    int64_t before = wm_meta_live_bytes();

    if (cost.status == WARM_OK) {
        cost.status = step();
    }
    return wm_meta_live_bytes() - before;
}

static warm_status pinned_of(size_t bytes)
{
    void *block = NULL;
    warm_status status = warm_pinned_alloc(runtime, bytes, &block);

    (void)warm_free(block);
    return status;
}

static warm_status use_pinned(void)
{
    return pinned_of(SIZE);
}

static warm_status use_other_class(void)
{
    return pinned_of(2 * SIZE);
}

static warm_status use_device(void)
{
    void *block = NULL;
    warm_status status =
        warm_device_alloc(runtime, 0, cost.stream, SIZE, &block);

    (void)warm_free(block);
    return status;
}

/* The first goes the slow way, and makes the slot. */
static warm_status use_stream(void)
{
    warm_status status = WARM_OK;

    for (int i = 0; i < 3 && status == WARM_OK; i++) {
        void *block = NULL;

        status = warm_pinned_alloc(runtime, SIZE, &block);
        if (status == WARM_OK) {
            status = warm_record_stream(block, cost.stream);
        }
        (void)warm_free(block);
    }
    return status;
}

static void count_costs(void *argument, unsigned index)
{
    const wm_magazine_set *set;

    (void)argument;
    (void)index;
    cost.pinned = grown_by(use_pinned);
    cost.device = grown_by(use_device);
    cost.other_class = grown_by(use_other_class);
    set = wm_cache_set_of(wm_window_mine());
    cost.batches_early = wm_magazine_set_pending(set) != NULL;
    cost.batch = grown_by(use_stream);
    for (const wm_pending_stream *slot =
             wm_pending_first(wm_magazine_set_pending(set));
         slot != NULL; slot = slot->next) {
        cost.slots++;
    }
    set = wm_stream_slot_set(wm_window_mine()->slot_last);
    cost.device_batches = set == NULL || wm_magazine_set_pending(set) != NULL;
}

/* A thread that finds blocks and their records there pays for its window, a set
 * of each space, the classes that it uses, and a slot for each stream; and
 * leaves all of it to the next thread. */
WT_TEST(test_B25_a_thread_pays_for_what_it_uses)
{
    enum { SET = 9 << 10, WINDOW = 10 << 10, CLASS = 1 << 10, SLOT = 3 << 10 };
    int64_t before;

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    memset(&cost, 0, sizeof cost);
    wt_ok(warm_stream_create(runtime, 0, &cost.stream));
    wt_ok(use_pinned());
    wt_ok(use_other_class());
    wt_ok(use_device());
    wt_ok(use_stream());
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_threads(1, count_costs, NULL);
    wt_ok(cost.status);
    ck_assert_int_ge(cost.pinned, (int64_t)sizeof(wm_magazine_set));
    ck_assert_int_le(cost.pinned, WINDOW + SET + CLASS);
    ck_assert_int_le(cost.device, SET + CLASS);
    ck_assert_int_le(cost.other_class, CLASS);
    ck_assert(!cost.batches_early);
    ck_assert_int_le(cost.batch, SLOT);
    ck_assert_uint_eq(cost.slots, 1);
    ck_assert(!cost.device_batches);
    /* The next one has the blocks of this one, too. */
    wt_ok(warm_stream_synchronize(runtime, cost.stream));
    wt_ok(warm_poll(runtime));
    before = wm_meta_live_bytes();
    memset(&cost.status, 0, sizeof cost.status);
    wt_threads(1, count_costs, NULL);
    wt_ok(cost.status);
    ck_assert_int_eq(wm_meta_live_bytes(), before);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_stream_destroy(runtime, cost.stream));
    wt_runtime_end(runtime);
}

/* ---- what a stream costs ------------------------------------------------- */

enum { STREAMS = 1000, OF_STREAM = 1024 };

/* A block on each of many streams, and free again: the records of a stream, and
 * not those of its block and of the segments. */
WT_TEST(test_B25_a_stream_takes_at_most_1_KiB)
{
    const size_t bytes = 64 << 10;
    warm_stream stream[STREAMS];
    void *block[STREAMS];
    int64_t before, records = 0;

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
    }
    /* The thread's own records, and the first segments. */
    wt_ok(warm_device_alloc(runtime, 0, NULL, bytes, &block[0]));
    wt_ok(warm_free(block[0]));
    before = wm_meta_live_bytes();
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_device_alloc(runtime, 0, stream[i], bytes, &block[i]));
    }
    wt_free_all(block, STREAMS);
    for (const wm_arena *a = runtime->device_spaces[0].space.group.arenas;
         a != NULL; a = a->next_sibling) {
        for (const struct wm_chunk *c = a->record_chunks; c != NULL;
             c = c->next) {
            records += (int64_t)sizeof *c;
        }
        for (const wm_segment *s = a->all_segments; s != NULL;
             s = s->next_made) {
            records += (int64_t)(sizeof *s + s->words * sizeof s->starts[0]);
        }
    }
    /* Its timeline was made with it. */
    ck_assert_int_le((wm_meta_live_bytes() - before - records) / STREAMS +
                         (int64_t)sizeof(struct wm_timeline),
                     OF_STREAM);
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    wt_runtime_end(runtime);
}

/* A lane has bins from some runs on; without memory for them it has one list,
 * and blocks are found there. */
WT_LOOP_TEST(test_B25_a_stream_with_many_runs_gets_bins, 2)
{
    enum { RUNS = 40 };
    void *block[RUNS], *again[RUNS];
    warm_stream stream;
    const wm_lane *lane;
    wm_arena *arena;
    size_t held;

    runtime = wt_runtime(&(warm_options){
        .size = sizeof(warm_options), .device = "host", .keep = WARM_OFF});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    for (int i = 0; i < RUNS; i++) {
        wt_ok(warm_device_alloc(runtime, 0, stream, (size_t)(40 + 8 * i) << 10,
                                &block[i]));
    }
    arena = wm_block_at(block[0])->segment->arena;
    held = wm_arena_held(arena);
    lane = wm_block_at(block[0])->lane;
    ck_assert_ptr_null(lane->idle[WM_RUNS_SMALL].bins);
    wm_meta_fail((uint64_t)_i, true);
    for (int i = 0; i < RUNS; i += 2) { /* which do not merge */
        wt_ok(warm_free(block[i]));
    }
    wm_meta_fail(0, false);
    ck_assert_uint_eq(lane->idle[WM_RUNS_SMALL].count, RUNS / 2);
    ck_assert((lane->idle[WM_RUNS_SMALL].bins == NULL) == (_i == 1));
    ck_assert(wm_arena_check(arena));
    for (int i = RUNS - 2; i >= 0; i -= 2) { /* each the best fit */
        wt_ok(warm_device_alloc(runtime, 0, stream, (size_t)(40 + 8 * i) << 10,
                                &again[i]));
        ck_assert_ptr_eq(again[i], block[i]);
    }
    ck_assert_uint_eq(wm_arena_held(arena), held);
    ck_assert(wm_arena_check(arena));
    wt_free_all(block, RUNS);
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_runtime_end(runtime);
}

/* Without memory for the entries of a class, or for a slot, blocks are neither
 * lost nor miscounted; and later they are kept as ever. */
WT_TEST(test_B25_a_thread_does_without_a_class_or_a_slot)
{
    void *held, *kept[2];

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    wt_ok(warm_stream_create(runtime, 0, &cost.stream));
    /* There are records for more blocks of these sizes. */
    kept[0] = wt_pinned(runtime, SIZE);
    kept[1] = wt_pinned(runtime, 2 * SIZE);
    for (unsigned n = 1; n < 6; n++) {
        held = wt_pinned(runtime, SIZE);
        wt_ok(warm_thread_release(runtime));
        /* Else spare ones, with their entries, would do. */
        wm_cache_fini(&runtime->pinned->space.group);
        wt_ok(pinned_of(100));
        wm_meta_fail(n, true);
        wt_ok(warm_free(held));
        wt_ok(use_pinned());
        wt_ok(use_other_class());
        (void)use_stream();
        (void)use_device();
        wm_meta_fail(0, false);
        wt_ok(use_stream());
        wt_ok(use_device());
        wt_ok(warm_poll(runtime));
        ck_assert(wm_space_check_settled(&runtime->pinned->space));
        ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 2);
    }
    wt_free_all(kept, 2);
    wt_ok(warm_stream_destroy(runtime, cost.stream));
    wt_runtime_end(runtime);
}

/* ---- bursts -------------------------------------------------------------- */

enum { BURST_STREAMS = 24, BURST = 200, BURST_THREADS = 3, FAULTS = 80 };

static warm_stream burst_stream[BURST_STREAMS];

/* Some blocks are not obtained or recorded: no failure of the test. */
static void burst(void *argument, unsigned index)
{
    void *block[BURST] = {NULL};

    (void)argument;
    for (unsigned i = 0; i < BURST; i++) {
        if (warm_pinned_alloc(runtime, (size_t)64 << (i + index) % 9,
                              &block[i]) == WARM_OK) {
            (void)warm_record_stream(block[i],
                                     burst_stream[i * 5 % BURST_STREAMS]);
        }
    }
    for (unsigned i = 0; i < BURST; i++) {
        if (block[i] != NULL) {
            (void)warm_free(block[i]);
        }
    }
}

/* Whichever record there is no memory for, threads that free on many streams
 * lose no block. */
WT_TEST(test_B25_a_burst_without_a_record_loses_no_block)
{
    for (unsigned n = 1; n <= FAULTS; n++) {
        warm_space_stats stats;

        runtime = wt_runtime(
            &(warm_options){.size = sizeof(warm_options), .device = "host"});
        for (int i = 0; i < BURST_STREAMS; i++) {
            wt_ok(warm_stream_create(runtime, 0, &burst_stream[i]));
        }
        wm_meta_fail(n, false);
        wt_threads(BURST_THREADS, burst, NULL);
        wm_meta_fail(0, false);
        for (int i = 0; i < BURST_STREAMS; i++) {
            wt_ok(warm_stream_synchronize(runtime, burst_stream[i]));
        }
        wt_ok(warm_poll(runtime));
        stats = wt_pinned_stats(runtime);
        ck_assert_uint_eq(stats.live.current, 0);
        ck_assert_uint_eq(stats.pending.current, 0);
        ck_assert_uint_eq(stats.lost, 0);
        ck_assert_uint_eq(stats.held_bytes.current, stats.idle_bytes);
        ck_assert(wm_space_check_settled(&runtime->pinned->space));
        for (int i = 0; i < BURST_STREAMS; i++) {
            wt_ok(warm_stream_destroy(runtime, burst_stream[i]));
        }
        wt_runtime_end(runtime);
    }
}
