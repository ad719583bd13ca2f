/* check_random.c: any call with any arguments, in random order (rows C10, G6):
 * a call that fails says why and writes nothing, freed objects are refused, and
 * in the end the runtime reports exactly what was not freed. */
/* memcheck: one process */
#include "wt.h"
#include "wt_kind.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = 8, STEPS = 20000, DEVICES = 2 };

struct block {
    char *pointer;
    size_t bytes;
    unsigned char seal; /* first and last byte, while no work is queued */
    bool used;          /* by a copy: its content is not ours to check */
};

struct walk {
    warm_runtime *runtime;
    uint64_t random;
    int devices;
    struct block blocks[SLOTS];
    warm_stream streams[SLOTS];
    warm_event events[SLOTS];
    warm_graph graphs[SLOTS];
    warm_lease leases[SLOTS];
    void *memory[DEVICES]; /* of each device, MEMORY bytes */
    bool wary;
    bool holds;    /* else driver calls fail: a free after a failed record waits
                      for the stream, and must not wait for a held one */
    unsigned held; /* one bit for each of streams */
    unsigned failures;
};
enum { MEMORY = 1 << 16 };

static unsigned below(struct walk *w, unsigned bound)
{
    return (unsigned)(wt_random(&w->random) >> 33) % bound;
}

/* A value of slots, which are SLOTS pointers of any type, most often; else what
 * nobody should pass. A real CUDA does not find out what is no stream, and
 * crashes. */
static void *odd(struct walk *w, const void *slots)
{
    static char ours[64];
    void *value;
    void *const odds[] = {
        NULL,
        (void *)1,
        (void *)2,
        (void *)3,
        ours,
        ours + 1,
        (void *)UINTPTR_MAX,
        w->events,
        w->memory[0],
        w->runtime,
        w->blocks[0].pointer,
        w->streams[0],
        w->events[0],
        w->graphs[0],
    };

    if (!w->wary && below(w, 8) == 0) {
        return odds[below(w, sizeof odds / sizeof odds[0])];
    }
    memcpy(&value, (const char *)slots + below(w, SLOTS) * sizeof value,
           sizeof value);
    return value;
}

static warm_stream a_stream(struct walk *w)
{
    return odd(w, w->streams);
}

static int a_device(struct walk *w)
{
    static const int odds[] = {-1, DEVICES, INT_MAX, INT_MIN};

    return below(w, 10) != 0 ? (int)below(w, (unsigned)w->devices)
                             : odds[below(w, 4)];
}

static size_t a_size(struct walk *w)
{
    static const size_t odds[] = {
        0, 1, SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2 + 1, (size_t)1 << 47};

    return below(w, 10) != 0 ? (size_t)1 << below(w, 18) : odds[below(w, 6)];
}

/* Inside a block, at its start, or at nothing of ours. */
static char *a_pointer(struct walk *w)
{
    const struct block *b = &w->blocks[below(w, SLOTS)];

    switch (below(w, 6)) {
    case 0:
        return odd(w, w->streams);
    case 1:
        return w->memory[below(w, (unsigned)w->devices)];
    case 2:
        return b->pointer != NULL ? b->pointer + below(w, (unsigned)b->bytes)
                                  : NULL;
    default:
        return b->pointer;
    }
}

/* A failure has a text of its own, and only known statuses come back. */
static bool good(struct walk *w, warm_status status)
{
    warm_error error = WARM_INIT(warm_error);

    if (status == WARM_OK || status == WARM_NOT_READY) {
        return status == WARM_OK;
    }
    w->failures++;
    warm_last_error(&error);
    wt_require(error.status == status, "%s, but last error is %s: %s",
               warm_status_name(status), warm_status_name(error.status),
               error.message);
    wt_require(strlen(error.message) > 5, "no text for %s",
               warm_status_name(status));
    wt_require(status != WARM_RUNTIME_GONE && status != WARM_FORKED &&
                   status != WARM_EXITING,
               "%s: %s", warm_status_name(status), error.message);
    return false;
}

static void alloc(struct walk *w)
{
    struct block *b = &w->blocks[below(w, SLOTS)];
    size_t bytes = a_size(w);
    void *pointer = w;

    if (b->pointer != NULL) {
        return;
    }
    if (!good(w, warm_pinned_alloc(w->runtime, bytes, &pointer))) {
        wt_require(pointer == w, "written on failure");
    } else if (bytes == 0) {
        wt_require(pointer == NULL, "no null for 0 bytes");
    } else {
        *b =
            (struct block){pointer, bytes, (unsigned char)below(w, 256), false};
        b->pointer[0] = (char)b->seal;
        b->pointer[bytes - 1] = (char)b->seal;
    }
}

static void free_block(struct walk *w)
{
    struct block *b = &w->blocks[below(w, SLOTS)];

    if (b->pointer == NULL) {
        return;
    }
    wt_require(b->used || ((unsigned char)b->pointer[0] == b->seal &&
                           (unsigned char)b->pointer[b->bytes - 1] == b->seal),
               "a live block was written to");
    wt_ok(warm_free(b->pointer));
    wt_fails(WARM_INVALID_POINTER, warm_free(b->pointer));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(b->pointer, NULL));
    b->pointer = NULL;
}

/* A free of what is not the start of a live block changes nothing. */
static void free_odd(struct walk *w)
{
    char *pointer = a_pointer(w);

    for (int i = 0; i < SLOTS; i++) {
        if (pointer == NULL || w->blocks[i].pointer == pointer) {
            return;
        }
    }
    wt_fails(WARM_INVALID_POINTER, warm_free(pointer));
}

static void info(struct walk *w)
{
    const struct block *b = &w->blocks[below(w, SLOTS)];
    warm_block_info i = WARM_INIT(warm_block_info);

    (void)good(w, warm_block_get_info(a_pointer(w), &i));
    if (b->pointer != NULL) {
        i = wt_block_info(b->pointer + below(w, (unsigned)b->bytes));
        wt_require(i.base == b->pointer && i.requested == b->bytes &&
                       i.bytes >= b->bytes && i.runtime == w->runtime,
                   "wrong block");
    }
}

static void copy(struct walk *w)
{
    char *from = a_pointer(w);
    char *to = a_pointer(w);
    /* Copies of one block on two streams race, as the program's own fault. */
    size_t bytes = below(w, WT_TSAN ? 1 : 512);
    warm_copy_direction direction = (warm_copy_direction)below(w, 4);
    unsigned from_end = 0;

    /* Only what is ours to copy: the library cannot know other memory. Nothing
     * orders the copies of several streams: the test races there, and only
     * ThreadSanitizer minds. */
    for (int i = 0; i < SLOTS; i++) {
        struct block *b = &w->blocks[i];

        if (b->pointer != NULL && to >= b->pointer &&
            to < b->pointer + b->bytes) {
            from_end |= 1;
            b->used = true;
        }
        if (b->pointer != NULL && from >= b->pointer &&
            from < b->pointer + b->bytes) {
            from_end |= 2;
        }
    }
    if (from_end == 3 || from == NULL || to == NULL) {
        (void)good(w, warm_copy_async(w->runtime, to, from, bytes, direction,
                                      WT_TSAN ? NULL : a_stream(w)));
    }
}

static void stream(struct walk *w)
{
    unsigned i = below(w, SLOTS);
    warm_stream made = w;

    if (w->streams[i] == NULL) {
        if (good(w, warm_stream_create(w->runtime, a_device(w), &made))) {
            w->streams[i] = made;
        } else {
            wt_require(made == w, "written on failure");
        }
    } else if (below(w, 8) == 0) {
        (void)good(w, warm_testing_resume(w->runtime, w->streams[i]));
        w->held &= ~(1u << i);
        (void)good(w, warm_stream_destroy(w->runtime, w->streams[i]));
        w->streams[i] = NULL;
    }
}

static void event(struct walk *w)
{
    unsigned i = below(w, SLOTS);
    warm_event unset = (warm_event)w, made = unset;

    if (w->events[i] == NULL) {
        if (good(w, warm_event_create(w->runtime, a_device(w), &made))) {
            w->events[i] = made;
        } else {
            wt_require(made == unset, "written on failure");
        }
    } else if (below(w, 8) == 0) {
        (void)good(w, warm_event_destroy(w->runtime, w->events[i]));
        w->events[i] = NULL;
    }
}

static void hold(struct walk *w)
{
    unsigned i = below(w, SLOTS);

    if (!w->holds || w->streams[i] == NULL) {
        return;
    }
    if ((w->held >> i & 1) == 0) {
        (void)good(w, warm_testing_hold(w->runtime, w->streams[i]));
    } else {
        (void)good(w, warm_testing_resume(w->runtime, w->streams[i]));
    }
    w->held ^= 1u << i;
}

static void capture(struct walk *w)
{
    unsigned i = below(w, SLOTS);
    warm_graph unset = (warm_graph)w, graph = unset;

    if (below(w, 4) == 0) {
        (void)good(w, warm_capture_begin(w->runtime, a_stream(w)));
    } else if (w->graphs[i] != NULL) {
        (void)good(w, warm_graph_destroy(w->runtime, w->graphs[i]));
        w->graphs[i] = NULL;
    } else if (good(w, warm_capture_end(w->runtime, a_stream(w), &graph))) {
        w->graphs[i] = graph;
    } else {
        wt_require(graph == unset, "written on failure");
    }
}

static void handle(struct walk *w)
{
    void *got = w;
    warm_status status;

    if (below(w, 3) == 0) {
        status = warm_handle_reserve_on(w->runtime, (int)below(w, 12) - 2,
                                        a_device(w), a_stream(w), &got);
    } else {
        status = warm_handle_reserve(w->runtime, (int)below(w, 12) - 2,
                                     a_device(w), &got);
    }
    wt_require(good(w, status) != (got == w), "written on failure only");
    if (below(w, 20) == 0) {
        wt_ok(warm_thread_release(w->runtime));
    }
}

/* Leases; what the slots hold is still lent, or zero. */
static void lend(struct walk *w)
{
    warm_lease *slot = &w->leases[below(w, SLOTS)];
    warm_lease lease = {0};
    void *got = w;
    warm_status status;

    switch (below(w, 6)) {
    case 0:
        wt_invalid(warm_handle_return(w->runtime,
                                      (warm_lease){wt_random(&w->random)}));
        break;
    case 1:
        (void)good(w, warm_handle_trim(w->runtime, (int)below(w, 12) - 2,
                                       a_device(w), below(w, 3), 0, NULL));
        break;
    case 2:
        (void)good(w, warm_handle_prewarm(w->runtime, (int)below(w, 12) - 2,
                                          a_device(w), below(w, 4), 0));
        break;
    default:
        if (slot->number != 0) {
            wt_ok(warm_handle_return(w->runtime, *slot));
            wt_invalid(warm_handle_return(w->runtime, *slot));
            *slot = (warm_lease){0};
            break;
        }
        status =
            below(w, 2) == 0
                ? warm_handle_lease_on(w->runtime, (int)below(w, 12) - 2,
                                       a_device(w), a_stream(w), &lease, &got)
                : warm_handle_lease(w->runtime, (int)below(w, 12) - 2,
                                    a_device(w), &lease, &got);
        wt_require(good(w, status) != (got == w), "written on failure only");
        *slot = lease;
        break;
    }
}

/* Calls that take a stream and an event, and change nothing of the model. */
static void queue(struct walk *w)
{
    warm_stream s = a_stream(w);
    warm_event e = odd(w, w->events);

    switch (below(w, 7)) {
    case 0:
        (void)good(w, warm_event_record(w->runtime, e, s));
        break;
    case 1:
        (void)good(w, warm_event_query(w->runtime, e));
        break;
    case 2:
        (void)good(w, warm_stream_wait_event(w->runtime, s, e));
        break;
    case 3:
        (void)good(w, warm_stream_query(w->runtime, s));
        break;
    case 4:
        (void)good(w, warm_graph_launch(w->runtime, odd(w, w->graphs), s));
        break;
    case 5:
        (void)good(w, warm_record_stream(a_pointer(w), s));
        break;
    default:
        (void)good(w, warm_stream_retire(w->runtime, s));
        break;
    }
}

static void cache(struct walk *w)
{
    size_t released = 0;

    switch (below(w, 4)) {
    case 0:
        (void)good(w, warm_poll(w->runtime));
        break;
    case 1:
        (void)good(w, warm_pinned_trim(w->runtime, a_size(w), &released));
        break;
    case 2:
        wt_ok(warm_pinned_reset_peaks(w->runtime));
        break;
    default:
        wt_ok(warm_pinned_reset_totals(w->runtime));
        break;
    }
}

/* Every tenth call or so of the driver may fail, now and then. */
static void fault(struct walk *w)
{
    const char *name = warm_testing_call_name((int)below(w, 40));

    if (!w->holds && name != NULL && below(w, 8) == 0) {
        wt_ok(warm_testing_fail(w->runtime, name, below(w, 3), 0));
    }
}

static void figures(struct walk *w)
{
    warm_space_stats s;
    uint64_t blocks = 0, bytes = 0;

    for (int i = 0; i < SLOTS; i++) {
        blocks += w->blocks[i].pointer != NULL;
        bytes += w->blocks[i].pointer != NULL ? w->blocks[i].bytes : 0;
    }
    s = wt_pinned_stats(w->runtime);
    wt_require(s.live.current == blocks, "wrong number of blocks");
    wt_require(s.requested_bytes.current == bytes, "wrong number of bytes");
    wt_require(s.live.peak >= blocks &&
                   s.live.allocated - s.live.freed == blocks,
               "sums do not hold");
}

static void walk_for(struct walk *w, unsigned steps)
{
    static void (*const calls[])(struct walk *) = {
        alloc,  alloc, free_block, free_odd, info,    copy,
        stream, event, hold,       capture,  handle,  lend,
        queue,  queue, cache,      fault,    figures,
    };

    while (steps-- > 0) {
        calls[below(w, sizeof calls / sizeof calls[0])](w);
    }
}

/* No fault any more, every stream runs, every capture is over. */
static void come_to_rest(struct walk *w)
{
    for (int i = 0; warm_testing_call_name(i) != NULL; i++) {
        wt_ok(warm_testing_fail(w->runtime, warm_testing_call_name(i), 0, 0));
    }
    for (int i = 0; i < SLOTS; i++) {
        if (w->leases[i].number != 0) {
            wt_ok(warm_handle_return(w->runtime, w->leases[i]));
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        warm_graph graph = NULL;

        if ((w->held >> i & 1) != 0) {
            wt_ok(warm_testing_resume(w->runtime, w->streams[i]));
        }
        if (w->streams[i] != NULL) {
            (void)warm_capture_end(w->runtime, w->streams[i], &graph);
            (void)warm_graph_destroy(w->runtime, graph);
        }
    }
}

WT_CASE("walk", .timeout = 0);

WT_LOOP_TEST(test_C10_G6_any_call_with_any_arguments, 8)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .pinned_high = (uint64_t)16 << 20,
                            .log = "none"};
    struct walk w = {.random = wt_seed() + (uint64_t)_i,
                     .wary = strcmp(wt_backend(), "gpu") == 0,
                     .holds = wt_on_host() && _i % 2 == 1};
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    uint64_t blocks = 0;

    options.host_devices = DEVICES;
    w.runtime = wt_runtime(&options);
    wt_ok(warm_device_count(w.runtime, &w.devices));
    w.devices = w.devices < DEVICES ? w.devices : DEVICES;
    for (int i = 0; i < w.devices; i++) {
        wt_ok(warm_device_alloc_uncached(w.runtime, i, MEMORY, &w.memory[i]));
    }
    walk_for(&w, wt_scaled(STEPS));
    come_to_rest(&w);
    figures(&w);
    for (int i = 0; i < SLOTS; i++) {
        blocks += w.blocks[i].pointer != NULL;
    }
    wt_require(w.failures > 0, "nothing has failed");
    wt_ok(warm_runtime_destroy(w.runtime, &report));
    ck_assert_uint_eq(report.handles, 0);
    ck_assert_uint_eq(report.live, blocks);
}
