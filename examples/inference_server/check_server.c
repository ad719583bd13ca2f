/* check_server.c: the example server, asked everything over real sockets; what
 * it refuses: check_refusals.c; slow clients, and its end: check_slow.c.
 *
 * Runs the programs that lie beside this one; `make check-examples` builds
 * them and trains check.weights for a moment. */
#include "examples/demo/load.h"
#include "examples/inference_server/latency.h"
#include "examples/inference_server/raw.h"

#include <stdlib.h>

/* ---- answers ------------------------------------------------------------ */

WT_CASE("answer");

WT_TEST(test_image_is_answered_the_same_raw_png_and_idx)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);
    image_set set = test_images(3);
    unsigned char png[4096], idx[4096];
    const answer *a = classify(&h, set.pixels);
    double class = number(a, "class");
    double probability = number(a, "probability");

    ck_assert_int_eq(a->status, 200);
    ck_assert(class >= 0 && class < CLASSES);
    ck_assert(probability > 0.1 && probability <= 1);
    ck_assert(
        wt_json_is(wt_json_at(a->json, "label"), class_names[(int)class]));

    a = ask(&h, "POST", "/classify", png,
            make_png(IMAGE_SIDE, set.pixels, png, sizeof png));
    ck_assert_int_eq(a->status, 200);
    ck_assert_double_eq(number(a, "class"), class);

    a = ask(&h, "POST", "/classify", idx, make_idx(&set, idx));
    ck_assert_int_eq(a->status, 200);
    ck_assert_double_eq(number(a, "images"), 3);
    ck_assert_double_eq(number(a, "predictions.0.class"), class);
    ck_assert_uint_eq(json_array_size(wt_json_at(a->json, "predictions")), 3);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
}

/* More images than fit on the device at once, against one a request. */
WT_TEST(test_large_idx_file_equals_single_images)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);
    image_set set = test_images(150);
    unsigned char *idx = malloc(16 + 150 * IMAGE_BYTES), classes[150];
    load_result result;
    message why;
    const answer *a;

    ck_assert_ptr_nonnull(idx);
    ck_assert_msg(load_run(&(load_plan){.port = s.port,
                                        .set = &set,
                                        .connections = 2,
                                        .classes = classes},
                           &result, &why),
                  "%s", why.text);
    a = ask(&h, "POST", "/classify", idx, make_idx(&set, idx));
    ck_assert_int_eq(a->status, 200);
    for (int i = 0; i < set.count; i++) {
        char path[64];

        snprintf(path, sizeof path, "predictions.%d.class", i);
        ck_assert_double_eq(number(a, path), classes[i]);
    }
    free(idx);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
}

/* ---- state -------------------------------------------------------------- */

WT_CASE("state");

WT_TEST(test_health_answers_get_and_head)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);
    const answer *a = ask(&h, "GET", "/health", NULL, 0);
    raw r = raw_connect(&s);
    char text[4096];
    size_t bytes;

    ck_assert_int_eq(a->status, 200);
    ck_assert(wt_json_is(wt_json_at(a->json, "status"), "ok"));
    http_close(&h);
    send_text(&r, "HEAD /health HTTP/1.0\r\n\r\n");
    bytes = fread(text, 1, sizeof text - 1, r.in);
    text[bytes] = '\0';
    ck_assert_int_eq(strncmp(text, "HTTP/1.", 7), 0);
    ck_assert_int_eq(strncmp(text + 8, " 200", 4), 0);
    /* Its Content-Length announces a body that does not come. */
    ck_assert_ptr_eq(strstr(text, "\r\n\r\n"), text + bytes - 4);
    ends(&r);
    server_stop(&s);
}

/* The weights stay; three blocks a request came and went, and few of them had
 * to be asked for. */
static void check_device_memory(const answer *stats, double requests)
{
    double held =
        number(stats, "warmpool.device_memory.0.all.held_bytes.current");

    ck_assert_double_eq(number(stats, "server.device_live"), 1);
    ck_assert_double_eq(number(stats, "server.device_blocks"),
                        1 + 3 * requests);
    ck_assert_double_ge(number(stats, "server.device_reused"),
                        3 * requests - 10);
    ck_assert(held > 0 && held <= 16 << 20);
}

/* A time for every request, in an order that times have. */
static void check_latency(const answer *stats, const char *what,
                          double requests)
{
    const char *names[] = {"p50_us", "p90_us", "p99_us", "max_us"};
    char path[64];
    double last = 1;

    snprintf(path, sizeof path, "server.latency.%s.count", what);
    ck_assert_double_eq(number(stats, path), requests);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        double value;

        snprintf(path, sizeof path, "server.latency.%s.%s", what, names[i]);
        value = number(stats, path);
        ck_assert_double_ge(value, last);
        last = value;
    }
    snprintf(path, sizeof path, "server.latency.%s.mean_us", what);
    ck_assert_double_ge(number(stats, path), 1);
    ck_assert_double_le(number(stats, path), last);
}

WT_TEST(test_latency_of_every_request_is_counted)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);
    image_set set = test_images(1);
    const answer *a;

    for (int i = 0; i < 20; i++) {
        classify(&h, set.pixels);
    }
    ask(&h, "POST", "/classify", "x", 1);
    a = ask(&h, "GET", "/stats", NULL, 0);
    check_latency(a, "service", 20);
    check_latency(a, "total", 20);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
}

WT_TEST(test_G7_metrics_equal_stats)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);
    image_set set = test_images(1);
    char requests[80], held[80];
    const answer *a;

    for (int i = 0; i < 3; i++) {
        classify(&h, set.pixels);
    }
    a = ask(&h, "GET", "/stats", NULL, 0);
    snprintf(requests, sizeof requests,
             "\nwarmpool_total_requests_total %.0f\n",
             number(a, "warmpool.total.requests"));
    snprintf(held, sizeof held, "\nwarmpool_total_held_bytes %.0f\n",
             number(a, "warmpool.total.held_bytes"));
    a = ask(&h, "GET", "/metrics", NULL, 0);
    ck_assert_int_eq(a->status, 200);
    wt_contains(a->head, "\r\nContent-Type: text/plain; version=0.0.4");
    wt_contains(a->body, "\ninference_requests_total 3\n", requests, held);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
}

/* Never below the truth, and a sixteenth above it at most. */
WT_TEST(test_latency_percentiles_are_close)
{
    static latency l;
    const unsigned percents[] = {1, 50, 90, 99, 100};

    ck_assert_uint_eq(latency_percentile_us(&l, 50), 0);
    for (uint64_t scale = 1; scale < UINT64_C(1) << 40; scale *= 32) {
        memset(&l, 0, sizeof l);
        for (uint64_t i = 1; i <= 1000; i++) {
            latency_record(&l, i * scale);
        }
        for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
            uint64_t truth = percents[i] * 10 * scale;
            uint64_t got = latency_percentile_us(&l, percents[i]);

            if (truth >> LATENCY_TOP == 0) {
                ck_assert_uint_ge(got, truth);
                ck_assert_uint_le(got, truth + truth / 16);
            }
        }
        ck_assert_uint_eq(latency_percentile_us(&l, 100), 1000 * scale);
        ck_assert_uint_eq(l.max_us, 1000 * scale);
    }
}

/* Threads that warmpool never saw created: each makes its handles once, and
 * later requests find handles and pinned buffers (rows A1, A4, B2, G1). */
WT_TEST(test_A1_B2_C1_G1_requests_share_handles_and_memory)
{
    server s = server_start(NULL, NULL);
    image_set set = test_images(200);
    load_result result;
    message why;
    double kinds = wt_on_host() ? 2 : 3;
    http h = http_open(&s);
    const answer *a;

    for (int round = 0; round < 2; round++) {
        ck_assert_msg(
            load_run(
                &(load_plan){.port = s.port, .set = &set, .connections = 4},
                &result, &why),
            "%s", why.text);
    }
    a = ask(&h, "GET", "/stats", NULL, 0);
    ck_assert_int_eq(a->status, 200);
    ck_assert(json_is_object(wt_json_at(a->json, "warmpool")));
    ck_assert_double_eq(number(a, "server.requests"), 400);
    ck_assert_double_eq(number(a, "server.images"), 400);
    ck_assert_double_eq(number(a, "server.pinned"), 400);
    /* The threads of the pool, and the one that loaded the weights. */
    ck_assert_double_le(number(a, "server.handles_created"),
                        kinds * (THREADS + 1));
    ck_assert_double_ge(number(a, "server.handles_created"), kinds);
    ck_assert_double_ge(number(a, "server.pinned_reused"), 350);
    /* Freed before the answer was sent. */
    ck_assert_double_eq(number(a, "server.pinned_live"), 0);
    check_device_memory(a, 400);
    ck_assert_int_eq(ask(&h, "POST", "/classify", "x", 1)->status, 400);
    ck_assert_double_eq(server_number(&s, "server.requests"), 400);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
}

WT_TEST(test_naive_server_gives_the_same_classes)
{
    server warm = server_start(NULL, NULL),
           naive = server_start("--naive", NULL);
    image_set set = test_images(200);
    unsigned char a[200], b[200];
    load_result result;
    message why;
    http h = http_open(&naive);
    double kinds = wt_on_host() ? 2 : 3;
    const answer *stats;

    memset(a, 0xff, sizeof a);
    ck_assert_msg(load_run(&(load_plan){.port = warm.port,
                                        .set = &set,
                                        .connections = 3,
                                        .classes = a},
                           &result, &why),
                  "%s", why.text);
    ck_assert_int_gt(result.right, 100);
    ck_assert_msg(load_run(&(load_plan){.port = naive.port,
                                        .set = &set,
                                        .connections = 3,
                                        .classes = b},
                           &result, &why),
                  "%s", why.text);
    ck_assert_mem_eq(a, b, sizeof a);
    stats = ask(&h, "GET", "/stats", NULL, 0);
    ck_assert_double_ge(number(stats, "server.handles_created"), 200 * kinds);
    ck_assert_double_eq(number(stats, "server.pinned"), 200);
    ck_assert_double_eq(number(stats, "server.pinned_reused"), 0);
    http_close(&h);
    images_free(&set);
    server_stop(&warm);
    server_stop(&naive);
}

WT_TEST(test_two_servers_run_at_once)
{
    server a = server_start(NULL, NULL), b = server_start(NULL, NULL);
    http to_a = http_open(&a), to_b = http_open(&b);
    image_set set = test_images(1);

    ck_assert_int_ne(a.port, b.port);
    ck_assert_int_eq(classify(&to_a, set.pixels)->status, 200);
    ck_assert_int_eq(classify(&to_b, set.pixels)->status, 200);
    http_close(&to_a);
    server_stop(&a);
    ck_assert_int_eq(classify(&to_b, set.pixels)->status, 200);
    http_close(&to_b);
    images_free(&set);
    server_stop(&b);
}

/* ---- graphs ---------------------------------------------------------------
 */

/* Both servers answer the same text; *requests counts how often each did. */
static void ask_both(http *eager, http *graph, const void *body, size_t bytes,
                     int *requests)
{
    const answer *a = ask(eager, "POST", "/classify", body, bytes);
    const answer *b = ask(graph, "POST", "/classify", body, bytes);

    ck_assert_int_eq(a->status, 200);
    ck_assert_int_eq(b->status, 200);
    ck_assert_str_eq(a->body, b->body);
    *requests += 1;
}

WT_CASE("graphs");

/* One connection stays with one thread: a graph for each number of images. */
WT_TEST(test_graph_server_gives_the_same_answers)
{
    const int counts[] = {3, 64, 150};
    server s = server_start(NULL, NULL), g = server_start("--graph", NULL);
    http eager = http_open(&s), graph = http_open(&g);
    image_set set = test_images(150);
    unsigned char *idx = malloc(16 + 150 * IMAGE_BYTES);
    int requests = 0;
    const answer *a;

    ck_assert_ptr_nonnull(idx);
    for (int i = 0; i < 30; i++) {
        ask_both(&eager, &graph, set.pixels + (size_t)i * IMAGE_BYTES,
                 IMAGE_BYTES, &requests);
    }
    for (int i = 0; i < 6; i++) {
        set.count = counts[i % 3];
        ask_both(&eager, &graph, idx, make_idx(&set, idx), &requests);
    }
    a = ask(&graph, "GET", "/stats", NULL, 0);
    /* Of 1, 3, 64 and 150 - 2 * 64 images; the 150 went in three turns. */
    ck_assert_double_eq(number(a, "server.captures"), 4);
    ck_assert_double_eq(number(a, "server.replays"), requests + 2 * 2 - 4);
    /* A buffer for each graph; what they work on is not live between runs. */
    ck_assert_double_eq(number(a, "server.pinned_live"), 4);
    ck_assert_double_eq(number(a, "server.device_live"), 1);
    /* The weights, and three blocks for the first of a size and its capture. */
    ck_assert_double_eq(number(a, "server.device_blocks"), 1 + 2 * 3 * 4);
    free(idx);
    http_close(&eager);
    http_close(&graph);
    images_free(&set);
    server_stop(&s);
    server_stop(&g);
}

/* Whatever thread an image comes to. */
WT_TEST(test_threads_of_a_graph_server_have_their_own)
{
    server s = server_start(NULL, NULL), g = server_start("--graph", NULL);
    image_set set = test_images(300);
    unsigned char a[300], b[300];
    load_result result;
    double captures;
    message why;
    http h = http_open(&g);
    const answer *stats;

    memset(b, 0xff, sizeof b);
    ck_assert_msg(load_run(&(load_plan){.port = s.port,
                                        .set = &set,
                                        .connections = 6,
                                        .classes = a},
                           &result, &why),
                  "%s", why.text);
    ck_assert_msg(load_run(&(load_plan){.port = g.port,
                                        .set = &set,
                                        .connections = 6,
                                        .classes = b},
                           &result, &why),
                  "%s", why.text);
    ck_assert_mem_eq(a, b, sizeof a);
    stats = ask(&h, "GET", "/stats", NULL, 0);
    captures = number(stats, "server.captures");
    ck_assert(captures >= 1 && captures <= THREADS);
    ck_assert_double_eq(number(stats, "server.replays"), 300 - captures);
    ck_assert_double_eq(number(stats, "server.pinned_live"), captures);
    ck_assert_double_eq(number(stats, "server.device_live"), 1);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
    server_stop(&g);
}
