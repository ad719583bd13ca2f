/* check_crowd.c: a thousand clients of the example server at once: fast ones,
 * slow ones, and some that go away. See check_server.c.
 *
 * One thread plays all clients, a turn after the other; in a turn each sends or
 * reads as many bytes as is its manner. Whoever does not go away gets each
 * answer whole, also when SIGTERM comes in between, and then the server ends
 * with status 0. CROWD_S seconds of rounds (`make soak`) show whether memory
 * piles up in the server; a short run plays a few, in which it is still growing
 * to what a crowd needs: there, AddressSanitizer tells a leak. */
#include "examples/inference_server/raw.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CROWD = 1000,
    HEAD = 512,
    ALL = 1 << 20,

    NEVER = -1,
    WARM_UP = 2
};

#define POST "POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 784\r\n\r\n"
#define GET  "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

/* How a client behaves. */
static const struct manner {
    size_t send, read; /* bytes a turn */
    size_t leave;      /* goes away once so many bytes are sent; 0: does not */
    int requests;
    bool page;  /* asks for the page, which is long */
    bool reset; /* goes away by a reset */
} manners[] = {
    {ALL, ALL, 0, 3, false, false},  {ALL, ALL, 0, 2, true, false},
    {1, ALL, 0, 1, true, false},     {20, ALL, 0, 1, false, false},
    {ALL, 500, 0, 1, true, false},   {300, ALL, 300, 1, false, false},
    {ALL, ALL, 840, 1, false, true}, {ALL, ALL, sizeof GET - 1, 1, true, true}};
enum { MANNERS = sizeof manners / sizeof *manners };

typedef struct client {
    const struct manner *how;
    int fd, requests; /* to make */
    size_t sent, got; /* of this request and its answer */
    char head[HEAD + 1];
    uint64_t since_ns; /* of this request */
} client;

static client crowd[CROWD];
static char post[sizeof POST - 1 + IMAGE_BYTES];
static size_t answers, refused, lost;
static uint64_t slowest_ns; /* answer of a client that is not slow */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool is_slow(const client *c)
{
    return c->how->send < ALL || c->how->read < ALL;
}

static void go_away(client *c)
{
    struct linger now = {.l_onoff = c->how->reset};

    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(c->fd);
    c->fd = -1;
}

static void come(client *c, int number, const server *s)
{
    raw r = raw_connect(s);
    int few = 1;

    *c = (client){.how = &manners[number % MANNERS], .fd = dup(r.fd)};
    ck_assert_int_ge(c->fd, 0);
    raw_close(&r);
    c->requests = c->how->requests;
    if (is_slow(c)) {
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    }
}

/* Of the answer, once its head is there; else more than there can be. */
static size_t answer_bytes(const client *c)
{
    const char *body = strstr(c->head, "\r\n\r\n");
    const char *length = strstr(c->head, "Content-Length: ");

    return body == NULL || length == NULL
               ? SIZE_MAX
               : (size_t)(body + 4 - c->head) + strtoul(length + 16, NULL, 10);
}

static void take_answer(client *c)
{
    uint64_t took_ns = now_ns() - c->since_ns;

    answers++;
    refused += strncmp(c->head, "HTTP/1.1 503", 12) == 0;
    lost += strncmp(c->head, "HTTP/1.1 503", 12) != 0 &&
            strncmp(c->head, "HTTP/1.1 200", 12) != 0;
    if (!is_slow(c) && took_ns > slowest_ns) {
        slowest_ns = took_ns;
    }
    if (--c->requests == 0 || strstr(c->head, "Connection: close") != NULL) {
        go_away(c);
    }
    c->sent = c->got = 0;
    memset(c->head, 0, sizeof c->head);
}

static void read_more(client *c)
{
    static char bytes[ALL];
    ssize_t got = recv(c->fd, bytes, c->how->read, MSG_DONTWAIT);
    size_t room = HEAD - (c->got < HEAD ? c->got : HEAD);

    if (got <= 0) {
        lost += got == 0 || errno != EAGAIN;
        if (got == 0 || errno != EAGAIN) {
            go_away(c);
        }
        return;
    }
    memcpy(c->head + c->got, bytes, (size_t)got < room ? (size_t)got : room);
    c->got += (size_t)got;
    if (c->got >= answer_bytes(c)) {
        take_answer(c);
    }
}

static size_t request_bytes(const client *c)
{
    return c->how->page ? sizeof GET - 1 : sizeof post;
}

static void send_more(client *c)
{
    size_t left = request_bytes(c) - c->sent;
    ssize_t sent = send(c->fd, (c->how->page ? GET : post) + c->sent,
                        left < c->how->send ? left : c->how->send,
                        MSG_DONTWAIT | MSG_NOSIGNAL);

    c->since_ns = c->sent == 0 ? now_ns() : c->since_ns;
    if (sent < 0 && errno != EAGAIN) {
        lost++;
        go_away(c);
        return;
    }
    c->sent += sent > 0 ? (size_t)sent : 0;
    if (c->how->leave > 0 && c->sent >= c->how->leave) {
        go_away(c);
    }
}

/* Returns how many clients are left; the slow ones may wait. */
static int take_turn(bool slow_wait)
{
    static struct pollfd ready[CROWD];
    int left = 0;

    for (int i = 0; i < CROWD; i++) {
        client *c = &crowd[i];
        bool moves = c->fd >= 0 && !(slow_wait && is_slow(c) && c->sent > 0);

        ready[i] = (struct pollfd){
            .fd = moves ? c->fd : -1,
            .events = c->sent < request_bytes(c) ? POLLOUT : POLLIN};
        left += moves;
    }
    ck_assert_int_ge(poll(ready, CROWD, left > 0 ? 60000 : 0), left > 0);
    for (int i = 0; i < CROWD; i++) {
        if (ready[i].revents != 0) {
            (ready[i].events == POLLOUT ? send_more : read_more)(&crowd[i]);
        }
    }
    return left;
}

/* In turn so many, SIGTERM is sent. */
static void play_round(const server *s, bool slow_wait, int signal_at)
{
    int left = CROWD;

    for (int i = 0; i < CROWD; i++) {
        come(&crowd[i], i, s);
    }
    while (slow_wait && take_turn(true) > 0) {
    }
    for (int turn = 0; left > 0; turn++) {
        if (turn == signal_at) {
            ck_assert_int_eq(kill(s->process.pid, SIGTERM), 0);
        }
        left = take_turn(false);
    }
    ck_assert_uint_eq(lost, 0);
}

static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int entries = 0;

    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL) {
        entries++;
    }
    closedir(folder);
    return entries;
}

/* Once only the one that asks is connected. A descriptor is closed a moment
 * after its connection has been counted out. */
static void take_figures(const server *s, int *descriptors, long *resident)
{
    wt_linger linger = {0};
    char path[64];
    FILE *file;

    while (server_number(s, "server.connections") > 1) {
    }
    snprintf(path, sizeof path, "/proc/%d/fd", (int)s->process.pid);
    *descriptors = count_entries(path);
    while (wt_lingers(&linger)) {
        int now = count_entries(path);

        *descriptors = now < *descriptors ? now : *descriptors;
    }
    snprintf(path, sizeof path, "/proc/%d/statm", (int)s->process.pid);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*d %ld", resident), 1);
    fclose(file);
}

static void make_post(void)
{
    image_set set = test_images(1);

    memcpy(post, POST, sizeof POST - 1);
    memcpy(post + sizeof POST - 1, set.pixels, IMAGE_BYTES);
    images_free(&set);
}

/* The server raises its limit by itself. */
static server start_with_few_descriptors(const char *const more[4])
{
    struct rlimit limit;
    server s;

    prlimit(0, RLIMIT_NOFILE, NULL, &limit);
    ck_assert_msg(limit.rlim_max > 2 * CROWD, "ulimit -Hn: at least %d",
                  2 * CROWD);
    limit.rlim_cur = CROWD / 4;
    setrlimit(RLIMIT_NOFILE, &limit);
    s = server_start_with(more);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return s;
}

WT_CASE("crowd", .timeout = 86400, .setup = make_post);

static const struct {
    const char *connections; /* fewer than come: the others wait for them */
    bool slow_wait;          /* until the others have been answered */
    int signal_at;
} crowds[] = {{"--max-connections=1100", true, 3},
              {"--max-connections=1100", true, 20},
              {"--max-connections=256", false, 0},
              {"--max-connections=256", false, 30}};

WT_LOOP_TEST(test_T8_a_thousand_clients_are_answered_until_the_end,
             sizeof crowds / sizeof *crowds)
{
    const char *more[4] = {crowds[_i].connections, "--deadline-ms=3600000",
                           "--linger-ms=3600000", "--drain-ms=3600000"};
    const char *seconds = getenv("CROWD_S");
    double until_s = seconds != NULL ? strtod(seconds, NULL) / 4 : 0;
    server s = start_with_few_descriptors(more);
    uint64_t begin_ns = now_ns();
    int rounds = 0, before = 0, after;
    long was = 0, is;

    do {
        play_round(&s, crowds[_i].slow_wait, NEVER);
        take_figures(&s, &after, &is);
        before = ++rounds <= WARM_UP ? after : before;
        if (rounds <= WARM_UP ||
            (double)(now_ns() - begin_ns) * 1e-9 < until_s / 4) {
            was = is;
        }
        ck_assert_int_eq(after, before);
    } while (rounds < 2 * WARM_UP ||
             (double)(now_ns() - begin_ns) * 1e-9 < until_s);
    printf("crowd: %s: rounds: %d, answers: %zu (503: %zu), slowest of those "
           "who are not slow: %.0f ms, descriptors: %d, resident: %ld to %ld "
           "pages\n",
           crowds[_i].connections, rounds, answers, refused,
           (double)slowest_ns * 1e-6, after, was, is);
    ck_assert(seconds == NULL || WT_ASAN || WT_TSAN || is <= was + was / 8);
    play_round(&s, false, crowds[_i].signal_at);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}

/* The server looks again from time to time: no connection ends there. */
WT_TEST(test_T8_clients_are_served_once_there_are_descriptors_again)
{
    server s = server_start(NULL, NULL);
    wt_linger linger = {0};
    struct rlimit limit, none;
    raw r;

    prlimit(s.process.pid, RLIMIT_NOFILE, NULL, &limit);
    none = (struct rlimit){3, limit.rlim_max};
    prlimit(s.process.pid, RLIMIT_NOFILE, &none, NULL);
    r = raw_connect(&s);
    send_text(&r, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    while (wt_lingers(&linger)) {
    }
    prlimit(s.process.pid, RLIMIT_NOFILE, &limit, NULL);
    ck_assert_int_eq(receive(&r)->status, 200);
    raw_close(&r);
    server_stop(&s);
}
