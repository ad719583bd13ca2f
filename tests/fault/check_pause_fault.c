/* check_pause_fault.c: every driver call, and every allocation of a record,
 * fails at its n-th call, once and from then on, while memory is paused and
 * resumed (row C11).
 *
 * What must hold each time: a pause that failed lost nothing, or left the pool
 * paused; a resume that failed left it paused and can be repeated; contents are
 * right whenever a pause that saved them was resumed; the walker finds nothing
 * wrong. */
/* memcheck: one process */
#include "wt_fault.h"

#include <string.h>

#define MIB ((size_t)1 << 20)
enum { FLAGS = WARM_POOL_USER | WARM_POOL_PAUSABLE, BLOCKS = 3 };

static const size_t sizes[BLOCKS] = {1 << 20, 900, 3 << 20};

static struct flow {
    warm_runtime *runtime;
    warm_stream stream;
    warm_private_pool tag;
    char *block[BLOCKS];
    char *extra;  /* freed while it is paused */
    bool dropped; /* contents may be gone */
    unsigned failures;
} f;

static bool is_paused(void)
{
    warm_private_pool_info info = WARM_INIT(warm_private_pool_info);

    wt_ok(warm_private_pool_get_info(f.runtime, f.tag, &info));
    return info.paused_bytes > 0;
}

static void *tagged(size_t bytes)
{
    void *block = NULL;

    wt_ok(warm_private_pool_begin(f.runtime, &f.tag, FLAGS, NULL, NULL));
    wt_ok(warm_device_alloc(f.runtime, 0, f.stream, bytes, &block));
    wt_ok(warm_private_pool_end(f.runtime, f.tag));
    return block;
}

static void begin(uint64_t n)
{
    memset(&f, 0, sizeof f);
    f.runtime = wt_runtime_with(.segment = 2 * MIB, .host_memory = 64 * MIB);
    f.stream = wt_stream(f.runtime, 0);
    for (int i = 0; i < BLOCKS; i++) {
        char *here = wt_pinned(f.runtime, sizes[i]);

        memset(here, 10 * i + 1, sizes[i]);
        f.block[i] = tagged(sizes[i]);
        wt_ok(warm_copy_async(f.runtime, f.block[i], here, sizes[i],
                              WARM_COPY_TO_DEVICE, f.stream));
        wt_ok(warm_free(here));
    }
    f.extra = tagged(2 * MIB);
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    wt_ok(warm_pinned_empty_cache(f.runtime, NULL));
}

/* One pause and one resume. The second is only tried if there is something to
 * be resumed; whether a failed pause is undone the figures say. */
static void there_and_back(unsigned flags, bool frees)
{
    warm_status status = warm_memory_pause(f.runtime, f.tag, flags);

    f.failures += status != WARM_OK;
    f.dropped |= flags != 0;
    wt_ok(warm_testing_check(f.runtime, 0));
    if (status == WARM_OK) {
        wt_require(wt_device_stats(f.runtime).all.held_bytes.current == 0,
                   "memory of the pool is held while it is paused");
        if (frees) {
            wt_ok(warm_free(f.extra));
            f.extra = NULL;
        }
    }
    if (status == WARM_OK || is_paused()) {
        status = warm_memory_resume(f.runtime, f.tag);
        f.failures += status != WARM_OK;
        wt_ok(warm_testing_check(f.runtime, 0));
    }
}

static void play(void)
{
    there_and_back(0, false);
    there_and_back(0, true);
    there_and_back(WARM_PAUSE_DROP, false);
}

static void assert_contents(int i)
{
    char *here = wt_pinned(f.runtime, sizes[i]);

    wt_ok(warm_copy_async(f.runtime, here, f.block[i], sizes[i],
                          WARM_COPY_TO_HOST, f.stream));
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    for (size_t at = 0; at < sizes[i]; at += 499) {
        wt_require(here[at] == 10 * i + 1, "block %d, byte %zu: %d", i, at,
                   here[at]);
    }
    wt_ok(warm_free(here));
}

static bool drops; /* the flow ends with contents that were dropped */

/* What may still be written leaks, if neither a stream nor a device can be
 * waited for. */
static bool waits_fail;

static void end(void)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_status status = warm_memory_resume(f.runtime, f.tag);

    /* Paused still, or not at all. */
    wt_require(status == WARM_OK || status == WARM_INVALID_ARGUMENT,
               "it cannot be resumed once the fault is gone: %s",
               warm_last_error_message());
    wt_require(!is_paused(), "it is paused");
    for (int i = 0; i < BLOCKS; i++) {
        if (!drops) {
            assert_contents(i);
        }
        wt_ok(warm_free(f.block[i]));
    }
    wt_ok(warm_free(f.extra));
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    for (int i = 0; i <= BLOCKS + 1; i++) { /* of each begin, and the first */
        warm_private_pool_info info = WARM_INIT(warm_private_pool_info);

        if (warm_private_pool_get_info(f.runtime, f.tag, &info) == WARM_OK) {
            wt_ok(warm_private_pool_release(f.runtime, f.tag));
        }
    }
    wt_ok(warm_testing_check(f.runtime, 1));
    wt_ok(warm_device_empty_cache(f.runtime, 0, NULL));
    wt_require(
        wt_device_stats(f.runtime).all.held_bytes.current == 0 ||
            wt_device_stats(f.runtime).lost_bytes > 0,
        "%lu bytes are held",
        (unsigned long)wt_device_stats(f.runtime).all.held_bytes.current);
    wt_ok(warm_stream_destroy(f.runtime, f.stream));
    wt_ok(warm_runtime_destroy(f.runtime, &report));
    wt_require(report.live == 0 || waits_fail, "%lu blocks are left",
               (unsigned long)report.live);
}

static void play_saved(void)
{
    there_and_back(0, false);
    there_and_back(0, true);
}

static const wt_flow saved = {begin, play_saved, end, &f.runtime, 400, 1};
static const wt_flow some = {begin, play_saved, end, &f.runtime, 400, 16};
static const wt_flow any = {begin, play, end, &f.runtime, 400, 1};

WT_LOOP_TEST(test_C11_every_driver_call_may_fail, 2 * wt_driver_calls())
{
    drops = false;
    waits_fail = true;
    wt_fail_every_call(&some, warm_testing_call_name(_i / 2), _i % 2);
}

static const char *const own_calls[] = {
    "range_commit",   "range_decommit", "device_synchronize",
    "copy",           "stream_create",  "stream_synchronize",
    "stream_destroy", "pinned_alloc"};
enum { OWN_CALLS = sizeof own_calls / sizeof own_calls[0] };

WT_LOOP_TEST(test_C11_every_call_of_its_own_may_fail, 2 * OWN_CALLS)
{
    drops = false;
    wt_fail_every_call(&saved, own_calls[_i / 2], _i % 2);
}

WT_LOOP_TEST(test_C11_every_call_may_fail_where_contents_are_dropped, 6)
{
    drops = true;
    wt_fail_every_call(&any, own_calls[_i / 2], _i % 2);
}

WT_LOOP_TEST(test_C11_every_record_may_fail, 2)
{
    drops = false;
    wt_fail_every_record(&saved, _i != 0);
}
