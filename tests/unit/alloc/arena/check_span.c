/* check_span.c: blocks that span the segments of an arena (row B19). */
/* memcheck: one process */
#include "arena_bed.h"

#include "alloc/arena/group.h"

#include <string.h>

/* Blocks of more than 4 MiB, which are whole pages. */
enum { PIECE = 2 << 20 };

static wm_arena_group group;
static wm_arena arena;

static void setup(void)
{
    memset(&group, 0, sizeof group);
    group.piece_bytes = PIECE;
    wm_arena_init(&arena, &group, 0);
}

static void teardown(void)
{
    ck_assert(wm_arena_check(&arena));
    wm_arena_fini(&arena);
    ck_assert_int_eq(wm_meta_live(), 0);
}

WT_CASE("span", .setup = setup, .teardown = teardown);

/* A region in pieces, and a block of so many bytes in it; null: no metadata. */
static wm_block *grow(char *base, size_t region, size_t piece, size_t bytes)
{
    wm_block *block = NULL;
    warm_status status =
        wm_arena_grow_pieces(&arena, base, region, piece, bytes, 0, &block);

    ck_assert(status == WARM_OK || status == WARM_OUT_OF_MEMORY);
    ck_assert_int_eq(status == WARM_OK && bytes > 0, block != NULL);
    ck_assert(wm_arena_check(&arena));
    return block;
}

static wm_block *take(size_t bytes)
{
    wm_block *block = bed_try(&arena, NULL, bytes);

    ck_assert(wm_arena_check(&arena));
    return block;
}

static void give(wm_block *block)
{
    bed_give(block);
    ck_assert(wm_arena_check(&arena));
}

/* The block that holds the address, or null. */
static wm_block *holder(const char *address)
{
    wm_block *block = wm_block_at(address);

    return block != NULL && (size_t)(address - block->base) < block->bytes
               ? block
               : NULL;
}

/* Every address of the block leads to it. */
static void check_lookups(wm_block *block, size_t piece)
{
    for (size_t at = 0; at < block->bytes; at += 4096 - 7) {
        wt_require(holder(block->base + at) == block, "byte %zu", at);
    }
    ck_assert_ptr_eq(holder(block->base + block->bytes - 1), block);
    ck_assert_ptr_ne(holder(block->base + block->bytes), block);
    /* A piece's start is the start of no block that is live. */
    for (size_t at = piece; at < block->bytes; at += piece) {
        ck_assert_int_ne((int)wm_block_state(wm_block_from(block->base + at)),
                         WM_BLOCK_LIVE);
    }
}

/* Pieces smaller than a granule of the page map, as large, and larger. */
static const size_t piece_sizes[] = {256 << 10, 2 << 20,
                                     (2 << 20) + (256 << 10), 6 << 20};

WT_LOOP_TEST(test_B19_each_address_of_a_block_leads_to_it,
             sizeof piece_sizes / sizeof piece_sizes[0])
{
    size_t piece = piece_sizes[_i], count = (16 << 20) / piece + 2;
    size_t bytes = count * piece + 4096;
    char *base = bed_map(bytes);
    wm_block *block, *last, *small;

    group.piece_bytes = piece;
    block = grow(base, bytes, piece, bytes);
    ck_assert_ptr_eq(block->base, base);
    ck_assert_uint_eq(arena.stats.segments.current, count + 1);
    check_lookups(block, piece);
    give(block);
    ck_assert_ptr_ne(holder(base + piece), block);
    /* The rest of the last piece serves others meanwhile. */
    block = take((count - 2) * piece + 8192);
    ck_assert_ptr_eq(block->base, base);
    check_lookups(block, piece);
    last = take(piece);
    small = take(piece / 2);
    ck_assert_ptr_eq(small->base, block->base + block->bytes);
    ck_assert_ptr_eq(holder(small->base), small);
    ck_assert_ptr_eq(holder(small->base - 1), block);
    give(block);
    ck_assert_ptr_eq(holder(small->base), small);
    give(small);
    give(last);
    ck_assert_uint_eq(atomic_load(&arena.idle_segments), count + 1);
}

WT_TEST(test_B19_no_record_leaves_nothing_behind)
{
    char *base = bed_map(8 * PIECE);
    unsigned failed = 0;

    for (uint64_t n = 1; n < 40; n++) {
        wm_block *block;

        wm_arena_fini(&arena);
        wm_arena_init(&arena, &group, 0);
        warm_testing_fail_metadata(n, 1);
        block = grow(base, 7 * PIECE + 4096, PIECE, 7 * PIECE + 4096);
        warm_testing_fail_metadata(0, 0);
        failed += block == NULL;
        if (block == NULL) {
            ck_assert_ptr_null(arena.segments);
            ck_assert(!wm_page_map_any(base, 8 * PIECE));
            ck_assert_uint_eq(arena.stats.held_bytes.current, 0);
        } else {
            check_lookups(block, PIECE);
            give(block);
        }
    }
    ck_assert(failed > 2 && failed < 39);
}

/* A segment of another size may be the last of a block, and none but the last;
 * segments of half a piece or less are none at all. */
WT_TEST(test_B19_segments_that_adjoin_become_a_block)
{
    char *base = bed_map(16 * PIECE);
    const struct {
        size_t first, second, third;
        bool good;
    } tries[] = {{PIECE, PIECE, PIECE, true},
                 {PIECE, PIECE, 4096, true},
                 {PIECE, PIECE / 2, PIECE, false},
                 {PIECE * 3 / 4, PIECE * 3 / 4, PIECE * 3 / 4, true},
                 {PIECE / 2, PIECE / 2, PIECE / 2, false},
                 {PIECE * 3 / 4, PIECE, PIECE, false}};

    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        size_t bytes = tries[i].first + tries[i].second + tries[i].third;
        char *second = base + tries[i].first;
        wm_block *block = NULL;

        wm_arena_fini(&arena);
        wm_arena_init(&arena, &group, 0);
        wt_ok(wm_arena_grow(&arena, NULL, second, tries[i].second, 0, &block));
        wt_ok(wm_arena_grow(&arena, NULL, second + tries[i].second,
                            tries[i].third, 0, &block));
        wt_ok(wm_arena_grow(&arena, NULL, base, tries[i].first, 0, &block));
        block = take(bytes);
        ck_assert_int_eq(block != NULL, tries[i].good);
        if (block != NULL) {
            give(block);
        }
    }
}

/* The driver kept the pieces once; a block that has used them since is a reason
 * to ask it again. */
WT_TEST(test_B11_B19_pieces_that_were_used_may_go_back)
{
    char *base = bed_map(3 * PIECE);
    wm_block *block = grow(base, 3 * PIECE, PIECE, 3 * PIECE);

    give(block);
    for (wm_segment *s = arena.segments; s != NULL; s = s->next) {
        s->free_failed = true;
    }
    give(take(3 * PIECE));
    for (wm_segment *s = arena.segments; s != NULL; s = s->next) {
        ck_assert(!s->free_failed);
    }
}

/* What is wrong with a block in pieces is found by the check of the arena. */
WT_LOOP_TEST(test_B19_a_torn_block_is_found, 4)
{
    char *base = bed_map(3 * PIECE);
    wm_block *block = grow(base, 3 * PIECE, PIECE, 3 * PIECE);
    wm_segment *first = block->segment, *second = first->span_next;

    ck_assert(wm_arena_check(&arena));
    switch (_i) {
    case 0:
        first->span_next = NULL;
        break;
    case 1:
        first->span_next = second->span_next;
        break;
    case 2:
        atomic_store(&second->spanned_by, NULL);
        break;
    default:
        wm_block_set_bytes(block, 3 * PIECE - WM_PAGE);
        break;
    }
    ck_assert(!wm_arena_check(&arena));
    first->span_next = second;
    atomic_store(&second->spanned_by, block);
    wm_block_set_bytes(block, 3 * PIECE);
    give(block);
}

/* Blocks lie side by side, also in the middle of pieces, as in a region of one:
 * each begins in the piece in which the one before it ends. */
WT_TEST(test_B8_B19_blocks_share_the_piece_between_them)
{
    enum { BLOCKS = 5, BYTES = 3 * PIECE + 3 * 4096 };
    char *base = bed_map(16 * PIECE);
    wm_block *block[BLOCKS];

    give(grow(base, 16 * PIECE, PIECE, 16 * PIECE));
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = take(BYTES);
        ck_assert_ptr_nonnull(block[i]);
        ck_assert_ptr_eq(block[i]->base, base + (size_t)i * BYTES);
    }
    ck_assert_ptr_null(take(BYTES));
    for (int i = 0; i < BLOCKS; i++) {
        for (size_t at = 0; at < BYTES; at += 4096) {
            wt_require(holder(block[i]->base + at) == block[i], "%zu", at);
        }
    }
    /* The middle ones in any order: their neighbours stay. */
    give(block[2]);
    ck_assert_ptr_null(take(BYTES + 4096));
    block[2] = take(BYTES - 4096);
    ck_assert_ptr_eq(block[2]->base, base + 2 * BYTES);
    give(block[1]);
    give(block[3]);
    give(block[2]);
    block[1] = take(3 * BYTES);
    ck_assert_ptr_eq(block[1]->base, base + BYTES);
    /* Rows begin with a piece. */
    ck_assert_ptr_null(wm_arena_take_rows(&arena, BYTES, 4096, NULL));
    give(block[1]);
    block[1] = wm_arena_take_rows(&arena, BYTES, 4096, NULL);
    ck_assert_ptr_eq(block[1]->base, base + 4 * PIECE);
    give(block[1]);
    give(block[0]);
    give(block[4]);
    ck_assert_uint_eq(atomic_load(&arena.idle_segments), 16);
}

/* Of pieces that adjoin, those of whole rows. */
WT_TEST(test_B19_rows_take_pieces_of_whole_rows)
{
    char *base = bed_map(8 * PIECE);
    wm_block *block;

    give(grow(base, 4 * PIECE, PIECE, 4 * PIECE));
    ck_assert_ptr_null(
        wm_arena_take_rows(&arena, 4 * PIECE, (size_t)3 << 12, NULL));
    ck_assert_ptr_null(
        wm_arena_take_rows(&arena, 4 * PIECE, (size_t)PIECE * 2, NULL));
    block = wm_arena_take_rows(&arena, 4 * PIECE, 1 << 10, NULL);
    ck_assert_ptr_nonnull(block);
    check_lookups(block, PIECE);
    give(block);
    block = take(4 * PIECE); /* the rows were those of one request */
    ck_assert_ptr_nonnull(block);
    give(block);
}

/* Each piece goes alone, and the others stay usable. */
WT_TEST(test_B19_pieces_leave_one_by_one)
{
    char *base = bed_map(8 * PIECE);
    wm_purge purge = {.bytes = PIECE, .before_ns = UINT64_MAX};
    wm_segment *gone;

    give(grow(base, 4 * PIECE, PIECE, 4 * PIECE));
    gone = wm_arena_purge(&arena, &purge);
    ck_assert_ptr_nonnull(gone);
    ck_assert_ptr_null(gone->next);
    ck_assert_uint_eq(gone->bytes, PIECE);
    ck_assert(wm_segment_is_piece(gone));
    ck_assert_ptr_null(take(4 * PIECE));
    wm_arena_reattach(&arena, gone);
    give(take(4 * PIECE));
    purge = (wm_purge){.bytes = SIZE_MAX, .before_ns = UINT64_MAX};
    gone = wm_arena_purge(&arena, &purge);
    for (wm_segment *next; gone != NULL; gone = next) {
        next = gone->next;
        wm_arena_released(&arena, gone);
    }
    ck_assert_uint_eq(arena.stats.segments.current, 0);
    ck_assert_uint_eq(arena.stats.held_bytes.current, 0);
}

/* What nobody owns is known up to where a run begins. */
WT_TEST(test_B19_memory_outside_reaches_up_to_a_run)
{
    char *base = bed_map(64 << 20);
    char *at = base + (8 << 20) + 4096;
    wm_block *block = grow(at, 4 * PIECE, PIECE, 4 * PIECE);

    ck_assert_uint_eq(wm_page_map_reach(base, 64 << 20), (size_t)(at - base));
    ck_assert_uint_eq(wm_page_map_reach(base + 5, 100), 100);
    ck_assert_uint_eq(wm_page_map_reach(at - 1, 100), 1);
    ck_assert_uint_eq(wm_page_map_reach(at + 4 * PIECE, 32 << 20), 32 << 20);
    give(block);
    group.piece_bytes = 8 << 20;
    block = grow(base + (32 << 20), 24 << 20, 8 << 20, 24 << 20);
    ck_assert_uint_eq(wm_page_map_reach(base + (16 << 20), 48 << 20), 16 << 20);
    give(block);
}

/* Blocks of one piece and of several, at random; the walker looks after each
 * step, and no two blocks overlap. */
WT_TEST(test_B8_B19_random_blocks_do_not_overlap)
{
    enum { LIVE = 24, REGIONS = 40 };
    char *base = bed_map((size_t)REGIONS * 4 * PIECE), *end = base;
    wm_block *live[LIVE] = {NULL};
    uint64_t state = wt_seed();
    unsigned regions = 0;

    for (unsigned i = 0; i < wt_scaled(3000); i++) {
        unsigned slot = (unsigned)(wt_random(&state) % LIVE);
        size_t bytes = 1 + (size_t)(wt_random(&state) % (3 * PIECE));

        if (live[slot] != NULL) {
            give(live[slot]);
            live[slot] = NULL;
            continue;
        }
        live[slot] = take(bytes);
        if (live[slot] == NULL && regions < REGIONS) {
            size_t region = wm_size_run_bytes(bytes);

            live[slot] =
                region > PIECE ? grow(end, region, PIECE, bytes) : NULL;
            end += live[slot] != NULL ? region : 0;
            regions += live[slot] != NULL;
        }
        for (unsigned k = 0; live[slot] != NULL && k < LIVE; k++) {
            wt_require(k == slot || live[k] == NULL ||
                           live[k]->base + live[k]->bytes <= live[slot]->base ||
                           live[slot]->base + live[slot]->bytes <=
                               live[k]->base,
                       "step %u", i);
        }
    }
    for (unsigned k = 0; k < LIVE; k++) {
        if (live[k] != NULL) {
            give(live[k]);
        }
    }
}
