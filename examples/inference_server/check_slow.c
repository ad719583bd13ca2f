/* check_slow.c: clients that are slow, too many or silent, and the end of the
 * example server. See check_server.c.
 *
 * A test waits for answers, ends of streams and lines of output, never for a
 * time: where the server's limits matter, they are short in tests that wait
 * for them to pass, and an hour in tests where they must not. */
#include "examples/inference_server/listener.h"
#include "examples/inference_server/raw.h"

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

/* Asks until the answer has this status. */
static void ask_until(http *h, const unsigned char *pixels, int status)
{
    long got;

    do {
        got = classify(h, pixels)->status;
        ck_assert(got == 200 || got == 503);
    } while (got != status);
}

/* ---- slow senders ---------------------------------------------------------
 */

enum { SLOW = 64 };

WT_CASE("slow");

/* As many as the server has places, and as slow as can be. */
WT_TEST(test_slow_senders_take_no_place)
{
    server s = server_start("--max-in-flight=64", NEVER_DEADLINE);
    raw slow[SLOW];
    http other = http_open(&s);
    image_set set = test_images(1);

    for (int i = 0; i < SLOW; i++) {
        slow[i] = begin_classify(&s);
        ck_assert(raw_send(&slow[i], set.pixels, 1));
    }
    ck_assert_int_eq(classify(&other, set.pixels)->status, 200);
    ck_assert_double_eq(
        number(ask(&other, "GET", "/stats", NULL, 0), "server.in_flight"), 0);
    for (int i = 0; i < SLOW; i++) {
        ck_assert(raw_send(&slow[i], set.pixels + 1, IMAGE_BYTES - 1));
        ck_assert_int_eq(receive(&slow[i])->status, 200);
        raw_close(&slow[i]);
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
    raw slow[COUNT];

    for (int i = 0; i < COUNT; i++) {
        slow[i] = raw_connect(&s);
        send_text(&slow[i], incomplete[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        const answer *a = receive(&slow[i]);

        ck_assert_int_eq(a->status, 408);
        ck_assert_ptr_nonnull(a->json);
        ck_assert_ptr_nonnull(strstr(a->body, "50 ms"));
        ck_assert_ptr_nonnull(strstr(a->head, "Connection: close"));
        ends(&slow[i]);
    }
    ck_assert_double_eq(server_number(&s, "server.timed_out"), COUNT);
    server_stop(&s);
}

WT_TEST(test_connection_without_a_request_is_closed)
{
    server s = server_start("--idle-ms=50", NEVER_DEADLINE);
    raw fresh = raw_connect(&s), half = raw_connect(&s);

    send_text(&half, "POST /clas");
    ends(&fresh);
    ends(&half);
    ck_assert_double_eq(server_number(&s, "server.timed_out"), 0);
    server_stop(&s);
}

/* ---- too many -------------------------------------------------------------
 */

enum { MOST = 1024, MOST_BYTES = MOST * IMAGE_BYTES };

/* A client that sends requests of 1024 images and reads no answer. */
typedef struct deaf {
    raw raw;
    char head[128];
    unsigned char *body;
    size_t head_bytes, body_bytes;
} deaf;

static deaf deaf_begin(const server *s)
{
    deaf d = {.raw = raw_connect(s), .body = malloc(16 + MOST_BYTES)};
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

    while (raw_send(&d->raw, d->head, d->head_bytes) &&
           raw_send(&d->raw, d->body, d->body_bytes)) {
    }
    return NULL;
}

static void deaf_end(deaf *d)
{
    raw_close(&d->raw);
    free(d->body);
}

WT_CASE("many");

/* A place is taken until the answer has been sent: here by a client that does
 * not read its answers, once they fill the sockets' buffers. */
WT_TEST(test_overload_is_503_and_a_lost_client_frees_its_place)
{
    server s = server_start("--max-in-flight=1", NEVER_DEADLINE);
    http other = http_open(&s);
    deaf d = deaf_begin(&s);
    image_set set = test_images(1);
    pthread_t thread;
    const answer *a;

    ck_assert_int_eq(pthread_create(&thread, NULL, deaf_run, &d), 0);
    do {
        a = classify(&other, set.pixels);
    } while (a->status != 503);
    ck_assert_ptr_nonnull(a->json);
    ck_assert_ptr_nonnull(strstr(a->head, "\r\nRetry-After: "));
    /* Only classification is bounded. */
    ck_assert_int_eq(ask(&other, "GET", "/health", NULL, 0)->status, 200);
    ck_assert_double_ge(server_number(&s, "server.refused"), 1);
    shutdown(d.raw.fd, SHUT_RDWR);
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
    raw r = raw_connect(&s);

    /* Short requests, which are complete at once, and long answers. */
    while (raw_send(&r, request, strlen(request))) {
    }
    raw_close(&r);
    server_stop(&s);
}

/* More connections wait in the queue, and are served after others. */
WT_TEST(test_more_connections_wait_for_those_that_are_open)
{
    server s = server_start("--max-connections=2", NULL);
    http a = http_open(&s), b = http_open(&s);
    raw c;

    ck_assert_int_eq(ask(&a, "GET", "/health", NULL, 0)->status, 200);
    ck_assert_int_eq(ask(&b, "GET", "/health", NULL, 0)->status, 200);
    c = raw_connect(&s);
    send_text(&c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_double_eq(
        number(ask(&a, "GET", "/stats", NULL, 0), "server.connections"), 2);
    http_close(&a);
    ck_assert_int_eq(receive(&c)->status, 200);
    http_close(&b);
    raw_close(&c);
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
    raw open[] = {begin_classify(&s), raw_connect(&s), raw_connect(&s)};
    raw late;
    image_set set = test_images(1);

    send_text(&open[1], head_of_784);
    ck_assert(raw_send(&open[1], set.pixels, IMAGE_BYTES));
    ck_assert_int_eq(receive(&open[1])->status, 200);
    signal_and_wait(&s);
    ck_assert(!raw_open(&late, s.port));
    send_text(&open[1], head_of_784);
    send_text(&open[2], head_of_784);
    for (int i = 0; i < 3; i++) {
        const answer *a;

        ck_assert(raw_send(&open[i], set.pixels, IMAGE_BYTES));
        a = receive(&open[i]);
        ck_assert_int_eq(a->status, 200);
        ck_assert_ptr_nonnull(strstr(a->head, "Connection: close"));
        ck_assert_ptr_nonnull(a->json);
        ends(&open[i]);
    }
    images_free(&set);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}

WT_TEST(test_sigterm_closes_silent_connections_after_a_moment)
{
    server s = server_start("--linger-ms=50", "--drain-ms=3600000");
    raw silent[] = {raw_connect(&s), raw_connect(&s)};

    send_text(&silent[0], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_int_eq(receive(&silent[0])->status, 200);
    signal_and_wait(&s);
    ends(&silent[0]);
    ends(&silent[1]);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}

WT_TEST(test_draining_is_bounded_and_tells_what_was_lost)
{
    server s = server_start("--drain-ms=50", NEVER_DEADLINE);
    raw slow = begin_classify(&s);

    signal_and_wait(&s);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_FAILURE);
    ends(&slow);
}

WT_TEST(test_second_signal_ends_at_once)
{
    server s = server_start("--drain-ms=3600000", NEVER_DEADLINE);
    raw slow = begin_classify(&s);

    signal_and_wait(&s);
    ck_assert_int_eq(process_end(&s.process, SIGINT), EXIT_FAILURE);
    ends(&slow);
}

/* Nobody joins the queue once it is stopped; who is in it stays. */
WT_TEST(test_stopped_listener_lets_nobody_in)
{
    int port = 0, first, late;
    message why = {.text = ""};
    int listening = listener_open(&port, &why);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    raw queued;

    ck_assert_msg(listening >= 0, "%s", why.text);
    ck_assert(raw_open(&queued, port));
    listener_stop(listening);
    late = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)connect(late, (struct sockaddr *)&address, sizeof address);
    first = listener_accept(listening);
    ck_assert_int_ge(first, 0);
    ck_assert_int_lt(listener_accept(listening), 0);
    close(first);
    close(late);
    close(listening);
    raw_close(&queued);
}

/* ---- the end, under load --------------------------------------------------
 */

enum { CLIENTS = 8, WARM_UP = 50 };

typedef struct client {
    pthread_t thread;
    http http;
    const unsigned char *pixels;
    bool reuse;  /* the connection */
    sem_t *warm; /* posted after some answers */
    int answered, other, lost;
} client;

/* curl asks once more, on a new connection, where the server has cut off the
 * one that was open: a loss that only the number of connections shows. */
static void count(client *c, CURLcode code, bool open)
{
    long connected = 0;

    curl_easy_getinfo(c->http.easy, CURLINFO_NUM_CONNECTS, &connected);
    if (code != CURLE_OK || connected != !open) {
        c->lost++;
    } else if (c->http.answer.status == 200) {
        c->answered++;
    } else {
        c->other++;
    }
    if (c->answered == WARM_UP) {
        sem_post(c->warm);
    }
}

/* Until the server lets nobody in any more. */
static void *keep_asking(void *argument)
{
    client *c = argument;
    struct curl_slist *more = curl_slist_append(NULL, "Connection: close");
    bool open = false;

    if (!c->reuse) {
        curl_easy_setopt(c->http.easy, CURLOPT_HTTPHEADER, more);
    }
    for (;;) {
        CURLcode code =
            http_ask(&c->http, "POST", "/classify", c->pixels, IMAGE_BYTES);

        if (code == CURLE_COULDNT_CONNECT && !open) {
            break;
        }
        count(c, code, open);
        open = code == CURLE_OK &&
               strstr(c->http.answer.head, "Connection: close") == NULL;
    }
    curl_slist_free_all(more);
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
        clients[i] = (client){.http = http_open(&s),
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
        http_close(&clients[i].http);
        ck_assert_int_eq(clients[i].lost, 0);
        ck_assert_int_eq(clients[i].other, 0);
    }
    sem_destroy(&warm);
    images_free(&set);
}
