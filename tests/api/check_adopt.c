/* check_adopt.c: memory that the program has mapped is adopted, used as it is
 * or served as blocks, and given up (row B23). */
#include "wt.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { PIECES = 5 };
/* Whole pages of any machine. */
#define PAGE ((size_t)64 << 10)

static warm_runtime *runtime;
static warm_stream stream;
static char *memory; /* of the program: PIECES and a half, of 1 MiB */
static size_t bytes;

static char *map(size_t size, int access, int flags)
{
    void *base = mmap(NULL, size, access, flags | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(base, MAP_FAILED);
    return base;
}

static void setup(void)
{
    runtime =
        wt_runtime_with(.segment = MIB, .pin_chunk = MIB, .limit_wait_ms = 1);
    stream = wt_stream(runtime, 0);
    bytes = PIECES * MIB + MIB / 2;
    memory = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static void teardown(void)
{
    wt_ok(warm_testing_check(runtime, 1));
    ck_assert_uint_eq(wt_pinned_stats(runtime).adopted_held.current, 0);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    munmap(memory, bytes);
}

static warm_status adopt(unsigned flags)
{
    return warm_pinned_adopt(runtime, memory, bytes, flags);
}

static warm_status give_up(void)
{
    return warm_pinned_adopt_end(runtime, memory, NULL, NULL);
}

static uint64_t held(void)
{
    return wt_pinned_stats(runtime).adopted_held.current;
}

static bool is_inside(const void *pointer)
{
    return (const char *)pointer >= memory &&
           (const char *)pointer < memory + bytes;
}

static _Atomic unsigned dones;

static void note_done(void *context)
{
    atomic_fetch_add_explicit((_Atomic unsigned *)context, 1,
                              memory_order_relaxed);
}

/* ---- as it is ------------------------------------------------------------ */

WT_CASE("as it is", .setup = setup, .teardown = teardown);

WT_TEST(test_B23_adopted_memory_is_found_copied_and_given_up)
{
    void *device = wt_device(runtime, stream, bytes);
    warm_block_info info;

    memset(memory, 7, bytes);
    wt_ok(adopt(0));
    info = wt_block_info(memory + bytes - 1);
    ck_assert_ptr_eq(info.base, memory);
    ck_assert_uint_eq(info.bytes, bytes);
    ck_assert_uint_eq(info.requested, bytes);
    ck_assert_int_eq(info.pageable, 0);
    ck_assert_int_eq(info.device, -1);
    ck_assert_int_eq(info.node, 0);
    ck_assert_uint_ne(info.segment_id, 0);
    ck_assert_uint_eq(held(), bytes);
    ck_assert_uint_eq(wt_pinned_stats(runtime).adopted.current, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    for (size_t at = 0; at < bytes; at += MIB / 2) {
        wt_ok(warm_copy_async(runtime, (char *)device + at, memory + at,
                              MIB / 2, WARM_COPY_TO_DEVICE, stream));
    }
    ck_assert_uint_eq(wt_block_info(memory).streams, 1);
    wt_ok(warm_stream_synchronize(runtime, stream));
    memset(memory, 8, bytes);
    wt_ok(warm_copy_async(runtime, memory + 100, (char *)device + 100, 1000,
                          WARM_COPY_TO_HOST, stream));
    wt_ok(give_up()); /* waits for the copy */
    ck_assert_int_eq(memory[99], 8);
    ck_assert_int_eq(memory[100], 7);
    ck_assert_int_eq(memory[1099], 7);
    ck_assert_int_eq(memory[1100], 8);
    wt_fails(WARM_NOT_FOUND, warm_record_stream(memory, stream));
    ck_assert_uint_eq(held(), 0);
    wt_free(device);
}

WT_TEST(test_B19_B23_memory_is_locked_and_unlocked_in_pieces)
{
    wt_ok(adopt(0));
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), PIECES + 1);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_alloc"), 0);
    wt_ok(give_up());
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), PIECES + 1);
    wt_ok(adopt(WARM_ADOPT_SERVE));
    wt_ok(give_up());
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), 2 * PIECES + 2);
}

/* A program that copies itself is told where it may not copy across. */
WT_TEST(test_B19_B23_a_block_tells_the_pieces_of_adopted_memory)
{
    void *base;
    size_t size;

    wt_ok(adopt(0));
    ck_assert_uint_eq(wt_block_info(memory).pieces, PIECES + 1);
    for (size_t i = 0; i <= PIECES; i++) {
        wt_ok(warm_block_get_piece(memory + 2 * MIB, i, &base, &size));
        ck_assert_ptr_eq(base, memory + i * MIB);
        ck_assert_uint_eq(size, i < PIECES ? MIB : MIB / 2);
    }
    wt_invalid(warm_block_get_piece(memory, PIECES + 1, &base, &size));
    wt_ok(give_up());
}

/* No call copies from two registrations, or to two. */
WT_TEST(test_B16_B19_B23_copies_are_split_between_pieces)
{
    static const struct {
        size_t from, length;
        unsigned calls;
    } copies[] = {{0, PIECES * MIB + MIB / 2, PIECES + 1},
                  {0, MIB, 1},
                  {1, MIB, 2},
                  {MIB - 1, 2, 2},
                  {MIB / 2, 2 * MIB, 3},
                  {2 * MIB, 1, 1}};
    char *device = wt_device(runtime, stream, bytes), *copy;

    copy = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (size_t i = 0; i < bytes; i++) {
        memory[i] = (char)(i >> 9 ^ i);
    }
    wt_ok(adopt(0));
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        size_t from = copies[i].from, length = copies[i].length;
        uint64_t calls = wt_calls(runtime, "copy");

        wt_ok(warm_copy_async(runtime, device, memory + from, length,
                              WARM_COPY_TO_DEVICE, stream));
        ck_assert_uint_eq(wt_calls(runtime, "copy") - calls, copies[i].calls);
        wt_ok(warm_copy_async(runtime, copy, device, length, WARM_COPY_TO_HOST,
                              stream));
        ck_assert_uint_eq(wt_calls(runtime, "copy") - calls,
                          copies[i].calls + 1);
        wt_ok(warm_stream_synchronize(runtime, stream));
        ck_assert_int_eq(memcmp(copy, memory + from, length), 0);
        memset(memory + from, 0, length);
        wt_ok(warm_copy_async(runtime, memory + from, device, length,
                              WARM_COPY_TO_HOST, stream));
        ck_assert_uint_eq(wt_calls(runtime, "copy") - calls,
                          2 * copies[i].calls + 1);
        wt_ok(warm_stream_synchronize(runtime, stream));
        ck_assert_int_eq(memcmp(copy, memory + from, length), 0);
    }
    munmap(copy, bytes);
    wt_free(device);
    wt_ok(give_up());
}

/* The smallest: a page, which is no size of a block. */
/* Two arrays over one buffer: the second is refused, whatever part it is, and
 * cannot end what the first has. A buffer that was unmapped meanwhile is found
 * out when something else lies there. */
WT_TEST(test_B23_memory_is_adopted_once)
{
    wt_ok(warm_pinned_adopt(runtime, memory, 2 * MIB, 0));
    wt_invalid(warm_pinned_adopt(runtime, memory, 2 * MIB, 0));
    wt_invalid(warm_pinned_adopt(runtime, memory + MIB, MIB, 0));
    wt_invalid(warm_pinned_adopt(runtime, memory + MIB, 2 * MIB, 0));
    wt_invalid(warm_pinned_adopt(runtime, memory, 4 * MIB, 0));
    wt_says("a runtime has some of the memory already");
    wt_fails(WARM_INVALID_POINTER,
             warm_pinned_adopt_end(runtime, memory + MIB, NULL, NULL));
    ck_assert_uint_eq(held(), 2 * MIB);
    ck_assert_int_eq(munmap(memory, bytes), 0);
    ck_assert_ptr_eq(mmap(memory, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     memory);
    wt_invalid(adopt(0));
    wt_ok(give_up());
    wt_ok(adopt(0));
    wt_ok(give_up());
}

WT_TEST(test_B23_any_number_of_pages_will_do)
{
    static const unsigned pages[] = {1, 2, 3, 17, 33, 63};

    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        size_t size = pages[i] * (size_t)PAGE;

        wt_ok(warm_pinned_adopt(runtime, memory + PAGE, size, 0));
        ck_assert_uint_eq(wt_block_info(memory + PAGE).bytes, size);
        wt_fails(WARM_NOT_FOUND, warm_record_stream(memory, stream));
        wt_fails(WARM_NOT_FOUND,
                 warm_record_stream(memory + PAGE + size, stream));
        wt_ok(warm_testing_check(runtime, 1));
        wt_ok(warm_pinned_adopt_end(runtime, memory + PAGE, NULL, NULL));
        wt_ok(
            warm_pinned_adopt(runtime, memory + PAGE, size, WARM_ADOPT_SERVE));
        wt_ok(warm_pinned_adopt_end(runtime, memory + PAGE, NULL, NULL));
    }
}

WT_TEST(test_B23_C10_adopted_memory_is_not_freed)
{
    wt_ok(adopt(0));
    wt_fails(WARM_INVALID_POINTER, warm_free(memory));
    wt_says("warm_pinned_adopt_end()");
    wt_fails(WARM_INVALID_POINTER, warm_free(memory + PAGE));
    wt_fails(WARM_INVALID_POINTER,
             warm_pinned_adopt_end(runtime, memory + PAGE, NULL, NULL));
    wt_ok(give_up());
    wt_fails(WARM_INVALID_POINTER, give_up());
    wt_fails(WARM_INVALID_POINTER, warm_free(memory));
}

WT_TEST(test_B11_B23_no_trim_returns_adopted_memory)
{
    wt_ok(adopt(WARM_ADOPT_SERVE));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_ok(warm_trim(runtime, 0, NULL));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(held(), bytes);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), 0);
    wt_ok(give_up());
}

/* ---- served -------------------------------------------------------------- */

WT_CASE("served", .setup = setup, .teardown = teardown);

static const size_t sizes[] = {1, 700, 6000, 40000, 300000, MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

WT_LOOP_TEST(test_B23_requests_are_served_from_adopted_memory, SIZES)
{
    enum { BLOCKS = 3 };
    char *blocks[BLOCKS];

    wt_ok(adopt(WARM_ADOPT_SERVE));
    ck_assert_uint_eq(wt_pinned_stats(runtime).adopted.current, 0);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = wt_pinned(runtime, sizes[_i]);
            ck_assert(is_inside(blocks[i]));
            memset(blocks[i], i, sizes[_i]);
            /* Never in two registrations. */
            ck_assert_uint_eq((size_t)(blocks[i] - memory) / MIB,
                              (size_t)(blocks[i] + sizes[_i] - 1 - memory) /
                                  MIB);
            wt_ok(warm_record_stream(blocks[i] + sizes[_i] / 2, stream));
        }
        for (int i = 0; i < BLOCKS; i++) {
            ck_assert_int_eq(blocks[i][sizes[_i] - 1], i);
        }
        ck_assert_uint_eq(wt_pinned_stats(runtime).adopted.current, BLOCKS);
        wt_free_all(blocks, BLOCKS);
        wt_settle(runtime, stream);
        ck_assert_uint_eq(wt_pinned_stats(runtime).adopted.current, 0);
    }
    ck_assert_uint_eq(wt_calls(runtime, "pinned_alloc"), 0);
    wt_ok(give_up());
}

WT_TEST(test_B23_what_does_not_fit_comes_from_the_driver)
{
    void *blocks[PIECES + 1], *more;

    wt_ok(adopt(WARM_ADOPT_SERVE));
    more = wt_pinned(runtime, 2 * MIB); /* more than a piece */
    ck_assert(!is_inside(more));
    wt_free(more);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    for (int i = 0; i < PIECES; i++) {
        blocks[i] = wt_pinned(runtime, MIB);
        ck_assert(is_inside(blocks[i]));
    }
    blocks[PIECES] = wt_pinned(runtime, MIB); /* there is only half of one */
    ck_assert(!is_inside(blocks[PIECES]));
    wt_free_all(blocks, PIECES + 1);
    wt_ok(give_up());
}

WT_TEST(test_B23_live_blocks_keep_it_and_it_serves_on)
{
    void *block, *other;

    wt_ok(adopt(WARM_ADOPT_SERVE));
    block = wt_pinned(runtime, 6000);
    wt_fails(WARM_NOT_READY, give_up());
    wt_says("the memory adopted at", "has 1 live block: free all first");
    ck_assert_uint_eq(held(), bytes);
    other = wt_pinned(runtime, MIB);
    ck_assert(is_inside(other));
    wt_free(block, other);
    wt_ok(give_up());
}

/* With done, the last free brings it back, and nothing more is served. */
WT_TEST(test_B23_done_comes_after_the_last_block)
{
    void *blocks[2], *other;

    dones = 0;
    wt_ok(adopt(WARM_ADOPT_SERVE));
    blocks[0] = wt_pinned(runtime, 6000);
    blocks[1] = wt_pinned(runtime, MIB);
    wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    ck_assert_uint_eq(dones, 0);
    other = wt_pinned(runtime, 6000);
    ck_assert(!is_inside(other));
    ck_assert_uint_eq(held(), bytes);
    wt_fails(WARM_INVALID_POINTER,
             warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    /* A wait for what this thread itself has would never end. */
    wt_fails(WARM_NOT_READY,
             warm_pinned_adopt_end(runtime, memory, NULL, NULL));
    wt_ok(warm_free(blocks[0]));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 0);
    wt_free_used(blocks[1], stream);
    wt_settle(runtime, stream);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 1);
    ck_assert_uint_eq(held(), 0);
    wt_ok(warm_free(other));
    wt_ok(adopt(WARM_ADOPT_SERVE)); /* the program may do so again */
    wt_ok(give_up());
    ck_assert_uint_eq(dones, 1);
}

/* ---- work ---------------------------------------------------------------- */

WT_CASE("work", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B4_B23_pending_work_puts_done_off, 2)
{
    unsigned flags = _i == 0 ? 0 : WARM_ADOPT_SERVE;
    wt_gate *gate;
    void *block;

    dones = 0;
    wt_ok(adopt(flags));
    block = _i == 0 ? memory : wt_pinned(runtime, 6000);
    gate = wt_gate_hold(runtime, stream);
    wt_ok(warm_record_stream(block, stream));
    if (_i == 1) {
        wt_ok(warm_free(block));
    }
    wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).adopted_pending.current, 1);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 1);
}

static _Atomic bool returned;

static void *give_up_and_wait(void *argument)
{
    *(warm_status *)argument = give_up();
    atomic_store_explicit(&returned, true, memory_order_relaxed);
    return NULL;
}

WT_TEST(test_B4_B23_giving_up_waits_for_the_streams)
{
    wt_linger linger = {0};
    warm_status status = WARM_NOT_FOUND;
    pthread_t thread;
    wt_gate *gate;

    wt_ok(adopt(0));
    gate = wt_gate_hold(runtime, stream);
    wt_ok(warm_record_stream(memory + MIB, stream));
    returned = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, give_up_and_wait, &status),
                     0);
    while (wt_lingers(&linger)) {
        ck_assert(!returned);
    }
    wt_gate_open(gate);
    pthread_join(thread, NULL);
    ck_assert_int_eq(status, WARM_OK);
}

WT_LOOP_TEST(test_B7_B23_a_capture_puts_giving_up_off, 2)
{
    warm_stream captured = wt_stream(runtime, 0);

    dones = 0;
    wt_ok(warm_capture_begin(runtime, captured));
    wt_ok(adopt(_i == 0 ? 0 : WARM_ADOPT_SERVE));
    wt_fails(WARM_CAPTURE_ERROR, give_up());
    wt_says("captures");
    ck_assert_uint_eq(held(), bytes);
    wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 0);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), 0);
    wt_capture_drop(runtime, captured);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 1);
    wt_stream_end(runtime, captured);
}

/* The program says that the graph is not launched any more. */
WT_TEST(test_E4_B23_memory_that_a_graph_used_is_given_up)
{
    warm_stream captured = wt_stream(runtime, 0);

    wt_ok(adopt(0));
    wt_ok(warm_capture_begin(runtime, captured));
    wt_ok(warm_record_stream(memory, captured));
    wt_capture_drop(runtime, captured);
    wt_ok(give_up());
    wt_stream_end(runtime, captured);
}

/* ---- refusals ------------------------------------------------------------ */

static void setup_refusals(void)
{
    setup();
    ck_assert_int_eq(mprotect(memory + 2 * MIB, PAGE, PROT_NONE), 0);
    ck_assert_int_eq(mprotect(memory + 3 * MIB, PAGE, PROT_READ), 0);
    ck_assert_int_eq(munmap(memory + 4 * MIB, PAGE), 0);
}

WT_CASE("refusals", .setup = setup_refusals, .teardown = teardown);

static const struct {
    size_t offset, bytes;
    unsigned flags;
    const char *says;
} refused[] = {
    {1, MIB, 0, "whole pages"},
    {0, MIB + 1, 0, "whole pages"},
    {0, 0, 0, "whole pages"},
    {0, MIB, 0x80, "0x80"},
    {0, MIB, WARM_ADOPT_SERVE | WARM_ADOPT_READ_ONLY, "READ_ONLY"},
    {0, (size_t)1 << 60, 0, "any machine"},
    {PAGE, SIZE_MAX / PAGE *PAGE, 0, "any machine"},
    {MIB, 2 * MIB, 0, "without read access"},
    {MIB, 2 * MIB, WARM_ADOPT_READ_ONLY, "without read access"},
    {3 * MIB - PAGE, 2 * PAGE, 0, "WARM_ADOPT_READ_ONLY"},
    {3 * MIB - PAGE, 2 * PAGE, WARM_ADOPT_SERVE, "WARM_ADOPT_READ_ONLY"},
    {3 * MIB + PAGE, MIB, 0, "nothing is mapped"},
    {4 * MIB, MIB, 0, "nothing is mapped"},
};

WT_LOOP_TEST(test_B23_what_cannot_be_adopted_is_named,
             sizeof refused / sizeof refused[0])
{
    uint64_t calls = wt_calls(runtime, "pinned_register");

    wt_invalid(warm_pinned_adopt(runtime, memory + refused[_i].offset,
                                 refused[_i].bytes, refused[_i].flags));
    wt_says(refused[_i].says);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), calls);
    wt_invalid(warm_pinned_adopt(runtime, NULL, MIB, 0));
    wt_invalid(warm_pinned_adopt(NULL, memory, MIB, 0));
    wt_invalid(warm_pinned_adopt_end(NULL, memory, NULL, NULL));
    wt_fails(WARM_INVALID_POINTER,
             warm_pinned_adopt_end(runtime, NULL, NULL, NULL));
}

/* Wherever the other range begins and ends; the memory begins in the middle of
 * what the page map has one entry for. */
WT_TEST(test_B23_memory_that_a_runtime_has_is_refused)
{
    static const long from[] = {-(long)PAGE, 0, PAGE, MIB / 2, MIB - PAGE};
    warm_runtime *other = wt_runtime(NULL);
    char *block = wt_pinned(runtime, 8 * PAGE), *part;

    munmap(memory, bytes);
    memory = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    part = memory + 2 * MIB - (uintptr_t)memory % (2 * MIB) + MIB / 4;
    for (unsigned serves = 0; serves <= WARM_ADOPT_SERVE; serves++) {
        wt_ok(warm_pinned_adopt(runtime, part, MIB, serves));
        for (int i = 0; i < 5; i++) {
            for (unsigned flags = 0; flags <= WARM_ADOPT_SERVE; flags++) {
                wt_invalid(warm_pinned_adopt(runtime, part + from[i], 2 * PAGE,
                                             flags));
                wt_says("has some of the memory already");
                wt_invalid(warm_pinned_adopt(other, part + from[i], MIB + PAGE,
                                             flags));
                wt_says("has some of the memory already");
            }
        }
        ck_assert_uint_eq(held(), MIB);
        wt_ok(warm_pinned_adopt(other, part - PAGE, PAGE, 0)); /* beside it */
        wt_ok(warm_pinned_adopt(other, part + MIB, PAGE, 0));
        wt_ok(warm_pinned_adopt_end(other, part - PAGE, NULL, NULL));
        wt_ok(warm_pinned_adopt_end(other, part + MIB, NULL, NULL));
        wt_ok(warm_pinned_adopt_end(runtime, part, NULL, NULL));
    }
    part = block + (-(uintptr_t)block & (PAGE - 1));
    wt_invalid(warm_pinned_adopt(other, part, 2 * PAGE, 0));
    wt_says("has some of the memory already");
    wt_ok(warm_free(block));
    wt_runtime_end(other);
}

/* ---- failures ------------------------------------------------------------ */

WT_CASE("failures", .setup = setup, .teardown = teardown);

/* Else the call would wait for the end of a capture that may never have begun.
 */
WT_TEST(test_B23_T2_giving_up_fails_if_the_driver_knows_no_captures)
{
    wt_ok(adopt(0));
    wt_ok(warm_testing_fail(runtime, "stream_capture", 1, 1));
    wt_fails(WARM_DRIVER_ERROR, give_up());
    wt_says("cannot report whether a stream captures", "stream_capture");
    wt_ok(warm_testing_fail(runtime, "stream_capture", 0, 0));
    wt_ok(give_up());
}

WT_LOOP_TEST(test_B23_B20_the_nth_piece_is_refused_and_all_goes_back,
             2 * (PIECES + 1))
{
    unsigned n = (unsigned)_i / 2 + 1;
    unsigned flags = _i % 2 == 0 ? 0 : WARM_ADOPT_SERVE;

    wt_ok(warm_testing_fail(runtime, "pinned_register", n, 0));
    wt_fails(WARM_OUT_OF_MEMORY, adopt(flags));
    wt_says("cannot be adopted", "pinned_register");
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), n - 1);
    ck_assert_uint_eq(held(), 0);
    wt_fails(WARM_INVALID_POINTER, give_up());
    wt_ok(warm_testing_check(runtime, 1));
    wt_ok(adopt(flags));
    wt_ok(give_up());
}

/* What could not be unlocked is tried again, and what was is not. */
WT_LOOP_TEST(test_B23_a_piece_that_stays_locked_is_tried_again,
             2 * (PIECES + 1))
{
    unsigned n = (unsigned)_i / 2 + 1;

    wt_ok(adopt(_i % 2 == 0 ? 0 : WARM_ADOPT_SERVE));
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", n, 0));
    wt_fails(WARM_DRIVER_ERROR, give_up());
    ck_assert_uint_gt(held(), 0);
    wt_ok(warm_testing_check(runtime, 1));
    wt_ok(give_up());
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), PIECES + 2);
}

/* A poll in between does not end what the program still names. */
WT_LOOP_TEST(test_B23_a_call_that_failed_can_be_made_again, 2)
{
    void *block;

    wt_ok(adopt(_i == 0 ? 0 : WARM_ADOPT_SERVE));
    block = _i == 0 ? memory : wt_pinned(runtime, 6000);
    wt_ok(warm_record_stream(block, stream));
    if (_i != 0) {
        wt_ok(warm_free(block));
    }
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", 1, 0));
    wt_fails(WARM_DRIVER_ERROR, give_up());
    wt_ok(warm_poll(runtime));
    ck_assert_uint_gt(held(), 0);
    wt_ok(give_up());
    wt_fails(WARM_INVALID_POINTER, give_up());
}

static void fail_waits(int on)
{
    const char *name;

    for (int i = 0; (name = warm_testing_call_name(i)) != NULL; i++) {
        if (strstr(name, "event") != NULL || strstr(name, "query") != NULL ||
            strstr(name, "synchronize") != NULL) {
            wt_ok(warm_testing_fail(runtime, name, (uint64_t)on, on));
        }
    }
}

/* The driver reports neither the end of the work nor a wait for it. */
WT_LOOP_TEST(test_B4_B23_memory_whose_use_was_unknown_is_given_up_later, 4)
{
    bool serves = _i % 2 != 0, waits = _i / 2 == 0;
    wt_gate *gate;
    void *block;

    dones = 0;
    wt_ok(adopt(serves ? WARM_ADOPT_SERVE : 0));
    block = serves ? wt_pinned(runtime, 6000) : memory;
    gate = wt_gate_hold(runtime, stream);
    wt_ok(warm_record_stream(block, stream));
    fail_waits(1);
    if (serves) {
        wt_ok(warm_free(block));
    }
    if (waits) {
        wt_fails(WARM_DRIVER_ERROR, give_up());
    } else {
        wt_fails(WARM_NOT_FOUND, warm_record_stream(&dones, stream));
        wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
        wt_says("is not part of a live block");
    }
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 0);
    ck_assert_uint_eq(held(), bytes);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), 0);
    fail_waits(0);
    wt_gate_open(gate);
    if (waits) {
        wt_ok(give_up());
    } else {
        wt_ok(warm_poll(runtime));
        ck_assert_uint_eq(dones, 1);
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

enum { PIECE_REFUSED = 3 };

/* The third piece is refused, and the two before it stay locked: a stream
 * captures, or the driver refuses to unlock them. */
static void adopt_in_part(uint64_t unlock, int persistent)
{
    wt_ok(warm_testing_fail(runtime, "pinned_register", PIECE_REFUSED, 0));
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", unlock, persistent));
    wt_fails(WARM_OUT_OF_MEMORY, adopt(0));
    wt_says("pinned_register");
    ck_assert_uint_eq(held(), 0);
}

static void check_whole(uint64_t unlocked)
{
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), unlocked);
    wt_ok(adopt(0));
    wt_ok(give_up());
}

WT_TEST(test_B20_B23_pieces_that_stay_locked_are_unlocked_by_the_next_call)
{
    adopt_in_part(1, 0);
    wt_ok(adopt(0));
    wt_ok(give_up());
}

WT_TEST(test_B20_B23_pieces_that_stay_locked_are_unlocked_by_a_poll)
{
    adopt_in_part(1, 1);
    wt_ok(warm_poll(runtime));
    wt_fails(WARM_DRIVER_ERROR, adopt(0));
    wt_says("locked since an earlier call failed");
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", 0, 0));
    wt_ok(warm_poll(runtime));
    check_whole(3 + PIECE_REFUSED - 1); /* three were refused */
}

WT_TEST(test_B20_B23_a_poll_unlocks_what_two_calls_left)
{
    char *first = memory;
    char *second = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);

    adopt_in_part(1, 1);
    memory = second;
    adopt_in_part(1, 1);
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", 0, 0));
    wt_ok(warm_poll(runtime));
    memory = first;
    wt_ok(adopt(0));
    wt_ok(give_up());
    munmap(second, bytes);
}

WT_TEST(test_B7_B23_pieces_that_stay_locked_are_unlocked_after_a_capture)
{
    wt_ok(warm_capture_begin(runtime, stream));
    adopt_in_part(0, 0);
    wt_fails(WARM_CAPTURE_ERROR, adopt(0));
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), 0);
    wt_capture_drop(runtime, stream);
    wt_ok(warm_poll(runtime));
    check_whole(PIECE_REFUSED - 1);
}

/* By the end of the runtime, at the latest. */
WT_TEST(test_G2_B23_pieces_that_stay_locked_are_unlocked_at_the_end)
{
    adopt_in_part(1, 0);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    runtime = wt_runtime(NULL);
    stream = wt_stream(runtime, 0);
    wt_ok(adopt(0));
    wt_ok(give_up());
}

WT_LOOP_TEST(test_B23_without_memory_for_records_nothing_is_adopted, 4)
{
    unsigned flags = _i % 2 == 0 ? 0 : WARM_ADOPT_SERVE, failed = 0;

    for (uint64_t n = 1; n <= 20; n++) {
        warm_status status;

        teardown(); /* records are used again: those of a new runtime are made
                     */
        setup();
        warm_testing_fail_metadata(n, _i / 2);
        status = adopt(flags);
        warm_testing_fail_metadata(0, 0);
        if (status != WARM_OK) {
            ck_assert_int_eq(status, WARM_OUT_OF_MEMORY);
            ck_assert_uint_eq(held(), 0);
            failed++;
            wt_ok(adopt(flags)); /* no piece stays registered */
        }
        wt_ok(give_up());
        wt_ok(warm_testing_check(runtime, 1));
    }
    ck_assert_uint_gt(failed, 0);
}

/* ---- limits -------------------------------------------------------------- */

static void setup_limits(void)
{
    setup();
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 8 * MIB, 0));
}

WT_CASE("limits", .setup = setup_limits, .teardown = teardown);

WT_TEST(test_F7_B23_adopted_memory_counts_toward_the_watermarks)
{
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);
    void *block = wt_pinned(runtime, 4 * MIB), *none = NULL;
    uint64_t calls = wt_calls(runtime, "pinned_register"); /* of its pieces */
    uint64_t held;

    wt_fails(WARM_OUT_OF_MEMORY, adopt(0));
    wt_says("5.5 MiB cannot be adopted", "8.0 MiB");
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), calls);
    wt_ok(warm_free(block));
    wt_ok(adopt(0)); /* idle memory has made room */
    held = wt_pinned_stats(runtime).held_bytes.current;
    ck_assert_uint_le(held, 8 * MIB - bytes);
    wt_ok(warm_memory_get_totals(runtime, WARM_MEMORY_OF_HOST, &totals));
    ck_assert_uint_eq(totals.held_bytes, bytes + held);
    ck_assert_uint_eq(totals.in_use_bytes, bytes);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 3 * MIB, &none));
    wt_says("adopted memory have 5.5 MiB of it");
    wt_ok(give_up());
    block = wt_pinned(runtime, 8 * MIB);
    wt_ok(warm_free(block));
}

static void *held_block;

/* context: what it says, as an int. */
static int free_held(void *context, warm_memory_event event, void *buffer,
                     size_t size)
{
    (void)event;
    (void)buffer;
    (void)size;
    wt_ok(warm_free(held_block));
    return *(const int *)context;
}

/* Also if the callback says nothing: the request looks once more. */
WT_LOOP_TEST(test_B12_B23_a_callback_frees_adopted_memory_for_a_request, 2)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "frees",
                                           .context = &_i,
                                           .function = free_held,
                                           .events = WARM_MEMORY_FAILED};
    void *blocks[PIECES], *block = NULL;

    wt_ok(adopt(WARM_ADOPT_SERVE));
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, bytes, 0));
    for (int i = 0; i < PIECES; i++) {
        blocks[i] = wt_pinned(runtime, MIB);
    }
    held_block = blocks[PIECES - 1];
    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_ok(warm_pinned_alloc(runtime, MIB, &block));
    ck_assert_ptr_eq(block, held_block);
    blocks[PIECES - 1] = block;
    wt_free_all(blocks, PIECES);
    wt_ok(give_up());
}

/* ---- forks --------------------------------------------------------------- */

WT_CASE("forks", .setup = setup, .teardown = teardown);

/* Whether a child can read the memory at an offset. */
static bool child_sees(size_t offset)
{
    int status = 0;
    pid_t pid = fork();

    wt_require(pid >= 0, "no child");
    if (pid == 0) { /* a system call fails where an access would end it */
        int ends[2];

        _exit(pipe2(ends, O_CLOEXEC) == 0 &&
                      write(ends[1], memory + offset, 1) == 1
                  ? 1
                  : 0);
    }
    wt_require(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
               "the child died");
    return WEXITSTATUS(status) == 1;
}

static bool child_sees_it(void)
{
    return child_sees(0);
}

WT_LOOP_TEST(test_B22_B23_children_get_adopted_memory_if_the_program_says_so, 4)
{
    bool sees = _i % 2 == 1;
    unsigned flags = (_i / 2 == 1 ? WARM_ADOPT_SERVE : 0u) |
                     (sees ? WARM_ADOPT_FORK_OK : 0u);

    wt_needs(!wt_emulated(), WT_EMULATED);
    memset(memory, 1, bytes);
    ck_assert(child_sees_it());
    wt_ok(adopt(flags));
    ck_assert_int_eq(child_sees_it(), sees);
    wt_ok(give_up());
    ck_assert(child_sees_it());
}

/* The program's own mark stays if it says that it needs no other. */
WT_TEST(test_B22_B23_the_programs_own_mark_stays)
{
    wt_needs(!wt_emulated(), WT_EMULATED);
    memset(memory, 1, bytes);
    ck_assert_int_eq(madvise(memory, bytes, MADV_DONTFORK), 0);
    wt_ok(adopt(WARM_ADOPT_FORK_OK));
    wt_ok(give_up());
    ck_assert(!child_sees_it());
}

/* Without that, too: that of all of the memory, or of what lies in the middle.
 */
WT_LOOP_TEST(test_B22_B23_the_programs_own_mark_outlives_the_adoption, 4)
{
    bool all = _i / 2 == 0;
    size_t begin = all ? 0 : MIB / 2, end = all ? bytes : 3 * MIB;

    wt_needs(!wt_emulated(), WT_EMULATED);
    memset(memory, 1, bytes);
    ck_assert_int_eq(madvise(memory + begin, end - begin, MADV_DONTFORK), 0);
    for (int round = 0; round < 2; round++) {
        wt_ok(adopt(_i % 2 == 0 ? 0 : WARM_ADOPT_SERVE));
        ck_assert(!child_sees_it());
        ck_assert(!child_sees(bytes - 1));
        wt_ok(give_up());
        ck_assert_int_eq(child_sees(0), !all);
        ck_assert_int_eq(child_sees(bytes - 1), !all);
        ck_assert(!child_sees(begin));
        ck_assert(!child_sees(end - 1));
    }
}

/* Of every other piece, each of which is a mapping of its own. */
WT_TEST(test_B22_B23_marks_of_many_mappings_outlive_the_adoption)
{
    size_t step = MIB / 4;

    wt_needs(!wt_emulated(), WT_EMULATED);
    memset(memory, 1, bytes);
    for (size_t at = step; at < bytes; at += 2 * step) {
        ck_assert_int_eq(madvise(memory + at, step, MADV_DONTFORK), 0);
    }
    wt_ok(adopt(0));
    ck_assert(!child_sees_it());
    wt_ok(give_up());
    for (size_t at = 0; at < bytes; at += step) {
        ck_assert_int_eq(child_sees(at), at / step % 2 == 0);
    }
}

/* Without a free descriptor the mark cannot be told from ours: the adoption
 * fails, and the next one knows it. */
WT_TEST(test_B22_B23_the_programs_own_mark_outlives_a_failure)
{
    struct rlimit files, none;

    wt_needs(!wt_emulated(), WT_EMULATED);
    memset(memory, 1, bytes);
    ck_assert_int_eq(madvise(memory, bytes, MADV_DONTFORK), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = (struct rlimit){0, files.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_ne(adopt(0), WARM_OK);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    wt_says("errno 24");
    ck_assert(!child_sees_it());
    wt_ok(adopt(0));
    wt_ok(give_up());
    ck_assert(!child_sees_it());
    ck_assert(!child_sees(bytes - 1));
}

/* ---- files and processes ------------------------------------------------- */

WT_CASE("files", .setup = setup, .teardown = teardown);

WT_TEST(test_B23_weights_in_a_file_are_read_where_they_lie)
{
    int file = memfd_create("weights", MFD_CLOEXEC);
    char *device = wt_device(runtime, stream, bytes), *weights;
    void *back = wt_pinned(runtime, PAGE);

    memset(memory, 5, bytes);
    ck_assert_int_eq(write(file, memory, bytes), (ssize_t)bytes);
    weights = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(weights, MAP_FAILED);
    wt_invalid(warm_pinned_adopt(runtime, weights, bytes, 0));
    wt_ok(warm_pinned_adopt(runtime, weights, bytes, WARM_ADOPT_READ_ONLY));
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register_read"), PIECES + 1);
    wt_ok(warm_copy_async(runtime, device, weights + MIB / 2, MIB / 2,
                          WARM_COPY_TO_DEVICE, stream));
    wt_ok(warm_copy_async(runtime, back, device, PAGE, WARM_COPY_TO_HOST,
                          stream));
    wt_invalid(warm_copy_async(runtime, weights, device, PAGE,
                               WARM_COPY_TO_HOST, stream));
    wt_says("WARM_ADOPT_READ_ONLY");
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(((char *)back)[PAGE - 1], 5);
    wt_ok(warm_pinned_adopt_end(runtime, weights, NULL, NULL));
    munmap(weights, bytes);
    close(file);
    wt_free(device, back);
}

/* A copy may begin in memory of the program that is not adopted, and run into
 * what was adopted for reading alone. */
WT_TEST(test_B16_B23_a_copy_that_runs_into_weights_is_refused)
{
    char *device = wt_device(runtime, stream, 2 * PAGE);
    uint64_t copies = wt_calls(runtime, "copy");

    memset(memory, 5, bytes);
    wt_ok(warm_pinned_adopt(runtime, memory + PAGE, bytes - PAGE,
                            WARM_ADOPT_READ_ONLY));
    wt_invalid(warm_copy_async(runtime, memory, device, 2 * PAGE,
                               WARM_COPY_TO_HOST, stream));
    wt_says("WARM_ADOPT_READ_ONLY");
    ck_assert_uint_eq(wt_calls(runtime, "copy"), copies);
    wt_ok(warm_copy_async(runtime, memory, device, PAGE, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_copy_async(runtime, device, memory, 2 * PAGE,
                          WARM_COPY_TO_DEVICE, stream));
    wt_settle(runtime, stream);
    wt_ok(warm_pinned_adopt_end(runtime, memory + PAGE, NULL, NULL));
    wt_ok(warm_free(device));
}

/* A child that has a runtime of its own: both adopt one memfd. */
static int share(int file, int ready)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_runtime *own = NULL;
    warm_stream s = NULL;
    void *device = NULL;
    char *mine = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (mine == MAP_FAILED || warm_runtime_create(&options, &own) != WARM_OK ||
        warm_pinned_adopt(own, mine, MIB, 0) != WARM_OK ||
        warm_stream_create(own, 0, &s) != WARM_OK ||
        warm_device_alloc(own, 0, s, PAGE, &device) != WARM_OK) {
        return 1;
    }
    /* What the parent wrote, back behind it by way of a device. */
    if (warm_copy_async(own, device, mine, PAGE, WARM_COPY_TO_DEVICE, s) !=
            WARM_OK ||
        warm_copy_async(own, mine + PAGE, device, PAGE, WARM_COPY_TO_HOST, s) !=
            WARM_OK ||
        warm_pinned_adopt_end(own, mine, NULL, NULL) != WARM_OK) {
        return 2;
    }
    return write(ready, "", 1) == 1 && warm_free(device) == WARM_OK &&
                   warm_stream_destroy(own, s) == WARM_OK &&
                   warm_runtime_destroy(own, NULL) == WARM_OK
               ? 0
               : 3;
}

WT_LOOP_TEST(test_B23_processes_share_memory_that_each_has_adopted, !WT_TSAN)
{
    int file = memfd_create("shared", MFD_CLOEXEC), ends[2], status = 0;
    char *mine, byte;
    pid_t pid;

    ck_assert_int_eq(ftruncate(file, (off_t)MIB), 0);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    mine = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(mine, MAP_FAILED);
    wt_ok(warm_pinned_adopt(runtime, mine, MIB, 0));
    memset(mine, 9, PAGE);
    pid = fork();
    if (pid == 0) {
        _exit(share(file, ends[1]));
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(mine[2 * PAGE - 1], 9);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    wt_ok(warm_pinned_adopt_end(runtime, mine, NULL, NULL));
    munmap(mine, MIB);
    close(file);
    close(ends[0]);
    close(ends[1]);
}

/* ---- callbacks ----------------------------------------------------------- */

static unsigned obtained, returning;
static size_t told;

static void hear(void *context, warm_memory_event event,
                 const warm_segment *segment)
{
    obtained += event == WARM_MEMORY_OBTAINED;
    returning += event == WARM_MEMORY_RETURNING;
    told += segment->bytes;
    if (context != NULL && event == WARM_MEMORY_OBTAINED) {
        wt_invalid(adopt(0));
        wt_says("a memory callback");
    }
}

WT_CASE("callbacks", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B23_B24_adopted_segments_are_heard_of, 2)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "nic",
                                           .segment = hear,
                                           .context = &obtained,
                                           .events = WARM_MEMORY_OBTAINED |
                                                     WARM_MEMORY_RETURNING};

    obtained = returning = 0;
    told = 0;
    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_ok(adopt(_i == 0 ? 0 : WARM_ADOPT_SERVE));
    ck_assert_uint_eq(obtained, _i == 0 ? 1 : PIECES + 1);
    ck_assert_uint_eq(told, bytes);
    ck_assert_uint_eq(returning, 0);
    wt_ok(give_up());
    ck_assert_uint_eq(returning, obtained);
    ck_assert_uint_eq(told, 2 * bytes);
}

/* While a capture puts giving up off, nothing is said to return. */
WT_TEST(test_B7_B23_B24_a_segment_that_stays_is_not_heard_of)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "nic",
                                           .segment = hear,
                                           .events = WARM_MEMORY_OBTAINED |
                                                     WARM_MEMORY_RETURNING};

    dones = obtained = returning = 0;
    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_ok(adopt(WARM_ADOPT_SERVE));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(returning, 0);
    wt_capture_drop(runtime, stream);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 1);
    ck_assert_uint_eq(returning, PIECES + 1);
    ck_assert_uint_eq(obtained, PIECES + 1);
}

/* Without waiting, since the thread is inside a callback. */
static void give_up_inside(void *context)
{
    *(warm_status *)context = give_up();
}

WT_TEST(test_B23_nobody_waits_in_a_callback)
{
    warm_status status = WARM_OK;

    wt_ok(adopt(0));
    wt_ok(warm_pinned_adopt_end(runtime, memory, give_up_inside, &status));
    ck_assert_int_eq(status, WARM_INVALID_ARGUMENT);
}

/* ---- the end ------------------------------------------------------------- */

static void setup_end(void)
{
    setup();
    wt_stream_end(runtime, stream);
}

WT_CASE("end", .setup = setup_end);

WT_LOOP_TEST(test_G2_B23_a_runtime_that_ends_gives_up_what_is_idle, 2)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_runtime *next = wt_runtime(NULL);

    wt_ok(adopt(_i == 0 ? 0 : WARM_ADOPT_SERVE));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 0);
    ck_assert_uint_eq(report.pending, 0);
    /* Nothing is registered, nor known: another runtime may have it. */
    wt_ok(warm_pinned_adopt(next, memory, bytes, 0));
    wt_ok(warm_pinned_adopt_end(next, memory, NULL, NULL));
    wt_runtime_end(next);
    munmap(memory, bytes);
}

WT_TEST(test_G2_B23_live_blocks_keep_their_memory)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    char *block;

    dones = 0;
    wt_ok(adopt(WARM_ADOPT_SERVE));
    block = wt_pinned(runtime, 6000);
    wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 1);
    ck_assert_uint_eq(dones, 0);
    memset(block, 1, 6000);
    wt_fails(WARM_RUNTIME_GONE, warm_free(block));
    wt_fails(WARM_RUNTIME_GONE, give_up());
}

/* ---- nodes --------------------------------------------------------------- */

static void setup_nodes(void)
{
    setup();
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    runtime = wt_runtime_with(.segment = MIB, .pin_chunk = MIB,
                              .test = "numa_nodes=2");
    stream = wt_stream(runtime, 0);
}

WT_CASE("nodes", .setup = setup_nodes, .teardown = teardown);

/* Nobody has placed the memory: it serves requests for no particular node. */
WT_TEST(test_B15_B23_memory_of_no_node_serves_no_request_for_one)
{
    void *block, *strict = NULL;

    wt_ok(adopt(WARM_ADOPT_SERVE));
    block = wt_pinned(runtime, 6000);
    ck_assert(is_inside(block));
    ck_assert_int_eq(wt_block_info(block).node, -1);
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_pinned_alloc_on(runtime, 6000, i, 0, &strict));
        ck_assert(!is_inside(strict));
        wt_ok(warm_free(strict));
    }
    wt_ok(warm_free(block));
    wt_ok(give_up());
}

/* ---- the background thread ----------------------------------------------- */

static void setup_background(void)
{
    setup();
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    runtime =
        wt_runtime_with(.segment = MIB, .pin_chunk = MIB, .background = "on");
    stream = wt_stream(runtime, 0);
}

WT_CASE("background", .setup = setup_background, .teardown = teardown,
        .timeout = 30);

/* Nobody else polls. */
WT_LOOP_TEST(test_B10_B23_the_background_thread_gives_up, 2)
{
    void *block;

    dones = 0;
    wt_ok(adopt(WARM_ADOPT_SERVE));
    block = wt_pinned(runtime, 6000);
    wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    if (_i == 0) {
        wt_ok(warm_free(block));
    } else {
        wt_free_used(block, stream);
    }
    while (atomic_load_explicit(&dones, memory_order_relaxed) == 0) {
        sched_yield();
    }
}

/* ---- threads ------------------------------------------------------------- */

WT_CASE("threads", .setup = setup, .teardown = teardown, .timeout = 120);

static _Atomic unsigned failures;

static void churn(void *argument, unsigned index)
{
    char *part = memory + index * MIB;
    _Atomic unsigned mine = 0;
    unsigned turns = wt_scaled(200), ends = 0;

    (void)argument;
    for (unsigned i = 0; i < turns; i++) {
        bool serves = (i + index) % 2 == 0;
        void *block = NULL;

        failures += warm_pinned_adopt(runtime, part, MIB,
                                      serves ? WARM_ADOPT_SERVE : 0) != WARM_OK;
        failures +=
            warm_pinned_alloc(runtime, 5000 + i * 64, &block) != WARM_OK;
        failures +=
            warm_record_stream(serves ? block : part, stream) != WARM_OK;
        failures +=
            warm_pinned_adopt_end(runtime, part, note_done, &mine) != WARM_OK;
        ends++;
        failures += warm_free(block) != WARM_OK;
        while (atomic_load_explicit(&mine, memory_order_relaxed) < ends) {
            failures += warm_poll(runtime) != WARM_OK;
            sched_yield();
        }
    }
}

WT_TEST(test_B23_threads_adopt_serve_and_give_up_at_once)
{
    failures = 0;
    wt_threads(4, churn, NULL);
    ck_assert_uint_eq(failures, 0);
}

/* ---- two devices --------------------------------------------------------- */

WT_CASE("two devices");

/* Adopted memory is every device's: the end of the adoption waits for the work
 * of each. */
WT_TEST(test_B23_B13_adopted_memory_waits_for_streams_of_any_device)
{
    wt_gate *gate;
    char *device = NULL;
    void *block, *on_device = NULL;
    warm_stream on;

    runtime = wt_two_devices(&(warm_options){
        .size = sizeof(warm_options), .segment = MIB, .pin_chunk = MIB});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    bytes = PIECES * MIB;
    memory = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    dones = 0;
    on = wt_stream(runtime, 1);
    wt_ok(warm_device_alloc(runtime, 1, on, MIB, &on_device));
    device = on_device;
    wt_ok(adopt(WARM_ADOPT_SERVE));
    block = wt_pinned(runtime, 6000);
    ck_assert(is_inside(block));
    memset(block, 6, 6000);
    gate = wt_gate_close(runtime, on);
    wt_ok(
        warm_copy_async(runtime, device, block, 6000, WARM_COPY_TO_DEVICE, on));
    wt_ok(warm_free(block));
    wt_ok(warm_pinned_adopt_end(runtime, memory, note_done, &dones));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 0);
    wt_gate_open(gate);
    wt_settle(runtime, on);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(dones, 1);
    wt_ok(warm_free(on_device));
    wt_stream_end(runtime, on);
    wt_runtime_end(runtime);
    munmap(memory, bytes);
}
