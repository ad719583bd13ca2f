/* check_pinned_threads.c: many threads on one pinned space (rows B2 to B6).
 *
 * Blocks travel between threads through a table of slots: whoever swaps one
 * out checks that its stamp is still whole, and frees it. Each thread has a
 * stream of its own that it replaces now and then, or adopts or retires: others
 * may free a block, or close the batch that it is in, at the very moment at
 * which a stream that uses it is retired. A further thread trims, polls, reads
 * statistics and walks the arena all the while.
 */
#include "wt.h"

#include <stdatomic.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { THREADS = 8, SLOTS = 256, KEEPER = THREADS };

static struct shared {
    warm_runtime *runtime;
    _Atomic(char *) slot[SLOTS];
    _Atomic unsigned working;
    unsigned failures[THREADS + 1];
    unsigned steps;
    int nodes, devices; /* on the host device one next to each node */
    bool dry;           /* page-locked memory cannot be had */
} s;

/* The first bytes of a block: its size, and a stamp made of its address. */
struct head {
    size_t bytes;
    uintptr_t stamp;
};

static void stamp(char *block, size_t bytes)
{
    struct head head = {bytes, (uintptr_t)block ^ bytes};

    memcpy(block, &head, sizeof head);
    block[bytes - 1] = (char)bytes;
}

static bool is_whole(const char *block)
{
    struct head head;

    memcpy(&head, block, sizeof head);
    return head.stamp == ((uintptr_t)block ^ head.bytes) &&
           block[head.bytes - 1] == (char)head.bytes;
}

/* Work on a block: reads it on the stream, as a copy to the device would. */
static void look(void *argument)
{
    volatile const char *block = argument;

    (void)block[0];
}

/* Mostly of the thread's own node, sometimes of another. */
static warm_status allocate(uint64_t *random, size_t bytes, void **pointer)
{
    int node = (int)(wt_random(random) % (unsigned)(4 * s.nodes));

    if (s.dry) {
        return warm_pinned_alloc_on(s.runtime, bytes, WARM_NODE_ANY,
                                    WARM_ALLOC_PAGEABLE_OK, pointer);
    }
    return node < s.nodes
               ? warm_pinned_alloc_on(s.runtime, bytes, node, 0, pointer)
               : warm_pinned_alloc(s.runtime, bytes, pointer);
}

static unsigned put_new(uint64_t *random, warm_stream stream)
{
    size_t bytes = sizeof(struct head) + 1 + wt_random(random) % 60000;
    void *pointer = NULL;
    char *old;
    unsigned failures = 0;

    if (allocate(random, bytes, &pointer) != WARM_OK) {
        return 1;
    }
    stamp(pointer, bytes);
    if (wt_random(random) % 2 == 0) {
        failures +=
            warm_stream_host_func(s.runtime, stream, look, pointer) != WARM_OK;
        failures += warm_record_stream(pointer, stream) != WARM_OK;
        failures +=
            warm_record_stream((char *)pointer + bytes / 2, stream) != WARM_OK;
        failures += !is_whole(pointer);
    }
    old = atomic_exchange_explicit(&s.slot[wt_random(random) % SLOTS],
                                   (char *)pointer, memory_order_acq_rel);
    if (old != NULL) {
        failures += !is_whole(old);
        failures += warm_free(old) != WARM_OK;
    }
    return failures;
}

/* Another thread's captures do not concern the stream, but slow it down. */
static warm_status change(uint64_t *random, warm_stream stream)
{
    warm_status status;

    switch (wt_random(random) % 3) {
    case 0:
        return warm_stream_adopt(s.runtime, stream);
    case 1:
        return warm_stream_retire(s.runtime, stream);
    default:
        status = warm_capture_announce(s.runtime, stream);
        sched_yield();
        return status == WARM_OK ? warm_capture_announce_end(s.runtime, stream)
                                 : status;
    }
}

/* Uses some device from now on, after the others that it used or instead. */
static unsigned settle_down(uint64_t *random)
{
    int device = (int)(wt_random(random) % (unsigned)s.devices);
    warm_stream pooled;
    unsigned failures = 0;

    if (wt_random(random) % 2 == 0) {
        failures += warm_thread_release(s.runtime) != WARM_OK;
    }
    return failures +
           (warm_stream_reserve(s.runtime, device, &pooled) != WARM_OK);
}

static void work(unsigned index)
{
    uint64_t random = wt_seed() + index + 1;
    warm_stream stream = NULL;
    unsigned failures = 0;
    warm_stream pooled;

    failures += warm_stream_reserve(s.runtime, (int)index % s.devices,
                                    &pooled) != WARM_OK;
    failures += warm_stream_create(s.runtime, 0, &stream) != WARM_OK;
    for (unsigned i = 0; i < s.steps; i++) {
        failures += put_new(&random, stream);
        if (wt_random(&random) % 50 == 0) {
            failures += change(&random, stream) != WARM_OK;
        }
        if (wt_random(&random) % 300 == 0) {
            failures += settle_down(&random);
        }
        if (wt_random(&random) % 200 == 0) {
            failures += warm_stream_destroy(s.runtime, stream) != WARM_OK;
            failures += warm_stream_create(s.runtime, 0, &stream) != WARM_OK;
        }
    }
    failures += warm_stream_destroy(s.runtime, stream) != WARM_OK;
    s.failures[index] = failures;
    atomic_fetch_sub_explicit(&s.working, 1, memory_order_release);
}

static void keep_house(void)
{
    uint64_t random = wt_seed();
    unsigned failures = 0;

    while (atomic_load_explicit(&s.working, memory_order_acquire) > 0) {
        warm_space_stats stats = {.size = sizeof stats};

        failures += warm_poll(s.runtime) != WARM_OK;
        failures += warm_pinned_trim(s.runtime, wt_random(&random) % (8u << 20),
                                     NULL) != WARM_OK;
        failures += warm_pinned_get_stats(s.runtime, &stats) != WARM_OK;
        failures += stats.held_bytes.current <
                    stats.live_bytes.current + stats.pending_bytes.current;
        failures += warm_testing_check(s.runtime, 0) != WARM_OK;
    }
    s.failures[KEEPER] = failures;
}

static void run(void *argument, unsigned index)
{
    if (index == KEEPER) {
        keep_house();
    } else {
        work(index);
    }
}

/* On one node, on two with two arenas each, and in pageable memory. */
WT_LOOP_TEST(test_B2_B4_B6_B15_B18_threads_share_one_space, 3)
{
    unsigned nodes = _i == 1 ? 2 : 1;
    warm_space_stats stats;

    memset(&s, 0, sizeof s);
    s.nodes = (int)nodes;
    s.devices = wt_on_host() ? s.nodes : 1;
    s.dry = _i == 2;
    s.runtime = wt_runtime_with(.segment = 1 << 20, .host_devices = nodes,
                                .test = wt_list("arenas=%u:numa_nodes=%u",
                                                nodes, nodes));
    wt_ok(warm_testing_fail(s.runtime, "pinned_alloc", s.dry, 1));
    s.steps = wt_scaled(s.dry ? 3000 : 20000);
    atomic_store_explicit(&s.working, THREADS, memory_order_relaxed);
    wt_threads(THREADS + 1, run, NULL);
    for (int i = 0; i <= THREADS; i++) {
        ck_assert_msg(s.failures[i] == 0, "thread %d: %u failures", i,
                      s.failures[i]);
    }
    for (int i = 0; i < SLOTS; i++) {
        char *block = atomic_load_explicit(&s.slot[i], memory_order_relaxed);

        wt_require(block == NULL || is_whole(block), "slot %d", i);
        wt_ok(warm_free(block));
    }
    do {
        wt_ok(warm_poll(s.runtime));
        stats = wt_pinned_stats(s.runtime);
    } while (stats.pending.current + stats.pageable_pending.current != 0);
    ck_assert_uint_eq(stats.live.current + stats.pageable.current, 0);
    ck_assert_uint_eq(stats.lost, 0);
    ck_assert_uint_eq((s.dry ? stats.pageable : stats.live).allocated,
                      (uint64_t)THREADS * s.steps);
    ck_assert_uint_eq(stats.pageable_held.current, 0);
    wt_ok(warm_testing_check(s.runtime, 1));
    wt_runtime_end(s.runtime);
}

/* Many threads record their streams on one block at once: each stream is one
 * use, in whatever order the threads come. */
static warm_stream streams[THREADS];
static void *common;

static void record_all(void *argument, unsigned index)
{
    unsigned *failures = argument;

    for (unsigned i = 0; i < 4u * THREADS; i++) {
        failures[index] +=
            warm_record_stream(common, streams[(i + index) % THREADS]) !=
            WARM_OK;
    }
}

WT_TEST(test_B4_concurrent_records_of_a_stream_are_one_use)
{
    unsigned rounds = wt_scaled(300);

    s.runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options)});
    for (int i = 0; i < THREADS; i++) {
        streams[i] = wt_stream(s.runtime, 0);
    }
    for (unsigned round = 0; round < rounds; round++) {
        unsigned failures[THREADS] = {0};
        warm_block_info info;

        common = wt_pinned(s.runtime, 5000);
        wt_threads(THREADS, record_all, failures);
        for (int i = 0; i < THREADS; i++) {
            wt_require(failures[i] == 0, "thread %d failed", i);
        }
        info = wt_block_info(common);
        wt_require(info.streams == THREADS, "%u uses, not %d", info.streams,
                   THREADS);
        wt_ok(warm_free(common));
    }
    for (int i = 0; i < THREADS; i++) {
        wt_ok(warm_stream_synchronize(s.runtime, streams[i]));
        wt_ok(warm_stream_destroy(s.runtime, streams[i]));
    }
    wt_ok(warm_poll(s.runtime));
    wt_runtime_end(s.runtime);
}

/* A thread that frees pointers into the middle of somebody else's block is
 * refused, and disturbs the owner not even for a moment. */
static _Atomic(char *) victim;
static _Atomic unsigned refused;

static void free_or_disturb(void *argument, unsigned index)
{
    unsigned *failures = argument;
    unsigned rounds = wt_scaled(20000);

    if (index > 0) {
        char *block;

        while ((block = atomic_load_explicit(&victim, memory_order_acquire)) !=
               NULL) {
            failures[index] += warm_free(block + 512) != WARM_INVALID_POINTER;
            atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
        }
        return;
    }
    while (atomic_load_explicit(&refused, memory_order_relaxed) == 0) {
        sched_yield();
    }
    for (unsigned i = 0; i < rounds; i++) {
        char *block = atomic_load_explicit(&victim, memory_order_relaxed);

        failures[0] += warm_record_stream(block, streams[0]) != WARM_OK;
    }
    atomic_store_explicit(&victim, NULL, memory_order_release);
}

WT_TEST(test_C10_refused_free_never_disturbs_the_owner)
{
    unsigned failures[2] = {0};
    void *block;

    s.runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options)});
    streams[0] = wt_stream(s.runtime, 0);
    block = wt_pinned(s.runtime, 100000);
    atomic_store_explicit(&victim, (char *)block, memory_order_relaxed);
    wt_threads(2, free_or_disturb, failures);
    ck_assert_uint_eq(failures[0], 0);
    ck_assert_uint_eq(failures[1], 0);
    wt_ok(warm_free(block));
    wt_ok(warm_stream_destroy(s.runtime, streams[0]));
    wt_ok(warm_poll(s.runtime));
    wt_runtime_end(s.runtime);
}

/* One pointer freed by all at once: one free is the block's, the others are
 * refused. */
enum { FREERS = 2, TARGETS = 10000 };
static _Atomic(void *) target[TARGETS];
static _Atomic unsigned frees;

/* WT_SCALE may ask for more than there are. */
static unsigned targets(void)
{
    unsigned count = wt_scaled(TARGETS / 10);

    return count < TARGETS ? count : TARGETS;
}

static void free_targets(void *argument, unsigned index)
{
    unsigned *good = argument;
    unsigned rounds = targets();

    for (unsigned i = 0; i < rounds; i++) {
        void *block = atomic_load_explicit(&target[i], memory_order_relaxed);

        /* Together: each waits until the other one is here. */
        atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
        while (atomic_load_explicit(&frees, memory_order_relaxed) <
               FREERS * (i + 1)) {
            sched_yield();
        }
        good[index] += warm_free(block) == WARM_OK;
    }
}

WT_TEST(test_C10_of_concurrent_frees_one_counts)
{
    unsigned rounds = targets();
    warm_space_stats stats;
    unsigned good[FREERS] = {0};

    s.runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options)});
    for (unsigned i = 0; i < rounds; i++) {
        void *block = wt_pinned(s.runtime, 5000);

        /* A use makes the free take longer. */
        wt_ok(warm_record_stream(block, NULL));
        atomic_store_explicit(&target[i], block, memory_order_relaxed);
    }
    wt_threads(FREERS, free_targets, good);
    ck_assert_uint_eq(good[0] + good[1], rounds);
    stats = wt_pinned_stats(s.runtime);
    ck_assert_uint_eq(stats.live.freed, rounds);
    wt_settle(s.runtime, NULL);
    wt_ok(warm_testing_check(s.runtime, 1));
    wt_runtime_end(s.runtime);
}

/* One thread's records fail, those of the others on the same block do not:
 * what the one gives up serves another, and nothing of it is left. */
enum { RECORDERS = 3 };
static _Atomic unsigned arrived;

static void record_or_fail(void *argument, unsigned index)
{
    unsigned *good = argument;
    unsigned rounds = targets();
    /* A default stream is recorded on at once, which fails. */
    warm_stream stream = index > 0 && index < RECORDERS ? streams[index] : NULL;

    for (unsigned i = 0; i < rounds; i++) {
        void *block = atomic_load_explicit(&target[i], memory_order_relaxed);

        atomic_fetch_add_explicit(&arrived, 1, memory_order_relaxed);
        while (atomic_load_explicit(&arrived, memory_order_relaxed) <
               RECORDERS * (i + 1)) {
            sched_yield();
        }
        good[index] += warm_record_stream(block, stream) == WARM_OK;
    }
}

WT_TEST(test_B4_failed_records_beside_good_ones)
{
    unsigned rounds = targets();
    unsigned good[RECORDERS] = {0};

    s.runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options)});
    for (unsigned i = 0; i < rounds; i++) {
        void *block = wt_pinned(s.runtime, 5000);

        atomic_store_explicit(&target[i], block, memory_order_relaxed);
    }
    for (int i = 1; i < RECORDERS; i++) {
        streams[i] = wt_stream(s.runtime, 0);
    }
    wt_ok(warm_testing_fail(s.runtime, "event_mark", 1, 1));
    wt_threads(RECORDERS, record_or_fail, good);
    wt_ok(warm_testing_fail(s.runtime, "event_mark", 0, 0));
    ck_assert_uint_lt(good[0], rounds);
    ck_assert_uint_eq(good[1], rounds);
    ck_assert_uint_eq(good[2], rounds);
    for (unsigned i = 0; i < rounds; i++) {
        wt_ok(
            warm_free(atomic_load_explicit(&target[i], memory_order_relaxed)));
    }
    for (int i = 1; i < RECORDERS; i++) {
        wt_ok(warm_stream_synchronize(s.runtime, streams[i]));
        wt_ok(warm_stream_destroy(s.runtime, streams[i]));
    }
    wt_settle(s.runtime, NULL);
    wt_runtime_end(s.runtime);
}
