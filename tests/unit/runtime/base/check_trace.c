/* check_trace.c: the recorder (option trace), and the reader of what it wrote.
 *
 * Programs are recorded, and their files read again, whole, cut off and
 * damaged: what is read is what was done, or a clear refusal. */
/* memcheck: one process */
#include "wt.h"

#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/options.h"
#include "runtime/base/trace.h"
#include "runtime/base/trace_file.h"
#include "runtime/runtime.h"
#include "tests/bench/steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* For ThreadSanitizer: the child starts the threads of its own runtime. */
WARM_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

static char folder[] = "/tmp/warmpool-trace-......";
static char path[128];

/* Relaxed: counted by the log callback of any thread, read after joins. */
static _Atomic unsigned warnings;
static char warning[512];

static void note_warning(void *context, warm_log_level level, const char *line)
{
    (void)context;
    if (level == WARM_LOG_WARNING) {
        atomic_fetch_add_explicit(&warnings, 1, memory_order_relaxed);
        snprintf(warning, sizeof warning, "%s", line);
    }
}

static void set_up(void)
{
    memset(folder + strlen(folder) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t", folder);
    atomic_store_explicit(&warnings, 0, memory_order_relaxed);
    warm_log_set(note_warning, NULL);
}

static void tear_down(void)
{
    char command[256];

    warm_log_set(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

static unsigned warned(void)
{
    return atomic_load_explicit(&warnings, memory_order_relaxed);
}

static warm_runtime *traced(const char *name)
{
    warm_options options = {.size = sizeof options, .trace = name};

    return wt_runtime(&options);
}

static bench_trace *read_or_fail(const char *name)
{
    char error[256] = "";
    bench_trace *t = bench_trace_read(name, error, sizeof error);

    ck_assert_msg(t != NULL, "%s: %s", name, error);
    return t;
}

static void *take(warm_runtime *runtime, size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

/* ---- what a program did -------------------------------------------------- */

/* One after the other, each in a thread of its own. */
static void alone(void (*fn)(void *argument, unsigned index), void *argument)
{
    wt_threads(1, fn, argument);
}

static struct play {
    warm_runtime *runtime;
    warm_stream first, second;
    void *block[4], *device;
    warm_status status;
} play;

static void first_thread(void *argument, unsigned index)
{
    struct play *p = argument;

    (void)index;
    p->status = warm_pinned_alloc(p->runtime, 1000, &p->block[0]);
    p->status |= warm_pinned_alloc(p->runtime, 0, &p->block[3]); /* nothing */
    p->status |= warm_pinned_alloc(p->runtime, 3 << 20, &p->block[1]);
    p->status |= warm_record_stream((char *)p->block[1] + 5, p->first);
    p->status |= warm_free(p->block[0]);
    p->status |= warm_free(p->block[0]) == WARM_OK; /* refused: not there */
}

static void second_thread(void *argument, unsigned index)
{
    struct play *p = argument;

    (void)index;
    p->status |= warm_pinned_alloc(p->runtime, 20, &p->block[2]);
    p->status |= warm_copy_async(p->runtime, p->device, p->block[2], 20,
                                 WARM_COPY_TO_DEVICE, p->second);
    p->status |= warm_record_stream(p->block[2], p->first);
    p->status |= warm_record_stream(p->block[2], NULL);
    p->status |= warm_record_stream(p->block[2], WARM_STREAM_LEGACY);
    p->status |= warm_free(p->block[1]);
    p->status |= warm_free(p->block[2]);
}

/* Steps, as far as streams have nothing to do with adoption. */
static const bench_step done[] = {
    {.op = WM_TRACE_ALLOC, .worker = 0, .buffer = 0, .value = 1000},
    {.op = WM_TRACE_ALLOC, .worker = 0, .buffer = 1, .value = 3 << 20},
    {.op = WM_TRACE_USE, .worker = 0, .buffer = 1, .value = 0},
    {.op = WM_TRACE_FREE, .worker = 0, .buffer = 0},
    {.op = WM_TRACE_LEAVE, .worker = 0},
    {.op = WM_TRACE_ALLOC, .worker = 1, .buffer = 2, .value = 20},
    {.op = WM_TRACE_COPY, .worker = 1, .buffer = 2, .value = 1},
    {.op = WM_TRACE_USE, .worker = 1, .buffer = 2, .value = 0},
    {.op = WM_TRACE_USE, .worker = 1, .buffer = 2, .value = 2},
    {.op = WM_TRACE_USE, .worker = 1, .buffer = 2, .value = 2},
    {.op = WM_TRACE_FREE, .worker = 1, .buffer = 1},
    {.op = WM_TRACE_FREE, .worker = 1, .buffer = 2},
    {.op = WM_TRACE_LEAVE, .worker = 1},
};
enum { DONE = sizeof done / sizeof *done };

static bool same_step(const bench_step *a, const bench_step *b)
{
    return a->op == b->op && a->worker == b->worker && a->buffer == b->buffer &&
           a->value == (a->op == WM_TRACE_FREE || a->op == WM_TRACE_LEAVE
                            ? a->value
                            : b->value);
}

static void play_both(const char *name)
{
    play = (struct play){.runtime = traced(name)};
    wt_ok(wm_driver_stream_create(play.runtime->driver, 0, &play.first));
    wt_ok(wm_driver_stream_create(play.runtime->driver, 0, &play.second));
    wt_ok(warm_device_alloc_uncached(play.runtime, 0, 4096, &play.device));
    alone(first_thread, &play);
    alone(second_thread, &play);
    ck_assert_int_eq(play.status, WARM_OK);
    wt_ok(warm_stream_synchronize(play.runtime, play.first));
    wt_ok(warm_stream_synchronize(play.runtime, play.second));
    wt_ok(warm_poll(play.runtime));
}

static void end_both(void)
{
    wt_ok(wm_driver_stream_destroy(play.runtime->driver, play.first));
    wt_ok(wm_driver_stream_destroy(play.runtime->driver, play.second));
    wt_ok(warm_device_free_uncached(play.runtime, 0, play.device));
    wt_runtime_end(play.runtime);
}

WT_CASE("record", .setup = set_up, .teardown = tear_down);

WT_TEST(test_the_file_has_what_the_program_did)
{
    bench_trace *t;

    ck_assert(wm_trace_is_device(WM_TRACE_SHARED - 1));
    ck_assert(!wm_trace_is_device(WM_TRACE_SHARED));
    play_both(path);
    end_both();
    t = read_or_fail(path);
    ck_assert(t->whole);
    ck_assert_uint_eq(t->steps, DONE);
    for (int i = 0; i < DONE; i++) {
        wt_require(same_step(&t->step[i], &done[i]), "step %d is another", i);
    }
    ck_assert_uint_eq(t->buffers, 3);
    ck_assert_uint_eq(t->live, 0);
    ck_assert_uint_eq(t->peak, (3 << 20) + 1000);
    ck_assert_ptr_nonnull(strstr(t->options, "host_devices:1\n"));
    ck_assert_ptr_nonnull(strstr(t->options, "device:host\n"));
    ck_assert_uint_eq(warned(), 0);
    bench_trace_end(t);
}

/* Another stream at the same address is another stream. */
WT_TEST(test_a_retired_stream_does_not_come_again)
{
    warm_runtime *runtime = traced(path);
    void *block = take(runtime, 100);
    warm_stream stream;
    bench_trace *t;
    unsigned retired = 0;

    wt_ok(wm_driver_stream_create(runtime->driver, 0, &stream));
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(wm_driver_stream_destroy(runtime->driver, stream));
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    for (size_t i = 0; i < t->steps; i++) {
        retired += t->step[i].op == WM_TRACE_RETIRE;
    }
    ck_assert_uint_eq(retired, 2);
    ck_assert_uint_eq(t->streams, 2);
    bench_trace_end(t);
}

/* From birth, or when the program says so; and retired with its end. */
static const bench_step lives[] = {
    {.op = WM_TRACE_ADOPT, .value = 0},  {.op = WM_TRACE_ADOPT, .value = 1},
    {.op = WM_TRACE_ADOPT, .value = 2},  {.op = WM_TRACE_RETIRE, .value = 2},
    {.op = WM_TRACE_RETIRE, .value = 1},
};

WT_TEST(test_adopted_streams_are_told_apart)
{
    warm_runtime *runtime = traced(path);
    warm_stream pooled, made, given;
    bench_trace *t;
    size_t k = 0;

    wt_ok(warm_stream_reserve(runtime, 0, &pooled));
    wt_ok(warm_stream_create(runtime, 0, &made));
    wt_ok(wm_driver_stream_create(runtime->driver, 0, &given));
    wt_ok(warm_stream_adopt(runtime, given));
    wt_ok(warm_stream_retire(runtime, given));
    wt_ok(wm_driver_stream_destroy(runtime->driver, given));
    wt_ok(warm_stream_destroy(runtime, made));
    wt_ok(warm_thread_release(runtime));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    for (size_t i = 0; i < t->steps; i++) {
        const bench_step *s = &t->step[i];

        if (s->op != WM_TRACE_LEAVE) {
            ck_assert_uint_lt(k, sizeof lives / sizeof *lives);
            ck_assert_int_eq(s->op, lives[k].op);
            ck_assert_uint_eq(s->place,
                              s->op == WM_TRACE_ADOPT ? WM_TRACE_DEVICE : 0);
            ck_assert_uint_eq(s->value, lives[k].value);
            k++;
        }
    }
    ck_assert_uint_eq(k, sizeof lives / sizeof *lives);
    bench_trace_end(t);
}

/* ---- memory of all sorts ------------------------------------------------- */

static size_t steps_of(const bench_trace *t, enum wm_trace_op op)
{
    size_t count = 0;

    for (size_t i = 0; i < t->steps; i++) {
        count += t->step[i].op == op;
    }
    return count;
}

/* The n-th allocation. */
static const bench_step *allocation(const bench_trace *t, size_t n)
{
    for (size_t i = 0; i < t->steps; i++) {
        if (bench_step_allocates(&t->step[i]) && t->step[i].buffer == n) {
            return &t->step[i];
        }
    }
    wt_require(false, "allocation %zu is not in the trace", n);
    return NULL;
}

WT_TEST(test_G8_a_hundred_blocks_of_a_device_are_recorded)
{
    warm_runtime *runtime = traced(path);
    warm_stream stream = wt_stream(runtime, 0);
    bench_trace *t;
    void *block;

    for (int i = 0; i < 100; i++) {
        wt_ok(warm_device_alloc(runtime, 0, stream, 1000, &block));
        wt_ok(warm_free(block));
    }
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert_uint_eq(t->buffers, 100);
    ck_assert_uint_eq(t->on_device, 100);
    ck_assert_uint_eq(steps_of(t, WM_TRACE_FREE), 100);
    ck_assert_uint_eq(t->peak, 1000);
    ck_assert_uint_eq(t->live, 0);
    bench_trace_end(t);
}

/* Sort, stream, size; of two devices, and default streams. */
WT_TEST(test_G8_blocks_of_devices_have_device_and_stream)
{
    warm_options options = {
        .size = sizeof options, .trace = path, .host_devices = 2};
    warm_runtime *runtime = wt_runtime(&options);
    warm_stream one, two;
    void *block[4];
    bench_trace *t;

    wt_ok(warm_stream_create(runtime, 0, &one));
    wt_ok(warm_stream_create(runtime, 1, &two));
    wt_ok(warm_device_alloc(runtime, 1, two, 3000, &block[0]));
    wt_ok(warm_device_alloc(runtime, 0, one, 2000, &block[1]));
    wt_ok(warm_device_alloc(runtime, 0, NULL, 1000, &block[2]));
    wt_ok(warm_device_alloc(runtime, 0, WARM_STREAM_LEGACY, 10, &block[3]));
    wt_ok(warm_record_stream(block[0], one));
    wt_free_all(block, 4);
    wt_ok(warm_stream_destroy(runtime, one));
    wt_ok(warm_stream_destroy(runtime, two));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert_uint_eq(t->devices, 2);
    ck_assert_uint_eq(t->on_device, 4);
    ck_assert_uint_eq(t->streams, 3);
    ck_assert_uint_eq(t->legacy, 2);
    for (unsigned i = 0; i < 4; i++) {
        static const struct {
            unsigned bytes, device, stream;
        } is[] = {{3000, 1, 1}, {2000, 0, 0}, {1000, 0, 2}, {10, 0, 2}};
        const bench_step *s = allocation(t, i);

        ck_assert_uint_eq(s->value, is[i].bytes);
        ck_assert_uint_eq(s->place, WM_TRACE_DEVICE + is[i].device);
        ck_assert_uint_eq(s->stream, is[i].stream);
        ck_assert_uint_eq(t->device_of[s->stream + 1], is[i].device);
    }
    ck_assert_uint_eq(steps_of(t, WM_TRACE_USE), 1);
    ck_assert_uint_eq(steps_of(t, WM_TRACE_ADOPT), 2);
    ck_assert_uint_eq(steps_of(t, WM_TRACE_RETIRE), 2);
    bench_trace_end(t);
}

/* Each sort of buffer has its own place, with the device it is for; a list of
 * buffers uses those that are shared. With several nodes as well. */
WT_LOOP_TEST(test_G8_buffers_of_the_shared_space_have_sort_and_device, 2)
{
    warm_options options = {.size = sizeof options,
                            .trace = path,
                            .host_devices = 2,
                            .test = _i == 1 ? "numa_nodes=2" : "numa_nodes=1"};
    warm_runtime *runtime = wt_runtime(&options);
    const int64_t value = 7;
    warm_stream stream = wt_stream(runtime, 0);
    void *buffer[3], *pinned;
    bench_trace *t;

    wt_ok(warm_shared_alloc(runtime, 1, 3000, WARM_USAGE_PRIVATE, &buffer[0]));
    wt_ok(warm_shared_alloc(runtime, 0, 2000, WARM_USAGE_SHARED, &buffer[1]));
    wt_ok(warm_shared_alloc_scalar(runtime, 1, &value, 8, &buffer[2]));
    wt_ok(warm_pinned_alloc(runtime, 1000, &pinned));
    wt_ok(warm_shared_record(runtime, buffer, 3, stream, NULL));
    wt_free_all(buffer, 3);
    wt_ok(warm_free(pinned));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert_uint_eq(t->shared, 3);
    ck_assert_uint_eq(t->on_device, 0);
    ck_assert_uint_eq(t->devices, 2);
    for (unsigned i = 0; i < 4; i++) {
        static const struct {
            unsigned bytes;
            int device;
            enum bench_sort sort;
        } is[] = {{3000, 1, BENCH_PRIVATE},
                  {2000, 0, BENCH_SHARED},
                  {8, 1, BENCH_SCALAR},
                  {1000, -1, BENCH_HOST_MEMORY}};
        const bench_step *s = allocation(t, i);

        ck_assert_uint_eq(s->value, is[i].bytes);
        ck_assert_int_eq(bench_place_device(s->place), is[i].device);
        ck_assert_int_eq((int)bench_place_sort(s->place), (int)is[i].sort);
    }
    ck_assert_uint_eq(steps_of(t, WM_TRACE_USE), 2);
    ck_assert_uint_eq(steps_of(t, WM_TRACE_FREE), 4);
    bench_trace_end(t);
}

static void *from_pool(warm_runtime *runtime, warm_private_pool *pool,
                       unsigned flags, bool of_device)
{
    void *block = NULL;

    wt_ok(warm_private_pool_begin(runtime, pool, flags, NULL, NULL));
    wt_ok(of_device ? warm_device_alloc(runtime, 0, NULL, 100, &block)
                    : warm_pinned_alloc(runtime, 100, &block));
    wt_ok(warm_private_pool_end(runtime, *pool));
    return block;
}

WT_TEST(test_G8_private_pools_are_recorded_and_their_end)
{
    warm_runtime *runtime = traced(path);
    warm_private_pool graphs = {0}, user = {0};
    void *block[4] = {from_pool(runtime, &graphs, 0, true),
                      from_pool(runtime, &user, WARM_POOL_USER, false),
                      from_pool(runtime, &user, WARM_POOL_USER, true), NULL};
    bench_trace *t;

    wt_ok(warm_private_pool_release(runtime, user));
    block[3] = take(runtime, 100);
    wt_free_all(block, 4);
    wt_ok(warm_private_pool_release(runtime, user));
    wt_ok(warm_private_pool_release(runtime, graphs));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert_uint_eq(t->pools, 2);
    for (unsigned i = 0; i < 4; i++) {
        static const unsigned pool[] = {1, 2, 2, 0};
        const bench_step *s = allocation(t, i);

        ck_assert_uint_eq(s->pool, pool[i]);
        ck_assert_uint_eq(s->user, pool[i] == 2);
        ck_assert_uint_eq(s->place >= WM_TRACE_DEVICE, i % 2 == 0);
    }
    ck_assert_uint_eq(steps_of(t, WM_TRACE_POOL), 2);
    bench_trace_end(t);
}

WT_TEST(test_G8_pageable_memory_is_recorded_as_such)
{
    warm_options options = {
        .size = sizeof options, .trace = path, .pinned_high = 4 << 20};
    warm_runtime *runtime = wt_runtime(&options);
    void *block[2];
    bench_trace *t;

    for (int i = 0; i < 2; i++) {
        wt_ok(warm_pinned_alloc_on(runtime, i == 0 ? 100 : 64 << 20,
                                   WARM_NODE_ANY, WARM_ALLOC_PAGEABLE_OK,
                                   &block[i]));
    }
    wt_free(block[0], block[1]);
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert_int_eq(allocation(t, 0)->op, WM_TRACE_ALLOC);
    ck_assert_int_eq(allocation(t, 1)->op, WM_TRACE_PLACED);
    ck_assert_int_eq(allocation(t, 1)->place, WM_TRACE_PAGEABLE);
    ck_assert_uint_eq(t->pageable, 1);
    ck_assert_uint_eq(t->live, 0);
    bench_trace_end(t);
}

WT_TEST(test_nothing_is_traced_unless_asked)
{
    warm_runtime *runtime = wt_runtime(NULL);
    void *block = take(runtime, 100);

    ck_assert_ptr_null(runtime->trace);
    wt_ok(warm_free(block));
    wt_runtime_end(runtime);
}

static wm_trace *open_trace(void)
{
    wm_trace *trace = NULL;
    wm_options options;

    wt_ok(wm_options_resolve(NULL, NULL, &options));
    snprintf(options.trace, sizeof options.trace, "%s", path);
    wt_ok(wm_trace_open(&options, &trace));
    return trace;
}

WT_TEST(test_threads_own_default_streams_are_told_apart)
{
    wm_trace *trace = open_trace();
    wm_trace_buffer *first = wm_trace_enter(trace);
    wm_trace_buffer *second = wm_trace_enter(trace);
    warm_stream own = WARM_STREAM_PER_THREAD;

    ck_assert_uint_eq(wm_trace_stream(first, own), 2);
    ck_assert_uint_eq(wm_trace_stream(second, own), 3);
    ck_assert_uint_eq(wm_trace_stream(first, own), 2);
    ck_assert_uint_eq(wm_trace_stream(first, NULL), WM_TRACE_LEGACY);
    ck_assert_uint_eq(wm_trace_stream(second, WARM_STREAM_LEGACY),
                      WM_TRACE_LEGACY);
    ck_assert_uint_eq(wm_trace_forget(second, NULL), 0);
    ck_assert_uint_eq(wm_trace_forget(wm_trace_shared(trace), own), 0);
    ck_assert_uint_eq(wm_trace_forget(second, own), 3);
    ck_assert_uint_eq(wm_trace_stream(second, own), 4);
    wm_trace_close(trace);
}

static warm_stream nth_stream(uintptr_t n)
{
    return (warm_stream)(4096 + 64 * n);
}

/* The place of one that was forgotten has nothing to do with its next life. */
WT_TEST(test_stream_that_comes_back_is_not_forgotten_for_its_first_life)
{
    wm_trace *trace = open_trace();
    wm_trace_buffer *buffer = wm_trace_shared(trace);
    warm_stream stream = nth_stream(2 * WM_TRACE_STREAMS);

    ck_assert_uint_eq(wm_trace_stream(buffer, stream), 2);
    ck_assert_uint_eq(wm_trace_forget(buffer, stream), 2);
    ck_assert_uint_eq(wm_trace_stream(buffer, stream), 3);
    /* All other places, and the one of its first life. */
    for (uintptr_t i = 0; i < WM_TRACE_STREAMS - 1; i++) {
        (void)wm_trace_stream(buffer, nth_stream(i));
    }
    ck_assert_uint_eq(wm_trace_stream(buffer, stream), 3);
    wm_trace_close(trace);
}

/* More streams than it has room for: the oldest are forgotten, no others. */
WT_TEST(test_streams_are_bounded)
{
    const uintptr_t many = 3 * WM_TRACE_STREAMS;
    wm_trace *trace = open_trace();
    wm_trace_buffer *buffer = wm_trace_shared(trace);

    for (uintptr_t i = 0; i < many; i++) {
        wt_require(wm_trace_stream(buffer, nth_stream(i)) == i + 2,
                   "stream %zu", (size_t)i);
    }
    for (uintptr_t i = many - WM_TRACE_STREAMS; i < many; i++) {
        wt_require(wm_trace_stream(buffer, nth_stream(i)) == i + 2,
                   "stream %zu is forgotten", (size_t)i);
    }
    ck_assert_uint_eq(wm_trace_stream(buffer, nth_stream(0)), many + 2);
    wm_trace_close(trace);
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 8, SLOTS = 16 };

static struct crowd {
    warm_runtime *runtime;
    unsigned ops;
    _Atomic(void *) slot[THREADS][SLOTS];
    unsigned errors[THREADS];
} crowd;

/* Threads put buffers into each other's slots, and free what they find. */
static void exchange(void *argument, unsigned index)
{
    struct crowd *c = argument;
    uint64_t state = wt_seed() + index + 1;
    warm_stream stream = NULL;
    unsigned errors = warm_stream_reserve(c->runtime, 0, &stream) != WARM_OK;

    for (unsigned i = 0; i < c->ops; i++) {
        uint64_t random = wt_random(&state);
        void *mine = NULL;
        void *found;

        errors +=
            warm_pinned_alloc(c->runtime, 1 + random % 30000, &mine) != WARM_OK;
        if (random >> 63 != 0) {
            errors += warm_record_stream(mine, stream) != WARM_OK;
        }
        /* Acquire and release: the buffer is handed over. */
        found = atomic_exchange_explicit(
            &c->slot[(random >> 20) % THREADS][(random >> 32) % SLOTS], mine,
            memory_order_acq_rel);
        errors += warm_free(found) != WARM_OK;
    }
    c->errors[index] = errors;
}

/* The reader holds what it reads to be sound: every free after its block's
 * allocation, which is to say that records are in the order of what happened.
 */
WT_TEST(test_many_threads_make_one_sound_order)
{
    unsigned allocs = 0, frees = 0, leaves = 0, live = 0;
    bench_trace *t;

    crowd.runtime = traced(path);
    crowd.ops = wt_scaled(6000);
    wt_threads(THREADS, exchange, &crowd);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(crowd.errors[i], 0);
        for (int k = 0; k < SLOTS; k++) {
            void *left =
                atomic_load_explicit(&crowd.slot[i][k], memory_order_relaxed);

            live += left != NULL;
            wt_ok(warm_free(left));
        }
    }
    wt_ok(warm_runtime_destroy(crowd.runtime, NULL));
    t = read_or_fail(path);
    for (size_t i = 0; i < t->steps; i++) {
        allocs += t->step[i].op == WM_TRACE_ALLOC;
        frees += t->step[i].op == WM_TRACE_FREE;
        leaves += t->step[i].op == WM_TRACE_LEAVE;
    }
    ck_assert(t->whole);
    ck_assert_uint_eq(allocs, THREADS * crowd.ops);
    ck_assert_uint_eq(frees, allocs);
    ck_assert_uint_eq(leaves, live > 0 ? THREADS + 1 : THREADS);
    ck_assert_uint_eq(t->live, 0);
    bench_trace_end(t);
}

static void one_block(void *argument, unsigned index)
{
    void *block = NULL;

    crowd.errors[index] = warm_pinned_alloc(argument, 100, &block) != WARM_OK ||
                          warm_free(block) != WARM_OK;
}

/* Buffers of threads that are gone serve new ones. */
WT_TEST(test_memory_follows_the_threads_that_live)
{
    warm_runtime *runtime = traced(path);
    bench_trace *t;
    int64_t before;

    wt_threads(1, one_block, runtime);
    before = wm_meta_live();
    for (int i = 0; i < 100; i++) {
        wt_threads(1, one_block, runtime);
        ck_assert_uint_eq(crowd.errors[0], 0);
    }
    ck_assert_int_eq(wm_meta_live(), before);
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert_uint_eq(t->workers, 101);
    bench_trace_end(t);
}

/* A thread for which there is no memory shares a buffer: nothing is lost. */
WT_TEST(test_a_thread_without_memory_shares)
{
    warm_runtime *runtime = traced(path);
    void *block = take(runtime, 100);
    bench_trace *t;

    wt_ok(warm_free(block));
    wt_ok(warm_thread_release(runtime));
    wm_meta_fail(1, true); /* neither a window nor a buffer */
    block = take(runtime, 100);
    wt_ok(warm_free(block));
    wm_meta_fail(0, false);
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert(t->whole);
    ck_assert_uint_eq(t->workers, 2);
    ck_assert_uint_eq(t->buffers, 2);
    ck_assert_uint_eq(t->live, 0);
    bench_trace_end(t);
}

/* ---- names, and files that cannot be had --------------------------------- */

WT_CASE("files", .setup = set_up, .teardown = tear_down);

/* The number of the runtime whose trace is the first in the folder: 1, unless
 * the process had others before. */
static unsigned first_number(void)
{
    DIR *all = opendir(folder);
    struct dirent *entry;
    unsigned first = UINT_MAX;

    ck_assert_ptr_nonnull(all);
    while ((entry = readdir(all)) != NULL) {
        const char *dash = strrchr(entry->d_name, '-');
        unsigned long number = dash != NULL ? strtoul(dash + 1, NULL, 10) : 0;

        first = number > 0 && number < first ? (unsigned)number : first;
    }
    closedir(all);
    return first;
}

WT_TEST(test_names_tell_processes_and_runtimes_apart)
{
    unsigned first;
    char pattern[160], name[160];
    warm_runtime *one, *two;
    bench_trace *t;

    snprintf(pattern, sizeof pattern, "%s/%%%%-%%p-%%r", folder);
    one = traced(pattern);
    two = traced(pattern);
    wt_ok(warm_free(take(two, 77)));
    wt_runtime_end(one);
    wt_runtime_end(two);
    first = first_number();
    snprintf(name, sizeof name, "%s/%%-%ld-%u", folder, (long)getpid(), first);
    t = read_or_fail(name);
    ck_assert_uint_eq(t->steps, 0);
    bench_trace_end(t);
    snprintf(name, sizeof name, "%s/%%-%ld-%u", folder, (long)getpid(),
             first + 1);
    t = read_or_fail(name);
    ck_assert_uint_eq(t->peak, 77);
    bench_trace_end(t);
}

/* Below the folder; what the message says besides. */
static const struct {
    const char *name, *says;
} refused[] = {
    {"none/t", "No such file or directory"},
    {"", "Is a directory"},
    {"pipe", "is not a file"},
    {"%x", "'%x' is unknown"},
    {"last%", "'%' is unknown"},
    {"busy", "another runtime"},
};

WT_LOOP_TEST(test_a_file_that_cannot_be_had_is_named,
             sizeof refused / sizeof *refused)
{
    char name[160];
    int64_t before;
    warm_options options = {.size = sizeof options, .trace = name};
    warm_runtime *busy, *runtime = NULL;

    snprintf(name, sizeof name, "%s/pipe", folder);
    ck_assert_int_eq(mkfifo(name, 0666), 0);
    snprintf(name, sizeof name, "%s/busy", folder);
    busy = traced(name);
    before = wm_meta_live();
    snprintf(name, sizeof name, "%s/%s", folder, refused[_i].name);
    options.device = "host";
    close(STDIN_FILENO); /* a file may be opened as 0 */
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
    ck_assert_ptr_null(runtime);
    ck_assert_int_eq(wm_meta_live(), before);
    ck_assert_int_eq(open("/dev/null", O_RDONLY), STDIN_FILENO);
    wt_says(name);
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), refused[_i].says));
    wt_runtime_end(busy);
}

WT_TEST(test_the_environment_asks_for_it_too)
{
    char conf[160];
    warm_runtime *runtime;
    bench_trace *t;

    snprintf(conf, sizeof conf, "trace:%s", path);
    setenv("WARMPOOL_CONF", conf, 1);
    runtime = wt_runtime(NULL);
    wt_ok(warm_free(take(runtime, 55)));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert_uint_eq(t->peak, 55);
    bench_trace_end(t);
}

/* ---- writes that fail ---------------------------------------------------- */

static void many_blocks(warm_runtime *runtime, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        void *block = NULL;

        wt_require(warm_pinned_alloc(runtime, 100, &block) == WARM_OK &&
                       warm_free(block) == WARM_OK,
                   "block %u", i);
    }
}

/* A piece of the file has a head and a checksum for all of its records. */
WT_TEST(test_records_of_a_thread_share_a_piece_of_the_file)
{
    struct stat file;
    warm_runtime *runtime = traced(path);

    many_blocks(runtime, 1000);
    wt_runtime_end(runtime);
    ck_assert_int_eq(stat(path, &file), 0);
    ck_assert_int_lt(file.st_size, 2000 * 16);
}

WT_TEST(test_a_full_disk_ends_the_tracing_and_no_call)
{
    warm_runtime *runtime = traced("/dev/full");

    many_blocks(runtime, 10000);
    ck_assert_uint_eq(warned(), 1);
    ck_assert_ptr_nonnull(strstr(warning, "the trace /dev/full is incomplete"));
    ck_assert_ptr_nonnull(strstr(warning, strerror(ENOSPC)));
    wt_runtime_end(runtime);
    ck_assert_uint_eq(warned(), 1);
}

/* A file that keeps what it has gets neither a header nor an end. */
WT_TEST(test_G8_a_file_that_cannot_be_emptied_stays_as_it_was)
{
    int fd = memfd_create("trace", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    char name[64], has[8] = "";
    warm_runtime *runtime;

    ck_assert_int_eq(write(fd, "before", 6), 6);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    snprintf(name, sizeof name, "/proc/%ld/fd/%d", (long)getpid(), fd);
    runtime = traced(name);
    many_blocks(runtime, 10);
    wt_runtime_end(runtime);
    ck_assert_uint_eq(warned(), 1);
    ck_assert_int_eq(pread(fd, has, sizeof has, 0), 6);
    ck_assert_str_eq(has, "before");
    close(fd);
}

/* The system would end the program that writes beyond its limit. What was
 * written before is whole. */
WT_TEST(test_a_limit_on_files_is_not_run_into)
{
    struct rlimit limit = {60000, RLIM_INFINITY};
    warm_runtime *runtime = traced(path);
    bench_trace *t;
    int before = errno = 1234;

    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    many_blocks(runtime, 10000);
    ck_assert_int_eq(errno, before);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_uint_eq(warned(), 1);
    ck_assert_ptr_nonnull(strstr(warning, path));
    ck_assert_ptr_nonnull(strstr(warning, strerror(EFBIG)));
    wt_runtime_end(runtime);
    ck_assert_uint_eq(warned(), 1);
    t = read_or_fail(path);
    ck_assert(!t->whole);
    ck_assert_ptr_nonnull(strstr(t->ending, "a write failed"));
    ck_assert_ptr_nonnull(strstr(t->ending, strerror(EFBIG)));
    ck_assert_uint_gt(t->buffers, 1000);
    ck_assert_uint_lt(t->buffers, 10000);
    bench_trace_end(t);
}

/* ---- processes ----------------------------------------------------------- */

static int status_of_child(pid_t pid)
{
    int status = 0;

    ck_assert_int_ge(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "the child died of signal %d",
                  WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void hold_one(void *argument, unsigned index)
{
    void *block = NULL;

    (void)index;
    (void)warm_pinned_alloc(argument, 1000, &block);
}

/* It ends without a word, with a block live, by exit() or by _exit(). */
static void leave_it(bool politely)
{
    warm_options options = {
        .size = sizeof options, .trace = path, .device = "host"};
    warm_runtime *runtime = NULL;
    void *block = NULL;

    if (warm_runtime_create(&options, &runtime) != WARM_OK) {
        _exit(1);
    }
    wt_threads(1, hold_one, runtime); /* its buffer is written when it ends */
    if (warm_pinned_alloc(runtime, 2000, &block) != WARM_OK) {
        _exit(2);
    }
    if (politely) {
        exit(0); /* NOLINT(concurrency-mt-unsafe) */
    }
    _exit(0);
}

WT_LOOP_TEST(test_A6_exit_writes_what_there_is, 2)
{
    bool politely = _i != 0;
    bench_trace *t;
    pid_t child = fork();

    if (child == 0) {
        leave_it(politely);
    }
    ck_assert_int_eq(status_of_child(child), 0);
    t = read_or_fail(path);
    ck_assert_int_eq(t->whole, politely);
    ck_assert_ptr_nonnull(
        strstr(t->ending, politely ? "the process exited" : "has no end"));
    ck_assert_uint_eq(t->live, politely ? 3000 : 1000);
    bench_trace_end(t);
}

static bool exits_without_room;

/* After all that was registered to be called at exit. */
__attribute__((destructor)) static void judge_exit(void)
{
    if (!exits_without_room) {
        return;
    }
    _exit(warned() == 1 && strstr(warning, "the process exits") != NULL &&
                  strstr(warning, path) != NULL &&
                  strstr(warning, strerror(EFBIG)) != NULL
              ? 0
              : 1);
}

/* Nothing may be added to the file, and nobody notices before the exit. */
static void exit_without_room(void)
{
    warm_options options = {
        .size = sizeof options, .trace = path, .device = "host"};
    struct rlimit limit = {0, RLIM_INFINITY};
    warm_runtime *runtime = NULL;
    struct stat file;
    void *block = NULL;

    exits_without_room = true;
    if (warm_runtime_create(&options, &runtime) != WARM_OK ||
        warm_pinned_alloc(runtime, 2000, &block) != WARM_OK ||
        stat(path, &file) != 0) {
        _exit(2);
    }
    limit.rlim_cur = (rlim_t)file.st_size;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || warned() != 0) {
        _exit(3);
    }
    exit(0); /* NOLINT(concurrency-mt-unsafe) */
}

WT_TEST(test_G8_exit_says_which_trace_is_cut_short_and_why)
{
    bench_trace *t;
    pid_t child = fork();

    if (child == 0) {
        exit_without_room();
    }
    ck_assert_int_eq(status_of_child(child), 0);
    t = read_or_fail(path);
    ck_assert(!t->whole);
    bench_trace_end(t);
}

/* Its trace ends well; its file is another process's afterwards. */
static void leave_behind(const char *name)
{
    pid_t child = fork();

    if (child == 0) {
        warm_options options = {
            .size = sizeof options, .trace = name, .device = "host"};
        warm_runtime *runtime = NULL;

        _exit(warm_runtime_create(&options, &runtime) == WARM_OK &&
                      warm_runtime_destroy(runtime, NULL) == WARM_OK
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(status_of_child(child), 0);
}

WT_TEST(test_G8_a_file_is_of_one_runtime_of_a_process)
{
    warm_options options = {
        .size = sizeof options, .trace = path, .device = "host"};
    warm_runtime *runtime = NULL;
    bench_trace *t;

    leave_behind(path);
    runtime = traced(path); /* over that of the other process */
    wt_ok(warm_free(take(runtime, 77)));
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
    wt_runtime_end(runtime);
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
    wt_says(path, "%r");
    t = read_or_fail(path);
    ck_assert(t->whole);
    ck_assert_uint_eq(t->peak, 77);
    bench_trace_end(t);
    ck_assert_int_eq(unlink(path), 0); /* said to be in nobody's way */
    wt_runtime_end(traced(path));
    leave_behind(path);
}

/* Half of it, and then no room. */
static ssize_t write_half(int fd, const void *data, size_t bytes)
{
    if (bytes > 3) {
        return write(fd, data, bytes / 2);
    }
    errno = ENOSPC;
    return -1;
}

WT_TEST(test_G8_a_short_write_leaves_no_hole)
{
    char name[PATH_MAX], there[32];
    wm_trace_file file;
    int fd;

    wt_ok(wm_trace_file_open(&file, path, 1, name));
    ck_assert_int_eq(wm_trace_file_write(&file, "first.", 6), 0);
    file.write = write_half;
    ck_assert_int_eq(wm_trace_file_write(&file, "second", 6), ENOSPC);
    file.write = write;
    ck_assert_int_eq(wm_trace_file_write(&file, "end", 3), 0);
    ck_assert_int_eq(wm_trace_file_close(&file), 0);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(read(fd, there, sizeof there), 9);
    ck_assert_mem_eq(there, "first.end", 9);
    close(fd);
}

WT_TEST(test_G4_a_refused_runtime_leaves_the_file_as_it_was)
{
    warm_options options = {.size = sizeof options,
                            .trace = path,
                            .device = "host",
                            .pinned_high = 1 << 20,
                            .reserve_bytes = 1 << 30};
    warm_runtime *runtime = NULL;
    bench_trace *t;

    leave_behind(path);
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
    t = read_or_fail(path);
    ck_assert(t->whole);
    ck_assert_ptr_null(strstr(t->options, "reserve_bytes:1073741824"));
    bench_trace_end(t);
    options.reserve_bytes = 0;
    wt_ok(warm_runtime_create(&options, &runtime));
    wt_ok(warm_free(take(runtime, 77)));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert(t->whole);
    ck_assert_uint_eq(t->peak, 77);
    bench_trace_end(t);
}

static int ready[2], over[2];

/* Says that it lives, and does so until the test lets it go. */
static void live_on(void)
{
    char byte = 0;

    close(over[1]);
    _exit(write(ready[1], &byte, 1) == 1 && read(over[0], &byte, 1) == 0 ? 0
                                                                         : 1);
}

static void await_child(void)
{
    char byte;

    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
}

static void open_pipes(void)
{
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(over, O_CLOEXEC), 0);
}

static void close_pipes(void)
{
    close(over[0]);
    close(over[1]);
    close(ready[0]);
    close(ready[1]);
}

WT_TEST(test_G5_a_child_does_not_keep_the_file_of_a_dead_parent)
{
    int status = 0;
    pid_t parent;

    open_pipes();
    parent = fork();
    if (parent == 0) {
        (void)traced(path);
        if (fork() == 0) {
            live_on();
        }
        await_child();
        (void)raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(parent, &status, 0), parent);
    ck_assert(WIFSIGNALED(status));
    wt_runtime_end(traced(path));
    close_pipes();
}

WT_TEST(test_G5_a_child_leaves_the_parents_lock)
{
    warm_options options = {
        .size = sizeof options, .trace = path, .device = "host"};
    warm_runtime *runtime = traced(path), *second = NULL;
    pid_t child;

    open_pipes();
    child = fork();
    if (child == 0) {
        live_on();
    }
    await_child();
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &second));
    wt_says("is being written");
    close_pipes();
    ck_assert_int_eq(status_of_child(child), 0);
    wt_runtime_end(runtime);
}

WT_TEST(test_G5_a_forked_child_writes_nothing)
{
    warm_runtime *runtime = traced(path);
    void *block = take(runtime, 100);
    bench_trace *t;
    pid_t child = fork();

    if (child == 0) {
        void *other = NULL;
        warm_status got = warm_pinned_alloc(runtime, 200, &other);
        warm_status freed = warm_free(block);

        exit(got == WARM_FORKED && freed == WARM_FORKED /* NOLINT */
                 ? 0
                 : 1);
    }
    ck_assert_int_eq(status_of_child(child), 0);
    wt_ok(warm_free(block));
    wt_runtime_end(runtime);
    t = read_or_fail(path);
    ck_assert(t->whole);
    ck_assert_uint_eq(t->buffers, 1);
    ck_assert_uint_eq(t->peak, 100);
    bench_trace_end(t);
}

WT_TEST(test_the_file_is_closed_when_a_program_is_started)
{
    warm_runtime *runtime = traced(path);
    char name[64], to[160];
    unsigned found = 0;

    for (int fd = 0; fd < 256; fd++) {
        ssize_t length;

        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        length = readlink(name, to, sizeof to - 1);
        if (length > 0) {
            to[length] = '\0';
        }
        if (length > 0 && strcmp(to, path) == 0) {
            ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
            found++;
        }
    }
    ck_assert_uint_eq(found, 1);
    wt_runtime_end(runtime);
}

/* ---- damaged files ------------------------------------------------------- */

static unsigned char *whole;
static size_t length;

/* In memory: thousands of files are read. */
static void write_file(const unsigned char *data, size_t bytes)
{
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("trace", MFD_CLOEXEC);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    wt_require(ftruncate(fd, 0) == 0 &&
                   pwrite(fd, data, bytes, 0) == (ssize_t)bytes,
               "%s cannot be written", path);
}

/* Null and a reason, or a trace. */
static bench_trace *read_some(char *error, size_t bytes)
{
    bench_trace *t;

    error[0] = '\0';
    t = bench_trace_read(path, error, bytes);
    wt_require(t != NULL || error[0] != '\0', "refused without a word");
    return t;
}

static void record_some(void)
{
    FILE *in;

    play_both(path);
    end_both();
    whole = malloc(65536);
    in = fopen(path, "rbe");
    ck_assert(whole != NULL && in != NULL);
    length = fread(whole, 1, 65536, in);
    fclose(in);
    ck_assert_uint_gt(length, 100);
    ck_assert_uint_lt(length, 65536);
}

static size_t after_varint(size_t at)
{
    while (whole[at] >= 128) {
        at++;
    }
    return at + 1;
}

/* Where the options' text begins: after "WARMTRC\n", version, process, mark and
 * its length. */
static size_t text_start(void)
{
    return after_varint(after_varint(after_varint(9)));
}

static size_t first_chunk(void)
{
    size_t at = text_start();
    size_t text = (whole[at - 2] & 127) + ((size_t)whole[at - 1] << 7);

    ck_assert_uint_ge(whole[at - 2], 128);
    ck_assert_uint_eq(whole[at + text], 'C');
    return at + text;
}

WT_CASE("read", .setup = set_up, .teardown = tear_down);

/* Read as far as it goes, or refused if it is cut within its head. */
WT_TEST(test_cut_off_files_are_refused_or_known_to_be_cut)
{
    char error[256];
    unsigned read = 0;
    size_t last = 0;

    record_some();
    for (size_t bytes = 0; bytes < length; bytes++) {
        bench_trace *t;

        write_file(whole, bytes);
        t = read_some(error, sizeof error);
        if (t != NULL) {
            wt_require(!t->whole && bytes >= first_chunk() &&
                           t->steps >= last && t->steps <= DONE &&
                           strstr(t->ending, "the file ") == t->ending,
                       "%zu bytes are a trace of %zu steps", bytes, t->steps);
            last = t->steps;
            read++;
            bench_trace_end(t);
        }
    }
    ck_assert_uint_eq(read, length - first_chunk());
    ck_assert_uint_eq(last, DONE);
    free(whole);
}

/* Chunks are whole, but one is not there. */
WT_TEST(test_G8_a_lost_chunk_is_missed)
{
    char error[256];
    size_t start, next;
    bench_trace *t;

    record_some();
    start = next = first_chunk();
    do {
        next++;
    } while (whole[next] != 'C' || whole[next + 1] != 2 /* thread */);
    memmove(whole + start, whole + next, length - next);
    write_file(whole, length - (next - start));
    t = read_some(error, sizeof error);
    wt_require(t != NULL, "%s", error);
    ck_assert(!t->whole);
    ck_assert_ptr_nonnull(strstr(t->ending, "5 of its 13 records are missing"));
    ck_assert_uint_gt(t->strays, 0);
    bench_trace_end(t);
    free(whole);
}

/* Any bit: nothing but the text of the options, and whose it is, may be another
 * one unseen. */
WT_TEST(test_damaged_files_are_refused)
{
    char error[256];
    size_t text, start;

    record_some();
    text = text_start();
    start = first_chunk();
    for (size_t i = 0; i < 8 * length; i++) {
        size_t at = i / 8;
        bench_trace *t;

        whole[at] ^= (unsigned char)(1 << (i % 8));
        write_file(whole, length);
        t = read_some(error, sizeof error);
        wt_require((at >= 9 && at < text) || (at >= text && at < start)
                       ? at < text || t != NULL
                       : t == NULL || !t->whole,
                   "bit %zu of byte %zu is not missed", i % 8, at);
        bench_trace_end(t);
        whole[at] ^= (unsigned char)(1 << (i % 8));
    }
    free(whole);
}

static void seal(unsigned char *from, unsigned char *to)
{
    uint32_t sum = 2166136261u;

    for (unsigned char *c = from; c < to; c++) {
        sum = (sum ^ *c) * 16777619u;
    }
    for (int i = 0; i < 4; i++) {
        to[i] = (unsigned char)(sum >> (8 * i));
    }
}

/* One made chunk of random records, sealed as if it were sound: the reader
 * itself has to hold. What it takes for sound it can take to the end. */
WT_TEST(test_any_sealed_chunk_is_read_or_refused)
{
    uint64_t state = wt_seed();
    unsigned taken = 0;
    char error[256];
    size_t start;

    record_some();
    start = first_chunk();
    for (unsigned i = 0; i < 1000 + wt_scaled(19000); i++) {
        unsigned char data[4096];
        size_t records = 1 + wt_random(&state) % 4, at = start;
        size_t bytes = records * 2 + wt_random(&state) % 12;
        bench_trace *t;

        memcpy(data, whole, start);
        data[at++] = 'C';
        data[at++] = 1; /* thread */
        data[at++] = 0; /* order */
        data[at++] = 0; /* ns */
        data[at++] = (unsigned char)records;
        data[at++] = (unsigned char)bytes;
        for (size_t k = 0; k < bytes; k++) {
            data[at++] = (unsigned char)(wt_random(&state) >> 40) &
                         (wt_random(&state) % 4 != 0 ? 15 : 255);
        }
        seal(data + start, data + at);
        write_file(data, at + 4);
        t = read_some(error, sizeof error);
        taken += t != NULL;
        wt_require(t == NULL || t->steps + t->strays == records,
                   "round %u (seed %llu)", i, (unsigned long long)wt_seed());
        bench_trace_end(t);
    }
    ck_assert_uint_gt(taken, 0);
    free(whole);
}

WT_TEST(test_other_files_are_refused)
{
    char error[256];

    ck_assert_ptr_null(bench_trace_read("/none", error, sizeof error));
    ck_assert_str_eq(error, strerror(ENOENT));
    ck_assert_ptr_null(bench_trace_read("/tmp", error, sizeof error));
    write_file((const unsigned char *)"WARMTRC\n\001\001x", 11);
    ck_assert_ptr_null(bench_trace_read(path, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "version 1"));
    write_file((const unsigned char *)"hello", 5);
    ck_assert_ptr_null(bench_trace_read(path, error, sizeof error));
    ck_assert_str_eq(error, "not a trace");
}
