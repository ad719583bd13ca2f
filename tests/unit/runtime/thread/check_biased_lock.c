/* check_biased_lock.c: the lock that its owner enters without an atomic
 * operation and that visitors revoke. It guards a plain pair of numbers, which
 * ThreadSanitizer watches; then the windows of threads, which use it. */
#include "wt_barrier.h"

#include "runtime/thread/window.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- one biased lock --------------------------------------------------- */

static struct {
    wm_biased_lock biased;
    uint64_t one, two; /* equal whenever nobody is inside */
    _Atomic bool over;
    uint64_t hits, slow; /* of the owner */
    uint64_t visits;     /* lock biased lock */
    _Atomic uint64_t torn;
} shared;

static void touch(void)
{
    if (shared.one != shared.two) {
        atomic_fetch_add(&shared.torn, 1);
    }
    shared.one++;
    shared.two++;
}

static void own(unsigned ops)
{
    for (unsigned i = 0; i < ops; i++) {
        if (wm_biased_enter(&shared.biased)) {
            touch();
            wm_biased_leave(&shared.biased);
            shared.hits++;
        } else {
            wm_biased_acquire(&shared.biased);
            touch();
            wm_biased_release(&shared.biased);
            shared.slow++;
        }
    }
    atomic_store(&shared.over, true);
}

static void take_turns(wm_lock *turns)
{
    while (!atomic_load(&shared.over)) {
        wm_lock_acquire(turns);
        wm_biased_revoke(&shared.biased, WM_REVOKED_VISIT);
        if (wm_biased_barrier()) {
            wm_biased_visit(&shared.biased);
            touch();
            shared.visits++;
            wm_biased_restore(&shared.biased, WM_REVOKED_VISIT);
            wm_biased_release(&shared.biased);
        } else {
            atomic_fetch_add(&shared.torn, 1);
        }
        wm_lock_release(turns);
    }
}

static void own_or_visit(void *turns, unsigned index)
{
    if (index == 0) {
        own(wt_scaled(2000000));
    } else {
        take_turns(turns);
    }
}

WT_CASE("biased_lock");

WT_TEST(test_owner_and_visitors_never_meet)
{
    wm_lock turns;

    wm_lock_init(&turns, WM_RANK_WINDOWS);
    wm_biased_init(&shared.biased, wm_biased_birth());
    wt_threads(3, own_or_visit, &turns);
    ck_assert_uint_eq(shared.torn, 0);
    ck_assert_uint_eq(shared.one, shared.two);
    ck_assert_uint_eq(shared.one, shared.hits + shared.slow + shared.visits);
}

WT_TEST(test_a_revoked_lock_lets_no_hit_in)
{
    static const unsigned reasons[] = {WM_REVOKED_VISIT, WM_REVOKED_SLOW,
                                       WM_REVOKED_EXIT, WM_REVOKED_CUT};
    wm_biased_lock *biased = &shared.biased;

    wm_biased_init(biased, 0);
    ck_assert(wm_biased_enter(biased));
    ck_assert_uint_eq(atomic_load(&biased->busy), 1);
    wm_biased_leave(biased);
    for (int i = 0; i < 4; i++) {
        wm_biased_revoke(biased, reasons[i] | WM_REVOKED_VISIT);
        wm_biased_restore(biased, WM_REVOKED_VISIT);
        ck_assert_int_eq(wm_biased_enter(biased), i == 0);
        ck_assert_uint_eq(atomic_load(&biased->busy), i == 0);
        wm_biased_leave(biased);
        wm_biased_restore(biased, reasons[i]);
    }
    ck_assert(wm_biased_enter(biased));
    wm_biased_leave(biased);
}

static _Thread_local unsigned yields;

/* In place of the C library's. */
int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

/* Whose hits a visitor keeps out gives it the processor; nobody else waits. */
WT_TEST(test_an_owner_makes_way_for_a_visitor)
{
    wm_biased_lock *biased = &shared.biased;

    wm_biased_init(biased, 0);
    yields = 0;
    for (unsigned reasons = 0; reasons < 4; reasons++) {
        wm_biased_revoke(biased, reasons);
        wm_biased_acquire(biased);
        wm_biased_restore(biased, reasons);
        wm_biased_release(biased);
        ck_assert_uint_eq(yields, (reasons + 1) / 2);
    }
}

WT_TEST(test_without_barriers_locks_are_revoked_from_birth)
{
    wt_needs(wt_barriers_stay() == NULL, wt_barriers_stay());
    ck_assert_uint_eq(wm_biased_birth(), 0);
    wt_refuse_barriers();
    ck_assert_uint_eq(wm_biased_birth(), WM_REVOKED_SLOW);
    ck_assert(!wm_biased_barrier());
}

/* ---- windows ---------------------------------------------------------- */

static warm_runtime *runtime;

static void set_up(void)
{
    runtime = wt_runtime(NULL);
}

static void tear_down(void)
{
    wt_runtime_end(runtime);
}

static unsigned seen, emptied;

static void count_visit(wm_window *window, void *context)
{
    ck_assert_ptr_eq(context, &seen);
    ck_assert(!wm_biased_enter(&window->biased));
    seen++;
}

static bool is_mine(const wm_window *window, void *context)
{
    return window == wm_window_current;
}

static bool is_none(const wm_window *window, void *context)
{
    return false;
}

static void *hold_window(void *argument)
{
    pthread_barrier_t *barrier = argument;
    warm_stream stream = NULL;

    (void)warm_stream_reserve(runtime, 0, &stream);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return stream;
}

WT_CASE("windows", .setup = set_up, .teardown = tear_down);

WT_TEST(test_a_visit_sees_the_windows_that_are_wanted)
{
    const wm_visit all = {NULL, count_visit, NULL, &seen};
    const wm_visit mine = {is_mine, count_visit, NULL, &seen};
    const wm_visit none = {is_none, count_visit, NULL, &seen};
    pthread_barrier_t barrier;
    warm_stream stream = NULL;
    pthread_t thread;

    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, hold_window, &barrier);
    pthread_barrier_wait(&barrier);
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    ck_assert(wm_window_visit(runtime, &all));
    ck_assert_uint_eq(seen, 2);
    ck_assert(wm_window_visit(runtime, &mine));
    ck_assert_uint_eq(seen, 3);
    ck_assert(wm_window_visit(runtime, &none));
    ck_assert_uint_eq(seen, 3);
    ck_assert(wm_biased_enter(&wm_window_mine()->biased));
    wm_biased_leave(&wm_window_mine()->biased);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    ck_assert(wm_window_visit(runtime, &all));
    ck_assert_uint_eq(seen, 4);
}

/* What a thread calls while a visit is not finished yet. */
static struct {
    warm_stream stream;
    void *block;
    warm_status status;
    int call;
    const wm_window *window;
    _Atomic bool ready, go, called, returned;
} caller;

enum { FREE, ALLOC, FIRST_ALLOC, FIRST_DEVICE_ALLOC, CALLS };

static void *call_meanwhile(void *argument)
{
    caller.status = warm_stream_reserve(runtime, 0, &caller.stream);
    if (caller.status == WARM_OK && caller.call <= ALLOC) {
        caller.status = warm_pinned_alloc(runtime, 4096, &caller.block);
    }
    if (caller.status == WARM_OK && caller.call == ALLOC) {
        caller.status = warm_free(caller.block); /* a hit comes next */
    }
    caller.window = wm_window_current;
    atomic_store(&caller.ready, true);
    while (!atomic_load(&caller.go)) {
        sched_yield();
    }
    atomic_store(&caller.called, true);
    if (caller.status == WARM_OK) {
        caller.status = caller.call == FREE ? warm_free(caller.block)
                        : caller.call == FIRST_DEVICE_ALLOC
                            ? warm_device_alloc(runtime, 0, caller.stream, 4096,
                                                &caller.block)
                            : warm_pinned_alloc(runtime, 4096, &caller.block);
    }
    atomic_store(&caller.returned, true);
    if (caller.status == WARM_OK && caller.call != FREE) {
        caller.status = warm_free(caller.block);
    }
    return NULL;
}

/* As visits do that raise peaks or read figures: of what has no magazines
 * nothing is wanted. */
static bool has_magazines(const wm_window *window, void *context)
{
    return atomic_load(&window->magazines) != NULL ||
           atomic_load(&window->slot[0].set) != NULL;
}

static void wait_for_caller(void *context)
{
    bool had = has_magazines(caller.window, NULL), *went_on = context;

    atomic_store(&caller.go, true);
    while (!atomic_load(&caller.called)) {
        sched_yield();
    }
    for (int i = 0; i < 50; i++) {
        sched_yield();
    }
    *went_on = atomic_load(&caller.returned) ||
               has_magazines(caller.window, NULL) != had;
}

static void do_nothing(wm_window *window, void *context)
{
}

WT_LOOP_TEST(test_B14_threads_wait_until_a_visit_is_finished, CALLS)
{
    bool went_on = true;
    const wm_visit visit = {has_magazines, do_nothing, wait_for_caller,
                            &went_on};
    pthread_t thread;

    memset(&caller, 0, sizeof caller);
    caller.call = _i;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_meanwhile, NULL), 0);
    while (!atomic_load(&caller.ready)) {
        sched_yield();
    }
    ck_assert(wm_window_visit(runtime, &visit));
    pthread_join(thread, NULL);
    wt_ok(caller.status);
    ck_assert(!went_on);
    ck_assert(caller.returned);
}

/* One thread frees its block and then another allocates one, while a third
 * makes a visit wait between the windows of both: the reader of the statistics
 * must find one block, not two or none. */
enum { TAKER, BLOCKER, OWNER, THREADS };
static struct {
    _Atomic unsigned ready; /* threads that have a window and a set */
    _Atomic bool held, visited, freed, read;
    warm_status status[THREADS];
} hand;

static bool is_visited(void)
{
    return wm_biased_is_revoked(
        (wm_biased_lock *)(uintptr_t)&wm_window_current->biased,
        WM_REVOKED_VISIT);
}

static void yield_often(void)
{
    for (int i = 0; i < 50; i++) {
        sched_yield();
    }
}

static void wait_until(_Atomic bool *flag)
{
    while (!atomic_load(flag)) {
        sched_yield();
    }
}

static void block_the_visit(void)
{
    wm_biased_lock *biased = &wm_window_mine()->biased;

    while (atomic_load(&hand.ready) != THREADS) {
        sched_yield();
    }
    wm_biased_acquire(biased);
    atomic_store(&hand.held, true);
    while (!is_visited()) {
        sched_yield();
    }
    yield_often(); /* the owner's window is visited */
    atomic_store(&hand.visited, true);
    for (int i = 0; i < 5 && !atomic_load(&hand.freed); i++) {
        yield_often();
    }
    yield_often(); /* and the taker has its block, if they can */
    wm_biased_release(biased);
}

static void hand_on(void *argument, unsigned index)
{
    void *block = NULL;

    while (atomic_load(&hand.ready) != index) {
        sched_yield();
    }
    hand.status[index] = warm_pinned_alloc(runtime, 4096, &block);
    if (hand.status[index] == WARM_OK && index != OWNER) {
        hand.status[index] = warm_free(block);
    }
    atomic_store(&hand.ready, index + 1);
    if (index == BLOCKER) {
        block_the_visit();
        return;
    }
    wait_until(&hand.visited);
    if (index == OWNER) {
        hand.status[OWNER] = warm_free(block);
        atomic_store(&hand.freed, true);
    } else {
        wait_until(&hand.freed);
        hand.status[TAKER] = warm_pinned_alloc(runtime, 4096, &block);
        wait_until(&hand.read);
        if (hand.status[TAKER] == WARM_OK) {
            hand.status[TAKER] = warm_free(block);
        }
    }
}

static void read_or_hand_on(void *argument, unsigned index)
{
    warm_space_stats *stats = argument;

    if (index < THREADS) {
        hand_on(NULL, index);
        return;
    }
    wait_until(&hand.held);
    stats->size = sizeof *stats;
    (void)warm_pinned_get_stats(runtime, stats);
    atomic_store(&hand.read, true);
}

WT_TEST(test_B14_figures_of_threads_belong_to_one_moment)
{
    warm_space_stats stats = {.size = 0};

    memset(&hand, 0, sizeof hand);
    wt_threads(THREADS + 1, read_or_hand_on, &stats);
    for (int i = 0; i < THREADS; i++) {
        wt_ok(hand.status[i]);
    }
    ck_assert_uint_eq(stats.live.current, 1);
    ck_assert_uint_eq(stats.requested_bytes.current, 4096);
}

WT_TEST(test_a_refused_barrier_leaves_windows_as_they_were)
{
    const wm_visit all = {NULL, count_visit, NULL, &seen};
    warm_stream stream = NULL;

    wt_needs(wt_barriers_stay() == NULL, wt_barriers_stay());
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_refuse_barriers();
    ck_assert(!wm_window_visit(runtime, &all));
    ck_assert_uint_eq(seen, 0);
    ck_assert(wm_biased_enter(&wm_window_mine()->biased));
    wm_biased_leave(&wm_window_mine()->biased);
}

/* Threads that keep blocks: one in its magazine, one with the caller. */
struct keeper {
    pthread_barrier_t barrier;
    void *block;
    warm_status status, after;
};

static void *keep_blocks(void *argument)
{
    struct keeper *keeper = argument;
    void *cached = NULL;

    keeper->status = warm_pinned_alloc(runtime, 4096, &keeper->block);
    if (keeper->status == WARM_OK) {
        keeper->status = warm_pinned_alloc(runtime, 4096, &cached);
    }
    if (keeper->status == WARM_OK) {
        keeper->status = warm_free(cached);
    }
    pthread_barrier_wait(&keeper->barrier);
    pthread_barrier_wait(&keeper->barrier);
    keeper->after = warm_pinned_alloc(runtime, 4096, &cached);
    return NULL;
}

static pthread_t begin_keeper(struct keeper *keeper)
{
    pthread_t thread;

    pthread_barrier_init(&keeper->barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_blocks, keeper), 0);
    pthread_barrier_wait(&keeper->barrier);
    wt_ok(keeper->status);
    return thread;
}

/* What other threads keep is counted and taken back all the same. */
WT_TEST(test_without_barriers_visits_go_on)
{
    warm_space_stats stats;
    struct keeper keeper = {.block = NULL};
    pthread_t thread;

    wt_needs(wt_barriers_stay() == NULL, wt_barriers_stay());
    wt_refuse_barriers();
    wt_runtime_end(runtime);
    runtime = wt_runtime(NULL);
    thread = begin_keeper(&keeper);
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.live.current, 1);
    ck_assert_uint_eq(stats.cached_bytes, 4096);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.cached_bytes, 0);
    wt_ok(warm_free(keeper.block));
    pthread_barrier_wait(&keeper.barrier);
    pthread_join(thread, NULL);
    wt_ok(keeper.after);
    wt_ok(warm_runtime_destroy(runtime, NULL));
    runtime = wt_runtime(NULL);
}

/* Destroy needs no barrier, since no thread is in a call of the runtime then.
 * The threads' next calls answer that the runtime is gone. */
WT_TEST(test_destroy_after_barriers_are_refused)
{
    warm_destroy_report report = {.size = sizeof report};
    struct keeper keeper = {.block = NULL};
    pthread_t thread = begin_keeper(&keeper);

    if (wt_barriers_stay() == NULL) {
        wt_refuse_barriers();
    }
    wt_ok(warm_free(keeper.block));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 0);
    pthread_barrier_wait(&keeper.barrier);
    pthread_join(thread, NULL);
    wt_fails(WARM_RUNTIME_GONE, keeper.after);
    runtime = wt_runtime(NULL);
}

static void (*empty)(warm_runtime *owner, wm_window *window);

static void count_empty(warm_runtime *owner, wm_window *window)
{
    ck_assert_ptr_eq(owner, runtime);
    ck_assert_uint_ne(window->devices, 0);
    emptied++;
    empty(owner, window);
}

/* A window that has nothing to empty is left alone at its thread's end. */
static void *cache_and_hold(void *argument)
{
    void *block = NULL;

    if (warm_pinned_alloc(runtime, 4096, &block) == WARM_OK) {
        (void)warm_free(block);
    }
    return hold_window(argument);
}

WT_TEST(test_G1_a_window_is_emptied_once_however_it_ends)
{
    warm_stream stream = NULL;
    pthread_barrier_t barrier;
    pthread_t thread;
    void *block;

    empty = runtime->window_empty;
    runtime->window_empty = count_empty;
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_eq(emptied, 0);
    block = wt_pinned(runtime, 4096);
    wt_ok(warm_free(block));
    wt_ok(warm_thread_release(runtime));
    ck_assert_uint_eq(emptied, 1);
    pthread_barrier_init(&barrier, NULL, 2);
    for (unsigned i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, cache_and_hold, &barrier);
        pthread_barrier_wait(&barrier);
        ck_assert_uint_eq(emptied, 1 + i);
        if (i == 1) { /* destroy finds it */
            warm_destroy_report report = {.size = sizeof report};

            wt_ok(warm_runtime_destroy(runtime, &report));
            ck_assert_uint_eq(emptied, 3);
        }
        pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
        ck_assert_uint_eq(emptied, 2 + i);
    }
    runtime = wt_runtime(NULL);
}

WT_TEST(test_windows_may_be_revoked_from_birth_and_at_exit)
{
    warm_stream stream = NULL;

    runtime->window_revoked |= WM_REVOKED_SLOW;
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    ck_assert(!wm_biased_enter(&wm_window_mine()->biased));
    wt_runtime_end(runtime);
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    ck_assert(wm_biased_enter(&wm_window_mine()->biased));
    wm_biased_leave(&wm_window_mine()->biased);
    wm_window_close_all(runtime);
    ck_assert(!wm_biased_enter(&wm_window_mine()->biased));
    wt_ok(warm_thread_release(runtime));
}
