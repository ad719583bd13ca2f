/* check_free_deferred.c: frees that wait for all that was queued, and what
 * programs ask that know CUDA's functions alone (row H1). */
/* memcheck: one process */
#include "wt.h"

#include <stdint.h>
#include <sys/mman.h>

enum { BYTES = 100000 };

static warm_runtime *runtime;
static warm_stream one, two;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    one = wt_stream(runtime, 0);
    two = wt_stream(runtime, 0);
}

static void teardown(void)
{
    wt_stream_end(runtime, one);
    wt_stream_end(runtime, two);
    wt_runtime_end(runtime);
}

static void *again(bool of_device)
{
    return of_device ? wt_device(runtime, one, BYTES)
                     : wt_pinned(runtime, BYTES);
}

/* Whether the block is the next one of its size. */
static bool is_next(bool of_device, const void *block)
{
    void *next = again(of_device);
    bool same = next == block;

    wt_ok(warm_free(next));
    return same;
}

/* The memory comes back once the stream has run; polls until then. */
static void await_block(bool of_device, void *block)
{
    void *other[64];
    unsigned count = 0;

    while (count < 64 && (other[count] = again(of_device)) != block) {
        wt_ok(warm_poll(runtime));
        count++;
    }
    ck_assert_uint_lt(count, 64);
    wt_ok(warm_free(block));
    wt_free_all(other, count);
}

WT_CASE("deferred", .setup = setup, .teardown = teardown);

/* Nobody said that the streams use the block. The device's block is of the
 * order of stream one. */
WT_LOOP_TEST(test_H1_a_deferred_free_waits_for_streams_that_were_not_recorded,
             4)
{
    bool of_device = _i % 2 != 0;
    warm_stream busy = _i / 2 == 0 ? two : WARM_STREAM_LEGACY;
    void *block = again(of_device), *plain = again(of_device);
    wt_gate *gate = wt_gate_hold(runtime, busy);

    wt_ok(warm_free(plain));
    ck_assert(is_next(of_device, plain));
    plain = again(of_device);
    wt_ok(warm_free_deferred(block));
    ck_assert(!is_next(of_device, block));
    wt_ok(warm_poll(runtime));
    ck_assert(!is_next(of_device, block));
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, busy));
    wt_ok(warm_poll(runtime));
    await_block(of_device, block);
    wt_ok(warm_free(plain));
}

/* Memory of any host device waits for the default stream, which all of them
 * share. */
WT_TEST(test_H1_I1_a_deferred_free_waits_for_the_default_stream_of_its_device)
{
    warm_options options = {.size = sizeof options};
    warm_runtime *all;
    warm_stream on;
    void *block, *next;
    wt_gate *gate;

    if (!wt_on_host()) {
        wt_skip("needs one default stream of all devices");
    }
    all = wt_two_devices(&options);
    on = wt_stream(all, 1);
    wt_ok(warm_device_alloc(all, 1, on, BYTES, &block));
    gate = wt_gate_hold(all, WARM_STREAM_LEGACY);
    wt_ok(warm_free_deferred(block));
    wt_ok(warm_stream_synchronize(all, on));
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_poll(all));
        wt_ok(warm_device_alloc(all, 1, on, BYTES, &next));
        ck_assert_ptr_ne(next, block);
        wt_ok(warm_free(next));
    }
    wt_gate_open(gate);
    wt_ok(warm_stream_destroy(all, on));
    wt_runtime_end(all);
}

/* How a program gets an adopted stream. */
static warm_status get_stream(warm_runtime *fresh, bool pooled,
                              warm_stream *stream)
{
    return pooled ? warm_stream_reserve(fresh, 0, stream)
                  : warm_stream_create(fresh, 0, stream);
}

/* A new runtime, since the first stream of one needs the most. */
static warm_status get_after_fault(bool pooled, const char *call, uint64_t n)
{
    warm_runtime *fresh = wt_runtime(NULL);
    warm_stream stream = NULL;
    warm_status status;

    if (call != NULL) {
        wt_ok(warm_testing_fail(fresh, call, n, 0));
    } else {
        warm_testing_fail_metadata(n, 0);
    }
    status = get_stream(fresh, pooled, &stream);
    warm_testing_fail_metadata(0, 0);
    ck_assert_int_eq(stream != NULL, status == WARM_OK);
    if (call != NULL) {
        ck_assert_uint_eq(wt_calls(fresh, "stream_destroy"), 1);
    }
    if (status == WARM_OK) {
        void *block = wt_pinned(fresh, BYTES), *next;
        wt_gate *gate = wt_gate_hold(fresh, stream);

        wt_ok(warm_free_deferred(block));
        wt_ok(warm_stream_synchronize(fresh, WARM_STREAM_LEGACY));
        wt_ok(warm_poll(fresh));
        next = wt_pinned(fresh, BYTES);
        ck_assert_ptr_ne(next, block);
        wt_gate_open(gate);
        wt_ok(warm_stream_synchronize(fresh, stream));
        wt_free(next);
    }
    if (status == WARM_OK && !pooled) {
        wt_stream_end(fresh, stream);
    }
    wt_ok(warm_testing_check(fresh, 1));
    wt_runtime_end(fresh);
    return status;
}

/* A free would not wait for a stream that is not adopted. */
WT_LOOP_TEST(test_H1_B6_a_stream_is_adopted_or_not_created, 2)
{
    enum { MOST = 30 };
    unsigned failures = 0;

    /* Which allocations are of the adoption is not known; some are. */
    for (uint64_t n = 1; n <= MOST; n++) {
        failures += get_after_fault(_i != 0, NULL, n) != WARM_OK;
    }
    ck_assert_uint_gt(failures, 0);
    ck_assert_int_eq(get_after_fault(_i != 0, "stream_info", 1),
                     WARM_DRIVER_ERROR);
}

/* Work that is queued after the free does not delay it. */
WT_TEST(test_H1_a_deferred_free_does_not_wait_for_later_work)
{
    void *block = wt_pinned(runtime, BYTES);
    wt_gate *gate;

    wt_ok(warm_free_deferred(block));
    /* So that the event is not behind the gate. */
    wt_ok(warm_poll(runtime));
    gate = wt_gate_hold(runtime, two);
    await_block(false, block);
    wt_gate_open(gate);
}

/* A capture that is under way does not use the block, but it must be over. */
WT_LOOP_TEST(test_H1_a_deferred_free_beside_a_capture_waits_for_its_end, 2)
{
    bool of_device = _i != 0;
    void *block = again(of_device);

    wt_ok(warm_capture_begin(runtime, two));
    wt_ok(warm_free_deferred(block));
    ck_assert(!is_next(of_device, block));
    wt_ok(warm_poll(runtime));
    ck_assert(!is_next(of_device, block));
    wt_capture_drop(runtime, two);
    wt_ok(warm_stream_synchronize(runtime, two));
    await_block(of_device, block);
    if (of_device) {
        ck_assert_uint_eq(wt_device_stats(runtime).captured, 0);
    } else {
        ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 0);
    }
}

/* Out of memory for the records: the block is live, and can be freed. */
WT_LOOP_TEST(test_H1_a_deferred_free_that_fails_leaves_the_block_live, 2)
{
    warm_status status = WARM_OUT_OF_MEMORY;
    unsigned failures = 0;

    for (uint64_t n = 1; status != WARM_OK; n++) {
        void *block = again(_i != 0);

        warm_testing_fail_metadata(n, 0);
        status = warm_free_deferred(block);
        warm_testing_fail_metadata(0, 0);
        ck_assert_int_eq(warm_owns(block), status != WARM_OK);
        if (status != WARM_OK) {
            ck_assert_int_eq(status, WARM_OUT_OF_MEMORY);
            failures++;
            wt_ok(warm_free_deferred(block));
        }
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_gt(failures, 0);
}

WT_TEST(test_H1_owns_knows_live_blocks_alone)
{
    char *block = wt_pinned(runtime, BYTES);
    char *device = wt_device(runtime, one, BYTES);
    char outside;

    ck_assert_int_eq(warm_owns(block), 1);
    ck_assert_int_eq(warm_owns(block + BYTES - 1), 1);
    ck_assert_int_eq(warm_owns(block + wt_block_info(block).bytes), 0);
    ck_assert_int_eq(warm_owns(device), 1);
    ck_assert_int_eq(warm_owns(device + BYTES - 1), 1);
    ck_assert_int_eq(warm_holds(block), 1);
    ck_assert_int_eq(warm_holds(device + BYTES - 1), 1);
    ck_assert_int_eq(warm_holds(NULL), 0);
    ck_assert_int_eq(warm_holds(&outside), 0);
    ck_assert_int_eq(warm_holds((void *)UINTPTR_MAX), 0);
    ck_assert_int_eq(warm_owns(NULL), 0);
    ck_assert_int_eq(warm_owns(&outside), 0);
    ck_assert_int_eq(warm_owns((void *)1), 0);
    ck_assert_int_eq(warm_owns((void *)UINTPTR_MAX), 0);
    ck_assert_int_eq(warm_owns((void *)((uintptr_t)1 << 48)), 0);
    wt_fails(WARM_INVALID_POINTER, warm_free(&outside));
    ck_assert_int_eq(warm_owns(&outside), 0);
    wt_says("was not allocated by warmpool"); /* the error stays */
    wt_free(block, device);
    ck_assert_int_eq(warm_owns(block), 0);
    ck_assert_int_eq(warm_owns(device), 0);
}

/* What lies beside a segment may be CUDA's, in the same 2 MiB. */
WT_TEST(test_H1_holds_ends_where_the_segment_does)
{
    enum { MIB = 1 << 20, HALF = MIB / 2 };
    char *mapped = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *base = mapped + (-(uintptr_t)mapped & (2 * MIB - 1)) + HALF;

    ck_assert(mapped != MAP_FAILED);
    wt_ok(warm_pinned_adopt(runtime, base, HALF, 0));
    ck_assert_int_eq(warm_holds(base - 1), 0);
    ck_assert_int_eq(warm_holds(base), 1);
    ck_assert_int_eq(warm_holds(base + HALF - 1), 1);
    ck_assert_int_eq(warm_holds(base + HALF), 0);
    ck_assert_int_eq(warm_holds(base + MIB), 0);
    wt_ok(warm_pinned_adopt_end(runtime, base, NULL, NULL));
    ck_assert_int_eq(warm_holds(base), 0);
    ck_assert_int_eq(munmap(mapped, 4 * MIB), 0);
}

enum { ROUNDS = 20, SPAN = 1 << 21, STEP = 512 };

static char *asked;
static unsigned owned;

/* One thread asks of all addresses around a block, others allocate there. */
static void ask_or_allocate(void *statuses, unsigned index)
{
    for (size_t at = 0; index == 0 && at < ROUNDS * SPAN; at += STEP) {
        bool is_owned = warm_owns(asked + at % SPAN) != 0;

        owned += is_owned && at % SPAN < BYTES;
    }
    for (size_t i = 0; index > 0 && i < 100 * ROUNDS; i++) {
        void *block = NULL;
        warm_status *status = (warm_status *)statuses + index;

        if (*status == WARM_OK) {
            /* Beside whose blocks memory is split and merged each time. */
            *status = warm_pinned_alloc_aligned(runtime, BYTES + i * index,
                                                1 << 16, 0, &block);
        }
        if (*status == WARM_OK) {
            *status = warm_free(block);
        }
    }
}

/* ThreadSanitizer alone sees what lies behind the block. */
WT_TEST(test_H1_any_thread_may_ask_of_any_address)
{
    warm_status statuses[3] = {WARM_OK};

    owned = 0;
    asked = wt_pinned(runtime, BYTES);
    wt_threads(3, ask_or_allocate, statuses);
    wt_ok(statuses[1]);
    wt_ok(statuses[2]);
    ck_assert_uint_eq(owned, ROUNDS * ((BYTES + STEP - 1) / STEP));
    wt_free(asked);
}

WT_TEST(test_H1_the_current_device_is_told)
{
    int device = 7;

    wt_ok(warm_device_current(runtime, &device));
    ck_assert_int_eq(device, 0);
    wt_invalid(warm_device_current(runtime, NULL));
    wt_invalid(warm_device_current(NULL, &device));
}
