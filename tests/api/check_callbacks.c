/* check_callbacks.c: memory callbacks by name (row F9). */
#include "wt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;

/* What a callback heard. */
typedef struct ear {
    unsigned count[32]; /* by event */
    void *buffer;       /* the last */
    size_t bytes;
    unsigned done;
    int answer;
    void *frees; /* freed at the next event */
} ear;

static int hear(void *context, warm_memory_event event, void *buffer,
                size_t bytes)
{
    ear *e = context;
    void *frees = e->frees;

    e->count[event]++;
    e->buffer = buffer;
    e->bytes = bytes;
    e->frees = NULL;
    if (frees != NULL) {
        wt_ok(warm_free(frees));
    }
    wt_fails(WARM_INVALID_POINTER, warm_free(e)); /* not the caller's error */
    return e->answer;
}

static void note_done(void *context)
{
    ((ear *)context)->done++;
}

enum {
    OF_BLOCKS =
        WARM_MEMORY_ALLOCATED | WARM_MEMORY_RECYCLED | WARM_MEMORY_FREED,
    ALL = OF_BLOCKS | WARM_MEMORY_RELEASED | WARM_MEMORY_FAILED
};

static warm_memory_callback named(const char *name, ear *e, unsigned events)
{
    return (warm_memory_callback){.size = sizeof(warm_memory_callback),
                                  .name = name,
                                  .function = hear,
                                  .context = e,
                                  .done = note_done,
                                  .events = events};
}

static warm_status add(const char *name, ear *e, unsigned events)
{
    warm_memory_callback callback = named(name, e, events);

    return warm_memory_callback_add(runtime, &callback);
}

static void setup(void)
{
    runtime = wt_runtime_with(.segment = 4 * MIB, .pinned_high = 64 * MIB,
                              .limit_wait_ms = 1);
    stream = wt_stream(runtime, 0);
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

/* ---- events -------------------------------------------------------------- */

WT_CASE("events", .setup = setup, .teardown = teardown);

static warm_status take(int space, size_t bytes, void **block)
{
    return space == 0 ? warm_pinned_alloc(runtime, bytes, block)
           : space == 1
               ? warm_device_alloc(runtime, 0, stream, bytes, block)
               : warm_shared_alloc(runtime, 0, bytes, WARM_USAGE_SHARED, block);
}

static void give_all_back(void)
{
    wt_ok(warm_trim(runtime, 0, NULL));
}

WT_LOOP_TEST(test_F9_each_event_has_its_buffer_and_size, 3)
{
    static ear e; /* tests may share a process */
    void *block = NULL, *again = NULL;

    e = (ear){.answer = 0};
    wt_fails(WARM_NOT_FOUND, warm_memory_callback_remove(runtime, "none"));
    wt_ok(add("all", &e, ALL));
    wt_ok(take(_i, 5000, &block));
    ck_assert_uint_eq(e.count[WARM_MEMORY_ALLOCATED], 1);
    ck_assert_ptr_eq(e.buffer, block);
    ck_assert_uint_eq(e.bytes, 5000);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(e.count[WARM_MEMORY_FREED], 1);
    ck_assert_ptr_eq(e.buffer, block);
    ck_assert_uint_eq(e.bytes, 5000);
    wt_ok(take(_i, 5001, &again));
    ck_assert_ptr_eq(again, block);
    ck_assert_uint_eq(e.count[WARM_MEMORY_RECYCLED], 1);
    ck_assert_uint_eq(e.count[WARM_MEMORY_ALLOCATED], 1);
    ck_assert_uint_eq(e.bytes, 5001);
    wt_ok(warm_free(again));
    ck_assert_uint_eq(e.count[WARM_MEMORY_RELEASED], 0);
    give_all_back();
    ck_assert_uint_eq(e.count[WARM_MEMORY_RELEASED], 1);
    ck_assert_ptr_nonnull(e.buffer);
    ck_assert_uint_ge(e.bytes, 2 * MIB);
    /* Again from the driver: it is new. */
    wt_ok(take(_i, 5000, &block));
    ck_assert_uint_eq(e.count[WARM_MEMORY_ALLOCATED], 2);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(e.count[WARM_MEMORY_FREED], 3);
    ck_assert_uint_eq(e.count[WARM_MEMORY_FAILED], 0);
    wt_says("none"); /* not what callbacks failed at */
}

/* No buffer; what it frees serves the request. One that frees nothing is no
 * reason to try again. */
WT_TEST(test_F9_B12_failed_allocation_has_no_buffer)
{
    static ear e = {.answer = 1}, other = {.answer = 0};
    void *block = NULL;

    wt_ok(warm_pinned_alloc(runtime, 40 * MIB, &e.frees));
    wt_ok(add("other", &other, WARM_MEMORY_FAILED));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 30 * MIB, &block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).retries, 0);
    wt_ok(add("frees", &e, WARM_MEMORY_FAILED));
    wt_ok(warm_pinned_alloc(runtime, 30 * MIB, &block));
    ck_assert_uint_eq(e.count[WARM_MEMORY_FAILED], 1);
    ck_assert_ptr_null(e.buffer);
    ck_assert_uint_eq(e.bytes, 30 * MIB);
    ck_assert_uint_eq(other.count[WARM_MEMORY_FAILED], 2);
    wt_free(block);
}

static uint64_t failures(int space)
{
    warm_space_stats s = WARM_INIT(warm_space_stats);

    if (space == 1) {
        return wt_device_stats(runtime).failures;
    }
    wt_ok(space == 0
              ? warm_pinned_get_stats(runtime, &s)
              : warm_shared_get_stats(runtime, 0, WARM_USAGE_SHARED, &s));
    return s.failures;
}

/* However large it is: as every request that is refused. */
WT_LOOP_TEST(test_C2_C6_F9_request_beyond_every_machine_is_refused_as_others, 6)
{
    static ear e;
    size_t bytes = _i < 3 ? ((size_t)1 << 46) + 1 : SIZE_MAX;
    void *block = NULL;
    int space = _i % 3;

    e = (ear){.answer = 1};
    wt_ok(add("all", &e, WARM_MEMORY_FAILED));
    wt_fails(WARM_OUT_OF_MEMORY, take(space, bytes, &block));
    wt_says(_i < 3 ? "requested 64.0 TiB" : "requested 16777216.0 TiB", "held ",
            "live ", "idle ", "limit ", "no machine has more than 64.0 TiB");
    ck_assert_ptr_null(block);
    ck_assert_uint_eq(failures(space), 1);
    ck_assert_uint_eq(e.count[WARM_MEMORY_FAILED], 1);
    ck_assert_ptr_null(e.buffer);
    ck_assert_uint_eq(e.bytes, bytes);
    if (space == 0) {
        wt_fails(WARM_OUT_OF_MEMORY,
                 warm_pinned_alloc_aligned(runtime, bytes, 4096, 0, &block));
        ck_assert_uint_eq(failures(space), 2);
    }
    if (_i < 3) { /* the largest that is looked for */
        wt_fails(WARM_OUT_OF_MEMORY, take(space, bytes - 1, &block));
        ck_assert_ptr_null(strstr(warm_last_error_message(), "no machine"));
    }
}

/* Much is idle, and no piece of it is large enough. */
WT_TEST(test_C2_error_says_the_largest_idle_piece)
{
    void *block[16], *refused = NULL;

    wt_ok(warm_watermarks_set(runtime, 0, 16 * MIB, 0));
    for (int i = 0; i < 16; i++) {
        wt_ok(warm_device_alloc(runtime, 0, stream, MIB, &block[i]));
    }
    for (int i = 0; i < 16; i += 2) {
        wt_free(block[i]);
    }
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, 3 * MIB, &refused));
    wt_says("idle 8.0 MiB (in pieces, the largest of 1.0 MiB)");
    for (int i = 1; i < 16; i += 2) {
        wt_free(block[i]);
    }
}

/* Hits of a thread's cache, which it counts for itself. */
WT_TEST(test_C2_error_counts_what_the_thread_has_just_taken)
{
    enum { COUNT = 16, BYTES = 64 << 10 };
    void *block[COUNT], *refused = NULL;

    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < COUNT; i++) {
            block[i] = wt_pinned(runtime, BYTES);
        }
        if (turn == 0) {
            wt_free_all(block, COUNT);
        }
    }
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 80 * MIB, &refused));
    wt_says("live 1.0 MiB, ");
    wt_free_all(block, COUNT);
}

enum { SMALL = 28 }; /* no more than a thread caches */

static int free_small(void *context, warm_memory_event event, void *buffer,
                      size_t bytes)
{
    void **block = context;

    for (int i = 0; i < SMALL && block[i] != NULL; i++) {
        wt_ok(warm_free(block[i]));
        block[i] = NULL;
    }
    return 1;
}

/* The device has no more, and the thread caches what is freed. */
WT_TEST(test_C2_F9_what_a_callback_frees_into_caches_serves)
{
    static void *block[SMALL];
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = "small",
                                     .function = free_small,
                                     .context = block,
                                     .events = WARM_MEMORY_FAILED};
    void *large = NULL;

    if (!wt_on_host()) {
        wt_skip("needs a device with little memory");
    }
    teardown();
    runtime = wt_runtime_with(.host_memory = 8 * MIB, .keep = 1000,
                              .limit_wait_ms = 1);
    stream = wt_stream(runtime, 0);
    wt_ok(warm_memory_callback_add(runtime, &callback));
    for (int i = 0; i < SMALL; i++) {
        wt_ok(warm_device_alloc(runtime, 0, stream, 256 << 10, &block[i]));
    }
    wt_ok(warm_device_alloc(runtime, 0, stream, 3 * MIB, &large));
    ck_assert_ptr_null(block[0]);
    wt_free(large);
}

/* The error says what each rung of the ladder gave. */
WT_TEST(test_B12_C2_F9_error_says_what_each_rung_gave)
{
    static ear e = {.answer = 1};
    void *block = wt_pinned(runtime, 40 * MIB), *refused = NULL;

    e.frees = wt_pinned(runtime, 8 * MIB);
    wt_ok(add("frees", &e, WARM_MEMORY_FAILED));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 50 * MIB, &refused));
    wt_says("requested 50.0 MiB", "gave: callbacks 8.0 MiB idle, 8.0 MiB",
            "gave nothing: caches, frees and segments", "limit of 64.0 MiB");
    wt_free(block);
}

WT_TEST(test_F9_callback_hears_what_it_asked_for)
{
    static ear frees = {.answer = 0}, releases = {.answer = 0};

    wt_ok(add("frees", &frees, WARM_MEMORY_FREED));
    wt_ok(add("releases", &releases, WARM_MEMORY_RELEASED));
    wt_free(wt_pinned(runtime, 5000));
    give_all_back();
    ck_assert_uint_eq(frees.count[WARM_MEMORY_FREED], 1);
    ck_assert_uint_eq(frees.count[WARM_MEMORY_ALLOCATED], 0);
    ck_assert_uint_eq(frees.count[WARM_MEMORY_RELEASED], 0);
    ck_assert_uint_eq(releases.count[WARM_MEMORY_RELEASED], 1);
    ck_assert_uint_eq(releases.count[WARM_MEMORY_FREED], 0);
}

/* It may free, which no callback hears of, and it must not allocate. */
static int free_and_allocate(void *context, warm_memory_event event,
                             void *buffer, size_t bytes)
{
    ear *e = context;
    void *pointer = e;

    (void)buffer;
    (void)bytes;
    e->count[event]++;
    if (e->frees != NULL) {
        wt_ok(warm_free(e->frees));
        e->frees = NULL;
    }
    wt_invalid(warm_pinned_alloc(runtime, 50 * MIB, &pointer));
    wt_says("a memory callback");
    ck_assert_ptr_eq(pointer, e);
    return 0;
}

WT_TEST(test_F9_callback_may_free_and_must_not_allocate)
{
    static ear e = {.frees = NULL};
    warm_memory_callback callback = named("frees", &e, OF_BLOCKS);
    void *block;

    e.frees = wt_pinned(runtime, 3 * MIB);
    callback.function = free_and_allocate;
    wt_ok(warm_memory_callback_add(runtime, &callback));
    block = wt_pinned(runtime, 5000);
    ck_assert_uint_eq(e.count[WARM_MEMORY_RECYCLED], 1); /* of 4 MiB */
    ck_assert_uint_eq(e.count[WARM_MEMORY_FREED], 0);
    ck_assert_ptr_null(e.frees);
    wt_free(block);
    ck_assert_uint_eq(e.count[WARM_MEMORY_FREED], 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

/* ---- names --------------------------------------------------------------- */

WT_CASE("names", .setup = setup, .teardown = teardown);

WT_TEST(test_F9_names_are_unique_until_they_are_removed)
{
    static ear first = {.answer = 0}, second = {.answer = 0};

    wt_ok(add("one", &first, ALL));
    wt_invalid(add("one", &second, ALL));
    wt_says("memory callback 'one' already");
    wt_free(wt_pinned(runtime, 5000));
    ck_assert_uint_eq(second.count[WARM_MEMORY_FREED], 0);
    wt_fails(WARM_NOT_FOUND, warm_memory_callback_remove(runtime, "two"));
    wt_says("no memory callback 'two'");
    wt_ok(warm_memory_callback_remove(runtime, "one"));
    ck_assert_uint_eq(first.done, 1);
    wt_fails(WARM_NOT_FOUND, warm_memory_callback_remove(runtime, "one"));
    wt_ok(add("one", &second, ALL));
    wt_free(wt_pinned(runtime, 5000));
    ck_assert_uint_eq(first.count[WARM_MEMORY_FREED], 1);
    ck_assert_uint_eq(second.count[WARM_MEMORY_FREED], 1);
    ck_assert_uint_eq(second.done, 0);
}

/* Threads still cache blocks of a stream, as they do while every hit is one. */
WT_TEST(test_F9_T7_a_refused_callback_leaves_hits)
{
    static char text[1 << 18];
    static ear first = {.answer = 0}, second = {.answer = 0};
    size_t needed;

    wt_ok(add("one", &first, WARM_MEMORY_RELEASED));
    wt_invalid(add("one", &second, OF_BLOCKS));
    for (int i = 0; i < 4; i++) {
        wt_free(wt_device(runtime, stream, 5000));
    }
    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, &needed));
    wt_contains(text, "\"exact_state\":\"magazine\"");
    ck_assert_uint_eq(second.count[WARM_MEMORY_FREED], 0);
}

WT_TEST(test_F9_bad_callbacks_are_refused)
{
    static char longest[WARM_CALLBACK_NAME], longer[WARM_CALLBACK_NAME + 1];
    static ear e = {.answer = 0};
    warm_memory_callback callback = named("none", &e, ALL);

    memset(longest, 'a', sizeof longest - 1);
    memset(longer, 'b', sizeof longer - 1);
    callback.function = NULL;
    wt_invalid(warm_memory_callback_add(runtime, &callback));
    wt_says("'none': function is null");
    wt_invalid(add(NULL, &e, ALL));
    wt_invalid(add("", &e, ALL));
    wt_invalid(add(longer, &e, ALL));
    wt_says("1 to 47 characters");
    wt_invalid(add("none", &e, 0));
    wt_invalid(add("none", &e, 128));
    wt_says("events 0x80");
    wt_invalid(warm_memory_callback_add(runtime, NULL));
    callback.size = 3;
    wt_invalid(warm_memory_callback_add(runtime, &callback));
    wt_invalid(warm_memory_callback_add(NULL, &callback));
    wt_invalid(warm_memory_callback_remove(runtime, NULL));
    wt_ok(add(longest, &e, ALL));
    wt_ok(warm_memory_callback_remove(runtime, longest));
    ck_assert_uint_eq(e.done, 1);
}

/* Hits are heard from the first callback on that asks for blocks, also those of
 * a thread that had them before; what was cached then is recycled. */
static struct {
    ear e;
    pthread_barrier_t step;
    unsigned wrong[2]; /* of each thread */
} late;

static void hit_before_and_after(void *argument, unsigned index)
{
    (void)argument;
    for (int i = 0; i < 2; i++) {
        for (int space = 0; index == 1 && space < 6; space++) {
            void *block = NULL;

            late.wrong[1] += take(space % 2, 5000, &block) != WARM_OK;
            late.wrong[1] += warm_free(block) != WARM_OK;
        }
        pthread_barrier_wait(&late.step);
        if (index == 0 && i == 0) {
            late.wrong[0] +=
                add("segments", &late.e, WARM_MEMORY_RELEASED) != WARM_OK;
            late.wrong[0] += add("blocks", &late.e, OF_BLOCKS) != WARM_OK;
        }
        pthread_barrier_wait(&late.step);
    }
}

WT_TEST(test_F9_events_of_blocks_are_heard_once_asked_for)
{
    void *block = wt_pinned(runtime, 5000);

    memset(&late, 0, sizeof late);
    pthread_barrier_init(&late.step, NULL, 2);
    wt_threads(2, hit_before_and_after, NULL);
    pthread_barrier_destroy(&late.step);
    ck_assert_uint_eq(late.wrong[0] + late.wrong[1], 0);
    ck_assert_uint_eq(late.e.count[WARM_MEMORY_ALLOCATED], 0);
    ck_assert_uint_eq(late.e.count[WARM_MEMORY_RECYCLED], 6);
    ck_assert_uint_eq(late.e.count[WARM_MEMORY_FREED], 6);
    wt_free(block); /* of before */
    ck_assert_uint_eq(late.e.count[WARM_MEMORY_FREED], 7);
    ck_assert_uint_eq(late.e.count[WARM_MEMORY_RELEASED], 0);
    give_all_back();
    ck_assert_uint_ge(late.e.count[WARM_MEMORY_RELEASED], 1);
}

/* ---- removed while they run ---------------------------------------------- */

static int remove_itself(void *context, warm_memory_event event, void *buffer,
                         size_t bytes)
{
    ear *e = context;

    (void)buffer;
    (void)bytes;
    e->count[event]++;
    wt_ok(warm_memory_callback_remove(runtime, "self"));
    ck_assert_uint_eq(e->done, 0); /* a thread is inside: this one */
    return 0;
}

WT_TEST(test_F9_callback_removes_itself)
{
    static ear e = {.answer = 0}, later = {.answer = 0};
    warm_memory_callback callback = named("self", &e, WARM_MEMORY_FREED);

    callback.function = remove_itself;
    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_ok(add("later", &later, WARM_MEMORY_FREED));
    wt_free(wt_pinned(runtime, 5000));
    ck_assert_uint_eq(e.done, 1);
    wt_free(wt_pinned(runtime, 5000));
    ck_assert_uint_eq(e.count[WARM_MEMORY_FREED], 1);
    ck_assert_uint_eq(later.count[WARM_MEMORY_FREED], 2);
}

/* A thread inside, which the test lets go. */
static struct {
    pthread_barrier_t inside, go;
    _Atomic unsigned done;
    warm_status status;
} slow;

static int be_slow(void *context, warm_memory_event event, void *buffer,
                   size_t bytes)
{
    (void)context;
    (void)event;
    (void)buffer;
    (void)bytes;
    pthread_barrier_wait(&slow.inside);
    pthread_barrier_wait(&slow.go);
    return 0;
}

static void slow_done(void *context)
{
    (void)context;
    atomic_fetch_add(&slow.done, 1);
}

static void *free_slowly(void *block)
{
    slow.status = warm_free(block);
    return NULL;
}

WT_TEST(test_F9_callback_is_removed_while_a_thread_is_inside)
{
    static ear e = {.answer = 0};
    warm_memory_callback callback = named("slow", &e, WARM_MEMORY_FREED);
    void *block = wt_pinned(runtime, 5000);
    pthread_t thread;

    callback.function = be_slow;
    callback.done = slow_done;
    pthread_barrier_init(&slow.inside, NULL, 2);
    pthread_barrier_init(&slow.go, NULL, 2);
    wt_ok(warm_memory_callback_add(runtime, &callback));
    ck_assert_int_eq(pthread_create(&thread, NULL, free_slowly, block), 0);
    pthread_barrier_wait(&slow.inside);
    wt_ok(warm_memory_callback_remove(runtime, "slow")); /* returns at once */
    ck_assert_uint_eq(atomic_load(&slow.done), 0);
    /* Its name is free again, and no thread enters the old one. */
    wt_ok(add("slow", &e, WARM_MEMORY_FREED));
    wt_free(wt_pinned(runtime, 6000));
    ck_assert_uint_eq(e.count[WARM_MEMORY_FREED], 1);
    pthread_barrier_wait(&slow.go);
    pthread_join(thread, NULL);
    wt_ok(slow.status);
    ck_assert_uint_eq(atomic_load(&slow.done), 1);
    pthread_barrier_destroy(&slow.inside);
    pthread_barrier_destroy(&slow.go);
}

/* Threads add, remove, allocate and free at once. */
enum { THREADS = 4, TURNS = 200 };

static struct {
    _Atomic unsigned heard, added, done;
    warm_status status[THREADS];
} storm;

static int count_one(void *context, warm_memory_event event, void *buffer,
                     size_t bytes)
{
    (void)context;
    (void)event;
    (void)buffer;
    (void)bytes;
    atomic_fetch_add(&storm.heard, 1);
    return 0;
}

static void count_done(void *context)
{
    (void)context;
    atomic_fetch_add(&storm.done, 1);
}

static void play_storm(void *argument, unsigned index)
{
    char name[16];
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = name,
                                     .function = count_one,
                                     .done = count_done,
                                     .events = ALL};
    warm_status status = WARM_OK;

    (void)argument;
    /* Hits, but for the first thread, which adds a callback meanwhile. */
    for (unsigned i = 0; index > 0 && i < TURNS && status == WARM_OK; i++) {
        void *block = NULL;

        status = take((int)i % 2, 5000, &block);
        status = status == WARM_OK ? warm_free(block) : status;
    }
    for (unsigned i = 0; i < TURNS && status == WARM_OK; i++) {
        void *block = NULL;

        snprintf(name, sizeof name, "%u", index);
        status = warm_memory_callback_add(runtime, &callback);
        if (status == WARM_OK) {
            atomic_fetch_add(&storm.added, 1);
            status = warm_pinned_alloc(runtime, 5000 + i, &block);
        }
        if (status == WARM_OK) {
            status = warm_free(block);
        }
        if (status == WARM_OK && i % 16 == 0) {
            status = warm_trim(runtime, 0, NULL);
        }
        if (status == WARM_OK) {
            status = warm_memory_callback_remove(runtime, name);
        }
    }
    storm.status[index] = status;
}

WT_TEST(test_F9_callbacks_come_and_go_while_threads_allocate)
{
    wt_threads(THREADS, play_storm, NULL);
    for (int i = 0; i < THREADS; i++) {
        wt_ok(storm.status[i]);
    }
    ck_assert_uint_eq(storm.added, THREADS * TURNS);
    ck_assert_uint_eq(storm.done, storm.added);
    ck_assert_uint_ge(storm.heard, 2 * THREADS * TURNS);
}

/* ---- two devices --------------------------------------------------------- */

WT_CASE("two devices");

/* What a callback frees of the device that is full serves the request. */
WT_TEST(test_F9_callbacks_hear_of_every_device)
{
    static ear e, full;
    void *block = NULL, *first = NULL;
    warm_stream on;

    runtime = wt_two_devices(
        &(warm_options){.size = sizeof(warm_options), .limit_wait_ms = 1});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    e = (ear){.answer = 0};
    full = (ear){.answer = 1};
    on = wt_stream(runtime, 1);
    wt_ok(warm_watermarks_set(runtime, 1, 64 * MIB, 0));
    wt_ok(add("blocks", &e, OF_BLOCKS | WARM_MEMORY_RELEASED));
    wt_ok(warm_device_alloc(runtime, 1, on, 40 * MIB, &first));
    ck_assert_uint_eq(e.count[WARM_MEMORY_ALLOCATED], 1);
    ck_assert_ptr_eq(e.buffer, first);
    ck_assert_int_eq(wt_block_info(e.buffer).device, 1);
    full.frees = first;
    wt_ok(add("full", &full, WARM_MEMORY_FAILED));
    wt_ok(warm_device_alloc(runtime, 1, on, 30 * MIB, &block));
    ck_assert_uint_eq(full.count[WARM_MEMORY_FAILED], 1);
    ck_assert_uint_eq(wt_stats_of_device(runtime, 0).all.held_bytes.peak, 0);
    wt_free(block);
    wt_settle(runtime, on);
    ck_assert_ptr_eq(e.buffer, block);
    e.count[WARM_MEMORY_RELEASED] = 0;
    wt_ok(warm_device_trim(runtime, 1, 0, NULL));
    ck_assert_uint_gt(e.count[WARM_MEMORY_RELEASED], 0);
    wt_stream_end(runtime, on);
    wt_runtime_end(runtime);
}
