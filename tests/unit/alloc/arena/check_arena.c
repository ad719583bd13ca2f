/* check_arena.c: an arena and the page map, without a driver. */
/* memcheck: one process */
#include "tests/unit/alloc/arena/arena_bed.h"
#include "wt_host.h"

#include "alloc/block/page_map.h"
#include "alloc/space/space.h"
#include "runtime/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENT = 1 << 20 };

static wm_arena arena;

static void setup(void)
{
    wm_arena_init(&arena, NULL, 0);
}

static wm_segment *detach_old(uint64_t before_ns, size_t keep)
{
    wm_purge purge = {.bytes = SIZE_MAX, .keep = keep, .before_ns = before_ns};

    return wm_arena_purge(&arena, &purge);
}

/* Until at most target bytes are held. */
static void unmap_idle(size_t target)
{
    size_t held = arena.stats.held_bytes.current;

    bed_unmap(&arena, target == 0     ? SIZE_MAX
                      : held > target ? held - target
                                      : 0);
}

static warm_space_stats stats(void)
{
    warm_space_stats now = {.size = sizeof now};

    wm_arena_stats(&arena, &now);
    return now;
}

static void teardown(void)
{
    wm_clock_set(NULL);
    bed_end(&arena, 1);
}

/* A block, from a new segment if none fits; null without metadata. */
static wm_block *take(size_t bytes)
{
    size_t run = wm_size_run_bytes(bytes);
    bool starved = false;
    wm_block *block =
        wm_arena_take(&arena, NULL, bytes, WM_SPLIT_ALLOW, &starved);

    return block != NULL || starved
               ? block
               : bed_grow(&arena, NULL, run > SEGMENT ? run : SEGMENT, bytes);
}

WT_CASE("arena", .setup = setup, .teardown = teardown);

WT_TEST(test_B2_freed_block_is_handed_out_again)
{
    wm_block *block = take(100000);
    char *base = block->base;

    bed_give(block);
    block = take(100000);
    ck_assert_ptr_eq(block->base, base);
    ck_assert_uint_eq(arena.stats.segments.current, 1);
    ck_assert_uint_eq(arena.stats.cache_hits, 1);
    bed_give(block);
}

WT_TEST(test_B8_block_is_never_smaller_than_its_request)
{
    uint64_t random = wt_seed();

    for (int i = 0; i < 2000; i++) {
        size_t bytes = 1 + wt_random(&random) % 300000;
        wm_block *block = take(bytes);

        ck_assert_uint_ge(block->bytes, bytes);
        ck_assert_uint_eq(block->bytes, wm_size_round(bytes));
        bed_give(block);
    }
}

WT_TEST(test_B3_every_address_of_a_block_leads_to_it)
{
    static const size_t sizes[] = {1,     512,   4096,    4097,   5000,
                                   30000, 32768, 1 << 20, 9 << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        wm_block *low = take(sizes[i]);
        wm_block *block = take(sizes[i]);
        wm_block *high = take(sizes[i]);

        for (size_t at = 0; at < block->bytes; at += 509) {
            ck_assert_ptr_eq(wm_block_at(block->base + at), block);
        }
        ck_assert_ptr_eq(wm_block_at(block->base + block->bytes - 1), block);
        ck_assert_uint_eq((uintptr_t)block->base % 512, 0);
        bed_give(low);
        bed_give(high);
        bed_give(block);
    }
}

static unsigned slab_records(void)
{
    unsigned count = 0;

    for (const wm_slab *s = arena.all_slabs; s != NULL; s = s->next_made) {
        count++;
    }
    return count;
}

/* One class after the other: the arena keeps one slab record for each number of
 * slots, and every address of a block leads to it whatever class the record
 * served before. */
WT_TEST(test_B25_a_record_of_a_slab_serves_other_classes)
{
    bool seen[WM_SLAB_MOST + 1] = {false};
    unsigned sorts = 0;

    for (unsigned c = 0; wm_class_bytes(c) < WM_SLAB_LIMIT; c++) {
        unsigned slots = wm_slab_slots(c);
        wm_block *block[WM_SLAB_MOST];

        sorts += !seen[slots];
        seen[slots] = true;
        for (unsigned i = 0; i < slots; i++) {
            block[i] = take(wm_class_bytes(c));
            ck_assert_uint_eq(block[i]->bytes, wm_class_bytes(c));
        }
        for (unsigned i = 0; i < slots; i++) {
            for (size_t at = 0; at < block[i]->bytes; at += WM_GRAIN) {
                ck_assert_ptr_eq(wm_block_at(block[i]->base + at), block[i]);
            }
        }
        ck_assert(wm_arena_check(&arena));
        for (unsigned i = 0; i < slots; i++) {
            bed_give(block[i]);
        }
        ck_assert_uint_eq(slab_records(), sorts);
    }
    ck_assert_uint_eq(sorts, WM_SLAB_SORTS);
}

/* A slab's records and pages are made one by one, as its slots are used. */
WT_TEST(test_B25_a_slab_is_carved_slot_by_slot)
{
    wm_block *block[3];
    wm_slab *slab;

    for (unsigned i = 0; i < 3; i++) {
        block[i] = take(5000);
        slab = block[0]->slab;
        ck_assert_ptr_eq(block[i], &slab->slot[i]);
        ck_assert_uint_eq(slab->carved, i + 1);
        for (size_t at = 0; at < block[i]->bytes; at += WM_GRAIN) {
            ck_assert_ptr_eq(wm_block_at(block[i]->base + at), block[i]);
        }
        ck_assert_uint_eq(slab->slot[i + 1].state, WM_BLOCK_VOID);
        ck_assert_ptr_null(
            wm_space_find(slab->run->base + slab->run->bytes - 1));
    }
    bed_give(block[0]);
    ck_assert_ptr_eq(take(5000), block[0]); /* before the next is carved */
    ck_assert_uint_eq(slab->carved, 3);
    ck_assert(wm_arena_check(&arena));
    ck_assert_uint_eq(slab->carved, slab->slots);
    for (unsigned i = 0; i < 3; i++) {
        bed_give(block[i]);
    }
    ck_assert_uint_eq(slab->slot[slab->slots - 1].state, WM_BLOCK_VOID);
    ck_assert(wm_arena_check(&arena));
}

/* A field that has another value for a moment. */
#define tear(field, value)                                                     \
    do {                                                                       \
        void *place = &(field);                                                \
        char was[sizeof(field)];                                               \
                                                                               \
        memcpy(was, place, sizeof was);                                        \
        (field) = (value);                                                     \
        ck_assert_msg(!wm_arena_check(&arena), "not found: " #field);          \
        memcpy(place, was, sizeof was);                                        \
        ck_assert(wm_arena_check(&arena));                                     \
    } while (0)

/* What the other tests take for good is found if it is not. */
WT_TEST(test_the_walk_of_an_arena_finds_what_is_torn)
{
    static const enum wm_block_state states[] = {
        WM_BLOCK_VOID,    WM_BLOCK_IDLE,     WM_BLOCK_CACHED,
        WM_BLOCK_PENDING, WM_BLOCK_CAPTURED, WM_BLOCK_LOST};
    wm_lane *lane = &arena.common, other = {0};
    wm_bins *bins = lane->idle[WM_RUNS_LARGE].bins;
    wm_block *small = take(5000), *run = take(100000), *idle = take(100000);
    wm_block *last = take(100000);
    wm_segment *segment = run->segment;
    wm_slab *slab = small->slab;
    unsigned bin = wm_bins_index(idle->bytes);

    bed_give(idle);
    ck_assert(wm_arena_check(&arena));
    tear(slab->run, run);
    tear(slab->run->lane, &other);
    tear(slab->idle_mask, slab->idle_mask ^ 2);
    tear(slab->slot[1].base, slab->slot[1].base + WM_GRAIN);
    tear(idle->base, idle->base + WM_PAGE);
    tear(idle->lane, NULL);
    tear(idle->segment, NULL);
    tear(idle->previous_idle, idle);
    tear(segment->small, !segment->small);
    tear(bins->filled[bin / 64], bins->filled[bin / 64] ^ 1ULL << bin % 64);
    tear(bins->filled[0], bins->filled[0] ^ 1);
    tear(bins->bin[0], idle);
    tear(lane->idle[WM_RUNS_LARGE].count, 3);
    tear(lane->idle_bytes, lane->idle_bytes + 1);
    tear(lane->safe_until, lane->puts + 1);
    tear(lane->runs, lane->runs + 1);
    tear(arena.laned_bytes, 1);
    tear(arena.idle_segments, 1);
    tear(arena.out_bytes, arena.out_bytes + 1);
    tear(arena.stats.held_bytes.current, 1);
    tear(arena.stats.pending_bytes.current, 1);
    tear(arena.stats.lost_bytes, 1);
    tear(arena.stats.captured_bytes, 1);
    tear(arena.classes[0].live_bytes.current, 1);
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        tear(run->state, states[i]);
    }
    /* A slot that is found by a division only, and a run that is not. */
    wm_page_map_set(small->base, slab, WM_ENTRY_SLAB);
    ck_assert(!wm_arena_check(&arena));
    wm_page_map_set(small->base, small, WM_ENTRY_RUN);
    wm_page_map_set(run->base, last, WM_ENTRY_RUN);
    ck_assert(!wm_arena_check(&arena));
    wm_page_map_set(run->base, run, WM_ENTRY_RUN);
    bed_give(small);
    bed_give(run);
    bed_give(last);
}

/* Nor do those behind the cells of a record that serves a smaller segment. */
WT_TEST(test_B3_a_stale_segment_leads_nowhere)
{
    wm_block *block = bed_grow(&arena, NULL, 256 << 20, 256 << 20);
    wm_segment *segment;
    size_t words;
    char *far;

    if (block == NULL) {
        ck_abort_msg("no record");
    }
    segment = block->segment;
    words = segment->words;
    far = block->base + ((size_t)64 << wm_segment_cell_shift(segment));
    ck_assert_ptr_eq(wm_block_at(far), block);
    segment->words = 1;
    ck_assert_ptr_null(wm_block_at(far));
    segment->words = words;
    bed_give(block);
}

WT_TEST(test_B3_foreign_addresses_lead_nowhere)
{
    int local;
    void *heap = malloc(100);

    ck_assert_ptr_null(wm_block_at(NULL));
    ck_assert_ptr_null(wm_block_at(&local));
    ck_assert_ptr_null(wm_block_at(heap));
    ck_assert_ptr_null(wm_block_at((void *)UINTPTR_MAX));
    free(heap);
}

/* A look-up reads its entry of the page map before the record is recycled: it
 * may find a wrong slot, but reads nothing outside the record. */
WT_TEST(test_C10_stale_look_up_stays_inside_its_record)
{
    wm_block *old = take(600);
    wm_slab *slab = old->slab;
    char *stale = old->base;
    wm_block *wall, *small, *found;

    bed_give(old); /* the slab ends */
    wall = take(SEGMENT / 2);
    ck_assert_ptr_eq(wall->base, stale);
    small = take(600);
    ck_assert_ptr_eq(small->slab, slab);
    wm_page_map_set(stale, slab, WM_ENTRY_SLAB);
    found = wm_block_at(stale);
    ck_assert(found == NULL ||
              (found >= slab->slot && found < slab->slot + slab->slots));
    wm_page_map_set(stale, wall, WM_ENTRY_RUN);
    bed_give(wall);
    bed_give(small);
}

/* Between the look-up's read of the page map and of the record, the record is
 * recycled for another block: the look-up does not return that block. */
WT_TEST(test_B3_C10_stale_look_up_finds_no_other_block)
{
    wm_block *run = take(SEGMENT / 4), *block = take(SEGMENT / 4);
    char *gone = run->base;

    bed_give(run);
    block->state = WM_BLOCK_LIVE;
    ck_assert_ptr_eq(wm_space_find(block->base), block);
    ck_assert_ptr_eq(wm_space_find(block->base + block->bytes - 1), block);
    ck_assert_ptr_null(wm_space_find(gone));
    wm_page_map_set(gone, block, WM_ENTRY_RUN);
    ck_assert_ptr_null(wm_space_find(gone));
    wm_page_map_set(gone, run, WM_ENTRY_RUN);
    /* An inner address, whose run was merged meanwhile. */
    wm_page_map_set(block->base, block, WM_ENTRY_SLAB);
    ck_assert_ptr_null(wm_space_find(block->base + 2 * (size_t)WM_PAGE));
    wm_page_map_set(block->base, block, WM_ENTRY_RUN);
    ck_assert_ptr_eq(wm_block_at(block->base + 2 * (size_t)WM_PAGE), block);
    bed_give(block);
}

/* The granule that holds an address. */
static char *granule_of(char *address)
{
    return address - (uintptr_t)address % WM_GRANULE;
}

WT_TEST(test_C10_stale_look_up_reads_no_freed_segment)
{
    wm_block *block = take(12 * SEGMENT);
    wm_segment *segment = block->segment;
    char *middle = granule_of(block->base + 8 * SEGMENT);
    int64_t records;

    bed_give(block);
    records = wm_meta_live();
    unmap_idle(0);
    ck_assert_int_eq(wm_meta_live(), records);
    wm_page_map_cover(middle, WM_PAGE, segment);
    ck_assert_ptr_null(wm_block_at(middle));
    wm_page_map_cover(middle, WM_PAGE, NULL);
    /* The record is recycled; a segment too large for it gets a new one. */
    block = take(4 * SEGMENT);
    ck_assert_ptr_eq(block->segment, segment);
    ck_assert_int_eq(wm_meta_live(), records);
    middle = granule_of(block->base + 20 * (size_t)SEGMENT);
    wt_ok(wm_page_map_reserve(middle, 1));
    wm_page_map_cover(middle, WM_PAGE, segment); /* beyond its bytes */
    ck_assert_ptr_null(wm_block_at(middle));
    wm_page_map_cover(middle, WM_PAGE, NULL);
    bed_give(block);
    unmap_idle(0);
    block = take(32 * SEGMENT);
    ck_assert_ptr_ne(block->segment, segment);
    bed_give(block);
}

/* ---- large segments ------------------------------------------------------ */

/* Entries of the page map for a range; nothing else lies in its granules. */
static size_t entries_of(char *base, size_t bytes)
{
    size_t count = 0;

    for (char *at = granule_of(base); at < base + bytes; at += WM_GRANULE) {
        const wm_leaf *leaf = wm_page_leaf(at);

        count += leaf->start[wm_page_granule(at)] != 0;
        count += leaf->cover[wm_page_granule(at)] != 0;
        for (size_t i = 0; i < WM_GRANULE; i += WM_PAGE) {
            count += *wm_page_entry(wm_page_leaf(at), at + i) != 0;
        }
    }
    return count;
}

/* A segment of its own, mapped alone in its granules, `off` bytes behind the
 * start of one. Nobody touches the memory. */
static wm_block *take_alone(size_t bytes, size_t off, char **map, size_t *all)
{
    wm_block *block = NULL;
    char *base;

    *all = bytes + 3 * WM_GRANULE;
    *map = mmap(NULL, *all, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(*map != MAP_FAILED);
    base = granule_of(*map + WM_GRANULE - 1) + off;
    wt_ok(wm_arena_grow(&arena, NULL, base, bytes, bytes, &block));
    return block;
}

/* Detaches the segment, which is idle. */
static void end_alone(char *map, size_t all)
{
    wm_segment *segment = bed_detach(&arena, SIZE_MAX);

    ck_assert_ptr_null(segment->next);
    munmap(map, all);
    wm_arena_released(&arena, segment);
}

static const struct {
    size_t bytes, off;
} alone[] = {{(size_t)1 << 20, 0},
             {(size_t)2 << 20, 0},
             {(size_t)3 << 20, 9 * (size_t)WM_PAGE},
             {(size_t)16 << 20, 0},
             {((size_t)16 << 20) + WM_PAGE, 5 * (size_t)WM_PAGE},
             {(size_t)1 << 30, 0},
             {(size_t)1 << 30, (size_t)511 * WM_PAGE},
             {(size_t)8 << 30, 0}};

/* 2 KiB, and 8 bytes for each 2 MiB. */
WT_LOOP_TEST(test_B25_records_of_a_large_block_are_few,
             sizeof alone / sizeof alone[0])
{
    size_t bytes = alone[_i].bytes, all = 0, entries;
    wm_block *first = take(WM_PAGE), *block; /* its record, with 62 more */
    char *map = NULL, *base;
    int64_t before = wm_meta_live_bytes();

    block = take_alone(bytes, alone[_i].off, &map, &all);
    base = block->base;
    entries = entries_of(base, bytes);
    ck_assert_uint_le((size_t)(wm_meta_live_bytes() - before) + sizeof *block +
                          entries * sizeof(uintptr_t),
                      2048 + (bytes >> WM_GRANULE_SHIFT) * 8);
    /* Its start is no page's: the pages of the leaf take no memory. */
    ck_assert(bytes < WM_GRANULE ||
              *wm_page_entry(wm_page_leaf(base), base) == 0);
    ck_assert_ptr_eq(wm_block_from(base), block);
    ck_assert_ptr_eq(wm_block_at(base), block);
    for (size_t at = 0; at < bytes; at += bytes / 64 + 8191) {
        ck_assert_ptr_eq(wm_block_at(base + at), block);
    }
    ck_assert_ptr_eq(wm_block_at(base + bytes - 1), block);
    atomic_store(&block->state, WM_BLOCK_LIVE);
    ck_assert_ptr_eq(wm_space_find(base + bytes - 1), block);
    ck_assert_ptr_null(wm_space_find(base - 1));
    ck_assert_ptr_null(wm_space_find(base + bytes));
    ck_assert(wm_page_map_any(base, WM_PAGE));
    ck_assert(wm_page_map_any(base + bytes - WM_PAGE, 2 * (size_t)WM_PAGE));
    ck_assert(!wm_page_map_any(base + bytes, WM_GRANULE));
    ck_assert(!wm_page_map_any(base - WM_PAGE, WM_PAGE));
    ck_assert(wm_page_map_any(base - WM_PAGE, bytes + WM_GRANULE));
    bed_give(block);
    end_alone(map, all);
    bed_give(first);
    ck_assert(!wm_page_map_any(base, bytes));
    ck_assert_ptr_null(wm_block_at(base + bytes / 2));
}

/* What a runtime left behind is known to its last byte, until the driver
 * returns the address again. */
WT_LOOP_TEST(test_B25_a_large_block_left_behind_is_known, 2)
{
    size_t bytes = (size_t)40 << 20, all = 0;
    char *map = NULL, *base, *second;
    wm_block *block;

    base =
        take_alone(bytes, _i == 0 ? 0 : 9 * (size_t)WM_PAGE, &map, &all)->base;
    wm_arena_fini(&arena);
    setup();
    for (size_t at = 0; at < bytes; at += 999 * (size_t)WM_PAGE) {
        ck_assert(wm_is_left_behind(base + at));
        ck_assert_ptr_null(wm_block_at(base + at));
    }
    ck_assert(wm_is_left_behind(base + bytes - 1));
    ck_assert(!wm_is_left_behind(base - 1));
    ck_assert(!wm_is_left_behind(base + bytes));
    ck_assert(!wm_page_map_any(base, bytes));
    /* Returned in two parts, of other granules. */
    second = base + ((size_t)5 << 20);
    wt_ok(wm_arena_grow(&arena, NULL, base, (size_t)5 << 20, 0, &block));
    wt_ok(wm_arena_grow(&arena, NULL, second, (size_t)35 << 20, 0, &block));
    for (size_t at = 0; at < bytes; at += WM_PAGE) {
        ck_assert(!wm_is_left_behind(base + at));
        ck_assert_ptr_eq(wm_block_at(base + at)->base,
                         base + at < second ? base : second);
    }
    ck_assert(wm_arena_check(&arena));
    for (wm_segment *s = bed_detach(&arena, SIZE_MAX), *next; s != NULL;
         s = next) {
        next = s->next;
        wm_arena_released(&arena, s);
    }
    munmap(map, all);
}

/* The driver returns an address inside a granule that was left behind. */
WT_TEST(test_B25_a_segment_inside_a_granule_left_behind_is_known)
{
    size_t bytes = (size_t)8 << 20, all = 0;
    char *map = NULL, *base, *again;
    wm_block *block = NULL;

    base = take_alone(bytes, 0, &map, &all)->base;
    wm_arena_fini(&arena);
    setup();
    again = base + WM_GRANULE / 2;
    wt_ok(wm_arena_grow(&arena, NULL, again, 2 * WM_GRANULE, 2 * WM_GRANULE,
                        &block));
    for (size_t at = 0; at < 2 * WM_GRANULE; at += WM_PAGE) {
        ck_assert_ptr_eq(wm_block_at(again + at), block);
        ck_assert(!wm_is_left_behind(again + at));
    }
    ck_assert(wm_is_left_behind(base));
    ck_assert(wm_is_left_behind(again - 1));
    ck_assert(wm_is_left_behind(base + 3 * WM_GRANULE));
    bed_give(block);
    end_alone(map, all);
}

/* A look-up reads the entry of a large run behind its address; then the run is
 * merged, and its record recycled for a run before the address. */
WT_LOOP_TEST(test_B3_C10_stale_large_run_hides_no_block, 2)
{
    size_t bytes = (size_t)(_i == 0 ? 8 : 24) << 20, all = 0;
    wm_block *whole, *before, *block, *rest;
    char *map = NULL;
    wm_leaf *leaf;
    size_t granule;
    uintptr_t entry;

    whole = take_alone(bytes, 0, &map, &all);
    bed_give(whole);
    before = take(9 * (size_t)WM_PAGE);
    block = take(9 * (size_t)WM_PAGE);
    rest = block->after;
    ck_assert_ptr_eq(before->after, block);
    leaf = wm_page_leaf(rest->base);
    granule = wm_page_granule(rest->base);
    ck_assert_uint_eq(granule, wm_page_granule(block->base));
    entry = leaf->start[granule];
    ck_assert_ptr_eq((wm_block *)(entry - WM_ENTRY_RUN), rest);
    atomic_store(&leaf->start[granule], (uintptr_t)before | WM_ENTRY_RUN);
    for (size_t at = 0; at < block->bytes; at += WM_PAGE) {
        ck_assert_ptr_eq(wm_block_at(block->base + at), block);
    }
    atomic_store(&leaf->start[granule], entry);
    bed_give(before);
    bed_give(block);
    end_alone(map, all);
}

/* The driver maps memory of another process where a runtime left some behind.
 */
WT_TEST(test_B25_an_import_replaces_memory_left_behind)
{
    static const uint64_t mapping = 0;
    size_t bytes = (size_t)3 << 20, all = 0;
    char *map = NULL, *base, *first;

    base = take_alone(bytes, 9 * (size_t)WM_PAGE, &map, &all)->base;
    wm_arena_fini(&arena);
    setup();
    first = granule_of(base);
    ck_assert(!wm_page_map_any(first, 2 * WM_GRANULE));
    wm_page_map_fill(first, 2 * WM_GRANULE, &mapping);
    for (size_t at = 0; at < 2 * WM_GRANULE; at += WM_PAGE) {
        ck_assert(wm_is_imported(first + at));
        ck_assert(!wm_is_left_behind(first + at));
    }
    wm_page_map_fill(first, 2 * WM_GRANULE, NULL);
    munmap(map, all);
}

/* A segment of 300 MiB is cut into runs of all sizes, and merged again: the
 * start of a run stands at the granule or at the page, as its size is, and
 * every address leads to its run. */
WT_LOOP_TEST(test_B3_every_address_of_a_large_segment_leads_to_its_run, 2)
{
    enum { SLOTS = 120 };
    size_t bytes = ((size_t)300 << 20) + 7 * (size_t)WM_PAGE, all = 0;
    wm_block *block[SLOTS] = {NULL};
    uint64_t random = wt_seed();
    char *map = NULL;

    bed_give(take_alone(bytes, _i == 0 ? 0 : 77 * (size_t)WM_PAGE, &map, &all));
    for (unsigned step = 0; step < wt_scaled(6000); step++) {
        size_t slot = wt_random(&random) % SLOTS, at;
        bool failed = false;

        if (block[slot] != NULL) {
            bed_give(block[slot]);
            block[slot] = NULL;
        } else {
            block[slot] = wm_arena_take(
                &arena, NULL,
                1 + wt_random(&random) %
                        ((size_t)1 << (10 + wt_random(&random) % 15)),
                WM_SPLIT_ALLOW, &failed);
        }
        slot = wt_random(&random) % SLOTS;
        if (block[slot] != NULL) {
            at = wt_random(&random) % block[slot]->bytes;
            ck_assert_ptr_eq(wm_block_from(block[slot]->base), block[slot]);
            ck_assert_ptr_eq(wm_block_at(block[slot]->base + at), block[slot]);
        }
        ck_assert_msg(step % 50 != 0 || wm_arena_check(&arena),
                      "seed %lu step %u", (unsigned long)wt_seed(), step);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (block[i] != NULL) {
            bed_give(block[i]);
        }
    }
    end_alone(map, all);
}

WT_TEST(test_B3_addresses_above_48_bits_are_refused)
{
    const char *high = (const char *)((uintptr_t)1 << 48);

    wt_fails(WARM_UNSUPPORTED, wm_page_map_reserve(high, WM_PAGE));
    wt_fails(WARM_UNSUPPORTED, wm_page_map_reserve(high - WM_PAGE, 8192));
    wt_ok(wm_page_map_reserve(high - WM_PAGE, WM_PAGE));
    ck_assert_ptr_null(wm_block_at(high));
}

WT_TEST(test_neighbours_merge_on_both_sides)
{
    wm_block *block[8];

    for (int i = 0; i < 8; i++) {
        block[i] = take(SEGMENT / 8);
    }
    ck_assert_uint_eq(arena.stats.segments.current, 1);
    for (int i = 0; i < 8; i += 2) {
        bed_give(block[i]);
    }
    ck_assert(wm_arena_check(&arena));
    for (int i = 1; i < 8; i += 2) {
        bed_give(block[i]);
    }
    ck_assert(wm_arena_check(&arena));
    block[0] = take(SEGMENT);
    ck_assert_uint_eq(arena.stats.segments.current, 1);
    bed_give(block[0]);
}

WT_TEST(test_best_fit_takes_the_smallest_hole)
{
    wm_block *big = take(384 << 10);
    wm_block *wall = take(64 << 10);
    wm_block *small = take(128 << 10);
    wm_block *end = take(448 << 10);
    char *gap = small->base;

    bed_give(big);
    bed_give(small);
    small = take(112 << 10);
    ck_assert_ptr_eq(small->base, gap);
    bed_give(small);
    bed_give(wall);
    bed_give(end);
}

WT_TEST(test_B11_trim_takes_the_largest_idle_segments_first)
{
    wm_block *large = take(8 * SEGMENT);
    wm_block *small = take(SEGMENT);
    wm_block *live = take(SEGMENT);

    bed_give(large);
    bed_give(small);
    unmap_idle(3 * SEGMENT);
    ck_assert_uint_eq(arena.stats.held_bytes.current, 2 * SEGMENT);
    unmap_idle(0);
    ck_assert_uint_eq(arena.stats.held_bytes.current, SEGMENT);
    ck_assert_uint_eq(arena.stats.segments.current, 1);
    bed_give(live);
}

/* In any order of the arena's list. */
WT_TEST(test_B11_trim_goes_on_until_the_target_is_reached)
{
    wm_block *middle = take(2 * SEGMENT);
    wm_block *large = take(3 * SEGMENT);
    wm_block *small = take(SEGMENT);

    bed_give(middle);
    bed_give(large);
    bed_give(small);
    unmap_idle(2 * SEGMENT);
    ck_assert_uint_eq(arena.stats.held_bytes.current, SEGMENT);
    small = take(SEGMENT);
    large = take(3 * SEGMENT);
    middle = take(2 * SEGMENT);
    bed_give(middle);
    bed_give(large);
    bed_give(small);
    unmap_idle(2 * SEGMENT);
    ck_assert_uint_eq(arena.stats.held_bytes.current, SEGMENT);
}

static uint64_t now_ns;

static uint64_t clock_of_test(void)
{
    return now_ns;
}

WT_TEST(test_B11_only_segments_idle_for_long_go)
{
    wm_block *a, *b;
    wm_segment *segment;

    wm_clock_set(clock_of_test);
    a = take(SEGMENT);
    b = take(SEGMENT);
    now_ns = 100;
    bed_give(a);
    now_ns = 200;
    bed_give(b);
    segment = detach_old(99, 0);
    ck_assert_ptr_null(segment);
    segment = detach_old(150, 0);
    ck_assert_ptr_nonnull(segment);
    ck_assert_ptr_null(segment->next);
    ck_assert_uint_eq(segment->idle_since_ns, 100);
    wm_arena_reattach(&arena, segment);
    ck_assert(wm_arena_check(&arena));
}

/* A segment larger than what may go stays, and a smaller one goes. */
WT_TEST(test_B10_B11_what_is_to_be_kept_idle_does_not_decay)
{
    wm_block *a, *b;
    wm_segment *segment;

    wm_clock_set(clock_of_test);
    a = take(3 * SEGMENT);
    b = take(SEGMENT);
    bed_give(a);
    bed_give(b);
    ck_assert_ptr_null(detach_old(999, 4 * SEGMENT));
    ck_assert_ptr_null(detach_old(999, 3 * SEGMENT + 1));
    segment = detach_old(999, 2 * SEGMENT);
    ck_assert_ptr_nonnull(segment);
    ck_assert_ptr_null(segment->next);
    ck_assert_uint_eq(segment->bytes, SEGMENT);
    wm_arena_reattach(&arena, segment);
    segment = detach_old(999, SEGMENT);
    ck_assert_ptr_nonnull(segment);
    ck_assert_uint_eq(segment->bytes, 3 * SEGMENT);
    wm_arena_reattach(&arena, segment);
    ck_assert(wm_arena_check(&arena));
}

/* Fails the n-th allocation of a record, n = 1, 2, … until the flow passes:
 * nothing may be lost, and nothing broken, in between. */
WT_LOOP_TEST(test_B12_failing_records_lose_nothing, 2)
{
    for (uint64_t n = 1;; n++) {
        wm_block *block[40];
        int got = 0;

        wm_meta_fail(n, _i != 0);
        for (int i = 0; i < 40; i++) {
            block[got] = take((size_t)1000 * (size_t)(i * i + 1));
            got += block[got] != NULL;
        }
        wm_meta_fail(0, false);
        ck_assert(wm_arena_check(&arena));
        ck_assert_uint_eq(stats().live.current, (uint64_t)got);
        for (int i = 0; i < got; i++) {
            bed_give(block[i]);
        }
        ck_assert(wm_arena_check(&arena));
        unmap_idle(0);
        ck_assert_uint_eq(arena.stats.held_bytes.current, 0);
        if (got == 40) {
            ck_assert_uint_gt(n, 1);
            return;
        }
        wm_arena_fini(&arena);
        wm_arena_init(&arena, NULL, 0);
    }
}

/* Between wm_arena_retain_end() and wm_arena_put_retained() a block has no
 * owner: the walk allows for that, also while some of the blocks are put back.
 */
WT_TEST(test_E4_what_graphs_kept_is_accounted_for)
{
    wm_block *block[2] = {take(3000), take(200000)}, *chain;

    wm_arena_retain_begin(&arena);
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(&block[i]->captured, true, memory_order_relaxed);
        atomic_store_explicit(&block[i]->state, WM_BLOCK_FREEING,
                              memory_order_relaxed);
        ck_assert(wm_arena_retain(&arena, block[i]));
        ck_assert_uint_eq(arena.stats.captured, (uint64_t)i + 1);
        ck_assert(wm_arena_check(&arena));
    }
    chain = wm_arena_retain_end(&arena);
    ck_assert_uint_eq(arena.stats.captured, 0);
    for (int i = 0; i < 2; i++) {
        wm_block *next = chain->next_done;

        ck_assert(wm_arena_check(&arena));
        chain->next_done = NULL;
        wm_arena_put_retained(&arena, chain, WM_BLOCK_IDLE, false);
        chain = next;
    }
    ck_assert_ptr_null(chain);
    ck_assert(wm_arena_check_settled(&arena));
    ck_assert_uint_eq(arena.out_bytes, 0);
}

WT_TEST(test_random_steps_keep_every_invariant)
{
    enum { SLOTS = 300 };
    wm_block *block[SLOTS] = {NULL};
    uint64_t random = wt_seed();
    unsigned steps = wt_scaled(60000);

    for (unsigned step = 0; step < steps; step++) {
        size_t slot = wt_random(&random) % SLOTS;

        if (block[slot] != NULL) {
            memset(block[slot]->base, 0xdd, 1);
            bed_give(block[slot]);
            block[slot] = NULL;
        } else {
            size_t bytes = 1 + wt_random(&random) %
                                   ((size_t)1 << (wt_random(&random) % 22));

            block[slot] = take(bytes);
            ck_assert_uint_ge(block[slot]->bytes, bytes);
        }
        if (step % 500 == 0) {
            unmap_idle(wt_random(&random) % (8 * SEGMENT));
            ck_assert_msg(wm_arena_check(&arena), "seed %lu step %u",
                          (unsigned long)wt_seed(), step);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (block[i] != NULL) {
            bed_give(block[i]);
        }
    }
    ck_assert_uint_eq(stats().live_bytes.current, 0);
}

WT_TEST(test_B14_figures_are_exact_and_resets_apart)
{
    wm_block *a = take(5000); /* class of 5120 */
    wm_block *b = take(6 << 20);
    warm_class_stats of_class = {.size = sizeof of_class};
    warm_space_stats now = stats();

    ck_assert_uint_eq(now.live.current, 2);
    ck_assert_uint_eq(now.requested_bytes.current, 5000 + (6 << 20));
    ck_assert_uint_eq(now.live_bytes.current, 5120 + (6 << 20));
    ck_assert_uint_eq(now.held_bytes.current, SEGMENT + (6 << 20));
    ck_assert_uint_eq(now.idle_bytes, SEGMENT - 5120);
    wm_arena_class_stats(&arena, wm_size_class(5000), &of_class);
    ck_assert_uint_eq(of_class.live.current, 1);
    ck_assert_uint_eq(of_class.requested_bytes.current, 5000);
    ck_assert_uint_eq(of_class.live_bytes.current, 5120);
    bed_give(a);
    now = stats();
    ck_assert_uint_eq(now.live.allocated, 2);
    wm_arena_reset_totals(&arena);
    now = stats();
    ck_assert_uint_eq(now.live.allocated, 1);
    ck_assert_uint_eq(now.live.freed, 0);
    bed_give(b);
    wm_arena_class_stats(&arena, wm_size_class(5000), &of_class);
    ck_assert_uint_eq(of_class.requested_bytes.current, 0);
    ck_assert_uint_eq(of_class.live_bytes.current, 0);
}
