/* check_prewarm_with.c: what others can do while memory is obtained ahead (row
 * B9): the ready prefix is reported, other requests are served between two
 * regions, pauses, cancels, and the turns of several processes. Host device. */
/* memcheck: one process */
#include "wt_memory.h"

#include "alloc/space/space_int.h"
#include "runtime/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static warm_runtime *runtime;

static void begin(warm_options *options)
{
    runtime = wt_memory_begin(options);
}

static const unsigned ways[] = {0, WARM_PREWARM_BACKGROUND};

/* ---- the ready prefix ---------------------------------------------------- */

enum { CALLS = 16 };

/* What the callback saw, and what it does. */
struct told {
    size_t ready[CALLS], total[CALLS];
    unsigned calls;
    size_t cancel_at; /* 0: it does not cancel */
    warm_status waited;
};

static int note(void *context, size_t ready, size_t total)
{
    struct told *told = context;

    if (told->calls < CALLS) {
        told->ready[told->calls] = ready;
        told->total[told->calls] = total;
    }
    if (told->calls++ == 0) {
        told->waited = warm_pinned_prewarm_wait(runtime);
    }
    return told->cancel_at != 0 && ready >= told->cancel_at;
}

static warm_status prewarm(size_t bytes, unsigned flags, struct told *told,
                           uint64_t pause_ns)
{
    warm_prewarm_options how = {.size = sizeof how,
                                .progress = told != NULL ? note : NULL,
                                .context = told,
                                .pause_ns = pause_ns};
    warm_status status =
        warm_pinned_prewarm_with(runtime, bytes, 0, flags, &how);

    return status == WARM_OK ? warm_pinned_prewarm_wait(runtime) : status;
}

WT_LOOP_TEST(test_B9_ready_prefix_is_reported_after_each_region, 2)
{
    struct told told = {.calls = 0};

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wt_ok(prewarm(28 * MIB, ways[_i], &told, 0));
    ck_assert_uint_eq(told.calls, 4);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_eq(told.ready[i], i < 3 ? (i + 1) * 8 * MIB : 28 * MIB);
        ck_assert_uint_eq(told.total[i], 28 * MIB);
    }
    /* It would wait for itself. */
    ck_assert_int_eq(told.waited, WARM_INVALID_ARGUMENT);
    /* All is there. */
    told.calls = 0;
    wt_ok(prewarm(16 * MIB, ways[_i], &told, 0));
    ck_assert_uint_eq(told.calls, 1);
    ck_assert_uint_eq(told.ready[0], 16 * MIB);
    /* Nothing is. */
    wt_ok(prewarm(0, ways[_i], &told, 0));
    ck_assert_uint_eq(told.calls, 1);
    wt_memory_end();
}

WT_LOOP_TEST(test_B9_callback_cancels_its_prewarm, 2)
{
    struct told told = {.cancel_at = 16 * MIB};
    uint64_t done = 0, wanted = 0;

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    if (_i == 0) {
        wt_fails(WARM_NOT_READY, prewarm(32 * MIB, 0, &told, 0));
        wt_says("prewarm of 32.0 MiB", "cancelled, 16.0 MiB idle");
    } else {
        wt_ok(prewarm(32 * MIB, ways[_i], &told, 0));
        wt_ok(warm_pinned_prewarm_progress(runtime, &done, &wanted));
        ck_assert_uint_eq(done, 16 * MIB);
    }
    ck_assert_uint_eq(told.calls, 2);
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 16 * MIB);
    wt_memory_end();
}

/* Allocates all that is ready, and obtains no more of it. */
static int take_all(void *context, size_t ready, size_t total)
{
    void **block = context;

    if (ready < total) {
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        (void)warm_pinned_alloc(runtime, 8 * MIB, &block[i]);
    }
    return 1;
}

WT_LOOP_TEST(test_B9_what_a_callback_that_cancels_takes_is_not_replaced, 2)
{
    void *block[2] = {NULL};
    warm_prewarm_options how = {
        .size = sizeof how, .progress = take_all, .context = block};

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wt_ok(prewarm(8 * MIB, 0, NULL, 0));
    wt_ok(warm_pinned_prewarm_with(runtime, 16 * MIB, 0, ways[_i], &how));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_ptr_nonnull(block[1]);
    ck_assert_uint_eq(wt_memory.obtained, 2);
    wt_free(block[0], block[1]);
    wt_memory_end();
}

WT_TEST(test_B9_failed_prewarm_reports_no_more_than_there_is)
{
    struct told told = {.calls = 0};

    begin(&(warm_options){.pin_chunk = 8 * MIB, .pinned_high = 16 * MIB});
    wt_fails(WARM_OUT_OF_MEMORY, prewarm(32 * MIB, 0, &told, 0));
    ck_assert_uint_eq(told.calls, 2);
    wt_fails(WARM_OUT_OF_MEMORY,
             prewarm(40 * MIB, WARM_PREWARM_BACKGROUND, &told, 0));
    ck_assert_uint_eq(told.calls, 2);
    wt_memory_end();
}

WT_TEST(test_B9_job_has_one_callback_and_the_largest_total)
{
    struct told first = {.calls = 0}, second = {.calls = 0};
    warm_prewarm_options how = {
        .size = sizeof how, .progress = note, .context = &first};

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wt_set(&wt_memory.closed, true);
    wt_ok(warm_pinned_prewarm(runtime, 16 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_await(&wt_memory.inside);
    wt_ok(warm_pinned_prewarm_with(runtime, 8 * MIB, 0, WARM_PREWARM_BACKGROUND,
                                   &how));
    how.context = &second;
    wt_invalid(warm_pinned_prewarm_with(runtime, 64 * MIB, 0,
                                        WARM_PREWARM_BACKGROUND, &how));
    wt_says("callback is under way");
    wt_ok(warm_pinned_prewarm(runtime, 24 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_set(&wt_memory.closed, false);
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_uint_eq(second.calls, 0);
    ck_assert_uint_eq(first.calls, 3);
    ck_assert_uint_eq(first.ready[2], 24 * MIB);
    ck_assert_uint_eq(first.total[0], 24 * MIB);
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 24 * MIB);
    wt_memory_end();
}

/* ---- pauses and cancels -------------------------------------------------- */

#define HOUR ((uint64_t)3600 * 1000000000)

static _Atomic uint64_t ahead; /* of the clock */

static uint64_t clock_ahead(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
           atomic_load_explicit(&ahead, memory_order_relaxed);
}

/* Takes an hour. */
static warm_status alloc_slowly(wm_driver *d, size_t bytes, void **pointer)
{
    atomic_fetch_add_explicit(&ahead, HOUR, memory_order_relaxed);
    return wt_memory_alloc(d, bytes, pointer);
}

struct call {
    warm_status status;
    _Atomic bool told;
    uint64_t pause_ns;
};

static int note_call(void *context, size_t ready, size_t total)
{
    struct call *call = context;

    wt_set(&call->told, true);
    return 0;
}

static void *call_prewarm(void *argument)
{
    struct call *call = argument;
    warm_prewarm_options how = {.size = sizeof how,
                                .progress = note_call,
                                .context = call,
                                .pause_ns = call->pause_ns};

    call->status = warm_pinned_prewarm_with(runtime, 32 * MIB, 0, 0, &how);
    return NULL;
}

WT_TEST(test_B9_another_thread_cancels_between_two_regions)
{
    struct call call = {.status = WARM_OK};
    pthread_t thread;

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wt_set(&wt_memory.closed, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, call_prewarm, &call), 0);
    wt_await(&wt_memory.inside);
    wt_ok(warm_pinned_prewarm_cancel(runtime));
    wt_set(&wt_memory.closed, false);
    pthread_join(thread, NULL);
    ck_assert_int_eq(call.status, WARM_NOT_READY);
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 8 * MIB);
    wt_memory_end();
}

/* The pause would take an hour. */
WT_TEST(test_B9_cancel_ends_a_pause)
{
    struct call call = {.status = WARM_OK, .pause_ns = 2 * HOUR};
    pthread_t thread;

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wm_clock_set(clock_ahead);
    wt_memory.ops.pinned_alloc = alloc_slowly;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_prewarm, &call), 0);
    wt_await(&call.told);
    wt_ok(warm_pinned_prewarm_cancel(runtime));
    pthread_join(thread, NULL);
    wm_clock_set(NULL);
    ck_assert_int_eq(call.status, WARM_NOT_READY);
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 8 * MIB);
    wt_memory_end();
}

static uint64_t pause_of_job(void)
{
    wm_background *b = &wt_memory_space()->background;
    uint64_t left;
    int node = 0;

    wm_lock_acquire(&b->waker.lock);
    left = b->obtaining ? 0 : wm_prewarm_due_locked(b, &node);
    wm_lock_release(&b->waker.lock);
    return left;
}

/* As long as the region took, at most pause_ns. */
WT_LOOP_TEST(test_B9_job_pauses_and_is_cancelled_at_once, 2)
{
    uint64_t longest = _i == 0 ? 2 * HOUR : HOUR / 2;
    warm_prewarm_options how = {.size = sizeof how, .pause_ns = longest};
    uint64_t left;

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wm_clock_set(clock_ahead);
    wt_memory.ops.pinned_alloc = alloc_slowly;
    wt_ok(warm_pinned_prewarm_with(runtime, 32 * MIB, 0,
                                   WARM_PREWARM_BACKGROUND, &how));
    while ((left = pause_of_job()) == 0) {
        sched_yield();
    }
    ck_assert_uint_le(left, _i == 0 ? HOUR + HOUR / 4 : HOUR / 2);
    ck_assert_uint_gt(left, HOUR / 4);
    ck_assert_uint_eq(wt_memory.obtained, 1);
    /* The clock comes to its end. */
    atomic_fetch_add_explicit(&ahead, 2 * HOUR, memory_order_relaxed);
    wm_waker_wake(&wt_memory_space()->background.waker);
    while (wt_memory_stats().idle_bytes < 16 * MIB) {
        sched_yield();
    }
    wt_ok(warm_pinned_prewarm_cancel(runtime));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    wm_clock_set(NULL);
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 16 * MIB);
    wt_memory_end();
}

/* ---- turns of several processes ------------------------------------------ */

static char folder[WT_FOLDER], path[WT_FOLDER + 16];

static void setup(void)
{
    wt_folder(folder);
    snprintf(path, sizeof path, "%s/turn", folder);
}

static void teardown(void)
{
    wt_folder_end(folder);
}

/* As another process does. */
static int open_file(void)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_int_ge(file, 0);
    return file;
}

static bool can_lock(int file)
{
    return flock(file, LOCK_EX | LOCK_NB) == 0;
}

static int other;
static _Atomic unsigned locked_inside, calls_inside;

static warm_status alloc_and_look(wm_driver *d, size_t bytes, void **pointer)
{
    atomic_fetch_add_explicit(&calls_inside, 1, memory_order_relaxed);
    if (can_lock(other)) {
        flock(other, LOCK_UN);
    } else {
        atomic_fetch_add_explicit(&locked_inside, 1, memory_order_relaxed);
    }
    return wt_memory_alloc(d, bytes, pointer);
}

static uint64_t still_clock(void)
{
    return 1;
}

WT_CASE("turns", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B9_file_is_locked_for_each_region_and_free_between, 3)
{
    wt_linger linger = {0};
    void *block[4];
    int fd;

    other = open_file();
    wm_clock_set(_i == 2 ? still_clock : NULL);
    begin(&(warm_options){.pin_chunk = 8 * MIB,
                          .pin_lock_file = path,
                          .background = _i == 2 ? "on" : "off",
                          .reserve_bytes = _i == 2 ? 24 * MIB : 0});
    wt_memory.ops.pinned_alloc = alloc_and_look;
    if (_i < 2) {
        wt_ok(prewarm(24 * MIB, ways[_i], NULL, 0));
    } else { /* after a region it pauses */
        while (wt_memory_stats().idle_bytes == 0 || wt_lingers(&linger)) {
            sched_yield();
        }
        ck_assert_uint_eq(wt_memory_stats().idle_bytes, 8 * MIB);
        wm_clock_set(NULL);
    }
    while (wt_memory_stats().idle_bytes < 24 * MIB) {
        sched_yield(); /* the reserve */
    }
    wt_memory_settle();
    ck_assert_uint_eq(locked_inside, calls_inside);
    while (!can_lock(other)) {
        sched_yield(); /* the last turn ends */
    }
    /* A request that the program waits for does not wait for others. */
    locked_inside = calls_inside = 0;
    for (int i = 0; i < 4; i++) {
        block[i] = wt_memory_take(8 * MIB);
    }
    if (_i < 2) { /* else the reserve comes back */
        ck_assert_uint_eq(calls_inside, 1);
        ck_assert_uint_eq(locked_inside, 0);
    }
    wt_free_all(block, 4);
    fd = runtime->turn.fd;
    wt_memory_end();
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0); /* it is closed */
    close(other);
    locked_inside = calls_inside = 0;
}

/* Nothing is obtained until another process has had its turn. */
WT_LOOP_TEST(test_B9_prewarm_waits_for_its_turn_or_a_cancel, 4)
{
    struct call call = {.status = WARM_OK};
    bool background = _i % 2 == 1, cancels = _i >= 2;
    wt_linger linger = {0};
    pthread_t thread;

    other = open_file();
    ck_assert(can_lock(other));
    begin(&(warm_options){.pin_chunk = 8 * MIB, .pin_lock_file = path});
    if (background) {
        wt_ok(
            warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND));
    } else {
        ck_assert_int_eq(pthread_create(&thread, NULL, call_prewarm, &call), 0);
    }
    while (wt_memory.obtained == 0 && wt_lingers(&linger)) {
    }
    ck_assert_uint_eq(wt_memory.obtained, 0);
    if (cancels) {
        /* Until the call has begun, a cancel is none of it. */
        do {
            wt_ok(warm_pinned_prewarm_cancel(runtime));
        } while (!background && pthread_tryjoin_np(thread, NULL) == EBUSY);
    } else {
        flock(other, LOCK_UN);
    }
    if (!background && !cancels) {
        pthread_join(thread, NULL);
    }
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_int_eq(call.status,
                     !background && cancels ? WARM_NOT_READY : WARM_OK);
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, cancels ? 0 : 32 * MIB);
    wt_memory_end();
    close(other);
}

/* A runtime that is destroyed does not wait for other processes. */
WT_TEST(test_B9_destroy_ends_the_wait_for_a_turn)
{
    other = open_file();
    ck_assert(can_lock(other));
    begin(&(warm_options){.pin_chunk = 8 * MIB, .pin_lock_file = path});
    wt_ok(warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_runtime_destroy(runtime, NULL));
    ck_assert_uint_eq(wt_memory.obtained, 0);
    close(other);
}

WT_TEST(test_B9_file_that_cannot_be_opened_is_named_at_creation)
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .pin_lock_file = "/nowhere/at/all"};
    warm_runtime *none = NULL;

    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &none));
    ck_assert_ptr_null(none);
    wt_says("pin_lock_file", "/nowhere/at/all", "No such file");
}

/* The program closed all its descriptors, and has a file of its own there. */
WT_TEST(test_B9_file_of_the_program_with_our_number_is_left_alone)
{
    int mine, fd;

    begin(&(warm_options){.pin_chunk = 8 * MIB, .pin_lock_file = path});
    fd = runtime->turn.fd;
    mine = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(dup2(mine, fd), fd);
    wt_ok(prewarm(16 * MIB, 0, NULL, 0));
    ck_assert(can_lock(mine));
    wt_memory_end();
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
    close(fd);
    close(mine);
}

/* In a child: holds its turn, forks, and waits to be killed. */
static _Noreturn void die_in_turn(int answer)
{
    pid_t heir;

    begin(&(warm_options){.pin_chunk = 8 * MIB, .pin_lock_file = path});
    wt_set(&wt_memory.closed, true);
    if (warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND) !=
        WARM_OK) {
        _exit(1);
    }
    wt_await(&wt_memory.inside);
    heir = fork();
    if (heir == 0) {
        for (;;) {
            pause();
        }
    }
    if (write(answer, &heir, sizeof heir) != (ssize_t)sizeof heir) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

WT_CASE("processes", .setup = setup, .teardown = teardown, .tags = "programs");

/* Though a child of it lives on. */
WT_TEST(test_B9_process_that_dies_gives_its_turn_up)
{
    pid_t child, heir = 0;
    int answer[2], ended;

    other = open_file();
    ck_assert_int_eq(pipe(answer), 0);
    child = fork();
    if (child == 0) {
        die_in_turn(answer[1]);
    }
    close(answer[1]);
    ck_assert_int_eq(read(answer[0], &heir, sizeof heir), sizeof heir);
    ck_assert(!can_lock(other));
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &ended, 0), child);
    /* The heir may not have come to closing it. */
    while (!can_lock(other)) {
        sched_yield();
    }
    kill(heir, SIGKILL);
    close(answer[0]);
    close(other);
}
