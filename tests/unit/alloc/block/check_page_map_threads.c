/* check_page_map_threads.c: threads whose first segments lie in the same GiB
 * make its leaf of the page map at the same time, and all write into the one
 * leaf that stays. ThreadSanitizer checks that a thread that finds another
 * thread's leaf is ordered after its zeroing. */
#include "wt.h"

#include "alloc/block/page_map.h"

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
