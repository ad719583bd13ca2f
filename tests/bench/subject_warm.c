/* subject_warm.c: the library itself, on the bench driver, on the host device
 * and on the CUDA driver; and page-locking every request on the last two.
 *
 * A thread's own stream is a pooled one (adopted from birth); the numbered
 * ones are the program's own (warm_stream_create). Those of a replay are made
 * when they are met: by the driver, so that the library does not know them, if
 * they were not adopted. Threads of a replay take turns. */
#include "tests/bench/bench_driver.h"
#include "tests/bench/event.h"
#include "tests/bench/runtime_on.h"
#include "tests/bench/steps.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/meta.h"
#include "runtime/runtime.h"
#include "warmpool/shared.h"

#include <stdlib.h>
#include <string.h>

static struct {
    warm_runtime *runtime;    /* const after open */
    wm_driver *driver;        /* const after open */
    warm_stream *stream;      /* const after open: numbered from 1 */
    bool *made;               /* replay: by the library, not by the driver */
    warm_private_pool *pool;  /* replay: numbers, from 1; 0: none yet */
    unsigned pools;           /* replay: room for them */
    const bench_setup *setup; /* const after open */
    bool replay;              /* const after open */
    bool device;              /* const after open: its memory, not the host's */
} on;

static _Thread_local warm_stream own_stream;

static bool say(const char *what, warm_status status)
{
    fprintf(stderr, "bench: %s: %s: %s\n", what, warm_status_name(status),
            warm_last_error_message());
    return false;
}

warm_runtime *bench_runtime(const bench_setup *setup, const char *device)
{
    warm_options options = {.size = sizeof options,
                            .device = device,
                            .host_devices = setup->devices};
    warm_runtime *runtime = NULL;
    wm_driver *driver = NULL;
    warm_status status = WARM_OUT_OF_MEMORY;

    if (device == NULL) {
        bench_event_clock(setup->clock);
        bench_event_price(setup->record_ns, setup->query_ns, setup->lag,
                          setup->aging != 0);
        driver =
            bench_driver_open(setup->devices > 0 ? (int)setup->devices : 1);
    }
    if (device != NULL || driver != NULL) {
        status = wm_runtime_create_on(driver, &options, &runtime);
    }
    if (status != WARM_OK) {
        say("no runtime", status);
    }
    return runtime;
}

static bool open_streams(const bench_setup *setup)
{
    on.stream = calloc(setup->size + 1, sizeof *on.stream);
    on.made = calloc(setup->size + 1, sizeof *on.made);
    on.setup = setup;
    if (on.stream == NULL || on.made == NULL) {
        return false;
    }
    if (on.replay && setup->legacy != 0) {
        on.stream[setup->legacy] = WARM_STREAM_LEGACY;
    }
    for (unsigned i = 1; !on.replay && i <= setup->size; i++) {
        warm_status status =
            strcmp(setup->work, "foreign") == 0
                ? wm_driver_stream_create(on.driver, 0, &on.stream[i])
                : warm_stream_create(on.runtime, 0, &on.stream[i]);

        if (status != WARM_OK) {
            return say("no stream", status);
        }
    }
    return true;
}

static bool open_on(const bench_setup *setup, const char *device)
{
    on.device = strcmp(setup->subject, "warmpool-device") == 0;
    on.runtime = bench_runtime(setup, device);
    if (on.runtime == NULL) {
        return false;
    }
    on.driver = on.runtime->driver;
    on.replay = strcmp(setup->work, "replay") == 0;
    return (!on.replay && setup->size == 0) ||
           strcmp(setup->work, "live") == 0 || open_streams(setup);
}

static bool warm_open(const bench_setup *setup)
{
    return open_on(setup, NULL);
}

static bool host_open(const bench_setup *setup)
{
    return open_on(setup, "host");
}

static bool cuda_open(const bench_setup *setup)
{
    return open_on(setup, "cuda");
}

static void enter(void)
{
    warm_status status = WARM_OK;

    if (!on.replay) {
        status = warm_stream_reserve(on.runtime, 0, &own_stream);
    }
    if (status != WARM_OK) {
        say("no stream", status);
        exit(1);
    }
}

static void *warm_alloc(size_t bytes)
{
    void *pointer = NULL;
    warm_status status = warm_pinned_alloc(on.runtime, bytes, &pointer);

    if (__builtin_expect(status != WARM_OK, 0)) {
        say("no memory", status);
        exit(1);
    }
    return pointer;
}

static void warm_free_sized(void *pointer, size_t bytes)
{
    if (__builtin_expect(warm_free(pointer) != WARM_OK, 0)) {
        say("free", WARM_INVALID_POINTER);
        exit(1);
    }
}

static void must(const char *what, warm_status status)
{
    if (status != WARM_OK) {
        say(what, status);
        exit(1);
    }
}

static void retire(unsigned stream)
{
    warm_stream gone = on.stream[stream];

    on.stream[stream] = NULL;
    if (gone != NULL && on.made[stream]) {
        must("stream", warm_stream_destroy(on.runtime, gone));
    } else if (gone != NULL) {
        must("stream", warm_stream_retire(on.runtime, gone));
        must("stream", wm_driver_stream_destroy(on.driver, gone));
    }
}

static int device_of(unsigned stream)
{
    return on.setup->device_of != NULL ? on.setup->device_of[stream] : 0;
}

static void warm_adopt_retire(unsigned stream, bool adopt)
{
    if (!adopt) {
        retire(stream);
    } else if (on.stream[stream] == NULL) {
        on.made[stream] = true;
        must("stream", warm_stream_create(on.runtime, device_of(stream),
                                          &on.stream[stream]));
    } else {
        must("stream", warm_stream_adopt(on.runtime, on.stream[stream]));
    }
}

/* A numbered stream. One of a replay that is met for the first time, and was
 * not adopted, is the driver's. */
static warm_stream numbered(unsigned stream)
{
    if (on.replay && on.stream[stream] == NULL) {
        on.made[stream] = false;
        must("stream", wm_driver_stream_create(on.driver, device_of(stream),
                                               &on.stream[stream]));
    }
    return on.stream[stream];
}

static void warm_record(void *pointer, unsigned stream)
{
    warm_status status = warm_record_stream(
        pointer, stream == 0 ? own_stream : numbered(stream));

    if (__builtin_expect(status != WARM_OK, 0)) {
        say("record", status);
        exit(1);
    }
}

/* The host device's streams run by themselves. */
static void bench_record(void *pointer, unsigned stream)
{
    warm_record(pointer, stream);
    bench_driver_use(on.driver, stream == 0 ? own_stream : on.stream[stream]);
}

/* ---- what a replay has besides ----------------------------------------- */

/* A buffer of the shared space. */
static void *shared_buffer(const bench_where *place, size_t bytes)
{
    static const char value[WARM_SCALAR_MAX];
    void *pointer = NULL;

    must("no memory", place->sort == BENCH_SCALAR
                          ? warm_shared_alloc_scalar(on.runtime, place->device,
                                                     value, bytes, &pointer)
                          : warm_shared_alloc(on.runtime, place->device, bytes,
                                              place->sort == BENCH_PRIVATE
                                                  ? WARM_USAGE_PRIVATE
                                                  : WARM_USAGE_SHARED,
                                              &pointer));
    return pointer;
}

static void *place_in(const bench_where *place, size_t bytes)
{
    void *pointer = NULL;

    if (place->sort >= BENCH_PRIVATE) {
        return shared_buffer(place, bytes);
    }

    must("no memory",
         place->device >= 0
             ? warm_device_alloc(on.runtime, place->device,
                                 numbered(place->stream), bytes, &pointer)
             : warm_pinned_alloc_on(
                   on.runtime, bytes, WARM_NODE_ANY,
                   place->pageable ? WARM_ALLOC_PAGEABLE_OK : 0, &pointer));
    return pointer;
}

static warm_private_pool *pool_slot(unsigned pool)
{
    if (pool >= on.pools) {
        unsigned more = 2 * pool + 8;

        on.pool = realloc(on.pool, more * sizeof *on.pool);
        if (on.pool == NULL) {
            must("private pool", WARM_OUT_OF_MEMORY);
        }
        memset(on.pool + on.pools, 0, (more - on.pools) * sizeof *on.pool);
        on.pools = more;
    }
    return &on.pool[pool];
}

/* It records for this allocation alone: nobody knows its filter any more. The
 * first reference is the pool's until its end. */
static void *place_in_pool(const bench_where *place, size_t bytes)
{
    warm_private_pool *pool = pool_slot(place->pool);
    bool is_new = pool->number == 0;
    void *pointer;

    must("private pool",
         warm_private_pool_begin(on.runtime, pool,
                                 place->user ? WARM_POOL_USER : 0, NULL, NULL));
    pointer = place_in(place, bytes);
    must("private pool", warm_private_pool_end(on.runtime, *pool));
    if (!is_new) {
        must("private pool", warm_private_pool_release(on.runtime, *pool));
    }
    return pointer;
}

static void warm_pool_end(unsigned pool)
{
    warm_private_pool *slot = pool_slot(pool);

    if (slot->number != 0) {
        must("private pool", warm_private_pool_release(on.runtime, *slot));
        *slot = (warm_private_pool){0};
    }
}

static void *warm_place(const bench_where *place, size_t bytes)
{
    return place->pool != 0 ? place_in_pool(place, bytes)
                            : place_in(place, bytes);
}

/* What is allocated on a stream is used there. */
static void *bench_placed(const bench_where *place, size_t bytes)
{
    void *pointer = warm_place(place, bytes);

    if (place->sort == BENCH_DEVICE_MEMORY) {
        bench_driver_use(on.driver, on.stream[place->stream]);
    }
    return pointer;
}

struct wm_arena *bench_arena(void)
{
    return on.device ? on.runtime->device_spaces[0].space.group.arenas
                     : on.runtime->pinned->space.group.arenas;
}

static void warm_counts(bench_counts *counts)
{
    warm_space_stats stats = {.size = sizeof stats};

    *counts = (bench_counts){.metadata = (uint64_t)wm_meta_live_bytes()};
    for (int i = 0; i < WM_CALLS; i++) {
        uint64_t count = 0;

        (void)warm_testing_calls(on.runtime, warm_testing_call_name(i), &count);
        if (i == WM_CALL_event_record || i == WM_CALL_event_mark) {
            counts->records += count;
        } else if (i == WM_CALL_event_query || i == WM_CALL_event_passed ||
                   i == WM_CALL_stream_passed) {
            counts->queries += count;
        } else {
            counts->others += count;
        }
        counts->waits += i == WM_CALL_stream_wait_event ? count : 0;
        counts->obtains += i == WM_CALL_pinned_alloc ||
                                   i == WM_CALL_device_alloc ||
                                   i == WM_CALL_range_commit
                               ? count
                               : 0;
    }
    (void)warm_pinned_get_stats(on.runtime, &stats);
    counts->peak = stats.held_bytes.peak;
    for (int i = 0; i < on.runtime->devices; i++) {
        warm_device_stats device = {.size = sizeof device};

        (void)warm_device_get_stats(on.runtime, i, &device);
        counts->peak += device.all.held_bytes.peak;
    }
    if (strcmp(warm_runtime_driver(on.runtime), "bench") == 0) {
        counts->peak = bench_driver_peak(on.driver);
        counts->delayed = bench_driver_delayed(on.driver);
    }
}

#define WARM_SUBJECT(label, on_device, opens, allocates, records, places)      \
    {                                                                          \
        .name = (label), .device = (on_device), .open = (opens),               \
        .enter = enter, .alloc = (allocates), .free = warm_free_sized,         \
        .record = (records), .stream = warm_adopt_retire, .place = (places),   \
        .pool_end = warm_pool_end, .counts = warm_counts                       \
    }

const bench_subject bench_warmpool = WARM_SUBJECT(
    "warmpool", false, warm_open, warm_alloc, bench_record, bench_placed);

const bench_subject bench_host = WARM_SUBJECT(
    "warmpool-host", false, host_open, warm_alloc, warm_record, warm_place);

const bench_subject bench_cuda =
    WARM_SUBJECT("cuda", false, cuda_open, warm_alloc, warm_record, warm_place);

/* ---- memory of a device ------------------------------------------------ */

static void *device_alloc(size_t bytes)
{
    void *pointer = NULL;
    warm_status status =
        warm_device_alloc(on.runtime, 0, own_stream, bytes, &pointer);

    if (__builtin_expect(status != WARM_OK, 0)) {
        say("no memory", status);
        exit(1);
    }
    return pointer;
}

const bench_subject bench_on_device =
    WARM_SUBJECT("warmpool-device", true, warm_open, device_alloc, bench_record,
                 bench_placed);

/* ---- page-locking every request ---------------------------------------- */

/* On the host device: it maps, touches and locks, as cudaHostAlloc does. */
static void *raw_alloc(size_t bytes)
{
    void *pointer = NULL;
    warm_status status = wm_driver_pinned_alloc(on.driver, bytes, &pointer);

    if (status != WARM_OK) {
        say("no memory", status);
        exit(1);
    }
    return pointer;
}

static void raw_free(void *pointer, size_t bytes)
{
    wm_driver_break_begin(); /* nothing is captured here */
    (void)wm_driver_pinned_free(on.driver, pointer, bytes);
    wm_driver_break_end();
}

const bench_subject bench_raw = {.name = "per-request",
                                 .open = host_open,
                                 .alloc = raw_alloc,
                                 .free = raw_free};

const bench_subject bench_raw_cuda = {.name = "cuda-request",
                                      .open = cuda_open,
                                      .alloc = raw_alloc,
                                      .free = raw_free};
