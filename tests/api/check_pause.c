/* check_pause.c: memory with a tag gives its pages back and keeps its
 * addresses (row C11). */
#include "wt.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;
static warm_private_pool tag;

enum { FLAGS = WARM_POOL_USER | WARM_POOL_PAUSABLE };

static void begin(size_t pin_chunk)
{
    runtime = wt_runtime_with(.host_memory = 128 * MIB, .segment = 2 * MIB,
                              .history = 512, .pin_chunk = pin_chunk);
    stream = wt_stream(runtime, 0);
    tag = (warm_private_pool){0};
    wt_ok(warm_private_pool_begin(runtime, &tag, FLAGS, NULL, NULL));
    wt_ok(warm_private_pool_end(runtime, tag));
}

static void setup(void)
{
    begin(0);
}

/* What is saved is page-locked in pieces. */
static void setup_pieces(void)
{
    begin(MIB);
}

static warm_private_pool_info info(void)
{
    warm_private_pool_info now = WARM_INIT(warm_private_pool_info);

    wt_ok(warm_private_pool_get_info(runtime, tag, &now));
    return now;
}

static uint64_t held(void)
{
    return wt_device_stats(runtime).all.held_bytes.current;
}

static uint64_t paused(void)
{
    return wt_device_stats(runtime).paused_bytes;
}

static void teardown(void)
{
    wt_ok(warm_testing_check(runtime, 0));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_private_pool_release(runtime, tag));
    wt_stream_end(runtime, stream);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(held(), 0);
    ck_assert_uint_eq(paused(), 0);
    wt_runtime_end(runtime);
}

static warm_status try_tagged(size_t bytes, void **block)
{
    warm_status status;

    wt_ok(warm_private_pool_begin(runtime, &tag, FLAGS, NULL, NULL));
    status = warm_device_alloc(runtime, 0, stream, bytes, block);
    wt_ok(warm_private_pool_end(runtime, tag));
    wt_ok(warm_private_pool_release(runtime, tag)); /* the one of the begin */
    return status;
}

static char *tagged(size_t bytes)
{
    void *block = NULL;

    wt_ok(try_tagged(bytes, &block));
    return block;
}

static void put(void *block, size_t bytes, char with)
{
    char *here = wt_pinned(runtime, bytes);

    memset(here, with, bytes);
    wt_ok(warm_copy_async(runtime, block, here, bytes, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(warm_free(here));
}

static void assert_holds(const void *block, size_t bytes, char with)
{
    char *here = wt_pinned(runtime, bytes);

    wt_ok(warm_copy_async(runtime, here, block, bytes, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    for (size_t i = 0; i < bytes; i++) {
        wt_require(here[i] == with, "byte %zu is %d, not %d", i, here[i], with);
    }
    wt_ok(warm_free(here));
}

WT_CASE("pause", .setup = setup, .also = {setup_pieces}, .teardown = teardown);

/* ---- there and back ----------------------------------------------------- */

static const size_t sizes[] = {700, 100 * KIB, 2 * MIB, 3 * MIB, 20 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

WT_TEST(test_C11_contents_and_addresses_are_there_after_the_resume)
{
    char *block[SIZES];
    uint64_t before, decommits = wt_calls(runtime, "range_decommit");

    for (int i = 0; i < (int)SIZES; i++) {
        block[i] = tagged(sizes[i]);
        put(block[i], sizes[i], (char)(i + 1)); /* the pause waits for it */
    }
    before = held();
    ck_assert_uint_ge(before, 25 * MIB);
    for (int round = 0; round < 3; round++) {
        wt_ok(warm_memory_pause(runtime, tag, 0));
        ck_assert_uint_eq(held(), 0);
        ck_assert_uint_eq(paused(), before);
        ck_assert_uint_eq(info().paused_bytes, before);
        ck_assert_uint_eq(info().held_bytes, 0);
        ck_assert_uint_eq(info().live, SIZES);
        wt_ok(warm_testing_check(runtime, 1));
        ck_assert_uint_gt(wt_calls(runtime, "range_decommit"), decommits);
        wt_ok(warm_memory_resume(runtime, tag));
        ck_assert_uint_eq(held(), before);
        ck_assert_uint_eq(paused(), 0);
        wt_ok(warm_testing_check(runtime, 1));
        for (int i = 0; i < (int)SIZES; i++) {
            assert_holds(block[i], sizes[i], (char)(i + 1));
        }
        decommits = wt_calls(runtime, "range_decommit");
    }
    wt_free_all(block, SIZES);
}

/* Nothing is copied, and no page-locked memory is needed. */
WT_TEST(test_C11_contents_can_be_dropped)
{
    char *block = tagged(8 * MIB);
    uint64_t copies;

    put(block, 8 * MIB, 3);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    copies = wt_calls(runtime, "copy");
    wt_ok(warm_memory_pause(runtime, tag, WARM_PAUSE_DROP));
    ck_assert_uint_eq(held(), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    wt_ok(warm_memory_resume(runtime, tag));
    ck_assert_uint_eq(wt_calls(runtime, "copy"), copies);
    put(block, 8 * MIB, 4);
    assert_holds(block, 8 * MIB, 4);
    wt_ok(warm_free(block));
}

/* Of 128 MiB, the host device's; the tag has 80. */
WT_TEST(test_C11_others_use_what_is_paused_and_resume_needs_it_back)
{
    char *block, *other;
    void *none = NULL;

    if (!wt_on_host()) {
        wt_skip("needs the host device"); /* the test below has a limit on every
                                             driver */
    }
    block = tagged(80 * MIB);
    put(block, 80 * MIB, 5);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, 70 * MIB, &none));
    wt_ok(warm_memory_pause(runtime, tag, 0));
    other = wt_device(runtime, stream, 70 * MIB);
    for (int i = 0; i < 2; i++) { /* it stays paused, and loses nothing */
        wt_fails(WARM_OUT_OF_MEMORY, warm_memory_resume(runtime, tag));
        ck_assert_uint_eq(info().paused_bytes, 80 * MIB);
        ck_assert_uint_eq(held(), 70 * MIB);
        wt_ok(warm_testing_check(runtime, 1));
    }
    wt_ok(warm_free(other)); /* idle: the resume returns it */
    wt_ok(warm_memory_resume(runtime, tag));
    assert_holds(block, 80 * MIB, 5);
    wt_ok(warm_free(block));
}

/* A watermark counts what is held, not what is paused. */
WT_TEST(test_C11_F7_paused_memory_makes_room_below_a_watermark)
{
    char *block = tagged(20 * MIB), *other;
    void *none = NULL;

    wt_limit(runtime, 30 * MIB);
    put(block, 20 * MIB, 6);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, 16 * MIB, &none));
    wt_ok(warm_memory_pause(runtime, tag, 0));
    other = wt_device(runtime, stream, 16 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, warm_memory_resume(runtime, tag));
    wt_says("watermark");
    ck_assert_uint_eq(paused(), 20 * MIB);
    wt_ok(warm_free(other));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_memory_resume(runtime, tag));
    assert_holds(block, 20 * MIB, 6);
    wt_ok(warm_free(block));
}

/* What is idle must not be held in place of what is paused. */
WT_TEST(test_B25_C11_paused_memory_raises_no_bound)
{
    static const size_t size[] = {1, 3, 5, 9};
    enum { NEEDED = 40, BOUND = NEEDED + NEEDED * 15 / 100 + 16 };
    void *kept = tagged(40 * MIB), *block[NEEDED];

    wt_ok(warm_memory_pause(runtime, tag, WARM_PAUSE_DROP));
    for (int i = 0; i < 4; i++) {
        size_t count = NEEDED / size[i];

        for (size_t k = 0; k < count; k++) {
            block[k] = wt_device(runtime, stream, size[i] * MIB);
        }
        wt_free_all(block, (int)count);
        ck_assert_uint_le(held(), BOUND * MIB);
    }
    wt_ok(warm_memory_resume(runtime, tag));
    wt_ok(warm_free(kept));
}

/* ---- graphs ------------------------------------------------------------- */

WT_TEST(test_C11_a_captured_graph_is_replayed_after_the_resume)
{
    char *from = tagged(3 * MIB), *to = tagged(3 * MIB);
    warm_graph graph = NULL;

    put(from, 3 * MIB, 7);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_testing_copy(runtime, to, from, 3 * MIB, stream));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_launch(runtime, graph, stream));
    assert_holds(to, 3 * MIB, 7);
    put(from, 3 * MIB, 8);
    wt_ok(warm_memory_pause(runtime, tag, 0));
    ck_assert_uint_eq(held(), 0);
    wt_ok(warm_memory_resume(runtime, tag));
    assert_holds(to, 3 * MIB, 7);
    wt_ok(warm_graph_launch(runtime, graph, stream));
    assert_holds(to, 3 * MIB, 8);
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_free(from, to);
}

WT_TEST(test_C11_nothing_is_paused_or_resumed_while_a_stream_captures)
{
    char *block = tagged(3 * MIB);
    warm_stream other = wt_stream(runtime, 0);
    uint64_t before = held();

    put(block, 3 * MIB, 9);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_capture_begin(runtime, other));
    wt_fails(WARM_CAPTURE_ERROR, warm_memory_pause(runtime, tag, 0));
    wt_says("captures");
    ck_assert_uint_eq(held(), before);
    wt_capture_drop(runtime, other);
    wt_ok(warm_memory_pause(runtime, tag, 0));
    wt_ok(warm_capture_begin(runtime, other));
    wt_fails(WARM_CAPTURE_ERROR, warm_memory_resume(runtime, tag));
    ck_assert_uint_eq(paused(), before);
    wt_capture_drop(runtime, other);
    wt_ok(warm_memory_resume(runtime, tag));
    assert_holds(block, 3 * MIB, 9);
    wt_ok(warm_free(block));
    wt_stream_end(runtime, other);
}

/* ---- while it is paused ------------------------------------------------- */

WT_TEST(test_C11_frees_and_snapshots_work_meanwhile_and_allocations_are_refused)
{
    static char text[1 << 20];
    char *kept = tagged(3 * MIB), *gone = tagged(8 * MIB), *small = tagged(700),
         *other;
    warm_device_cache cache = WARM_INIT(warm_device_cache);
    void *none = NULL, *base = NULL;
    size_t bytes = 0;
    uint64_t commits, had;

    put(kept, 3 * MIB, 10);
    wt_ok(warm_memory_pause(runtime, tag, 0));
    had = paused();
    wt_fails(WARM_UNAVAILABLE, try_tagged(100, &none));
    wt_says("paused", "warm_memory_resume()");
    wt_fails(WARM_UNAVAILABLE, try_tagged(8 * MIB, &none));
    ck_assert_ptr_null(none);
    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, NULL));
    ck_assert_uint_eq(wt_block_info(kept).bytes, 3 * MIB);
    ck_assert_uint_eq(wt_block_info(kept).pool.number, tag.number);
    wt_ok(warm_device_base_allocation(kept, &base, &bytes));
    other = wt_device(runtime, stream, MIB); /* without the tag */
    wt_ok(warm_device_cache_info(runtime, 0, &cache));
    ck_assert_uint_eq(cache.idle_bytes, MIB); /* of the other's segment */
    wt_free(gone, small);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(paused(), had);
    wt_ok(warm_testing_check(runtime, 1));
    wt_fails(WARM_UNAVAILABLE, try_tagged(8 * MIB, &none));
    /* Page-locked memory is not paused. */
    wt_ok(warm_private_pool_begin(runtime, &tag, FLAGS, NULL, NULL));
    wt_ok(warm_free(wt_pinned(runtime, 5000)));
    wt_ok(warm_private_pool_end(runtime, tag));
    wt_ok(warm_private_pool_release(runtime, tag));
    commits = wt_calls(runtime, "range_commit");
    wt_ok(warm_memory_resume(runtime, tag));
    ck_assert_uint_le(wt_calls(runtime, "range_commit") - commits, 3);
    ck_assert_uint_eq(held(), 4 * MIB + 2 * MIB); /* 8 and 2 are gone */
    ck_assert_uint_eq(paused(), 0);
    wt_ok(warm_testing_check(runtime, 1));
    assert_holds(kept, 3 * MIB, 10);
    gone = tagged(8 * MIB);
    put(gone, 8 * MIB, 11);
    assert_holds(gone, 8 * MIB, 11);
    wt_free(kept, other, gone);
}

/* Segments of the device that a callback knows, and bytes of them. */
static struct {
    struct {
        uint64_t id;
        char *base;
        size_t bytes;
    } of[64];
    unsigned count;
    size_t bytes;
    bool wrong;
} known;

static void know(const warm_segment *s)
{
    char *base = s->base;

    for (unsigned i = 0; i < known.count; i++) {
        known.wrong |= base < known.of[i].base + known.of[i].bytes &&
                       known.of[i].base < base + s->bytes;
    }
    known.wrong |= known.count == 64;
    if (known.count < 64) {
        known.of[known.count].id = s->id;
        known.of[known.count].base = base;
        known.of[known.count++].bytes = s->bytes;
        known.bytes += s->bytes;
    }
}

static void hear_segment(void *context, warm_memory_event event,
                         const warm_segment *s)
{
    unsigned i = 0;

    (void)context;
    if (s->device < 0) {
        return;
    }
    if (event == WARM_MEMORY_OBTAINED) {
        know(s);
        return;
    }
    while (i < known.count && known.of[i].id != s->id) {
        i++;
    }
    if (i == known.count || known.of[i].base != s->base ||
        known.of[i].bytes != s->bytes) {
        known.wrong = true;
        return;
    }
    known.bytes -= s->bytes;
    known.of[i] = known.of[--known.count];
}

/* Who registered a segment elsewhere knows at any time what is mapped. */
WT_TEST(test_B24_C11_callbacks_hear_of_what_is_unmapped_and_mapped)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "nic",
                                           .segment = hear_segment,
                                           .events = WARM_MEMORY_OBTAINED |
                                                     WARM_MEMORY_RETURNING};
    void *kept, *freed;

    memset(&known, 0, sizeof known);
    wt_ok(warm_memory_callback_add(runtime, &callback));
    kept = tagged(3 * MIB);
    freed = tagged(9 * MIB);
    ck_assert_uint_eq(known.bytes, held());
    wt_ok(warm_memory_pause(runtime, tag, 0));
    ck_assert_uint_eq(known.bytes, 0);
    wt_free(freed);
    wt_ok(warm_memory_resume(runtime, tag));
    ck_assert_uint_gt(known.bytes, 0);
    ck_assert_uint_eq(known.bytes, held());
    freed = tagged(9 * MIB); /* perhaps where a segment was */
    ck_assert_uint_eq(known.bytes, held());
    wt_ok(warm_testing_fail(runtime, "range_decommit", 2, 0));
    wt_fails(WARM_DRIVER_ERROR, warm_memory_pause(runtime, tag, 0));
    ck_assert_uint_eq(known.bytes, held()); /* again */
    wt_free(kept, freed);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(known.bytes, 0);
    ck_assert(!known.wrong);
}

static void announce_capture(void *context, warm_memory_event event,
                             const warm_segment *s)
{
    (void)event;
    if (s->device >= 0) {
        (void)warm_capture_announce(runtime, context);
    }
}

/* The program is told of a segment before it is unmapped, and captures then. */
WT_TEST(test_C11_a_capture_that_begins_in_a_callback_stops_the_pause)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "capture",
                                           .segment = announce_capture,
                                           .context = stream,
                                           .events = WARM_MEMORY_RETURNING};
    char *block = tagged(3 * MIB);
    uint64_t before = held();

    put(block, 3 * MIB, 10);
    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_fails(WARM_CAPTURE_ERROR, warm_memory_pause(runtime, tag, 0));
    ck_assert_uint_eq(held(), before);
    wt_ok(warm_capture_announce_end(runtime, stream));
    assert_holds(block, 3 * MIB, 10);
    wt_ok(warm_memory_callback_remove(runtime, "capture"));
    wt_free(block);
}

struct pair {
    wt_gate *gate;
    size_t released;
};

static void empty_or_open(void *argument, unsigned index)
{
    struct pair *pair = argument;
    wt_linger linger = {0};

    if (index == 0) {
        wt_ok(warm_device_trim(runtime, 0, 0, &pair->released));
        return;
    }
    while (wt_lingers(&linger)) {
    }
    wt_gate_open(pair->gate);
}

/* CUDA does not wait for work when it unmaps memory, and the host device's copy
 * into memory that has gone crashes. */
WT_TEST(test_C4_C9_C11_idle_memory_goes_back_behind_the_work_on_it)
{
    struct pair pair = {NULL, 0};
    char *block = tagged(8 * MIB);
    warm_ipc_handle handle = WARM_INIT(warm_ipc_handle);

    wt_fails(WARM_UNSUPPORTED, warm_ipc_export(block, &handle));
    wt_says("pausable pools");
    put(block, 8 * MIB, 1);
    pair.gate = wt_gate_hold(runtime, stream);
    put(block, 8 * MIB, 2);
    wt_ok(warm_free(block));
    wt_threads(2, empty_or_open, &pair);
    ck_assert_uint_eq(pair.released, 8 * MIB);
    ck_assert_uint_eq(held(), 0);
}

WT_TEST(test_C11_pending_frees_end_before_the_pause)
{
    char *block = tagged(4 * MIB);
    warm_stream other = wt_stream(runtime, 0);

    put(block, 4 * MIB, 12);
    wt_ok(warm_record_stream(block, other));
    wt_ok(warm_free(block));
    wt_ok(warm_memory_pause(runtime, tag, 0));
    wt_ok(warm_testing_check(runtime, 1));
    wt_ok(warm_memory_resume(runtime, tag));
    wt_stream_end(runtime, other);
}

/* ---- refusals ----------------------------------------------------------- */

WT_TEST(test_C11_wrong_calls_change_nothing)
{
    warm_private_pool plain = {0}, none = {999};
    char *block = tagged(MIB);

    wt_ok(warm_private_pool_begin(runtime, &plain, WARM_POOL_USER, NULL, NULL));
    wt_ok(warm_private_pool_end(runtime, plain));
    wt_fails(WARM_UNSUPPORTED, warm_memory_pause(runtime, plain, 0));
    wt_says("WARM_POOL_PAUSABLE");
    wt_invalid(warm_private_pool_begin(runtime, &plain, FLAGS, NULL, NULL));
    wt_says("cannot change");
    wt_ok(warm_private_pool_release(runtime, plain));
    wt_invalid(warm_private_pool_begin(runtime, &none, WARM_POOL_PAUSABLE, NULL,
                                       NULL));
    wt_says("WARM_POOL_USER as well");
    wt_fails(WARM_NOT_FOUND, warm_memory_pause(runtime, none, 0));
    wt_fails(WARM_NOT_FOUND, warm_memory_resume(runtime, none));
    wt_invalid(warm_memory_pause(runtime, tag, 2));
    wt_says("unknown flags 0x2");
    wt_invalid(warm_memory_pause(NULL, tag, 0));
    wt_invalid(warm_memory_resume(runtime, tag));
    wt_says("not paused");
    wt_ok(warm_memory_pause(runtime, tag, 0));
    wt_invalid(warm_memory_pause(runtime, tag, 0));
    wt_says("paused already");
    wt_invalid(warm_private_pool_release(runtime, tag));
    wt_says("paused", "last reference");
    wt_ok(warm_memory_resume(runtime, tag));
    wt_ok(warm_free(block));
}

WT_TEST(test_C11_an_empty_pool_can_be_paused)
{
    wt_ok(warm_memory_pause(runtime, tag, 0));
    ck_assert_uint_eq(paused(), 0);
    wt_ok(warm_memory_resume(runtime, tag));
}

WT_TEST(test_C11_work_that_a_test_holds_refuses_the_pause)
{
    char *block = tagged(MIB);

    put(block, MIB, 1);
    if (wt_on_host()) {
        wt_ok(warm_testing_hold(runtime, stream));
        put(block, MIB, 2);
        wt_fails(WARM_NOT_READY, warm_memory_pause(runtime, tag, 0));
        ck_assert_uint_eq(paused(), 0);
        wt_ok(warm_testing_resume(runtime, stream));
        assert_holds(block, MIB, 2);
    }
    wt_ok(warm_free(block));
}

static int pause_inside(void *context, warm_memory_event event, void *buffer,
                        size_t bytes)
{
    *(warm_status *)context = warm_memory_pause(runtime, tag, 0);
    return 0;
}

WT_TEST(test_C11_a_callback_cannot_pause)
{
    warm_status status = WARM_OK;
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = "pauses",
                                     .function = pause_inside,
                                     .context = &status,
                                     .events = WARM_MEMORY_FAILED};
    void *none = NULL;

    wt_limit(runtime, 10 * MIB);
    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_fails(WARM_OUT_OF_MEMORY, try_tagged(200 * MIB, &none));
    ck_assert_int_eq(status, WARM_INVALID_ARGUMENT);
    wt_ok(warm_memory_callback_remove(runtime, "pauses"));
}

/* ---- the end ------------------------------------------------------------ */

static void end_early(uint64_t live)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);

    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, live);
    ck_assert_uint_eq(report.pending, 0);
    setup();
}

WT_TEST(test_C11_a_runtime_can_be_destroyed_while_memory_is_paused)
{
    char *block = tagged(5 * MIB);
    long pages;

    put(block, 5 * MIB, 1);
    wt_ok(warm_memory_pause(runtime, tag, 0));
    end_early(1);
    block = tagged(5 * MIB);
    put(block, 5 * MIB, 1);
    wt_ok(warm_memory_pause(runtime, tag, 0));
    wt_ok(warm_free(block)); /* its addresses go back as well */
    pages = wt_address_space();
    end_early(0);
    if (wt_on_host()) {
        ck_assert_int_le(wt_address_space(), pages + 1024);
    }
}

/* ---- threads ------------------------------------------------------------ */

struct crowd {
    _Atomic bool stop;
    _Atomic unsigned served, refused, wrong;
};

/* Thread 0 pauses and resumes; the others allocate, with the tag and without,
 * and free. */
static void crowd_run(void *argument, unsigned index)
{
    struct crowd *crowd = argument;
    uint64_t seed = index + 1;

    if (index == 0) {
        for (unsigned i = 0; i < wt_scaled(20); i++) {
            unsigned before = crowd->served;

            while (crowd->served == before) { /* they run in between */
                sched_yield();
            }
            crowd->wrong += warm_memory_pause(runtime, tag, i % 2) != WARM_OK;
            sched_yield();
            crowd->wrong += warm_memory_resume(runtime, tag) != WARM_OK;
        }
        atomic_store(&crowd->stop, true);
        return;
    }
    while (!atomic_load(&crowd->stop)) {
        void *block = NULL;
        size_t bytes = (size_t)(wt_random(&seed) % (2 * MIB)) + 1;
        warm_status status =
            warm_device_alloc(runtime, 0, stream, bytes, &block);

        crowd->served += status == WARM_OK;
        crowd->refused += status == WARM_UNAVAILABLE;
        crowd->wrong += status != WARM_OK && status != WARM_UNAVAILABLE;
        sched_yield(); /* memcheck runs one thread at a time */
        crowd->wrong += warm_free(block) != WARM_OK;
    }
}

static int of_all(void *context, warm_stream of)
{
    return 1;
}

WT_TEST(test_C11_threads_allocate_and_free_while_others_pause)
{
    struct crowd crowd = {.stop = false};
    char *block = tagged(MIB);

    put(block, MIB, 13);
    wt_ok(warm_private_pool_begin(runtime, &tag, FLAGS, of_all, NULL));
    wt_threads(4, crowd_run, &crowd);
    wt_ok(warm_private_pool_end(runtime, tag));
    wt_ok(warm_private_pool_release(runtime, tag));
    ck_assert_uint_eq(crowd.wrong, 0);
    ck_assert_uint_gt(crowd.served, 0);
    put(block, MIB, 14);
    assert_holds(block, MIB, 14);
    wt_ok(warm_free(block));
}

/* ---- several devices ---------------------------------------------------- */

static void setup_two(void)
{
    setenv("STANDIN_DEVICES", "2", 1);
    setup();
}

WT_CASE("devices", .setup = setup_two, .teardown = teardown);

static void fill(warm_runtime *two, warm_stream on, void *block, char with)
{
    char *here = wt_pinned(two, MIB);

    memset(here, with, MIB);
    wt_ok(warm_copy_async(two, block, here, MIB, WARM_COPY_TO_DEVICE, on));
    wt_ok(warm_stream_synchronize(two, on));
    wt_ok(warm_free(here));
}

static char last_of(warm_runtime *two, warm_stream on, const char *block)
{
    char *here = wt_pinned(two, 1), last;

    wt_ok(
        warm_copy_async(two, here, block + MIB - 1, 1, WARM_COPY_TO_HOST, on));
    wt_ok(warm_stream_synchronize(two, on));
    last = *here;
    wt_ok(warm_free(here));
    return last;
}

/* Copies between devices work, whose stream they are on. */
WT_TEST(test_C11_I2_memory_of_one_device_is_copied_by_another)
{
    warm_private_pool pool = {0};
    warm_runtime *two;
    warm_stream on[2];
    char *block[2], with = 1;
    int devices = 0;

    two = wt_runtime_with(.host_devices = 2);
    wt_ok(warm_device_count(two, &devices));
    wt_ok(warm_private_pool_begin(two, &pool, FLAGS, NULL, NULL));
    for (int i = 0; i < devices && i < 2; i++) {
        on[i] = wt_stream(two, i);
        wt_ok(warm_device_alloc(two, i, on[i], MIB, (void **)&block[i]));
    }
    for (int i = 0; devices >= 2 && i < 4; i++, with++) {
        int from = i / 2, to = 1 - from, by = i % 2;

        fill(two, on[by], block[from], with);
        wt_ok(warm_testing_copy(two, block[to], block[from], MIB, on[by]));
        wt_ok(warm_stream_synchronize(two, on[by]));
        ck_assert_int_eq(last_of(two, on[by], block[to]), with);
    }
    for (int i = 0; i < devices && i < 2; i++) {
        wt_ok(warm_free(block[i]));
        wt_ok(warm_stream_destroy(two, on[i]));
    }
    wt_ok(warm_private_pool_end(two, pool));
    wt_ok(warm_private_pool_release(two, pool));
    wt_runtime_end(two);
}

/* Each device gives its pages back and gets its own contents again. */
WT_TEST(test_C11_memory_of_each_device_is_paused)
{
    warm_private_pool pool = {0};
    uint64_t before[2];
    warm_stream on[2];
    void *block[2];
    warm_runtime *two =
        wt_two_devices(&(warm_options){.size = sizeof(warm_options)});

    if (two == NULL) {
        wt_skip("needs two devices");
    }
    wt_ok(warm_private_pool_begin(two, &pool, FLAGS, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        on[i] = wt_stream(two, i);
        wt_ok(warm_device_alloc(two, i, on[i], MIB, &block[i]));
        fill(two, on[i], block[i], (char)(i + 1));
        before[i] = wt_stats_of_device(two, i).all.held_bytes.current;
        ck_assert_uint_ge(before[i], MIB);
    }
    wt_ok(warm_private_pool_end(two, pool));
    wt_ok(warm_memory_pause(two, pool, 0));
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(wt_stats_of_device(two, i).paused_bytes, before[i]);
        ck_assert_uint_eq(wt_stats_of_device(two, i).all.held_bytes.current, 0);
    }
    wt_ok(warm_memory_resume(two, pool));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(last_of(two, on[i], block[i]), i + 1);
        ck_assert_uint_eq(wt_stats_of_device(two, i).paused_bytes, 0);
        wt_ok(warm_free(block[i]));
        wt_ok(warm_stream_destroy(two, on[i]));
    }
    wt_ok(warm_private_pool_release(two, pool));
    wt_runtime_end(two);
}
