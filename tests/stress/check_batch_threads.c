/* check_batch_threads.c: threads that share adopted streams, or use one each
 * without growing, while the streams retire and are adopted again (rows B4,
 * B6). Each thread checks its copies later: a block that was allocated again
 * too early has another one's content by then. */
#include "wt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>

enum { THREADS = 4, KEEPER = THREADS, STREAMS = 4, JOBS = 8, WORDS = 512 };

/* Streams may be named to the driver while the lock is held for reading. */
static struct {
    pthread_rwlock_t lock;
    warm_stream stream;
} shared[STREAMS];

static warm_runtime *runtime;
static bool apart; /* each thread has a stream for itself */
static unsigned failures[THREADS + 1];
static _Atomic unsigned working;

/* A copy under way: to memory of the device, from a block long freed. */
struct job {
    void *device;
    warm_event event;
    uint64_t first; /* word of the content, 0: no job */
};

struct worker {
    unsigned index;
    uint64_t random;
    warm_stream checker;
    uint64_t *back;
    struct job job[JOBS];
    unsigned failures;
};

static void check(struct worker *w, warm_status status)
{
    w->failures += status != WARM_OK;
}

static void fill(uint64_t *words, uint64_t first)
{
    for (unsigned i = 0; i < WORDS; i++) {
        words[i] = first + i;
    }
}

static void finish(struct worker *w, struct job *job)
{
    uint64_t wrong = 0;

    if (job->first == 0) {
        return;
    }
    check(w, warm_event_synchronize(runtime, job->event));
    check(w, warm_copy_async(runtime, w->back, job->device,
                             WORDS * sizeof *w->back, WARM_COPY_TO_HOST,
                             w->checker));
    check(w, warm_stream_synchronize(runtime, w->checker));
    for (unsigned i = 0; i < WORDS; i++) {
        wrong |= w->back[i] ^ (job->first + i);
    }
    w->failures += wrong != 0;
    job->first = 0;
}

static void delay(void *argument)
{
    for (unsigned i = 0; i < (uintptr_t)argument; i++) {
        sched_yield();
    }
}

static void copy_and_free(struct worker *w, struct job *job)
{
    uint64_t random = wt_random(&w->random);
    unsigned i = apart ? w->index : (unsigned)(random % STREAMS);
    void *block = NULL;

    finish(w, job);
    check(w, warm_pinned_alloc(runtime, WORDS * sizeof *w->back, &block));
    if (w->failures > 0) {
        return;
    }
    job->first = random | 1;
    fill(block, job->first);
    pthread_rwlock_rdlock(&shared[i].lock);
    if (random >> 62 == 0) {
        check(w, warm_stream_host_func(runtime, shared[i].stream, delay,
                                       (void *)(uintptr_t)8));
    }
    check(w,
          warm_copy_async(runtime, job->device, block, WORDS * sizeof *w->back,
                          WARM_COPY_TO_DEVICE, shared[i].stream));
    check(w, warm_event_record(runtime, job->event, shared[i].stream));
    pthread_rwlock_unlock(&shared[i].lock);
    check(w, warm_free(block));
}

/* What passes and passes again in the same memory: more than its share of all,
 * so that it stays so. */
static void become_steady(struct worker *w)
{
    for (unsigned i = 0; i < 3000 && w->failures == 0; i++) {
        void *block = NULL;

        check(w, warm_pinned_alloc(runtime, WORDS * sizeof *w->back, &block));
        pthread_rwlock_rdlock(&shared[w->index].lock);
        check(w, warm_record_stream(block, shared[w->index].stream));
        pthread_rwlock_unlock(&shared[w->index].lock);
        check(w, warm_free(block));
    }
}

static void work(unsigned index)
{
    struct worker w = {.index = index, .random = wt_seed() + index + 1};
    void *back = NULL;

    check(&w, warm_stream_create(runtime, 0, &w.checker));
    check(&w, warm_pinned_alloc(runtime, WORDS * sizeof *w.back, &back));
    w.back = back;
    for (int i = 0; i < JOBS; i++) {
        check(&w, warm_device_alloc_uncached(runtime, 0, WORDS * sizeof *w.back,
                                             &w.job[i].device));
        check(&w, warm_event_create(runtime, 0, &w.job[i].event));
    }
    if (apart) {
        become_steady(&w);
    }
    for (unsigned i = 0; i < wt_scaled(500) && w.failures == 0; i++) {
        copy_and_free(&w, &w.job[wt_random(&w.random) % JOBS]);
    }
    for (int i = 0; i < JOBS; i++) {
        finish(&w, &w.job[i]);
        check(&w, warm_event_destroy(runtime, w.job[i].event));
        check(&w, warm_device_free_uncached(runtime, 0, w.job[i].device));
    }
    check(&w, warm_free(back));
    check(&w, warm_stream_destroy(runtime, w.checker));
    failures[index] = w.failures;
    atomic_fetch_sub_explicit(&working, 1, memory_order_release);
}

/* A stream goes, and another one comes, now and then at its address; or it
 * goes on, as one that is not adopted, and is adopted again. */
static unsigned change(unsigned i, bool destroy)
{
    unsigned failed = 0;

    pthread_rwlock_wrlock(&shared[i].lock);
    if (destroy) {
        failed += warm_stream_destroy(runtime, shared[i].stream) != WARM_OK;
        failed += warm_stream_create(runtime, 0, &shared[i].stream) != WARM_OK;
    } else {
        failed += warm_stream_retire(runtime, shared[i].stream) != WARM_OK;
    }
    pthread_rwlock_unlock(&shared[i].lock);
    return failed;
}

static unsigned adopt(unsigned i)
{
    unsigned failed;

    pthread_rwlock_wrlock(&shared[i].lock);
    failed = warm_stream_adopt(runtime, shared[i].stream) != WARM_OK;
    pthread_rwlock_unlock(&shared[i].lock);
    return failed;
}

static void keep_house(void)
{
    uint64_t random = wt_seed();
    unsigned failed = 0;

    while (atomic_load_explicit(&working, memory_order_acquire) > 0) {
        uint64_t next = wt_random(&random);
        warm_space_stats stats = {.size = sizeof stats};

        failed += change((unsigned)(next % STREAMS), (next >> 8) % 2 == 0);
        failed += warm_pinned_get_stats(runtime, &stats) != WARM_OK;
        failed += stats.live.current > THREADS * 2;
        failed += adopt((unsigned)(next % STREAMS));
        if ((next >> 16) % 8 == 0 && !apart) {
            failed += warm_pinned_trim(runtime, 0, NULL) != WARM_OK;
        }
    }
    failures[KEEPER] = failed;
}

static void run(void *argument, unsigned index)
{
    if (index == KEEPER) {
        keep_house();
    } else {
        work(index);
    }
}

WT_LOOP_TEST(test_B4_B6_streams_that_threads_share_retire, 3)
{
    static const char *const tests[] = {"batch_count=4", "arenas=2",
                                        "batch_count=4:magazine_bytes=256K"};
    warm_space_stats stats;

    apart = _i == 2;

    runtime = wt_runtime_with(.segment = _i == 2 ? 64 << 10 : 1 << 20,
                              .test = tests[_i]);
    for (int i = 0; i < STREAMS; i++) {
        pthread_rwlock_init(&shared[i].lock, NULL);
        shared[i].stream = wt_stream(runtime, 0);
    }
    atomic_store_explicit(&working, THREADS, memory_order_relaxed);
    wt_threads(THREADS + 1, run, NULL);
    for (int i = 0; i <= THREADS; i++) {
        ck_assert_msg(failures[i] == 0, "thread %d: %u failures", i,
                      failures[i]);
    }
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_synchronize(runtime, shared[i].stream));
        wt_ok(warm_stream_destroy(runtime, shared[i].stream));
    }
    do {
        wt_ok(warm_poll(runtime));
        stats = wt_pinned_stats(runtime);
    } while (stats.pending.current != 0);
    ck_assert_uint_eq(stats.live.current, 0);
    ck_assert_uint_eq(stats.lost + stats.captured, 0);
    wt_runtime_end(runtime);
}

/* A block freed by the thread that it batches for, and by another one at the
 * same time: one of the two is refused. */
enum { BLOCKS = 1000 };
static _Atomic(void *) target;
static _Atomic unsigned arrived, freed;

static void free_targets(void *argument, unsigned index)
{
    unsigned *good = argument;

    for (unsigned i = 0; i < wt_scaled(BLOCKS); i++) {
        void *block = NULL;

        if (index == 0 &&
            (warm_pinned_alloc(runtime, WORDS, &block) != WARM_OK ||
             warm_record_stream(block, shared[0].stream) != WARM_OK)) {
            failures[0]++;
        }
        if (index == 0) {
            atomic_store_explicit(&target, block, memory_order_relaxed);
        }
        /* Together: each waits until the other one is here. */
        atomic_fetch_add_explicit(&arrived, 1, memory_order_acq_rel);
        while (atomic_load_explicit(&arrived, memory_order_acquire) <
               2 * (i + 1)) {
            sched_yield();
        }
        block = atomic_load_explicit(&target, memory_order_relaxed);
        good[index] += warm_free(block) == WARM_OK;
        /* And both are done before the block may be handed out again. */
        atomic_fetch_add_explicit(&freed, 1, memory_order_acq_rel);
        while (atomic_load_explicit(&freed, memory_order_acquire) <
               2 * (i + 1)) {
            sched_yield();
        }
    }
}

WT_TEST(test_of_two_frees_of_a_batched_block_one_counts)
{
    unsigned good[2] = {0};
    warm_space_stats stats;

    runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options)});
    shared[0].stream = wt_stream(runtime, 0);
    wt_threads(2, free_targets, good);
    ck_assert_uint_eq(failures[0], 0);
    ck_assert_uint_eq(good[0] + good[1], wt_scaled(BLOCKS));
    wt_settle(runtime, shared[0].stream);
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.live.freed, wt_scaled(BLOCKS));
    ck_assert_uint_eq(stats.pending.current, 0);
    wt_runtime_end(runtime);
}
