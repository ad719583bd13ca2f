/* check_page_map_threads.c: threads whose first segments lie in the same GiB
 * make its leaf of the page map at the same time, and all write into the one
 * leaf that stays. ThreadSanitizer checks that a thread that finds another
 * thread's leaf is ordered after its zeroing. And look-ups of any addresses
 * while segments beside them come and go, and runs are cut and merged. */
#include "tests/unit/alloc/arena/arena_bed.h"

#include "alloc/block/page_map.h"
#include "alloc/space/space.h"

#include <pthread.h>

enum { THREADS = 4, LEAVES = 64 };

/* No address that the kernel gives a process; a leaf a GiB. */
static const uintptr_t nowhere = (uintptr_t)1 << 44;

static pthread_barrier_t together;
static wm_block record[THREADS];
static warm_status status[THREADS];

static void *page(unsigned leaf, unsigned index)
{
    return (void *)(nowhere +
                    ((uintptr_t)leaf << (WM_PAGE_SHIFT + WM_LEAF_SHIFT)) +
                    index * WM_PAGE);
}

static void make(void *argument, unsigned index)
{
    (void)argument;
    for (unsigned i = 0; i < LEAVES; i++) {
        warm_status one;

        pthread_barrier_wait(&together);
        one = wm_page_map_reserve(page(i, index), WM_PAGE);
        if (one == WARM_OK) {
            wm_page_map_set(page(i, index), &record[index], WM_ENTRY_RUN);
        } else {
            status[index] = one;
        }
    }
}

WT_TEST(test_B3_threads_that_make_one_leaf_all_write_into_it)
{
    pthread_barrier_init(&together, NULL, THREADS);
    wt_threads(THREADS, make, NULL);
    pthread_barrier_destroy(&together);
    for (unsigned k = 0; k < THREADS; k++) {
        wt_ok(status[k]);
        for (unsigned i = 0; i < LEAVES; i++) {
            ck_assert_ptr_eq(wm_block_from(page(i, k)), &record[k]);
            wm_page_map_set(page(i, k), NULL, WM_ENTRY_RUN);
            ck_assert_ptr_null(wm_block_from(page(i, k)));
        }
    }
}

/* ---- segments that come and go beside others ----------------------------- */

enum { PAGES = 4500, AROUND = 3 }; /* of WM_PAGE bytes; segments */

static struct {
    char *base;
    wm_arena stays, goes;
    wm_block *block[AROUND]; /* the one in the middle comes and goes */
    _Atomic bool over;
    _Atomic unsigned wrong; /* addresses that did not lead to their block */
} beside;

/* In pages: none begins at a granule, and each shares one with its neighbour.
 * More than 4 MiB each, so that they are whole pages. */
static const size_t borders[AROUND + 1] = {77, 1377, 2777, 4277};

static wm_block *add(wm_arena *arena, unsigned i)
{
    size_t bytes = (borders[i + 1] - borders[i]) * WM_PAGE;
    wm_block *block = NULL;

    if (wm_arena_grow(arena, NULL, beside.base + borders[i] * WM_PAGE, bytes,
                      bytes, &block) == WARM_OK) {
        atomic_store_explicit(&block->state, WM_BLOCK_LIVE,
                              memory_order_release);
    }
    return block;
}

static void come_and_go(void)
{
    for (unsigned turn = 0; turn < wt_scaled(3000); turn++) {
        wm_block *block = add(&beside.goes, 1);

        if (block == NULL) {
            beside.wrong++;
            break;
        }
        bed_give(block);
        for (wm_segment *s = bed_detach(&beside.goes, SIZE_MAX), *next;
             s != NULL; s = next) {
            next = s->next;
            wm_arena_released(&beside.goes, s);
        }
    }
    beside.over = true;
}

static void look(unsigned index)
{
    uint64_t random = wt_seed() + index;

    while (!beside.over) {
        size_t page = wt_random(&random) % PAGES;
        const char *address = beside.base + page * WM_PAGE + 9;
        const wm_block *found = wm_block_at(address), *block = NULL;

        if (page >= borders[0] && page < borders[1]) {
            block = beside.block[0];
        } else if (page >= borders[2] && page < borders[3]) {
            block = beside.block[2];
        }
        beside.wrong += block != NULL && found != block;
    }
}

static void work(void *argument, unsigned index)
{
    (void)argument;
    if (index == 0) {
        come_and_go();
    } else {
        look(index);
    }
}

WT_TEST(test_B3_look_ups_beside_a_segment_that_comes_and_goes)
{
    size_t bytes = PAGES * WM_PAGE + WM_GRANULE;
    char *map = mmap(NULL, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert(map != MAP_FAILED);
    beside.base = map + WM_GRANULE - (uintptr_t)map % WM_GRANULE;
    wm_arena_init(&beside.stays, NULL, 0);
    wm_arena_init(&beside.goes, NULL, 0);
    beside.block[0] = add(&beside.stays, 0);
    beside.block[2] = add(&beside.stays, 2);
    wt_threads(THREADS, work, NULL);
    ck_assert_uint_eq(beside.wrong, 0);
    bed_give(beside.block[0]);
    bed_give(beside.block[2]);
    for (wm_segment *s = bed_detach(&beside.stays, SIZE_MAX), *next; s != NULL;
         s = next) {
        next = s->next;
        wm_arena_released(&beside.stays, s);
    }
    wm_arena_fini(&beside.stays);
    wm_arena_fini(&beside.goes);
    munmap(map, bytes);
    ck_assert_int_eq(wm_meta_live(), 0);
}

/* ---- live runs beside runs that are split and merged --------------------- */

static struct {
    wm_arena arena;
    wm_block *live[6];
    _Atomic bool over;
    _Atomic unsigned wrong;
} cut;

static wm_block *cut_take(size_t bytes)
{
    wm_block *block = bed_try(&cut.arena, NULL, bytes);

    ck_assert_ptr_nonnull(block);
    atomic_store_explicit(&block->state, WM_BLOCK_LIVE, memory_order_release);
    return block;
}

/* Idle memory between the live runs is cut and merged again. */
static void cut_and_merge(void)
{
    uint64_t random = wt_seed();

    for (unsigned turn = 0; turn < wt_scaled(3000); turn++) {
        wm_block *block[8] = {NULL};

        for (int i = 0; i < 8; i++) {
            block[i] =
                bed_try(&cut.arena, NULL,
                        (size_t)WM_PAGE * (9 + wt_random(&random) % 700));
        }
        for (int i = 0; i < 8; i++) {
            size_t j = ((size_t)i * 3 + turn) % 8;

            if (block[j] != NULL) {
                bed_give(block[j]);
            }
        }
    }
    cut.over = true;
}

static void cut_work(void *argument, unsigned index)
{
    uint64_t random = wt_seed() + index;

    (void)argument;
    if (index == 0) {
        cut_and_merge();
        return;
    }
    while (!cut.over) {
        size_t i = wt_random(&random) % 6;
        wm_block *block = cut.live[i];
        size_t at = wt_random(&random) % block->bytes;

        cut.wrong += wm_space_find(block->base + at) != block;
    }
}

WT_LOOP_TEST(test_B3_look_ups_beside_runs_that_are_cut_and_merged, 2)
{
    size_t bytes = _i == 0 ? (size_t)15 << 20 : (size_t)60 << 20,
           all = bytes + WM_GRANULE;
    char *map = mmap(NULL, all, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *base = map + WM_GRANULE - (uintptr_t)map % WM_GRANULE;
    wm_block *gap[6], *none = NULL;

    cut.over = false;
    wm_arena_init(&cut.arena, NULL, 0);
    wt_ok(wm_arena_grow(&cut.arena, NULL, base, bytes, 0, &none));
    for (int i = 0; i < 6; i++) {
        gap[i] = cut_take((size_t)WM_PAGE * (i % 2 == 0 ? 100 : 600));
        cut.live[i] = cut_take((size_t)WM_PAGE * (i == 3 ? 700 : 11));
    }
    for (int i = 0; i < 6; i++) {
        bed_give(gap[i]);
    }
    wt_threads(THREADS, cut_work, NULL);
    ck_assert_uint_eq(cut.wrong, 0);
    for (int i = 0; i < 6; i++) {
        bed_give(cut.live[i]);
    }
    for (wm_segment *s = bed_detach(&cut.arena, SIZE_MAX), *next; s != NULL;
         s = next) {
        next = s->next;
        wm_arena_released(&cut.arena, s);
    }
    wm_arena_fini(&cut.arena);
    munmap(map, all);
    ck_assert_int_eq(wm_meta_live(), 0);
}
