/* check_expandable_driver.c: segments that grow in place while the driver is
 * slow, or fails and leaves a part behind; and what is seen of them inside
 * (rows C2, C3, C8).
 * backends: host standin */
/* memcheck: one process */
#include "alloc/block/page_map.h"
#include "alloc/kinds/device_space.h"
#include "alloc/arena/arena.h"
#include "alloc/space/space_int.h"
#include "runtime/base/status.h"
#include "runtime/runtime.h"

#include "wt_expandable.h"

/* The driver's calls, of which one waits where a test wants it to. */
static wm_driver_ops ops;
static const wm_driver_ops *real;
static _Atomic bool closed, inside;
static unsigned ranges_back;

static bool is_set(_Atomic bool *flag)
{
    return atomic_load_explicit(flag, memory_order_acquire);
}

static void set(_Atomic bool *flag, bool to)
{
    atomic_store_explicit(flag, to, memory_order_release);
}

static void await(_Atomic bool *flag, bool value)
{
    while (is_set(flag) != value) {
        sched_yield();
    }
}

/* A call that fails, and that part of what it did cannot be undone. */
static bool tears;

static warm_status tear(bool *torn)
{
    *torn = true;
    return wm_fail(WARM_DRIVER_ERROR, "torn by a test");
}

static warm_status refused_decommit(wm_driver *d, int device, void *range,
                                    size_t offset, size_t bytes)
{
    if (tears) {
        return wm_fail(WARM_DRIVER_ERROR, "refused by a test");
    }
    return real->range_decommit(d, device, range, offset, bytes);
}

static warm_status slow_commit(wm_driver *d, int device, void *range,
                               size_t offset, size_t bytes, bool *torn)
{
    if (tears) {
        return tear(torn);
    }
    set(&inside, true);
    await(&closed, false);
    return real->range_commit(d, device, range, offset, bytes, torn);
}

static void setup(void)
{
    /* Tests may share one process. */
    tears = false;
    begin("on");
    real = runtime->driver->ops;
    ops = *real;
    ops.range_commit = slow_commit;
    ops.range_decommit = refused_decommit;
    runtime->driver->ops = &ops;
}

static wm_growth *growth_now(void)
{
    return &runtime->device_spaces[0].space.growth;
}

/* As if another growth had ended: what was refused is tried again. */
static warm_status refuse_beside(void)
{
    wm_lock_acquire(&growth_now()->lock);
    growth_now()->vacated++;
    wm_lock_release(&growth_now()->lock);
    return wm_fail(WARM_OUT_OF_MEMORY, "refused by a test");
}

static void limit_to(size_t bytes)
{
    wt_limit(runtime, (double)bytes);
}

/* ---- growth -------------------------------------------------------------- */

WT_CASE("expandable_driver", .setup = setup, .teardown = teardown);

/* More than one range, where one has no room. */
WT_TEST(test_C3_C8_a_full_range_is_followed_by_another)
{
    char *block[8];
    size_t range;

    block[0] = take(first, 2 * MIB);
    range = wm_space_find(block[0])->segment->bytes;
    ck_assert_uint_ge(range, wm_space_find(block[0])->segment->held);
    if (wt_on_host()) {
        /* Every other of them becomes a hole: none has 90 MiB. */
        ck_assert_uint_eq(range, 288 * MIB);
        for (int i = 1; i < 8; i++) {
            block[i] = take(first, 34 * MIB);
            ck_assert(wm_space_find(block[i])->segment ==
                      wm_space_find(block[0])->segment);
        }
        for (int i = 1; i < 8; i += 2) {
            wt_ok(warm_free(block[i]));
        }
        ck_assert_uint_ge(empty(), 4 * 34 * MIB);
        block[7] = take(first, 90 * MIB);
        ck_assert(wm_space_find(block[7])->segment !=
                  wm_space_find(block[0])->segment);
        ck_assert_uint_eq(calls_of("range_reserve"), 2);
        ck_assert_uint_eq(stats_now().large.segments.current, 2);
        check();
        for (int i = 2; i < 7; i += 2) {
            wt_ok(warm_free(block[i]));
        }
        wt_ok(warm_free(block[7]));
    }
    wt_ok(warm_free(block[0]));
}

/* ---- pieces -------------------------------------------------------------- */

/* What the driver was asked for, and took back; it refuses pieces above
 * most_of_one, and those that are taken back from number stuck on. */
enum { PIECES = 256 };
static struct {
    size_t asked[PIECES], back[PIECES];
    unsigned asks, backs, stuck;
    size_t most_of_one;
} pieces;

static warm_status piece_commit(wm_driver *d, int device, void *range,
                                size_t offset, size_t bytes, bool *torn)
{
    pieces.asked[pieces.asks++ % PIECES] = bytes;
    if (bytes > pieces.most_of_one) {
        return wm_fail(WARM_OUT_OF_MEMORY, "too large a piece for a test");
    }
    return real->range_commit(d, device, range, offset, bytes, torn);
}

static warm_status piece_decommit(wm_driver *d, int device, void *range,
                                  size_t offset, size_t bytes)
{
    pieces.back[pieces.backs++ % PIECES] = bytes;
    if (pieces.stuck > 0 && pieces.backs >= pieces.stuck) {
        return wm_fail(WARM_DRIVER_ERROR, "stuck for a test");
    }
    return real->range_decommit(d, device, range, offset, bytes);
}

static void watch_pieces(size_t most_of_one)
{
    memset(&pieces, 0, sizeof pieces);
    pieces.most_of_one = most_of_one;
    ops.range_commit = piece_commit;
    ops.range_decommit = piece_decommit;
}

static void assert_asked(size_t count, const size_t *mib)
{
    ck_assert_uint_eq(pieces.asks, count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(pieces.asked[i], mib[i] * MIB);
    }
}

/* What is less than a step comes in units, as long as little is held. */
WT_TEST(test_B8_C8_memory_comes_in_steps_of_64_MiB)
{
    static const size_t steps[] = {64, 64, 64, 2, 2};
    char *block;

    watch_pieces(SIZE_MAX);
    block = take(first, 196 * MIB);
    assert_asked(5, steps);
    ck_assert_uint_eq(held_now(), 196 * MIB);
    ck_assert_uint_eq(stats_now().driver_alloc.count, 5);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 196 * MIB);
    ck_assert_uint_eq(held_now(), 0);
    ck_assert_uint_eq(pieces.backs, 5);
    ck_assert_uint_eq(stats_now().driver_free.count, 5);
}

/* From then on in that growth; and nobody hears of it. */
WT_TEST(test_B8_C8_a_step_is_halved_on_refusal)
{
    static const size_t steps[] = {64, 32, 16, 16, 16, 16, 16, 16, 2, 2};
    warm_error before = {.size = sizeof before}, after = {.size = sizeof after};
    char *block;

    watch_pieces(20 * MIB);
    warm_last_error(&before);
    block = take(first, 100 * MIB);
    warm_last_error(&after);
    assert_asked(10, steps);
    ck_assert_int_eq(after.status, before.status);
    ck_assert_str_eq(after.message, before.message);
    ck_assert_uint_eq(held_now(), 100 * MIB);
    fill(block, 100 * MIB, 3);
    assert_filled(block, 100 * MIB, 3);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 100 * MIB);
}

/* Else it would keep what the request leaves, as long as that lives. */
WT_TEST(test_B8_C8_a_request_shares_no_piece_with_what_comes_beside_it)
{
    char *before = take(first, 130 * MIB), *block, *beside;

    watch_pieces(SIZE_MAX);
    block = take(first, 62 * MIB);
    ck_assert_uint_eq(pieces.asks, 31);
    ck_assert_uint_eq(held_now(), 192 * MIB);
    beside = take(first, 2 * MIB);
    ck_assert_uint_eq(pieces.asks, 32);
    ck_assert_ptr_eq(beside, block + 62 * MIB);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 62 * MIB);
    wt_free(beside, before);
}

/* Only that of a single unit ends it, and what came before goes back. */
WT_TEST(test_B8_C2_C8_a_unit_that_is_refused_ends_the_growth)
{
    static const size_t steps[] = {64, 32, 16, 8, 4, 2};
    warm_device_info device = {.size = sizeof device};
    void *pointer = NULL, *beside;

    watch_pieces(MIB);
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 100 * MIB, &pointer));
    assert_asked(6, steps);
    ck_assert_uint_eq(pieces.backs, 0);
    ck_assert_uint_eq(held_now(), 0);
    check();
    /* 10 MiB are missing to all that there is. */
    if (wt_on_host()) {
        watch_pieces(SIZE_MAX);
        wt_ok(warm_device_get_info(runtime, 0, &device));
        wt_ok(real->device_alloc(runtime->driver, 0,
                                 device.total_bytes - 100 * MIB, &beside));
        wt_fails(WARM_OUT_OF_MEMORY, try(first, 110 * MIB, &pointer));
        ck_assert_uint_eq(pieces.asked[0], 64 * MIB);
        ck_assert_uint_eq(pieces.back[0], 64 * MIB);
        ck_assert_uint_eq(held_now(), 0);
        check();
        wt_ok(real->device_free(runtime->driver, 0, beside));
    }
    watch_pieces(SIZE_MAX);
    wt_ok(warm_free(take(first, 110 * MIB)));
}

/* What it does not take back then is held, and lost. */
WT_TEST(test_C2_C8_B14_pieces_that_cannot_be_taken_back_are_lost)
{
    void *pointer = NULL, *beside = NULL;
    warm_device_info device = {.size = sizeof device};

    if (!wt_on_host()) {
        wt_skip("needs the host device");
    }
    watch_pieces(SIZE_MAX);
    pieces.stuck = 2;
    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(real->device_alloc(runtime->driver, 0, device.total_bytes - 100 * MIB,
                             &beside));
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 110 * MIB, &pointer));
    ck_assert_uint_eq(pieces.backs, 2);
    ck_assert_uint_eq(held_now(), 110 * MIB);
    ck_assert_uint_eq(stats_now().lost_bytes, 110 * MIB);
    check();
    ck_assert_uint_eq(empty(), 0);
    wt_ok(real->device_free(runtime->driver, 0, beside));
    wt_ok(warm_free(take(first, 4 * MIB)));
}

/* A piece with a live block stays, what is idle of it serves requests, and what
 * went comes again. */
WT_TEST(test_C3_C8_a_piece_goes_when_no_part_of_it_is_in_use)
{
    char *block, *low, *high, *again, *base;

    watch_pieces(SIZE_MAX);
    block = take(first, 192 * MIB);
    wt_ok(warm_free(block));
    low = take(first, 3 * MIB);
    ck_assert_ptr_eq(low, block);
    high = take(first, 125 * MIB);
    ck_assert_ptr_eq(high, block + 3 * MIB);
    fill(low, 3 * MIB, 1);
    fill(high + 61 * MIB, 64 * MIB, 2);
    ck_assert_uint_eq(empty(), 64 * MIB);
    ck_assert_uint_eq(extent_of(low, &base), 128 * MIB);
    /* The live block ends in the first piece, the second one's neighbour. */
    wt_ok(warm_free(low));
    ck_assert_uint_eq(empty(), 0);
    ck_assert_uint_eq(held_now(), 128 * MIB);
    low = take(first, 3 * MIB);
    ck_assert_ptr_eq(low, block);
    wt_ok(warm_free(high));
    ck_assert_uint_eq(empty(), 64 * MIB);
    ck_assert_uint_eq(held_now(), 64 * MIB);
    ck_assert_uint_eq(calls_of("range_reserve"), 1);
    /* Idle beside it; then also what comes where some went. */
    pieces.asks = 0;
    again = take(first, 61 * MIB);
    ck_assert_ptr_eq(again, low + 3 * MIB);
    ck_assert_uint_eq(pieces.asks, 0);
    wt_ok(warm_free(again));
    again = take(first, 125 * MIB);
    ck_assert_ptr_eq(again, low + 3 * MIB);
    ck_assert_uint_eq(pieces.asks, 1);
    ck_assert_uint_eq(held_now(), 128 * MIB);
    assert_filled(low, 3 * MIB, 1);
    wt_free(low, again);
    pieces.backs = 0;
    ck_assert_uint_eq(empty(), 128 * MIB);
    ck_assert_uint_eq(pieces.backs, 2);
    ck_assert_uint_eq(held_now(), 0);
}

/* One that the driver does not take is idle again, with its neighbours. */
WT_TEST(test_C8_a_piece_that_is_not_taken_back_stays_one)
{
    char *block;

    watch_pieces(SIZE_MAX);
    block = take(first, 192 * MIB);
    wt_ok(warm_free(block));
    pieces.stuck = 2;
    ck_assert_uint_eq(empty(), 64 * MIB);
    ck_assert_uint_eq(held_now(), 128 * MIB);
    pieces.stuck = 0;
    pieces.asks = 0;
    block = take(first, 128 * MIB);
    ck_assert_uint_eq(pieces.asks, 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 128 * MIB);
}

/* ---- going back ---------------------------------------------------------- */

static warm_status counting_release(wm_driver *d, int device, void *range,
                                    size_t bytes)
{
    ranges_back++;
    return real->range_release(d, device, range, bytes);
}

WT_CASE("last", .setup = setup);

/* And when the runtime ends: all of it, and the addresses. */
WT_TEST(test_C8_G2_at_the_end_of_a_runtime_all_goes_back)
{
    char *block;

    wt_ok(warm_stream_retire(runtime, second));
    block = take(second, 8 * MIB);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block));
    wt_ok(warm_free(take(WARM_STREAM_PER_THREAD, 5000)));
    ck_assert_uint_eq(held_now(), 10 * MIB);
    ops.range_release = counting_release;
    wt_ok(warm_stream_destroy(runtime, first));
    wt_runtime_end(runtime);
    ck_assert_uint_eq(ranges_back, 2);
}

/* ---- out of memory, and calls that fail ---------------------------------- */

WT_CASE("expandable_driver", .setup = setup, .teardown = teardown);

/* What nobody knows to have memory or not is held, lost, and never touched. */
WT_TEST(test_C2_B14_what_a_commit_leaves_behind_is_lost)
{
    void *pointer = NULL;
    char *block = take(first, 10 * MIB), *other, *base;

    wt_ok(warm_free(block));
    tears = true;
    wt_fails(WARM_DRIVER_ERROR, try(first, 14 * MIB, &pointer));
    tears = false;
    check();
    ck_assert_uint_eq(held_now(), 14 * MIB);
    ck_assert_uint_eq(stats_now().lost, 1);
    ck_assert_uint_eq(stats_now().lost_bytes, 4 * MIB);
    wt_fails(WARM_INVALID_POINTER, warm_free(block + 11 * MIB));
    /* What was claimed for it is there, what comes goes elsewhere. */
    ck_assert_ptr_eq(take(first, 10 * MIB), block);
    other = take(first, 4 * MIB);
    ck_assert_ptr_eq(other, block + 14 * MIB);
    wt_free(block, other);
    ck_assert_uint_eq(empty(), 14 * MIB);
    ck_assert_uint_eq(held_now(), 4 * MIB);
    ck_assert_uint_gt(extent_of(take(first, 3000), &base), 0);
    wt_ok(warm_free(base));
}

/* Nobody allocated what is lost, whose record was somebody's before. */
WT_TEST(test_C7_C8_what_is_lost_is_nobodys)
{
    static char text[1 << 16];
    char *block[3], *lost;
    void *pointer = NULL;

    wt_ok(warm_memory_tag_set("somebody"));
    for (int i = 0; i < 3; i++) {
        block[i] = take(second, 6 * MIB);
    }
    wt_free_all(block, 3);
    wt_ok(warm_stream_synchronize(runtime, second));
    (void)empty();
    wt_ok(warm_memory_tag_set(NULL));
    tears = true;
    wt_fails(WARM_DRIVER_ERROR, try(first, 3 * MIB, &pointer));
    tears = false;
    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, NULL));
    lost = strstr(text, "\"exact_state\":\"lost\"");
    ck_assert_ptr_nonnull(lost);
    *strchr(lost, '}') = '\0';
    ck_assert_ptr_nonnull(strstr(lost, "\"stream\":0"));
    ck_assert_ptr_null(strstr(lost, "\"thread\""));
    ck_assert_ptr_null(strstr(lost, "somebody"));
}

/* Whoever listens to the log may allocate, also where memory is what comes for
 * the request that the log speaks of. */
static struct {
    size_t bytes;
    void *got;
    warm_status status;
    bool called;
    char line[200];
} listener;

static void allocate(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (!listener.called) {
        listener.called = true;
        snprintf(listener.line, sizeof listener.line, "%s", line);
        tears = false;
        listener.status = try(second, listener.bytes, &listener.got);
    }
}

static unsigned commits;

/* As if another growth had failed beside the first, so that there is a second
 * one alone: that one is torn. */
static warm_status commit_torn_alone(wm_driver *d, int device, void *range,
                                     size_t offset, size_t bytes, bool *torn)
{
    switch (commits++) {
    case 0:
        return refuse_beside();
    case 1:
        return tear(torn);
    default:
        return real->range_commit(d, device, range, offset, bytes, torn);
    }
}

/* A part that does not come, one that does not for who tries alone, and one
 * that does not go where another comes: runs of the loop. Or these hang. */
WT_LOOP_TEST(test_C2_B14_who_is_told_of_trouble_may_allocate, 3)
{
    static const char torn[] =
        "the driver unmapped only a part of 4.0 MiB of device memory, which is "
        "lost and stays held: torn by a test";
    static const char stays[] =
        "could not return 2.0 MiB of device memory to the driver; it stays in "
        "the cache: refused by a test";
    void *pointer = NULL;
    char *idle = take(first, 2 * MIB), *kept = take(first, 2 * MIB);

    if (_i == 1) {
        ops.range_commit = commit_torn_alone;
    } else if (_i == 2) {
        ops.range_commit = real->range_commit;
        wt_ok(warm_stream_synchronize(runtime, first));
        wt_ok(warm_free(idle));
        idle = NULL;
    }
    listener.called = false;
    listener.bytes = _i == 1 ? 6 * MIB : MIB;
    commits = 0;
    tears = true;
    warm_log_set(allocate, NULL);
    if (_i < 2) {
        wt_fails(WARM_DRIVER_ERROR, try(second, 3 * MIB, &pointer));
        wt_says("torn");
    } else {
        pointer = take(second, 3 * MIB);
    }
    warm_log_set(NULL, NULL);
    ck_assert(listener.called);
    ck_assert_str_eq(listener.line, _i < 2 ? torn : stays);
    wt_ok(listener.status);
    check();
    wt_free(listener.got, pointer, idle, kept);
}

/* ---- while one grows ----------------------------------------------------- */

struct growing {
    char *idle, *before, *got;
};

/* What the growth in flight has beside its request. */
static size_t room_now(void)
{
    size_t room;

    wm_lock_acquire(&growth_now()->lock);
    room = growth_now()->calls->room;
    wm_lock_release(&growth_now()->lock);
    return room;
}

/* What a growth has claimed is idle for who looks. */
static void require_idle(const char *address)
{
    static char text[1 << 16];
    char wanted[64];
    const char *block;

    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, NULL));
    snprintf(wanted, sizeof wanted, "{\"address\":%zu,\"size\":%zu,",
             (size_t)address, 9 * MIB);
    block = strstr(text, wanted);
    wt_require(block != NULL && strncmp(strstr(block, "\"exact_state\":"),
                                        "\"exact_state\":\"idle\"", 20) == 0,
               "%s is not in %s, or not idle", wanted, text);
}

static void grow_beside(void *argument, unsigned index)
{
    struct growing *g = argument;
    void *got = NULL;
    char *other;

    if (index == 0) {
        wt_ok(try(first, 14 * MIB, &got));
        g->got = got;
        return;
    }
    await(&inside, true);
    check();
    require_idle(g->idle);
    wt_require(room_now() == MIB, "room for %zu", room_now());
    /* What is claimed is nobody else's, and what comes back beside it is no
     * part of it; the small ones grow meanwhile, if that is asked for. */
    wt_ok(warm_free(g->before));
    wt_ok(warm_testing_fail(runtime, "range_commit", 1, 1));
    if (try(first, 4 * MIB, &got) == WARM_OK) {
        other = got;
        wt_require(other < g->idle || other >= g->idle + 9 * MIB,
                   "claimed memory was handed out");
        wt_ok(warm_free(other));
    }
    wt_ok(warm_testing_fail(runtime, "range_commit", 0, 0));
    check();
    set(&closed, false);
}

WT_TEST(test_C3_C8_others_go_on_while_one_grows)
{
    struct growing g = {0};

    g.before = take(first, 7 * MIB);
    g.idle = take(first, 9 * MIB);
    wt_ok(warm_free(g.idle));
    set(&inside, false);
    set(&closed, true);
    wt_threads(2, grow_beside, &g);
    check();
    ck_assert_ptr_eq(g.got, g.before);
    ck_assert_uint_eq(held_now(), 22 * MIB);
    fill(g.got, 14 * MIB, 1);
    assert_filled(g.got, 14 * MIB, 1);
    wt_ok(warm_free(g.got));
}

/* A stream that has gone, and how often the driver was told of it. */
static warm_stream gone;
static unsigned named;

/* A growth of much more than there is, by one thread, which has had some of it.
 */
enum { MUCH = 100 };
static _Thread_local bool asks_for_much;
static _Atomic bool refused;

static warm_status doomed_commit(wm_driver *d, int device, void *range,
                                 size_t offset, size_t bytes, bool *torn)
{
    void *some = NULL;
    size_t available = 0, total = 0;
    warm_status status;

    if (!asks_for_much) {
        status = real->range_commit(d, device, range, offset, bytes, torn);
        set(&refused, status != WARM_OK || is_set(&refused));
        return status;
    }
    if (!is_set(&inside)) {
        wt_ok(real->device_memory(d, device, &available, &total));
        wt_ok(real->device_alloc(d, device, available - MIB, &some));
        set(&inside, true);
        await(&refused, true);
        wt_ok(real->device_free(d, device, some));
    }
    return wm_fail(WARM_OUT_OF_MEMORY, "the device has not so much");
}

static void ask_for_much_or_little(void *argument, unsigned index)
{
    struct two *two = argument;

    asks_for_much = index == 0;
    if (index == 1) {
        await(&inside, true);
    }
    two->status[index] = try(index == 0 ? first : second,
                             (index == 0 ? MUCH : 10) * MIB, &two->got[index]);
}

/* Who is refused beside it tries again without it. */
WT_TEST(test_C2_C8_a_growth_that_fails_takes_no_other_with_it)
{
    struct two two = {{WARM_OK, WARM_OK}, {NULL, NULL}};

    set(&inside, false);
    set(&refused, false);
    ops.range_commit = doomed_commit;
    wt_threads(2, ask_for_much_or_little, &two);
    ck_assert_int_eq(two.status[0], WARM_OUT_OF_MEMORY);
    wt_ok(two.status[1]);
    ck_assert_uint_eq(held_now(), 10 * MIB);
    wt_ok(warm_free(two.got[1]));
    /* Nobody waits for one that has tried. */
    ck_assert_ptr_null(growth_now()->exclusive);
    wt_ok(warm_free(take(first, 20 * MIB)));
}

/* Of the stream that is waited for to make room; meanwhile the other one goes
 * on, and what waited for that comes back. */
static wt_gate *other;

static warm_status synchronize_beside(wm_driver *d, warm_event event)
{
    if (other != NULL) {
        wt_gate_open(other);
        other = NULL;
        wt_ok(real->stream_synchronize(d, second));
    }
    return real->event_synchronize(d, event);
}

/* It came after the request had looked, and before it would have waited. */
WT_TEST(test_C2_C8_what_comes_back_while_room_is_made_is_looked_for)
{
    char *block = take(first, 10 * MIB), *idle = take(first, MIB);
    char *kept = take(first, MIB);

    limit_to(16 * MIB);
    other = wt_gate_close(runtime, second);
    wt_gate_await(other);
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    wt_ok(warm_free(idle)); /* no whole unit */
    ops.event_synchronize = synchronize_beside;
    block = take(first, 14 * MIB);
    ck_assert_ptr_null(other);
    ck_assert_uint_eq(held_now(), 16 * MIB);
    wt_free(block, kept);
}

static unsigned waits;

static warm_status open_and_synchronize(wm_driver *d, warm_event event)
{
    waits++;
    if (other != NULL) {
        wt_gate_open(other);
        other = NULL;
    }
    return real->event_synchronize(d, event);
}

WT_TEST(test_C2_C8_a_request_waits_for_what_was_freed_and_a_trim_does_not)
{
    void *block = take(first, 10 * MIB);

    limit_to(16 * MIB);
    other = wt_gate_close(runtime, second);
    wt_gate_await(other);
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    waits = 0;
    ops.event_synchronize = open_and_synchronize;
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(waits, 0);
    wt_ok(warm_free(take(first, 14 * MIB)));
    ck_assert_uint_gt(waits, 0);
    ck_assert_ptr_null(other);
}

static warm_status counting_mark(wm_driver *d, warm_event event,
                                 warm_stream stream, wm_capture *capture)
{
    named += stream == gone;
    return real->event_mark(d, event, stream, capture);
}

/* But not for a stream that nobody promised to live: it may have gone, once the
 * block is freed, and is not named any more. */
WT_TEST(test_C2_C4_a_stream_that_is_not_adopted_is_not_waited_for)
{
    warm_stream raw;
    void *pointer = NULL, *block = take(first, 10 * MIB);
    wt_gate *gate;

    wt_ok(wm_driver_stream_create(runtime->driver, 0, &raw));
    limit_to(16 * MIB);
    gate = wt_gate_close(runtime, raw);
    wt_gate_await(gate);
    wt_ok(warm_record_stream(block, raw));
    wt_ok(warm_free(block));
    gone = raw;
    ops.event_mark = counting_mark;
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 14 * MIB, &pointer));
    ck_assert_uint_eq(named, 0);
    ops.event_mark = real->event_mark;
    wt_gate_open(gate);
    wt_ok(wm_driver_stream_synchronize(runtime->driver, raw));
    wt_ok(warm_poll(runtime));
    wt_ok(wm_driver_stream_destroy(runtime->driver, raw));
}

/* The growth of much is refused twice, down to a single unit, the second time
 * alone: then another thread has taken care that it has a stream to wait for.
 */
static warm_status alone_commit(wm_driver *d, int device, void *range,
                                size_t offset, size_t bytes, bool *torn)
{
    commits += asks_for_much && bytes == WM_PIECE_MAX;
    if (!asks_for_much || commits > 2) {
        return real->range_commit(d, device, range, offset, bytes, torn);
    }
    if (bytes == WM_PIECE_MAX && commits == 1) {
        return refuse_beside();
    }
    if (bytes == WM_PIECE_MAX) {
        set(&inside, true);
        await(&closed, false);
    }
    return wm_fail(WARM_OUT_OF_MEMORY, "refused by a test");
}

struct held_up {
    struct two two;
    wt_gate *gate;
    void *idle;
};

/* Until no growth is in flight: what one asks for counts as held, and above its
 * bound the space would use what is idle instead of growing. */
static void await_no_growth(void)
{
    wm_growth *growth = growth_now();
    size_t coming;

    do {
        sched_yield();
        wm_lock_acquire(&growth->lock);
        coming = growth->coming;
        wm_lock_release(&growth->lock);
    } while (coming > 0);
}

static void ask_for_much_or_hold_up(void *argument, unsigned index)
{
    struct held_up *h = argument;

    asks_for_much = index == 0;
    if (index == 0) {
        h->two.status[0] = try(second, MUCH * MIB, &h->two.got[0]);
        return;
    }
    await(&inside, true);
    h->gate = wt_gate_close(runtime, first);
    wt_gate_await(h->gate);
    (void)warm_free(h->idle);
    set(&closed, false);
    await_no_growth();
    h->two.status[1] = try(second, 4 * MIB, &h->two.got[1]);
    wt_gate_open(h->gate);
}

/* Who waits for a stream keeps nobody from growing, who lets that stream go on
 * then: or this hangs. */
WT_TEST(test_C2_C8_others_grow_while_one_that_tried_alone_waits)
{
    struct held_up h = {.gate = NULL};

    h.idle = take(first, 8 * MIB);
    commits = 0;
    set(&inside, false);
    set(&closed, true);
    ops.range_commit = alone_commit;
    wt_threads(2, ask_for_much_or_hold_up, &h);
    for (int i = 0; i < 2; i++) {
        wt_ok(h.two.status[i]);
        wt_ok(warm_free(h.two.got[i]));
    }
    ck_assert_uint_eq(commits, 3);
    ck_assert_ptr_null(growth_now()->exclusive);
}

static warm_status slow_reserve(wm_driver *d, int device, size_t bytes,
                                void **range)
{
    wt_linger linger = {0};

    set(&inside, true);
    await(&closed, false);
    while (wt_lingers(&linger)) { /* for the other one, if it comes */
    }
    return real->range_reserve(d, device, bytes, range);
}

static void ask_for_some(void *argument, unsigned index)
{
    struct two *two = argument;

    if (index == 1) {
        await(&inside, true);
        set(&closed, false);
    }
    two->status[index] =
        try(index == 0 ? first : second, 6 * MIB, &two->got[index]);
}

WT_TEST(test_C3_C8_two_first_growths_have_one_range)
{
    struct two two = {{WARM_OK, WARM_OK}, {NULL, NULL}};

    set(&inside, false);
    set(&closed, true);
    ops.range_reserve = slow_reserve;
    wt_threads(2, ask_for_some, &two);
    for (int i = 0; i < 2; i++) {
        wt_ok(two.status[i]);
        wt_ok(warm_free(two.got[i]));
    }
    ck_assert_uint_eq(calls_of("range_reserve"), 1);
    ck_assert_uint_eq(stats_now().large.segments.current, 1);
}

/* For 60 MiB there are neither addresses nor memory: it waits for a thread that
 * reserves some. */
enum { LARGE = 4 };
struct served {
    char *large[LARGE];
    wm_request request;
    wm_block *block;
    warm_status status;
};

static void grow_or_free_meanwhile(void *argument, unsigned index)
{
    struct served *s = argument;
    wt_linger linger = {0};

    if (index == 0) {
        wt_ok(warm_free(take(first, 3000)));
        return;
    }
    await(&inside, true);
    if (index == 1) {
        s->status = wm_growth_alloc(&runtime->device_spaces[0].space,
                                    &s->request, &s->block);
        return;
    }
    while (wt_lingers(&linger)) { /* for the other one to wait */
    }
    wt_ok(warm_free(s->large[1]));
    set(&closed, false);
}

WT_TEST(test_C2_C8_a_request_is_served_by_what_is_freed_while_it_waits)
{
    struct served s = {.status = WARM_DRIVER_ERROR};
    const wm_block *block;

    for (int i = 0; i < LARGE; i++) {
        s.large[i] = take(first, 60 * MIB);
    }
    block = wm_space_find(s.large[1]);
    s.request = (wm_request){
        .bytes = 60 * MIB, .arena = block->segment->arena, .lane = block->lane};
    set(&inside, false);
    set(&closed, true);
    ops.range_reserve = slow_reserve;
    wt_threads(3, grow_or_free_meanwhile, &s);
    wt_ok(s.status);
    ck_assert_ptr_eq(s.block->base, s.large[1]);
    wt_free(s.large[0], s.large[1], s.large[2], s.large[3]);
}

/* ---- what else sees segments --------------------------------------------- */

/* Private pools have segments of their own: those go back whole, with the
 * pool. */
WT_TEST(test_C8_E3_private_pools_have_ordinary_segments)
{
    warm_private_pool pool = {0};
    char *block;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    block = take(first, 3 * MIB);
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_uint_eq(wm_space_find(block)->segment->unit, 0);
    ck_assert_uint_eq(calls_of("range_reserve"), 0);
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_release(runtime, pool));
    block = take(first, 3 * MIB);
    ck_assert_uint_gt(wm_space_find(block)->segment->unit, 0);
    wt_ok(warm_free(block));
}

/* Fewer of them will do: there may be several ranges. */
WT_TEST(test_C8_fewer_addresses_will_do)
{
    warm_device_info device = {.size = sizeof device};
    warm_error before = {.size = sizeof before}, after = {.size = sizeof after};
    void *small;
    size_t all;

    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_testing_fail(runtime, "range_reserve", 1, 0));
    warm_last_error(&before);
    small = take(first, 3000);
    warm_last_error(&after);
    ck_assert_int_eq(after.status, before.status);
    wt_ok(warm_testing_fail(runtime, "range_reserve", 0, 0));
    ck_assert_uint_eq(calls_of("range_reserve"), 2);
    all = device.total_bytes + device.total_bytes / 8;
    ck_assert_uint_ge(wm_space_find(small)->segment->bytes, all / 2);
    ck_assert_uint_lt(wm_space_find(small)->segment->bytes, all / 2 + 4 * MIB);
    check();
    wt_ok(warm_free(small));
}
