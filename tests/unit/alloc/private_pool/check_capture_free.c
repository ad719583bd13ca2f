/* check_capture_free.c: blocks that are freed while a stream that used them
 * captures (rows B7, E9). Blocks that the capture did not use are idle again
 * when it has ended, blocks that it used are kept. Captures are announced by
 * the runtime, by the program, or not at all; of streams of every sort; with
 * and without a private pool that records; freed by either thread.
 *
 * backends: host standin */
/* memcheck: one process */
#include "wt.h"

#include "runtime/runtime.h"

#include <stdio.h>
#include <string.h>

#define KIB ((size_t)1 << 10)

static warm_runtime *runtime;
static warm_stream made, other; /* adopted, at first */
static unsigned lines;
static char last[512];

static void hear(void *context, warm_log_level level, const char *line)
{
    (void)context;
    if (level == WARM_LOG_WARNING && strstr(line, "does not capture") == NULL) {
        lines++;
        snprintf(last, sizeof last, "%s", line);
    }
}

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &made));
    wt_ok(warm_stream_create(runtime, 0, &other));
    lines = 0;
    last[0] = '\0';
    warm_log_set(hear, NULL);
}

static void teardown(void)
{
    warm_log_set(NULL, NULL);
    wt_stream_end(runtime, made);
    wt_stream_end(runtime, other);
    wt_runtime_end(runtime);
}

/* ---- the ways ------------------------------------------------------------ */

enum { PINNED, DEVICE, OWN, KINDS };             /* OWN: no record needed */
enum { ADOPTED, STRANGER, PER_THREAD, SORTS };   /* of stream */
enum { BEGUN, ANNOUNCED, UNANNOUNCED, CALLERS }; /* of captures */

struct way {
    int kind, sort, caller;
    bool pool, elsewhere; /* a pool records; another thread frees */
};

enum { WAYS = KINDS * SORTS * CALLERS * 2 * 2 };

static struct way way_of(int i)
{
    return (struct way){.kind = i % KINDS,
                        .sort = i / KINDS % SORTS,
                        .caller = i / (KINDS * SORTS) % CALLERS,
                        .pool = i / (KINDS * SORTS * CALLERS) % 2 != 0,
                        .elsewhere = i >= WAYS / 2};
}

/* A stream that is retired and goes on is not adopted any more. */
static warm_stream stream_of(const struct way *way)
{
    if (way->sort == STRANGER) {
        wt_ok(warm_stream_retire(runtime, made));
    }
    return way->sort == PER_THREAD ? WARM_STREAM_PER_THREAD : made;
}

static void *take(const struct way *way, warm_stream stream)
{
    if (way->kind == PINNED) {
        return wt_pinned(runtime, 8 * KIB);
    }
    return wt_device(runtime, way->kind == OWN ? stream : other, 8 * KIB);
}

static void use(const struct way *way, void *block, warm_stream stream)
{
    if (way->kind != OWN) {
        wt_ok(warm_record_stream(block, stream));
    }
}

static void free_one(void *block, unsigned index)
{
    (void)index;
    (void)warm_free(block);
}

static void let_go(const struct way *way, void *block)
{
    if (way->elsewhere) {
        wt_threads(1, free_one, block);
    } else {
        wt_ok(warm_free(block));
    }
}

static warm_private_pool begin(const struct way *way, warm_stream stream)
{
    warm_private_pool pool = {0};

    if (way->pool) {
        wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    }
    if (way->caller == ANNOUNCED) {
        wt_ok(warm_capture_announce(runtime, stream));
    }
    wt_ok(way->caller == BEGUN
              ? warm_capture_begin(runtime, stream)
              : wm_driver_capture_begin(runtime->driver, stream));
    return pool;
}

static void end(const struct way *way, warm_stream stream,
                warm_private_pool pool)
{
    warm_graph graph = NULL;

    wt_ok(way->caller == BEGUN
              ? warm_capture_end(runtime, stream, &graph)
              : wm_driver_capture_end(runtime->driver, stream, &graph));
    if (way->caller == ANNOUNCED) {
        wt_ok(warm_capture_announce_end(runtime, stream));
    }
    if (way->pool) {
        wt_ok(warm_private_pool_end(runtime, pool));
        wt_ok(warm_private_pool_release(runtime, pool));
    }
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* Whether the library cannot know that the stream captures. */
static bool is_secret(const struct way *way)
{
    return way->sort == ADOPTED && way->caller == UNANNOUNCED && !way->pool;
}

/* ---- figures ------------------------------------------------------------ */

static uint64_t captured(void)
{
    return wt_pinned_stats(runtime).captured +
           wt_device_stats(runtime).captured;
}

static uint64_t lost(void)
{
    return wt_pinned_stats(runtime).lost + wt_device_stats(runtime).lost;
}

static uint64_t pending(void)
{
    warm_device_figures all = wt_device_stats(runtime).all;

    return wt_pinned_stats(runtime).pending.current + all.active.current -
           all.live.current;
}

static uint64_t held(void)
{
    return wt_pinned_stats(runtime).held_bytes.current +
           wt_device_stats(runtime).all.held_bytes.current;
}

static void empty(void)
{
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
}

static uint64_t marks(void)
{
    return wt_calls(runtime, "event_mark") + wt_calls(runtime, "event_record");
}

/* ---- tests --------------------------------------------------------------- */

WT_CASE("ways", .setup = setup, .teardown = teardown);

/* The work was done before the capture: the graph has none of it. */
WT_LOOP_TEST(test_E9_block_that_a_capture_did_not_use_comes_back, WAYS)
{
    struct way way = way_of(_i);
    warm_stream stream = stream_of(&way);
    /* The library does not know what the capture uses: the blocks are kept. */
    bool kept = is_secret(&way) && way.kind != OWN;

    for (int round = 0; round < 3; round++) {
        void *block = take(&way, stream);
        warm_private_pool pool;

        use(&way, block, stream);
        wt_ok(warm_stream_synchronize(runtime, stream));
        pool = begin(&way, stream);
        let_go(&way, block);
        wt_ok(warm_poll(runtime));
        /* Of a default stream the event was recorded with the use. */
        ck_assert_uint_eq(pending(),
                          !kept && way.kind != OWN &&
                              (way.sort != PER_THREAD || !way.elsewhere));
        end(&way, stream, pool);
        wt_ok(warm_poll(runtime));
        wt_ok(warm_poll(runtime));
        ck_assert_uint_eq(pending() + lost(), 0);
        ck_assert_uint_eq(captured(), kept ? (unsigned)round + 1 : 0);
    }
    empty();
    ck_assert_int_eq(held() > 0, kept);
}

/* Work that was queued before the capture still runs when that has ended. */
WT_LOOP_TEST(test_E9_B4_block_comes_back_when_its_work_is_done, WAYS)
{
    struct way way = way_of(_i);
    warm_stream stream = stream_of(&way);
    warm_private_pool pool;
    void *block, *fresh;
    wt_gate *gate;

    if (way.kind == OWN || way.sort == PER_THREAD) {
        return;
    }
    block = take(&way, stream);
    use(&way, block, stream);
    gate = wt_gate_close(runtime, stream);
    pool = begin(&way, stream);
    let_go(&way, block);
    end(&way, stream, pool);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(pending(), 1);
    fresh = take(&way, stream);
    ck_assert_ptr_ne(fresh, block);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(pending(), 0);
    wt_ok(warm_free(fresh));
    ck_assert_uint_eq(captured() + lost(), 0);
}

/* The record during the capture tells that the capture uses the block. */
WT_LOOP_TEST(test_E9_block_that_a_capture_used_is_kept_and_the_first_is_said,
             WAYS)
{
    struct way way = way_of(_i);
    warm_stream stream = stream_of(&way);
    void *block[2] = {take(&way, stream), take(&way, stream)};
    warm_private_pool pool;

    if (is_secret(&way)) {
        wt_free(block[0], block[1]);
        return;
    }
    pool = begin(&way, stream);
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_record_stream(block[i], stream));
    }
    let_go(&way, block[0]);
    end(&way, stream, pool);
    let_go(&way, block[1]);
    wt_ok(warm_poll(runtime));
    empty();
    ck_assert_uint_eq(captured(), 2);
    ck_assert_uint_eq(pending() + lost(), 0);
    ck_assert_uint_gt(held(), 0);
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last, "a block of 8.0 KiB is leaked"));
    ck_assert_ptr_nonnull(strstr(last, "warm_private_pool_begin()"));
}

/* The promise of warm_stream_adopt() was broken: one warning says what to do,
 * and the graph's memory is not allocated again. */
WT_TEST(test_E9_B7_capture_that_nobody_announced_is_said_once)
{
    struct way way = {.kind = PINNED, .sort = ADOPTED, .caller = UNANNOUNCED};

    for (int round = 0; round < 2; round++) {
        warm_private_pool pool = begin(&way, made);

        wt_free_used(take(&way, made), made);
        wt_ok(warm_poll(runtime));
        end(&way, made, pool);
        wt_ok(warm_poll(runtime));
        wt_ok(warm_poll(runtime));
        ck_assert_uint_eq(pending() + lost(), 0);
        ck_assert_int_eq((int)captured(), round + 1);
    }
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last, "8.0 KiB of freed blocks are leaked"));
    ck_assert_ptr_nonnull(strstr(last, "call warm_capture_announce()"));
}

/* All blocks share one event. */
WT_LOOP_TEST(test_E9_blocks_freed_in_a_capture_share_an_event, SORTS)
{
    struct way way = {.kind = PINNED, .sort = _i, .caller = BEGUN};
    warm_stream stream = stream_of(&way);
    warm_private_pool pool;
    void *block[40];
    wt_gate *gate = NULL;
    uint64_t before;

    for (int i = 0; i < 40; i++) {
        block[i] = take(&way, stream);
        use(&way, block[i], stream);
    }
    wt_ok(warm_stream_synchronize(runtime, stream));
    if (way.sort != PER_THREAD) {
        gate = wt_gate_close(runtime, stream);
    }
    pool = begin(&way, stream);
    wt_free_all(block, 40);
    ck_assert_uint_eq(pending(), 40);
    before = marks();
    end(&way, stream, pool);
    /* One call may find that the stream captures, one records. */
    ck_assert_uint_le(marks(), before + 2);
    wt_ok(warm_testing_check(runtime, 1));
    if (gate != NULL) {
        ck_assert_uint_eq(pending(), 40);
        wt_gate_open(gate);
        wt_ok(warm_stream_synchronize(runtime, stream));
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(pending(), 0);
}

/* Frees a block, on which the stream was recorded, while the stream
 * captures. */
static void free_in_capture(int kind, warm_stream stream)
{
    struct way way = {.kind = kind, .sort = STRANGER, .caller = UNANNOUNCED};
    void *block = take(&way, other);

    wt_ok(warm_record_stream(block, stream));
    (void)begin(&way, stream);
    wt_ok(warm_free(block));
    end(&way, stream, (warm_private_pool){0});
}

static warm_stream make_stranger(void)
{
    warm_stream stream = wt_stream(runtime, 0);

    wt_ok(warm_stream_retire(runtime, stream));
    return stream;
}

/* The destroy retires the stream, so its work is known to be done. */
WT_LOOP_TEST(test_E9_B6_stream_may_be_retired_before_its_blocks_come_back, OWN)
{
    warm_stream brief = make_stranger();

    free_in_capture(_i, brief);
    wt_ok(warm_stream_synchronize(runtime, brief));
    wt_ok(warm_stream_destroy(runtime, brief));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(pending() + captured() + lost(), 0);
}

/* Destroyed past the library: whether its work is done cannot be known. */
WT_LOOP_TEST(test_E9_B6_stream_that_was_not_retired_loses_its_blocks, OWN)
{
    warm_stream brief;

    if (wt_on_gpu()) {
        wt_skip(
            "not on a GPU"); /* a stream that is gone must not be named there */
    }
    brief = make_stranger();
    free_in_capture(_i, brief);
    wt_ok(wm_driver_stream_destroy(runtime->driver, brief));
    for (int i = 0; i < 5; i++) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(pending() + captured(), 0);
    ck_assert_uint_eq(lost(), 1);
    ck_assert_uint_eq(lines, 1);
}

static wm_driver_ops ops;
static const wm_driver_ops *real;

/* Answers for another stream, which was created at the address. */
static warm_status answer_for_another(wm_driver *d, warm_stream s,
                                      wm_stream_info *info)
{
    warm_status status = real->stream_info(d, s, info);

    info->id += (uint64_t)1 << 40;
    return status;
}

WT_LOOP_TEST(test_E9_B6_another_stream_at_the_address_is_not_taken_for_it, OWN)
{
    wt_ok(warm_stream_retire(runtime, made));
    free_in_capture(_i, made);
    real = runtime->driver->ops;
    ops = *real;
    ops.stream_info = answer_for_another;
    runtime->driver->ops = &ops;
    for (int i = 0; i < 5; i++) {
        wt_ok(warm_poll(runtime));
    }
    runtime->driver->ops = real;
    ck_assert_uint_eq(pending() + captured(), 0);
    ck_assert_uint_eq(lost(), 1);
}
