/* check_lane.c: memory that one stream only may use, in an arena (rows C1,
 * C4), and segments of small requests, which large requests do not use (row
 * C3). No driver. */
/* memcheck: one process */
#include "tests/unit/alloc/arena/arena_bed.h"

#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"

#include <string.h>

#define MIB ((size_t)1 << 20)
enum { SEGMENT = 4 << 20, PART = 1 << 20 };

static wm_arena arena;
static wm_lane *a, *b;

static void setup(void)
{
    wm_arena_init(&arena, NULL, 0);
    a = wm_lane_make(&arena, 1);
    b = wm_lane_make(&arena, 2);
}

static void teardown(void)
{
    bed_end(&arena, 1);
}

static wm_block *try(wm_lane *lane, size_t bytes)
{
    return bed_try(&arena, lane, bytes);
}

static wm_block *grow(wm_lane *lane, size_t segment, size_t bytes)
{
    wm_block *block = bed_grow(&arena, lane, segment, bytes);

    ck_assert_ptr_nonnull(block);
    return block;
}

static wm_block *take(wm_lane *lane, size_t bytes)
{
    size_t run = wm_size_run_bytes(bytes);
    wm_block *block = try(lane, bytes);

    return block != NULL ? block
                         : grow(lane, run > SEGMENT ? run : SEGMENT, bytes);
}

static void pass(wm_lane *lane)
{
    bed_pass(&arena, lane, bed_puts(&arena, lane));
}

/* Four blocks that fill a segment. */
static void fill(wm_lane *lane, wm_block *block[4])
{
    for (int i = 0; i < 4; i++) {
        block[i] = take(lane, PART);
    }
    ck_assert_uint_eq(arena.stats.segments.current, 1);
}

static void give_all(wm_block *block[4])
{
    for (int i = 0; i < 4; i++) {
        bed_give(block[i]);
    }
}

WT_CASE("lane", .setup = setup, .teardown = teardown);

WT_TEST(test_freed_memory_is_its_streams_at_once)
{
    wm_block *block[4];

    fill(a, block);
    bed_give(block[1]);
    ck_assert_ptr_null(try(b, PART));
    ck_assert_ptr_null(try(NULL, PART));
    ck_assert_ptr_eq(try(a, PART), block[1]);
    give_all(block);
}

WT_TEST(test_others_have_it_once_the_stream_has_passed)
{
    wm_block *block[4];
    uint64_t puts;

    fill(a, block);
    bed_give(block[0]);
    puts = bed_puts(&arena, a);
    bed_give(block[2]);
    ck_assert(wm_lane_has_more(&arena, a));
    bed_pass(&arena, a, puts);
    ck_assert_ptr_eq(try(b, PART), block[0]);
    /* A run freed after that point is still the stream's. */
    ck_assert_ptr_null(try(b, PART));
    ck_assert(wm_lane_has_more(&arena, a));
    /* An earlier point, reported late, changes nothing. */
    bed_pass(&arena, a, puts - 1);
    ck_assert_ptr_null(try(b, PART));
    pass(a);
    ck_assert(!wm_lane_has_more(&arena, a));
    ck_assert_ptr_eq(try(b, PART), block[2]);
    give_all(block);
}

/* A run is freed to the lane that allocated it last. */
WT_TEST(test_memory_moves_with_its_user)
{
    wm_block *block[4];

    fill(a, block);
    bed_give(block[3]);
    pass(a);
    ck_assert_ptr_eq(try(b, PART), block[3]);
    bed_give(block[3]);
    ck_assert_ptr_null(try(a, PART));
    ck_assert_ptr_eq(try(b, PART), block[3]);
    give_all(block);
}

WT_TEST(test_runs_of_different_streams_stay_apart)
{
    wm_block *block[4];

    fill(a, block);
    bed_give(block[0]);
    pass(a);
    ck_assert_ptr_eq(try(b, PART), block[0]);
    bed_give(block[0]); /* b's */
    bed_give(block[1]); /* a's */
    bed_give(block[2]);
    ck_assert(wm_arena_check(&arena));
    ck_assert_ptr_null(try(b, 2 * MIB));
    ck_assert_ptr_null(try(a, 3 * MIB));
    ck_assert_ptr_eq(try(a, 2 * MIB), block[1]);
    bed_give(block[1]);
    pass(a);
    pass(b);
    ck_assert_ptr_eq(try(b, 3 * MIB), block[0]);
    bed_give(block[0]);
    bed_give(block[3]);
}

/* Runs of the stream's lane and common runs serve one request together. */
WT_TEST(test_own_and_common_neighbours_join_for_a_request)
{
    wm_block *block[4], *large;

    fill(a, block);
    bed_give(block[0]);
    bed_give(block[2]);
    pass(a);
    bed_give(block[1]); /* between two that are common */
    ck_assert_ptr_null(try(b, 2 * MIB));
    large = try(a, 3 * MIB);
    ck_assert_ptr_eq(large, block[0]);
    bed_give(large);
    /* All three are freed to lane a, whose work is not complete. */
    ck_assert_ptr_null(try(b, PART));
    pass(a);
    ck_assert_ptr_eq(try(b, 3 * MIB), block[0]);
    bed_give(block[0]);
    bed_give(block[3]);
}

WT_TEST(test_small_slots_are_shared_within_a_stream_only)
{
    wm_block *first = take(a, 2000), *second = take(b, 2000);

    ck_assert_ptr_ne(first->slab, second->slab);
    bed_give(first);
    ck_assert_ptr_eq(try(a, 2000), first);
    bed_give(first);
    bed_give(second);
    pass(a);
    ck_assert_ptr_null(try(NULL, SEGMENT));
    pass(b);
    first = try(NULL, SEGMENT);
    ck_assert_ptr_nonnull(first);
    bed_give(first);
}

WT_TEST(test_all_is_common_once_the_stream_has_ended)
{
    wm_block *block[4], *small = take(a, 2000), *slot = take(a, 2000), *other;

    for (int i = 0; i < 3; i++) {
        block[i] = take(a, PART);
    }
    bed_give(block[0]);
    bed_give(slot);
    wm_lanes_end(&arena, a);
    ck_assert(wm_arena_check(&arena));
    ck_assert_ptr_eq(try(b, PART), block[0]);
    /* And what is freed later, a whole run or a slot. */
    bed_give(block[1]);
    ck_assert_ptr_eq(try(b, PART), block[1]);
    ck_assert_ptr_eq(try(NULL, 2000), slot);
    bed_give(small);
    ck_assert_ptr_nonnull(arena.spare_lanes == NULL ? a : NULL);
    other = try(NULL, 2000);
    ck_assert_ptr_eq(other, small);
    bed_give(block[2]);
    /* The lane has no run left: its record is recycled. */
    ck_assert_ptr_eq(arena.spare_lanes, a);
    ck_assert_ptr_eq(wm_lane_make(&arena, 9), a);
    ck_assert_uint_eq(bed_puts(&arena, a), 0);
    bed_give(other);
    bed_give(slot);
    bed_give(block[0]);
    bed_give(block[1]);
}

/* A slab without idle slots is in no list when its lane ends. */
WT_TEST(test_full_slab_of_an_ended_stream_comes_back_common)
{
    unsigned slots = wm_slab_slots(wm_size_class(2000));
    wm_block *slot[64] = {NULL};

    for (unsigned i = 0; i < slots; i++) {
        slot[i] = take(a, 2000);
    }
    ck_assert_ptr_nonnull(slot[0]);
    ck_assert_uint_eq(slot[0]->slab->idle_mask, 0);
    wm_lanes_end(&arena, a);
    bed_give(slot[0]);
    ck_assert(wm_arena_check(&arena));
    ck_assert_ptr_eq(try(b, 2000), slot[0]);
    ck_assert_ptr_null(try(NULL, SEGMENT));
    for (unsigned i = 0; i < slots; i++) {
        bed_give(slot[i]);
    }
}

/* The driver, which waits for the device, frees it or refuses to. */
WT_TEST(test_segment_of_several_streams_goes_and_comes_back)
{
    uint64_t before;
    wm_block *block[4];
    wm_segment *segment;

    fill(a, block);
    bed_give(block[0]);
    pass(a);
    ck_assert_ptr_eq(try(b, PART), block[0]);
    give_all(block);
    segment = bed_detach(&arena, SIZE_MAX);
    ck_assert_ptr_nonnull(segment);
    ck_assert_ptr_null(arena.segments);
    before = wm_clock_ns();
    wm_arena_reattach(&arena, segment);
    ck_assert(wm_arena_check(&arena));
    ck_assert_uint_ge(segment->idle_since_ns, before); /* the last to go */
    /* The runs are in the same lanes as before. */
    ck_assert_ptr_null(try(b, 2 * MIB));
    ck_assert_ptr_eq(try(a, 3 * MIB), block[1]);
    bed_give(block[1]);
    /* A stream that ends meanwhile. */
    segment = bed_detach(&arena, SIZE_MAX);
    wm_lanes_end(&arena, a);
    wm_lanes_end(&arena, b);
    wm_arena_reattach(&arena, segment);
    ck_assert(wm_arena_check(&arena));
    ck_assert_ptr_nonnull(try(NULL, SEGMENT));
    bed_give(block[0]);
}

WT_TEST(test_small_requests_have_segments_of_their_own)
{
    wm_block *small, *large;

    arena.small_max = MIB;
    small = take(a, MIB);
    ck_assert(small->segment->small);
    ck_assert_ptr_null(try(a, MIB + 1));
    large = take(a, MIB + 1);
    ck_assert(!large->segment->small);
    ck_assert_ptr_eq(try(a, 5000)->segment, small->segment);
    bed_give(wm_block_at(small->segment->base + MIB));
    bed_give(large);
    bed_give(small);
}

/* An idle segment, but no other, serves requests of the other sort once it is
 * opened; and the first sort again, once it is opened for that. */
WT_TEST(test_B25_C3_an_idle_segment_changes_its_sort)
{
    wm_block *large, *rest, *small;

    arena.small_max = MIB;
    large = take(a, 2 * PART);
    rest = take(a, 2 * PART);
    bed_give(large);
    ck_assert(!wm_arena_open(&arena, a, PART, true)); /* a block is live */
    bed_give(rest);
    ck_assert_ptr_null(try(a, PART));
    ck_assert(!wm_arena_open(&arena, a, SEGMENT + 4096, true));
    ck_assert(!wm_arena_open(&arena, b, PART, true)); /* of another stream, */
    ck_assert_ptr_null(try(b, PART)); /* which it would have to wait for */
    ck_assert(wm_arena_check(&arena));
    ck_assert_uint_eq(arena.figures[0].held_bytes.current, SEGMENT);
    ck_assert_uint_eq(arena.figures[1].held_bytes.current, 0);
    small = try(a, PART);
    ck_assert_ptr_nonnull(small);
    ck_assert(!wm_arena_open(&arena, a, 2 * PART, true));
    bed_give(small);
    ck_assert(wm_arena_open(&arena, a, SEGMENT, true));
    large = try(a, SEGMENT);
    ck_assert_ptr_nonnull(large);
    bed_give(large);
    ck_assert_uint_eq(arena.stats.segments.current, 1);
    ck_assert_uint_eq(arena.figures[0].segments.current, 0);
    ck_assert_uint_eq(arena.figures[1].segments.current, 1);
    /* It was for both, one after the other. */
    ck_assert_uint_eq(arena.figures[1].segments.allocated, 2);
    ck_assert_uint_eq(arena.figures[1].segments.freed, 1);
}

/* The smallest that fits; one that was obtained for one large request, too. */
WT_TEST(test_B25_C3_the_smallest_idle_segment_changes_its_sort)
{
    enum { LARGE = 64 << 20 };
    wm_block *first, *second, *small;

    arena.small_max = MIB;
    first = grow(a, LARGE, LARGE);
    second = grow(a, 2 * SEGMENT, 2 * SEGMENT);
    bed_give(first);
    bed_give(second);
    ck_assert(wm_arena_open(&arena, a, PART, true));
    small = try(a, PART);
    ck_assert_uint_eq(small->segment->bytes, 2 * SEGMENT);
    ck_assert(wm_arena_open(&arena, a, PART, true));
    ck_assert(wm_arena_check(&arena));
    first = try(a, PART);
    second = bed_try(&arena, a, 2 * SEGMENT - PART);
    ck_assert_ptr_null(second); /* it is for small requests */
    bed_give(first);
    bed_give(small);
    ck_assert(wm_arena_open(&arena, a, LARGE, true));
    bed_give(try(a, LARGE));
    second = try(a, 2 * SEGMENT); /* which has been idle again */
    ck_assert_ptr_nonnull(second);
    bed_give(second);
}

static bool fences_due(void)
{
    return atomic_load_explicit(&arena.fences_due, memory_order_relaxed);
}

/* Counted from the least that was idle in lanes since the last fences. */
WT_TEST(test_C1_fences_are_due_when_lanes_have_grown)
{
    wm_block *block[4], *common;

    fill(a, block);
    common = grow(NULL, SEGMENT, SEGMENT);
    bed_give(common);
    ck_assert(!fences_due()); /* none are queued in this arena */
    wm_lane_note_fences(&arena, 2 * PART);
    bed_give(block[0]);
    ck_assert(!fences_due());
    bed_give(block[2]);
    ck_assert(fences_due());
    wm_lane_note_fences(&arena, 2 * PART);
    ck_assert(!fences_due());
    /* What the stream uses again does not count. */
    for (int i = 0; i < 8; i++) {
        block[0] = try(a, PART);
        bed_give(block[0]);
        ck_assert(!fences_due());
    }
    /* From the least on, which was one part. */
    bed_give(block[1]);
    ck_assert(fences_due());
    /* Nor does a run of twice the step, until as much is idle beside it: in all
     * lanes. */
    wm_lane_note_fences(&arena, 2 * PART);
    for (int i = 0; i < 8; i++) {
        common = try(b, SEGMENT);
        bed_give(common);
        ck_assert(!fences_due());
    }
    for (int i = 0; i < 3; i++) {
        block[i] = try(a, PART);
    }
    common = try(b, SEGMENT);
    for (int i = 0; i < 3; i++) {
        bed_give(block[i]);
    }
    ck_assert(fences_due());
    wm_lane_note_fences(&arena, 2 * PART);
    bed_give(common);
    ck_assert(!fences_due());
    /* What has become common has left the lanes. */
    wm_lane_note_fences(&arena, 2 * PART);
    pass(a);
    pass(b);
    ck_assert_uint_eq(arena.laned_bytes, 0);
    for (int i = 0; i < 3; i++) {
        block[i] = try(a, PART);
    }
    bed_give(block[3]);
    ck_assert(!fences_due());
    bed_give(block[1]);
    ck_assert(fences_due());
    bed_give(block[0]);
    bed_give(block[2]);
}

/* ---- a random run beside a plain model ---------------------------------- */

enum { LANES = 4, LIVE = 40, STEPS = 20000, PAGES = 64 };
#define WHOLE ((size_t)PAGES * 4096)

/* A page: the stream that used it last, and the number of the put when it was
 * freed. */
static struct page {
    int lane;
    uint64_t at;
} pages[PAGES];

static struct live {
    wm_block *block;
    int lane;
} live[LIVE];

static wm_lane *lane_of[LANES];
static uint64_t passed_of[LANES];
static char *whole;

static unsigned page_of(const char *address)
{
    return (unsigned)((size_t)(address - whole) / 4096);
}

/* A stream gets a page only if it used it last itself, or if the stream that
 * did has completed its work. */
static void model_take(struct live *entry, int lane, size_t bytes)
{
    wm_block *block = try(lane_of[lane], bytes);

    entry->block = block;
    entry->lane = lane;
    for (size_t at = 0; block != NULL && at < block->bytes; at += 4096) {
        const struct page *page = &pages[page_of(block->base + at)];

        wt_require(page->lane < 0 || page->lane == lane ||
                       page->at <= passed_of[page->lane],
                   "stream %d gets a page of stream %d, put %u, passed %u",
                   lane, page->lane, (unsigned)page->at,
                   (unsigned)passed_of[page->lane]);
    }
}

static void model_give(struct live *entry)
{
    char *base = entry->block->base;
    size_t bytes = entry->block->bytes;

    bed_give(entry->block);
    for (size_t at = 0; at < bytes; at += 4096) {
        pages[page_of(base + at)] =
            (struct page){entry->lane, bed_puts(&arena, lane_of[entry->lane])};
    }
    entry->block = NULL;
}

/* The stream has completed its work up to a point of the past. */
static void model_pass(int lane, uint64_t *random)
{
    uint64_t puts = bed_puts(&arena, lane_of[lane]);
    uint64_t back = wt_random(random) % 6;

    puts = back < puts ? puts - back : 0;
    if (puts > passed_of[lane]) {
        passed_of[lane] = puts;
    }
    bed_pass(&arena, lane_of[lane], puts);
}

WT_TEST(test_no_stream_gets_what_another_may_still_use)
{
    uint64_t random = wt_seed();
    unsigned served = 0;

    for (int i = 0; i < LANES; i++) {
        lane_of[i] = wm_lane_make(&arena, 3u + (unsigned)i);
        passed_of[i] = 0;
    }
    for (int i = 0; i < PAGES; i++) {
        pages[i].lane = -1;
    }
    whole = grow(lane_of[0], WHOLE, WHOLE)->base;
    bed_give(wm_block_at(whole));
    bed_pass(&arena, lane_of[0], 1);
    passed_of[0] = 1;
    for (unsigned step = 0; step < wt_scaled(STEPS); step++) {
        struct live *entry = &live[wt_random(&random) % LIVE];
        int lane = (int)(wt_random(&random) % LANES);

        if (wt_random(&random) % 8 == 0) {
            model_pass(lane, &random);
        } else if (entry->block != NULL) {
            model_give(entry);
        } else {
            size_t most = wt_random(&random) % 4 == 0 ? 16 : 3;
            size_t bytes = 4096 * (8 + wt_random(&random) % most);

            model_take(entry, lane, bytes);
            served += entry->block != NULL;
        }
        wt_require(step % 16 != 0 || wm_arena_check(&arena), "broken");
    }
    ck_assert_uint_gt(served, wt_scaled(STEPS) / 100);
    for (int i = 0; i < LIVE; i++) {
        if (live[i].block != NULL) {
            model_give(&live[i]);
        }
    }
    for (int i = 0; i < LANES; i++) {
        wm_lanes_end(&arena, lane_of[i]);
    }
    ck_assert_ptr_nonnull(try(NULL, WHOLE));
    bed_give(wm_block_at(whole));
}

/* Lanes to which runs were freed, each once, in the order of their first free.
 */
WT_TEST(test_C4_lanes_with_something_new_are_found)
{
    wm_block *block[3] = {take(a, PART), take(b, PART), take(b, PART)};
    wm_lane *third = wm_lane_make(&arena, 3);
    wm_block *last = take(third, PART);

    ck_assert_uint_eq(wm_lane_fresh(&arena), 0);
    ck_assert_ptr_null(wm_lane_take_fresh(&arena));
    for (int i = 2; i >= 0; i--) {
        bed_give(block[i]);
    }
    bed_give(last);
    ck_assert_uint_eq(wm_lane_fresh(&arena), 3);
    /* A lane that ends leaves the order of the others. */
    wm_lanes_end(&arena, a);
    ck_assert_uint_eq(wm_lane_fresh(&arena), 2);
    ck_assert_ptr_eq(wm_lane_take_fresh(&arena), b);
    wm_lane_renew(&arena, b);
    wm_lane_renew(&arena, b);
    ck_assert_ptr_eq(wm_lane_take_fresh(&arena), third);
    ck_assert_ptr_eq(wm_lane_take_fresh(&arena), b);
    ck_assert_ptr_null(wm_lane_take_fresh(&arena));
    wm_lane_renew(&arena, third);
    wm_lanes_end(&arena, third);
    wm_lane_renew(&arena, b);
    ck_assert_ptr_eq(wm_lane_take_fresh(&arena), b);
    ck_assert_uint_eq(wm_lane_fresh(&arena), 0);
}

static uint64_t now_ns;

static uint64_t clock_of_test(void)
{
    return now_ns;
}

/* What is idle longest goes first, however late other streams may use it. */
WT_TEST(test_B11_C8_memory_is_idle_since_it_was_freed)
{
    wm_block *block = take(a, 2 * SEGMENT);
    wm_segment *segment = block->segment;

    wm_clock_set(clock_of_test);
    now_ns = 100;
    bed_give(block);
    now_ns = 200;
    pass(a);
    ck_assert_ptr_eq(segment->first->lane, &arena.common);
    ck_assert_uint_eq(segment->idle_since_ns, 100);
    wm_clock_set(NULL);
}

/* ---- all lanes of a stream, in sibling arenas ---------------------------- */

/* A stream has a lane in each sibling, and what it completes holds for all of
 * them. */
enum { ARENAS = 2 };

static wm_arena arenas[ARENAS];
static wm_lane *mine, *its; /* the first ones of two streams */

static void set_up_siblings(void)
{
    for (int i = 0; i < ARENAS; i++) {
        wm_arena_init(&arenas[i], NULL, 0);
    }
    wm_arena_join(arenas, ARENAS);
    mine = wm_lane_make(arenas, 1);
    its = wm_lane_make(arenas, 2);
}

static void tear_down_siblings(void)
{
    bed_end(arenas, ARENAS);
}

static wm_block *try_in(unsigned i, wm_lane *lane)
{
    return bed_try(&arenas[i], lane, PART);
}

/* From a new segment. */
static wm_block *grow_in(unsigned i, wm_lane *lane)
{
    wm_block *block = bed_grow(&arenas[i], lane, PART, PART);

    ck_assert_ptr_nonnull(block);
    return block;
}

static wm_lane *in(unsigned i, const wm_lane *lane)
{
    return atomic_load_explicit(&lane->by_shard[i], memory_order_relaxed);
}

WT_CASE("lanes", .setup = set_up_siblings, .teardown = tear_down_siblings);

WT_TEST(test_C1_lanes_are_made_by_who_takes)
{
    wm_block *block;

    ck_assert_ptr_eq(in(0, mine), mine);
    ck_assert_ptr_null(try_in(1, mine));
    ck_assert(!wm_arena_open(&arenas[1], mine, PART, true));
    ck_assert_ptr_null(in(1, mine));
    bed_give(grow_in(1, NULL));
    block = try_in(1, mine);
    ck_assert_ptr_eq(block->lane, in(1, mine));
    ck_assert_uint_eq(block->lane_id, 1);
    bed_give(block);
    ck_assert_ptr_null(try_in(1, its));
    ck_assert_ptr_null(in(1, its));
}

/* Without memory for a lane there is no block, and nothing changes. */
WT_TEST(test_C1_no_memory_for_a_lane)
{
    wm_block *block = grow_in(1, NULL);
    bool starved = false;

    bed_give(block);
    wm_meta_fail(1, true);
    ck_assert_ptr_null(
        wm_arena_take(&arenas[1], mine, PART, WM_SPLIT_ALLOW, &starved));
    wm_meta_fail(0, false);
    ck_assert(starved);
    ck_assert_ptr_null(in(1, mine));
    ck_assert(wm_arena_check(arenas));
    ck_assert_ptr_eq(try_in(1, mine), block);
    bed_give(block);
}

/* In each sibling: there is more until the stream has completed its work. */
WT_LOOP_TEST(test_C1_what_came_back_in_any_is_known, 2)
{
    wm_lane_point point;
    wm_block *block = grow_in((unsigned)_i, mine);

    ck_assert(!wm_lanes_have_room(arenas, mine, PART, PART, NULL));
    bed_give(block);
    ck_assert(!wm_lanes_have_room(arenas, its, PART, PART, NULL));
    ck_assert(wm_lanes_have_room(arenas, mine, PART, PART, NULL));
    wm_lanes_puts(arenas, mine, &point);
    wm_lanes_passed(arenas, mine, &point);
    ck_assert_ptr_eq(try_in((unsigned)_i, its), block);
    bed_give(block);
}

/* Only the lanes to which runs were freed since the point. */
WT_LOOP_TEST(test_C4_lanes_with_something_new_are_found_again_in_all, 2)
{
    static const wm_lane_point nothing;
    wm_block *block[ARENAS] = {grow_in(0, mine), grow_in(1, mine)};
    wm_lane_point point;

    bed_give(block[1 - _i]);
    wm_lanes_puts(arenas, mine, &point);
    bed_give(block[_i]);
    for (int i = 0; i < ARENAS; i++) {
        ck_assert_ptr_nonnull(wm_lane_take_fresh(&arenas[i]));
    }
    wm_lanes_renew(arenas, mine, &point);
    ck_assert_ptr_eq(wm_lane_take_fresh(&arenas[_i]), in((unsigned)_i, mine));
    ck_assert_uint_eq(wm_lane_fresh(&arenas[1 - _i]), 0);
    wm_lanes_renew(arenas, mine, &nothing);
    for (int i = 0; i < ARENAS; i++) {
        ck_assert_uint_eq(wm_lane_fresh(&arenas[i]), 1);
    }
}

/* What a request of the stream cannot use. */
WT_TEST(test_B25_idle_memory_of_other_streams_is_counted)
{
    wm_block *block[2] = {grow_in(0, mine), grow_in(1, its)};
    size_t bytes = block[1]->bytes;
    wm_lane_point point;

    ck_assert_uint_eq(wm_lanes_idle_beside(arenas, mine), 0);
    bed_give(block[0]);
    bed_give(block[1]);
    ck_assert_uint_eq(wm_lanes_idle_beside(arenas, mine), bytes);
    ck_assert_uint_eq(wm_lanes_idle_beside(arenas, NULL),
                      bytes + wm_lanes_idle_beside(arenas, its));
    wm_lanes_puts(arenas, its, &point);
    wm_lanes_passed(arenas, its, &point);
    ck_assert_uint_eq(wm_lanes_idle_beside(arenas, mine), 0);
}

/* A stream is retired: its lanes are closed, also one that is made later. */
WT_TEST(test_C4_all_lanes_are_closed)
{
    wm_block *block[2] = {grow_in(1, its), NULL};

    wm_lanes_close(arenas, its);
    wm_lanes_close(arenas, mine);
    block[1] = grow_in(1, mine);
    ck_assert(!wm_lane_has(&arenas[1], block[0], 2));
    ck_assert(!wm_lane_has(&arenas[1], block[1], 1));
    ck_assert_ptr_eq(block[1]->lane, in(1, mine));
    bed_give(block[0]);
    bed_give(block[1]);
}

/* A block allocated after all lanes of a stream have ended is in no stream's
 * order, whether the stream had a lane in that arena or not. */
WT_LOOP_TEST(test_C4_who_comes_after_the_end_is_in_nobodys_order, 4)
{
    unsigned i = (unsigned)_i / 2;
    wm_block *block;

    if (_i % 2 == 1) {
        bed_give(grow_in(i, mine));
    }
    wm_lanes_close(arenas, mine);
    wm_lanes_end(arenas, mine);
    block = grow_in(i, mine);
    ck_assert_ptr_eq(block->lane, &arenas[i].common);
    ck_assert_uint_eq(block->lane_id, 0);
    ck_assert(wm_arena_check(arenas));
    bed_give(block);
    ck_assert_ptr_eq(arenas[i].lanes, i == 0 ? its : NULL);
}

/* A lane's record is recycled, but not while a request holds the lane. */
WT_TEST(test_C4_a_lane_that_is_held_is_no_other_streams)
{
    wm_lane *third;
    wm_block *block;

    bed_give(grow_in(1, mine));
    wm_lane_hold(mine);
    wm_lanes_close(arenas, mine);
    wm_lanes_end(arenas, mine);
    third = wm_lane_make(arenas, 3);
    ck_assert_ptr_ne(third, mine);
    bed_give(try_in(1, third));
    ck_assert_ptr_null(try_in(1, mine));
    block = grow_in(0, mine);
    ck_assert_ptr_eq(block->lane, &arenas[0].common);
    bed_give(block);
    ck_assert(wm_arena_check(arenas));
    wm_lane_hold(mine);
    wm_lane_drop(&arenas[1], mine);
    ck_assert_ptr_ne(wm_lane_make(arenas, 4), mine);
    wm_lane_drop(&arenas[1], mine);
    ck_assert_ptr_eq(wm_lane_make(arenas, 5), mine);
}
