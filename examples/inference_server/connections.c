/* connections.c: see connections.h.
 *
 * Only the thread that owns a connection may answer through libmicrohttpd, and
 * while a body arrives not even that one. So the thread that finds a request
 * overdue writes the 408 itself, and shuts the socket down; the owner then
 * reads the end of the stream, and closes it. */
#include "examples/inference_server/connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef enum phase { IDLE, RECEIVING, WORKING, SENDING, ENDED } phase;

struct peer {
    peer *next, **here; /* lock mutex, as all that follows */
    int fd;             /* open as long as this is in the list */
    phase phase;
    int64_t since_ns; /* when this phase began */
};

enum { NS_IN_MS = 1000000 };

int64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 * NS_IN_MS + t.tv_nsec;
}

bool connections_init(connections *c, message *why)
{
    c->changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&c->mutex, NULL);
    return c->changed >= 0 || failed(why, "eventfd: out of descriptors");
}

void connections_expect(connections *c)
{
    pthread_mutex_lock(&c->mutex);
    c->open++;
    pthread_mutex_unlock(&c->mutex);
}

static void one_less_locked(connections *c)
{
    c->open--;
    /* Cannot fail before 2^64 - 1 connections have ended unnoticed. */
    (void)eventfd_write(c->changed, 1);
}

void connections_forget(connections *c)
{
    pthread_mutex_lock(&c->mutex);
    one_less_locked(c);
    pthread_mutex_unlock(&c->mutex);
}

peer *peer_begin(connections *c, int fd)
{
    peer *one = calloc(1, sizeof *one);

    if (one == NULL) {
        return NULL;
    }
    one->fd = fd;
    one->since_ns = clock_ns();
    pthread_mutex_lock(&c->mutex);
    one->next = c->first;
    one->here = &c->first;
    if (one->next != NULL) {
        one->next->here = &one->next;
    }
    c->first = one;
    pthread_mutex_unlock(&c->mutex);
    return one;
}

void peer_end(connections *c, peer *one)
{
    pthread_mutex_lock(&c->mutex);
    if (one != NULL) {
        *one->here = one->next;
        if (one->next != NULL) {
            one->next->here = one->here;
        }
    }
    one_less_locked(c);
    pthread_mutex_unlock(&c->mutex);
    free(one);
}

/* Returns when the phase before began; 0 if the connection has ended. */
static int64_t move_to(connections *c, peer *one, phase next)
{
    int64_t since = 0;

    if (one == NULL) {
        return 0;
    }
    pthread_mutex_lock(&c->mutex);
    if (one->phase != ENDED) {
        since = one->since_ns;
        one->phase = next;
        one->since_ns = clock_ns();
    }
    pthread_mutex_unlock(&c->mutex);
    return since;
}

void peer_receives(connections *c, peer *one)
{
    move_to(c, one, RECEIVING);
}

bool peer_works(connections *c, peer *one, int64_t *line_ns)
{
    *line_ns = move_to(c, one, WORKING);
    return *line_ns != 0;
}

void peer_sends(connections *c, peer *one)
{
    move_to(c, one, SENDING);
}

void peer_rests(connections *c, peer *one)
{
    move_to(c, one, IDLE);
}

int connections_drain(connections *c)
{
    int open;

    pthread_mutex_lock(&c->mutex);
    c->draining = true;
    c->drained_from_ns = clock_ns();
    open = c->open;
    pthread_mutex_unlock(&c->mutex);
    return open;
}

bool connections_draining(connections *c)
{
    bool draining;

    pthread_mutex_lock(&c->mutex);
    draining = c->draining;
    pthread_mutex_unlock(&c->mutex);
    return draining;
}

int connections_open(connections *c)
{
    int open;

    pthread_mutex_lock(&c->mutex);
    open = c->open;
    pthread_mutex_unlock(&c->mutex);
    return open;
}

unsigned long long connections_timed_out(connections *c)
{
    unsigned long long timed_out;

    pthread_mutex_lock(&c->mutex);
    timed_out = c->timed_out;
    pthread_mutex_unlock(&c->mutex);
    return timed_out;
}

/* A request has arrived that the connection's thread has not read yet. */
static bool unread(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* When the connection's time is up; INT64_MAX: it has as long as it needs. */
static int64_t due_locked(const connections *c, const peer *one)
{
    int64_t from = one->since_ns, limit_ms = c->deadline_ms;

    switch (one->phase) {
    case IDLE:
        limit_ms = c->idle_ms;
        if (c->draining) {
            from = from > c->drained_from_ns ? from : c->drained_from_ns;
            limit_ms = c->linger_ms < limit_ms ? c->linger_ms : limit_ms;
        }
        break;
    case RECEIVING:
    case SENDING:
        break;
    case WORKING:
    case ENDED:
    default:
        return INT64_MAX;
    }
    return from + limit_ms * NS_IN_MS;
}

static void answer_408(int fd, int deadline_ms)
{
    char body[128], text[256];
    int length = snprintf(body, sizeof body,
                          "{\"error\":\"the request was not complete after "
                          "%d ms\"}\n",
                          deadline_ms);

    length = snprintf(text, sizeof text,
                      "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
                      "Content-Type: application/json\r\n"
                      "Content-Length: %d\r\n\r\n%s",
                      length, body);
    /* A client that does not even read this is closed all the same. */
    (void)send(fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void expire_locked(connections *c, peer *one)
{
    if (one->phase == RECEIVING) {
        answer_408(one->fd, c->deadline_ms);
        c->timed_out++;
    }
    one->phase = ENDED;
    shutdown(one->fd, SHUT_RDWR);
}

int connections_expire(connections *c)
{
    int64_t now = clock_ns(), next = INT64_MAX, wait_ms;

    pthread_mutex_lock(&c->mutex);
    /* What begins its phase from now on is due after these at the earliest. */
    wait_ms = c->deadline_ms < c->idle_ms ? c->deadline_ms : c->idle_ms;
    if (c->draining && c->linger_ms < wait_ms) {
        wait_ms = c->linger_ms;
    }
    next = now + wait_ms * NS_IN_MS;
    for (peer *one = c->first; one != NULL; one = one->next) {
        int64_t due = due_locked(c, one);

        if (due <= now && one->phase == IDLE && unread(one->fd)) {
            one->since_ns = now; /* its thread is busy with another one */
            continue;
        }
        if (due <= now) {
            expire_locked(c, one);
        } else if (due < next) {
            next = due;
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return (int)((next - now) / NS_IN_MS) + 1;
}
