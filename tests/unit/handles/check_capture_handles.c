/* check_capture_handles.c: handles that come and go while a stream captures
 * (row A16): most libraries wait for the device when a handle ends, which would
 * break the capture of whichever thread, so that it is deferred. On the host
 * device nothing breaks; there handles are counted.
 *
 * backends: host standin */
/* memcheck: one process */
#include "wt.h"

#include "handles/kind_table.h"
#include "runtime/runtime.h"
#include "wt_kind.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static warm_runtime *runtime;
static warm_stream stream; /* captures */
static warm_kind memory;   /* a kind whose handles are memory of the device */
static bool cannot_reset, announces, cannot_end;
enum { NOWHERE, IN_DESTROY, IN_LOG };
static int waits; /* for the capture: one of those */
static _Atomic bool inside, begun;
static warm_status announced;
static char said[512];

/* For a lock of the program's, say, that the thread has which captures. */
static void await_capture(void)
{
    atomic_store(&inside, true);
    while (!atomic_load(&begun)) {
        sched_yield();
    }
}

static int create(void *context, int device, void **handle)
{
    (void)context;
    return (int)warm_device_alloc_uncached(runtime, device, 4096, handle);
}

static int destroy(void *context, int device, void *handle)
{
    (void)context;
    if (announces) {
        announced = warm_capture_announce(runtime, stream);
        (void)warm_capture_announce_end(runtime, stream);
    }
    if (waits == IN_DESTROY) {
        await_capture();
    }
    if (cannot_end) {
        (void)warm_device_free_uncached(runtime, device, handle);
        return 1;
    }
    return (int)warm_device_free_uncached(runtime, device, handle);
}

static int reset(void *context, int device, void *handle)
{
    (void)context;
    (void)device;
    (void)handle;
    return cannot_reset;
}

static void hear(void *context, warm_log_level level, const char *line)
{
    (void)context;
    if (level == WARM_LOG_WARNING) {
        snprintf(said, sizeof said, "%s", line);
    }
    if (waits == IN_LOG) {
        await_capture();
    }
}

static void setup(void)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "memory",
                         .create = create,
                         .destroy = destroy,
                         .reset = reset};

    runtime = wt_runtime(NULL);
    wt_ok(warm_kind_register(runtime, &ops, &memory));
    wt_ok(warm_stream_create(runtime, 0, &stream));
    cannot_reset = announces = cannot_end = false;
    waits = NOWHERE;
    inside = begun = false;
    said[0] = '\0';
    warm_log_set(hear, NULL);
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    ck_assert(wm_kind_table_check(runtime->kinds));
    wt_runtime_end(runtime);
    warm_log_set(NULL, NULL);
}

/* ---- the ways ------------------------------------------------------------ */

enum { LIBRARIES = 5, KINDS = LIBRARIES + 2, WAYS = KINDS * 2 };

/* Null without a library of that kind. */
static bool kind_of(int i, warm_kind *kind)
{
    static const warm_kind kinds[KINDS] = {
        WARM_KIND_CUBLAS,   WARM_KIND_CUBLASLT, WARM_KIND_CUDNN,
        WARM_KIND_CUSPARSE, WARM_KIND_CUSOLVER, WARM_KIND_STREAM};

    i %= KINDS;
    *kind = i < KINDS - 1 ? kinds[i] : memory;
    return !wt_on_host() || i >= LIBRARIES;
}

static bool is_announced(int i)
{
    return i < KINDS;
}

static void begin(int i)
{
    wt_ok(is_announced(i) ? warm_capture_begin(runtime, stream)
                          : wm_driver_capture_begin(runtime->driver, stream));
}

static void end(int i)
{
    warm_graph graph = NULL;

    wt_ok(is_announced(i)
              ? warm_capture_end(runtime, stream, &graph)
              : wm_driver_capture_end(runtime->driver, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

struct done {
    warm_kind kind;
    warm_status status;
    uint64_t destroyed;
    void *handle;
};

static void trim_all(void *argument, unsigned index)
{
    struct done *done = argument;

    (void)index;
    done->status =
        warm_handle_trim(runtime, done->kind, 0, 0, 0, &done->destroyed);
}

static void reserve_one(void *argument, unsigned index)
{
    struct done *done = argument;

    (void)index;
    done->status = warm_handle_reserve(runtime, done->kind, 0, &done->handle);
}

/* ---- tests --------------------------------------------------------------- */

WT_CASE("ways", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_A16_trim_is_deferred_until_no_stream_captures, WAYS)
{
    struct done done = {.status = WARM_NOT_READY};

    if (!kind_of(_i, &done.kind)) {
        return;
    }
    wt_ok(warm_handle_prewarm(runtime, done.kind, 0, 3, 0));
    begin(_i);
    wt_threads(1, trim_all, &done);
    wt_ok(done.status);
    ck_assert_uint_eq(done.destroyed, 0);
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, deferred), 3);
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, idle), 0);
    ck_assert(wt_balanced(runtime, done.kind, 0));
    ck_assert(wm_kind_table_check(runtime->kinds));
    wt_ok(warm_poll(runtime)); /* not yet */
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, deferred), 3);
    end(_i);
    if (!is_announced(_i)) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, deferred), 0);
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, destroyed), 3);
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, leaked), 0);
}

/* Whoever comes to the pool next. */
WT_LOOP_TEST(test_A16_next_operation_destroys_what_was_deferred, WAYS)
{
    struct done done = {.status = WARM_NOT_READY};
    int way = KINDS + _i % KINDS; /* nobody says when it is over */

    if (!kind_of(way, &done.kind)) {
        return;
    }
    wt_ok(warm_handle_prewarm(runtime, done.kind, 0, 1, 0));
    begin(way);
    wt_threads(1, trim_all, &done);
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, deferred), 1);
    end(way);
    if (_i < KINDS) {
        wt_ok(warm_handle_trim(runtime, done.kind, 0, 0, 0, NULL));
    } else {
        wt_threads(1, reserve_one, &done);
        wt_ok(done.status);
    }
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, deferred), 0);
    ck_assert_int_eq(wt_stat(runtime, done.kind, 0, destroyed), 1);
}

/* One that cannot be reset serves nobody meanwhile. */
WT_LOOP_TEST(test_A16_A3_handle_that_cannot_be_reset_is_deferred, 2)
{
    struct done done = {.kind = memory, .status = WARM_NOT_READY};
    int way = _i == 0 ? KINDS - 1 : WAYS - 1;

    wt_threads(1, reserve_one, &done);
    wt_ok(done.status);
    cannot_reset = true;
    begin(way);
    wt_threads(1, reserve_one, &done);
    wt_ok(done.status);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, created), 2);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 1);
    end(way);
    wt_ok(warm_poll(runtime));
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 0);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, destroyed), 1);
}

/* Many: the room for them was promised when they were made. */
WT_TEST(test_A16_A8_deferred_handles_move_with_the_pools_memory)
{
    struct done done = {.kind = memory, .status = WARM_NOT_READY};

    wt_ok(warm_handle_prewarm(runtime, memory, 0, 10, 0));
    begin(0);
    wt_threads(1, trim_all, &done);
    wt_ok(warm_handle_prewarm(runtime, memory, 0, 40, 0));
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 10);
    wt_threads(1, trim_all, &done);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 50);
    ck_assert(wm_kind_table_check(runtime->kinds));
    end(0);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, destroyed), 50);
}

/* It waits for calls of other threads, not for its own. */
WT_TEST(test_A16_callback_of_a_kind_may_announce_a_capture)
{
    wt_ok(warm_handle_prewarm(runtime, memory, 0, 1, 0));
    announces = true;
    announced = WARM_NOT_READY;
    wt_ok(warm_handle_trim(runtime, memory, 0, 0, 0, NULL));
    wt_ok(announced);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, destroyed), 1);
}

static wm_captures real;

/* The last capture ends between the refusal and the note that one waits. */
static void end_then_note(warm_runtime *of)
{
    (void)warm_capture_announce_end(runtime, stream);
    real.note(of);
}

WT_TEST(test_A16_handle_is_destroyed_that_is_deferred_as_the_capture_ends)
{
    wm_captures ending;
    struct done done = {.kind = memory, .status = WARM_NOT_READY};

    real = *wm_kind_table_kind(runtime->kinds, memory)->captures;
    ending = real;
    ending.note = end_then_note;
    wt_ok(warm_handle_prewarm(runtime, memory, 0, 1, 0));
    wt_ok(warm_capture_announce(runtime, stream));
    runtime->kinds->hooks.captures = ending;
    trim_all(&done, 0);
    runtime->kinds->hooks.captures = real;
    wt_ok(done.status);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 0);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, destroyed), 1);
    wt_invalid(warm_capture_announce_end(runtime, stream));
}

static void trim_or_begin(void *argument, unsigned index)
{
    if (index == 0) {
        trim_all(argument, 0);
        return;
    }
    while (!atomic_load(&inside)) {
        sched_yield();
    }
    announced = warm_capture_begin(runtime, stream);
    if (announced == WARM_OK) {
        warm_graph graph = NULL;

        announced = warm_capture_end(runtime, stream, &graph);
        (void)warm_graph_destroy(runtime, graph);
    }
    atomic_store(&begun, true);
}

WT_LOOP_TEST(test_A16_capture_begins_while_a_callback_waits, 2)
{
    struct done done = {.kind = memory, .status = WARM_NOT_READY};

    wt_ok(warm_handle_prewarm(runtime, memory, 0, 1, 0));
    waits = IN_DESTROY + _i;
    cannot_end = waits == IN_LOG;
    wt_threads(2, trim_or_begin, &done);
    waits = NOWHERE;
    wt_ok(done.status);
    wt_ok(announced);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 0);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, leaked), cannot_end);
}

/* In relaxed mode it only allocates. */
WT_LOOP_TEST(test_A16_handles_are_created_beside_a_capture, WAYS)
{
    struct done done = {.status = WARM_NOT_READY};

    if (!kind_of(_i, &done.kind)) {
        return;
    }
    begin(_i);
    wt_threads(1, reserve_one, &done);
    wt_ok(done.status);
    wt_ok(warm_handle_reserve(runtime, done.kind, 0, &done.handle));
    end(_i);
}

/* There is no later: they stay with the process, and that is said. */
WT_LOOP_TEST(test_A16_G2_runtime_that_ends_beside_a_capture_leaves_its_handles,
             LIBRARIES)
{
    warm_stream captures = NULL;
    warm_graph graph = NULL;
    warm_runtime *brief;
    warm_kind kind;

    if (wt_on_host()) {
        wt_skip("not on the host device"); /* its streams are those of one
                                              runtime */
    }
    (void)kind_of(_i, &kind);
    brief = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &captures));
    wt_ok(warm_stream_adopt(brief, captures));
    wt_ok(warm_handle_prewarm(brief, kind, 0, 2, 0));
    if (wm_kind_table_kind(brief->kinds, kind)->ops->bind != NULL) {
        void *handle = NULL;

        wt_ok(warm_handle_reserve_on(brief, kind, 0, captures, &handle));
    }
    wt_ok(wm_driver_capture_begin(runtime->driver, captures));
    wt_ok(warm_runtime_destroy(brief, NULL));
    ck_assert_ptr_nonnull(strstr(said, "while a stream captures"));
    wt_ok(wm_driver_capture_end(runtime->driver, captures, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_stream_end(runtime, captures);
}
