/* check_peak_threads.c: peaks of what callers have, with threads that allocate
 * and free all they can (row B14), beside a recorded truth.
 *
 * Two counts bound the truth: the upper one has a block from the start of its
 * allocation, when its bytes are as many as they can be, to the end of its
 * free, the lower one only in between. A shown peak is at least the lower
 * count's, and above the upper one's by at most what each thread claims ahead;
 * also where peaks are reset meanwhile. Threads pass blocks to each other, use
 * several streams of a device, and a reader gets the figures all the while. */
#include "wt.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum { WORKERS = 6, SLOTS = 48, STREAMS = 10 };

struct truth {
    _Atomic int64_t now, peak;
};

static struct {
    warm_runtime *runtime;
    bool device, resets;
    struct truth blocks[2], bytes[2]; /* the smaller one, the larger one */
    struct place {
        _Atomic(void *) block;
    } place[SLOTS];
    _Atomic unsigned failures, beyond, working;
} s;

static void count(struct truth *truth, int64_t n)
{
    int64_t now = atomic_fetch_add(&truth->now, n) + n;
    int64_t peak = atomic_load(&truth->peak);

    while (now > peak &&
           !atomic_compare_exchange_weak(&truth->peak, &peak, now)) {
    }
}

static void must(bool good)
{
    if (!good) {
        atomic_fetch_add(&s.failures, 1);
    }
}

static void *allocate(size_t bytes, warm_stream stream)
{
    int64_t most = 2 * (int64_t)bytes + 512, usable;
    void *block = NULL;

    count(&s.blocks[1], 1);
    count(&s.bytes[1], most);
    if ((s.device ? warm_device_alloc(s.runtime, 0, stream, bytes, &block)
                  : warm_pinned_alloc(s.runtime, bytes, &block)) != WARM_OK) {
        atomic_fetch_add(&s.failures, 1);
        return NULL;
    }
    usable = (int64_t)wt_block_info(block).bytes;
    must(usable <= most);
    count(&s.bytes[1], usable - most);
    count(&s.blocks[0], 1);
    count(&s.bytes[0], usable);
    return block;
}

static void give(void *block)
{
    size_t bytes;

    if (block == NULL) {
        return;
    }
    bytes = wt_block_info(block).bytes;
    count(&s.blocks[0], -1);
    count(&s.bytes[0], -(int64_t)bytes);
    if (warm_free(block) != WARM_OK) {
        atomic_fetch_add(&s.failures, 1);
    }
    count(&s.blocks[1], -1);
    count(&s.bytes[1], -(int64_t)bytes);
}

/* 4 KiB to 4 MiB, in eight steps to a doubling at most; or much smaller. */
enum { LARGEST = 4 << 20 }; /* at most */

static size_t size_of(uint64_t *random)
{
    unsigned log2 = 12 + (unsigned)(wt_random(random) % 10);

    return wt_random(random) % 4 == 0
               ? 64 + wt_random(random) % 4000
               : ((size_t)1 << log2) + wt_random(random) % ((size_t)1 << log2);
}

static void work(uint64_t *random, const warm_stream *streams, unsigned count,
                 unsigned steps)
{
    void *own[SLOTS] = {NULL};

    for (unsigned i = 0; i < steps && count > 0; i++) {
        unsigned k = (unsigned)(wt_random(random) % SLOTS);
        warm_stream stream = streams[wt_random(random) % count];

        if (wt_random(random) % 8 == 0) { /* another thread's */
            give(atomic_exchange(&s.place[k].block,
                                 allocate(size_of(random), stream)));
        } else if (i / 400 % 3 ==
                   2) { /* now and then few, so that room grows */
            give(own[k]);
            own[k] = NULL;
        } else {
            give(own[k]);
            own[k] = allocate(size_of(random), stream);
        }
    }
    for (unsigned k = 0; k < SLOTS; k++) {
        give(own[k]);
    }
}

/* A room for each thread that allocates, however many streams it has. */
static void shown(warm_stat *blocks, warm_stat *bytes)
{
    warm_device_stats device = {.size = sizeof device};
    warm_space_stats pinned = {.size = sizeof pinned};

    if (s.device) {
        must(warm_device_get_stats(s.runtime, 0, &device) == WARM_OK);
        *blocks = device.all.live;
        *bytes = device.all.live_bytes;
    } else {
        must(warm_pinned_get_stats(s.runtime, &pinned) == WARM_OK);
        *blocks = pinned.live;
        *bytes = pinned.live_bytes;
    }
}

static bool is_beyond(const warm_stat *stat, struct truth *truth, size_t room)
{
    return (int64_t)stat->peak >
           atomic_load(&truth->peak) + WORKERS * (int64_t)room;
}

static void look_on(void)
{
    warm_stat blocks, bytes;

    while (atomic_load(&s.working) > 0) {
        shown(&blocks, &bytes);
        must(blocks.peak >= blocks.current && bytes.peak >= bytes.current);
        if (is_beyond(&blocks, &s.blocks[1], WT_ROOM_BLOCKS) ||
            is_beyond(&bytes, &s.bytes[1], WT_ROOM_BYTES)) {
            atomic_fetch_add(&s.beyond, 1);
        }
        if (s.resets) {
            must((s.device ? warm_device_reset_peaks(s.runtime, 0)
                           : warm_pinned_reset_peaks(s.runtime)) == WARM_OK);
        }
        sched_yield();
    }
}

static void run(void *argument, unsigned index)
{
    static const unsigned counts[] = {1, 3, STREAMS};
    unsigned count = counts[index % 3];
    uint64_t random = wt_seed() + index;
    warm_stream stream[STREAMS];

    if (index == WORKERS) {
        look_on();
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        must(warm_stream_create(s.runtime, 0, &stream[i]) == WARM_OK);
    }
    work(&random, stream, count, wt_scaled(8000));
    for (unsigned i = 0; i < count; i++) {
        must(warm_stream_destroy(s.runtime, stream[i]) == WARM_OK);
    }
    atomic_fetch_sub(&s.working, 1);
}

WT_CASE("peak_threads", .timeout = 300);

WT_LOOP_TEST(test_B14_peaks_of_many_threads_are_near_the_truth, 8)
{
    warm_stat blocks, bytes;

    memset(&s, 0, sizeof s);
    s.device = (_i & 1) != 0;
    s.resets = (_i & 4) != 0;
    s.runtime = wt_runtime_with(.test = _i & 2 ? "arenas=4" : "arenas=1");
    s.working = WORKERS;
    wt_threads(WORKERS + 1, run, NULL);
    for (unsigned k = 0; k < SLOTS; k++) {
        give(s.place[k].block);
    }
    shown(&blocks, &bytes);
    ck_assert_uint_eq(s.failures, 0);
    ck_assert_uint_eq(s.beyond, 0);
    if (!s.resets) {
        ck_assert_int_ge((int64_t)blocks.peak, s.blocks[0].peak);
        ck_assert_int_ge((int64_t)bytes.peak, s.bytes[0].peak);
    }
    ck_assert(!is_beyond(&blocks, &s.blocks[1], WT_ROOM_BLOCKS));
    ck_assert(!is_beyond(&bytes, &s.bytes[1], WT_ROOM_BYTES));
    wt_runtime_end(s.runtime);
}

/* One thread has HELD blocks by hits, frees them, and only then another one has
 * one block of as many bytes: never both. Peaks are raised all the while, by a
 * thread that allocates more and more; or also reset. */
enum { HELD = 900, STEPS = 3000, ROUNDS = 12 };
#define HELD_BYTES ((size_t)64 << 10)
#define MOST       (HELD * HELD_BYTES + STEPS * 4096 + 3 * WT_ROOM_BYTES)

static _Atomic int whose;
static _Atomic unsigned over;

static bool wait_for(int who)
{
    while (atomic_load(&whose) != who) {
        if (atomic_load(&over) != 0) {
            return false;
        }
        sched_yield();
    }
    return true;
}

static void hold_by_hits(void)
{
    static void *block[HELD];

    while (wait_for(0)) {
        for (unsigned i = 0; i < HELD; i++) {
            must(warm_pinned_alloc(s.runtime, HELD_BYTES, &block[i]) ==
                 WARM_OK);
        }
        for (unsigned i = 0; i < HELD; i++) {
            must(warm_free(block[i]) == WARM_OK);
        }
        atomic_store(&whose, 1);
    }
}

static void hold_one(void)
{
    void *block;

    while (wait_for(1)) {
        must(warm_pinned_alloc(s.runtime, HELD * HELD_BYTES, &block) ==
             WARM_OK);
        must(warm_free(block) == WARM_OK);
        atomic_store(&whose, 0);
    }
}

static void creep(bool resets)
{
    static void *block[STEPS];

    for (unsigned i = 0; i < STEPS; i++) {
        must(warm_pinned_alloc(s.runtime, 4096, &block[i]) == WARM_OK);
        if (i % 50 == 0) {
            sched_yield();
        }
        if (resets && i % 50 == 0) {
            warm_space_stats now = {.size = sizeof now};

            must(warm_pinned_get_stats(s.runtime, &now) == WARM_OK);
            must(now.live_bytes.peak >= now.live_bytes.current);
            must(now.live_bytes.peak <= MOST);
            must(warm_pinned_reset_peaks(s.runtime) == WARM_OK);
        }
    }
    atomic_store(&over, 1);
    for (unsigned i = 0; i < STEPS; i++) {
        must(warm_free(block[i]) == WARM_OK);
    }
}

static void turns_and_creeping(void *argument, unsigned index)
{
    const bool *resets = argument;

    if (index == 0) {
        hold_by_hits();
    } else if (index == 1) {
        hold_one();
    } else {
        creep(*resets);
    }
}

WT_LOOP_TEST(test_B14_peaks_of_threads_that_never_hold_at_once, 2)
{
    bool resets = _i == 1;

    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(&s, 0, sizeof s);
        over = 0;
        whose = 0;
        s.runtime = wt_runtime_with(.test = "magazine_blocks=1024");
        wt_threads(3, turns_and_creeping, &resets);
        ck_assert_uint_eq(s.failures, 0);
        ck_assert_uint_le(wt_pinned_stats(s.runtime).live_bytes.peak, MOST);
        wt_ok(warm_pinned_reset_peaks(s.runtime));
        ck_assert_uint_eq(wt_pinned_stats(s.runtime).live_bytes.peak, 0);
        wt_runtime_end(s.runtime);
    }
}
