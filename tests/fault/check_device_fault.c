/* check_device_fault.c: every driver call fails in turn, and every allocation
 * of a record, at its n-th call, once and from then on, under the memory of a
 * device (rows C1, C2, C4).
 *
 * What must hold each time: a refused call changed
 * nothing; no memory goes to another stream while the one that used it is held;
 * the walker finds nothing wrong; all that is not lost comes back once the
 * fault is gone. */
/* memcheck: one process */
#include "wt_fault.h"

#include <stdatomic.h>
#include <string.h>

enum { BLOCKS = 10 };
#define MIB ((size_t)1 << 20)

static struct flow {
    warm_runtime *runtime;
    warm_stream stream, brief, held; /* brief or stream is not adopted */
    void *block[BLOCKS];
    void *safe;        /* of held, freed while that is at work */
    _Atomic bool over; /* held has run: on CUDA it is late only */
    bool waits;        /* streams may be made to wait for each other */
    unsigned errors;
} f;

static const char *expandable = "off"; /* the option */
static bool records;                   /* it is those that fail */

static bool good(warm_status status)
{
    f.errors += status != WARM_OK;
    return status == WARM_OK;
}

static warm_stream stream_of(int i)
{
    return i % 3 == 0 ? f.brief : i % 3 == 1 ? f.stream : NULL;
}

static void allocate(int i)
{
    warm_device_stats before = wt_device_stats(f.runtime), after;
    void *pointer = NULL;

    if (good(warm_device_alloc(f.runtime, 0, stream_of(i), (size_t)3000 << i,
                               &pointer))) {
        wt_require(pointer != f.safe || f.waits ||
                       atomic_load_explicit(&f.over, memory_order_acquire),
                   "handed out while a stream works on it");
        f.block[i] = pointer;
        return;
    }
    after = wt_device_stats(f.runtime);
    wt_require(pointer == NULL &&
                   after.all.live.allocated == before.all.live.allocated &&
                   after.all.live_bytes.current ==
                       before.all.live_bytes.current,
               "a refused allocation changed something");
}

static void give(int i)
{
    if (f.block[i] != NULL) {
        wt_ok(warm_free(f.block[i]));
        f.block[i] = NULL;
    }
}

/* What cannot be recorded is waited for, or is lost if that fails as well: the
 * stream that is held is never waited for. */
static void play(void)
{
    void *of_held = NULL;

    wt_ok(warm_testing_fail(f.runtime, "stream_synchronize", 1, 1));
    if (strcmp(expandable, "on") == 0) {
        /* Memory that goes back waits for events of the streams. */
        wt_ok(warm_testing_fail(f.runtime, "event_synchronize", 1, 1));
    }
    if (good(warm_device_alloc(f.runtime, 0, f.held, 3000 << 2, &of_held))) {
        f.safe = of_held;
        wt_ok(warm_free(of_held));
    }
    for (int i = 0; i < BLOCKS; i++) {
        allocate(i);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        (void)(f.block[i] == NULL ||
               good(warm_record_stream(f.block[i], stream_of(i + 1))));
        give(i);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        allocate(i);
    }
    (void)good(warm_stream_destroy(f.runtime, f.brief));
    f.brief = f.stream;
    for (int i = 0; i < BLOCKS; i++) {
        give(i);
    }
    (void)good(warm_poll(f.runtime));
    for (int i = 0; i < BLOCKS; i++) {
        allocate(i);
        give(i);
    }
    f.safe = NULL; /* what the driver has had back may be anybody's */
    (void)good(warm_device_trim(f.runtime, 0, 4 * MIB, NULL));
    (void)good(warm_watermarks_set_ratio(f.runtime, 0, 0.5, 0.4));
    (void)good(warm_device_empty_cache(f.runtime, 0, NULL));
}

static void note_over(void *argument)
{
    atomic_store_explicit((_Atomic bool *)argument, true, memory_order_release);
}

static void begin(uint64_t n)
{
    memset(&f, 0, sizeof f);
    f.waits = n % 2 == 0;
    f.runtime = wt_runtime_with(.segment = MIB,
                                .stream_wait = n % 2 != 0 ? "off" : NULL,
                                .expandable_segments = expandable);
    f.stream = wt_stream(f.runtime, 0);
    f.brief = wt_stream(f.runtime, 0);
    f.held = wt_stream(f.runtime, 0);
    wt_ok(warm_stream_retire(f.runtime, n % 2 != 0 ? f.brief : f.stream));
    wt_stall(f.runtime, f.held);
    wt_ok(warm_stream_host_func(f.runtime, f.held, note_over, &f.over));
}

/* Of a stream that is not adopted memory of ranges comes back only so. */
static void end_stream(void)
{
    if (strcmp(expandable, "on") == 0) {
        wt_ok(warm_stream_retire(f.runtime, f.stream));
    }
}

/* Whether a stream was destroyed of which nobody could say what it had passed:
 * no record for that, and it could not be waited for. Ranges keep its memory.
 */
static bool is_kept(void)
{
    static const char idle[] = "\"state\":\"idle\",\"stream\":";
    static char text[1 << 20];
    const char *at = text;

    wt_ok(warm_device_snapshot(f.runtime, 0, text, sizeof text, NULL));
    while ((at = strstr(at, idle)) != NULL) {
        at += sizeof idle - 1;
        if (*at != 'n') {
            return strcmp(expandable, "on") == 0 && records;
        }
    }
    return false;
}

static void end(void)
{
    warm_device_stats stats;

    wt_ok(warm_testing_fail(f.runtime, "stream_synchronize", 0, 0));
    wt_ok(warm_testing_fail(f.runtime, "event_synchronize", 0, 0));
    wt_ok(warm_testing_check(f.runtime, 0));
    wt_stall_end(f.runtime, f.held);
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    wt_ok(warm_stream_synchronize(f.runtime, f.held));
    wt_ok(warm_stream_synchronize(f.runtime, NULL));
    end_stream();
    do {
        wt_ok(warm_poll(f.runtime));
        stats = wt_device_stats(f.runtime);
    } while (stats.all.active.current != 0);
    wt_ok(warm_device_empty_cache(f.runtime, 0, NULL));
    stats = wt_device_stats(f.runtime);
    wt_require(stats.all.live.current == 0, "a block is still in use");
    wt_require(stats.lost_bytes != 0 || is_kept() ||
                   stats.all.held_bytes.current == 0,
               "%lu bytes are held though nothing was lost",
               (unsigned long)stats.all.held_bytes.current);
    wt_require(stats.all.held_bytes.current ==
                   stats.small.held_bytes.current +
                       stats.large.held_bytes.current,
               "the figures do not add up");
    wt_ok(warm_testing_check(f.runtime, 0));
    wt_ok(warm_stream_destroy(f.runtime, f.held));
    wt_runtime_end(f.runtime);
}

static const wt_flow flow = {begin, play, end, &f.runtime, 400, 1};

WT_LOOP_TEST(test_every_driver_call_may_fail, 2 * wt_driver_calls())
{
    wt_fail_every_call(&flow, warm_testing_call_name(_i / 2), _i % 2);
}

WT_LOOP_TEST(test_every_record_may_fail, 2)
{
    wt_fail_every_record(&flow, _i != 0);
}

/* The same where segments grow in place. */
static const char *const range_calls[] = {"range_unit", "range_reserve",
                                          "range_commit", "range_decommit",
                                          "device_memory"};
enum { RANGE_CALLS = sizeof range_calls / sizeof range_calls[0] };

WT_LOOP_TEST(test_C8_every_call_for_ranges_may_fail, 2 * RANGE_CALLS)
{
    expandable = "on";
    wt_fail_every_call(&flow, range_calls[_i / 2], _i % 2);
}

WT_LOOP_TEST(test_C8_every_record_for_ranges_may_fail, 2)
{
    expandable = "on";
    records = true;
    wt_fail_every_record(&flow, _i != 0);
}
