/* check_aligned.c: blocks that begin at a multiple of more than 512 bytes (row
 * H1): of every kind of memory, in pieces, with option debug, and
 * what becomes of the memory around them. */
/* memcheck: one process */
#include "wt.h"

#include <stdint.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;

static void begin_with(const warm_options *options)
{
    runtime = wt_runtime(options);
    stream = wt_stream(runtime, 0);
}

static void end(void)
{
    wt_settle(runtime, stream);
    wt_ok(warm_testing_check(runtime, 1));
    wt_stream_end(runtime, stream);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current, 0);
    wt_runtime_end(runtime);
}

enum kind { PINNED, PAGEABLE, DEVICE, KINDS };

static void begin(enum kind kind)
{
    begin_with(&(warm_options){.size = sizeof(warm_options),
                               .pinned_high = kind == PAGEABLE ? 4096 : 0});
}

static warm_status alloc(enum kind kind, size_t bytes, size_t alignment,
                         void **block)
{
    if (kind == DEVICE) {
        return warm_device_alloc_aligned(runtime, 0, stream, bytes, alignment,
                                         block);
    }
    return warm_pinned_alloc_aligned(
        runtime, bytes, alignment,
        kind == PAGEABLE ? WARM_ALLOC_PAGEABLE_OK : 0, block);
}

static void *aligned(enum kind kind, size_t bytes, size_t alignment)
{
    void *block = NULL;

    wt_ok(alloc(kind, bytes, alignment, &block));
    ck_assert_uint_eq((uintptr_t)block % alignment, 0);
    return block;
}

static bool on_host(enum kind kind)
{
    return kind == PINNED || kind == PAGEABLE || wt_on_host();
}

static const size_t sizes[] = {1,       512,        4096,       28672,
                               28673,   65536,      100 * 1000, MIB / 2,
                               3 * MIB, 5 * MIB + 1};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* The most bytes that a block may have. */
static size_t most_bytes(size_t bytes, size_t alignment)
{
    size_t grain = alignment < 512 ? 512 : alignment < 4096 ? alignment : 4096;
    size_t pages = (bytes + grain - 1) / grain * grain;

    return pages + pages / 8;
}

static void check_block(enum kind kind, char *block, size_t bytes,
                        size_t alignment)
{
    warm_block_info info = wt_block_info(block + bytes - 1);

    ck_assert_ptr_eq(info.base, block);
    ck_assert_uint_eq(info.requested, bytes);
    ck_assert_int_eq(info.pageable, kind == PAGEABLE);
    ck_assert_uint_ge(info.bytes, bytes);
    ck_assert_uint_le(info.bytes, most_bytes(bytes, alignment));
    ck_assert_int_eq(warm_owns(block + info.bytes - 1), 1);
    if (on_host(kind)) {
        memset(block, (int)(bytes % 251), bytes);
    }
}

/* Also what threads have cached serves: it is freed, and allocated plainly. */
WT_LOOP_TEST(test_B8_H1_small_blocks_at_pages_take_their_pages, KINDS)
{
    enum { COUNT = 500, SEGMENT = 4 << 20 };
    static const size_t small[] = {1,     512,   4096,  4097, 8192,
                                   12289, 16384, 20000, 28672};
    static void *block[COUNT], *plain[COUNT];
    enum kind kind = (enum kind)_i;

    for (size_t k = 0; k < sizeof small / sizeof *small; k++) {
        size_t most = most_bytes(small[k], 4096), held;

        begin(kind);
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < COUNT; i++) {
                size_t alignment = (size_t)1024 << i % 4;

                block[i] = aligned(kind, small[k], alignment);
                plain[i] = aligned(kind, small[k] + small[k] / 3, 1);
                ck_assert_uint_le(wt_block_info(block[i]).bytes, most);
            }
            wt_ok(warm_testing_check(runtime, 1));
            wt_free_all(block, COUNT);
            wt_free_all(plain, COUNT);
        }
        held = kind == PINNED   ? wt_pinned_stats(runtime).held_bytes.peak
               : kind == DEVICE ? wt_device_stats(runtime).all.held_bytes.peak
                                : 0;
        ck_assert_uint_le(held, COUNT * (2 * most + most / 3 + 4096) +
                                    4 * (size_t)SEGMENT);
        end();
    }
}

/* Without asking for it, whatever lies beside. */
WT_LOOP_TEST(test_H1_every_block_above_28_kib_begins_at_a_page, KINDS)
{
    enum { COUNT = 100, TURNS = 3000 };
    void *block[COUNT] = {0};
    enum kind kind = (enum kind)_i;
    uint64_t random = wt_seed();

    begin(kind);
    for (int i = 0; i < TURNS; i++) {
        size_t at = wt_random(&random) % COUNT;
        size_t bytes = 28673 + wt_random(&random) % 6000;
        size_t most = bytes + bytes / 8;

        wt_ok(warm_free(block[at]));
        block[at] = aligned(kind, bytes, 1);
        ck_assert_uint_eq((uintptr_t)block[at] % 4096, 0);
        ck_assert_uint_le(wt_block_info(block[at]).bytes, most * 2);
        ck_assert_int_eq(warm_owns((char *)block[at] + bytes - 1), 1);
    }
    wt_ok(warm_testing_check(runtime, 1));
    wt_free_all(block, COUNT);
    end();
}

WT_LOOP_TEST(test_B8_H1_alignments_reach_64_mib, 2)
{
    enum kind kind = _i == 0 ? PINNED : DEVICE;
    char *block;

    begin(kind);
    block = aligned(kind, 5000, WARM_ALIGNMENT_MAX);
    ck_assert_uint_eq(WARM_ALIGNMENT_MAX, 64 * MIB);
    check_block(kind, block, 5000, WARM_ALIGNMENT_MAX);
    wt_free(block);
    end();
}

WT_LOOP_TEST(test_H1_a_block_begins_at_its_alignment, KINDS)
{
    enum kind kind = (enum kind)_i;
    void *blocks[SIZES];

    begin(kind);
    for (size_t alignment = 1; alignment <= 2 * MIB; alignment *= 2) {
        for (size_t i = 0; i < SIZES; i++) {
            blocks[i] = aligned(kind, sizes[i], alignment);
            check_block(kind, blocks[i], sizes[i], alignment);
            wt_ok(warm_testing_check(runtime, 1));
        }
        for (size_t i = 0; i < SIZES; i++) {
            const unsigned char *at = blocks[i];

            ck_assert(!on_host(kind) || (at[0] == sizes[i] % 251 &&
                                         at[sizes[i] - 1] == sizes[i] % 251));
        }
        /* Every second first: neighbours merge in both ways. */
        for (size_t i = 0; i < SIZES; i += 2) {
            wt_free(blocks[i]);
        }
        for (size_t i = 1; i < SIZES; i += 2) {
            wt_free(blocks[i]);
            wt_fails(WARM_INVALID_POINTER, warm_free(blocks[i]));
        }
        wt_ok(warm_testing_check(runtime, 1));
    }
    end();
}

WT_TEST(test_H1_an_aligned_block_is_counted_once)
{
    warm_space_stats before, now;
    void *block;

    begin(PINNED);
    wt_free(wt_pinned(runtime, 3 * MIB));
    before = wt_pinned_stats(runtime);
    block = aligned(PINNED, 100 * 1000, MIB);
    now = wt_pinned_stats(runtime);
    ck_assert_uint_eq(now.live.current, 1);
    ck_assert_uint_eq(now.live.allocated, before.live.allocated + 1);
    ck_assert_uint_eq(now.live.freed, before.live.freed);
    ck_assert_uint_eq(now.requested_bytes.current, 100 * 1000);
    ck_assert_uint_eq(now.requested_bytes.allocated,
                      before.requested_bytes.allocated + 100 * 1000);
    ck_assert_uint_eq(now.live_bytes.current, wt_block_info(block).bytes);
    ck_assert_uint_eq(now.live_bytes.allocated,
                      before.live_bytes.allocated + wt_block_info(block).bytes);
    wt_free(block);
    now = wt_pinned_stats(runtime);
    ck_assert_uint_eq(now.live.current, 0);
    ck_assert_uint_eq(now.live.freed, before.live.freed + 1);
    ck_assert_uint_eq(now.requested_bytes.current, 0);
    ck_assert_uint_eq(now.live_bytes.current, 0);
    end();
}

/* What was obtained for the alignment serves others. */
WT_LOOP_TEST(test_H1_memory_around_an_aligned_block_is_idle, KINDS)
{
    enum kind kind = (enum kind)_i;
    void *block, *others[8];
    uint64_t held;

    if (kind == PAGEABLE) {
        return; /* regions of its own */
    }
    begin(kind);
    block = aligned(kind, 4 * MIB, 2 * MIB);
    held = wt_pinned_stats(runtime).held_bytes.current +
           wt_device_stats(runtime).all.held_bytes.current;
    for (size_t i = 0; i < 8; i++) {
        others[i] = aligned(kind, MIB / 8, 4096);
    }
    ck_assert(kind != PINNED ||
              wt_pinned_stats(runtime).held_bytes.current <= held + 8 * MIB);
    wt_free_all(others, 8);
    wt_free(block);
    /* And the block, freed, the next that is as large. */
    block = aligned(kind, 4 * MIB, 2 * MIB);
    ck_assert_uint_eq(wt_block_info(block).bytes, 4 * MIB);
    wt_free(block);
    end();
}

WT_TEST(test_H1_freed_aligned_blocks_serve_any_request)
{
    enum { COUNT = 32 };
    void *blocks[COUNT];
    uint64_t segments = 0;

    begin(PINNED);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = aligned(PINNED, 64 * KIB, 64 * KIB);
        }
        wt_free_all(blocks, COUNT);
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = wt_pinned(runtime, 64 * KIB);
        }
        wt_free_all(blocks, COUNT);
        if (round == 1) { /* the thread's cache is full */
            segments = wt_pinned_stats(runtime).segments.allocated;
        }
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.allocated, segments);
    end();
}

/* Work on a stream delays the next use of an aligned block as of any other. */
WT_LOOP_TEST(test_H1_an_aligned_block_waits_for_its_stream, 2)
{
    enum kind kind = _i == 0 ? PINNED : DEVICE;
    warm_stream other;
    void *block, *next;

    begin(kind);
    other = wt_stream(runtime, 0);
    block = aligned(kind, MIB, MIB);
    wt_stall(runtime, other);
    wt_ok(warm_record_stream((char *)block + 5, other));
    wt_free(block);
    next = aligned(kind, MIB, MIB);
    if (wt_on_host()) {
        ck_assert_ptr_ne(next, block);
    }
    wt_free(next);
    wt_stall_end(runtime, other);
    wt_settle(runtime, other);
    wt_stream_end(runtime, other);
    end();
}

enum { THREADS = 4, ROUNDS = 200, HELD = 6 };

static void churn(void *argument, unsigned index)
{
    uint64_t *bad = argument;
    void *held[HELD] = {NULL};

    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t alignment = (size_t)1024 << ((i + index) % 12);
        size_t bytes = 1 + (i * 7919 + index) % (300 * KIB);
        void **at = &held[i % HELD];

        bad[index] += *at != NULL && *(char *)*at != (char)index;
        bad[index] += warm_free(*at) != WARM_OK;
        *at = NULL;
        bad[index] += warm_pinned_alloc_aligned(runtime, bytes, alignment, 0,
                                                at) != WARM_OK ||
                      (uintptr_t)*at % alignment != 0;
        if (*at != NULL) {
            memset(*at, (int)index, bytes);
        }
    }
    for (unsigned i = 0; i < HELD; i++) {
        bad[index] += warm_free(held[i]) != WARM_OK;
    }
}

WT_TEST(test_H1_threads_share_what_lies_around_aligned_blocks)
{
    uint64_t bad[THREADS] = {0};

    begin(PINNED);
    wt_threads(THREADS, churn, bad);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(bad[i], 0);
    }
    end();
}

/* ---- pieces -------------------------------------------------------------- */

WT_LOOP_TEST(test_B19_H1_a_block_in_pieces_is_aligned, 2)
{
    static const char *const ways[] = {"alloc", "register"};
    size_t chunk = MIB;
    void *block = NULL, *first = NULL, *odd;
    size_t bytes = 0;

    begin_with(&(warm_options){
        .size = sizeof(warm_options), .pin = ways[_i], .pin_chunk = chunk});
    odd = wt_pinned(runtime, 20 * KIB);
    for (size_t size = chunk - 4096; size <= 5 * MIB; size += 300 * KIB) {
        for (size_t alignment = 8192; alignment <= chunk / 2; alignment *= 4) {
            warm_block_info info;

            block = aligned(PINNED, size, alignment);
            info = wt_block_info(block);
            memset(block, 1, size);
            ck_assert_uint_eq(info.requested, size);
            ck_assert_ptr_eq(info.base, block);
            ck_assert_ptr_eq(wt_block_info((char *)block + size - 1).base,
                             block);
            wt_ok(warm_block_get_piece(block, 0, &first, &bytes));
            ck_assert_ptr_eq(first, block);
            ck_assert(size <= chunk || info.pieces > 1);
            wt_ok(warm_testing_check(runtime, 1));
            wt_free(block);
            wt_ok(warm_testing_check(runtime, 1));
        }
    }
    wt_fails(WARM_UNSUPPORTED,
             warm_pinned_alloc_aligned(runtime, chunk, MIB, 0, &block));
    wt_says("1.0 MiB of pinned memory", "pin_chunk");
    wt_free(odd);
    end();
}

/* Of a block in pieces as well, what lies behind the bytes asked for serves
 * others: the block exceeds its request by an eighth at most, and a page. */
WT_LOOP_TEST(test_B8_B19_a_block_in_pieces_ends_where_asked, 2)
{
    static const char *const ways[] = {"alloc", "register"};
    static const size_t asked[] = {3 * MIB + 4096, 4 * MIB, 4 * MIB + 1,
                                   9 * MIB};

    begin_with(&(warm_options){
        .size = sizeof(warm_options), .pin = ways[_i], .pin_chunk = 4 * MIB});
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        for (size_t alignment = 8192; alignment <= 2 * MIB; alignment *= 2) {
            void *block = aligned(PINNED, asked[i], alignment), *other;
            size_t bytes = wt_block_info(block).bytes;
            warm_space_stats now = wt_pinned_stats(runtime);

            ck_assert_uint_le(bytes, asked[i] + asked[i] / 8 + 4096);
            ck_assert_uint_eq(now.live_bytes.current, bytes);
            ck_assert_uint_eq(now.idle_bytes, now.held_bytes.current - bytes);
            wt_ok(warm_testing_check(runtime, 1));
            other = wt_pinned(runtime, 300 * KIB);
            ck_assert_ptr_eq(wt_block_info(other).base, other);
            wt_free(block);
            wt_ok(warm_testing_check(runtime, 1));
            wt_free(other);
        }
    }
    end();
}

/* ---- option debug -------------------------------------------------------- */

WT_TEST(test_G9_H1_guards_lie_behind_aligned_blocks)
{
    char *block;

    begin_with(
        &(warm_options){.size = sizeof(warm_options), .debug = "guard+fill"});
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t alignment = 1024; alignment <= MIB; alignment *= 4) {
            block = aligned(PINNED, sizes[i], alignment);
            memset(block, 7, sizes[i]);
            ck_assert_uint_eq(wt_block_info(block).requested, sizes[i]);
            wt_free(block);
        }
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).overruns, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).late_writes, 0);
    end();
}

/* ---- refusals ------------------------------------------------------------ */

WT_LOOP_TEST(test_H1_a_wrong_alignment_is_named, 2)
{
    enum kind kind = _i == 0 ? PINNED : DEVICE;
    void *block = &runtime;

    begin(kind);
    wt_invalid(alloc(kind, 1, 0, &block));
    wt_says("alignment 0 ");
    wt_invalid(alloc(kind, 1, 48, &block));
    wt_says("alignment 48 ");
    wt_invalid(alloc(kind, 1, 128 * MIB, &block));
    wt_says("alignment 128.0 MiB is too large", "64.0 MiB");
    wt_invalid(alloc(kind, 1, 8192, NULL));
    wt_fails(WARM_OUT_OF_MEMORY, alloc(kind, SIZE_MAX, 8192, &block));
    ck_assert_ptr_eq(block, &runtime);
    wt_ok(alloc(kind, 0, MIB, &block));
    ck_assert_ptr_null(block);
    wt_invalid(warm_pinned_alloc_aligned(runtime, 1, 8192, 0x800, &block));
    wt_says("0x800");
    end();
}

WT_TEST(test_H1_out_of_memory_names_what_was_asked_for)
{
    void *block = NULL;

    begin_with(
        &(warm_options){.size = sizeof(warm_options), .pinned_high = 8 * MIB});
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc_aligned(runtime, 9 * MIB, MIB, 0, &block));
    wt_says("requested 9.0 MiB");
    ck_assert_ptr_null(block);
    end();
}
