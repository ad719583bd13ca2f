/* check_pinned_fault.c: every driver call fails in turn, and every allocation
 * of a record, at its n-th call, once and from then on (rows B4, B12).
 *
 * One flow over all that the pinned space does is played for n = 1, 2, … until
 * it passes without meeting the fault. Calls may fail; what must hold each
 * time: a refused call changed nothing, no memory is handed out while a stream
 * works on it, the walker finds nothing wrong, and the counters balance once
 * the fault is gone. One of the two streams is adopted, the other is not: which
 * one changes with n.
 */
/* memcheck: one process */
#include "wt_fault.h"

#include <string.h>

enum { BLOCKS = 10, PART = 3000, COMBINED = 4 /* this block is */ };

static struct flow {
    warm_runtime *runtime;
    warm_stream stream, brief;
    char *device; /* a part for each block: two streams copy at once */
    char *block[BLOCKS];
    unsigned errors;
    const char *pin; /* option, null: the default */
    unsigned nodes;  /* of the runtimes that begin() makes */
    size_t chunk;    /* option pin_chunk */
    bool dry;        /* only pageable memory can be had, and will do */
} f = {.nodes = 1};

static bool good(warm_status status)
{
    f.errors += status != WARM_OK;
    return status == WARM_OK;
}

static size_t size_of(int i)
{
    return (size_t)PART << i;
}

static void allocate(int i)
{
    warm_space_stats before = wt_pinned_stats(f.runtime), after;
    warm_error error = {.size = sizeof error};
    void *pointer = NULL;
    bool combined = i == COMBINED && !f.dry;
    unsigned flags = f.dry      ? WARM_ALLOC_PAGEABLE_OK
                     : combined ? WARM_ALLOC_WRITE_COMBINED
                                : 0;
    int node = combined ? WARM_NODE_ANY : (int)f.nodes - 1;

    if (good(i % 3 == 0 || f.dry || combined
                 ? warm_pinned_alloc_on(f.runtime, size_of(i), node, flags,
                                        &pointer)
                 : warm_pinned_alloc(f.runtime, size_of(i), &pointer))) {
        f.block[i] = pointer;
        memset(pointer, i, PART);
        f.block[i][size_of(i) - 1] = 1;
        return;
    }
    after = wt_pinned_stats(f.runtime);
    wt_require(pointer == NULL &&
                   after.live.allocated == before.live.allocated &&
                   after.pageable.allocated == before.pageable.allocated &&
                   after.live_bytes.current == before.live_bytes.current,
               "a refused allocation changed something");
    warm_last_error(&error);
    wt_require(error.status != WARM_OUT_OF_MEMORY ||
                   (after.failures == before.failures + 1 &&
                    strstr(error.message, "held ") != NULL),
               "not counted, or without figures: %s", error.message);
}

static void give(int i)
{
    if (f.block[i] != NULL) {
        wt_ok(warm_free(f.block[i]));
        f.block[i] = NULL;
    }
}

/* What a user does all day, and in the end what a stream's end brings. */
static void play(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        allocate(i);
    }
    for (int i = 0; i < BLOCKS; i++) {
        warm_stream s = i % 3 == 0 ? f.brief : f.stream;

        if (f.block[i] != NULL) {
            (void)good(warm_copy_async(f.runtime, f.device + i * PART,
                                       f.block[i], PART, WARM_COPY_TO_DEVICE,
                                       s));
            (void)good(warm_record_stream(f.block[i] + 1, NULL));
        }
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        give(i);
    }
    (void)good(warm_stream_destroy(f.runtime, f.brief));
    for (int i = 1; i < BLOCKS; i += 2) {
        give(i);
    }
    (void)good(warm_poll(f.runtime));
    (void)(f.dry ||
           good(warm_pinned_prewarm(f.runtime, 1 << 20, WARM_NODE_ANY, 0)));
    for (int i = 0; i < BLOCKS; i++) {
        allocate(i);
    }
    for (int i = 0; i < BLOCKS; i++) {
        give(i);
    }
    (void)good(warm_pinned_trim(f.runtime, (size_t)3 << 19, NULL));
    (void)good(warm_pinned_empty_cache(f.runtime, NULL));
}

static void begin(uint64_t n)
{
    void *device = NULL;

    f = (struct flow){
        .pin = f.pin, .nodes = f.nodes, .chunk = f.chunk, .dry = f.dry};
    f.runtime = wt_runtime_with(.segment = 1 << 20, .pin = f.pin,
                                .numa_nodes = f.nodes, .pin_chunk = f.chunk);
    f.stream = wt_stream(f.runtime, 0);
    f.brief = wt_stream(f.runtime, 0);
    wt_ok(warm_stream_retire(f.runtime, n % 2 != 0 ? f.brief : f.stream));
    wt_ok(warm_device_alloc_uncached(f.runtime, 0, BLOCKS * PART, &device));
    f.device = device;
    wt_ok(warm_testing_fail(f.runtime, "pinned_alloc", f.dry, 1));
}

/* The fault is gone: everything must come back but what was counted lost. */
static void end(void)
{
    warm_space_stats stats;

    wt_ok(warm_testing_check(f.runtime, 1));
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    wt_ok(warm_stream_synchronize(f.runtime, NULL));
    do {
        wt_ok(warm_poll(f.runtime));
        stats = wt_pinned_stats(f.runtime);
    } while (stats.pending.current + stats.pageable_pending.current != 0);
    wt_ok(warm_pinned_empty_cache(f.runtime, NULL));
    stats = wt_pinned_stats(f.runtime);
    wt_require(stats.live.current + stats.pageable.current == 0,
               "a block is still in use");
    wt_require(stats.pageable_lost != 0 || stats.pageable_held.current == 0,
               "pageable memory is held though nothing was lost");
    wt_require(stats.lost_bytes != 0 || stats.held_bytes.current == 0,
               "%lu bytes are held though nothing was lost",
               (unsigned long)stats.held_bytes.current);
    wt_require(stats.held_bytes.current >= stats.lost_bytes &&
                   stats.held_bytes.current ==
                       stats.held_bytes.allocated - stats.held_bytes.freed,
               "the counters do not balance");
    wt_require(f.nodes > 1 || f.chunk > 0 ||
                   (stats.driver_alloc.count ==
                        wt_calls(f.runtime, "pinned_alloc") +
                            wt_calls(f.runtime, "combined_alloc") +
                            wt_calls(f.runtime, "pinned_register") &&
                    stats.driver_free.count ==
                        wt_calls(f.runtime, "pinned_free") +
                            wt_calls(f.runtime, "pinned_unregister")),
               "a call to the driver was not counted");
    wt_ok(warm_testing_check(f.runtime, 1));
    wt_ok(warm_device_free_uncached(f.runtime, 0, f.device));
    wt_runtime_end(f.runtime);
}

/* Fewer where most of what happens was seen before, on one node in page-locked
 * memory. */
static wt_flow flow_now(void)
{
    return (wt_flow){begin,      play, end,
                     &f.runtime, 400,  f.nodes > 1 || f.dry ? 3 : 1};
}

static void fail_every_call(const char *call, int persistent)
{
    wt_flow flow = flow_now();

    wt_fail_every_call(&flow, call, persistent);
}

WT_LOOP_TEST(test_B4_B12_every_driver_call_may_fail, 2 * wt_driver_calls())
{
    fail_every_call(warm_testing_call_name(_i / 2), _i % 2);
}

/* Nothing stays mapped, registered or counted. */
WT_LOOP_TEST(test_every_registration_may_fail, 4)
{
    f.pin = "register";
    fail_every_call(_i / 2 == 0 ? "pinned_register" : "pinned_unregister",
                    _i % 2);
}

/* What is done for pieces: the largest block has twelve of them. */
static const char *const piece_calls[] = {"pinned_register",
                                          "pinned_unregister", "pinned_alloc",
                                          "pinned_free", "copy"};

enum { PIECE_CALLS = sizeof piece_calls / sizeof piece_calls[0] };

/* Nothing of a request stays whose n-th piece was refused. */
WT_LOOP_TEST(test_B12_B19_every_call_for_a_piece_may_fail, 4 * PIECE_CALLS)
{
    f.pin = _i < 2 * PIECE_CALLS ? "alloc" : "register";
    f.chunk = 128 << 10;
    fail_every_call(piece_calls[_i / 2 % PIECE_CALLS], _i % 2);
}

WT_LOOP_TEST(test_B12_B19_every_record_of_a_piece_may_fail, 2)
{
    wt_flow flow;

    f.chunk = 128 << 10;
    flow = flow_now();
    wt_fail_every_record(&flow, _i % 2 != 0);
}

/* What is done for nodes, and what may meet its failure. */
static const char *const node_calls[] = {"place",           "node_of",
                                         "pinned_register", "pinned_unregister",
                                         "current_device",  "capture_mode"};

enum { NODE_CALLS = sizeof node_calls / sizeof node_calls[0] };

WT_LOOP_TEST(test_B12_B15_every_call_for_a_node_may_fail, 2 * NODE_CALLS)
{
    f.nodes = 2;
    fail_every_call(node_calls[_i / 2], _i % 2);
}

/* What a free asks of the driver, for blocks of pageable memory. */
static const char *const stream_calls[] = {
    "event_create",   "event_record",       "event_mark",
    "event_query",    "stream_info",        "capture_mode",
    "stream_capture", "stream_synchronize", "copy"};

enum { STREAM_CALLS = sizeof stream_calls / sizeof stream_calls[0] };

WT_LOOP_TEST(test_B4_B18_every_call_for_pageable_blocks_may_fail,
             2 * STREAM_CALLS)
{
    f.dry = true;
    fail_every_call(stream_calls[_i / 2], _i % 2);
}

WT_LOOP_TEST(test_B12_every_record_may_fail, 6)
{
    wt_flow flow;

    /* Once, and from then on; so on two nodes, and for pageable memory. */
    f.nodes = _i / 2 == 1 ? 2 : 1;
    f.dry = _i / 2 == 2;
    flow = flow_now();
    wt_fail_every_record(&flow, _i % 2 != 0);
}

/* A stream at work, every record and query failing from then on: the block is
 * never handed out, however often it is asked for. */
WT_LOOP_TEST(test_B4_memory_at_work_is_never_handed_out_after_a_failure, 2)
{
    static const char *const calls[] = {"event_mark",    "event_passed",
                                        "event_create",  "stream_info",
                                        "stream_passed", "capture_mode"};

    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        void *used = NULL, *other = NULL;
        wt_gate *gate;

        begin((uint64_t)_i);
        used = wt_pinned(f.runtime, 100000);
        gate = wt_gate_hold(f.runtime, f.stream);
        wt_ok(warm_record_stream(used, f.stream));
        wt_ok(warm_testing_fail(f.runtime, calls[c], 1, 1));
        wt_ok(warm_testing_fail(f.runtime, "stream_synchronize", 1, 1));
        wt_ok(warm_free(used));
        for (int i = 0; i < 20; i++) {
            (void)warm_poll(f.runtime);
            if (warm_pinned_alloc(f.runtime, 100000, &other) == WARM_OK) {
                wt_require(other != used, "%s: handed out early", calls[c]);
                wt_ok(warm_free(other));
            }
        }
        wt_ok(warm_testing_fail(f.runtime, calls[c], 0, 0));
        wt_ok(warm_testing_fail(f.runtime, "stream_synchronize", 0, 0));
        wt_gate_open(gate);
        wt_ok(warm_stream_destroy(f.runtime, f.brief));
        end();
    }
}

/* Pageable memory that there is no record for is unmapped again. */
WT_TEST(test_B12_B18_memory_without_a_record_goes_back)
{
    const size_t bytes = (size_t)1 << 30;
    unsigned failed = 0;

    for (uint64_t n = 1; n <= 12; n++) {
        warm_runtime *runtime = wt_runtime_with(.pin_chunk = 2 * bytes);
        void *pointer = NULL;
        long before;

        wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
        before = wt_address_space();
        warm_testing_fail_metadata(n, 0);
        if (warm_pinned_alloc_on(runtime, bytes, WARM_NODE_ANY,
                                 WARM_ALLOC_PAGEABLE_OK, &pointer) != WARM_OK) {
            failed++;
            warm_testing_fail_metadata(0, 0);
            ck_assert_int_lt(wt_address_space() - before, (long)(bytes / 8192));
        }
        warm_testing_fail_metadata(0, 0);
        wt_ok(warm_free(pointer));
        wt_runtime_end(runtime);
    }
    ck_assert_uint_gt(failed, 0);
}
