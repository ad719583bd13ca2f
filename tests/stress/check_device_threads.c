/* check_device_threads.c: many threads on the memory of one device (rows C1,
 * C4): each has streams of its own and shares others, which are created,
 * retired and used again; other threads free its blocks; the cache is emptied
 * all the while. Runs with one and several arenas, and with both kinds of
 * segments. On the host device, so that each thread writes to its blocks and
 * checks them. */
#include "wt_mail.h"

#include <string.h>

enum { WORKERS = 4, HELD = 12, OWN = 3, SHARED = 2 };
#define MIB ((size_t)1 << 20)

static struct shared {
    warm_runtime *runtime;
    warm_stream stream[SHARED];
    _Atomic unsigned working;
    unsigned steps;
} s;

typedef struct worker {
    unsigned index;
    uint64_t random;
    warm_stream own[OWN];
    uint64_t *block[HELD];
} worker;

static uint64_t tag_of(const worker *w, int i)
{
    return ((uint64_t)w->index << 32) + (unsigned)i + 1;
}

static void take(worker *w, int i)
{
    uint64_t kind = wt_random(&w->random);
    warm_stream stream = kind % 3 == 0    ? s.stream[kind / 3 % SHARED]
                         : kind % 16 == 1 ? NULL
                                          : w->own[kind / 16 % OWN];
    size_t bytes = (size_t)64 << (wt_random(&w->random) % 16);
    void *block = NULL;

    wt_expect_ok(warm_device_alloc(s.runtime, 0, stream, bytes, &block));
    w->block[i] = block;
    if (block != NULL) {
        *w->block[i] = tag_of(w, i);
        if (wt_random(&w->random) % 4 == 0) {
            wt_expect_ok(warm_record_stream(block, s.stream[kind % SHARED]));
        }
    }
}

static void give(worker *w, int i)
{
    void *block = w->block[i];

    w->block[i] = NULL;
    wt_expect(*(uint64_t *)block == tag_of(w, i));
    *(uint64_t *)block = 0;
    wt_mail_free(block, wt_random(&w->random) % (2 * WT_MAIL));
}

static void begin_stream(warm_stream *own)
{
    *own = NULL;
    wt_expect_ok(warm_stream_create(s.runtime, 0, own));
}

/* While others have blocks of it. Or it goes on. */
static void renew_stream(worker *w)
{
    warm_stream *own = &w->own[wt_random(&w->random) % OWN];

    if (wt_random(&w->random) % 4 == 0) {
        wt_expect_ok(warm_stream_retire(s.runtime, *own));
        wt_expect_ok(warm_stream_adopt(s.runtime, *own));
    } else {
        wt_expect_ok(warm_stream_destroy(s.runtime, *own));
        begin_stream(own);
    }
}

static void work(worker *w)
{
    for (int i = 0; i < OWN; i++) {
        begin_stream(&w->own[i]);
    }
    for (unsigned step = 0; step < s.steps; step++) {
        int i = (int)(wt_random(&w->random) % HELD);

        if (w->block[i] != NULL) {
            give(w, i);
        } else {
            take(w, i);
        }
        if (wt_random(&w->random) % 256 == 0) {
            renew_stream(w);
        }
    }
    for (int i = 0; i < HELD; i++) {
        if (w->block[i] != NULL) {
            give(w, i);
        }
    }
    for (int i = 0; i < OWN; i++) {
        wt_expect_ok(warm_stream_destroy(s.runtime, w->own[i]));
    }
    atomic_fetch_sub_explicit(&s.working, 1, memory_order_release);
}

static bool is_sound(const warm_device_figures *f)
{
    return f->held_bytes.current >= f->active_bytes.current &&
           f->active_bytes.current >= f->live_bytes.current &&
           f->live_bytes.current >= f->requested_bytes.current &&
           f->active.current >= f->live.current;
}

/* Whether those of all requests are the sums of the others. */
static bool is_sum(const warm_device_stats *now)
{
#define SUM(name, unit, meaning)                                               \
    now->all.name.current ==                                                   \
        now->small.name.current + now->large.name.current &&
    return WARM_DEVICE_STAT_MAP(SUM) true;
#undef SUM
}

/* All figures belong to one moment, whatever arenas and threads have them. */
static bool are_sound(void)
{
    warm_device_stats stats = {.size = sizeof stats};

    return warm_device_get_stats(s.runtime, 0, &stats) == WARM_OK &&
           is_sound(&stats.all) && is_sound(&stats.small) &&
           is_sound(&stats.large) && is_sum(&stats);
}

/* Looks on, and takes back. */
static void keep(void)
{
    while (atomic_load_explicit(&s.working, memory_order_acquire) > 0) {
        warm_device_cache info = {.size = sizeof info};

        wt_expect(are_sound());
        wt_expect_ok(warm_device_cache_info(s.runtime, 0, &info));
        wt_expect_ok(warm_poll(s.runtime));
        wt_expect_ok(warm_device_trim(s.runtime, 0, 8 * MIB, NULL));
        wt_expect(warm_testing_check(s.runtime, 0) == WARM_OK);
    }
}

static void run(void *argument, unsigned index)
{
    worker w = {.index = index, .random = wt_seed() + index + 1};

    if (index == WORKERS) {
        keep();
    } else {
        work(&w);
    }
}

WT_LOOP_TEST(test_B14_C6_threads_share_the_memory_of_a_device, 2)
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .test = _i != 0 ? "arenas=3" : NULL};
    warm_device_stats stats;

    /* Not by wt_runtime(), for which no number is one. */
    wt_ok(warm_runtime_create(&options, &s.runtime));
    s.steps = wt_scaled(6000);
    atomic_store_explicit(&s.working, WORKERS, memory_order_relaxed);
    for (int i = 0; i < SHARED; i++) {
        s.stream[i] = wt_stream(s.runtime, 0);
    }
    /* One of them is not adopted. */
    wt_ok(warm_stream_retire(s.runtime, s.stream[1]));
    wt_threads(WORKERS + 1, run, NULL);
    wt_mail_end();
    for (int i = 0; i < SHARED; i++) {
        wt_ok(warm_stream_destroy(s.runtime, s.stream[i]));
    }
    wt_ok(warm_poll(s.runtime));
    wt_ok(warm_device_trim(s.runtime, 0, 0, NULL));
    stats = wt_device_stats(s.runtime);
    ck_assert_uint_eq(stats.all.active.current, 0);
    ck_assert_uint_eq(stats.all.held_bytes.current, 0);
    wt_runtime_end(s.runtime);
}
