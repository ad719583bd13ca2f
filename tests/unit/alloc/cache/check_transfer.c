/* check_transfer.c: which frees go to transfer caches and which requests come
 * from there, without a lock; double frees; caches that are swept. */
/* memcheck: one process */
#include "wt.h"
#include "wt_economy.h"

#include "alloc/cache/cache_int.h"
#include "alloc/kinds/pinned.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KIB = 1 << 10, SIZE = 128 * KIB, BLOCKS = 4 };

static warm_runtime *runtime;

static wm_arena_group *group(void)
{
    return &runtime->pinned->space.group;
}

static wm_transfer_class *class_of(size_t bytes)
{
    return &group()->arenas[0].transfer_cache.of[wm_size_class(bytes)];
}

static wm_magazine_set *my_set(void)
{
    return atomic_load_explicit(&wm_window_current->magazines,
                                memory_order_relaxed);
}

static unsigned kept(size_t bytes)
{
    return wm_magazine_count(&my_set()->of[wm_size_class(bytes)]);
}

static void *take(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

static uint64_t live(void)
{
    return wt_pinned_stats(runtime).live.current;
}

static void set_up(void)
{
    runtime = wt_runtime_with(.device = "host", .keep = 1000);
}

static void tear_down(void)
{
    ck_assert_uint_eq(live(), 0);
    ck_assert(wm_space_check_settled(&runtime->pinned->space));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    wt_runtime_end(runtime);
}

/* The thread's budget is nothing from now on, for WM_ECONOMY_STEP uses. */
static void keep_nothing(void)
{
    my_set()->bytes_max = 0;
    my_set()->slow = 0;
    wm_room_bound(my_set());
}

/* Live blocks; nothing else is cached. */
static void take_all(size_t bytes, void *block[BLOCKS])
{
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = take(bytes);
    }
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    keep_nothing();
}

/* Another one in the transfer cache, which then has room for more. */
static void take_and_transfer(void *block[BLOCKS])
{
    void *first = take(SIZE);

    take_all(SIZE, block);
    wt_ok(warm_free(first));
    ck_assert_uint_eq(wm_transfer_count(class_of(SIZE)), 1);
    ck_assert_uint_eq(kept(SIZE), 0);
}

WT_CASE("transfer", .setup = set_up, .teardown = tear_down);

/* The one freed last serves first, a somewhat smaller request as well. */
WT_TEST(test_B25_what_a_thread_does_not_keep_changes_hands_without_a_lock)
{
    void *block[BLOCKS];
    uint64_t locks;

    take_and_transfer(block);
    locks = wm_lock_taken();
    wt_free(block[0], block[1]);
    ck_assert_uint_eq(wm_lock_taken(), locks);
    ck_assert_uint_eq(wm_transfer_count(class_of(SIZE)), 3);
    ck_assert_uint_eq(live(), BLOCKS - 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    keep_nothing();
    locks = wm_lock_taken();
    ck_assert_ptr_eq(take(SIZE), block[1]);
    ck_assert_ptr_eq(take(SIZE - 8 * KIB), block[0]);
    ck_assert_uint_eq(wm_lock_taken(), locks);
    ck_assert_uint_eq(wm_transfer_count(class_of(SIZE)), 1);
    ck_assert_uint_eq(live(), BLOCKS);
    wt_free_all(block, BLOCKS);
    ck_assert_uint_eq(wt_pinned_stats(runtime).requested_bytes.current, 0);
}

WT_TEST(test_B25_a_hit_does_not_wait_for_another_thread_in_the_class)
{
    void *block[BLOCKS];
    wm_window *window;

    take_and_transfer(block);
    window = wm_window_mine();
    ck_assert(wm_transfer_try(class_of(SIZE)));
    ck_assert(wm_biased_enter(&window->biased));
    ck_assert(!wm_magazine_push_any(my_set(), wm_block_at(block[0]), block[0],
                                    false));
    ck_assert_ptr_null(wm_magazine_pop_any(my_set(), SIZE, false));
    wm_biased_leave(&window->biased);
    wm_transfer_unlock(class_of(SIZE));
    wt_free_all(block, BLOCKS);
}

/* The largest block that passes through a transfer cache has 256 KiB while
 * little is needed. */
WT_LOOP_TEST(test_B25_large_blocks_are_merged, 2)
{
    static const size_t size[] = {256 * KIB, 320 * KIB};
    void *block[BLOCKS];

    take_all(size[_i], block);
    wt_free_all(block, BLOCKS);
    ck_assert_uint_eq(wm_transfer_count(class_of(size[_i])),
                      _i == 0 ? BLOCKS : 0);
}

/* A poll with option decay_ms leaves what threads pass to each other, and
 * merges what none has used for that time. */
WT_TEST(test_B11_decay_merges_what_is_not_used)
{
    void *block[BLOCKS];

    tear_down();
    runtime = wt_runtime_with(.device = "host", .keep = 1000, .decay_ms = 1000);
    take_and_transfer(block);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wm_transfer_count(class_of(SIZE)), 1);
    wm_cache_flush_idle(group());
    wm_cache_flush_idle(group());
    ck_assert_uint_eq(wm_transfer_count(class_of(SIZE)), 0);
    wt_free_all(block, BLOCKS);
}

/* ---- freed twice --------------------------------------------------------- */

WT_TEST(test_C10_a_block_in_a_transfer_cache_is_not_freed_again)
{
    void *block[BLOCKS];

    take_and_transfer(block);
    wt_ok(warm_free(block[0]));
    wt_fails(WARM_INVALID_POINTER, warm_free(block[0]));
    wt_ok(warm_thread_release(runtime));
    wt_fails(WARM_INVALID_POINTER, warm_free(block[0]));
    wt_free_all(&block[1], BLOCKS - 1);
}

/* What two threads leave that free one block at the same moment, the one by its
 * slow path, the other, a moment later, by a hit: an entry whose state is
 * another's. It is the entry taken next. */
static void leave_another_has(void *block[BLOCKS])
{
    take_and_transfer(block);
    wt_free_all(&block[1], BLOCKS - 1);
    wt_ok(warm_free(block[0]));
    atomic_store(&wm_block_at(block[0])->state,
                 wm_state_of_set(WM_BLOCK_LIVE, 0));
}

WT_TEST(test_C10_a_hit_drops_an_entry_that_another_has)
{
    void *block[BLOCKS], *other;

    leave_another_has(block);
    keep_nothing();
    other = take(SIZE);
    ck_assert_ptr_ne(other, block[0]);
    ck_assert_uint_eq(wt_pinned_stats(runtime).double_frees, 1);
    ck_assert_uint_eq(live(), 2);
    wt_ok(warm_free(other));
    wt_ok(warm_free(block[0])); /* the other thread's */
}

/* What is needed, and what callers have, is never less than nothing. */
WT_TEST(test_C10_B14_B25_a_merge_drops_an_entry_that_another_has)
{
    void *block[BLOCKS];
    warm_space_stats stats;

    leave_another_has(block);
    wm_arena_free(group()->arenas, wm_block_at(block[0]), WM_BLOCK_IDLE);
    wm_economy_look(group());
    ck_assert_uint_lt(atomic_load(&group()->economy.peak), 1 << 30);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.double_frees, 1);
    ck_assert_uint_eq(stats.held_bytes.current, 0);
}

/* ---- caches that are not used -------------------------------------------- */

struct other {
    pthread_barrier_t barrier;
    warm_status status;
};

/* Keeps a block for the main thread to sweep. */
static void *keep_one(void *argument)
{
    struct other *other = argument;
    void *block = NULL;

    other->status = warm_pinned_alloc(runtime, SIZE, &block);
    if (other->status == WARM_OK) {
        other->status = warm_free(block);
    }
    pthread_barrier_wait(&other->barrier);
    pthread_barrier_wait(&other->barrier);
    return NULL;
}

/* A period ends in which this thread's hits were the only uses; the next miss
 * sweeps. */
static void end_period(void)
{
    wt_ok(warm_free(take(SIZE)));
    atomic_fetch_add(&group()->economy.period, 2);
    atomic_store(&group()->economy.swept, false);
    wt_ok(warm_free(take(WM_CLASS_LIMIT + 1)));
    ck_assert(atomic_load(&group()->economy.swept));
}

/* Of a thread that only waits nothing is kept. That hits are no uses of a cache
 * (economy.h) does not matter. */
WT_TEST(test_B25_a_miss_sweeps_the_caches_of_threads_that_wait)
{
    struct other other = {.status = WARM_OK};
    pthread_t thread;
    uint64_t both;

    wt_peak_at(group(), 64 * WM_CLASS_LIMIT); /* growth is free */
    pthread_barrier_init(&other.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_one, &other), 0);
    pthread_barrier_wait(&other.barrier);
    wt_ok(other.status);
    wt_ok(warm_free(take(SIZE)));
    both = wt_pinned_stats(runtime).cached_bytes;
    ck_assert_uint_eq(both, 2 * kept(SIZE) * SIZE);
    end_period(); /* the first sweep sees that both were used */
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, both);
    end_period();
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, both / 2);
    ck_assert_uint_gt(kept(SIZE), 0);
    pthread_barrier_wait(&other.barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&other.barrier);
}
