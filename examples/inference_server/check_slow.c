/* check_slow.c: clients that are slow, too many or silent, and the end of the
 * example server. See check_server.c.
 *
 * A test waits for answers, ends of streams and lines of output, never for a
 * time: where the server's limits matter, they are short in tests that wait
 * for them to pass, and an hour in tests where they must not. */
#include "examples/inference_server/listener.h"
#include "examples/inference_server/served.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* An hour: does not pass. */
#define NEVER_DEADLINE "--deadline-ms=3600000"
#define NEVER_LINGER   "--linger-ms=3600000"

static const char head_of_784[] =
    "POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 784\r\n\r\n";

static double server_field(const server *s, const char *path)
{
    int status;
    char text[4096];

    ask_once(s, "GET", "/stats", NULL, 0, &status, text);
    ck_assert_int_eq(status, 200);
    return json_number(text, path, -1);
}

/* Asks until the answer has this status. */
static void ask_until(http *h, const unsigned char *pixels, int status)
{
    int got;

    do {
        got = ask(h, "POST", "/classify", pixels, IMAGE_BYTES).status;
        ck_assert(got == 200 || got == 503);
    } while (got != status);
}

static void ends(http *h)
{
    http_reply reply;

    ck_assert(!http_receive(h, &reply, &(message){""}));
    ck_assert_uint_eq(h->have, 0);
    http_close(h);
}

/* ---- slow senders ---------------------------------------------------------
 */

enum { SLOW = 64 };

WT_CASE("slow");

/* As many as the server has places, and as slow as can be. */
WT_TEST(test_slow_senders_take_no_place)
{
    server s = server_start("--max-in-flight=64", NEVER_DEADLINE);
    http slow[SLOW], other = server_connect(&s);
    image_set set = test_images(1);
    message why = {""};

    for (int i = 0; i < SLOW; i++) {
        slow[i] = begin_classify(&s);
        ck_assert(http_send(&slow[i], set.pixels, 1, &why));
    }
    ck_assert_int_eq(
        ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 200);
    ck_assert_double_eq(json_number(ask(&other, "GET", "/stats", NULL, 0).body,
                                    "server.in_flight", -1),
                        0);
    for (int i = 0; i < SLOW; i++) {
        ck_assert(http_send(&slow[i], set.pixels + 1, IMAGE_BYTES - 1, &why));
        ck_assert_int_eq(receive(&slow[i]).status, 200);
        http_close(&slow[i]);
    }
    http_close(&other);
    images_free(&set);
    server_stop(&s);
}

static const char *const incomplete[] = {
    "POST /classify HTTP/1.1\r\n", head_of_784,
    "POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
    "784\r\n\r\nx",
    "GET /health HTTP/1.1\r\nHost: loc"};

WT_TEST(test_incomplete_request_is_408_after_its_deadline)
{
    enum { COUNT = sizeof incomplete / sizeof *incomplete };
    server s = server_start("--deadline-ms=50", NULL);
    http slow[COUNT];

    for (int i = 0; i < COUNT; i++) {
        slow[i] = server_connect(&s);
        send_text(&slow[i], incomplete[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        http_reply reply = receive(&slow[i]);

        ck_assert_int_eq(reply.status, 408);
        ck_assert(json_valid(reply.body));
        ck_assert_ptr_nonnull(strstr(reply.body, "50 ms"));
        ck_assert_ptr_nonnull(strstr(reply.head, "Connection: close"));
        ends(&slow[i]);
    }
    ck_assert_double_eq(server_field(&s, "server.timed_out"), COUNT);
    server_stop(&s);
}

WT_TEST(test_connection_without_a_request_is_closed)
{
    server s = server_start("--idle-ms=50", NEVER_DEADLINE);
    http fresh = server_connect(&s), half = server_connect(&s);

    send_text(&half, "POST /clas");
    ends(&fresh);
    ends(&half);
    ck_assert_double_eq(server_field(&s, "server.timed_out"), 0);
    server_stop(&s);
}

/* ---- too many -------------------------------------------------------------
 */

enum { MOST = 1024, MOST_BYTES = MOST * IMAGE_BYTES };

/* A client that sends requests of 1024 images and reads no answer. */
typedef struct deaf {
    http http;
    char head[128];
    unsigned char *body;
    size_t head_bytes, body_bytes;
} deaf;

static deaf deaf_begin(const server *s)
{
    deaf d = {.http = server_connect(s), .body = malloc(16 + MOST_BYTES)};
    image_set set = test_images(MOST);

    ck_assert_ptr_nonnull(d.body);
    d.body_bytes = make_idx(&set, d.body);
    d.head_bytes =
        (size_t)snprintf(d.head, sizeof d.head,
                         "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         d.body_bytes);
    images_free(&set);
    return d;
}

/* Until the connection is cut off. Any thread. */
static void *deaf_run(void *argument)
{
    deaf *d = argument;
    message why = {""};

    while (http_send(&d->http, d->head, d->head_bytes, &why) &&
           http_send(&d->http, d->body, d->body_bytes, &why)) {
    }
    return NULL;
}

static void deaf_end(deaf *d)
{
    http_close(&d->http);
    free(d->body);
}

WT_CASE("many");

/* A place is taken until the answer has been sent: here by a client that does
 * not read its answers, once they fill the sockets' buffers. */
WT_TEST(test_overload_is_503_and_a_lost_client_frees_its_place)
{
    server s = server_start("--max-in-flight=1", NEVER_DEADLINE);
    http other = server_connect(&s);
    deaf d = deaf_begin(&s);
    image_set set = test_images(1);
    pthread_t thread;
    http_reply reply;

    ck_assert_int_eq(pthread_create(&thread, NULL, deaf_run, &d), 0);
    do {
        reply = ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES);
    } while (reply.status != 503);
    ck_assert(json_valid(reply.body));
    ck_assert_ptr_nonnull(http_header(&reply, "Retry-After"));
    /* Only classification is bounded. */
    ck_assert_int_eq(ask(&other, "GET", "/health", NULL, 0).status, 200);
    ck_assert_double_ge(server_field(&s, "server.refused"), 1);
    shutdown(d.http.fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    deaf_end(&d);
    ask_until(&other, set.pixels, 200);
    http_close(&other);
    images_free(&set);
    server_stop(&s);
}

WT_TEST(test_client_that_does_not_read_is_cut_off)
{
    const char *request = "GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n";
    server s = server_start("--deadline-ms=500", NULL);
    http h = server_connect(&s);
    message why = {""};

    /* Short requests, which are complete at once, and long answers. */
    while (http_send(&h, request, strlen(request), &why)) {
    }
    http_close(&h);
    server_stop(&s);
}

/* More connections wait in the queue, and are served after others. */
WT_TEST(test_more_connections_wait_for_those_that_are_open)
{
    server s = server_start("--max-connections=2", NULL);
    http a = server_connect(&s), b = server_connect(&s), c;
    http_reply reply;

    ck_assert_int_eq(ask(&a, "GET", "/health", NULL, 0).status, 200);
    ck_assert_int_eq(ask(&b, "GET", "/health", NULL, 0).status, 200);
    c = server_connect(&s);
    send_text(&c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_double_eq(
        json_number((reply = ask(&a, "GET", "/stats", NULL, 0)).body,
                    "server.connections", -1),
        2);
    http_close(&a);
    ck_assert_int_eq(receive(&c).status, 200);
    http_close(&b);
    http_close(&c);
    server_stop(&s);
}

/* ---- the end --------------------------------------------------------------
 */

static void signal_and_wait(server *s)
{
    char line[256];

    ck_assert_int_eq(kill(s->process.pid, SIGTERM), 0);
    ck_assert(process_line(&s->process, "draining", false, line, sizeof line));
}

WT_CASE("end");

/* One with half a request, one that has been answered before, and one from
 * which nothing has come yet. */
WT_TEST(test_sigterm_serves_the_connections_that_are_open)
{
    server s = server_start(NEVER_LINGER, NEVER_DEADLINE);
    http open[] = {begin_classify(&s), server_connect(&s), server_connect(&s)};
    http late;
    image_set set = test_images(1);
    message why = {""};

    ck_assert_int_eq(
        ask(&open[1], "POST", "/classify", set.pixels, IMAGE_BYTES).status,
        200);
    signal_and_wait(&s);
    ck_assert(!http_open(&late, s.port, &why));
    send_text(&open[1], head_of_784);
    send_text(&open[2], head_of_784);
    for (int i = 0; i < 3; i++) {
        http_reply reply;

        ck_assert(http_send(&open[i], set.pixels, IMAGE_BYTES, &why));
        reply = receive(&open[i]);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_ptr_nonnull(strstr(reply.head, "Connection: close"));
        ck_assert(json_valid(reply.body));
        ends(&open[i]);
    }
    images_free(&set);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}

/* Clients that arrived while the server could not accept them. */
WT_TEST(test_sigterm_serves_the_connections_of_the_queue)
{
    enum { QUEUED = 8 };
    server s = server_start(NULL, NULL);
    http queued[QUEUED];
    image_set set = test_images(1);
    message why = {""};

    ck_assert_int_eq(kill(s.process.pid, SIGSTOP), 0);
    for (int i = 0; i < QUEUED; i++) {
        queued[i] = server_connect(&s);
        send_text(&queued[i], head_of_784);
        ck_assert(http_send(&queued[i], set.pixels, IMAGE_BYTES, &why));
    }
    ck_assert_int_eq(kill(s.process.pid, SIGTERM), 0);
    ck_assert_int_eq(kill(s.process.pid, SIGCONT), 0);
    for (int i = 0; i < QUEUED; i++) {
        ck_assert_int_eq(receive(&queued[i]).status, 200);
        http_close(&queued[i]);
    }
    images_free(&set);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}

WT_TEST(test_sigterm_closes_silent_connections_after_a_moment)
{
    server s = server_start("--linger-ms=50", "--drain-ms=3600000");
    http silent[] = {server_connect(&s), server_connect(&s)};

    ck_assert_int_eq(ask(&silent[0], "GET", "/health", NULL, 0).status, 200);
    signal_and_wait(&s);
    ends(&silent[0]);
    ends(&silent[1]);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}

WT_TEST(test_draining_is_bounded_and_tells_what_was_lost)
{
    server s = server_start("--drain-ms=50", NEVER_DEADLINE);
    http slow = begin_classify(&s);

    signal_and_wait(&s);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_FAILURE);
    ends(&slow);
}

WT_TEST(test_second_signal_ends_at_once)
{
    server s = server_start("--drain-ms=3600000", NEVER_DEADLINE);
    http slow = begin_classify(&s);

    signal_and_wait(&s);
    ck_assert_int_eq(process_end(&s.process, SIGINT), EXIT_FAILURE);
    ends(&slow);
}

/* Nobody joins the queue once it is stopped; who is in it stays. */
WT_TEST(test_stopped_listener_lets_nobody_in)
{
    int port = 0, first, late;
    message why = {""};
    int listening = listener_open(&port, &why);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    http queued;

    ck_assert_msg(listening >= 0, "%s", why.text);
    ck_assert(http_open(&queued, port, &why));
    listener_stop(listening);
    late = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)connect(late, (struct sockaddr *)&address, sizeof address);
    first = listener_accept(listening);
    ck_assert_int_ge(first, 0);
    ck_assert_int_lt(listener_accept(listening), 0);
    close(first);
    close(late);
    close(listening);
    http_close(&queued);
}

/* ---- the end, under load --------------------------------------------------
 */

enum { CLIENTS = 8, WARM_UP = 50 };

typedef struct client {
    pthread_t thread;
    const server *server;
    const unsigned char *pixels;
    bool reuse;  /* the connection */
    sem_t *warm; /* posted after some answers */
    int answered, other, lost;
} client;

/* One request; false: the client is cut off, or told to go. */
static bool ask_one(client *c, http *h)
{
    http_reply reply;
    message why = {""};
    const char *more = c->reuse ? "" : "Connection: close\r\n";

    if (!http_ask(h, "POST", "/classify", more, c->pixels, IMAGE_BYTES, &reply,
                  &why)) {
        c->lost++;
        return false;
    }
    c->answered += reply.status == 200;
    c->other += reply.status != 200;
    if (c->answered == WARM_UP) {
        sem_post(c->warm);
    }
    return strstr(reply.head, "Connection: close") == NULL;
}

/* Until the server lets nobody in any more. */
static void *keep_asking(void *argument)
{
    client *c = argument;
    message why = {""};
    http h;

    while (http_open(&h, c->server->port, &why)) {
        while (ask_one(c, &h)) {
        }
        http_close(&h);
    }
    return NULL;
}

WT_CASE("load");

WT_LOOP_TEST(test_sigterm_under_load_loses_no_request, 2)
{
    server s = server_start(NEVER_LINGER, NULL);
    client clients[CLIENTS];
    image_set set = test_images(1);
    sem_t warm;

    sem_init(&warm, 0, 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.server = &s,
                              .pixels = set.pixels,
                              .reuse = _i != 0,
                              .warm = &warm};
        ck_assert_int_eq(
            pthread_create(&clients[i].thread, NULL, keep_asking, &clients[i]),
            0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        sem_wait(&warm);
    }
    ck_assert_int_eq(process_end(&s.process, SIGTERM), EXIT_SUCCESS);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        ck_assert_int_eq(clients[i].lost, 0);
        ck_assert_int_eq(clients[i].other, 0);
    }
    sem_destroy(&warm);
    images_free(&set);
}
