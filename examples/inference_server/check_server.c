/* check_server.c: the example server, asked everything over real sockets.
 *
 * Runs the programs that lie beside this one; `make check-examples` builds
 * them and trains check.weights for a moment. What a test waits for is an
 * answer or a line of output, never a time: "Expect: 100-continue" tells that
 * a request is under way without its body. */
#include "examples/common/http.h"
#include "examples/common/json.h"
#include "examples/common/process.h"
#include "examples/demo/load.h"
#include "tests/wt.h"

#include <png.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, BODY_LIMIT = 16 + 1024 * IMAGE_BYTES };

typedef struct server {
    process process;
    int port;
} server;

/* The path of a program or file beside this program. */
static const char *beside(const char *name, char path[1024])
{
    ssize_t length = readlink("/proc/self/exe", path, 900);
    char *slash;

    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    slash = strrchr(path, '/');
    ck_assert_ptr_nonnull(slash);
    snprintf(slash + 1, 100, "%s", name);
    return path;
}

/* Starts a server with up to two more arguments; a null ends them. */
static server start(const char *more, const char *value)
{
    char program[1024], weights[1024], line[256];
    const char *argv[] = {beside("inference_server", program),
                          "--port",
                          "0",
                          "--threads",
                          "3",
                          "--weights",
                          beside("check.weights", weights),
                          "--driver",
                          wt_on_host() ? "host" : "cuda",
                          more,
                          value,
                          NULL};
    const char *head = "listening on http://127.0.0.1:";
    server s;
    message why;

    ck_assert_msg(process_start(&s.process, argv, &why), "%s", why.text);
    ck_assert(process_line(&s.process, head, false, line, sizeof line));
    s.port = (int)strtol(line + strlen(head), NULL, 10);
    ck_assert_int_gt(s.port, 0);
    return s;
}

static void stop(server *s)
{
    ck_assert_int_eq(process_end(&s->process, SIGTERM), EXIT_SUCCESS);
}

static http connect_to(const server *s)
{
    http h;
    message why;

    ck_assert_msg(http_open(&h, s->port, &why), "%s", why.text);
    return h;
}

static http_reply ask(http *h, const char *method, const char *path,
                      const void *body, size_t bytes)
{
    http_reply reply;
    message why;

    ck_assert_msg(http_ask(h, method, path, "", body, bytes, &reply, &why),
                  "%s %s: %s", method, path, why.text);
    return reply;
}

/* Asks on a connection of its own; *status and text are copies. */
static void ask_once(const server *s, const char *method, const char *path,
                     const void *body, size_t bytes, int *status,
                     char text[4096])
{
    http h = connect_to(s);
    http_reply reply = ask(&h, method, path, body, bytes);

    *status = reply.status;
    snprintf(text, 4096, "%s", reply.body);
    http_close(&h);
}

static void send_text(http *h, const char *text)
{
    message why;

    ck_assert_msg(http_send(h, text, strlen(text), &why), "%s", why.text);
}

static http_reply receive(http *h)
{
    http_reply reply;
    message why;

    ck_assert_msg(http_receive(h, &reply, &why), "%s", why.text);
    return reply;
}

/* A request that is under way and waits for its body. */
static http begin_classify(const server *s)
{
    http h = connect_to(s);

    send_text(&h, "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Length: 784\r\nExpect: 100-continue\r\n\r\n");
    ck_assert_int_eq(receive(&h).status, 100);
    return h;
}

static image_set test_images(int count)
{
    const char *folder = getenv("EXAMPLES_DATA");
    image_set set;
    message why;

    ck_assert_msg(images_load(folder != NULL ? folder : IMAGES_FOLDER, "t10k",
                              &set, &why),
                  "%s", why.text);
    set.count = count;
    return set;
}

static size_t make_png(int width, const unsigned char *pixels,
                       unsigned char *out, size_t room)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = IMAGE_SIDE,
                       .format = PNG_FORMAT_GRAY};
    png_alloc_size_t bytes = room;

    ck_assert_int_ne(
        png_image_write_to_memory(&image, out, &bytes, 0, pixels, 0, NULL), 0);
    return bytes;
}

static size_t make_idx(const image_set *set, unsigned char *out)
{
    const unsigned char head[16] = {
        0, 0, 8, 3,  0, 0, 0, (unsigned char)set->count,
        0, 0, 0, 28, 0, 0, 0, 28};
    size_t bytes = (size_t)set->count * IMAGE_BYTES;

    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, set->pixels, bytes);
    return sizeof head + bytes;
}

/* ---- answers ------------------------------------------------------------ */

START_TEST(test_image_is_answered_the_same_raw_png_and_idx)
{
    server s = start(NULL, NULL);
    http h = connect_to(&s);
    image_set set = test_images(3);
    unsigned char png[4096], idx[4096];
    char label[32];
    http_reply reply = ask(&h, "POST", "/classify", set.pixels, IMAGE_BYTES);
    double class = json_number(reply.body, "class", -1);
    double probability;

    ck_assert_int_eq(reply.status, 200);
    ck_assert(json_valid(reply.body));
    ck_assert(class >= 0 && class < CLASSES);
    probability = json_number(reply.body, "probability", -1);
    ck_assert(probability > 0.1 && probability <= 1);
    ck_assert_str_eq(json_string(reply.body, "label", label, sizeof label),
                     class_names[(int)class]);

    reply = ask(&h, "POST", "/classify", png,
                make_png(IMAGE_SIDE, set.pixels, png, sizeof png));
    ck_assert_int_eq(reply.status, 200);
    ck_assert_double_eq(json_number(reply.body, "class", -1), class);

    reply = ask(&h, "POST", "/classify", idx, make_idx(&set, idx));
    ck_assert_int_eq(reply.status, 200);
    ck_assert(json_valid(reply.body));
    ck_assert_double_eq(json_number(reply.body, "images", -1), 3);
    ck_assert_double_eq(json_number(reply.body, "predictions.0.class", -1),
                        class);
    ck_assert_ptr_nonnull(json_find(reply.body, "predictions.2"));
    ck_assert_ptr_null(json_find(reply.body, "predictions.3"));
    http_close(&h);
    images_free(&set);
    stop(&s);
}
END_TEST

/* More images than fit on the device at once, against one a request. */
START_TEST(test_large_idx_file_equals_single_images)
{
    server s = start(NULL, NULL);
    http h = connect_to(&s);
    image_set set = test_images(150);
    unsigned char *idx = malloc(16 + 150 * IMAGE_BYTES), classes[150];
    load_result result;
    message why;
    http_reply reply;

    ck_assert_ptr_nonnull(idx);
    ck_assert_msg(load_run(s.port, &set, 2, false, classes, &result, &why),
                  "%s", why.text);
    reply = ask(&h, "POST", "/classify", idx, make_idx(&set, idx));
    ck_assert_int_eq(reply.status, 200);
    ck_assert(json_valid(reply.body));
    for (int i = 0; i < set.count; i++) {
        char path[64];

        snprintf(path, sizeof path, "predictions.%d.class", i);
        ck_assert_double_eq(json_number(reply.body, path, -1), classes[i]);
    }
    free(idx);
    http_close(&h);
    images_free(&set);
    stop(&s);
}
END_TEST

/* ---- refusals ----------------------------------------------------------- */

static void refused_with_400(http *h, const void *body, size_t bytes)
{
    http_reply reply = ask(h, "POST", "/classify", body, bytes);

    ck_assert_int_eq(reply.status, 400);
    ck_assert(json_valid(reply.body));
    ck_assert_ptr_nonnull(strstr(reply.body, "784 bytes"));
    ck_assert_ptr_nonnull(strstr(reply.body, "PNG of 28x28"));
}

START_TEST(test_bad_images_are_refused_with_what_was_expected)
{
    server s = start(NULL, NULL);
    http h = connect_to(&s);
    image_set set = test_images(2);
    unsigned char png[4096], idx[4096];
    size_t bytes = make_png(IMAGE_SIDE, set.pixels, png, sizeof png);

    refused_with_400(&h, "", 0);
    refused_with_400(&h, set.pixels, IMAGE_BYTES - 1);
    refused_with_400(&h, set.pixels, IMAGE_BYTES + 1);
    refused_with_400(&h, png, bytes / 2);
    memset(png + 20, 0x5a, bytes - 20);
    refused_with_400(&h, png, bytes);
    bytes = make_png(IMAGE_SIDE - 1, set.pixels, png, sizeof png);
    refused_with_400(&h, png, bytes);
    bytes = make_idx(&set, idx);
    refused_with_400(&h, idx, bytes - 1);
    refused_with_400(&h, idx, 4);
    idx[7] = 0;
    refused_with_400(&h, idx, 16);
    idx[4] = 0xff;
    refused_with_400(&h, idx, bytes);
    /* And the connection still works. */
    ck_assert_int_eq(
        ask(&h, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 200);
    http_close(&h);
    images_free(&set);
    stop(&s);
}
END_TEST

static const struct {
    const char *method, *path;
    int status;
    const char *allow;
} wrong[] = {
    {"GET", "/", 404, NULL},
    {"POST", "/classify/", 404, NULL},
    {"GET", "/classifyme", 404, NULL},
    {"GET", "/classify", 405, "POST"},
    {"PUT", "/classify", 405, "POST"},
    {"POST", "/health", 405, "GET, HEAD"},
    {"DELETE", "/stats", 405, "GET, HEAD"},
};

START_TEST(test_unknown_path_is_404_and_wrong_method_405_with_allow)
{
    server s = start(NULL, NULL);
    http h = connect_to(&s);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        http_reply reply = ask(&h, wrong[i].method, wrong[i].path, "x", 1);
        const char *allow = http_header(&reply, "Allow");

        ck_assert_int_eq(reply.status, wrong[i].status);
        ck_assert(json_valid(reply.body));
        if (wrong[i].allow == NULL) {
            ck_assert_ptr_null(allow);
        } else {
            ck_assert_ptr_nonnull(allow);
            ck_assert_int_eq(
                strncmp(allow, wrong[i].allow, strlen(wrong[i].allow)), 0);
            ck_assert_int_eq(allow[strlen(wrong[i].allow)], '\r');
        }
    }
    http_close(&h);
    stop(&s);
}
END_TEST

/* Without a body having been sent: the head is enough. */
START_TEST(test_too_large_a_body_is_413)
{
    server s = start(NULL, NULL);
    http h = connect_to(&s);
    char head[256];
    http_reply reply;

    snprintf(head, sizeof head,
             "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
             "Content-Length: %d\r\nExpect: 100-continue\r\n\r\n",
             BODY_LIMIT + 1);
    send_text(&h, head);
    reply = receive(&h);
    ck_assert_int_eq(reply.status, 413);
    ck_assert(json_valid(reply.body));
    http_close(&h);
    stop(&s);
}
END_TEST

START_TEST(test_too_large_a_chunked_body_is_413)
{
    server s = start(NULL, NULL);
    http h = connect_to(&s);
    char *zeros = calloc(1, BODY_LIMIT + 1), head[32];
    message why;
    http_reply reply;

    ck_assert_ptr_nonnull(zeros);
    send_text(&h, "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n");
    snprintf(head, sizeof head, "%x\r\n", BODY_LIMIT + 1);
    send_text(&h, head);
    ck_assert(http_send(&h, zeros, BODY_LIMIT + 1, &why));
    send_text(&h, "\r\n0\r\n\r\n");
    reply = receive(&h);
    ck_assert_int_eq(reply.status, 413);
    ck_assert(json_valid(reply.body));
    free(zeros);
    http_close(&h);
    stop(&s);
}
END_TEST

START_TEST(test_overload_is_503_with_retry_after)
{
    server s = start("--max-in-flight", "1");
    http slow = begin_classify(&s), other = connect_to(&s);
    image_set set = test_images(1);
    http_reply reply =
        ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES);
    message why;
    int status;

    ck_assert_int_eq(reply.status, 503);
    ck_assert(json_valid(reply.body));
    ck_assert_ptr_nonnull(http_header(&reply, "Retry-After"));
    /* Only classification is bounded. */
    ck_assert_int_eq(ask(&other, "GET", "/health", NULL, 0).status, 200);
    reply = ask(&other, "GET", "/stats", NULL, 0);
    ck_assert_double_eq(json_number(reply.body, "server.refused", -1), 1);
    ck_assert_double_eq(json_number(reply.body, "server.in_flight", -1), 1);

    ck_assert(http_send(&slow, set.pixels, IMAGE_BYTES, &why));
    ck_assert_int_eq(receive(&slow).status, 200);
    /* The place is free a moment after the answer has arrived. */
    do {
        status =
            ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES).status;
    } while (status == 503);
    ck_assert_int_eq(status, 200);
    http_close(&slow);
    http_close(&other);
    images_free(&set);
    stop(&s);
}
END_TEST

/* A client that leaves in the middle of its body frees its place. */
START_TEST(test_lost_connection_frees_its_place)
{
    server s = start("--max-in-flight", "1");
    http slow = begin_classify(&s), other = connect_to(&s);
    image_set set = test_images(1);
    int status;

    http_close(&slow);
    do {
        status =
            ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES).status;
    } while (status == 503);
    ck_assert_int_eq(status, 200);
    http_close(&other);
    images_free(&set);
    stop(&s);
}
END_TEST

/* ---- state -------------------------------------------------------------- */

START_TEST(test_health_answers_get_and_head)
{
    server s = start(NULL, NULL);
    http h = connect_to(&s);
    http_reply reply = ask(&h, "GET", "/health", NULL, 0);
    char status[16];

    ck_assert_int_eq(reply.status, 200);
    ck_assert(json_valid(reply.body));
    ck_assert_str_eq(json_string(reply.body, "status", status, sizeof status),
                     "ok");
    http_close(&h);
    h = connect_to(&s);
    send_text(&h, "HEAD /health HTTP/1.0\r\n\r\n");
    /* Its Content-Length announces a body that does not come. */
    ck_assert(!http_receive(&h, &reply, &(message){""}));
    ck_assert_int_eq(strncmp(h.buffer, "HTTP/1.", 7), 0);
    ck_assert_int_eq(strncmp(h.buffer + 8, " 200", 4), 0);
    http_close(&h);
    stop(&s);
}
END_TEST

/* The weights stay; three blocks a request came and went, and few of them had
 * to be asked for. */
static void check_device_memory(const char *stats, double requests)
{
    const char *memory = "warmpool.device_memory.0.all.reserved_bytes.current";
    double held = json_number(stats, memory, -1);

    ck_assert_double_eq(json_number(stats, "server.device_live", -1), 1);
    ck_assert_double_eq(json_number(stats, "server.device_blocks", -1),
                        1 + 3 * requests);
    ck_assert_double_ge(json_number(stats, "server.device_reused", -1),
                        3 * requests - 10);
    ck_assert(held > 0 && held <= 16 << 20);
}

/* Threads that warmpool never saw created: each makes its handles once, and
 * later requests find handles and pinned buffers (rows A1, A4, B2, G1). */
START_TEST(test_A1_B2_C1_G1_requests_share_handles_and_memory)
{
    server s = start(NULL, NULL);
    image_set set = test_images(200);
    load_result result;
    int status;
    char text[4096];
    message why;

    for (int round = 0; round < 2; round++) {
        ck_assert_msg(load_run(s.port, &set, 4, false, NULL, &result, &why),
                      "%s", why.text);
    }
    {
        http h = connect_to(&s);
        http_reply reply = ask(&h, "GET", "/stats", NULL, 0);
        double kinds = wt_on_host() ? 2 : 3;

        ck_assert_int_eq(reply.status, 200);
        ck_assert_msg(json_valid(reply.body), "%s", reply.body);
        ck_assert_ptr_nonnull(json_find(reply.body, "warmpool"));
        ck_assert_int_eq(*json_find(reply.body, "warmpool"), '{');
        ck_assert_double_eq(json_number(reply.body, "server.requests", -1),
                            400);
        ck_assert_double_eq(json_number(reply.body, "server.images", -1), 400);
        ck_assert_double_eq(json_number(reply.body, "server.pinned", -1), 400);
        /* The threads of the pool, and the one that loaded the weights. */
        ck_assert_double_le(
            json_number(reply.body, "server.handles_created", 1e9),
            kinds * (THREADS + 1));
        ck_assert_double_ge(
            json_number(reply.body, "server.handles_created", 0), kinds);
        ck_assert_double_ge(json_number(reply.body, "server.pinned_reused", -1),
                            350);
        /* Freed before the answer was sent. */
        ck_assert_double_eq(json_number(reply.body, "server.pinned_live", -1),
                            0);
        check_device_memory(reply.body, 400);
        http_close(&h);
    }
    ask_once(&s, "POST", "/classify", "x", 1, &status, text);
    ck_assert_int_eq(status, 400);
    ask_once(&s, "GET", "/stats", NULL, 0, &status, text);
    ck_assert_double_eq(json_number(text, "server.requests", -1), 400);
    images_free(&set);
    stop(&s);
}
END_TEST

START_TEST(test_naive_server_gives_the_same_classes)
{
    server warm = start(NULL, NULL), naive = start("--naive", NULL);
    image_set set = test_images(200);
    unsigned char a[200], b[200];
    load_result result;
    message why;
    http h = connect_to(&naive);
    double kinds = wt_on_host() ? 2 : 3;
    http_reply reply;

    memset(a, 0xff, sizeof a);
    ck_assert_msg(load_run(warm.port, &set, 3, false, a, &result, &why), "%s",
                  why.text);
    ck_assert_int_gt(result.right, 100);
    ck_assert_msg(load_run(naive.port, &set, 3, false, b, &result, &why), "%s",
                  why.text);
    ck_assert_mem_eq(a, b, sizeof a);
    reply = ask(&h, "GET", "/stats", NULL, 0);
    ck_assert_double_ge(json_number(reply.body, "server.handles_created", -1),
                        200 * kinds);
    ck_assert_double_eq(json_number(reply.body, "server.pinned", -1), 200);
    ck_assert_double_eq(json_number(reply.body, "server.pinned_reused", -1), 0);
    http_close(&h);
    images_free(&set);
    stop(&warm);
    stop(&naive);
}
END_TEST

/* ---- graphs ---------------------------------------------------------------
 */

/* Both servers answer the same text; *requests counts how often each did. */
static void ask_both(http *eager, http *graph, const void *body, size_t bytes,
                     int *requests)
{
    http_reply a = ask(eager, "POST", "/classify", body, bytes);
    http_reply b = ask(graph, "POST", "/classify", body, bytes);

    ck_assert_int_eq(a.status, 200);
    ck_assert_int_eq(b.status, 200);
    ck_assert_str_eq(a.body, b.body);
    *requests += 1;
}

/* One connection stays with one thread: a graph for each number of images. */
START_TEST(test_graph_server_gives_the_same_answers)
{
    const int counts[] = {3, 64, 150};
    server s = start(NULL, NULL), g = start("--graph", NULL);
    http eager = connect_to(&s), graph = connect_to(&g);
    image_set set = test_images(150);
    unsigned char *idx = malloc(16 + 150 * IMAGE_BYTES);
    int requests = 0;
    http_reply reply;

    ck_assert_ptr_nonnull(idx);
    for (int i = 0; i < 30; i++) {
        ask_both(&eager, &graph, set.pixels + (size_t)i * IMAGE_BYTES,
                 IMAGE_BYTES, &requests);
    }
    for (int i = 0; i < 6; i++) {
        set.count = counts[i % 3];
        ask_both(&eager, &graph, idx, make_idx(&set, idx), &requests);
    }
    reply = ask(&graph, "GET", "/stats", NULL, 0);
    /* Of 1, 3, 64 and 150 - 2 * 64 images; the 150 went in three turns. */
    ck_assert_double_eq(json_number(reply.body, "server.captures", -1), 4);
    ck_assert_double_eq(json_number(reply.body, "server.replays", -1),
                        requests + 2 * 2 - 4);
    /* A buffer for each graph; what they work on is not live between runs. */
    ck_assert_double_eq(json_number(reply.body, "server.pinned_live", -1), 4);
    ck_assert_double_eq(json_number(reply.body, "server.device_live", -1), 1);
    /* The weights, and three blocks for the first of a size and its capture. */
    ck_assert_double_eq(json_number(reply.body, "server.device_blocks", -1),
                        1 + 2 * 3 * 4);
    free(idx);
    http_close(&eager);
    http_close(&graph);
    images_free(&set);
    stop(&s);
    stop(&g);
}
END_TEST

/* Whatever thread an image comes to. */
START_TEST(test_threads_of_a_graph_server_have_their_own)
{
    server s = start(NULL, NULL), g = start("--graph", NULL);
    image_set set = test_images(300);
    unsigned char a[300], b[300];
    load_result result;
    double captures;
    message why;
    int status;
    char text[4096];

    memset(b, 0xff, sizeof b);
    ck_assert_msg(load_run(s.port, &set, 6, false, a, &result, &why), "%s",
                  why.text);
    ck_assert_msg(load_run(g.port, &set, 6, false, b, &result, &why), "%s",
                  why.text);
    ck_assert_mem_eq(a, b, sizeof a);
    ask_once(&g, "GET", "/stats", NULL, 0, &status, text);
    captures = json_number(text, "server.captures", -1);
    ck_assert(captures >= 1 && captures <= THREADS);
    ck_assert_double_eq(json_number(text, "server.replays", -1),
                        300 - captures);
    ck_assert_double_eq(json_number(text, "server.pinned_live", -1), captures);
    ck_assert_double_eq(json_number(text, "server.device_live", -1), 1);
    images_free(&set);
    stop(&s);
    stop(&g);
}
END_TEST

START_TEST(test_two_servers_run_at_once)
{
    server a = start(NULL, NULL), b = start(NULL, NULL);
    http to_a = connect_to(&a), to_b = connect_to(&b);
    image_set set = test_images(1);

    ck_assert_int_ne(a.port, b.port);
    ck_assert_int_eq(
        ask(&to_a, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 200);
    ck_assert_int_eq(
        ask(&to_b, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 200);
    http_close(&to_a);
    stop(&a);
    ck_assert_int_eq(
        ask(&to_b, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 200);
    http_close(&to_b);
    images_free(&set);
    stop(&b);
}
END_TEST

/* ---- end ---------------------------------------------------------------- */

START_TEST(test_sigterm_drains_a_request_in_flight)
{
    server s = start(NULL, NULL);
    http slow = begin_classify(&s), late;
    image_set set = test_images(1);
    char line[256];
    message why;
    http_reply reply;

    ck_assert_int_eq(kill(s.process.pid, SIGTERM), 0);
    ck_assert(process_line(&s.process, "draining", false, line, sizeof line));
    ck_assert_str_eq(line, "draining 1 requests");
    ck_assert(!http_open(&late, s.port, &why));
    ck_assert(http_send(&slow, set.pixels, IMAGE_BYTES, &why));
    reply = receive(&slow);
    ck_assert_int_eq(reply.status, 200);
    ck_assert(json_valid(reply.body));
    ck_assert_ptr_nonnull(http_header(&reply, "Connection"));
    http_close(&slow);
    images_free(&set);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}
END_TEST

/* One that has not begun yet is refused while the server drains. */
START_TEST(test_sigterm_refuses_new_requests_on_old_connections)
{
    server s = start(NULL, NULL);
    http slow = begin_classify(&s), idle = connect_to(&s);
    image_set set = test_images(1);
    char line[256];
    message why;

    ck_assert_int_eq(ask(&idle, "GET", "/health", NULL, 0).status, 200);
    ck_assert_int_eq(kill(s.process.pid, SIGTERM), 0);
    ck_assert(process_line(&s.process, "draining", false, line, sizeof line));
    ck_assert_int_eq(
        ask(&idle, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 503);
    ck_assert(http_send(&slow, set.pixels, IMAGE_BYTES, &why));
    ck_assert_int_eq(receive(&slow).status, 200);
    http_close(&slow);
    http_close(&idle);
    images_free(&set);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}
END_TEST

/* Starts a program that is to fail, and returns its status. */
static int status_of(const char *name, const char *option, const char *value)
{
    char program[1024];
    const char *argv[] = {beside(name, program), option, value, NULL};
    process p;
    message why;

    ck_assert_msg(process_start(&p, argv, &why), "%s", why.text);
    return process_end(&p, 0);
}

START_TEST(test_wrong_options_and_missing_files_are_errors)
{
    ck_assert_int_eq(status_of("inference_server", "--weights", "/nowhere"),
                     EXIT_FAILURE);
    ck_assert_int_eq(status_of("inference_server", "--driver", "abacus"),
                     EXIT_FAILURE);
    ck_assert_int_eq(status_of("inference_server", "--port", "65536"), 2);
    ck_assert_int_eq(status_of("inference_server", "--prot", "0"), 2);
    ck_assert_int_eq(status_of("inference_server", "--graph", "--naive"), 2);
    ck_assert_int_eq(status_of("data_parallel", "--data", "/nowhere"),
                     EXIT_FAILURE);
    ck_assert_int_eq(status_of("demo", "--data", "/nowhere"), EXIT_FAILURE);
}
END_TEST

START_TEST(test_missing_images_are_named_with_the_package)
{
    image_set set;
    message why;

    ck_assert(!images_load("/nowhere", "t10k", &set, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/t10k-images-idx3-ubyte"));
    ck_assert_ptr_nonnull(strstr(why.text, "dataset-fashion-mnist"));
    ck_assert_ptr_nonnull(strstr(why.text, "--data"));
}
END_TEST

/* The judge of the tests above is judged here. */
START_TEST(test_json_valid_tells_right_from_wrong)
{
    const char *right[] = {"{}", " [ ] ",
                           "{\"a\":[1,-2.5e-3,true,null,\"\\u00e9\\n\"]}", "0",
                           "{\"a\":{\"b\":{}},\"c\":\"\"}"};
    const char *bad[] = {"",    "{",       "{\"a\":}", "[1,]", "{\"a\" 1}",
                         "01",  "[1 2]",   "\"a",      "{}x",  "{\"a\":1,}",
                         "nul", "\"\\x\"", "1.",       "-"};

    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        ck_assert_msg(json_valid(right[i]), "%s", right[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!json_valid(bad[i]), "%s", bad[i]);
    }
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test)
{
    TCase *tcase = tcase_create(name);

    tcase_add_test(tcase, test);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("inference_server");

    add(suite, "answer", test_image_is_answered_the_same_raw_png_and_idx);
    add(suite, "answer", test_large_idx_file_equals_single_images);
    add(suite, "refuse", test_bad_images_are_refused_with_what_was_expected);
    add(suite, "refuse",
        test_unknown_path_is_404_and_wrong_method_405_with_allow);
    add(suite, "refuse", test_too_large_a_body_is_413);
    add(suite, "refuse", test_too_large_a_chunked_body_is_413);
    add(suite, "refuse", test_overload_is_503_with_retry_after);
    add(suite, "refuse", test_lost_connection_frees_its_place);
    add(suite, "state", test_health_answers_get_and_head);
    add(suite, "state", test_A1_B2_C1_G1_requests_share_handles_and_memory);
    add(suite, "state", test_naive_server_gives_the_same_classes);
    add(suite, "graphs", test_graph_server_gives_the_same_answers);
    add(suite, "graphs", test_threads_of_a_graph_server_have_their_own);
    add(suite, "state", test_two_servers_run_at_once);
    add(suite, "end", test_sigterm_drains_a_request_in_flight);
    add(suite, "end", test_sigterm_refuses_new_requests_on_old_connections);
    add(suite, "end", test_wrong_options_and_missing_files_are_errors);
    add(suite, "end", test_missing_images_are_named_with_the_package);
    add(suite, "json", test_json_valid_tells_right_from_wrong);
    return wt_main(suite);
}
