/* check_transfer_cache.c: idle blocks of an arena that are not merged. */
/* memcheck: one process */
#include "tests/unit/alloc/arena/arena_bed.h"

#include <pthread.h>

enum { SEGMENT = 4 << 20, SIZE = 64 << 10, COUNT = SEGMENT / SIZE };

static wm_arena arena;
static unsigned size_class;

/* Blocks that magazines would cache. */
static wm_entry entry[COUNT];

static unsigned take(unsigned count)
{
    unsigned taken;

    wm_lock_acquire(&arena.lock);
    taken = wm_arena_take_batch_locked(
        &arena, &arena.common, size_class, count, false,
        wm_state_of_set(WM_BLOCK_CACHED, 7), entry);
    wm_lock_release(&arena.lock);
    return taken;
}

static void give(unsigned from, unsigned to)
{
    wm_lock_acquire(&arena.lock);
    for (unsigned i = from; i < to; i++) {
        wm_arena_put_locked(&arena, entry[i].block);
    }
    wm_lock_release(&arena.lock);
}

static wm_transfer_class *of_class(unsigned index)
{
    return &arena.transfer_cache.of[index];
}

static size_t bytes(void)
{
    return wm_transfer_bytes(&arena.transfer_cache);
}

/* Caches the first ones. */
static unsigned put(unsigned count)
{
    count = wm_transfer_put(of_class(size_class), entry, count);
    ck_assert(wm_arena_check(&arena));
    return count;
}

static size_t whole_runs(void)
{
    wm_segment *chain = bed_detach(&arena, SIZE_MAX);
    size_t bytes = chain != NULL ? chain->bytes : 0;

    if (chain != NULL) {
        wm_arena_reattach(&arena, chain);
    }
    return bytes;
}

static void setup(void)
{
    wm_arena_init(&arena, NULL, 0);
    /* A segment obtained for one request, and idle now. */
    bed_give(bed_grow(&arena, NULL, SEGMENT, SEGMENT));
    size_class = wm_size_class(SIZE);
    ck_assert_uint_eq(take(COUNT), COUNT);
}

/* All blocks are idle by now. */
static void teardown(void)
{
    bed_end(&arena, 1);
}

WT_CASE("transfer_cache", .setup = setup, .teardown = teardown);

WT_TEST(test_what_came_last_is_handed_out_first)
{
    const wm_state state = wm_state_of_set(WM_BLOCK_CACHED, 0);
    wm_entry out[4];

    ck_assert_uint_eq(put(3), 3);
    ck_assert_uint_eq(bytes(), 3 * SIZE);
    ck_assert_uint_eq(wm_arena_idle(&arena), 3 * SIZE);
    ck_assert_uint_eq(atomic_load(&entry[0].block->state), state);
    ck_assert_uint_eq(wm_transfer_take(of_class(size_class + 1), 4, out), 0);
    ck_assert_uint_eq(wm_transfer_take(of_class(size_class), 2, out), 2);
    ck_assert_ptr_eq(out[0].block, entry[2].block);
    ck_assert_ptr_eq(out[1].block, entry[1].block);
    ck_assert_ptr_eq(out[1].base, entry[1].block->base);
    ck_assert_uint_eq(atomic_load(&out[0].block->state), state);
    ck_assert_uint_eq(wm_transfer_take_try(of_class(size_class), 4, out), 1);
    ck_assert_uint_eq(wm_transfer_take_try(of_class(size_class), 4, out), 0);
    ck_assert_uint_eq(wm_arena_idle(&arena), 0);
    ck_assert(wm_arena_check(&arena));
    give(0, COUNT);
}

WT_TEST(test_it_keeps_no_more_than_it_has_room_for)
{
    enum { SMALL = 1024, MANY = WM_TRANSFER_CACHE_BLOCKS + 8 };
    static wm_entry small[MANY];
    const wm_state state = wm_state_of_set(WM_BLOCK_CACHED, 7);
    unsigned of_small = wm_size_class(SMALL);

    give(0, COUNT);
    wm_lock_acquire(&arena.lock);
    ck_assert_uint_eq(wm_arena_take_batch_locked(&arena, &arena.common,
                                                 of_small, MANY, false, state,
                                                 small),
                      MANY);
    wm_lock_release(&arena.lock);
    ck_assert_uint_eq(wm_transfer_put(of_class(of_small), small, 3), 3);
    ck_assert_uint_eq(wm_transfer_put(of_class(of_small), small + 3, MANY - 3),
                      WM_TRANSFER_CACHE_BLOCKS - 3);
    wm_lock_acquire(&arena.lock);
    for (unsigned i = WM_TRANSFER_CACHE_BLOCKS; i < MANY; i++) {
        wm_arena_put_locked(&arena, small[i].block);
    }
    wm_lock_release(&arena.lock);
    ck_assert(wm_arena_check(&arena));
}

/* Two adjacent blocks in the cache serve a request of twice their size. */
WT_TEST(test_a_request_that_finds_nothing_joins_them)
{
    bool starved = false;
    wm_block *block;

    ck_assert_uint_eq(put(2), 2);
    ck_assert_ptr_null(bed_try(&arena, NULL, 3 * SIZE));
    ck_assert_uint_eq(bytes(), 0);
    ck_assert_uint_eq(wm_arena_idle(&arena), 2 * SIZE);
    block = wm_arena_take(&arena, NULL, 2 * SIZE, WM_SPLIT_ALLOW, &starved);
    ck_assert_ptr_nonnull(block);
    ck_assert(!starved);
    bed_give(block);
    give(2, COUNT);
}

WT_TEST(test_a_small_request_finds_them_too)
{
    wm_block *block;

    ck_assert_uint_eq(put(1), 1);
    block = bed_try(&arena, NULL, 512);
    ck_assert_ptr_nonnull(block);
    bed_give(block);
    give(1, COUNT);
}

WT_TEST(test_idle_memory_is_looked_for_without_it)
{
    ck_assert_uint_eq(put(COUNT), COUNT);
    ck_assert_uint_eq(whole_runs(), SEGMENT);
    ck_assert_uint_eq(bytes(), 0);
}

WT_TEST(test_a_segment_of_its_own_is_found_without_it)
{
    wm_purge purge = {
        .bytes = SEGMENT, .before_ns = UINT64_MAX, .below = SEGMENT + 1};
    wm_segment *chain;

    ck_assert_uint_eq(put(COUNT), COUNT);
    chain = wm_arena_purge(&arena, &purge);
    ck_assert_ptr_nonnull(chain);
    wm_arena_reattach(&arena, chain);
}

WT_TEST(test_what_is_not_used_is_joined)
{
    ck_assert_uint_eq(put(COUNT), COUNT);
    wm_lock_acquire(&arena.lock);
    wm_arena_age_transfer_cache_locked(&arena);
    ck_assert_uint_eq(bytes(), SEGMENT);
    wm_arena_age_transfer_cache_locked(&arena);
    ck_assert_uint_eq(bytes(), 0);
    ck_assert(!wm_arena_empty_transfer_cache_locked(&arena));
    wm_lock_release(&arena.lock);
}

WT_TEST(test_without_metadata_it_takes_nothing)
{
    wm_meta_fail(1, false);
    ck_assert_uint_eq(put(3), 0);
    wm_meta_fail(0, false);
    ck_assert_uint_eq(put(3), 3);
    give(3, COUNT);
}

/* Room doubles with what is put, and no further: it is metadata. */
WT_TEST(test_room_is_made_for_what_is_put)
{
    static const struct {
        unsigned puts, room;
    } steps[] = {{3, 8}, {5, 8}, {1, 16}, {20, 32}};
    unsigned from = 0;

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        ck_assert_uint_eq(
            wm_transfer_put(of_class(size_class), entry + from, steps[i].puts),
            steps[i].puts);
        from += steps[i].puts;
        ck_assert_uint_eq(of_class(size_class)->room, steps[i].room);
    }
    give(from, COUNT);
}

enum { TURNS = 500000 };

static pthread_barrier_t both;

/* Takes an entry and puts it back, again and again. *arg: false if there was
 * none although there are two for two threads. */
static void *take_turns(void *arg)
{
    wm_transfer_class *c = of_class(size_class);
    bool *good = arg;

    (void)pthread_barrier_wait(&both);
    for (int i = 0; i < TURNS && *good; i++) {
        wm_entry mine;

        *good = wm_transfer_take(c, 1, &mine) == 1 &&
                wm_transfer_put(c, &mine, 1) == 1;
    }
    return NULL;
}

WT_TEST(test_threads_take_turns_in_a_class)
{
    bool good[2] = {true, true};
    pthread_t thread[2];

    ck_assert_uint_eq(put(2), 2);
    ck_assert_int_eq(pthread_barrier_init(&both, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&thread[i], NULL, take_turns, &good[i]),
                         0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        ck_assert(good[i]);
    }
    ck_assert_uint_eq(wm_transfer_count(of_class(size_class)), 2);
    ck_assert(wm_arena_check(&arena));
    give(2, COUNT);
}

/* Who meets a thread in the class does not wait for it, in a hit. */
WT_TEST(test_a_class_in_use_by_another_thread_is_passed_over)
{
    wm_entry out;

    ck_assert_uint_eq(put(1), 1);
    ck_assert(wm_transfer_try(of_class(size_class)));
    ck_assert(!wm_transfer_try(of_class(size_class)));
    ck_assert_uint_eq(wm_transfer_take_try(of_class(size_class), 1, &out), 0);
    wm_transfer_unlock(of_class(size_class));
    ck_assert_uint_eq(wm_transfer_take_try(of_class(size_class), 1, &out), 1);
    give(0, COUNT);
}

/* Another thread has freed it as well: the arena does not get it twice. */
WT_TEST(test_C10_an_entry_freed_by_another_thread_is_dropped)
{
    const wm_tally freed = {.blocks = -1, .bytes = -SIZE};

    ck_assert_uint_eq(put(2), 2);
    give(0, 1);
    wm_lock_acquire(&arena.lock);
    /* The thread that put it here has counted it as freed. */
    wm_arena_merge_tally_locked(&arena, size_class, &freed);
    ck_assert(wm_arena_empty_transfer_cache_locked(&arena));
    wm_lock_release(&arena.lock);
    ck_assert_uint_eq(wm_arena_idle(&arena), 2 * SIZE);
    ck_assert(wm_arena_check(&arena));
    give(2, COUNT);
}
