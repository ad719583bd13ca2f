/* check_pieces.c: blocks larger than what is page-locked at once (row B19):
 * their pieces, cuts between rows, copies across cuts, reuse and return piece
 * by piece, on every backend and in both ways of page-locking. */
/* memcheck: one process */
#include "wt.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { PAGE = 4096 };

static const char *const ways[] = {"alloc", "register"};
enum { WAYS = 2 };

static warm_runtime *runtime;
static warm_stream stream;

static void begin_with(const warm_options *options)
{
    runtime = wt_runtime(options);
    stream = wt_stream(runtime, 0);
}

/* Pieces of 256 KiB. */
static void begin(int way)
{
    begin_with(&(warm_options){.size = sizeof(warm_options),
                               .pin = ways[way],
                               .pin_chunk = 256 * KIB});
}

static void end(void)
{
    wt_settle(runtime, stream);
    wt_ok(warm_testing_check(runtime, 1));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"),
                      wt_calls(runtime, "pinned_unregister"));
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static size_t pieces(const void *block)
{
    return wt_block_info(block).pieces;
}

/* The pieces are the block: in order, without gaps, none larger than `most`. */
static void check_pieces(char *block, size_t most)
{
    warm_block_info info = wt_block_info(block);
    char *at = block, *base = NULL;
    size_t bytes = 0;

    for (size_t i = 0; i < info.pieces; i++) {
        void *piece = NULL;

        wt_ok(warm_block_get_piece(block + i, i, &piece, &bytes));
        base = piece;
        ck_assert_ptr_eq(base, at);
        ck_assert(bytes > 0 && bytes <= most);
        ck_assert(i == 0 || (uintptr_t)base % PAGE == 0);
        at += bytes;
    }
    ck_assert_ptr_eq(at, block + info.bytes);
    wt_invalid(
        warm_block_get_piece(block, info.pieces, (void **)&base, &bytes));
}

WT_LOOP_TEST(test_B19_a_block_of_any_size_has_pieces, WAYS)
{
    static const size_t sizes[] = {1,   100000,  256 * KIB,   256 * KIB + 1,
                                   MIB, 5 * MIB, 5 * MIB + 1, 7 * MIB - PAGE};

    begin(_i);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *block = wt_pinned(runtime, sizes[i]);
        warm_block_info info = wt_block_info(block + sizes[i] - 1);

        memset(block, 1, sizes[i]);
        ck_assert_ptr_eq(info.base, block);
        ck_assert_uint_eq(info.requested, sizes[i]);
        ck_assert_uint_eq(info.pieces > 1, info.bytes > 256 * KIB);
        ck_assert_uint_eq(info.pieces,
                          (info.bytes + 256 * KIB - 1) / (256 * KIB));
        check_pieces(block, 256 * KIB);
        /* What is obtained is no more than what is asked for, in whole pages.
         */
        ck_assert(sizes[i] <= 4 * MIB || info.bytes < sizes[i] + PAGE);
        wt_ok(warm_testing_check(runtime, 1));
        wt_free(block);
        wt_fails(WARM_INVALID_POINTER, warm_free(block));
    }
    end();
}

/* Nothing of that size can be cached by threads, and yet it is used again. */
WT_LOOP_TEST(test_B2_B19_a_freed_block_serves_the_next_of_its_size, WAYS)
{
    uint64_t before;
    char *block;

    begin(_i);
    block = wt_pinned(runtime, 5 * MIB);
    wt_free(block);
    before = wt_calls(runtime, "pinned_register");
    for (int i = 0; i < 10; i++) {
        ck_assert_ptr_eq(wt_pinned(runtime, 5 * MIB), block);
        wt_free(block);
        /* Smaller ones as well, from the same start. */
        ck_assert_ptr_eq(wt_pinned(runtime, 2 * MIB + PAGE), block);
        ck_assert_uint_eq(pieces(block), 9);
        wt_free(block);
    }
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), before);
    ck_assert_uint_eq(before, 20);
    end();
}

/* The pieces of a freed block serve smaller requests, none of which lies across
 * a cut; what is whole again serves a large one again. */
WT_LOOP_TEST(test_B19_pieces_of_a_freed_block_serve_others, WAYS)
{
    enum { SMALL = 20 };
    char *block, *small[SMALL];
    uint64_t before;

    begin(_i);
    block = wt_pinned(runtime, 5 * MIB);
    wt_free(block);
    before = wt_calls(runtime, "pinned_register");
    for (int i = 0; i < SMALL; i++) {
        small[i] = wt_pinned(runtime, 192 * KIB);
        ck_assert_uint_eq((size_t)(small[i] - block) % (256 * KIB), 0);
        ck_assert_uint_eq(pieces(small[i]), 1);
    }
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), before);
    wt_ok(warm_testing_check(runtime, 1));
    wt_free_all(small, SMALL);
    wt_ok(warm_thread_release(runtime)); /* what the thread caches */
    ck_assert_ptr_eq(wt_pinned(runtime, 5 * MIB), block);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), before);
    wt_free(block);
    end();
}

/* A small block in one piece keeps that piece, and no other. */
WT_LOOP_TEST(test_B11_B19_pieces_are_returned_one_by_one, WAYS)
{
    size_t released = 0;
    char *block, *small;

    begin(_i);
    block = wt_pinned(runtime, 4 * MIB + PAGE);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 17);
    wt_free(block);
    small = wt_pinned(runtime, 200 * KIB);
    ck_assert(small >= block && small < block + 4 * MIB);
    for (size_t held = 4 * MIB; held > 256 * KIB; held -= 256 * KIB) {
        uint64_t before = wt_calls(runtime, "pinned_unregister");

        wt_ok(warm_pinned_trim(runtime, held, &released));
        ck_assert_uint_le(wt_pinned_stats(runtime).held_bytes.current, held);
        ck_assert_uint_le(wt_calls(runtime, "pinned_unregister") - before, 2);
        ck_assert_uint_gt(released, 0);
        wt_ok(warm_testing_check(runtime, 1));
    }
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 256 * KIB);
    memset(small, 1, 200 * KIB);
    wt_free(small);
    wt_ok(warm_thread_release(runtime));
    end();
}

/* Whatever was freed before, and cached by whom. */
WT_LOOP_TEST(test_B19_what_fits_into_a_piece_is_never_cut, WAYS)
{
    enum { LIVE = 16 };
    char *live[LIVE] = {NULL};
    uint64_t state = wt_seed();

    begin(_i);
    for (unsigned i = 0; i < wt_scaled(3000); i++) {
        char **slot = &live[wt_random(&state) % LIVE];
        size_t bytes = 100 * KIB + (size_t)(wt_random(&state) % (400 * KIB));

        wt_ok(warm_free(*slot));
        *slot = wt_pinned(runtime, bytes);
        wt_require(pieces(*slot) == 1 || bytes > 256 * KIB,
                   "%zu bytes in %zu pieces", bytes, pieces(*slot));
    }
    wt_free_all(live, LIVE);
    wt_ok(warm_thread_release(runtime));
    end();
}

/* ---- pages of the machine ------------------------------------------------ */

/* A piece that is no whole pages would take the start of the next one along,
 * if the machine's pages are larger than 4 KiB (`make check-page64`). */
WT_LOOP_TEST(test_B19_T5_a_piece_goes_back_without_its_neighbours, WAYS)
{
    enum { PIECES = 8, SMALL = 64 << 10 };
    unsigned char *part[PIECES * 4];
    void *block = NULL, *second = NULL;
    size_t bytes = 0, released = 0;
    int kept = -1;

    begin_with(&(warm_options){.size = sizeof(warm_options),
                               .pin = ways[_i],
                               .segment = 64 * KIB,
                               .pin_chunk = 250 * KIB});
    wt_ok(
        warm_pinned_alloc_rows(runtime, PIECES * 192 * KIB, 3 * PAGE, &block));
    wt_ok(warm_block_get_piece(block, 1, &second, &bytes));
    wt_free(block);
    wt_ok(warm_thread_release(runtime));
    for (int i = 0; i < PIECES * 3; i++) {
        part[i] = wt_pinned(runtime, SMALL);
        kept = part[i] == second ? i : kept;
    }
    ck_assert_int_ge(kept, 0);
    memset(part[kept], 7, SMALL);
    for (int i = 0; i < PIECES * 3; i++) {
        if (i != kept) {
            wt_free(part[i]);
        }
    }
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_ge(released, 192 * KIB);
    for (int i = 0; i < SMALL; i++) {
        ck_assert_uint_eq(part[kept][i], 7);
    }
    wt_free(part[kept]);
    end();
}

/* ---- rows --------------------------------------------------------------- */

static const size_t rows[] = {1,         PAGE,      3 * PAGE,
                              1000,      1024,      96,
                              12345,     256 * KIB, 256 * KIB + PAGE,
                              100 * KIB, SIZE_MAX,  SIZE_MAX - PAGE + 1};

/* The largest piece that is whole rows and whole pages; 0: there is none. */
static size_t piece_for(size_t row)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 256 * KIB;

    while (bytes > 0 && bytes % row != 0) {
        bytes -= page;
    }
    return bytes;
}

WT_LOOP_TEST(test_B19_no_piece_ends_inside_a_row, WAYS)
{
    begin(_i);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t row = rows[i], piece = piece_for(row), bytes = 0;
        void *block = NULL, *base = NULL;

        wt_ok(warm_pinned_trim(runtime, 0, NULL)); /* other cuts */
        if (piece == 0) {
            warm_space_stats before = wt_pinned_stats(runtime);

            wt_invalid(warm_pinned_alloc_rows(runtime, 5 * MIB, row, &block));
            wt_says("option pin_chunk", "pad the rows");
            ck_assert_ptr_null(block);
            ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current,
                              before.held_bytes.current);
        } else {
            wt_ok(warm_pinned_alloc_rows(runtime, 5 * MIB + 1, row, &block));
            check_pieces(block, 256 * KIB);
            for (size_t p = 0; p + 1 < pieces(block); p++) {
                wt_ok(warm_block_get_piece(block, p, &base, &bytes));
                ck_assert_uint_eq(bytes % row, 0);
                ck_assert_uint_eq(bytes, piece);
            }
            wt_free(block);
        }
        /* What fits into one piece needs no cut. */
        wt_ok(warm_pinned_alloc_rows(runtime, 256 * KIB, row, &block));
        ck_assert_uint_eq(pieces(block), 1);
        wt_free(block);
    }
    end();
}

WT_TEST(test_B19_rows_are_checked)
{
    void *block = &runtime;

    begin(0);
    wt_invalid(warm_pinned_alloc_rows(runtime, 5 * MIB, 0, &block));
    wt_says("rows of 0 bytes");
    wt_invalid(warm_pinned_alloc_rows(runtime, 5 * MIB, PAGE, NULL));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc_rows(runtime, SIZE_MAX, PAGE, &block));
    ck_assert_ptr_eq(block, &runtime);
    wt_ok(warm_pinned_alloc_rows(runtime, 0, PAGE, &block));
    ck_assert_ptr_null(block);
    end();
}

/* Memory with other cuts is not used, nor obtained again for each request. */
/* Records are made for the pieces of memory that there is. */
WT_TEST(test_B19_what_cannot_be_mapped_costs_no_records)
{
    size_t bytes = (size_t)1 << 46;
    void *pointer = &pointer, *mapped;
    uint64_t before;

    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped != MAP_FAILED) {
        munmap(mapped, bytes);
        return; /* the kernel promises any memory */
    }
    begin_with(&(warm_options){.size = sizeof(warm_options),
                               .pin_chunk = 64 * KIB,
                               .pinned_high = WARM_OFF});
    wt_free(wt_pinned(runtime, MIB));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    before = wt_metadata_calls();
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, bytes, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_le(wt_metadata_calls(), before + 4);
    end();
}

WT_LOOP_TEST(test_B2_B19_rows_are_served_from_pieces_of_whole_rows, WAYS)
{
    void *plain, *block = NULL, *again = NULL;
    uint64_t before;

    begin(_i);
    plain = wt_pinned(runtime, 4 * MIB);
    wt_free(plain);
    wt_ok(warm_pinned_alloc_rows(runtime, 4 * MIB, 3 * PAGE, &block));
    ck_assert_ptr_ne(block, plain);
    wt_free(block);
    before = wt_calls(runtime, "pinned_register");
    for (int i = 0; i < 5; i++) {
        wt_ok(warm_pinned_alloc_rows(runtime, 4 * MIB, 3 * PAGE, &again));
        ck_assert_ptr_eq(again, block);
        wt_free(again);
        /* And from those with more to a row. */
        wt_ok(warm_pinned_alloc_rows(runtime, 3 * MIB, PAGE, &again));
        wt_free(again);
        /* Neither replaces the other. */
        plain = wt_pinned(runtime, 4 * MIB);
        wt_free(plain);
    }
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), before);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), 0);
    end();
}

/* Two blocks in three pieces: the second begins in the middle of one. */
WT_LOOP_TEST(test_B19_a_block_may_begin_inside_a_piece, WAYS)
{
    enum { BYTES = (5 << 20) - (100 << 10) };
    char *first, *second;
    void *piece = NULL, *device = NULL;
    size_t bytes = 0;

    begin_with(&(warm_options){
        .size = sizeof(warm_options), .pin = ways[_i], .pin_chunk = 4 * MIB});
    wt_ok(warm_device_alloc_uncached(runtime, 0, BYTES, &device));
    first = wt_pinned(runtime, 12 * MIB);
    wt_free(first);
    first = wt_pinned(runtime, BYTES);
    second = wt_pinned(runtime, BYTES);
    ck_assert_ptr_eq(second, first + BYTES);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), 3);
    ck_assert_uint_eq(pieces(second), 2);
    check_pieces(first, 4 * MIB);
    check_pieces(second, 4 * MIB);
    wt_ok(warm_block_get_piece(second, 0, &piece, &bytes));
    ck_assert_uint_eq(bytes, 8 * MIB - BYTES);
    memset(second, 5, BYTES);
    wt_ok(warm_copy_async(runtime, device, second, BYTES, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(warm_copy_async(runtime, first, device, BYTES, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(memcmp(first, second, BYTES), 0);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    wt_free(first);
    wt_ok(warm_poll(runtime));
    memset(second, 6, BYTES);
    wt_free(second);
    end();
}

/* ---- copies ------------------------------------------------------------- */

static void fill(char *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (char)(seed + i * 7 + (i >> 8));
    }
}

static uint64_t seed;

static size_t pick(size_t below)
{
    return (size_t)(wt_random(&seed) % below);
}

/* A copy that the program queues itself is refused, so that the test would fail
 * if the library did not split. */
WT_LOOP_TEST(test_B16_B19_copies_are_split_at_cuts, WAYS)
{
    enum { BYTES = 3 << 20 };
    char *from, *to, *check = malloc(BYTES);
    void *device = NULL;

    begin(_i);
    seed = wt_seed();
    wt_ok(warm_device_alloc_uncached(runtime, 0, BYTES, &device));
    from = wt_pinned(runtime, BYTES);
    to = wt_pinned(runtime, BYTES);
    fill(from, BYTES, seed);
    if (!wt_on_gpu()) {
        ck_assert_int_ne(
            warm_testing_copy(runtime, device, from, BYTES, stream), WARM_OK);
        wt_ok(warm_testing_copy(runtime, device, from, 256 * KIB, stream));
    }
    for (unsigned i = 0; i < wt_scaled(100); i++) {
        size_t at = pick(BYTES), bytes = 1 + pick(BYTES - at);
        size_t back = pick(BYTES - bytes + 1);

        memset(to, 0, BYTES);
        wt_ok(warm_copy_async(runtime, device, from + at, bytes,
                              WARM_COPY_TO_DEVICE, stream));
        wt_ok(warm_copy_async(runtime, to + back, device, bytes,
                              WARM_COPY_TO_HOST, stream));
        wt_ok(warm_stream_synchronize(runtime, stream));
        memset(check, 0, BYTES);
        memcpy(check + back, from + at, bytes);
        wt_require(memcmp(check, to, BYTES) == 0, "%zu bytes from %zu to %zu",
                   bytes, at, back);
    }
    wt_invalid(warm_copy_async(runtime, device, from + 1, BYTES,
                               WARM_COPY_TO_DEVICE, stream));
    wt_says("passes the end of its source");
    free(check);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    wt_free(from, to);
    end();
}

/* Cuts on both sides, at different places. */
WT_LOOP_TEST(test_B16_B19_rows_are_split_at_cuts, WAYS)
{
    enum { BYTES = 2 << 20 };
    char *from, *to, *check = malloc(BYTES);

    begin(_i);
    seed = wt_seed();
    from = wt_pinned(runtime, BYTES);
    to = wt_pinned(runtime, BYTES);
    fill(from, BYTES, seed);
    for (unsigned i = 0; i < wt_scaled(100); i++) {
        size_t width = 1 + pick((size_t)1 << (1 + pick(20)));
        size_t from_pitch = width + pick(5000), to_pitch = width + pick(5000);
        size_t pitch = from_pitch > to_pitch ? from_pitch : to_pitch;
        size_t height = 1 + pick((BYTES - width) / pitch + 1);
        size_t most = (height - 1) * pitch + width;
        size_t at = pick(BYTES - most + 1), back = pick(BYTES - most + 1);

        memset(to, 0, BYTES);
        memset(check, 0, BYTES);
        for (size_t r = 0; r < height; r++) {
            memcpy(check + back + r * to_pitch, from + at + r * from_pitch,
                   width);
        }
        wt_ok(warm_copy_2d_async(runtime, to + back, to_pitch, from + at,
                                 from_pitch, width, height, stream));
        wt_ok(warm_stream_synchronize(runtime, stream));
        wt_require(memcmp(check, to, BYTES) == 0,
                   "%zu rows of %zu, pitches %zu and %zu, from %zu to %zu",
                   height, width, from_pitch, to_pitch, at, back);
    }
    free(check);
    wt_free(from, to);
    end();
}

/* As few calls as can be: whole rows between two cuts by one. */
WT_TEST(test_B19_rows_between_two_cuts_are_one_call)
{
    void *block = NULL, *device = NULL;
    uint64_t rows_before, before;

    begin(1);
    wt_ok(warm_device_alloc_uncached(runtime, 0, MIB, &device));
    wt_ok(warm_pinned_alloc_rows(runtime, MIB, KIB, &block));
    rows_before = wt_calls(runtime, "copy_2d");
    before = wt_calls(runtime, "copy");
    wt_ok(warm_copy_2d_async(runtime, device, KIB, block, KIB, 1000, 1024,
                             stream));
    ck_assert_uint_eq(wt_calls(runtime, "copy_2d") - rows_before, 4);
    /* A row that is all of a piece. */
    wt_ok(warm_copy_2d_async(runtime, device, 256 * KIB, block, 256 * KIB,
                             256 * KIB, 4, stream));
    ck_assert_uint_eq(wt_calls(runtime, "copy_2d") - rows_before, 8);
    ck_assert_uint_eq(wt_calls(runtime, "copy") - before, 0);
    /* Rows of 100 KiB: 2.5 in a piece, so that every third is cut. */
    wt_ok(warm_copy_2d_async(runtime, device, 100 * KIB, block, 100 * KIB,
                             100 * KIB, 10, stream));
    ck_assert_uint_eq(wt_calls(runtime, "copy") - before, 6);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    wt_free(block);
    end();
}

WT_TEST(test_B16_B19_arguments_of_rows_are_checked)
{
    char *block, other[64] = {0};

    begin(0);
    block = wt_pinned(runtime, 1000);
    wt_ok(warm_copy_2d_async(runtime, NULL, 0, NULL, 0, 0, 7, stream));
    wt_ok(warm_copy_2d_async(runtime, NULL, 0, NULL, 0, 7, 0, stream));
    wt_invalid(warm_copy_2d_async(runtime, NULL, 8, other, 8, 7, 7, stream));
    wt_says("destination is null");
    wt_invalid(warm_copy_2d_async(runtime, other, 8, NULL, 8, 7, 7, stream));
    wt_invalid(warm_copy_2d_async(runtime, other, 6, block, 8, 7, 7, stream));
    wt_says("pitch of the destination", "smaller than a row");
    wt_invalid(warm_copy_2d_async(runtime, other, 8, block, 6, 7, 7, stream));
    wt_says("pitch of the source");
    wt_invalid(warm_copy_2d_async(runtime, other, SIZE_MAX / 2, block, 8, 7, 7,
                                  stream));
    wt_says("beyond any memory");
    wt_invalid(warm_copy_2d_async(runtime, other, 8, block, 256, 7, 5, stream));
    wt_says("passes the end of its source");
    ck_assert_uint_eq(wt_block_info(block).streams, 0);
    wt_ok(warm_copy_2d_async(runtime, other, 8, block, 200, 7, 5, stream));
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_free(block);
    end();
}

/* Memory of the program right before a block, or null: the place is taken. */
static char *map_before(const char *block, size_t bytes)
{
    void *want = (void *)((uintptr_t)block - bytes);
    void *at = mmap(want, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (at != MAP_FAILED && at != want) { /* valgrind does not know the flag */
        munmap(at, bytes);
        at = MAP_FAILED;
    }
    return at == MAP_FAILED ? NULL : at;
}

/* The program's own memory, then ours; CUDA takes neither by one call. */
WT_LOOP_TEST(test_B16_B19_ranges_that_are_ours_in_part_are_split, WAYS)
{
    enum { BYTES = 1 << 20, OWN = 64 << 10, BLOCKS = 50 };
    char *block = NULL, *own = NULL, *check = malloc(OWN + BYTES);
    void *device = NULL, *all[BLOCKS];
    int count;

    begin(_i);
    wt_ok(warm_device_alloc_uncached(runtime, 0, OWN + BYTES, &device));
    for (count = 0; count < BLOCKS && own == NULL; count++) {
        block = all[count] = wt_pinned(runtime, BYTES);
        own = map_before(block, OWN);
    }
    ck_assert(own != NULL || wt_on_gpu() || getenv("CK_EXCLUDE_TAGS") != NULL);
    if (own != NULL) {
        fill(own, OWN + BYTES, 5);
        memcpy(check, own, OWN + BYTES);
        wt_ok(warm_copy_async(runtime, device, own, OWN + BYTES,
                              WARM_COPY_TO_DEVICE, stream));
        ck_assert_uint_eq(wt_block_info(block).streams, 1);
        wt_ok(warm_stream_synchronize(runtime, stream));
        memset(own, 0, OWN + BYTES);
        wt_ok(warm_copy_async(runtime, own + 1, (char *)device + 1,
                              OWN + BYTES - 1, WARM_COPY_TO_HOST, stream));
        wt_ok(warm_stream_synchronize(runtime, stream));
        ck_assert_int_eq(memcmp(own + 1, check + 1, OWN + BYTES - 1), 0);
        memset(own, 0, OWN + BYTES);
        wt_ok(warm_copy_2d_async(runtime, own, 3000, device, 3000, 3000,
                                 (OWN + BYTES) / 3000, stream));
        wt_ok(warm_stream_synchronize(runtime, stream));
        ck_assert_int_eq(memcmp(own, check, (OWN + BYTES) / 3000 * 3000), 0);
        munmap(own, OWN);
    }
    free(check);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    wt_free_all(all, count);
    end();
}

/* One record of the stream holds all pieces back. */
WT_LOOP_TEST(test_B4_B19_no_piece_is_used_before_its_stream_has_passed, WAYS)
{
    char *block, *other[8];
    void *device = NULL;
    uint64_t before;
    wt_gate *gate;

    begin(_i);
    wt_ok(warm_device_alloc_uncached(runtime, 0, 2 * MIB, &device));
    block = wt_pinned(runtime, 2 * MIB);
    gate = wt_gate_hold(runtime, stream);
    wt_ok(warm_copy_async(runtime, device, block + MIB, 1, WARM_COPY_TO_DEVICE,
                          stream));
    wt_free(block);
    for (int i = 0; i < 8; i++) {
        other[i] = wt_pinned(runtime, i < 4 ? 200 * KIB : 2 * MIB);
        ck_assert(other[i] + 2 * MIB <= block || other[i] >= block + 2 * MIB ||
                  (i < 4 && other[i] + 200 * KIB <= block));
    }
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    before = wt_calls(runtime, "pinned_register");
    wt_free(wt_pinned(runtime, 2 * MIB));
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), before);
    wt_free_all(other, 8);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    wt_ok(warm_thread_release(runtime));
    end();
}

/* While a stream captures nothing can be unregistered: the pieces before one
 * that is refused are idle memory, which counts, serves requests, and goes
 * back later. */
WT_LOOP_TEST(test_B7_B19_a_refusal_beside_a_capture_loses_no_piece, 2 * WAYS)
{
    uint64_t count = _i < WAYS ? 4 : 1, before;
    void *block = &block;
    char *small;

    begin(_i % WAYS);
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_testing_fail(runtime, "pinned_register", count + 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 4 * MIB, &block));
    ck_assert_ptr_eq(block, &block);
    wt_ok(warm_testing_fail(runtime, "pinned_register", 0, 0));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current,
                      count * 256 * KIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes, count * 256 * KIB);
    wt_ok(warm_testing_check(runtime, 1));
    before = wt_calls(runtime, "pinned_register");
    small = wt_pinned(runtime, 200 * KIB);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), before);
    wt_free(small);
    wt_capture_drop(runtime, stream);
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"), count);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

/* Without memory for their records they leak, and do not count. */
WT_TEST(test_B7_B19_pieces_that_a_capture_holds_are_all_kept_or_none)
{
    uint64_t held = 0;

    for (uint64_t n = 1; n <= 40; n++) {
        void *block = &block;

        begin(0);
        wt_ok(warm_capture_begin(runtime, stream));
        wt_ok(warm_testing_fail(runtime, "pinned_register", 5, 1));
        warm_testing_fail_metadata(n, 1);
        wt_fails(WARM_OUT_OF_MEMORY,
                 warm_pinned_alloc(runtime, 4 * MIB, &block));
        warm_testing_fail_metadata(0, 0);
        held = wt_pinned_stats(runtime).held_bytes.current;
        ck_assert(held == 0 || held == MIB);
        wt_ok(warm_testing_check(runtime, 1));
        wt_capture_drop(runtime, stream);
        wt_ok(warm_thread_release(runtime));
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
        ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
        wt_stream_end(runtime, stream);
        wt_ok(warm_runtime_destroy(runtime, NULL));
    }
    ck_assert_uint_eq(held, MIB); /* the last one had all it needs */
}

/* Each part is a node; the graph runs as often as one likes. */
WT_LOOP_TEST(test_B7_B19_captured_copies_across_cuts_are_replayed, WAYS)
{
    enum { BYTES = 1 << 20 };
    char *from, *to, *rows_to;
    void *device = NULL;
    warm_graph graph = NULL;

    begin(_i);
    wt_ok(warm_device_alloc_uncached(runtime, 0, BYTES, &device));
    from = wt_pinned(runtime, BYTES);
    to = wt_pinned(runtime, BYTES);
    rows_to = wt_pinned(runtime, BYTES);
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_copy_async(runtime, device, from, BYTES, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(
        warm_copy_async(runtime, to, device, BYTES, WARM_COPY_TO_HOST, stream));
    wt_ok(warm_copy_2d_async(runtime, rows_to, 1000, device, 1000, 1000,
                             BYTES / 1000, stream));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    for (uint64_t round = 1; round < 4; round++) {
        fill(from, BYTES, round);
        memset(to, 0, BYTES);
        wt_ok(warm_graph_launch(runtime, graph, stream));
        wt_ok(warm_stream_synchronize(runtime, stream));
        ck_assert_int_eq(memcmp(from, to, BYTES), 0);
        ck_assert_int_eq(memcmp(from, rows_to, BYTES / 1000 * 1000), 0);
    }
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    wt_free(from, to, rows_to); /* captured: they stay until the end */
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_testing_check(runtime, 1));
    wt_ok(warm_runtime_destroy(runtime, NULL));
}

/* ---- what is there ------------------------------------------------------- */

/* A segment for all pieces while the block lies there; one each after that. */
WT_LOOP_TEST(test_C7_B19_a_snapshot_shows_a_block_over_its_pieces, WAYS)
{
    char *text = malloc(MIB), address[64];
    size_t needed = 0;
    char *block;

    begin(_i);
    block = wt_pinned(runtime, MIB);
    wt_ok(warm_snapshot_viz(runtime, text, MIB, &needed));
    snprintf(address, sizeof address, "\"address\":%zu,\"total_size\":1048576,",
             (size_t)block);
    wt_contains(text, address, "\"pieces\":4");
    snprintf(address, sizeof address, "{\"address\":%zu,\"size\":1048576,",
             (size_t)block);
    wt_contains(strstr(text, address), "\"exact_state\":\"live\"");
    wt_free(block);
    wt_ok(warm_snapshot_viz(runtime, text, MIB, &needed));
    ck_assert_ptr_null(strstr(text, "\"pieces\""));
    ck_assert_ptr_null(strstr(text, "\"exact_state\":\"live\""));
    for (int i = 0; i < 4; i++) {
        snprintf(address, sizeof address, "{\"address\":%zu,\"size\":262144,",
                 (size_t)block + (size_t)i * 256 * KIB);
        wt_contains(text, address);
    }
    free(text);
    end();
}

/* A runtime ends while such a block is in use: all of it stays usable. */
WT_LOOP_TEST(test_G2_B19_a_live_block_outlives_its_runtime, WAYS)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    char *block;
    void *base = NULL;
    size_t bytes;

    begin(_i);
    block = wt_pinned(runtime, MIB + PAGE);
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 1);
    ck_assert_uint_eq(report.live_bytes, MIB + MIB / 8);
    memset(block, 3, MIB + PAGE);
    for (size_t at = 0; at <= MIB; at += 64 * KIB) {
        wt_fails(WARM_RUNTIME_GONE,
                 warm_block_get_piece(block + at, 0, &base, &bytes));
    }
    wt_fails(WARM_RUNTIME_GONE, warm_free(block));
}

WT_TEST(test_G5_B19_a_child_can_use_none_of_it)
{
    char *block;
    int status = 0;
    pid_t child;

    begin(1);
    block = wt_pinned(runtime, MIB);
    child = fork();
    if (child == 0) {
        void *base = NULL;
        size_t bytes = 0;

        _exit(warm_block_get_piece(block, 0, &base, &bytes) == WARM_FORKED &&
                      warm_pinned_alloc_rows(runtime, MIB, PAGE, &base) ==
                          WARM_FORKED &&
                      warm_copy_2d_async(runtime, block, 8, block, 8, 8, 8,
                                         stream) == WARM_FORKED &&
                      warm_free(block) == WARM_FORKED && base == NULL
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    check_pieces(block, 256 * KIB);
    memset(block, 1, MIB);
    wt_free(block);
    end();
}

/* Threads that allocate, copy and free blocks of one piece and of many. */
static void work(void *argument, unsigned index)
{
    uint64_t state = index + 1;
    unsigned *wrong = argument;

    for (unsigned i = 0; i < wt_scaled(300); i++) {
        size_t bytes = 1 + (size_t)(wt_random(&state) % (3 * MIB));
        size_t row = i % 2 == 0 ? 1 : 512;
        void *pointer = NULL;
        char *block;

        if (warm_pinned_alloc_rows(runtime, bytes, row, &pointer) != WARM_OK) {
            wrong[index]++;
            continue;
        }
        block = pointer;
        block[0] = block[bytes - 1] = (char)index;
        if (bytes > 2 * MIB &&
            warm_copy_async(runtime, block, block + MIB, MIB, WARM_COPY_TO_HOST,
                            stream) != WARM_OK) {
            wrong[index]++;
        }
        wrong[index] += block[bytes - 1] != (char)index;
        wrong[index] += warm_free(block) != WARM_OK;
    }
}

WT_LOOP_TEST(test_B4_B19_threads_share_pieces, WAYS)
{
    enum { THREADS = 4 };
    unsigned wrong[THREADS] = {0};

    begin_with(&(warm_options){.size = sizeof(warm_options),
                               .pin = ways[_i],
                               .test = "arenas=2",
                               .pin_chunk = 256 * KIB});
    wt_threads(THREADS, work, wrong);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(wrong[i], 0);
    }
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
    end();
}
