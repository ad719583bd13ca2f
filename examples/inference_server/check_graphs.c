/* check_graphs.c: what a thread of the server captures and replays, against the
 * same operations queued one by one, and with every driver call failing. */
#include "examples/inference_server/graphs.h"
#include "tests/wt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static warm_runtime *runtime;
static float *weights; /* on the device */
static unsigned char pixels[2 * TURN_IMAGES * IMAGE_BYTES];

static atomic_int warnings;

static void count_warning(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)line;
    /* Relaxed: read by the thread that causes them. */
    atomic_fetch_add_explicit(&warnings, level == WARM_LOG_WARNING,
                              memory_order_relaxed);
}

static void set_up(void)
{
    static float start[MODEL_FLOATS];
    uint64_t state = wt_seed();
    maths m;

    runtime = wt_runtime(NULL);
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (unsigned char)(random_next(&state) >> 56);
    }
    model_init(start, wt_seed());
    ck_assert_msg(maths_begin(&m, runtime, 0), "%s", m.why.text);
    weights = maths_alloc(&m, MODEL_FLOATS);
    maths_upload(&m, weights, start, MODEL_FLOATS);
    ck_assert_msg(maths_finish(&m), "%s", m.why.text);
    maths_end(&m);
}

static void tear_down(void)
{
    wt_ok(warm_free(weights));
    wt_runtime_end(runtime);
}

/* Without a graph. */
static void run_eagerly(const unsigned char *from, int count, float *p)
{
    static float x[TURN_IMAGES * IMAGE_BYTES];
    model_room room;
    maths m;

    images_normalize(from, (size_t)count * IMAGE_BYTES, x);
    ck_assert_msg(maths_begin(&m, runtime, 0), "%s", m.why.text);
    model_room_init(&room, &m, count);
    model_run(&m, weights, &room, count, x, p);
    model_room_fini(&room, &m);
    ck_assert_msg(maths_finish(&m), "%s", m.why.text);
    maths_end(&m);
}

static graphs *begin(void)
{
    message why;
    graphs *g = graphs_begin(runtime, 0, weights, &why);

    ck_assert_msg(g != NULL, "%s", why.text);
    return g;
}

/* As eagerly, to the last bit. */
static void check_run(graphs *g, int first, int count, bool known)
{
    float p[TURN_IMAGES * CLASSES];
    const unsigned char *from = pixels + (size_t)first * IMAGE_BYTES;
    const float *got;

    run_eagerly(from, count, p);
    ck_assert_int_eq(graphs_know(g, count), known);
    if (!known) {
        graphs_capture(g, count);
        ck_assert_msg(!g->m.bad, "%s", g->m.why.text);
    }
    got = graphs_replay(g, from, count);
    ck_assert_msg(got != NULL, "%s", g->m.why.text);
    ck_assert_mem_eq(got, p, (size_t)count * CLASSES * sizeof *p);
}

static uint64_t calls_of(const char *call)
{
    uint64_t count = 0;

    wt_ok(warm_testing_calls(runtime, call, &count));
    return count;
}

static uint64_t all_calls(void)
{
    uint64_t count = 0;

    for (int i = 0; warm_testing_call_name(i) != NULL; i++) {
        count += calls_of(warm_testing_call_name(i));
    }
    return count;
}

/* No block but the weights, and nothing that is kept for a graph. */
static void check_nothing_left(void)
{
    warm_device_stats device = WARM_INIT(warm_device_stats);
    warm_space_stats pinned = WARM_INIT(warm_space_stats);

    wt_ok(warm_device_get_stats(runtime, 0, &device));
    wt_ok(warm_pinned_get_stats(runtime, &pinned));
    ck_assert_uint_eq(device.all.live.current, 1);
    ck_assert_uint_eq(device.captured, 0);
    ck_assert_uint_eq(pinned.live.current, 0);
    ck_assert_uint_eq(pinned.captured, 0);
}

/* ---- results --------------------------------------------------------------
 */

static const int counts[] = {1, 2, 7, TURN_IMAGES - 1, TURN_IMAGES};
enum { COUNTS = sizeof counts / sizeof *counts };

WT_CASE("graphs", .setup = set_up, .teardown = tear_down);

WT_TEST(test_replays_equal_eager_runs)
{
    graphs *g = begin();

    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < COUNTS; i++) {
            check_run(g, 11 * round + i, counts[i], round > 0);
        }
    }
    graphs_end(g);
    check_nothing_left();
}

WT_TEST(test_replay_is_two_calls_of_the_driver)
{
    graphs *g = begin();
    uint64_t before;

    check_run(g, 0, 1, false);
    before = all_calls();
    for (int i = 0; i < 100; i++) {
        ck_assert_ptr_nonnull(graphs_replay(g, pixels, 1));
    }
    ck_assert_uint_eq(all_calls() - before, 200);
    ck_assert_uint_eq(calls_of("graph_launch"), 101);
    graphs_end(g);
}

/* Graphs hold memory of their own, which the driver has back after them. */
WT_TEST(test_E3_E5_memory_of_graphs_goes_back)
{
    warm_private_pool_info info = WARM_INIT(warm_private_pool_info);
    usage before, with, after;
    float p[TURN_IMAGES * CLASSES];
    graphs *g;

    run_eagerly(pixels, TURN_IMAGES, p);
    usage_read(runtime, 0, &before);
    warm_log_set(count_warning, NULL);
    g = begin();
    for (int i = 0; i < COUNTS; i++) {
        graphs_capture(g, counts[i]);
        ck_assert_msg(!g->m.bad, "%s", g->m.why.text);
    }
    usage_read(runtime, 0, &with);
    ck_assert_uint_eq(with.blocks_live, before.blocks_live);
    ck_assert_uint_eq(with.pinned_live, before.pinned_live + COUNTS);
    ck_assert_uint_gt(with.held, before.held);
    wt_ok(warm_private_pool_get_info(runtime, g->pool, &info));
    ck_assert_uint_eq(info.references, COUNTS);
    ck_assert_uint_eq(info.live, COUNTS);
    ck_assert_uint_eq(info.captured, 0);
    ck_assert_int_eq(info.recording, 0);
    graphs_end(g);
    usage_read(runtime, 0, &after);
    ck_assert_uint_eq(after.held, before.held);
    /* All of it was allocated by a stream that captured, none kept for ever. */
    ck_assert_int_eq(atomic_load(&warnings), 0);
    warm_log_set(NULL, NULL);
    check_nothing_left();
}

/* ---- threads ---------------------------------------------------------------
 */

enum { THREADS = 4, TURNS = 25 };

typedef struct worker {
    pthread_t thread;
    int index;
    float p[TURNS][CLASSES];
    bool good;
    message why;
} worker;

static void *replay_images(void *argument)
{
    worker *w = argument;
    graphs *g = graphs_begin(runtime, 0, weights, &w->why);

    if (g == NULL) {
        return NULL;
    }
    graphs_capture(g, 1);
    for (int i = 0; i < TURNS && !g->m.bad; i++) {
        const unsigned char *from =
            pixels + (size_t)(w->index * TURNS + i) * IMAGE_BYTES;
        const float *p = graphs_replay(g, from, 1);

        if (p != NULL) {
            memcpy(w->p[i], p, sizeof w->p[i]);
        }
    }
    w->good = !g->m.bad;
    w->why = g->m.why;
    graphs_end(g);
    return NULL;
}

/* At once, and again by threads that get the streams of the first. */
WT_TEST(test_A4_threads_have_graphs_of_their_own)
{
    static worker workers[THREADS];
    float p[CLASSES];

    run_eagerly(pixels, 1, p); /* the libraries load what they need */
    for (int round = 0; round < 2; round++) {
        for (int t = 0; t < THREADS; t++) {
            workers[t].index = t;
            ck_assert_int_eq(pthread_create(&workers[t].thread, NULL,
                                            replay_images, &workers[t]),
                             0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(workers[t].thread, NULL);
        }
        for (int t = 0; t < THREADS; t++) {
            ck_assert_msg(workers[t].good, "%s", workers[t].why.text);
            for (int i = 0; i < TURNS; i++) {
                run_eagerly(pixels + (size_t)(t * TURNS + i) * IMAGE_BYTES, 1,
                            p);
                ck_assert_mem_eq(workers[t].p[i], p, sizeof p);
            }
        }
        check_nothing_left();
    }
}

/* ---- faults ----------------------------------------------------------------
 */

/* Those of the driver that a thread's graphs are made of. The end of a capture
 * is not among them: one that fails before it has done anything leaves the
 * stream in a state that no driver leaves it in. */
static const char *const faulty[] = {
    "pinned_alloc",  "device_alloc",  "copy",         "host_func",
    "stream_create", "capture_begin", "graph_launch", "stream_synchronize"};
enum { FAULTY = sizeof faulty / sizeof *faulty };

/* All that a thread does; false after an error. */
static bool live(message *why)
{
    graphs *g = graphs_begin(runtime, 0, weights, why);
    bool good = g != NULL;

    for (int count = 1; good && count <= 2; count++) {
        graphs_capture(g, count);
        good = !g->m.bad && graphs_replay(g, pixels, count) != NULL &&
               graphs_replay(g, pixels, count) != NULL;
        *why = g->m.why;
    }
    graphs_end(g);
    return good;
}

/* _i: which of them. */
WT_LOOP_TEST(test_every_call_may_fail, FAULTY)
{
    for (uint64_t n = 1;; n++) {
        uint64_t before = calls_of(faulty[_i]), made;
        message why = {.text = ""};
        graphs *g;
        bool good;

        wt_ok(warm_testing_fail(runtime, faulty[_i], n, 0));
        good = live(&why);
        made = calls_of(faulty[_i]) - before;
        wt_ok(warm_testing_fail(runtime, faulty[_i], 0, 0));
        ck_assert_msg(good || why.text[0] != '\0', "%s %d", faulty[_i], (int)n);
        check_nothing_left();
        g = begin();
        check_run(g, 0, 1, false);
        check_run(g, 1, 1, true);
        graphs_end(g);
        if (made < n) {
            ck_assert_msg(good, "%s", why.text);
            break;
        }
        ck_assert_uint_lt(n, 1000);
    }
}
