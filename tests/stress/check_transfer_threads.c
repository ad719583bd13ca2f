/* check_transfer_threads.c: threads that keep little and pass each other blocks
 * of all sizes through transfer caches (rows B2, B11, B14, B25).
 *
 * Blocks travel between threads through a table of slots, as in
 * check_pinned_threads.c. Some threads end and others begin; one trims, polls,
 * resets peaks, reads statistics and takes snapshots. */
#include "wt.h"
#include "wt_json.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 5, SLOTS = 96, KEEPER = THREADS, TEXT = 1 << 20 };

static const struct {
    uint64_t keep, decay_ms;
    const char *test;
} kinds[] = {{1, 0, "arenas=1"},
             {1, 0, "arenas=1:magazine_bytes=64K:magazine_blocks=4"},
             {1, 1, "arenas=3:magazine_bytes=8M:magazine_blocks=2"},
             {20, 0, "arenas=2:numa_nodes=2:magazine_bytes=4K"},
             {1000, 1, "arenas=4:magazine_blocks=1"},
             {1, 5, "arenas=1:numa_nodes=2:magazine_bytes=1M"}};

static struct shared {
    warm_runtime *runtime;
    _Atomic(char *) slot[SLOTS];
    _Atomic unsigned working, failures;
    unsigned steps;
} s;

struct head {
    size_t bytes;
    uintptr_t stamp;
};

static void ok(bool good)
{
    if (!good) {
        atomic_fetch_add_explicit(&s.failures, 1, memory_order_relaxed);
    }
}

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

/* 512 bytes to 5 MiB. */
static size_t a_size(uint64_t *random)
{
    size_t top = (size_t)512 << (wt_random(random) % 14);
    size_t bytes = top + wt_random(random) % top;

    return bytes > 5 << 20 ? 5 << 20 : bytes;
}

static void replace(uint64_t *random, warm_stream stream)
{
    size_t bytes = a_size(random);
    void *block = NULL;
    char *old;

    ok(warm_pinned_alloc(s.runtime, bytes, &block) == WARM_OK);
    if (block == NULL) {
        return;
    }
    stamp(block, bytes);
    if (stream != NULL && wt_random(random) % 8 == 0) {
        ok(warm_record_stream(block, stream) == WARM_OK);
    }
    old = atomic_exchange_explicit(&s.slot[wt_random(random) % SLOTS], block,
                                   memory_order_acq_rel);
    if (old != NULL) {
        ok(is_whole(old));
        ok(warm_free(old) == WARM_OK);
    }
}

static void *work_and_end(void *argument)
{
    uint64_t *random = argument;

    for (int i = 0; i < 100; i++) {
        replace(random, NULL);
    }
    return NULL;
}

static void work(unsigned index)
{
    uint64_t random = wt_seed() + index + 1;
    warm_stream stream = NULL;

    ok(warm_stream_create(s.runtime, 0, &stream) == WARM_OK);
    for (unsigned i = 0; i < s.steps; i++) {
        if (index == 0 && i % 100 == 0) {
            pthread_t thread;

            if (pthread_create(&thread, NULL, work_and_end, &random) == 0) {
                pthread_join(thread, NULL);
            }
        }
        replace(&random, stream);
        if (wt_random(&random) % 500 == 0) {
            ok(warm_thread_release(s.runtime) == WARM_OK);
        }
    }
    ok(warm_stream_destroy(s.runtime, stream) == WARM_OK);
    atomic_fetch_sub_explicit(&s.working, 1, memory_order_release);
}

static void keep_house(void)
{
    uint64_t random = wt_seed();
    char *text = malloc(TEXT);

    while (atomic_load_explicit(&s.working, memory_order_acquire) > 0) {
        warm_space_stats stats = {.size = sizeof stats};

        ok(warm_poll(s.runtime) == WARM_OK);
        if (wt_random(&random) % 8 == 0) {
            ok(warm_pinned_trim(s.runtime, wt_random(&random) % (8u << 20),
                                NULL) == WARM_OK);
        }
        ok(warm_pinned_get_stats(s.runtime, &stats) == WARM_OK);
        ok(stats.held_bytes.current >= stats.live_bytes.current +
                                           stats.pending_bytes.current +
                                           stats.cached_bytes);
        ok(stats.idle_bytes <= stats.held_bytes.current);
        ok(stats.live.peak >= stats.live.current);
        if (wt_random(&random) % 4 == 0) {
            ok(warm_pinned_reset_peaks(s.runtime) == WARM_OK);
        }
        if (wt_random(&random) % 4 == 0) {
            warm_status status = warm_snapshot_viz(s.runtime, text, TEXT, NULL);

            ok(status != WARM_OK || wt_json_is_valid(text));
        }
        ok(warm_testing_check(s.runtime, 0) == WARM_OK);
    }
    free(text);
}

static void run(void *argument, unsigned index)
{
    (void)argument;
    if (index == KEEPER) {
        keep_house();
    } else {
        work(index);
    }
}

WT_CASE("threads", .timeout = 240);

WT_LOOP_TEST(test_B2_B11_B14_B25_threads_that_keep_little,
             sizeof kinds / sizeof kinds[0])
{
    warm_space_stats stats;

    memset(&s, 0, sizeof s);
    s.runtime = wt_runtime_with(.keep = kinds[_i].keep, .test = kinds[_i].test,
                                .decay_ms = kinds[_i].decay_ms);
    s.steps = wt_scaled(5000);
    atomic_store_explicit(&s.working, THREADS, memory_order_relaxed);
    wt_threads(THREADS + 1, run, NULL);
    ck_assert_uint_eq(s.failures, 0);
    for (int i = 0; i < SLOTS; i++) {
        char *block = atomic_load_explicit(&s.slot[i], memory_order_relaxed);

        wt_require(block == NULL || is_whole(block), "slot %d", i);
        wt_ok(warm_free(block));
    }
    do {
        wt_ok(warm_poll(s.runtime));
        stats = wt_pinned_stats(s.runtime);
    } while (stats.pending.current != 0);
    ck_assert_uint_eq(stats.live.current, 0);
    ck_assert_uint_eq(stats.live_bytes.current, 0);
    ck_assert_uint_eq(stats.requested_bytes.current, 0);
    ck_assert_uint_eq(stats.double_frees, 0);
    wt_ok(warm_testing_check(s.runtime, 1));
    wt_ok(warm_pinned_trim(s.runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(s.runtime).held_bytes.current, 0);
    wt_runtime_end(s.runtime);
}
