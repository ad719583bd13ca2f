/* check_expand.c: which place of an address range an expandable segment claims
 * for new memory (row C8), in an arena without a driver: nobody touches the
 * memory. */
/* memcheck: one process */
#include "tests/unit/alloc/arena/arena_bed.h"

#include "alloc/arena/arena.h"
#include "alloc/block/page_map.h"

enum { UNIT = 1 << 20, UNITS = 4, BYTES = UNIT * UNITS };

static wm_arena arena;
static wm_lane *a, *b;
static char *mapped, *range; /* of it, at the start of a granule */

static void set_up(void)
{
    wm_arena_init(&arena, NULL, 0);
    arena.unit = UNIT;
    a = wm_lane_make(&arena, 1);
    b = wm_lane_make(&arena, 2);
    mapped = mmap(NULL, BYTES + WM_GRANULE, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(mapped != MAP_FAILED);
    range = mapped + (WM_GRANULE - (uintptr_t)mapped % WM_GRANULE) % WM_GRANULE;
    wt_ok(wm_expand_add(&arena, range, BYTES, UNIT));
}

/* Nothing is live, and all of it is common. */
static void tear_down(void)
{
    void *base = NULL;
    size_t bytes = 0;

    bed_unmap(&arena, SIZE_MAX);
    ck_assert(wm_expand_remove(&arena, &base, &bytes));
    ck_assert_ptr_eq(base, range);
    ck_assert_uint_eq(bytes, BYTES);
    munmap(mapped, BYTES + WM_GRANULE);
    ck_assert(wm_arena_check(&arena));
    wm_arena_fini(&arena);
    ck_assert_int_eq(wm_meta_live(), 0);
}

static wm_expansion claim(wm_lane *lane, size_t needed, size_t wanted)
{
    wm_expansion expansion = {.part = NULL};

    wt_ok(wm_expand_claim(&arena, lane, needed, wanted, &expansion));
    return expansion;
}

static void pass(wm_lane *lane)
{
    bed_pass(&arena, lane, bed_puts(&arena, lane));
}

/* A block of a unit that gets memory. */
static wm_block *take_unit(wm_lane *lane)
{
    wm_expansion expansion = claim(lane, UNIT, UNIT);
    wm_block *block = NULL;

    ck_assert(wm_expand_done(&arena, lane, &expansion, UNIT, &block));
    return block;
}

WT_CASE("expand", .setup = set_up, .teardown = tear_down);

WT_TEST(test_C8_a_claim_is_no_larger_than_its_hole)
{
    wm_expansion expansion = claim(NULL, UNIT, 2 * (size_t)BYTES);

    ck_assert_uint_eq(expansion.bytes, BYTES);
    ck_assert_uint_eq(expansion.room, BYTES);
    ck_assert_uint_eq(expansion.part->bytes, BYTES);
    wm_expand_undo(&arena, &expansion, false);
}

/* Units are smaller than a granule: once the unit at the start of a granule has
 * lost its memory, the granule has no cover. */
WT_TEST(test_C8_inner_addresses_behind_a_hole_at_the_start_of_a_granule)
{
    wm_expansion expansion = claim(NULL, UNIT, BYTES);
    wm_block *first = NULL, *hole, *last;
    wm_segment *pieces;

    ck_assert(wm_expand_done(&arena, NULL, &expansion, UNIT, &first));
    hole = bed_try(&arena, NULL, (size_t)2 * UNIT);
    last = bed_try(&arena, NULL, UNIT);
    ck_assert_ptr_eq(last->base, range + 3 * (size_t)UNIT);
    bed_give(hole);
    pieces = bed_detach(&arena, SIZE_MAX);
    for (size_t at = 0; at < UNIT; at += WM_PAGE) {
        ck_assert_ptr_eq(wm_block_at(first->base + at), first);
        ck_assert_ptr_eq(wm_block_at(last->base + at), last);
    }
    while (pieces != NULL) {
        wm_segment *next = pieces->next;

        wm_arena_released(&arena, pieces);
        pieces = next;
    }
    /* The first and the last unit: each is an extent. */
    for (size_t skip = 0; skip <= 2; skip++) {
        wm_extent extent[] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};

        ck_assert_uint_eq(wm_arena_extents(&arena, skip, extent, 3), 2 - skip);
        ck_assert_ptr_eq(extent[0].base, skip == 0   ? range
                                         : skip == 1 ? last->base
                                                     : NULL);
    }
    bed_give(first);
    bed_give(last);
}

/* An idle run is claimed with the gap behind it, or before it. If its stream
 * completes its work meanwhile, or ends, any stream may use the run after the
 * claim; else not. */
WT_LOOP_TEST(test_C4_C8_what_is_passed_meanwhile_is_everybodys, 6)
{
    bool passes = _i % 3 == 1, ends = _i % 3 == 2, behind = _i >= 3;
    wm_block *block = behind ? take_unit(NULL) : NULL;
    wm_expansion expansion;

    bed_give(take_unit(a));
    if (behind) {
        bed_give(block);
        bed_unmap(&arena, SIZE_MAX);
    }
    expansion = claim(a, (size_t)2 * UNIT, (size_t)2 * UNIT);
    ck_assert_ptr_nonnull(behind ? expansion.after : expansion.before);
    if (passes) {
        pass(a);
    } else if (ends) {
        wm_lanes_end(&arena, a);
    }
    wm_expand_undo(&arena, &expansion, false);
    ck_assert(wm_arena_check(&arena));
    block = bed_try(&arena, b, UNIT);
    ck_assert_int_eq(block != NULL, passes || ends);
    if (block != NULL) {
        bed_give(block);
    }
    pass(b);
    if (!ends) {
        pass(a);
    }
}
