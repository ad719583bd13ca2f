/* check_runtime.c: pins, the list of runtimes, faults while one is made, and
 * what is pending at its end (rows A5, B4, G2, G6).
 * backends: host, standin */
#include "wt.h"

#include "runtime/base/meta.h"
#include "runtime/thread/runtime_body.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* Flags of the first call for a library that is loaded. */
static int kept;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int);

    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    kept = kept == 0 && (flags & RTLD_NOLOAD) != 0 ? flags : kept;
    return next(name, flags);
}

/* Of a program that has the library inside nothing can be opened. */
WT_TEST(test_A8_what_has_the_library_inside_stays_loaded)
{
    warm_runtime *runtime = wt_runtime(NULL);

    ck_assert_int_eq(kept, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    ck_assert_ptr_null(dlerror());
    wt_runtime_end(runtime);
}

WT_TEST(test_A5_G2_a_pin_is_refused_once_the_runtime_closes)
{
    warm_runtime *runtime = wt_runtime(NULL);

    ck_assert(runtime->driver->guarded);
    ck_assert(wm_runtime_pin(runtime));
    wm_runtime_unpin(runtime);
    wt_runtime_end(runtime);
    ck_assert(!wm_runtime_pin(runtime));
    ck_assert_uint_eq(runtime->pinned_threads, 0);
    ck_assert(!wm_runtime_begin_close(runtime));
}

struct closer {
    warm_runtime *runtime;
    _Atomic int done;
};

static void *close_it(void *argument)
{
    struct closer *closer = argument;

    (void)warm_runtime_destroy(closer->runtime, NULL);
    closer->done = 1;
    return NULL;
}

WT_TEST(test_A5_G2_destroy_waits_for_pinned_threads)
{
    struct closer closer = {wt_runtime(NULL), 0};
    warm_runtime *runtime = closer.runtime;
    wt_linger linger = {0};
    pthread_t thread;

    ck_assert(wm_runtime_pin(runtime));
    pthread_create(&thread, NULL, close_it, &closer);
    while (atomic_load(&runtime->state) == WM_RUNTIME_LIVE) {
        sched_yield();
    }
    /* CLOSING: the pools stay as long as a thread is inside a call, however
     * often the destroying thread runs. */
    while (wt_lingers(&linger)) {
    }
    ck_assert_int_eq(runtime->state, WM_RUNTIME_CLOSING);
    ck_assert_ptr_nonnull(runtime->kinds);
    ck_assert_int_eq(closer.done, 0);
    wt_fails(WARM_RUNTIME_GONE, wm_runtime_check(runtime));
    ck_assert(!wm_runtime_pin(runtime));
    wm_runtime_unpin(runtime);
    pthread_join(thread, NULL);
    ck_assert_int_eq(closer.done, 1);
    ck_assert_int_eq(runtime->state, WM_RUNTIME_GONE);
}

static void count_one(warm_runtime *runtime, void *argument)
{
    ++*(unsigned *)argument;
}

WT_TEST(test_G2_only_live_runtimes_are_visited)
{
    warm_runtime *a = wt_runtime(NULL), *b = wt_runtime(NULL);
    unsigned count = 0;

    wm_runtime_each(count_one, &count);
    ck_assert_uint_eq(count, 2);
    wt_runtime_end(a);
    count = 0;
    wm_runtime_each(count_one, &count);
    ck_assert_uint_eq(count, 1);
    wt_runtime_end(b);
}

/* Metadata fails at the n-th allocation, once and from then on, until no
 * creation gets there: a failed one leaves nothing behind. */
WT_LOOP_TEST(test_G2_G6_a_runtime_without_memory_leaves_nothing, 2)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda"};
    warm_runtime *runtime = NULL;
    int64_t live;
    unsigned n = 0;

    /* What the process keeps for ever is made by the first runtime. */
    wt_runtime_end(wt_runtime(NULL));
    live = wm_meta_live();
    for (unsigned made = 0; made < 20; n++) {
        warm_status status;

        wm_meta_fail(n + 1, _i != 0);
        status = warm_runtime_create(&options, &runtime);
        wm_meta_fail(0, false);
        if (status == WARM_OK) {
            wt_runtime_end(runtime);
            live++; /* the block itself stays */
            made++;
        } else {
            ck_assert_int_eq(status, WARM_OUT_OF_MEMORY);
            ck_assert_ptr_null(runtime);
            ck_assert_uint_eq(made, 0); /* nothing needed fails unnoticed */
        }
        ck_assert_int_eq(wm_meta_live(), live);
    }
    ck_assert_uint_gt(n, 25);
}

/* ---- what is pending when a runtime is destroyed ----------------------- */

/* A host device whose work stands still until the runtime's end waits for it,
 * or until memory goes back, for which it waits as CUDA does. */
static struct {
    wm_driver_ops ops;
    const wm_driver_ops *real;
    wt_gate *gate;
    uint64_t held; /* regions that had not gone back when it was closed */
} busy;

static void let_pass(void)
{
    if (busy.gate != NULL) {
        wt_gate_open(busy.gate);
    }
    busy.gate = NULL;
}

static void drain_busy(wm_driver *d)
{
    let_pass();
    busy.real->drain(d);
}

static warm_status pinned_free_busy(wm_driver *d, void *pointer, size_t bytes)
{
    let_pass();
    busy.real->drain(d);
    return busy.real->pinned_free(d, pointer, bytes);
}

static warm_status device_free_busy(wm_driver *d, int device, void *pointer)
{
    let_pass();
    busy.real->drain(d);
    return busy.real->device_free(d, device, pointer);
}

static uint64_t count_of(wm_driver *d, enum wm_driver_call call)
{
    return wm_counter_read(&d->calls[call]);
}

static void close_busy(wm_driver *d, uint64_t *dropped)
{
    busy.held =
        count_of(d, WM_CALL_pinned_alloc) + count_of(d, WM_CALL_device_alloc) -
        count_of(d, WM_CALL_pinned_free) - count_of(d, WM_CALL_device_free);
    let_pass();
    busy.real->close(d, dropped);
}

enum { REGION = 6 << 20 };

static const struct {
    bool drains; /* else it waits where memory goes back */
    enum { NO_IDLE, PINNED_IDLE, DEVICE_IDLE } idle; /* goes back at once */
    bool held;                 /* by a test: a stream that nobody waits for */
    unsigned regions, pending; /* left */
} ends[] = {
    {true, NO_IDLE, false, 0, 0},      {true, PINNED_IDLE, false, 0, 0},
    {true, PINNED_IDLE, true, 2, 2},   {false, PINNED_IDLE, false, 0, 0},
    {false, PINNED_IDLE, true, 2, 2},  {false, NO_IDLE, false, 2, 2},
    {false, DEVICE_IDLE, false, 0, 0},
};

static void free_used(warm_runtime *runtime, warm_stream own,
                      warm_stream stream)
{
    void *pinned = wt_pinned(runtime, REGION);
    void *device = wt_device(runtime, own, REGION);

    wt_ok(warm_record_stream(pinned, stream));
    wt_ok(warm_record_stream(device, stream));
    wt_free(pinned, device);
}

/* What has passed by the end goes back; what is in use by then stays. */
WT_LOOP_TEST(test_B4_G2_what_is_pending_at_the_end_goes_back_once_it_passed,
             wt_on_host() ? sizeof ends / sizeof ends[0] : 0)
{
    warm_destroy_report report = {.size = sizeof report};
    warm_runtime *runtime = wt_runtime_with(.device = "host");
    warm_stream own, stream, held;
    void *idle;

    memset(&busy, 0, sizeof busy);
    own = wt_stream(runtime, 0);
    stream = wt_stream(runtime, 0);
    held = wt_stream(runtime, 0);
    wt_ok(warm_testing_hold(runtime, held));
    busy.gate = wt_gate_close(runtime, stream);
    idle = ends[_i].idle == DEVICE_IDLE ? wt_device(runtime, own, REGION / 2)
           : ends[_i].idle              ? wt_pinned(runtime, REGION / 2)
                                        : NULL;
    free_used(runtime, own, stream);
    if (ends[_i].held) {
        free_used(runtime, own, held);
    }
    wt_ok(warm_free(idle));
    busy.real = runtime->driver->ops;
    busy.ops = *busy.real;
    busy.ops.close = close_busy;
    busy.ops.drain = ends[_i].drains ? drain_busy : NULL;
    busy.ops.pinned_free =
        ends[_i].drains ? busy.real->pinned_free : pinned_free_busy;
    busy.ops.device_free =
        ends[_i].drains ? busy.real->device_free : device_free_busy;
    runtime->driver->ops = &busy.ops;
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(busy.held, ends[_i].regions);
    ck_assert_uint_eq(report.pending, ends[_i].pending);
    ck_assert_uint_eq(report.live, 0);
    ck_assert_uint_eq(report.host_streams, ends[_i].held);
}

static int times_in(const char *text, const char *word)
{
    int times = 0;

    for (; (text = strstr(text, word)) != NULL; text++) {
        times++;
    }
    return times;
}

/* Numbers of nodes may have gaps. */
WT_TEST(test_B15_G7_a_number_without_a_node_has_no_figures)
{
    static char text[1 << 18];
    warm_runtime *runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .test = "numa_nodes=3"});

    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    ck_assert_int_eq(times_in(text, "\"node\":"), 3);
    runtime->driver->numa.usable = 5;
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    ck_assert_int_eq(times_in(text, "\"node\":"), 2);
    wt_runtime_end(runtime);
}
