/* check_magazine.c: magazines: bounds, batches, frees by other threads, double
 * frees, counts, and flushes to the arena. */
/* memcheck: one process */
#include "wt.h"
#include "wt_economy.h"

#include "alloc/cache/magazine.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/meta.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 64 << 10, BLOCKS = 8 };

static warm_runtime *runtime;

/* So much has been needed that a thread may cache `bytes`: its part of the
 * budget is more. */
static void set_up_with(size_t bytes)
{
    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options),
                        .device = "host",
                        .keep = 1000,
                        .test = wt_list("magazine_blocks=%d:magazine_bytes=%zu",
                                        BLOCKS, bytes)});
    wt_peak_at(&runtime->pinned->space.group, 1 << 30);
}

static void set_up(void)
{
    set_up_with(2 << 20);
}

static void tear_down(void)
{
    wt_runtime_end(runtime);
}

static uint64_t obtained(void)
{
    return wt_pinned_stats(runtime).driver_alloc.count;
}

static void *take(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

static wm_magazine_set *my_set(void)
{
    return atomic_load_explicit(&wm_window_current->magazines,
                                memory_order_relaxed);
}

static wm_magazine *mine(size_t bytes)
{
    return &my_set()->of[wm_size_class(bytes)];
}

static unsigned kept(size_t bytes)
{
    return wm_magazine_count(mine(bytes));
}

/* The blocks of a set are its own. */
static void check_set(void)
{
    const wm_magazine_set *set = my_set();

    for (int i = 0; i < WM_CLASSES; i++) {
        const wm_magazine *m = &set->of[i];

        for (unsigned k = 0; k < wm_magazine_count(m); k++) {
            ck_assert_uint_eq(
                atomic_load(&wm_magazine_first(m)[k].block->state),
                set->cached);
        }
    }
    ck_assert(wm_cache_check(set->group));
    ck_assert_int_le(wm_magazine_set_bytes(set), set->bytes_max);
}

/* ---- hits ---------------------------------------------------------------- */

WT_CASE("magazine", .setup = set_up, .teardown = tear_down);

/* As a tracer wants it in the second run: every call takes its slow path, which
 * keeps blocks all the same. */
WT_LOOP_TEST(test_B2_a_hit_gives_the_block_freed_last, 2)
{
    void *a, *b;

    runtime->window_revoked |= _i == 1 ? WM_REVOKED_SLOW : 0;
    a = take(SIZE);
    b = take(SIZE);
    if (_i == 1) {
        ck_assert(!wm_biased_enter(&wm_window_mine()->biased));
    }
    wt_free(a, b);
    ck_assert_uint_eq(kept(SIZE), 2);
    ck_assert_ptr_eq(take(SIZE - 100), b);
    ck_assert_ptr_eq(take(SIZE), a);
    check_set();
    wt_free(a, b);
}

WT_TEST(test_what_a_hit_refuses)
{
    char *a = take(SIZE);
    warm_block_info info = {.size = sizeof info};

    wt_ok(warm_free(NULL));
    wt_fails(WARM_INVALID_POINTER, warm_free(a + 512));
    wt_fails(WARM_INVALID_POINTER, warm_free(a + 4096));
    wt_fails(WARM_INVALID_POINTER, warm_free(&info));
    wt_invalid(warm_pinned_alloc(runtime, SIZE, NULL));
    wt_ok(warm_free(a));
    wt_fails(WARM_INVALID_POINTER, warm_free(a)); /* it is cached */
    wt_fails(WARM_NOT_FOUND, warm_block_get_info(a, &info));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(a, NULL));
    ck_assert_uint_eq(kept(SIZE), 1);
    check_set();
}

/* What the window remembers of a block is a guess: it may be gone, be another
 * block's, or that of one that was freed. */
WT_TEST(test_a_block_is_found_whatever_the_window_guesses)
{
    char *a = take(SIZE), *b = take(SIZE), *c = NULL;
    wm_block **slot;

    wt_ok(warm_free(a)); /* the first ones came by misses */
    a = take(SIZE);
    slot = wm_window_pointer_slot(wm_window_mine(), a);
    ck_assert_ptr_eq(*slot, wm_block_at(a));
    *slot = NULL;
    wt_ok(warm_free(a));
    ck_assert_ptr_eq(take(SIZE), a);
    *slot = wm_block_at(b);
    wt_ok(warm_free(a));
    ck_assert_ptr_eq(*slot, wm_block_at(b));
    wt_fails(WARM_INVALID_POINTER, warm_free(a));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    c = take(SIZE);
    *slot = wm_block_at(c);
    wt_fails(WARM_INVALID_POINTER, warm_free(c + 512));
    wt_free(b, c);
    wt_fails(WARM_INVALID_POINTER, warm_free(c));
    check_set();
}

WT_TEST(test_every_slot_is_found_by_its_address)
{
    for (unsigned c = 0; wm_class_bytes(c) < WM_SLAB_LIMIT; c++) {
        size_t bytes = wm_class_bytes(c);
        size_t all = wm_slab_slots(c) * bytes;
        char *base = malloc(all + 1);
        wm_slab slab = {.base = base,
                        .slot_bytes = bytes,
                        .inverse = wm_slot_inverse(bytes)};

        ck_assert_ptr_nonnull(base);
        for (size_t at = 0; at < all; at += 256) {
            wt_require(wm_slot_index(&slab, base + at) == at / bytes,
                       "class %u, offset %zu", c, at);
        }
        ck_assert_uint_ge(wm_slot_index(&slab, base + all), wm_slab_slots(c));
        free(base);
    }
}

/* ---- bounds and batches -------------------------------------------------- */

WT_TEST(test_a_class_keeps_no_more_than_its_bound)
{
    void *block[4 * BLOCKS];

    for (int i = 0; i < 4 * BLOCKS; i++) {
        block[i] = take(SIZE);
    }
    for (int i = 0; i < 4 * BLOCKS; i++) {
        wt_ok(warm_free(block[i]));
        check_set();
    }
    /* The older half went when the ninth came, and so on: the last are in. */
    ck_assert_uint_gt(kept(SIZE), BLOCKS / 2 - 1);
    for (unsigned i = 0; i < kept(SIZE); i++) {
        ck_assert_ptr_eq(mine(SIZE)->top[-1 - (int)i].base,
                         block[4 * BLOCKS - 1 - i]);
    }
}

WT_TEST(test_all_classes_keep_no_more_than_the_bytes)
{
    static const size_t sizes[] = {4 << 10, 64 << 10, 250 << 10, 500 << 10,
                                   1 << 20, 2 << 20,  4 << 20};
    uint64_t random = wt_seed();
    void *block[64] = {NULL};

    for (unsigned step = 0; step < wt_scaled(20000); step++) {
        void **slot = &block[wt_random(&random) % 64];

        if (*slot == NULL) {
            *slot = take(sizes[wt_random(&random) % 7]);
        } else {
            wt_ok(warm_free(*slot));
            *slot = NULL;
        }
        wt_require(wm_magazine_set_bytes(my_set()) <= 2 << 20, "step %u", step);
    }
    check_set();
    wt_free_all(block, 64);
    check_set();
}

/* If a block that is freed does not fit, half of the blocks of those sizes
 * leave that fill most of the bytes, and again, until an eighth of the bytes is
 * left; sizes above a power of two, up to the next, count together. All others
 * stay. */
WT_LOOP_TEST(test_B25_sizes_that_fill_most_of_the_bytes_leave, 2)
{
    enum { KIB = 1 << 10, LARGE = 1 << 20, SIZES = 3 };
    static const size_t size[SIZES] = {144 * KIB, 160 * KIB, 192 * KIB};
    static const struct {
        unsigned kept[SIZES], left[SIZES];
    } row[] = {{{3, 3, 2}, {1, 1, 1}}, {{3, 1, 0}, {3, 1, 0}}};
    void *block[SIZES][BLOCKS], *large[2] = {take(LARGE), take(LARGE)};

    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned k = 0; k < row[_i].kept[i]; k++) {
            block[i][k] = take(size[i]);
        }
    }
    wt_ok(warm_pinned_trim(runtime, 0, NULL)); /* of refills */
    for (unsigned i = 0; i < SIZES; i++) {
        wt_free_all(block[i], row[_i].kept[i]);
        ck_assert_uint_eq(kept(size[i]), row[_i].kept[i]);
    }
    wt_free_all(large, 2);
    check_set();
    for (unsigned i = 0; i < SIZES; i++) {
        ck_assert_uint_eq(kept(size[i]), row[_i].left[i]);
    }
    ck_assert_uint_eq(kept(LARGE), 1);
}

/* At most a half of the class's bound, and an eighth of the bytes. */
WT_LOOP_TEST(test_a_thread_that_keeps_missing_gets_more_at_once, 3)
{
    static const struct {
        size_t bytes;
        int64_t most;
        unsigned batch;
    } row[] = {{16 << 10, 2 << 20, BLOCKS / 2},
               {40 << 10, 1 << 20, 3},
               {160 << 10, 1 << 20, 1}};
    size_t little = row[_i].bytes;
    void *block[64];
    unsigned most = 0, misses = 0;

    block[0] = take(little);
    ck_assert_uint_eq(kept(little), 0); /* the first miss: one */
    for (int i = 1; i < 64; i++) {
        my_set()->bytes_max = row[_i].most;
        my_set()->slow = 0; /* no other budget is due */
        misses += kept(little) == 0;
        block[i] = take(little);
        most = kept(little) > most ? kept(little) : most;
        check_set();
    }
    ck_assert_uint_eq(most, row[_i].batch - 1);
    ck_assert_uint_le(misses, 64 / row[_i].batch + 4);
    wt_free_all(block, 64);
}

WT_TEST(test_magazines_may_be_off)
{
    warm_runtime *kept = runtime;
    void *a;

    runtime = wt_runtime(&(warm_options){
        .size = sizeof(warm_options), .device = "host", .keep = WARM_OFF});
    a = take(SIZE);
    wt_ok(warm_free(a));
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.allocated, 1);
    wt_runtime_end(runtime);
    runtime = kept;
}

/* ---- other threads ------------------------------------------------------- */

struct other {
    pthread_barrier_t barrier;
    void *block[4 * BLOCKS];
    int blocks;
    size_t bytes;
    const wm_magazine_set *set;
    warm_status status;
};

static void other_init(struct other *other, int blocks, size_t bytes)
{
    memset(other, 0, sizeof *other);
    pthread_barrier_init(&other->barrier, NULL, 2);
    other->blocks = blocks;
    other->bytes = bytes;
}

static void note(struct other *other, warm_status status)
{
    if (status != WARM_OK) {
        other->status = status;
    }
}

/* Allocates, waits twice, frees. */
static void *allocate_then_free(void *argument)
{
    struct other *other = argument;

    for (int i = 0; i < other->blocks; i++) {
        note(other, warm_pinned_alloc(runtime, other->bytes, &other->block[i]));
    }
    pthread_barrier_wait(&other->barrier);
    pthread_barrier_wait(&other->barrier);
    for (int i = 0; i < other->blocks; i++) {
        note(other, warm_free(other->block[i]));
    }
    return NULL;
}

/* Allocates, frees, and keeps what it keeps until it is told to end. */
static void *keep(void *argument)
{
    struct other *other = argument;

    for (int i = 0; i < other->blocks; i++) {
        note(other, warm_pinned_alloc(runtime, other->bytes, &other->block[i]));
    }
    for (int i = 0; i < other->blocks; i++) {
        note(other, warm_free(other->block[i]));
    }
    pthread_barrier_wait(&other->barrier);
    pthread_barrier_wait(&other->barrier);
    return NULL;
}

static pthread_t begin(struct other *other, void *(*fn)(void *))
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, fn, other), 0);
    pthread_barrier_wait(&other->barrier);
    return thread;
}

static void finish(struct other *other, pthread_t thread)
{
    pthread_barrier_wait(&other->barrier);
    pthread_join(thread, NULL);
    wt_ok(other->status);
    pthread_barrier_destroy(&other->barrier);
}

WT_TEST(test_who_only_frees_keeps_no_more_than_its_bound)
{
    struct other other;
    pthread_t thread;

    other_init(&other, 4 * BLOCKS, SIZE);
    thread = begin(&other, allocate_then_free);
    for (int i = 0; i < 4 * BLOCKS; i++) {
        wt_ok(warm_free(other.block[i]));
        check_set();
        other.block[i] = NULL;
    }
    ck_assert_uint_gt(kept(SIZE), 0);
    finish(&other, thread);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

/* Misses twice; at the second miss another thread has the lock of its arena. */
static void *meet(void *argument)
{
    struct other *other = argument;

    for (int i = 0; i < 2; i++) {
        note(other, warm_pinned_alloc(runtime, (size_t)(1 + i) * SIZE,
                                      &other->block[i]));
        other->set = my_set();
        pthread_barrier_wait(&other->barrier);
        pthread_barrier_wait(&other->barrier);
    }
    wt_free_all(other->block, 2);
    return NULL;
}

WT_TEST(test_B25_a_miss_counts_that_it_waits_for_the_lock)
{
    struct other other;
    pthread_t thread;
    unsigned before;
    wm_lock *lock;

    other_init(&other, 2, SIZE);
    thread = begin(&other, meet);
    before = other.set->locked;
    lock = &other.set->arena->lock;
    wm_lock_acquire(lock);
    pthread_barrier_wait(&other.barrier);
    while (atomic_load(&lock->state) != WM_LOCK_WANTED) {
        sched_yield();
    }
    wm_lock_release(lock);
    pthread_barrier_wait(&other.barrier);
    ck_assert_uint_eq(other.set->locked, before + 1);
    ck_assert_uint_eq(other.set->contended, 1);
    finish(&other, thread);
}

/* Blocks that another allocated go round without being joined and cut. */
WT_TEST(test_what_full_magazines_give_back_others_get_as_it_is)
{
    struct other other;
    pthread_t thread;
    const wm_arena *arena = &runtime->pinned->space.group.arenas[0];

    other_init(&other, 4 * BLOCKS, SIZE);
    thread = begin(&other, allocate_then_free);
    wt_free_all(other.block, 4 * BLOCKS);
    ck_assert_uint_eq(wm_transfer_bytes(&arena->transfer_cache),
                      (4 * BLOCKS - kept(SIZE)) * SIZE);
    ck_assert(wm_space_check(&runtime->pinned->space));
    for (int i = 0; i < 4 * BLOCKS; i++) {
        other.block[i] = take(SIZE);
        check_set();
    }
    ck_assert_uint_eq(wm_transfer_bytes(&arena->transfer_cache), 0);
    ck_assert_uint_eq(obtained(), 1);
    finish(&other, thread); /* frees them */
    ck_assert_uint_gt(wm_transfer_bytes(&arena->transfer_cache), 0);
    wm_cache_flush_idle(&runtime->pinned->space.group);
    wm_cache_flush_idle(&runtime->pinned->space.group);
    ck_assert_uint_eq(wm_transfer_bytes(&arena->transfer_cache), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    /* Nobody else's: 2 MiB that nothing has to be given back for. */
    wt_ok(warm_free(take(2 << 20)));
    ck_assert_uint_eq(obtained(), 1);
}

WT_TEST(test_a_thread_that_ends_gives_all_back_under_one_lock)
{
    struct other other;
    pthread_t thread;

    other_init(&other, BLOCKS, SIZE);
    thread = begin(&other, keep);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, BLOCKS * SIZE);
    finish(&other, thread);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    wt_ok(warm_free(take(SIZE)));
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, SIZE);
    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
}

/* A thread that comes after another needs no memory of the library's own. */
WT_TEST(test_a_set_serves_one_thread_after_the_other)
{
    struct other other;
    uint64_t number = 0, calls = 0;

    for (int i = 0; i < 3; i++) {
        pthread_t thread;

        other_init(&other, 1, SIZE);
        thread = begin(&other, keep);
        finish(&other, thread);
        ck_assert(i < 2 || wm_meta_calls() == calls);
        calls = wm_meta_calls();
    }
    wt_ok(warm_free(take(SIZE)));
    number = my_set()->live;
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_free(take(SIZE)));
    ck_assert_uint_ne(my_set()->live, number); /* never used twice */
}

/* What lives longer than its thread belongs to nobody, and can be freed. */
WT_TEST(test_a_block_outlives_the_thread_that_had_it)
{
    void *a = take(SIZE);

    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_free(take(4096))); /* another set, perhaps in the same place */
    wt_ok(warm_free(a));
    ck_assert_uint_eq(kept(SIZE), 1);
    check_set();
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

/* ---- back to the arena --------------------------------------------------- */

/* A miss asks a few streams, then all before it grows. */
WT_TEST(test_what_has_passed_behind_many_that_have_not)
{
    enum { STREAMS = 12, PASSED = 9 };
    warm_stream stream[STREAMS];
    void *block[STREAMS];
    void *fill[] = {take(2 << 20), take(1 << 20), take(256 << 10)};

    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
        wt_ok(warm_testing_hold(runtime, stream[i]));
        block[i] = take(SIZE);
        wt_ok(warm_record_stream(block[i], stream[i]));
        wt_ok(warm_free(block[i]));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, STREAMS);
    wt_ok(warm_testing_resume(runtime, stream[PASSED]));
    wt_ok(warm_stream_synchronize(runtime, stream[PASSED]));
    ck_assert_ptr_eq(take(SIZE), block[PASSED]);
    ck_assert_uint_eq(obtained(), 1);
    wt_ok(warm_free(block[PASSED]));
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_testing_resume(runtime, stream[i]));
        wt_ok(warm_stream_synchronize(runtime, stream[i]));
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    wt_free_all(fill, 3);
}

WT_TEST(test_empty_cache_takes_from_all_threads)
{
    struct other other;
    pthread_t thread;
    size_t released = 0;

    other_init(&other, BLOCKS, SIZE);
    thread = begin(&other, keep);
    wt_ok(warm_free(take(SIZE)));
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_eq(released, 4 << 20);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    check_set();
    finish(&other, thread);
}

WT_TEST(test_destroy_takes_from_all_threads)
{
    struct other other;
    warm_destroy_report report = {.size = sizeof report};
    pthread_t thread;
    void *a = NULL;

    other_init(&other, BLOCKS, SIZE);
    thread = begin(&other, keep);
    a = take(SIZE);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 1);
    wt_fails(WARM_RUNTIME_GONE, warm_free(a));
    wt_fails(WARM_RUNTIME_GONE, warm_free(other.block[0]));
    wt_fails(WARM_RUNTIME_GONE, warm_pinned_alloc(runtime, SIZE, &a));
    finish(&other, thread);
    set_up();
}

/* Four threads with a block each, in a region that always has a gap for one
 * more, if only nobody keeps what lies idle: each request must be served,
 * whoever has the memory in a magazine at the moment, or gives it back to the
 * driver and obtains it anew. */
enum { TIGHT = 8 << 20, TIGHT_THREADS = 4 };

static void squeeze(void *argument, unsigned index)
{
    uint64_t random = wt_seed() + index;
    _Atomic uint64_t *refused = argument;

    for (unsigned i = 0; i < wt_scaled(30000); i++) {
        size_t bytes = 1 + wt_random(&random) % (1 << 20);
        char *block = NULL;

        if (warm_pinned_alloc(runtime, bytes, (void **)&block) != WARM_OK) {
            atomic_fetch_add(refused, 1);
            continue;
        }
        block[0] = (char)index;
        block[bytes - 1] = (char)index;
        if (i % 16 == 0 && index == 0) {
            warm_space_stats s = {.size = sizeof s};

            (void)warm_pinned_get_stats(runtime, &s);
        }
        if (block[0] != (char)index || warm_free(block) != WARM_OK) {
            atomic_fetch_add(refused, 1);
        }
        if (i % 512 == 511) {
            (void)warm_thread_release(runtime);
        }
    }
}

WT_TEST(test_no_request_fails_for_what_others_keep)
{
    _Atomic uint64_t refused = 0;
    warm_runtime *kept_runtime = runtime;

    runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options),
                                         .device = "host",
                                         .segment = TIGHT,
                                         .pinned_high = TIGHT});
    wt_threads(TIGHT_THREADS, squeeze, &refused);
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.allocated,
                      (uint64_t)TIGHT_THREADS * wt_scaled(30000));
    wt_runtime_end(runtime);
    runtime = kept_runtime;
}

/* ---- beyond the bound ---------------------------------------------------- */

/* All but 4 MiB of the first segment is in use, and a second one would pass the
 * bound. */
static void *most;

static void set_up_full(void)
{
    enum { SEGMENT = 64 << 20 };

    runtime = wt_runtime(&(warm_options){
        .size = sizeof(warm_options),
        .device = "host",
        .segment = SEGMENT,
        .keep = 1000,
        .test = wt_list("magazine_blocks=%d:magazine_bytes=2M", BLOCKS)});
    most = take(SEGMENT - (4 << 20));
    wm_economy_look(&runtime->pinned->space.group);
    wt_ok(warm_thread_release(runtime)); /* its cache begins with that */
}

static void tear_down_full(void)
{
    wt_ok(warm_free(most));
    tear_down();
}

WT_CASE("beyond the bound", .setup = set_up_full, .teardown = tear_down_full);

/* 4 MiB are held: the other thread keeps a part of it, and needs nothing. */
WT_TEST(test_memory_is_taken_back_before_the_cache_grows)
{
    struct other other;
    pthread_t thread;
    void *a, *b;

    other_init(&other, BLOCKS, SIZE);
    thread = begin(&other, keep);
    ck_assert_uint_eq(obtained(), 1);
    ck_assert_uint_ge(wt_pinned_stats(runtime).cached_bytes, BLOCKS / 2 * SIZE);
    a = take((4 << 20) - SIZE); /* needs what the other has */
    ck_assert_uint_eq(obtained(), 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    wt_ok(warm_free(a));
    wt_ok(warm_free(take(1 << 20)));
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 1 << 20);
    b = take(4 << 20); /* needs what this thread has itself */
    ck_assert_uint_eq(obtained(), 1);
    wt_ok(warm_free(b));
    finish(&other, thread);
}

/* Of what the thread keeps, the smallest that will do; the rest is hit later.
 */
WT_TEST(test_one_larger_block_is_taken_back_before_all)
{
    void *fill[] = {take(2 << 20), take(512 << 10), take(192 << 10)};
    void *large = take(1 << 20), *fitting = take(256 << 10), *a = take(SIZE);
    uint64_t hits;

    wt_free(large, fitting, a);
    ck_assert_uint_eq(obtained(), 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes,
                      wt_pinned_stats(runtime).cached_bytes);
    hits = wt_pinned_stats(runtime).cache_hits;
    ck_assert_ptr_eq(take(96 << 10), fitting);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cache_hits, hits + 1);
    ck_assert_uint_eq(obtained(), 1);
    ck_assert_uint_eq(kept(1 << 20), 1);
    ck_assert_uint_eq(kept(256 << 10), 0);
    ck_assert_uint_eq(kept(SIZE), 1);
    check_set();
    wt_ok(warm_free(fitting));
    wt_free_all(fill, 3);
}

/* None is large enough, but two of them are, joined. */
WT_TEST(test_large_classes_are_taken_back_before_small_ones)
{
    void *a = take(768 << 10), *b = take(768 << 10), *small = take(SIZE);
    void *fill[] = {take(2 << 20), take(448 << 10)};
    uint64_t hits;

    wt_free(a, b, small);
    ck_assert_uint_eq(obtained(), 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes,
                      wt_pinned_stats(runtime).cached_bytes);
    hits = wt_pinned_stats(runtime).cache_hits;
    ck_assert_ptr_eq(take(1536 << 10), a < b ? a : b);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cache_hits, hits + 1);
    ck_assert_uint_eq(obtained(), 1);
    ck_assert_uint_eq(kept(768 << 10), 0);
    ck_assert_uint_eq(kept(SIZE), 1);
    check_set();
    wt_ok(warm_free(a < b ? a : b));
    wt_free_all(fill, 2);
}

/* The only cached slot of its slab and of its class, beside 24 KiB that are
 * idle. */
WT_TEST(test_one_slot_is_taken_back_before_smaller_ones)
{
    void *smaller = take(100), *slot, *run;
    void *fill[] = {take(2 << 20), take(1792 << 10), take(192 << 10)};

    slot = take(3000);
    wt_free(slot, smaller);
    run = take(40 << 10);
    ck_assert_uint_eq(obtained(), 1);
    ck_assert_uint_eq(kept(3000), 0);
    ck_assert_uint_eq(kept(100), 1);
    wt_ok(warm_free(run));
    wt_free_all(fill, 3);
}

/* Memory goes round between two threads that need all of it in turn. */
static void *take_turns(void *argument)
{
    struct other *other = argument;

    for (int i = 0; i < other->blocks; i++) {
        void *block = NULL;

        pthread_barrier_wait(&other->barrier);
        note(other, warm_pinned_alloc(runtime, other->bytes, &block));
        note(other, warm_free(block));
        pthread_barrier_wait(&other->barrier);
    }
    return NULL;
}

WT_TEST(test_B25_what_goes_round_is_never_obtained_again)
{
    enum { TURNS = 300 };
    struct other other;
    pthread_t thread;

    other_init(&other, TURNS, 1 << 20);
    pthread_create(&thread, NULL, take_turns, &other);
    for (int i = 0; i < TURNS; i++) {
        void *block[4];

        pthread_barrier_wait(&other.barrier);
        pthread_barrier_wait(&other.barrier);
        for (int k = 0; k < 4; k++) {
            block[k] = take(1 << 20);
        }
        wt_free_all(block, 4);
    }
    pthread_join(thread, NULL);
    wt_ok(other.status);
    ck_assert_uint_eq(obtained(), 1);
}

WT_TEST(test_C10_such_an_entry_is_not_traded)
{
    void *a = take(768 << 10), *b = take(768 << 10);
    void *fill[] = {take(2 << 20), take(512 << 10)};
    void *large = NULL;
    wm_block *block = wm_block_at(a);

    wt_free(a, b);
    atomic_store(&block->state, wm_state_of_set(WM_BLOCK_LIVE, 0));
    /* Grows: one of them alone is not enough. */
    large = take(1536 << 10);
    ck_assert_uint_eq(obtained(), 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).double_frees, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 5);
    check_set();
    wt_ok(warm_free(a)); /* the other thread's */
    wt_ok(warm_free(large));
    wt_free_all(fill, 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 1);
    wt_ok(warm_pinned_reset_totals(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).double_frees, 0);
}

WT_CASE("counts", .setup = set_up, .teardown = tear_down);

/* ---- blocks that no magazine takes --------------------------------------- */

/* Its allocation and its free lock the arena, each once, and no window. */
WT_TEST(test_B25_a_block_too_large_for_magazines_locks_its_arena_alone)
{
    void *block = take(WM_CLASS_LIMIT + 1);
    uint64_t before;

    wt_ok(warm_free(block));
    before = wm_lock_taken();
    block = take(WM_CLASS_LIMIT + 1);
    ck_assert_uint_eq(wm_lock_taken() - before, 1);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wm_lock_taken() - before, 2);
}

/* ---- freed twice at once ------------------------------------------------- */

/* What two threads leave that free one block at the same moment, the one by a
 * hit, the other by its slow path: an entry whose state is another's. */
WT_TEST(test_C10_an_entry_that_another_has_is_dropped)
{
    void *a = take(SIZE), *b = take(SIZE);
    wm_block *block = wm_block_at(a);

    wt_free(b, a);
    atomic_store(&block->state, wm_state_of_set(WM_BLOCK_LIVE, 0));
    ck_assert_ptr_eq(take(SIZE), b);
    ck_assert_uint_eq(wt_pinned_stats(runtime).double_frees, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 2);
    wt_ok(warm_free(a)); /* the other thread's */
    wt_ok(warm_free(b));
    check_set();
    ck_assert_uint_eq(kept(SIZE), 2);
}

WT_TEST(test_C10_such_an_entry_does_not_go_to_the_arena)
{
    void *a = take(SIZE), *b = take(SIZE);
    wm_block *block = wm_block_at(a);

    wt_free(a, b);
    atomic_store(&block->state, wm_state_of_set(WM_BLOCK_LIVE, 0));
    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).double_frees, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 1);
    wt_ok(warm_free(a));
}

/* ---- figures ------------------------------------------------------------- */

static warm_class_stats class_now(size_t bytes)
{
    warm_class_stats stats = {.size = sizeof stats};

    wt_ok(warm_pinned_get_class_stats(runtime, (int)wm_size_class(bytes),
                                      &stats));
    return stats;
}

WT_TEST(test_B14_peaks_of_one_thread_are_near)
{
    void *a, *b, *c;

    wt_ok(warm_free(take(SIZE)));
    wt_ok(warm_pinned_reset_peaks(runtime));
    a = take(62000);
    b = take(62001);
    wt_ok(warm_free(a));
    c = take(65000);
    wt_free(c, b);
    wt_peak(wt_pinned_stats(runtime).live.peak, 2, WT_ROOM_BLOCKS);
    wt_peak(wt_pinned_stats(runtime).live_bytes.peak, 2 * 65536, WT_ROOM_BYTES);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 2 * 65536);
    ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes, 4 << 20);
}

WT_TEST(test_B14_totals_are_exact_and_reset)
{
    void *a = NULL;

    for (int i = 0; i < 10; i++) {
        a = take(62000);
        wt_ok(warm_free(a));
    }
    a = take(62000);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.allocated, 11);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.freed, 10);
    ck_assert_uint_eq(wt_pinned_stats(runtime).requested_bytes.allocated,
                      682000);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live_bytes.freed, 10 * 65536);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cache_hits, 10);
    wt_ok(warm_pinned_reset_totals(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.allocated, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.freed, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).requested_bytes.allocated,
                      62000);
    wt_peak(wt_pinned_stats(runtime).live.peak, 1, WT_ROOM_BLOCKS);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cache_hits, 0);
    wt_ok(warm_free(a));
    ck_assert_uint_eq(class_now(62000).live.freed, 1);
    ck_assert_uint_eq(class_now(62000).requested_bytes.freed, 62000);
}

/* Where nothing of its size is kept a request takes what is up to twice as
 * large, and at most 1 MiB larger, without a lock; and nothing larger. */
WT_LOOP_TEST(test_B8_a_block_of_up_to_twice_the_size_will_do, 15)
{
    enum { KIB = 1 << 10 };
    static const struct {
        size_t kept, asked;
        bool serves;
    } row[] = {{72 * KIB, 64 * KIB, true},
               {72 * KIB, 72 * KIB + 1, false},
               {128 * KIB, 64 * KIB, true},
               {128 * KIB, 64 * KIB - 1, false},
               {576 * KIB, 288 * KIB, true},
               {576 * KIB, 288 * KIB - 1, false},
               {2048 * KIB, 1024 * KIB, true},
               {2048 * KIB, 1024 * KIB - 1, false},
               {3072 * KIB, 2048 * KIB, true},
               {3072 * KIB, 2048 * KIB - 1, false},
               {4096 * KIB, 3072 * KIB, true},
               {4096 * KIB, 3072 * KIB - 1, false},
               {1536, 1024, true},
               {2048, 1024, true},
               {2560, 1024, false}};
    void *kept, *block;
    uint64_t locks;

    tear_down();
    set_up_with(16 << 20);
    kept = take(row[_i].kept);
    wt_ok(warm_free(take(512)));
    wt_ok(warm_free(kept));
    locks = wm_lock_taken();
    block = take(row[_i].asked);
    ck_assert(!row[_i].serves || (block == kept && wm_lock_taken() == locks));
    ck_assert_uint_eq(wm_space_find(block)->bytes,
                      row[_i].serves ? row[_i].kept
                                     : wm_size_round(row[_i].asked));
    ck_assert(row[_i].serves || row[_i].asked <= WM_PAGE ||
              8 * wm_space_find(block)->bytes <= 9 * row[_i].asked);
    ck_assert_uint_eq(wt_pinned_stats(runtime).requested_bytes.current,
                      row[_i].asked);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live_bytes.current,
                      wm_space_find(block)->bytes);
    check_set();
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live_bytes.current, 0);
}

/* Room is claimed for a block that is larger than the request, even if there is
 * none. */
WT_TEST(test_B14_peaks_of_large_blocks_are_near)
{
    enum { LARGE = 3 << 20 };
    void *block[4];

    tear_down();
    set_up_with(16 << 20);
    for (size_t i = 0; i < 4; i++) {
        block[i] = take(LARGE);
        wt_peak(wt_pinned_stats(runtime).live_bytes.peak, (i + 1) * LARGE,
                WT_ROOM_BYTES);
    }
    wt_free_all(block, 4);
}

/* A free that goes past the thread's magazines comes after what the thread had
 * handed out before: for a moment both were with the caller. */
WT_LOOP_TEST(test_B14_peaks_do_not_miss_what_is_not_settled, 2)
{
    void *small, *large = take(5 << 20);

    wt_ok(warm_free(take(SIZE)));
    (void)wt_pinned_stats(runtime);
    wt_ok(warm_pinned_reset_peaks(runtime));
    small = take(SIZE);
    if (_i == 1) { /* it waits for a stream */
        wt_ok(warm_record_stream(large, NULL));
    }
    wt_ok(warm_free(large));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 1);
    wt_peak(wt_pinned_stats(runtime).live.peak, 2, WT_ROOM_BLOCKS);
    wt_ok(warm_free(small));
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_ok(warm_poll(runtime));
}

/* What the claims of the space are above what callers have is the room of its
 * threads: within its bounds, and nothing once threads have exited. */
static void check_room(uint64_t blocks, uint64_t bytes)
{
    const wm_live *live = &runtime->pinned->space.group.live;
    int64_t more = wm_claimed(&live->blocks) - (int64_t)blocks;
    int64_t more_bytes = wm_claimed(&live->bytes) - (int64_t)bytes;

    wt_require(more >= 0 && more < WM_ROOM_BLOCKS && more_bytes >= 0 &&
                   more_bytes < WM_ROOM_BYTES,
               "room of %ld blocks, %ld bytes", (long)more, (long)more_bytes);
}

WT_TEST(test_B14_room_is_bounded_and_returned)
{
    enum { SLOTS = 400 };
    uint64_t random = wt_seed(), bytes = 0, blocks = 0;
    struct {
        void *pointer;
        size_t bytes;
    } slot[SLOTS] = {{NULL, 0}};

    for (unsigned step = 0; step < wt_scaled(40000); step++) {
        unsigned i = (unsigned)(wt_random(&random) % SLOTS);

        if (slot[i].pointer != NULL) {
            if (step % 8 == 0) { /* its free is counted, and not kept */
                wt_ok(warm_record_stream(slot[i].pointer, NULL));
            }
            wt_ok(warm_free(slot[i].pointer));
            bytes -= slot[i].bytes;
            blocks--;
            slot[i].pointer = NULL;
        } else {
            slot[i].pointer = take((size_t)1 << (6 + wt_random(&random) % 17));
            slot[i].bytes = wm_space_find(slot[i].pointer)->bytes;
            bytes += slot[i].bytes;
            blocks++;
        }
        check_room(blocks, bytes);
        if (step % 1000 == 0) {
            wt_ok(warm_pinned_reset_peaks(runtime));
            ck_assert_uint_eq(wt_pinned_stats(runtime).live.peak, blocks);
            ck_assert_uint_eq(wt_pinned_stats(runtime).live_bytes.peak, bytes);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        wt_ok(warm_free(slot[i].pointer));
    }
    wt_ok(warm_thread_release(runtime));
    ck_assert_int_eq(wm_claimed(&runtime->pinned->space.group.live.blocks), 0);
    ck_assert_int_eq(wm_claimed(&runtime->pinned->space.group.live.bytes), 0);
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_ok(warm_poll(runtime));
}

/* A destructor that runs after ours: the thread's window is another one's by
 * then, and it gets a new one, which goes as the first one did. */
static pthread_key_t late;

static void allocate_late(void *argument)
{
    warm_status *status = argument;
    void *block = NULL;

    *status = warm_pinned_alloc(runtime, SIZE, &block);
    if (*status == WARM_OK) {
        *status = warm_free(block);
    }
}

static void *end_with_a_late_call(void *status)
{
    pthread_setspecific(late, status);
    allocate_late(status);
    return NULL;
}

WT_TEST(test_a_late_destructor_has_a_window_of_its_own)
{
    warm_status status;
    pthread_t thread;

    pthread_key_create(&late, allocate_late);
    pthread_create(&thread, NULL, end_with_a_late_call, &status);
    pthread_join(thread, NULL);
    wt_ok(status);
    (void)wm_window_empty_ready(runtime);
    for (wm_window *w = runtime->windows; w != NULL; w = w->next) {
        ck_assert_ptr_null(atomic_load(&w->magazines));
    }
    pthread_key_delete(late);
}

/* ---- threads that come and go -------------------------------------------- */

enum { BRIEFLY = 3 };

struct brief {
    void *block[BRIEFLY];
    warm_status status;
};

static void allocate_briefly(void *argument, unsigned index)
{
    struct brief *b = argument;

    (void)index;
    b->status = WARM_OK;
    for (int i = 0; i < BRIEFLY && b->status == WARM_OK; i++) {
        b->status = warm_pinned_alloc(runtime, (size_t)SIZE << i, &b->block[i]);
    }
    for (int i = 0; i < BRIEFLY && b->status == WARM_OK; i++) {
        b->status = warm_free(b->block[i]);
    }
}

static void *run_briefly(void *argument)
{
    allocate_briefly(argument, 0);
    return NULL;
}

static struct brief live_briefly(void)
{
    struct brief b = {.status = WARM_OK};

    wt_threads(1, allocate_briefly, &b);
    wt_ok(b.status);
    return b;
}

static uint64_t sets(void)
{
    return runtime->pinned->space.group.arenas[0].sets;
}

/* The next thread has what the last one had, as if it were that thread. */
WT_TEST(test_G1_B2_next_thread_has_the_cache_of_the_last)
{
    struct brief first = live_briefly(), next;
    const wm_magazine_set *set;

    ck_assert_uint_eq(sets(), 1);
    set = atomic_load(&atomic_load(&runtime->ready_window)->magazines);
    ck_assert_ptr_nonnull(set);
    for (int i = 0; i < 3; i++) {
        next = live_briefly();
        ck_assert_mem_eq(next.block, first.block, sizeof next.block);
        ck_assert_ptr_eq(
            atomic_load(&atomic_load(&runtime->ready_window)->magazines), set);
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.allocated, 4 * BRIEFLY);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

/* It is everybody's all the same: it is idle in statistics, and others use it
 * before anything is obtained. */
WT_TEST(test_G1_B2_what_a_thread_left_is_idle)
{
    void *block[BRIEFLY];
    uint64_t before;

    (void)live_briefly();
    before = obtained();
    for (int i = 0; i < BRIEFLY; i++) {
        block[i] = take((size_t)SIZE << i);
        ck_assert_uint_eq(obtained(), before);
    }
    ck_assert_ptr_null(atomic_load(&runtime->ready_window));
    wt_free_all(block, BRIEFLY);
    (void)live_briefly();
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, 0);
    ck_assert_uint_eq(sets(), 0);
}

/* Blocks that a stream still uses: all but the first wait in the thread's slot.
 */
static void free_used(void *argument, unsigned index)
{
    struct brief *b = argument;
    warm_stream stream = b->block[BRIEFLY - 1];

    (void)index;
    for (int i = 0; i < 3 && b->status == WARM_OK; i++) {
        b->status = warm_pinned_alloc(runtime, SIZE, &b->block[0]);
        if (b->status == WARM_OK) {
            b->status = warm_record_stream(b->block[0], stream);
        }
        if (b->status == WARM_OK) {
            b->status = warm_free(b->block[0]);
        }
    }
}

/* They go to the stream's timeline, and the cache to the next thread. */
WT_TEST(test_G1_B4_pending_blocks_do_not_wait_in_a_window)
{
    struct brief b = {.status = WARM_OK};
    warm_stream stream = NULL;

    wt_ok(warm_stream_create(runtime, 0, &stream));
    b.block[BRIEFLY - 1] = stream;
    for (int i = 0; i < 2; i++) {
        wt_stop(runtime, stream);
        wt_threads(1, free_used, &b);
        wt_ok(b.status);
        ck_assert_uint_eq(sets(), 1);
        ck_assert_ptr_nonnull(atomic_load(&runtime->ready_window));
        ck_assert_uint_eq(atomic_load(&runtime->pinned->timelines.slots), 0);
        ck_assert_uint_eq(wm_pending_blocks(&runtime->pinned->timelines), 0);
        ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 3);
        wt_go(runtime, stream);
        wt_ok(warm_poll(runtime));
        ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    }
    wt_ok(warm_stream_destroy(runtime, stream));
}

/* One thread against a plain model of what the figures must be. */
struct model {
    uint64_t current, peak, allocated;
};

static void model_add(struct model *model, uint64_t n)
{
    model->current += n;
    model->allocated += n;
    model->peak = model->current > model->peak ? model->current : model->peak;
}

/* room: how much the peak may be too high; 0: the figure has none. */
static void compare(const warm_stat *stat, const struct model *model,
                    uint64_t room, const char *what, unsigned step)
{
    uint64_t peak = room > 0 ? model->peak : 0;

    wt_require(
        stat->current == model->current && stat->peak >= peak &&
            stat->peak <= peak + room && stat->allocated == model->allocated &&
            stat->freed == model->allocated - model->current,
        "%s at step %u: current %lu, not %lu; peak %lu, not %lu", what, step,
        (unsigned long)stat->current, (unsigned long)model->current,
        (unsigned long)stat->peak, (unsigned long)model->peak);
}

WT_TEST(test_B14_figures_of_one_thread_are_those_of_a_model)
{
    enum { SLOTS = 48 };
    static struct model asked, blocks, bytes, of[WM_CLASSES_ALL];
    struct {
        void *pointer;
        size_t requested, rounded;
        unsigned size_class;
    } slot[SLOTS] = {{NULL, 0, 0, 0}};
    uint64_t random = wt_seed();

    for (unsigned step = 0; step < wt_scaled(30000); step++) {
        unsigned i = (unsigned)(wt_random(&random) % SLOTS);

        if (slot[i].pointer != NULL) {
            if (wt_random(&random) % 8 == 0) {
                wt_ok(warm_record_stream(slot[i].pointer, NULL));
            }
            wt_ok(warm_free(slot[i].pointer));
            asked.current -= slot[i].requested;
            blocks.current--;
            bytes.current -= slot[i].rounded;
            of[slot[i].size_class].current--;
            slot[i].pointer = NULL;
        } else {
            slot[i].requested = 1 + (wt_random(&random) % 100 == 0
                                         ? 5 << 20
                                         : wt_random(&random) % 300000);
            slot[i].pointer = take(slot[i].requested);
            /* One of the next classes may have served. */
            slot[i].rounded = wm_space_find(slot[i].pointer)->bytes;
            slot[i].size_class = wm_space_find(slot[i].pointer)->size_class;
            ck_assert_uint_ge(slot[i].rounded, slot[i].requested);
            ck_assert_uint_le(slot[i].rounded,
                              2 * wm_size_round(slot[i].requested));
            model_add(&asked, slot[i].requested);
            model_add(&blocks, 1);
            model_add(&bytes, slot[i].rounded);
            model_add(&of[slot[i].size_class], 1);
        }
        if (wt_random(&random) % 64 == 0 || step % 1000 == 999) {
            warm_space_stats now = wt_pinned_stats(runtime);
            warm_class_stats one = class_now(slot[i].rounded);

            compare(&now.requested_bytes, &asked, 0, "asked", step);
            compare(&now.live, &blocks, WT_ROOM_BLOCKS, "blocks", step);
            compare(&now.live_bytes, &bytes, WT_ROOM_BYTES, "bytes", step);
            compare(&one.live, &of[slot[i].size_class], 0, "class", step);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        wt_ok(warm_free(slot[i].pointer));
    }
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_ok(warm_poll(runtime));
}

enum { THREADS = 6 };
static _Atomic(void *) shared[64];
static _Atomic uint64_t asked_in_all, allocs_in_all, bad;

/* Blocks go round between threads; who finds a place full frees what was
 * there. */
static void pass_round(void *argument, unsigned index)
{
    uint64_t random = wt_seed() + index;
    uint64_t asked = 0, allocs = wt_scaled(20000);

    (void)argument;
    for (uint64_t i = 0; i < allocs; i++) {
        size_t bytes = 1 + wt_random(&random) % 200000;
        void *block = NULL;

        if (warm_pinned_alloc(runtime, bytes, &block) != WARM_OK) {
            atomic_fetch_add(&bad, 1);
        }
        asked += bytes;
        block = atomic_exchange(&shared[wt_random(&random) % 64], block);
        if (warm_free(block) != WARM_OK) {
            atomic_fetch_add(&bad, 1);
        }
    }
    atomic_fetch_add(&asked_in_all, asked);
    atomic_fetch_add(&allocs_in_all, allocs);
    if (index % 2 == 0) {
        (void)warm_thread_release(runtime);
    }
}

static void read_figures(void *argument, unsigned index)
{
    if (index < THREADS) {
        pass_round(argument, index);
        return;
    }
    for (int i = 0; i < 200; i++) {
        warm_space_stats s = {.size = sizeof s};

        if (warm_pinned_get_stats(runtime, &s) != WARM_OK ||
            s.live.allocated - s.live.freed != s.live.current ||
            s.live_bytes.current + s.idle_bytes != s.held_bytes.current ||
            s.cached_bytes > s.idle_bytes) {
            atomic_fetch_add(&bad, 1);
        }
    }
}

WT_TEST(test_B14_figures_of_many_threads_are_exact_once_they_are_quiet)
{
    warm_space_stats s;
    uint64_t left = 0;

    wt_threads(THREADS + 1, read_figures, NULL);
    for (int i = 0; i < 64; i++) {
        left += atomic_load(&shared[i]) != NULL;
    }
    ck_assert_uint_eq(bad, 0);
    s = wt_pinned_stats(runtime);
    ck_assert_uint_eq(s.live.current, left);
    ck_assert_uint_eq(s.live.allocated, allocs_in_all);
    ck_assert_uint_eq(s.requested_bytes.allocated, asked_in_all);
    ck_assert(wm_space_check_settled(&runtime->pinned->space));
    for (int i = 0; i < 64; i++) {
        wt_ok(warm_free(atomic_exchange(&shared[i], NULL)));
    }
    s = wt_pinned_stats(runtime);
    ck_assert_uint_eq(s.live.current, 0);
    ck_assert_uint_eq(s.requested_bytes.current, 0);
    ck_assert_uint_eq(s.live_bytes.current, 0);
}

/* ---- without memory for records ------------------------------------------ */

/* A thread for whom there is no set allocates and frees all the same. */
WT_TEST(test_a_thread_does_without_a_set)
{
    wm_space *space = &runtime->pinned->space;
    void *a = take(SIZE);

    wt_ok(warm_free(a));
    for (uint64_t n = 1; n < 4; n++) {
        struct wm_magazine_set *spare;

        wt_ok(warm_thread_release(runtime));
        ck_assert_ptr_null(my_set());
        /* Spare sets would be used up first. */
        spare = space->group.spare_sets;
        space->group.spare_sets = NULL;
        wm_meta_fail(1, true);
        a = take(SIZE);
        wt_ok(warm_free(a));
        wm_meta_fail(0, false);
        ck_assert_ptr_null(my_set());
        ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
        space->group.spare_sets = spare;
    }
    a = take(SIZE);
    ck_assert_ptr_nonnull(my_set());
    wt_ok(warm_free(a));
}

/* Windows change hands while other threads miss, and visit all caches. */
static void come_and_go(void *argument, unsigned index)
{
    struct brief *b = argument;

    for (int i = 0; i < 60; i++) {
        void *block = NULL;
        pthread_t thread;

        if (index == 0) {
            (void)wt_pinned_stats(runtime);
            (void)warm_pinned_trim(runtime, 0, NULL);
        } else if (index == 1) {
            (void)warm_pinned_alloc(runtime, (size_t)SIZE << i % 6, &block);
            (void)warm_free(block);
        } else if (pthread_create(&thread, NULL, run_briefly, &b[index]) == 0) {
            pthread_join(thread, NULL);
        }
    }
}

WT_TEST(test_G1_B14_windows_change_hands_while_others_look_for_memory)
{
    struct brief b[5] = {{.status = WARM_OK}};

    wt_threads(5, come_and_go, b);
    for (int i = 0; i < 5; i++) {
        wt_ok(b[i].status);
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    ck_assert(wm_space_check(&runtime->pinned->space));
}
