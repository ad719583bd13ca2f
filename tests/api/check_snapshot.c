/* check_snapshot.c: snapshots and the history through public headers (row C7),
 * on every backend. */
/* memcheck: one process */
#include "wt.h"
#include "wt_json.h"
#include "wt_viz.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream first, second;
static json_t *text; /* the last one read, ends what was found in others */

static void begin(warm_options options)
{
    options.size = sizeof options;
    options.segment = 2 * MIB;
    runtime = wt_runtime(&options);
    first = wt_stream(runtime, 0);
    second = wt_stream(runtime, 0);
}

static void setup(void)
{
    begin((warm_options){0});
}

static void setup_history(void)
{
    begin((warm_options){.history = 1000});
}

static void setup_frames(void)
{
    begin((warm_options){.history = 1000, .history_frames = 12});
}

static void setup_short(void)
{
    begin((warm_options){.history = 4});
}

static void setup_nodes(void)
{
    begin((warm_options){.history = 1000, .test = "numa_nodes=2"});
}

static void teardown(void)
{
    json_decref(text);
    text = NULL;
    wt_stream_end(runtime, first);
    wt_stream_end(runtime, second);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

/* ---- memory -------------------------------------------------------------- */

static void *take(size_t bytes)
{
    return wt_device(runtime, first, bytes);
}

static void *pin(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

/* ---- texts ------------------------------------------------------------- */

/* Places: the device, page-locked memory of nodes 0 and 1, pageable memory. */
enum which { DEVICE, PINNED, NODE_1, PAGEABLE };

/* With room for a few digits more: time goes on. */
static const json_t *read_text(void)
{
    size_t needed = 0;
    char *written;

    wt_ok(warm_snapshot_viz(runtime, NULL, 0, &needed));
    needed += needed / 8 + 64;
    written = malloc(needed);
    ck_assert_ptr_nonnull(written);
    wt_ok(warm_snapshot_viz(runtime, written, needed, NULL));
    json_decref(text);
    text = wt_json_read(written);
    ck_assert_msg(text != NULL, "not JSON: %s", written);
    free(written);
    return text;
}

/* For messages of tests that fail: nobody frees it. */
static const char *shown(const json_t *json)
{
    return json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
}

static const json_t *get(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    ck_assert_msg(value != NULL, "no %s in %s", name, shown(object));
    return value;
}

static uint64_t number(const json_t *object, const char *name)
{
    return wt_json_number(get(object, name));
}

/* The number of the first device that has memory, or events: device 0, unless
 * `make check-others` moves it. */
static size_t place_of_device(size_t devices)
{
    const json_t *s = json_array_get(get(text, "segments"), 0);
    size_t place = s != NULL ? number(s, "device") : devices;

    for (size_t i = 0; i < devices && place >= devices; i++) {
        if (json_array_size(json_array_get(get(text, "device_traces"), i)) >
            0) {
            place = i;
        }
    }
    return place < devices ? place : 0;
}

static size_t place_of(enum which which)
{
    int devices = 0, nodes = 0;

    wt_ok(warm_device_count(runtime, &devices));
    wt_ok(warm_node_count(runtime, &nodes));
    return which == DEVICE     ? place_of_device((size_t)devices)
           : which == PAGEABLE ? (size_t)(devices + nodes)
                               : (size_t)devices + which - PINNED;
}

/* A segment of the place in the last text, from index *at on; null: none. */
static const json_t *next_segment(enum which which, size_t *at)
{
    const json_t *segments = get(text, "segments"), *s;

    do {
        s = json_array_get(segments, (*at)++);
    } while (s != NULL && number(s, "device") != place_of(which));
    return s;
}

static const json_t *first_segment(enum which which)
{
    return next_segment(which, &(size_t){0});
}

static const json_t *found_in; /* the segment of the block found last */

/* The block at an address in the last text, or null. */
static const json_t *find_block(enum which which, const void *address)
{
    const json_t *s, *b;
    size_t at = 0, k;

    while ((s = next_segment(which, &at)) != NULL) {
        json_array_foreach (get(s, "blocks"), k, b) {
            if (number(b, "address") == (uintptr_t)address) {
                found_in = s;
                return b;
            }
        }
    }
    return NULL;
}

static const json_t *block_of(enum which which, const void *address)
{
    (void)read_text();
    return find_block(which, address);
}

static uint64_t pool_found(void)
{
    return wt_json_number(wt_json_at(found_in, "segment_pool_id.1"));
}

static bool is_tagged(const json_t *origin, const char *tag)
{
    return wt_json_is(wt_json_at(origin, "frames.0.filename"), "tag") &&
           wt_json_is(wt_json_at(origin, "frames.0.name"), tag);
}

static void assert_state(enum which which, const void *address,
                         const char *state)
{
    const json_t *block = block_of(which, address);

    ck_assert_ptr_nonnull(block);
    ck_assert_msg(wt_json_is(get(block, "exact_state"), state), "%s: %.200s",
                  state, shown(block));
}

/* Bytes of segments of the last text, each of which its blocks make up. */
static uint64_t sum_of(enum which which)
{
    uint64_t sum = 0;
    const json_t *s, *b;
    size_t next = 0, k;

    while ((s = next_segment(which, &next)) != NULL) {
        uint64_t at = number(s, "address");

        sum += number(s, "total_size");
        json_array_foreach (get(s, "blocks"), k, b) {
            ck_assert_uint_eq(number(b, "address"), at);
            at += number(b, "size");
        }
        ck_assert_uint_eq(at, number(s, "address") + number(s, "total_size"));
    }
    return sum;
}

static const json_t *events_of(enum which which)
{
    return json_array_get(get(text, "device_traces"), place_of(which));
}

/* An event of the last text; 0: the last one. */
static const json_t *event_back(enum which which, size_t back)
{
    const json_t *events = events_of(which);

    return json_array_get(events, json_array_size(events) - 1 - back);
}

/* The last events are these, which end with null; the first of them. */
static const json_t *assert_events(enum which which, const char *const *actions)
{
    size_t count = 0, have;
    const json_t *events;

    (void)read_text();
    events = events_of(which);
    have = json_array_size(events);
    while (actions[count] != NULL) {
        count++;
    }
    ck_assert_msg(have >= count, "%s", shown(events));
    for (size_t i = 0; i < count; i++) {
        const json_t *event = json_array_get(events, have - count + i);

        ck_assert_msg(wt_json_is(get(event, "action"), actions[i]),
                      "%zu: %s, not %.300s", i, actions[i], shown(event));
    }
    return json_array_get(events, have - count);
}

#define assert_last(which, ...)                                                \
    assert_events(which, (const char *const[]){__VA_ARGS__, NULL})

static uint64_t events_so_far(void)
{
    return number(get(read_text(), "history"), "next");
}

WT_CASE("plain", .setup = setup, .teardown = teardown);

/* ---- what there is ----------------------------------------------------- */

WT_TEST(test_C7_every_block_of_a_device_with_its_state)
{
    void *live = take(3000), *gone = take(5 * MIB), *used = take(6 * MIB);
    wt_gate *gate = wt_gate_close(runtime, second);
    const json_t *block;

    wt_gate_await(gate);
    wt_ok(warm_record_stream(used, second));
    wt_free(used, gone);
    assert_state(DEVICE, gone, "idle");
    assert_state(DEVICE, used, "pending");
    block = block_of(DEVICE, live);
    ck_assert(wt_json_is(get(block, "exact_state"), "live"));
    ck_assert_uint_eq(number(block, "requested_size"), 3000);
    ck_assert_uint_eq(pool_found(), 0);
    ck_assert_ptr_null(json_object_get(block, "thread"));
    ck_assert_ptr_null(json_object_get(text, "history"));
    ck_assert_uint_eq(sum_of(DEVICE),
                      wt_device_stats(runtime).all.held_bytes.current);
    wt_gate_open(gate);
    wt_ok(warm_free(live));
}

/* What a thread has freed, and told nobody of yet, is not live any more. */
/* Which is that of a block as long as others may not have it. */
WT_TEST(test_C7_stream_is_the_one_in_whose_order_a_block_is)
{
    void *mine = take(3000), *gone = take(6 * MIB);
    void *theirs = wt_device(runtime, second, 3000);
    void *legacy = wt_device(runtime, NULL, 3000);
    uint64_t id = number(block_of(DEVICE, mine), "stream");
    wt_gate *gate;

    ck_assert_uint_eq(number(block_of(DEVICE, gone), "stream"), id);
    ck_assert_uint_ne(number(block_of(DEVICE, theirs), "stream"), id);
    ck_assert_uint_eq(number(block_of(DEVICE, legacy), "stream"), 0);
    gate = wt_gate_close(runtime, first);
    wt_ok(warm_free(gone));
    assert_state(DEVICE, gone, "idle");
    ck_assert_uint_eq(number(block_of(DEVICE, gone), "stream"), id);
    /* A miss marks the point that it waits for. */
    wt_ok(warm_free(wt_device(runtime, second, MIB)));
    wt_gate_open(gate);
    wt_settle(runtime, first);
    assert_state(DEVICE, gone, "idle");
    ck_assert_uint_eq(number(block_of(DEVICE, gone), "stream"), 0);
    wt_free(mine, theirs, legacy);
}

WT_TEST(test_C7_blocks_that_a_thread_batches_are_pending)
{
    void *block[4];
    wt_gate *gate = wt_gate_hold(runtime, second);

    for (int i = 0; i < 4; i++) {
        block[i] = pin(70000);
        wt_ok(warm_record_stream(block[i], second));
    }
    wt_free_all(block, 4);
    for (int i = 0; i < 4; i++) {
        assert_state(PINNED, block[i], "pending");
    }
    wt_gate_open(gate);
}

WT_TEST(test_C7_segments_tell_their_age_and_since_when_they_are_idle)
{
    void *block = take(5 * MIB);
    const json_t *segment;

    (void)read_text();
    segment = first_segment(DEVICE);
    ck_assert(json_is_null(get(segment, "idle_ns")));
    wt_ok(warm_free(block));
    (void)read_text();
    segment = first_segment(DEVICE);
    ck_assert(json_is_integer(get(segment, "idle_ns")));
    ck_assert_uint_ge(number(segment, "age_ns"), number(segment, "idle_ns"));
    ck_assert_uint_ge(number(text, "ns"), number(segment, "age_ns"));
}

WT_TEST(test_C7_captured_blocks_are_told)
{
    warm_graph graph = NULL;
    void *block = take(3 * MIB);

    wt_ok(warm_capture_begin(runtime, second));
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_capture_end(runtime, second, &graph));
    wt_ok(warm_free(block));
    assert_state(DEVICE, block, "captured");
    wt_ok(warm_graph_destroy(runtime, graph));
}

WT_TEST(test_C7_blocks_of_pinned_memory_and_of_magazines)
{
    void *live = pin(3000), *kept = pin(70000), *combined = NULL;

    wt_ok(warm_pinned_alloc_on(runtime, 5000, WARM_NODE_ANY,
                               WARM_ALLOC_WRITE_COMBINED, &combined));
    wt_ok(warm_free(kept));
    assert_state(PINNED, live, "live");
    assert_state(PINNED, combined, "live");
    assert_state(PINNED, kept, "magazine");
    ck_assert_uint_eq(sum_of(PINNED),
                      wt_pinned_stats(runtime).held_bytes.current);
    ck_assert_ptr_null(first_segment(PAGEABLE));
    wt_ok(warm_thread_release(runtime));
    assert_state(PINNED, kept, "idle");
    wt_free(live, combined);
}

enum { BLOCKS = 40 };

WT_TEST(test_C7_blocks_in_the_transfer_cache)
{
    void *block[BLOCKS];
    unsigned in_transfer_cache = 0, magazine = 0;

    for (int i = 0; i < BLOCKS; i++) {
        block[i] = pin(4096);
    }
    wt_free_all(block, BLOCKS);
    (void)read_text();
    for (int i = 0; i < BLOCKS; i++) {
        const json_t *b = find_block(PINNED, block[i]);

        in_transfer_cache +=
            wt_json_is(get(b, "exact_state"), "transfer_cache");
        magazine += wt_json_is(get(b, "exact_state"), "magazine");
    }
    ck_assert_uint_gt(in_transfer_cache, 0);
    ck_assert_uint_gt(magazine, 0);
    ck_assert_uint_eq(in_transfer_cache + magazine, BLOCKS);
}

WT_TEST(test_C7_bounds_of_the_text)
{
    void *block = take(3000), *other = pin(3000);
    size_t needed = 0, shorter = 0;
    char part[16] = "xxxxxxxxxxxxxxx";

    wt_ok(warm_snapshot_viz(runtime, NULL, 0, &needed));
    ck_assert_uint_gt(needed, 100);
    wt_fails(WARM_TRUNCATED, warm_snapshot_viz(runtime, part, 10, &shorter));
    ck_assert_uint_eq(strlen(part), 9);
    ck_assert_int_eq(part[10], 'x');
    ck_assert_uint_eq(shorter, needed);
    wt_invalid(warm_snapshot_viz(runtime, NULL, 10, &needed));
    wt_invalid(warm_snapshot_viz(NULL, part, 10, &needed));
    wt_free(block, other);
}

WT_CASE("history", .setup = setup_history, .teardown = teardown);

/* ---- what happened ----------------------------------------------------- */

WT_TEST(test_C7_a_script_and_its_events)
{
    void *block = take(3 * MIB);
    uint64_t next;
    const json_t *event = assert_last(DEVICE, "segment_alloc", "alloc");

    ck_assert_uint_ge(number(event, "size"), 3 * MIB);
    event = assert_last(DEVICE, "alloc");
    ck_assert_uint_eq(number(event, "size"), 3 * MIB);
    ck_assert_uint_eq(number(event, "addr"), (uintptr_t)block);
    ck_assert_uint_eq(number(event, "thread"), (uint64_t)gettid());
    ck_assert_uint_eq(number(event, "pool"), 0);
    ck_assert_uint_gt(number(event, "time_us"), 0);
    ck_assert_uint_eq(json_array_size(get(event, "frames")), 0);
    next = events_so_far();

    wt_ok(warm_free(block));
    event = assert_last(DEVICE, "free_requested", "free_completed");
    ck_assert_uint_eq(number(event, "number"), next);
    ck_assert_uint_eq(number(event, "addr"), (uintptr_t)block);
    ck_assert_uint_eq(number(event, "size"), 3 * MIB);
    ck_assert_uint_eq(events_so_far(), next + 2);

    ck_assert_ptr_eq(take(2 * MIB + 1), block);
    (void)assert_last(DEVICE, "free_completed", "alloc");
    event = event_back(DEVICE, 0);
    ck_assert_uint_eq(number(event, "size"), 2 * MIB + 1);
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    (void)assert_last(DEVICE, "free_completed", "segment_free");
    ck_assert_uint_eq(events_so_far(), next + 6);
    ck_assert_uint_eq(number(get(text, "history"), "dropped"), 0);
    ck_assert_ptr_null(first_segment(DEVICE));
}

WT_TEST(test_C7_free_is_completed_once_the_stream_has_passed)
{
    void *block = take(3 * MIB);
    wt_gate *gate = wt_gate_close(runtime, second);
    uint64_t next = events_so_far();
    const json_t *found;

    wt_gate_await(gate);
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    (void)assert_last(DEVICE, "alloc", "free_requested");
    ck_assert_uint_eq(events_so_far(), next + 1);
    found = block_of(DEVICE, block);
    ck_assert(wt_json_is(get(found, "exact_state"), "pending"));
    ck_assert_uint_eq(number(found, "thread"), (uint64_t)gettid());
    wt_gate_open(gate);
    wt_settle(runtime, second);
    (void)assert_last(DEVICE, "alloc", "free_requested", "free_completed");
    found = block_of(DEVICE, block);
    ck_assert(wt_json_is(get(found, "exact_state"), "idle"));
    ck_assert_ptr_null(json_object_get(found, "thread"));
}

WT_TEST(test_C7_the_same_of_pinned_memory)
{
    void *block = pin(70000), *again;
    wt_gate *gate;
    const json_t *event;

    (void)assert_last(PINNED, "segment_alloc", "alloc");
    event = event_back(PINNED, 0);
    ck_assert_uint_eq(number(event, "addr"), (uintptr_t)block);
    ck_assert_uint_eq(number(event, "size"), 70000);
    ck_assert_uint_eq(number(event, "stream"), 0);
    wt_ok(warm_free(block));
    assert_state(PINNED, block, "magazine");
    again = pin(70001);
    ck_assert_ptr_eq(again, block);
    (void)assert_last(PINNED, "alloc", "free_requested", "free_completed",
                      "alloc");
    gate = wt_gate_hold(runtime, second);
    wt_ok(warm_record_stream(again, second));
    wt_ok(warm_free(again));
    (void)assert_last(PINNED, "alloc", "free_requested");
    assert_state(PINNED, again, "pending");
    wt_gate_open(gate);
    wt_settle(runtime, second);
    (void)assert_last(PINNED, "alloc", "free_requested", "free_completed");
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    (void)assert_last(PINNED, "free_completed", "segment_free");
    /* Nothing of that happened to the device. */
    ck_assert_uint_eq(json_array_size(events_of(DEVICE)), 0);
}

WT_TEST(test_C7_blocks_of_a_capture_are_never_completed)
{
    warm_graph graph = NULL;
    void *block = take(3 * MIB);

    wt_ok(warm_capture_begin(runtime, second));
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_capture_end(runtime, second, &graph));
    wt_ok(warm_free(block));
    (void)assert_last(DEVICE, "alloc", "free_requested");
    wt_ok(warm_poll(runtime));
    (void)assert_last(DEVICE, "alloc", "free_requested");
    wt_ok(warm_graph_destroy(runtime, graph));
}

WT_TEST(test_C7_out_of_memory_is_an_event)
{
    void *block = NULL, *before = take(MIB);
    size_t much = (size_t)1 << 44;
    uint64_t next = events_so_far();
    const json_t *event;

    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, first, much, &block));
    (void)assert_last(DEVICE, "alloc", "oom");
    event = event_back(DEVICE, 0);
    ck_assert_uint_eq(number(event, "number"), next);
    ck_assert_uint_eq(number(event, "size"), much);
    ck_assert_uint_gt(number(event, "device_free"), 0);
    ck_assert_ptr_null(json_object_get(event, "addr"));
    ck_assert_uint_eq(events_so_far(), next + 1);
    wt_ok(warm_free(before));
}

WT_TEST(test_C7_refused_calls_are_no_events)
{
    void *block = take(MIB), *none = NULL;
    uint64_t next = events_so_far();

    wt_fails(WARM_INVALID_POINTER, warm_free((char *)block + 1));
    wt_invalid(warm_device_alloc(runtime, 4096, first, MIB, &none));
    none = wt_device(runtime, first, 0);
    wt_ok(warm_free(NULL));
    ck_assert_uint_eq(events_so_far(), next);
    wt_ok(warm_free(block));
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    ck_assert_uint_eq(events_so_far(), next + 2);
}

WT_CASE("short", .setup = setup_short, .teardown = teardown);

WT_TEST(test_C7_ring_keeps_the_last_ones)
{
    const json_t *events;

    for (int i = 0; i < 10; i++) {
        wt_ok(warm_free(take(MIB)));
    }
    (void)read_text();
    events = events_of(DEVICE);
    /* A segment, and three for each time. */
    ck_assert_uint_eq(number(get(text, "history"), "next"), 31);
    ck_assert_uint_eq(json_array_size(events), 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(number(json_array_get(events, i), "number"), 27 + i);
    }
    (void)assert_last(DEVICE, "free_completed", "alloc", "free_requested",
                      "free_completed");
}

/* ---- tags --------------------------------------------------------------- */

static void tag_in_thread(void *argument, unsigned index)
{
    void **block = argument;

    (void)warm_memory_tag_set("theirs");
    (void)warm_device_alloc(runtime, 0, first, 2 * MIB, block);
}

WT_CASE("history", .setup = setup_history, .teardown = teardown);

WT_TEST(test_C7_tags_are_a_threads_own)
{
    void *mine, *theirs = NULL, *none;
    const json_t *block, *event;

    ck_assert_str_eq(warm_memory_tag_get(), "");
    wt_ok(warm_memory_tag_set("a \"tag\""));
    ck_assert_str_eq(warm_memory_tag_get(), "a \"tag\"");
    wt_threads(1, tag_in_thread, &theirs);
    mine = take(MIB);
    wt_ok(warm_memory_tag_set(NULL));
    none = take(MIB);
    block = block_of(DEVICE, theirs);
    ck_assert(is_tagged(block, "theirs"));
    ck_assert_uint_ne(number(block, "thread"), (uint64_t)gettid());
    block = block_of(DEVICE, mine);
    ck_assert(is_tagged(block, "a \"tag\""));
    ck_assert_uint_eq(number(block, "thread"), (uint64_t)gettid());
    ck_assert_ptr_null(wt_json_at(block_of(DEVICE, none), "frames.0"));
    event = assert_last(DEVICE, "alloc", "alloc");
    ck_assert(is_tagged(event, "a \"tag\""));
    /* The request has the tag of the freeing thread, the end the allocator's.
     */
    wt_ok(warm_memory_tag_set("frees"));
    wt_ok(warm_free(theirs));
    event = assert_last(DEVICE, "free_requested", "free_completed");
    ck_assert(is_tagged(event, "frees"));
    ck_assert(is_tagged(event_back(DEVICE, 0), "theirs"));
    wt_free(mine, none);
    wt_ok(warm_memory_tag_set(""));
}

WT_CASE("plain", .setup = setup, .teardown = teardown);

WT_TEST(test_C7_tags_have_a_bound)
{
    char longest[WARM_TAG_BYTES], longer[WARM_TAG_BYTES + 1];

    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memset(longer, 'b', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    wt_ok(warm_memory_tag_set(longest));
    wt_invalid(warm_memory_tag_set(longer));
    ck_assert_str_eq(warm_memory_tag_get(), longest);
    wt_says("47 characters");
    wt_ok(warm_memory_tag_set(NULL));
    ck_assert_str_eq(warm_memory_tag_get(), "");
}

WT_CASE("short", .setup = setup_short, .teardown = teardown);

WT_TEST(test_C7_what_left_the_ring_is_still_known_of_live_blocks)
{
    void *block;

    wt_ok(warm_memory_tag_set("long ago"));
    block = take(MIB);
    wt_ok(warm_memory_tag_set(NULL));
    for (int i = 0; i < 10; i++) {
        wt_ok(warm_free(take(MIB)));
    }
    ck_assert(is_tagged(block_of(DEVICE, block), "long ago"));
    wt_ok(warm_free(block));
}

WT_CASE("frames", .setup = setup_frames, .teardown = teardown);

static int take_there(const void *to, const void *element)
{
    *(void **)(uintptr_t)to = take(MIB);
    return 0;
}

/* The first frame is the caller's: the library's own are left out. A function
 * that other objects can call is named. */
WT_TEST(test_C7_frames_lead_to_the_caller)
{
    void *block = NULL;
    const json_t *frames, *frame;
    const char *object;
    char *words;

    (void)lfind(&block, "", &(size_t){1}, 1, take_there);
    frames = get(block_of(DEVICE, block), "frames");
    frame = json_array_get(frames, 0);
    object = json_string_value(get(frame, "filename"));
    words = json_dumps(frames, JSON_COMPACT);
    wt_contains(words, "\"name\":\"lfind\"");
    free(words);
    ck_assert_uint_ge(json_array_size(frames), 2);
    ck_assert_uint_le(json_array_size(frames), 12);
    ck_assert_uint_gt(number(frame, "offset"), 0);
    ck_assert_msg(object != NULL && strstr(object, "libwarmpool") == NULL, "%s",
                  shown(frames));
    ck_assert_ptr_nonnull(wt_json_at(assert_last(DEVICE, "alloc"), "frames.0"));
    ck_assert_ptr_null(
        wt_json_at(assert_last(DEVICE, "segment_alloc", "alloc"), "frames.0"));
    wt_ok(warm_free(block));
    (void)assert_last(DEVICE, "free_requested", "free_completed");
    ck_assert_ptr_nonnull(wt_json_at(event_back(DEVICE, 0), "frames.0"));
}

WT_CASE("nodes", .setup = setup_nodes, .teardown = teardown);

/* ---- nodes, and pageable memory ---------------------------------------- */

WT_TEST(test_C7_nodes_are_told_apart)
{
    void *block[2] = {NULL, NULL};

    for (int i = 0; i < 2; i++) {
        enum which which = i == 0 ? PINNED : NODE_1;

        wt_ok(warm_pinned_alloc_on(runtime, 5 * MIB, i, 0, &block[i]));
        (void)assert_last(which, "segment_alloc", "alloc");
        ck_assert_ptr_nonnull(find_block(which, block[i]));
    }
    wt_free(block[0], block[1]);
}

static void dry(bool on)
{
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", on, 1));
    wt_ok(warm_testing_fail(runtime, "pinned_register", on, 1));
}

WT_CASE("history", .setup = setup_history, .teardown = teardown);

WT_TEST(test_C7_pageable_memory_is_told_apart)
{
    void *block = NULL;
    const json_t *event;
    uint64_t next;

    dry(true);
    wt_ok(warm_pinned_alloc_on(runtime, 70000, WARM_NODE_ANY,
                               WARM_ALLOC_PAGEABLE_OK, &block));
    (void)assert_last(PAGEABLE, "segment_alloc", "alloc");
    ck_assert_ptr_nonnull(find_block(PAGEABLE, block));
    ck_assert_ptr_null(find_block(PINNED, block));
    wt_ok(warm_free(block));
    (void)assert_last(PAGEABLE, "free_requested", "free_completed",
                      "segment_free");
    next = events_so_far();
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 70000, &block));
    dry(false);
    event = assert_last(PINNED, "oom");
    ck_assert_uint_eq(number(event, "number"), next);
    ck_assert_uint_eq(number(event, "size"), 70000);
}

/* ---- for PyTorch's visualiser ------------------------------------------ */

static wt_viz viz;

static void assert_viz(void)
{
    int devices = 0, nodes = 0, places;
    const json_t *traces;

    wt_ok(warm_device_count(runtime, &devices));
    wt_ok(warm_node_count(runtime, &nodes));
    traces = get(read_text(), "device_traces");
    /* Pageable memory, and three kinds of shared buffers of each device. */
    places = devices + nodes + 1 + 3 * devices;
    ck_assert_uint_eq(json_array_size(traces), (size_t)places);
    for (int i = 0; i < places; i++) {
        ck_assert_msg(wt_viz_check(&viz, text, (size_t)i), "device %d: %s", i,
                      viz.wrong);
    }
    ck_assert_ptr_nonnull(get(text, "allocator_settings"));
    ck_assert_ptr_nonnull(get(text, "external_annotations"));
}

/* What graphs have is freed, and idle once the pool is gone. */
WT_TEST(test_C7_E4_blocks_of_private_pools)
{
    warm_private_pool pool = {0};
    warm_graph graph = NULL;
    void *used, *free;
    const json_t *event;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    wt_ok(warm_capture_begin(runtime, second));
    used = pin(70000);
    wt_ok(warm_record_stream(used, second));
    free = pin(70000);
    wt_ok(warm_capture_end(runtime, second, &graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_ptr_nonnull(block_of(PINNED, used));
    ck_assert_uint_eq(pool_found(), pool.number);
    event = assert_last(PINNED, "segment_alloc", "alloc", "alloc");
    ck_assert_uint_eq(number(event, "pool"), pool.number);
    ck_assert_uint_eq(number(event_back(PINNED, 1), "pool"), pool.number);
    wt_free(free, used);
    (void)assert_last(PINNED, "alloc", "free_requested", "free_completed",
                      "free_requested");
    assert_state(PINNED, used, "captured");
    assert_state(PINNED, free, "idle");
    assert_viz();
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_private_pool_release(runtime, pool));
    (void)assert_last(PINNED, "free_requested", "free_completed",
                      "segment_free");
    assert_viz();
}

WT_CASE("layout", .setup = setup_history, .teardown = teardown);

/* A shared buffer is in the snapshot, at the place of its kind. */
static void assert_viz_has_shared(void)
{
    int devices = 0, nodes = 0;
    void *buffer = NULL;

    wt_ok(warm_device_count(runtime, &devices));
    wt_ok(warm_node_count(runtime, &nodes));
    wt_ok(warm_shared_alloc(runtime, 0, 3000, WARM_USAGE_SHARED, &buffer));
    assert_viz();
    ck_assert(wt_viz_check(&viz, text, (size_t)(devices + nodes + 2)));
    ck_assert_uint_eq(viz.events, 2); /* of the segment, and of the buffer */
    wt_ok(warm_free(buffer));
    assert_viz();
}

WT_TEST(test_C7_viz_layout)
{
    void *live, *used, *buffer;
    wt_gate *gate;
    const json_t *segment, *block;
    size_t i = 0;

    wt_ok(warm_memory_tag_set("weights"));
    live = take(3000);
    wt_ok(warm_memory_tag_set(NULL));
    used = take(6 * MIB);
    buffer = pin(70000);
    gate = wt_gate_hold(runtime, second);
    wt_ok(warm_record_stream(used, second));
    wt_ok(warm_free(used));
    wt_ok(warm_free(take(60 * KIB)));
    assert_viz();
    ck_assert(wt_viz_check(&viz, text, 0));
    ck_assert_uint_eq(viz.blocks.count, 0); /* before the first event */
    ck_assert_uint_eq(viz.segments.count, 0);
    ck_assert_uint_gt(viz.events, 0);
    assert_viz_has_shared();
    do {
        segment = json_array_get(get(text, "segments"), i++);
    } while (number(segment, "total_size") > 3 * MIB);
    ck_assert_uint_eq(number(segment, "device"), 0);
    ck_assert(wt_json_is(get(segment, "segment_type"), "small"));
    ck_assert_uint_eq(json_array_size(get(segment, "segment_pool_id")), 2);
    ck_assert_uint_eq(number(segment, "requested_size"), 3000);
    ck_assert_uint_gt(number(segment, "stream"), 0);
    i = 0;
    do {
        block = json_array_get(get(segment, "blocks"), i++);
    } while (!wt_json_is(get(block, "state"), "active_allocated"));
    ck_assert_uint_eq(number(block, "address"), (uintptr_t)live);
    ck_assert_uint_eq(number(block, "requested_size"), 3000);
    ck_assert(wt_json_is(wt_json_at(block, "frames.0.name"), "weights"));
    wt_gate_open(gate);
    wt_free(live, buffer);
}

WT_CASE("plain", .setup = setup, .teardown = teardown);

WT_TEST(test_C7_viz_without_a_history)
{
    void *block = take(3000), *buffer = pin(3000);

    assert_viz();
    ck_assert(wt_viz_check(&viz, text, 0));
    ck_assert_uint_eq(viz.blocks.count, 1);
    ck_assert_uint_eq(viz.events, 0);
    wt_free(block, buffer);
}

WT_CASE("runs", .setup = setup_history,
        .also = {setup_frames, setup_short, setup_nodes}, .teardown = teardown);

/* Whatever was overwritten, what is left fits. */
WT_TEST(test_C7_viz_of_a_random_run)
{
    uint64_t random = wt_seed();
    void *block[BLOCKS] = {NULL};

    for (unsigned i = 0; i < wt_scaled(300); i++) {
        size_t k = wt_random(&random) % BLOCKS;
        size_t bytes = (size_t)1 << (8 + wt_random(&random) % 15);

        if (block[k] != NULL && wt_random(&random) % 4 == 0) {
            wt_ok(warm_record_stream(block[k], second));
        }
        wt_ok(warm_free(block[k]));
        block[k] = wt_random(&random) % 2 == 0 ? take(bytes) : pin(bytes);
        if (i % 32 == 0) {
            wt_ok(warm_poll(runtime));
        }
        if (i % 64 == 0) {
            wt_ok(warm_device_trim(runtime, 0, 0, NULL));
        }
        if (i % 16 == 0) {
            assert_viz();
        }
    }
    wt_free_all(block, BLOCKS);
    assert_viz();
}
