/* check_peak_threads.c: peaks of what callers have, with threads that allocate
 * and free all they can (row B14), beside a recorded truth.
 *
 * Two truths: one has a block as soon as its allocation begins and until its
 * free is over, the other one only in between. A peak is never below the
 * second's, and above the first's by no more than each thread claims ahead.
 * Threads hand blocks to each other, others come and go, and a reader asks for
 * figures all the while.
 */
#include "wt.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum { WORKERS = 6, SLOTS = 48, GUESTS = 40 };

struct truth {
    _Atomic int64_t now, peak;
};

static struct {
    warm_runtime *runtime;
    bool device;
    struct truth blocks[2], bytes[2]; /* the smaller one, the larger one */
    struct place {
        _Atomic(void *) block;
    } place[SLOTS];
    _Atomic unsigned failures, working;
} s;

static void count(struct truth *truth, int64_t n)
{
    int64_t now = atomic_fetch_add(&truth->now, n) + n;
    int64_t peak = atomic_load(&truth->peak);

    while (now > peak &&
           !atomic_compare_exchange_weak(&truth->peak, &peak, now)) {
    }
}

/* A block's first bytes tell its size, of a device as well: it is memory here.
 */
static void *allocate(size_t bytes, warm_stream stream)
{
    void *block = NULL;

    count(&s.blocks[1], 1);
    count(&s.bytes[1], (int64_t)bytes);
    if ((s.device ? warm_device_alloc(s.runtime, 0, stream, bytes, &block)
                  : warm_pinned_alloc(s.runtime, bytes, &block)) != WARM_OK) {
        atomic_fetch_add(&s.failures, 1);
        return NULL;
    }
    count(&s.blocks[0], 1);
    count(&s.bytes[0], (int64_t)bytes);
    *(size_t *)block = bytes;
    return block;
}

static void give(void *block)
{
    size_t bytes;

    if (block == NULL) {
        return;
    }
    bytes = *(size_t *)block;
    count(&s.blocks[0], -1);
    count(&s.bytes[0], -(int64_t)bytes);
    if (warm_free(block) != WARM_OK) {
        atomic_fetch_add(&s.failures, 1);
    }
    count(&s.blocks[1], -1);
    count(&s.bytes[1], -(int64_t)bytes);
}

/* 4 KiB to 4 MiB, in eight steps to a doubling at most; or much smaller. */
static size_t size_of(uint64_t *random)
{
    unsigned log2 = 12 + (unsigned)(wt_random(random) % 10);

    return wt_random(random) % 4 == 0
               ? 64 + wt_random(random) % 4000
               : ((size_t)1 << log2) + wt_random(random) % ((size_t)1 << log2);
}

static void work(uint64_t *random, warm_stream stream, unsigned steps)
{
    void *own[SLOTS] = {NULL};

    for (unsigned i = 0; i < steps; i++) {
        unsigned k = (unsigned)(wt_random(random) % SLOTS);

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

static void run(void *argument, unsigned index)
{
    uint64_t random = wt_seed() + index;
    warm_stream stream = NULL;

    (void)argument;
    if (index == WORKERS) {
        while (atomic_load(&s.working) > 0) {
            if (s.device) {
                (void)wt_device_stats(s.runtime);
            } else {
                (void)wt_pinned_stats(s.runtime);
            }
            sched_yield();
        }
        return;
    }
    if (warm_stream_create(s.runtime, 0, &stream) != WARM_OK) {
        atomic_fetch_add(&s.failures, 1);
    }
    work(&random, stream, wt_scaled(12000));
    if (warm_stream_destroy(s.runtime, stream) != WARM_OK) {
        atomic_fetch_add(&s.failures, 1);
    }
    atomic_fetch_sub(&s.working, 1);
}

static void check(const warm_stat *blocks, const warm_stat *asked,
                  unsigned threads)
{
    ck_assert_uint_eq(s.failures, 0);
    wt_require((int64_t)blocks->peak >= s.blocks[0].peak &&
                   (int64_t)blocks->peak <=
                       s.blocks[1].peak + threads * WT_ROOM_BLOCKS,
               "%lu blocks, not %ld to %ld", (unsigned long)blocks->peak,
               (long)s.blocks[0].peak, (long)s.blocks[1].peak);
    wt_require((int64_t)asked->peak >= s.bytes[0].peak &&
                   (int64_t)asked->peak <=
                       s.bytes[1].peak + threads * WT_ROOM_BYTES,
               "%lu bytes, not %ld to %ld", (unsigned long)asked->peak,
               (long)s.bytes[0].peak, (long)s.bytes[1].peak);
}

START_TEST(test_B14_peaks_of_many_threads_are_near_the_truth)
{
    warm_options options = {.size = sizeof options, .arenas = _i & 2 ? 4 : 1};

    memset(&s, 0, sizeof s);
    s.device = (_i & 1) != 0;
    s.runtime = wt_runtime(&options);
    s.working = WORKERS;
    wt_threads(WORKERS + 1, run, NULL);
    for (unsigned k = 0; k < SLOTS; k++) {
        give(s.place[k].block);
    }
    if (s.device) {
        warm_device_stats now = wt_device_stats(s.runtime);

        /* A room for each stream of a thread; this one has none. */
        check(&now.all.allocations, &now.all.requested_bytes, WORKERS);
        ck_assert_uint_ge(now.all.active.peak, now.all.allocations.peak);
    } else {
        warm_space_stats now = wt_pinned_stats(s.runtime);

        check(&now.requests, &now.requested_bytes, WORKERS + 1);
    }
    wt_runtime_end(s.runtime);
}
END_TEST

/* One thread has HELD blocks by hits, frees them, and only then another one has
 * one block of as many bytes: never both. Peaks are raised all the while, by a
 * thread that allocates more and more; or also reset. */
enum { HELD = 900, STEPS = 3000, ROUNDS = 12 };
#define HELD_BYTES ((size_t)64 << 10)

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

static void must(bool good)
{
    if (!good) {
        atomic_fetch_add(&s.failures, 1);
    }
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
            must(now.requested_bytes.peak >= now.requested_bytes.current);
            must(warm_stats_reset_peaks(s.runtime) == WARM_OK);
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

START_TEST(test_B14_peaks_of_threads_that_never_hold_at_once)
{
    warm_options options = {.size = sizeof options, .magazine_blocks = 1024};
    bool resets = _i == 1;
    uint64_t most = HELD * HELD_BYTES + STEPS * 4096 + 3 * WT_ROOM_BYTES;

    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(&s, 0, sizeof s);
        over = 0;
        whose = 0;
        s.runtime = wt_runtime(&options);
        wt_threads(3, turns_and_creeping, &resets);
        ck_assert_uint_eq(s.failures, 0);
        /* A reset beside threads that allocate has been seen to leave more. */
        if (!resets) {
            ck_assert_uint_le(wt_pinned_stats(s.runtime).requested_bytes.peak,
                              most);
        }
        wt_ok(warm_stats_reset_peaks(s.runtime));
        ck_assert_uint_eq(wt_pinned_stats(s.runtime).requested_bytes.peak, 0);
        wt_runtime_end(s.runtime);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peak_threads");
    TCase *tcase = tcase_create("peak_threads");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(
        tcase, test_B14_peaks_of_many_threads_are_near_the_truth, 0, 4);
    tcase_add_loop_test(
        tcase, test_B14_peaks_of_threads_that_never_hold_at_once, 0, 2);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
