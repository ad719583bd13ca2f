/* check_grow.c: growth while other threads grow, free or trim, and growth that
 * is refused in part (parts of rows B9 and B12). Host device; its memory calls
 * wait where a test wants them to, and refuse what is too much. */
/* memcheck: one process */
#include "runtime/base/os_page.h"
#include "wt_memory.h"

#include "runtime/base/meta.h"

#include <string.h>

/* ---- two threads ------------------------------------------------------ */

static struct {
    size_t bytes[2];
    void *pointer[2];
    warm_status status[2];
    _Atomic bool second_done, late;
    bool beside; /* 1 must get through, however long that takes */
} act;

static void set_up(void)
{
    memset(&act, 0, sizeof act);
}

/* Thread 0 calls the driver and waits there; 1 allocates; 2 lets the driver go
 * on once 1 is done, or, where 1 may wait for 0, has had the time. */
static void play(void *argument, unsigned index)
{
    wt_linger linger = {0};

    (void)argument;
    /* Or the driver does not wait any more: thread 0 may have returned. */
    while (index == 1 && !wt_flag(&wt_memory.inside) &&
           wt_flag(&wt_memory.closed)) {
        sched_yield();
    }
    if (index < 2) {
        act.status[index] = warm_pinned_alloc(
            wt_memory.runtime, act.bytes[index], &act.pointer[index]);
        if (index == 1) {
            wt_set(&act.late, !wt_flag(&wt_memory.closed));
            wt_set(&act.second_done, true);
        }
        return;
    }
    wt_await(&wt_memory.inside);
    while ((wt_lingers(&linger) || act.beside) && !wt_flag(&act.second_done)) {
    }
    wt_set(&wt_memory.closed, false);
}

static void play_both(size_t first, size_t second)
{
    act.bytes[0] = first;
    act.bytes[1] = second;
    wt_set(&wt_memory.closed, true);
    wt_threads(3, play, NULL);
}

static void free_both(void)
{
    wt_free(act.pointer[0], act.pointer[1]);
}

WT_CASE("growth", .setup = set_up);

WT_TEST(test_request_that_fits_waits_for_the_growth_of_another)
{
    (void)wt_memory_begin(&(warm_options){.segment = 4 * MIB});
    play_both(1 * MIB, 3 * MIB);
    wt_ok(act.status[0]);
    wt_ok(act.status[1]);
    ck_assert(wt_flag(&act.late));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 1);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 4 * MIB);
    free_both();
    wt_memory_end();
}

/* In what thread 0 obtains there is room for 1 or 2: the other one calls the
 * driver itself, after which thread 3 lets the driver go on. */
static void share_room(void *argument, unsigned index)
{
    void **pointer = argument;

    if (index == 3) {
        wt_await(&act.second_done);
        wt_set(&wt_memory.closed, false);
        return;
    }
    if (index > 0) {
        wt_await(&wt_memory.inside);
    }
    (void)warm_pinned_alloc(wt_memory.runtime, (index > 0 ? 2 : 1) * MIB,
                            &pointer[index]);
    if (index > 0) {
        wt_set(&act.second_done, true);
    }
}

WT_TEST(test_room_in_a_growth_is_promised_once)
{
    void *pointer[3] = {NULL, NULL, NULL};

    (void)wt_memory_begin(&(warm_options){.segment = 4 * MIB});
    wt_set(&wt_memory.closed, true);
    wt_threads(4, share_room, pointer);
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 2);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(pointer[i]);
        wt_ok(warm_free(pointer[i]));
    }
    wt_memory_end();
}

WT_TEST(test_request_that_does_not_fit_grows_beside_another)
{
    (void)wt_memory_begin(&(warm_options){.segment = 4 * MIB});
    act.beside = true;
    play_both(2 * MIB, 3 * MIB);
    wt_ok(act.status[0]);
    wt_ok(act.status[1]);
    ck_assert(!wt_flag(&act.late));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 2);
    free_both();
    wt_memory_end();
}

/* The growth whose room was claimed fails. */
WT_TEST(test_request_that_waited_in_vain_grows_by_itself)
{
    (void)wt_memory_begin(&(warm_options){.segment = 4 * MIB});
    wt_set(&wt_memory.breaks, true);
    play_both(1 * MIB, 1 * MIB);
    wt_ok(act.status[0]);
    wt_ok(act.status[1]);
    ck_assert_uint_eq(wt_memory_stats().failures, 0);
    free_both();
    wt_memory_end();
}

/* The growth that holds the room under the limit fails. */
WT_TEST(test_B12_limit_that_a_failing_growth_reserves_is_waited_for)
{
    (void)wt_memory_begin(
        &(warm_options){.segment = 1 * MIB, .pinned_high = 32 * MIB});
    wt_set(&wt_memory.breaks, true);
    play_both(20 * MIB, 24 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, act.status[0]);
    wt_ok(act.status[1]);
    ck_assert(wt_flag(&act.late));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.peak, 24 * MIB);
    wt_ok(warm_free(act.pointer[1]));
    wt_memory_end();
}

/* Room under the limit is used once. */
WT_TEST(test_limit_holds_while_two_grow)
{
    (void)wt_memory_begin(
        &(warm_options){.segment = 1 * MIB, .pinned_high = 32 * MIB});
    play_both(20 * MIB, 24 * MIB);
    wt_ok(act.status[0]);
    wt_fails(WARM_OUT_OF_MEMORY, act.status[1]);
    ck_assert(wt_flag(&act.late));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.peak, 20 * MIB);
    wt_ok(warm_free(act.pointer[0]));
    wt_memory_end();
}

/* The driver refuses thread 0; thread 1 has returned a segment meanwhile. */
static void give_back_meanwhile(void *argument, unsigned index)
{
    void **pointer = argument;

    if (index == 0) {
        act.status[0] = warm_pinned_alloc(wt_memory.runtime, 8 * MIB, pointer);
    } else {
        wt_await(&wt_memory.inside);
        act.status[1] = warm_pinned_trim(wt_memory.runtime, 0, NULL);
        wt_set(&wt_memory.closed, false);
    }
}

WT_TEST(test_B12_what_went_back_meanwhile_is_worth_another_try)
{
    void *pointer = NULL;

    (void)wt_memory_begin(&(warm_options){.segment = 1 * MIB});
    wt_ok(warm_pinned_prewarm(wt_memory.runtime, 1 * MIB, 0, 0));
    wt_set(&wt_memory.breaks, true);
    wt_set(&wt_memory.closed, true);
    wt_threads(2, give_back_meanwhile, &pointer);
    wt_ok(act.status[1]);
    wt_ok(act.status[0]);
    ck_assert_uint_eq(wt_memory.returned, 1);
    wt_ok(warm_free(pointer));
    wt_memory_end();
}

/* Called by a request that the limit refused, before it looks for calls in
 * flight: the growth that held the room fails in between. */
static warm_status keep_segment(wm_driver *d, void *pointer, size_t bytes)
{
    wm_growth *growth = &wt_memory_space()->growth;
    size_t coming = 1;

    (void)d;
    wt_set(&wt_memory.closed, false);
    while (!wt_flag(&act.late) && coming > 0) {
        wm_lock_acquire(&growth->lock);
        coming = growth->coming;
        wm_lock_release(&growth->lock);
        sched_yield();
    }
    wt_set(&act.late, true);
    return wm_fail(WARM_DRIVER_ERROR, "%zu bytes at %p stay", bytes, pointer);
}

static void ask_beside(void *argument, unsigned index)
{
    void **pointer = argument;

    if (index == 1) {
        wt_await(&wt_memory.inside);
    }
    act.status[index] = warm_pinned_alloc(
        wt_memory.runtime, (index == 0 ? 30 : 24) * MIB, &pointer[index]);
}

WT_TEST(test_B12_room_that_was_left_meanwhile_is_worth_another_try)
{
    void *pointer[2] = {NULL, NULL};

    (void)wt_memory_begin(
        &(warm_options){.segment = 1 * MIB, .pinned_high = 32 * MIB});
    wt_ok(warm_pinned_prewarm(wt_memory.runtime, 1 * MIB, 0, 0));
    wt_memory.ops.pinned_free = keep_segment;
    wt_memory.refusing = 26 * MIB;
    wt_set(&wt_memory.closed, true);
    wt_threads(2, ask_beside, pointer);
    wt_fails(WARM_OUT_OF_MEMORY, act.status[0]);
    wt_ok(act.status[1]);
    wt_memory.ops.pinned_free = wt_memory_free;
    wt_ok(warm_free(pointer[1]));
    wt_memory_end();
}

static warm_status refuse_free(wm_driver *d, void *pointer, size_t bytes)
{
    (void)d;
    return wm_fail(WARM_DRIVER_ERROR, "%zu bytes at %p stay", bytes, pointer);
}

/* The message names the refusal of memory, not that a segment stays. */
WT_TEST(test_B12_reason_is_that_of_the_request)
{
    void *pointer = NULL;

    (void)wt_memory_begin(&(warm_options){.segment = 1 * MIB});
    wt_ok(warm_pinned_prewarm(wt_memory.runtime, 1 * MIB, 0, 0));
    wt_memory.refusing = 2 * MIB;
    wt_memory.ops.pinned_free = refuse_free;
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(wt_memory.runtime, 8 * MIB, &pointer));
    wt_says("are too much");
    ck_assert_ptr_null(strstr(warm_last_error_message(), "stay"));
    wt_memory.ops.pinned_free = wt_memory_free;
    wt_memory_end();
}

/* A region without a record is returned; one that the driver does not take back
 * stays held. */
WT_LOOP_TEST(test_B12_region_without_records_goes_back, 2)
{
    uint64_t gone = 0;
    bool refuses = _i == 1;

    for (uint64_t n = 1; n <= 12; n++) {
        void *pointer = NULL;
        bool lost;

        (void)wt_memory_begin(&(warm_options){.segment = 1 * MIB});
        wt_memory.ops.pinned_free = refuses ? refuse_free : wt_memory_free;
        wm_meta_fail(n, false);
        (void)warm_pinned_alloc(wt_memory.runtime, 2 * MIB, &pointer);
        wm_meta_fail(0, false);
        wt_memory.ops.pinned_free = wt_memory_free;
        lost = refuses && pointer == NULL && wt_memory.obtained > 0;
        gone += lost || wt_memory.returned > 0;
        ck_assert_uint_eq(wt_memory_space()->growth.held,
                          2 * MIB * (wt_memory.obtained - wt_memory.returned));
        ck_assert_uint_eq(wt_memory_space()->growth.coming, 0);
        wt_memory.obtained -= lost; /* and what is left is balanced */
        wt_ok(warm_free(pointer));
        wt_memory_end();
    }
    ck_assert_uint_gt(gone, 0);
}

static void *allocated;

static void allocate(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (allocated == NULL && strstr(line, "no record") != NULL) {
        allocated = wt_memory_take(MIB);
    }
}

/* The log function may allocate while a lost region is logged; else this
 * hangs. */
WT_TEST(test_B12_who_is_told_of_a_lost_region_may_allocate)
{
    unsigned lost = 0;

    for (uint64_t n = 1; n <= 12; n++) {
        void *pointer = NULL;

        allocated = NULL;
        (void)wt_memory_begin(&(warm_options){.segment = 4 * MIB});
        wt_memory.ops.pinned_free = refuse_free;
        warm_log_set(allocate, NULL);
        wm_meta_fail(n, false);
        (void)warm_pinned_alloc(wt_memory.runtime, 2 * MIB, &pointer);
        wm_meta_fail(0, false);
        warm_log_set(NULL, NULL);
        wt_memory.ops.pinned_free = wt_memory_free;
        wt_memory.obtained -= allocated != NULL;
        lost += allocated != NULL;
        wt_free(allocated, pointer);
        wt_memory_end();
    }
    ck_assert_uint_gt(lost, 0);
}

/* ---- trims -------------------------------------------------------------- */

/* Regions of one block each; all are idle. */
static void leave(const size_t *bytes, int count)
{
    void *block[4];

    for (int i = 0; i < count; i++) {
        block[i] = wt_memory_take(bytes[i]);
    }
    wt_free_all(block, count);
}

/* The second one waits in the driver. */
static warm_status free_slowly(wm_driver *d, void *pointer, size_t bytes)
{
    if (wt_memory.returned == 1) {
        wt_set(&wt_memory.inside, true);
        wt_await(&act.late);
    }
    return wt_memory_free(d, pointer, bytes);
}

static void trim_beside(void *argument, unsigned index)
{
    size_t released = 0;

    (void)argument;
    if (index == 1) {
        wt_await(&wt_memory.inside);
    }
    act.status[index] =
        warm_pinned_trim(wt_memory.runtime, 16 * MIB, &released);
    act.bytes[index] = released;
    if (index == 1) {
        wt_set(&act.late, true);
    }
}

/* Of what a slow trim returns some is returned, some in flight: a second trim
 * counts both. */
WT_TEST(test_B11_a_trim_beside_a_slow_one_keeps_to_its_target)
{
    const size_t bytes[] = {8 * MIB, 8 * MIB, 8 * MIB, 8 * MIB};

    (void)wt_memory_begin(&(warm_options){.segment = 1 * MIB});
    leave(bytes, 4);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 32 * MIB);
    wt_memory.ops.pinned_free = free_slowly;
    wt_set(&act.late, false);
    wt_threads(2, trim_beside, NULL);
    wt_set(&wt_memory.inside, false);
    wt_ok(act.status[0]);
    wt_ok(act.status[1]);
    ck_assert_uint_eq(act.bytes[0], 16 * MIB);
    ck_assert_uint_eq(act.bytes[1], 0);
    wt_memory.ops.pinned_free = wt_memory_free;
    wt_memory_end();
}

static unsigned asked;

/* The driver never takes the largest back. */
static warm_status keep_largest(wm_driver *d, void *pointer, size_t bytes)
{
    asked++;
    return bytes >= 20 * MIB ? refuse_free(d, pointer, bytes)
                             : wt_memory_free(d, pointer, bytes);
}

static size_t trim_by(size_t bytes)
{
    size_t released = 0;

    asked = 0;
    wt_ok(warm_pinned_trim(wt_memory.runtime,
                           wt_memory_stats().held_bytes.current - bytes,
                           &released));
    return released;
}

WT_TEST(test_B11_what_the_driver_keeps_makes_way_for_others)
{
    const size_t bytes[] = {6 * MIB, 20 * MIB, 10 * MIB};

    (void)wt_memory_begin(&(warm_options){.segment = 1 * MIB});
    leave(bytes, 3);
    wt_memory.ops.pinned_free = keep_largest;
    ck_assert_uint_eq(trim_by(10 * MIB), 10 * MIB);
    ck_assert_uint_eq(asked, 2);
    /* It is tried last, and once. */
    ck_assert_uint_eq(trim_by(4 * MIB), 6 * MIB);
    ck_assert_uint_eq(asked, 1);
    ck_assert_uint_eq(trim_by(4 * MIB), 0);
    ck_assert_uint_eq(asked, 1);
    /* But after a block of it was used it is tried again. */
    leave(bytes + 1, 2);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 30 * MIB);
    wt_memory.ops.pinned_free = wt_memory_free;
    ck_assert_uint_eq(trim_by(4 * MIB), 20 * MIB);
    wt_memory_end();
}

/* ---- less than a segment ---------------------------------------------- */

WT_TEST(test_region_that_is_refused_is_halved)
{
    void *pointer = NULL;

    (void)wt_memory_begin(&(warm_options){.segment = 16 * MIB});
    wt_memory.refusing = 3 * MIB;
    wt_ok(warm_pinned_alloc(wt_memory.runtime, 5000, &pointer));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 4);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 2 * MIB);
    ck_assert_uint_eq(wt_memory_stats().failures, 0);
    wt_ok(warm_free(pointer));
    wt_memory_end();
}

/* What a limit leaves is requested once, not as often as it takes to halve a
 * segment down to it. */
WT_TEST(test_B12_what_the_limit_leaves_is_refused_once)
{
    void *pointer = NULL;

    (void)wt_memory_begin(
        &(warm_options){.segment = 64 * MIB, .pinned_high = 4 * MIB});
    wt_memory.refusing = 3 * MIB;
    wt_ok(warm_pinned_alloc(wt_memory.runtime, 5000, &pointer));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 2); /* 4, 2 MiB */
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 2 * MIB);
    wt_ok(warm_free(pointer));
    wt_memory_end();
}

WT_TEST(test_region_is_never_smaller_than_the_request)
{
    void *pointer = NULL;

    (void)wt_memory_begin(&(warm_options){.segment = 16 * MIB});
    wt_memory.refusing = 5 * MIB;
    wt_ok(warm_pinned_alloc(wt_memory.runtime, 5 * MIB, &pointer));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 3);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 5 * MIB);
    wt_ok(warm_free(pointer));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(wt_memory.runtime, 5 * MIB + 1, &pointer));
    wt_memory_end();
}

/* A refusal by the limit calls no driver. */
WT_TEST(test_region_is_cut_to_fit_under_the_limit)
{
    void *first = NULL, *second = NULL;

    (void)wt_memory_begin(
        &(warm_options){.segment = 4 * MIB, .pinned_high = 5 * MIB});
    wt_ok(warm_pinned_alloc(wt_memory.runtime, 3 * MIB, &first));
    wt_ok(warm_pinned_alloc(wt_memory.runtime, MIB * 3 / 4, &second));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 1);
    wt_ok(warm_free(second));
    wt_ok(warm_pinned_alloc(wt_memory.runtime, MIB, &second));
    wt_free(second, first);
    wt_ok(warm_pinned_trim(wt_memory.runtime, 0, NULL));
    wt_ok(warm_pinned_alloc(wt_memory.runtime, 5 * MIB, &first));
    wt_ok(warm_free(first));
    wt_memory_end();
}

/* A limit of so many bytes serves all of them, and not one page of more: in
 * segments of a size of which it is no multiple, by one thread or by several
 * that have arenas of their own. */
enum { EDGE_BLOCK = 256 << 10, EDGE_THREADS = 4, EDGE_BLOCKS = 64 };
static const struct {
    size_t limit;
    size_t blocks; /* of EDGE_BLOCK, that it has room for */
} edge[] = {{16 * MIB, 64},
            {16 * MIB - 1, 63},
            {16 * MIB - WM_PAGE, 63},
            {16 * MIB + WM_PAGE - 1, 64},
            {10 * MIB + EDGE_BLOCK, 41},
            {10 * MIB + EDGE_BLOCK - 1, 40},
            {EDGE_BLOCK, 1},
            {EDGE_BLOCK - 1, 0}};
enum { EDGES = sizeof edge / sizeof edge[0] };
static void *taken[EDGE_THREADS][EDGE_BLOCKS];
static _Atomic size_t taken_count;

static void take_all(void *argument, unsigned index)
{
    int i = 0;

    (void)argument;

    while (i < EDGE_BLOCKS && warm_pinned_alloc(wt_memory.runtime, EDGE_BLOCK,
                                                &taken[index][i]) == WARM_OK) {
        i++;
    }
    atomic_fetch_add_explicit(&taken_count, (size_t)i, memory_order_relaxed);
}

WT_LOOP_TEST(test_B12_limit_is_exact_at_its_edge, 2 * EDGES)
{
    unsigned threads = _i < EDGES ? 1 : EDGE_THREADS;
    size_t limit = edge[_i % EDGES].limit, blocks = edge[_i % EDGES].blocks;

    taken_count = 0;
    memset(taken, 0, sizeof taken);
    (void)wt_memory_begin(
        &(warm_options){.segment = 3 * MIB,
                        .pinned_high = limit,
                        .test = wt_list("arenas=%u", threads)});
    wt_threads(threads, take_all, NULL);
    ck_assert_uint_eq(taken_count, blocks);
    ck_assert_uint_ge(wt_memory_stats().held_bytes.peak, blocks * EDGE_BLOCK);
    ck_assert_uint_le(wt_memory_stats().held_bytes.peak, limit);
    ck_assert(blocks > 0 || wt_memory_calls("pinned_alloc") == 0);
    for (unsigned i = 0; i < EDGE_THREADS * EDGE_BLOCKS; i++) {
        wt_ok(warm_free(taken[i / EDGE_BLOCKS][i % EDGE_BLOCKS]));
    }
    wt_memory_end();
}

/* A prewarm may reach the limit, in one region. */
WT_TEST(test_B12_B17_memory_ahead_comes_up_to_the_limit)
{
    (void)wt_memory_begin(&(warm_options){.pinned_high = 6 * MIB});
    wt_ok(warm_pinned_prewarm(wt_memory.runtime, 6 * MIB, 0, 0));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 1);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 6 * MIB);
    wt_memory_end();
}

/* The rest under a limit comes in one region, to the page. */
WT_TEST(test_B12_last_region_is_what_the_limit_leaves)
{
    size_t limit = 7 * MIB + 3 * wm_os_page();
    void *first, *second;

    (void)wt_memory_begin(
        &(warm_options){.segment = 4 * MIB, .pinned_high = limit});
    first = wt_memory_take(4 * MIB);
    second = wt_memory_take(MIB);
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 2);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, limit);
    wt_free(first, second);
    wt_memory_end();
}

/* ---- refused ---------------------------------------------------------- */

enum { LOSERS = 4 };
static warm_status lost[LOSERS];

static void ask_for_too_much(void *argument, unsigned index)
{
    void *pointer = NULL;

    (void)argument;
    lost[index] = warm_pinned_alloc(wt_memory.runtime, 8 * MIB, &pointer);
}

/* A call that fails is no reason for other requests to retry. */
WT_TEST(test_requests_that_are_refused_together_all_end)
{
    (void)wt_memory_begin(&(warm_options){.segment = 16 * MIB});
    wt_memory.refusing = 1;
    for (unsigned i = 0; i < wt_scaled(50); i++) {
        wt_threads(LOSERS, ask_for_too_much, NULL);
        for (int k = 0; k < LOSERS; k++) {
            wt_fails(WARM_OUT_OF_MEMORY, lost[k]);
        }
    }
    ck_assert_uint_eq(wt_memory_stats().failures,
                      (uint64_t)wt_scaled(50) * LOSERS);
    wt_memory_end();
}

/* ---- siblings --------------------------------------------------------- */

static void free_meanwhile(void *argument, unsigned index)
{
    if (index == 0) {
        act.status[0] =
            warm_pinned_alloc(wt_memory.runtime, act.bytes[0], &act.pointer[0]);
        return;
    }
    wt_await(&wt_memory.inside);
    act.status[1] = warm_free(argument);
    wt_set(&wt_memory.closed, false);
}

/* The driver refuses; by then a sibling arena has idle memory, in a segment
 * that cannot move. The segment size is such that the request is not halved. */
WT_TEST(test_B12_block_that_comes_to_a_sibling_meanwhile_is_found)
{
    void *live, *block;

    (void)wt_memory_begin(
        &(warm_options){.test = "arenas=2", .segment = 64 << 10});
    wt_ok(warm_free(wt_memory_take(16 * MIB)));
    live = wt_memory_take(6 * MIB);
    block = wt_memory_take(9 * MIB);
    ck_assert_uint_eq(wt_memory_stats().segments.current, 1);
    wt_memory.refusing = 1;
    wt_set(&wt_memory.breaks, true);
    wt_set(&wt_memory.closed, true);
    act.bytes[0] = 8 * MIB;
    wt_threads(2, free_meanwhile, block);
    wt_ok(act.status[0]);
    wt_ok(act.status[1]);
    ck_assert_ptr_eq(act.pointer[0], block);
    wt_free(act.pointer[0], live);
    wt_memory.refusing = 0;
    wt_memory_end();
}
