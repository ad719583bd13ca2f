/* check_private_fault.c: every driver call fails in turn, and every allocation
 * of a record, under private pools: one for graphs, captured with, and one of
 * a user (rows E1 to E4, E7, E8). What must hold each time: a refused call
 * changed nothing; memory of a graph is not allocated to others; once the fault
 * and the pools are gone, everything that was not lost has gone back. */
/* memcheck: one process */
#include "wt_fault.h"

#include <sys/mman.h>

enum { BLOCKS = 4 };
#define MIB ((size_t)1 << 20)

static struct flow {
    warm_runtime *runtime;
    warm_stream stream, other;
    warm_private_pool pool;
    unsigned references;
    void *pinned[BLOCKS], *device[BLOCKS];
    void *kept;    /* of a graph */
    bool captures; /* for good: the capture could not be ended */
} f;

static bool good(warm_status status)
{
    return status == WARM_OK;
}

static void take(void **pointer, bool device, size_t bytes)
{
    void *got = NULL;
    warm_status status =
        device ? warm_device_alloc(f.runtime, 0, f.stream, bytes, &got)
               : warm_pinned_alloc(f.runtime, bytes, &got);

    wt_require((status == WARM_OK) == (got != NULL), "neither done nor not");
    wt_require(got == NULL || got != f.kept, "a graph has it");
    *pointer = got;
}

static void give(void **pointer)
{
    wt_ok(warm_free(*pointer));
    *pointer = NULL;
}

static void use(bool captured)
{
    for (int i = 0; i < BLOCKS; i++) {
        take(&f.pinned[i], false, (size_t)5000 << (3 * i));
        take(&f.device[i], true, (size_t)5000 << (3 * i));
    }
    if (f.pinned[1] != NULL &&
        good(warm_record_stream(f.pinned[1], captured ? f.stream : f.other)) &&
        captured) {
        f.kept = f.pinned[1];
    }
    if (f.device[1] != NULL) {
        (void)good(warm_record_stream(f.device[1], f.other));
    }
    for (int i = 0; i < BLOCKS; i++) {
        give(&f.pinned[i]);
        give(&f.device[i]);
    }
    take(&f.pinned[0], false, 5000 << 3);
    take(&f.device[0], true, 5000 << 3);
    give(&f.pinned[0]);
    give(&f.device[0]);
}

static void release(void)
{
    while (f.references > 0) {
        f.references--;
        wt_ok(warm_private_pool_release(f.runtime, f.pool));
    }
    f.pool = (warm_private_pool){0};
    f.kept = NULL;
}

static void capture(void)
{
    warm_graph graph = NULL;

    if (!good(warm_private_pool_begin(f.runtime, &f.pool, 0, NULL, NULL))) {
        return;
    }
    f.references++;
    (void)good(warm_thread_set_stream(f.runtime, f.stream));
    if (good(warm_capture_begin(f.runtime, f.stream))) {
        use(true);
        f.captures = !good(warm_capture_end(f.runtime, f.stream, &graph));
    }
    wt_ok(warm_private_pool_end(f.runtime, f.pool));
    if (graph != NULL) {
        (void)good(warm_graph_destroy(f.runtime, graph));
    }
}

static void play(void)
{
    warm_private_pool user = {0};

    capture();
    capture();
    /* What a user's pool hands out in a capture is the graph's for ever. */
    if (!f.captures && good(warm_private_pool_begin(
                           f.runtime, &user, WARM_POOL_USER, NULL, NULL))) {
        use(false);
        wt_ok(warm_private_pool_end(f.runtime, user));
        wt_ok(warm_private_pool_release(f.runtime, user));
    }
    release();
    (void)good(warm_poll(f.runtime));
    capture();
}

static void begin(uint64_t n)
{
    f = (struct flow){0};
    f.runtime = wt_runtime_with(.device = "host", .segment = MIB);
    f.stream = wt_stream(f.runtime, 0);
    f.other = wt_stream(f.runtime, 0);
    if (n % 2 != 0) {
        wt_ok(warm_stream_retire(f.runtime, f.stream));
    }
}

/* A capture that could not be ended is, now. */
static void end_captures(void)
{
    warm_graph graph = NULL;

    if (good(warm_capture_end(f.runtime, f.stream, &graph))) {
        wt_ok(warm_graph_destroy(f.runtime, graph));
    }
    (void)good(warm_capture_announce_end(f.runtime, f.stream));
}

static void end(void)
{
    warm_device_stats device;
    warm_space_stats pinned;

    end_captures();
    release();
    wt_ok(warm_stream_synchronize(f.runtime, f.stream));
    wt_settle(f.runtime, f.other);
    wt_ok(warm_pinned_empty_cache(f.runtime, NULL));
    wt_ok(warm_device_empty_cache(f.runtime, 0, NULL));
    device = wt_device_stats(f.runtime);
    pinned = wt_pinned_stats(f.runtime);
    wt_ok(warm_testing_check(f.runtime, 1));
    wt_require(device.all.live.current == 0 && pinned.live.current == 0,
               "a block is still in use");
    wt_require(device.captured == 0 && pinned.captured == 0,
               "graphs that are gone keep blocks");
    wt_require(device.lost_bytes != 0 || device.all.held_bytes.current == 0,
               "%lu bytes of the device are held",
               (unsigned long)device.all.held_bytes.current);
    wt_require(pinned.lost_bytes != 0 || pinned.held_bytes.current == 0,
               "%lu bytes are held", (unsigned long)pinned.held_bytes.current);
    wt_ok(warm_stream_destroy(f.runtime, f.stream));
    wt_ok(warm_stream_destroy(f.runtime, f.other));
    wt_runtime_end(f.runtime);
}

static const wt_flow flow = {begin, play, end, &f.runtime, 400, 1};

WT_CASE("private_fault", .timeout = 120);

WT_LOOP_TEST(test_E3_E4_E7_every_driver_call_may_fail, 2 * wt_driver_calls())
{
    wt_fail_every_call(&flow, warm_testing_call_name(_i / 2), _i % 2);
}

WT_LOOP_TEST(test_E1_E3_every_record_may_fail, 2)
{
    wt_fail_every_record(&flow, _i != 0);
}

static bool is_mapped(void *page)
{
    unsigned char there;

    return mincore(page, 4096, &there) == 0;
}

/* There is no later then: what nobody said is over does not matter. Only what
 * the driver says captures would be broken, and the memory stays. */
WT_LOOP_TEST(test_E7_G2_B7_memory_goes_back_with_the_runtime, 2)
{
    void *pinned = NULL, *device = NULL;
    bool captures = _i == 1;

    begin(0);
    wt_ok(warm_private_pool_begin(f.runtime, &f.pool, 0, NULL, NULL));
    wt_ok(captures ? warm_capture_begin(f.runtime, f.stream)
                   : warm_capture_announce(f.runtime, f.stream));
    pinned = wt_pinned(f.runtime, MIB);
    device = wt_device(f.runtime, f.stream, MIB);
    wt_free(pinned, device);
    wt_ok(warm_private_pool_end(f.runtime, f.pool));
    wt_ok(warm_private_pool_release(f.runtime, f.pool));
    ck_assert(is_mapped(pinned));
    wt_runtime_end(f.runtime);
    ck_assert_int_eq(is_mapped(pinned), captures);
    if (!captures) { /* else it goes with the host device */
        ck_assert(!is_mapped(device));
    }
}
