/* check_segments.c: memory callbacks hear of segments, which they can register
 * elsewhere: once each, before the first block and before the end (row B24). */
#include "wt.h"

#include <stdatomic.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum { MOST = 256 };

static warm_runtime *runtime;
static warm_stream stream;

/* What a NIC would have registered. */
static struct nic {
    warm_segment of[MOST];
    unsigned now, obtained, returning, released;
    uint64_t last_id, bytes;
    const char *wrong;        /* what a callback saw that must not be */
    const _Atomic bool *work; /* must be set when a segment returns */
    bool reads;               /* the memory of a segment that returns */
} nic;

static struct warm_segment *find(const void *base)
{
    for (unsigned i = 0; i < nic.now; i++) {
        if (nic.of[i].base == base) {
            return &nic.of[i];
        }
    }
    return NULL;
}

static bool overlaps_any(const warm_segment *s)
{
    const char *base = s->base;

    for (unsigned i = 0; i < nic.now; i++) {
        const char *other = nic.of[i].base;

        if (base < other + nic.of[i].bytes && other < base + s->bytes) {
            return true;
        }
    }
    return false;
}

static void note_obtained(const warm_segment *s)
{
    if (s->size != sizeof *s || s->id <= nic.last_id || overlaps_any(s) ||
        nic.now == MOST) {
        nic.wrong = "obtained";
        return;
    }
    nic.last_id = s->id;
    nic.of[nic.now++] = *s;
    nic.obtained++;
    nic.bytes += s->bytes;
}

static void note_returning(const warm_segment *s)
{
    struct warm_segment *mine = find(s->base);

    if (mine == NULL || mine->id != s->id || mine->bytes != s->bytes ||
        mine->device != s->device || mine->node != s->node) {
        nic.wrong = "returning";
        return;
    }
    if (nic.work != NULL && !*nic.work) {
        nic.wrong = "returning while work is queued";
    }
    for (size_t i = 0; nic.reads && i < s->bytes; i += 4096) {
        nic.bytes += ((volatile char *)s->base)[i] == 1; /* mapped */
    }
    nic.bytes -= s->bytes;
    nic.returning++;
    *mine = nic.of[--nic.now];
}

static void hear_segment(void *context, warm_memory_event event,
                         const warm_segment *segment)
{
    if (context != &nic) {
        nic.wrong = "context";
    } else if (event == WARM_MEMORY_OBTAINED) {
        note_obtained(segment);
    } else if (event == WARM_MEMORY_RETURNING) {
        note_returning(segment);
    } else {
        nic.wrong = "event";
    }
}

static int hear(void *context, warm_memory_event event, void *buffer,
                size_t bytes)
{
    (void)context;
    (void)bytes;
    if (event == WARM_MEMORY_RELEASED) {
        nic.released++;
        nic.wrong = find(buffer) != NULL ? "released" : nic.wrong;
    }
    return 0;
}

static void add(unsigned events)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "nic",
                                           .function = hear,
                                           .segment = hear_segment,
                                           .context = &nic,
                                           .events = events};

    wt_ok(warm_memory_callback_add(runtime, &callback));
}

enum {
    BOTH = WARM_MEMORY_OBTAINED | WARM_MEMORY_RETURNING,
    ALL = BOTH | WARM_MEMORY_RELEASED
};

static void begin(const warm_options *options)
{
    nic = (struct nic){.now = 0};
    runtime = wt_runtime(options);
    add(ALL);
    stream = wt_stream(runtime, 0);
}

static void setup(void)
{
    begin(&(warm_options){.size = sizeof(warm_options), .segment = MIB});
}

static void end(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    ck_assert_msg(nic.wrong == NULL, "%s", nic.wrong);
    ck_assert_uint_eq(nic.now, 0);
    ck_assert_uint_eq(nic.obtained, nic.returning);
    ck_assert_uint_eq(nic.bytes, 0);
}

/* ---- obtained and returned ----------------------------------------------- */

WT_CASE("segments", .setup = setup, .teardown = end);

enum { PINNED, DEVICE, SHARED, SPACES };

static char *take(int space, size_t bytes)
{
    void *block = NULL;

    switch (space) {
    case PINNED:
        return wt_pinned(runtime, bytes);
    case DEVICE:
        return wt_device(runtime, stream, bytes);
    default:
        wt_ok(warm_shared_alloc(runtime, 0, bytes, WARM_USAGE_SHARED, &block));
        return block;
    }
}

WT_LOOP_TEST(test_B24_a_segment_is_heard_of_before_its_first_block, SPACES)
{
    char *block = take(_i, 5000);
    warm_block_info info = wt_block_info(block);
    struct warm_segment *s = find(info.segment);

    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(nic.obtained, 1);
    ck_assert_uint_eq(s->id, info.segment_id);
    ck_assert_uint_eq(s->bytes, info.segment_bytes);
    ck_assert_int_eq(s->device, info.device);
    ck_assert_int_eq(s->node, info.node);
    ck_assert((char *)s->base <= block &&
              block + 5000 <= (char *)s->base + s->bytes);
    wt_free(block, take(_i, 5000)); /* of the same segment */
    ck_assert_uint_eq(nic.obtained, 1);
    ck_assert_uint_eq(nic.returning, 0);
    wt_ok(warm_trim(runtime, 0, NULL));
    ck_assert_uint_eq(nic.returning, 1);
    ck_assert_uint_eq(nic.released, 1);
}

WT_TEST(test_B24_many_segments_have_a_number_each)
{
    enum { BLOCKS = 40 };
    void *blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = take(i % SPACES, 3 * MIB + (size_t)i * 4096);
        ck_assert_ptr_nonnull(find(wt_block_info(blocks[i]).segment));
    }
    wt_free_all(blocks, BLOCKS);
    wt_ok(warm_trim(runtime, 0, NULL));
    ck_assert_uint_eq(nic.now, 0);
    ck_assert_uint_gt(nic.obtained, BLOCKS / 2);
    wt_free(take(PINNED, 5000)); /* returned when the runtime is destroyed */
}

WT_TEST(test_B24_memory_is_mapped_while_it_returns)
{
    char *block = take(PINNED, 2 * MIB);

    memset(block, 1, 2 * MIB);
    wt_free(block);
    nic.reads = true;
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(nic.returning, 1);
    ck_assert_uint_eq(nic.bytes, 2 * MIB / 4096); /* pages read */
    nic.bytes = 0;
}

/* ---- work ---------------------------------------------------------------- */

static _Atomic bool worked;

static void work(void *argument)
{
    for (int i = 0; i < 2000; i++) {
        sched_yield();
    }
    atomic_store_explicit((_Atomic bool *)argument, true, memory_order_relaxed);
}

/* A device's memory is idle as soon as it is freed, in the order of its stream,
 * which may not have come so far. */
WT_TEST(test_B24_B4_no_work_is_pending_when_a_segment_returns)
{
    char *block = take(DEVICE, 5000);

    worked = false;
    nic.work = &worked;
    wt_ok(warm_stream_host_func(runtime, stream, work, &worked));
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(nic.returning, 1);
    ck_assert(worked);
}

/* A held stream of the host device: the segment stays until it goes on. */
WT_LOOP_TEST(test_B24_C8_a_segment_waits_for_its_stream, wt_on_host())
{
    char *block = take(DEVICE, 5000);

    wt_stop(runtime, stream);
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(nic.returning, 0);
    ck_assert_uint_eq(nic.now, 1);
    wt_go(runtime, stream);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(nic.returning, 1);
}

WT_TEST(test_B24_B4_pinned_memory_at_work_does_not_return)
{
    void *block = take(PINNED, 5000);
    wt_gate *gate = wt_gate_hold(runtime, stream);

    wt_free_used(block, stream);
    if (wt_on_host()) { /* elsewhere a trim may wait for the gate */
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
    }
    ck_assert_uint_eq(nic.returning, 0);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(nic.returning, 1);
}

/* ---- what fails ---------------------------------------------------------- */

WT_TEST(test_B24_a_segment_that_the_driver_does_not_free_is_obtained_again)
{
    char *block = take(PINNED, 5000);
    uint64_t id = wt_block_info(block).segment_id;

    wt_free(block);
    wt_ok(warm_testing_fail(runtime, "pinned_free", 1, 0));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(nic.returning, 1);
    ck_assert_uint_eq(nic.obtained, 2);
    block = take(PINNED, 5000);
    ck_assert_uint_gt(wt_block_info(block).segment_id, id);
    wt_free(block);
    ck_assert_uint_eq(nic.obtained, 2);
    ck_assert_uint_eq(nic.released, 0);
}

WT_TEST(test_B24_without_memory_for_a_number_nothing_is_obtained)
{
    unsigned refused = 0;

    for (uint64_t n = 1; n < 30; n++) {
        void *block = NULL;

        warm_testing_fail_metadata(n, 1);
        refused += warm_pinned_alloc(runtime, 3 * MIB, &block) != WARM_OK;
        warm_testing_fail_metadata(0, 0);
        wt_ok(warm_free(block));
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
        ck_assert_uint_eq(nic.now, 0);
        ck_assert_uint_eq(nic.obtained, nic.returning);
    }
    ck_assert_uint_gt(refused, 0);
}

/* Inside another callback segments are heard of, too. */
static int trim_inside(void *context, warm_memory_event event, void *buffer,
                       size_t bytes)
{
    (void)event;
    (void)buffer;
    (void)bytes;
    wt_ok(warm_pinned_trim(context, 0, NULL));
    return 0;
}

WT_TEST(test_B24_F9_a_trim_in_a_callback_is_heard_of)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "trims",
                                           .function = trim_inside,
                                           .context = runtime,
                                           .events = WARM_MEMORY_FAILED};
    void *block = NULL;

    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_free(take(PINNED, 5000));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 50 * MIB, &block));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 0, 0));
    ck_assert_uint_eq(nic.returning, 1);
    ck_assert_uint_eq(nic.now, 0);
}

WT_TEST(test_B24_F9_a_callback_without_its_function_is_refused)
{
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = "half",
                                     .function = hear,
                                     .events = WARM_MEMORY_OBTAINED};

    wt_invalid(warm_memory_callback_add(runtime, &callback));
    wt_says("'half'", "OBTAINED", "segment");
    callback.function = NULL;
    callback.segment = hear_segment;
    callback.events = WARM_MEMORY_RETURNING | WARM_MEMORY_RELEASED;
    wt_invalid(warm_memory_callback_add(runtime, &callback));
    wt_says("'half'", "function is null");
    /* An older program's struct has no such field. */
    callback.function = hear;
    callback.size = offsetof(warm_memory_callback, segment);
    wt_invalid(warm_memory_callback_add(runtime, &callback));
    callback.events = WARM_MEMORY_RELEASED;
    wt_ok(warm_memory_callback_add(runtime, &callback));
}

/* ---- later --------------------------------------------------------------- */

static void begin_reserve(void)
{
    nic = (struct nic){.now = 0};
    runtime = wt_runtime_with(.segment = MIB, .reserve_bytes = MIB);
    stream = wt_stream(runtime, 0);
}

static void end_reserve(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

WT_CASE("later", .setup = begin_reserve, .teardown = end_reserve);

/* The reserve is there before any callback can be: its blocks lead to it. */
WT_TEST(test_B24_a_block_leads_to_a_segment_that_was_there_before)
{
    warm_block_info info;
    void *block;

    add(ALL);
    block = take(PINNED, 5000);
    info = wt_block_info(block);
    ck_assert_uint_eq(nic.obtained, 0);
    ck_assert_uint_ne(info.segment_id, 0);
    nic.of[nic.now++] = (warm_segment){.size = sizeof(warm_segment),
                                       .base = info.segment,
                                       .bytes = info.segment_bytes,
                                       .id = info.segment_id,
                                       .device = -1,
                                       .node = info.node};
    nic.bytes = info.segment_bytes;
    wt_free(block);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_msg(nic.wrong == NULL, "%s", nic.wrong);
    ck_assert_uint_eq(nic.returning, 1);
}

/* ---- two devices --------------------------------------------------------- */

WT_CASE("two devices");

WT_TEST(test_B24_a_segment_names_its_device)
{
    void *block[2] = {NULL};
    warm_stream on[2];

    nic = (struct nic){.now = 0};
    runtime = wt_two_devices(&(warm_options){.size = sizeof(warm_options)});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    add(ALL);
    for (int i = 0; i < 2; i++) {
        on[i] = wt_stream(runtime, i);
        wt_ok(warm_device_alloc(runtime, i, on[i], 5000, &block[i]));
        const warm_segment *s = find(wt_block_info(block[i]).segment);
        ck_assert_ptr_nonnull(s);
        ck_assert_int_eq(s->device, i);
    }
    wt_free(block[0], block[1]);
    wt_settle(runtime, on[1]);
    wt_ok(warm_device_trim(runtime, 1, 0, NULL));
    ck_assert_uint_eq(nic.returning, 1);
    ck_assert_int_eq(nic.of[0].device, 0);
    wt_stream_end(runtime, on[1]);
    stream = on[0];
    end();
}
