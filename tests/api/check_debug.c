/* check_debug.c: option debug (row G9): each fault is found, named and counted;
 * what is no fault is not. The tests commit the faults that they look for:
 * memcheck would report these, so it leaves the program out (as it does with
 * the tag `programs`). test_debug.sh runs whole programs with the option. */
#include "wt.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if WT_ASAN
int __asan_address_is_poisoned(const volatile void *address);
#define UNCHECKED __attribute__((no_sanitize("address"), noinline))
#else
#define UNCHECKED __attribute__((noinline))
#endif

enum { SIZE = 1000, LINES = 64 };

static warm_runtime *runtime;
static warm_stream stream;

/* ---- the log ------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    unsigned count;
    char line[LINES][512];
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void listen(void *context, warm_log_level level, const char *line)
{
    pthread_mutex_lock(&seen.mutex);
    if (level == WARM_LOG_WARNING && seen.count < LINES) {
        snprintf(seen.line[seen.count++], sizeof seen.line[0], "%s", line);
    }
    pthread_mutex_unlock(&seen.mutex);
}

/* Lines with the word; *last: the last of them. */
static unsigned lines_with(const char *word, const char **last)
{
    unsigned count = 0;

    for (unsigned i = 0; i < seen.count; i++) {
        if (strstr(seen.line[i], word) != NULL) {
            count++;
            *last = seen.line[i];
        }
    }
    return count;
}

static const char *line_with(const char *word)
{
    const char *line = "";

    wt_require(lines_with(word, &line) == 1, "not one line with %s", word);
    return line;
}

static const char *text_of(const void *pointer)
{
    static char text[8][24];
    static unsigned next;
    char *to = text[next++ % 8];

    snprintf(to, sizeof text[0], "%p", pointer);
    return to;
}

/* ---- runtimes ------------------------------------------------------------ */

static void begin(warm_options options)
{
    options.size = sizeof options;
    options.segment = 2 << 20;
    seen.count = 0;
    warm_log_set(listen, NULL);
    runtime = wt_runtime(&options);
    stream = wt_stream(runtime, 0);
}

static void setup(void)
{
    begin((warm_options){.debug = "guard+fill+leaks"});
}

static void setup_guard(void)
{
    begin((warm_options){.debug = "guard"});
}

static void setup_fill(void)
{
    begin((warm_options){.debug = "fill"});
}

static void setup_uncached(void)
{
    begin((warm_options){.debug = "fill", .keep = WARM_OFF});
}

static void setup_leaks(void)
{
    begin((warm_options){.debug = "leaks"});
}

static void setup_frames(void)
{
    begin((warm_options){.debug = "leaks+fill", .history_frames = 12});
}

static void setup_off(void)
{
    begin((warm_options){.debug = "off"});
}

static void end(void)
{
    wt_stream_end(runtime, stream);
    wt_ok(warm_runtime_destroy(runtime, NULL));
    warm_log_set(NULL, NULL);
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
    warm_log_set(NULL, NULL);
}

/* Writes that are the program's faults, or that nothing should mind. */
static UNCHECKED void poke(void *block, ptrdiff_t at, int value)
{
    ((volatile char *)block)[at] = (char)value;
}

static UNCHECKED int peek(const void *block, ptrdiff_t at)
{
    return ((const volatile unsigned char *)block)[at];
}

static void wipe(void *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        poke(block, (ptrdiff_t)i, (int)i);
    }
}

static uint64_t overruns(void)
{
    return wt_pinned_stats(runtime).overruns;
}

static uint64_t late_writes(void)
{
    return wt_pinned_stats(runtime).late_writes;
}

/* Memory of each kind that the host may touch. */
enum { KINDS = 4 };

static size_t own_size(int kind, size_t bytes)
{
    return kind == 3 && bytes > WARM_SCALAR_MAX ? WARM_SCALAR_MAX : bytes;
}

/* A block of own_size() bytes. */
static void *take(int kind, size_t bytes)
{
    char value[WARM_SCALAR_MAX] = {0};
    void *block = NULL;
    size_t released;

    switch (kind) {
    case 0:
        return wt_pinned(runtime, bytes);
    case 1: /* nothing page-locked can serve it */
        wt_ok(warm_pinned_trim(runtime, 0, &released));
        wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
        wt_ok(warm_pinned_alloc_on(runtime, bytes, WARM_NODE_ANY,
                                   WARM_ALLOC_PAGEABLE_OK, &block));
        wt_ok(warm_testing_fail(runtime, "pinned_alloc", 0, 0));
        ck_assert_int_eq(wt_block_info(block).pageable, 1);
        return block;
    case 2:
        wt_ok(warm_shared_alloc(runtime, 0, bytes, WARM_USAGE_SHARED, &block));
        return block;
    default:
        wt_ok(warm_shared_alloc_scalar(runtime, 0, value, own_size(kind, bytes),
                                       &block));
        return block;
    }
}

static uint64_t counted(int kind, bool late)
{
    warm_space_stats s = WARM_INIT(warm_space_stats);

    if (kind < 2) {
        s = wt_pinned_stats(runtime);
    } else {
        wt_ok(warm_shared_get_stats(runtime, 0, WARM_USAGE_SHARED, &s));
    }
    return late ? s.late_writes : s.overruns;
}

/* ---- guards -------------------------------------------------------------- */

WT_CASE("guard", .setup = setup_guard, .teardown = teardown, .also = {setup},
        .tags = "programs");

WT_LOOP_TEST(test_G9_write_past_the_end_is_found_at_the_free, 8)
{
    static const size_t sizes[] = {1,    100,   512,    1000,
                                   4096, 70000, 100000, 5 << 20};
    size_t bytes = sizes[_i];

    for (int kind = 0; kind < KINDS; kind++) {
        size_t own =
            kind == 3 && bytes > WARM_SCALAR_MAX ? WARM_SCALAR_MAX : bytes;
        void *block = take(kind, own);

        uint64_t before = counted(kind, false);

        seen.count = 0;
        wipe(block, own);
        poke(block, (ptrdiff_t)own, 'x');
        poke(block, (ptrdiff_t)own + 2, 'z');
        wt_ok(warm_free(block));
        ck_assert_uint_eq(counted(kind, false), before + 1);
        wt_contains(line_with("debug:guard"), text_of(block), "2 B behind",
                    " 78 a7 7a a7");
        wt_contains(line_with("was allocated by thread"), text_of(block));
    }
}

WT_TEST(test_G9_write_up_to_the_end_is_no_fault)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t bytes = 1; bytes <= 32; bytes++) {
            void *block = take(kind, bytes);

            wipe(block, own_size(kind, bytes));
            wt_ok(warm_free(block));
        }
    }
    ck_assert_uint_eq(seen.count, 0);
    ck_assert_uint_eq(overruns(), 0);
}

/* Slots of 512 bytes: the end of one is the start of the next. */
WT_TEST(test_G9_write_before_the_start_is_found_by_the_guard_in_front)
{
    char *block[8];
    int at = -1;

    for (int i = 0; i < 8; i++) {
        block[i] = wt_pinned(runtime, 448);
    }
    for (int i = 0; i < 7 && at < 0; i++) {
        at = block[i + 1] - block[i] == 512 ? i : -1;
    }
    ck_assert_int_ge(at, 0);
    poke(block[at + 1], -1, 1);
    wt_free_all(block, 8);
    ck_assert_uint_eq(overruns(), 1);
    wt_contains(line_with("debug:guard"), text_of(block[at]),
                text_of(block[at + 1]), "on: 01; found", "before its start");
}

WT_TEST(test_G9_all_that_is_usable_is_what_was_requested)
{
    for (int kind = 0; kind < KINDS; kind++) {
        void *block = take(kind, SIZE);
        warm_block_info info = wt_block_info(block);

        ck_assert_uint_eq(info.bytes, own_size(kind, SIZE));
        ck_assert_uint_eq(info.requested, own_size(kind, SIZE));
        ck_assert_ptr_eq(info.base, block);
        ck_assert_uint_eq((uintptr_t)block % 512, 0);
        wt_ok(warm_free(block));
    }
    warm_shared_info shared = WARM_INIT(warm_shared_info);
    void *block = take(2, SIZE);

    wt_ok(warm_shared_get_info(block, &shared));
    ck_assert_uint_eq(shared.bytes, SIZE);
    ck_assert_uint_eq(shared.requested, SIZE);
    wt_ok(warm_free(block));
}

/* A guard is not the caller's: what would reach into it is refused before
 * anything is written, and the guard is whole at the free. */
WT_TEST(test_D3_G9_no_wrap_and_no_copy_reaches_into_a_guard)
{
    char *block = wt_pinned(runtime, SIZE), *device;
    warm_data_pointer data = {.size = sizeof data};
    warm_staging *ring = NULL;
    warm_storage *storage = NULL;

    device = wt_device(runtime, stream, 1 << 16);
    wt_invalid(warm_copy_async(runtime, block, device, SIZE + 1,
                               WARM_COPY_TO_HOST, stream));
    wt_says("passes the end of its destination", "ends 1 B before it");
    wt_invalid(warm_copy_async(runtime, device, block + SIZE, 1,
                               WARM_COPY_TO_DEVICE, stream));
    wt_says("passes the end of its source");
    wt_invalid(
        warm_copy_2d_async(runtime, block, 400, device, 400, 300, 3, stream));
    wt_ok(warm_staging_create(runtime, 0, NULL, &ring));
    wt_invalid(warm_staging_copy(ring, device, block, SIZE + 1,
                                 WARM_COPY_TO_DEVICE, stream, 0));
    wt_invalid(warm_staging_copy(ring, block, device, SIZE + 1,
                                 WARM_COPY_TO_HOST, stream, 0));
    wt_ok(warm_staging_destroy(ring));
    data.data = data.context = block;
    data.memory = WARM_MEMORY_PINNED;
    data.device = -1;
    wt_invalid(warm_storage_wrap(&data, SIZE + 1, NULL, &storage));
    wt_says("goes beyond its block by 1 B");
    wt_ok(warm_storage_wrap(&data, SIZE, NULL, &storage));
    warm_storage_release(storage);
    wt_ok(warm_copy_async(runtime, block, device, SIZE, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_free(block, device);
    ck_assert_uint_eq(seen.count, 0);
}

/* On CUDA the host cannot touch it, so no backend guards it. */
WT_TEST(test_G9_memory_of_a_device_has_no_guard)
{
    void *block = wt_device(runtime, stream, 4096);

    ck_assert_uint_eq(wt_block_info(block).bytes, 4096);
    wt_ok(warm_free(block));
}

/* ---- fill ---------------------------------------------------------------- */

WT_CASE("fill", .setup = setup_fill, .teardown = teardown, .also = {setup},
        .tags = "programs");

WT_LOOP_TEST(test_G9_write_after_the_free_is_found_at_the_next_allocation, 4)
{
    void *block = take(_i, 200), *again;
    void *stays = take(_i, 200); /* in the slab of both */

    wt_ok(warm_memory_tag_set("maker"));
    wt_ok(warm_free(block));
    block = take(_i, 200);
    wt_ok(warm_memory_tag_set("breaker"));
    wt_ok(warm_free(block));
    wt_ok(warm_memory_tag_set(NULL));
    ck_assert_int_eq(peek(block, 4), 0xf5);
    poke(block, 4, 'A');
    poke(block, 6, 'B');
    ck_assert_uint_eq(seen.count, 0);
    again = take(_i, 200);
    ck_assert_ptr_eq(again, block);
    ck_assert_uint_eq(counted(_i, true), 1);
    wt_contains(line_with("debug:fill"), text_of(block), "2 B of",
                "its byte 4 on: 41 f5 42 f5", "allocated again");
    wt_contains(line_with("was allocated by"), text_of(block), "'maker'");
    wt_contains(line_with("was freed by"), text_of(block), "'breaker'");
    wt_free(again, stays);
    ck_assert_uint_eq(counted(_i, true), 1);
}

/* A segment leaves whole; what was written in it is found before. */
WT_TEST(test_G9_write_after_the_free_is_found_when_memory_is_returned)
{
    void *block = wt_pinned(runtime, SIZE);
    size_t released = 0;

    wt_ok(warm_free(block));
    poke(block, SIZE - 1, 0);
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_gt(released, 0);
    ck_assert_uint_eq(late_writes(), 1);
    wt_contains(line_with("debug:fill"), text_of(block), "its byte 999",
                "returned to the system");
}

#if !WT_ASAN /* it stops at the host device's write */
WT_TEST(test_G9_write_by_a_device_after_the_free_is_found)
{
    void *block = wt_pinned(runtime, SIZE);
    void *source = wt_device(runtime, stream, SIZE);
    wt_gate *gate = wt_gate_hold(runtime, stream);

    /* Queued before the free, by a program that records no stream. */
    wt_ok(warm_testing_copy(runtime, block, source, SIZE, stream));
    wt_ok(warm_free(block));
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_ptr_eq(wt_pinned(runtime, SIZE), block);
    ck_assert_uint_eq(late_writes(), 1);
    wt_contains(line_with("debug:fill"), text_of(block), "its byte 0");
    wt_free(block, source);
}
#endif

/* The device writes a freed block that waits for it: no fault, and the block is
 * filled after that. */
WT_TEST(test_G9_work_of_recorded_streams_is_no_fault)
{
    void *block = wt_pinned(runtime, SIZE), *again;
    void *source = wt_device(runtime, stream, SIZE);
    wt_gate *gate = wt_gate_hold(runtime, stream);

    wipe(block, SIZE);
    wt_ok(warm_copy_async(runtime, block, source, SIZE, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_free(block));
    ck_assert_int_eq(peek(block, 3), 3);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert_int_eq(peek(block, 3), 0xf5);
    again = wt_pinned(runtime, SIZE);
    ck_assert_ptr_eq(again, block);
    ck_assert_uint_eq(seen.count, 0);
    wt_free(again, source);
}

WT_TEST(test_G9_a_buffer_that_users_hold_is_not_filled)
{
    void *block = take(2, SIZE);

    wt_ok(warm_shared_retain(block));
    wipe(block, SIZE);
    wt_ok(warm_free(block));
    ck_assert_int_eq(peek(block, 7), 7);
    wt_ok(warm_shared_release(block));
    wt_ok(warm_shared_free_inactive(runtime, 0, NULL));
    ck_assert_int_eq(peek(block, 7), 0xf5);
    ck_assert_uint_eq(seen.count, 0);
}

/* A graph writes the freed block in each replay: it is not filled before the
 * graph's pool ends. */
WT_TEST(test_G9_E4_what_a_graph_uses_is_not_filled)
{
    warm_private_pool pool = {0};
    warm_graph graph = NULL;
    void *source, *block;
    const char *last = "";

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    wt_ok(warm_capture_begin(runtime, stream));
    block = wt_pinned(runtime, SIZE);
    source = wt_device(runtime, stream, SIZE);
    wt_ok(warm_copy_async(runtime, block, source, SIZE, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_free(block));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_graph_launch(runtime, graph, stream));
        wt_ok(warm_stream_synchronize(runtime, stream));
        ck_assert_int_ne(peek(block, 9), 0xf5);
        poke(block, 9, i); /* by a program that knows the graph's buffer */
    }
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_private_pool_release(runtime, pool));
    wt_ok(warm_free(source));
    wt_settle(runtime, stream);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    /* Other warnings: pinned memory names no stream that captures. */
    ck_assert_uint_eq(lines_with("debug:", &last), 0);
}

/* Work in the order of the stream may still use it: nobody fills it. */
WT_TEST(test_G9_memory_of_a_device_is_not_filled)
{
    void *block = wt_device(runtime, stream, SIZE);
    char *copy = wt_pinned(runtime, SIZE);

    memset(copy, 1, SIZE);
    wt_ok(warm_copy_async(runtime, block, copy, SIZE, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(warm_free(block));
    memset(copy, 2, SIZE);
    wt_ok(warm_stream_synchronize(runtime, stream));
    block = wt_device(runtime, stream, SIZE);
    wt_ok(
        warm_copy_async(runtime, copy, block, SIZE, WARM_COPY_TO_HOST, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_ne(copy[0], (char)0xf5);
    wt_free(block, copy);
    wt_settle(runtime, stream);
    ck_assert_uint_eq(seen.count, 0);
}

/* A note needs memory for a record: without it nothing is checked, and nothing
 * fails. */
WT_TEST(test_G9_G6_without_memory_for_notes_nothing_is_reported)
{
    void *block = wt_pinned(runtime, SIZE), *again;

    warm_testing_fail_metadata(1, 1);
    wt_ok(warm_free(block));
    warm_testing_fail_metadata(0, 0);
    poke(block, 0, 1);
    again = wt_pinned(runtime, SIZE);
    ck_assert_uint_eq(seen.count, 0);
    wt_ok(warm_free(again));
    poke(block, 0, 1);
    wt_ok(warm_free(wt_pinned(runtime, SIZE)));
    ck_assert_uint_eq(late_writes(), 1);
}

WT_TEST(test_G9_G5_totals_of_faults_can_be_reset)
{
    void *block = wt_pinned(runtime, SIZE);

    wt_ok(warm_free(block));
    poke(block, 0, 1);
    wt_ok(warm_free(wt_pinned(runtime, SIZE)));
    ck_assert_uint_eq(late_writes(), 1);
    wt_ok(warm_pinned_reset_totals(runtime));
    ck_assert_uint_eq(late_writes(), 0);
}

/* Idle blocks are merged and cut anew: each of their bytes is checked once. */
WT_CASE("fill, no caches", .setup = setup_uncached, .teardown = teardown,
        .tags = "programs");

WT_TEST(test_G9_a_fault_is_found_once_in_memory_that_is_cut_anew)
{
    enum { PART = 100000 };
    char *whole = wt_pinned(runtime, 8 * PART), *part[6];
    unsigned found = 0;

    wt_ok(warm_free(whole));
    poke(whole, 4 * PART, 1);
    for (int i = 0; i < 6; i++) {
        part[i] = wt_pinned(runtime, PART);
        wipe(part[i], PART);
        if (late_writes() > found) {
            found++;
            ck_assert(part[i] <= whole + 4 * PART &&
                      whole + 4 * PART < part[i] + PART + PART / 8);
        }
    }
    wt_free_all(part, 6);
    ck_assert_uint_eq(found, 1);
    whole = wt_pinned(runtime, 8 * PART);
    wt_ok(warm_free(whole));
    ck_assert_uint_eq(late_writes(), 1);
}

/* ---- what AddressSanitizer is told --------------------------------------- */

#if WT_ASAN
WT_CASE("sanitizer", .setup = setup, .teardown = teardown, .tags = "programs");

WT_LOOP_TEST(test_G9_addresssanitizer_knows_what_is_whose, 5)
{
    static const size_t sizes[] = {1, 100, 1000, 4096, 100003};
    size_t bytes = sizes[_i], released;

    for (int kind = 0; kind < KINDS; kind++) {
        size_t own =
            kind == 3 && bytes > WARM_SCALAR_MAX ? WARM_SCALAR_MAX : bytes;
        char *block = take(kind, own);

        ck_assert(!__asan_address_is_poisoned(block));
        ck_assert(!__asan_address_is_poisoned(block + own - 1));
        ck_assert(__asan_address_is_poisoned(block + own));
        wt_ok(warm_free(block));
        if (kind != 1) {
            ck_assert(__asan_address_is_poisoned(block));
            ck_assert(__asan_address_is_poisoned(block + own - 1));
        }
        if (kind == 0) {
            wt_ok(warm_pinned_trim(runtime, 0, &released));
            ck_assert(!__asan_address_is_poisoned(block));
        }
    }
}

WT_TEST(test_G9_a_block_that_waits_for_a_device_is_accessible_to_it)
{
    char *block = wt_pinned(runtime, SIZE);
    void *source = wt_device(runtime, stream, SIZE);
    wt_gate *gate = wt_gate_hold(runtime, stream);

    wt_ok(warm_copy_async(runtime, block, source, SIZE, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_free(block));
    ck_assert(!__asan_address_is_poisoned(block));
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert(__asan_address_is_poisoned(block));
    wt_ok(warm_free(source));
}
#endif

/* ---- leaks --------------------------------------------------------------- */

WT_CASE("leaks", .setup = setup_leaks, .tags = "programs");

WT_TEST(test_G9_live_blocks_are_named_by_memory_tag_and_size)
{
    wt_ok(warm_memory_tag_set("weights"));
    for (int i = 0; i < 3; i++) {
        (void)wt_pinned(runtime, 3000);
    }
    (void)wt_device(runtime, stream, 10000);
    wt_ok(warm_memory_tag_set("other"));
    (void)wt_pinned(runtime, 3000);
    wt_ok(warm_free(wt_pinned(runtime, 777)));
    wt_ok(warm_free(wt_device(runtime, stream, 777)));
    wt_ok(warm_memory_tag_set(NULL));
    (void)take(2, 500);
    end();
    wt_contains(line_with("3 blocks"), "8.8 KiB of pinned memory", "'weights'",
                "allocated by thread");
    wt_contains(line_with("9.8 KiB"), "1 block", "of device memory of device 0",
                "'weights'");
    wt_contains(line_with("'other'"), "1 block", "2.9 KiB");
    wt_contains(line_with("500 B"), "shared memory");
    const char *last = "";
    ck_assert_uint_eq(lines_with("debug:leaks", &last), 4);
    /* The most bytes first. */
    wt_contains(seen.line[0], "9.8 KiB");
    wt_contains(seen.line[3], "500 B");
}

WT_TEST(test_G9_a_report_of_leaks_has_a_bound)
{
    const char *last = "";

    for (size_t i = 0; i < 40; i++) {
        (void)wt_pinned(runtime, 4000 + i);
    }
    end();
    ck_assert_uint_eq(lines_with("debug:leaks", &last), 33);
    wt_contains(last, "and 8 blocks, 31.3 KiB, in 8 smaller groups");
}

WT_TEST(test_G9_without_leaks_nothing_is_said)
{
    wt_ok(warm_free(wt_pinned(runtime, SIZE)));
    end();
    ck_assert_uint_eq(seen.count, 0);
}

/* What the program has mapped itself is none; a block served from it is. */
WT_TEST(test_G9_B23_a_block_of_adopted_memory_is_a_leak)
{
    enum { BYTES = 1 << 20 };
    char *lent = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const char *last = "";

    wt_ok(warm_pinned_adopt(runtime, lent, BYTES, 0));
    wt_ok(warm_pinned_adopt(runtime, lent + BYTES, BYTES, WARM_ADOPT_SERVE));
    (void)wt_pinned(runtime, 3000);
    end();
    ck_assert_uint_eq(lines_with("debug:leaks", &last), 1);
    wt_contains(last, "1 block", "2.9 KiB");
}

WT_CASE("adopted", .setup = setup, .teardown = end, .tags = "programs");

/* Neither filled nor guarded: it is the program's. */
WT_LOOP_TEST(test_G9_B23_adopted_memory_is_left_as_it_is, 2)
{
    enum { BYTES = 1 << 20 };
    char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *block;

    memset(own, 7, BYTES);
    wt_ok(
        warm_pinned_adopt(runtime, own, BYTES, _i == 0 ? 0 : WARM_ADOPT_SERVE));
    if (_i == 0) {
        wt_ok(warm_record_stream(own, stream));
    } else {
        block = wt_pinned(runtime, 3000);
        wt_free_used(block, stream);
        wt_settle(runtime, stream);
    }
    wt_ok(warm_pinned_adopt_end(runtime, own, NULL, NULL));
    for (int i = 0; i < BYTES; i++) {
        wt_require(own[i] == 7, "byte %d was written", i);
    }
    munmap(own, BYTES);
}

WT_CASE("frames", .setup = setup_frames, .tags = "programs");

static __attribute__((noinline)) void *leak_here(size_t bytes)
{
    void *block = wt_pinned(runtime, bytes);

    *(volatile char *)block = 0; /* no tail call */
    return block;
}

static __attribute__((noinline)) void *leak_there(void)
{
    void *block = wt_pinned(runtime, SIZE);

    *(volatile char *)block = 1;
    return block;
}

/* Blocks of two sizes from one place are one group. */
WT_TEST(test_G9_with_frames_leaks_are_named_by_who_allocated)
{
    const char *last = "";

    for (volatile size_t i = 0; i < 4; i++) { /* one call, not four */
        (void)leak_here(SIZE + i);
    }
    (void)leak_there();
    end();
    ck_assert_uint_eq(lines_with("debug:leaks", &last), 2);
    wt_contains(line_with("4 blocks"), "check_debug+0x", " < ");
    wt_contains(line_with("1 block, 1000 B"), "check_debug+0x");
}

WT_TEST(test_G9_with_frames_a_late_write_says_who_freed)
{
    void *block = wt_pinned(runtime, SIZE);

    wt_ok(warm_free(block));
    poke(block, 0, 1);
    wt_ok(warm_free(wt_pinned(runtime, SIZE)));
    wt_contains(line_with("was allocated by"), "check_debug+0x");
    wt_contains(line_with("was freed by"), "check_debug+0x");
    end();
}

/* ---- off ----------------------------------------------------------------- */

WT_CASE("off", .setup = setup_off, .teardown = teardown, .tags = "programs");

WT_TEST(test_G9_off_changes_nothing)
{
    void *block = wt_pinned(runtime, SIZE), *again;
    size_t bytes = wt_block_info(block).bytes;
    uint64_t hits = wt_pinned_stats(runtime).cache_hits;

    ck_assert_uint_ge(bytes, SIZE);
    wipe(block, bytes);
    wt_ok(warm_free(block));
    ck_assert_int_eq(peek(block, 5), 5);
    poke(block, 6, 0);
    again = wt_pinned(runtime, SIZE);
    ck_assert_ptr_eq(again, block);
    ck_assert_int_eq(peek(again, 5), 5);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cache_hits, hits + 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).requested_bytes.current, SIZE);
    wt_ok(warm_free(again));
    ck_assert_uint_eq(seen.count, 0);
    ck_assert_uint_eq(overruns() + late_writes(), 0);
}

/* ---- the option ---------------------------------------------------------- */

WT_CASE("option");

WT_TEST(test_G4_G9_unknown_words_are_refused)
{
    static const char *const bad[] = {"on",  "guard+",     "+guard",
                                      "",    "guard|fill", "guard+guard",
                                      "fil", "off+guard",  "guard fill"};
    warm_runtime *none = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        warm_options o = {.size = sizeof o, .device = "host", .debug = bad[i]};

        wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&o, &none));
        wt_says("option debug", bad[i], "guard|fill|leaks", "joined by +");
        ck_assert_ptr_null(none);
    }
}

/* ---- two devices --------------------------------------------------------- */

WT_CASE("two devices");

WT_TEST(test_G9_leaks_are_named_by_their_device)
{
    void *block = NULL;

    seen.count = 0;
    warm_log_set(listen, NULL);
    runtime = wt_two_devices(
        &(warm_options){.size = sizeof(warm_options), .debug = "leaks"});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    stream = wt_stream(runtime, 0);
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_device_alloc(runtime, i, NULL, 3000 + 4096 * (size_t)i,
                                &block));
    }
    end();
    wt_contains(line_with("2.9 KiB"), "of device memory of device 0");
    wt_contains(line_with("6.9 KiB"), "of device memory of device 1");
}
