/* check_shared_fault.c: every driver call fails in turn, and every allocation
 * of a record, at its n-th call, once and from then on, under buffers that a
 * device has to itself or shares with the host (rows F1, F2, F6).
 *
 * What must hold each time: a refused call changed nothing; a buffer with users
 * keeps its contents; the walker finds nothing wrong; all that is not lost
 * comes back once the fault is gone. */
/* memcheck: one process */
#include "wt_fault.h"

#include <string.h>

enum { BUFFERS = 9, RETAINED = 4 };
#define MIB ((size_t)1 << 20)

static struct flow {
    warm_runtime *runtime;
    warm_stream stream, other;
    void *buffer[BUFFERS];
    void *retained; /* freed, and retained */
    unsigned errors;
} f;

static bool good(warm_status status)
{
    f.errors += status != WARM_OK;
    return status == WARM_OK;
}

static warm_usage usage_of(int i)
{
    return i % 3 == 0 ? WARM_USAGE_PRIVATE : WARM_USAGE_SHARED;
}

static warm_space_stats stats_of(warm_usage usage)
{
    warm_space_stats stats = {.size = sizeof stats};

    wt_ok(warm_shared_get_stats(f.runtime, 0, usage, &stats));
    return stats;
}

static void allocate(int i)
{
    static const double value = 1.5;
    warm_space_stats before = stats_of(usage_of(i)), after;
    void *pointer = NULL;
    warm_status status =
        i % 3 == 2 ? warm_shared_alloc_scalar(f.runtime, 0, &value, 8, &pointer)
                   : warm_shared_alloc(f.runtime, 0, (size_t)30000 << i,
                                       usage_of(i), &pointer);

    if (good(status)) {
        f.buffer[i] = pointer;
        return;
    }
    after = stats_of(usage_of(i));
    wt_require(pointer == NULL && after.live.current == before.live.current &&
                   after.live_bytes.current == before.live_bytes.current,
               "a refused allocation changed something");
}

static void give(int i)
{
    if (f.buffer[i] != NULL) {
        wt_ok(warm_free(f.buffer[i]));
        f.buffer[i] = NULL;
    }
}

/* The retained buffer holds i as every byte. */
static void check_retained(void)
{
    const unsigned char *bytes = f.retained;

    for (int i = 0; bytes != NULL && i < 1000; i++) {
        wt_require(bytes[i] == RETAINED, "a buffer with a user was reused");
    }
}

static void use(void *list[], size_t count)
{
    static const int64_t shape[] = {3, 4};
    warm_shared_info info = {.size = sizeof info};

    for (size_t i = 0; i < count; i++) {
        (void)good(warm_shared_set_shape(list[i], shape, 2));
        (void)good(warm_shared_get_info(list[i], &info));
    }
    (void)good(warm_shared_record(f.runtime, list, count, f.stream, NULL));
    (void)good(warm_shared_record(f.runtime, list, count, f.other, NULL));
    (void)good(warm_shared_wait(f.runtime, list, count, NULL));
    (void)good(warm_shared_record(f.runtime, list, count, f.stream, NULL));
}

static void play(void)
{
    void *list[BUFFERS];
    size_t count = 0;

    for (int i = 0; i < BUFFERS; i++) {
        allocate(i);
        if (f.buffer[i] != NULL) {
            list[count++] = f.buffer[i];
        }
    }
    use(list, count);
    if (f.buffer[RETAINED] != NULL) {
        f.retained = f.buffer[RETAINED];
        memset(f.retained, RETAINED, 1000);
        wt_ok(warm_shared_retain(f.retained));
    }
    for (int i = 0; i < BUFFERS; i++) {
        give(i);
    }
    for (int i = 0; i < BUFFERS; i++) {
        allocate(i);
        if (f.buffer[i] != NULL && usage_of(i) == WARM_USAGE_SHARED) {
            memset(f.buffer[i], 99, 8);
        }
    }
    check_retained();
    (void)good(warm_shared_empty_cache(f.runtime, 0, NULL));
    for (int i = 0; i < BUFFERS; i++) {
        give(i);
    }
    check_retained();
    (void)good(warm_poll(f.runtime));
    (void)good(warm_shared_free_inactive(f.runtime, 0, NULL));
    (void)good(warm_shared_empty_cache(f.runtime, 0, NULL));
}

static void begin(uint64_t n)
{
    memset(&f, 0, sizeof f);
    /* Managed, page-locked, and page-locked in pieces. */
    f.runtime =
        wt_runtime_with(.shared_memory = n % 2 != 0 ? "managed" : "mapped",
                        .pin_chunk = n % 4 == 0 ? MIB : 0);
    f.stream = wt_stream(f.runtime, 0);
    f.other = wt_stream(f.runtime, 0);
}

static void check_empty(warm_usage usage)
{
    warm_space_stats stats = stats_of(usage);

    wt_require(stats.live.current == 0, "a buffer is still in use");
    wt_require(stats.lost_bytes != 0 || stats.held_bytes.current == 0,
               "%lu bytes are held though nothing was lost",
               (unsigned long)stats.held_bytes.current);
}

static void end(void)
{
    wt_ok(warm_testing_check(f.runtime, 0));
    if (f.retained != NULL) {
        wt_ok(warm_shared_release(f.retained));
    }
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    wt_ok(warm_stream_synchronize(f.runtime, f.other));
    do {
        wt_ok(warm_poll(f.runtime));
        wt_ok(warm_shared_empty_cache(f.runtime, 0, NULL));
    } while (stats_of(WARM_USAGE_SHARED).pending.current +
                 stats_of(WARM_USAGE_PRIVATE).pending.current >
             0);
    check_empty(WARM_USAGE_SHARED);
    check_empty(WARM_USAGE_PRIVATE);
    wt_ok(warm_testing_check(f.runtime, 0));
    wt_ok(warm_stream_destroy(f.runtime, f.stream));
    wt_ok(warm_stream_destroy(f.runtime, f.other));
    wt_runtime_end(f.runtime);
}

static const wt_flow flow = {begin, play, end, &f.runtime, 400, 1};

WT_LOOP_TEST(test_F1_F2_F6_every_driver_call_may_fail, 2 * wt_driver_calls())
{
    wt_fail_every_call(&flow, warm_testing_call_name(_i / 2), _i % 2);
}

WT_LOOP_TEST(test_F1_F2_F6_every_record_may_fail, 2)
{
    wt_fail_every_record(&flow, _i != 0);
}
