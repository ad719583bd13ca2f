/* server.c: an HTTP server that classifies images of clothes.
 *
 *   POST /classify   784 grey bytes, an IDX3 file, or a PNG of 28x28
 *   GET  /health     {"status":"ok"}
 *   GET  /stats      what the server and warmpool did so far
 *   PUT  /watermarks "HIGH LOW" bytes, with --tunable
 *
 * libmicrohttpd reads requests and calls routes.c on threads of its own, which
 * warmpool never saw created. The main thread accepts connections, deals them
 * out, ends those that take too long (connections.h), and waits for signals.
 * SIGTERM and SIGINT stop listening, serve the connections that are open, and
 * end with status 0; a second one ends at once. */
#include "examples/common/notes.h"
#include "examples/common/options.h"
#include "examples/inference_server/listener.h"
#include "examples/inference_server/routes.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { MAX_THREADS = 256, MAX_CONNECTIONS = 10000, MAX_MS = 3600000 };
enum { FULL_MS = 100, OTHER_DESCRIPTORS = 64 };

/* The main thread's. */
typedef struct door {
    server *s;
    struct MHD_Daemon *daemons[MAX_THREADS]; /* a thread each */
    int signals;                             /* signalfd */
    int listening;                           /* -1: not any more */
    int next;                                /* daemon for a connection */
    int drain_ms;
    bool full; /* no connection is accepted for FULL_MS, or until one ends */
    bool draining;
    int64_t end_ns; /* of draining; a signal sets it */
} door;

/* A daemon each thread, rather than libmicrohttpd's pool: only so can the
 * accepting stay here, where none gets lost when the server ends. */
static bool start_threads(door *d, message *why)
{
    for (int i = 0; i < d->s->threads; i++) {
        d->daemons[i] = MHD_start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC,
            0, NULL, NULL, handle, d->s, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)d->s->max_connections, MHD_OPTION_NOTIFY_CONNECTION,
            connected, d->s, MHD_OPTION_URI_LOG_CALLBACK, requested, d->s,
            MHD_OPTION_NOTIFY_COMPLETED, completed, d->s, MHD_OPTION_END);
        if (d->daemons[i] == NULL) {
            return failed(why, "could not start thread %d of %d: %s", i + 1,
                          d->s->threads, strerrordesc_np(errno));
        }
    }
    return true;
}

static void close_door(door *d)
{
    close(d->listening);
    d->listening = -1;
}

/* Hands over the connections that wait in the queue. While the server drains
 * none joins the queue: the door closes behind the last one. */
static void accept_all(door *d)
{
    connections *c = &d->s->connections;

    while (connections_open(c) < d->s->max_connections) {
        int fd = listener_accept(d->listening);

        if (fd < 0) {
            d->full = errno == EMFILE || errno == ENFILE;
            if (d->draining && !d->full) {
                close_door(d);
            }
            return;
        }
        connections_expect(c);
        d->next = (d->next + 1) % d->s->threads;
        /* It closes the socket if it cannot take it. */
        if (MHD_add_connection(d->daemons[d->next], fd, NULL, 0) != MHD_YES) {
            connections_forget(c);
        }
    }
    d->full = true;
}

static void drain(door *d)
{
    int open;

    listener_stop(d->listening);
    d->draining = true;
    accept_all(d);
    open = connections_drain(&d->s->connections);
    d->end_ns = clock_ns() + (int64_t)d->drain_ms * 1000000;
    printf("draining, for %d ms at most; open connections: %d\n", d->drain_ms,
           open);
    fflush(stdout);
}

static void take_signal(door *d)
{
    struct signalfd_siginfo signal;

    if (read(d->signals, &signal, sizeof signal) != sizeof signal) {
        return;
    }
    if (!d->draining) {
        drain(d);
    } else {
        d->end_ns = clock_ns();
    }
}

static int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

/* Until the server has been told to end, and the last connection has ended or
 * the time for that is over. Returns how many connections are left, at least.
 */
static int watch(door *d)
{
    connections *c = &d->s->connections;
    eventfd_t ended;

    for (;;) {
        int wait_ms = connections_expire(c);
        struct pollfd ready[] = {
            {.fd = d->signals, .events = POLLIN},
            {.fd = c->changed, .events = POLLIN},
            {.fd = d->full ? -1 : d->listening, .events = POLLIN}};

        if (d->draining) {
            int64_t left_ms = (d->end_ns - clock_ns()) / 1000000 + 1;
            int left = connections_open(c) + (d->listening >= 0);

            if (left == 0 || left_ms <= 0) {
                return left;
            }
            wait_ms = least(left_ms, wait_ms);
        }
        if (poll(ready, 3, d->full ? least(FULL_MS, wait_ms) : wait_ms) < 0) {
            continue;
        }
        if (ready[1].revents != 0) {
            (void)eventfd_read(c->changed, &ended);
        }
        d->full = false;
        if (ready[0].revents != 0) {
            take_signal(d);
        } else if (d->listening >= 0) {
            accept_all(d);
        }
    }
}

static void stop_threads(door *d)
{
    for (int i = 0; i < d->s->threads && d->daemons[i] != NULL; i++) {
        MHD_stop_daemon(d->daemons[i]);
    }
}

static bool serve(door *d, int port, message *why)
{
    server *s = d->s;
    bool good;
    int left;

    d->listening = listener_open(&port, why);
    good = d->listening >= 0 && start_threads(d, why);
    if (good) {
        printf("listening on http://127.0.0.1:%d (%s, threads: %d)\n", port,
               s->mode, s->threads);
        fflush(stdout);
        left = watch(d);
        good = left == 0 ||
               failed(why,
                      "connections still open when the time to drain was over, "
                      "and lost: %d; --drain-ms gives them longer",
                      left);
    }
    if (d->listening >= 0) {
        close_door(d);
    }
    stop_threads(d);
    return good;
}

/* SIGTERM and SIGINT, blocked here and so in every thread started later. */
static int open_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* One for each connection, and more for threads, devices and libraries. */
static void raise_descriptors(const server *s)
{
    rlim_t need =
        (rlim_t)s->max_connections + (rlim_t)s->threads + OTHER_DESCRIPTORS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < need) {
        limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_cur < need) {
            fprintf(stderr,
                    "inference_server: --max-connections %d takes %ju "
                    "descriptors, the limit is %ju (ulimit -Hn): connections "
                    "beyond it wait\n",
                    s->max_connections, (uintmax_t)need,
                    (uintmax_t)limit.rlim_cur);
        }
    }
}

/* All that is there until the classifier is, and after it. */
static bool run(door *d, const classifier_options *c, int port, message *why)
{
    server *s = d->s;
    message ignored;
    bool good;

    raise_descriptors(s);
    d->signals = open_signals();
    good = d->signals >= 0 || failed(why, "signalfd: out of descriptors");
    good = good && connections_init(&s->connections, why);
    if (good && classifier_open(c, &s->classifier, why)) {
        good = serve(d, port, why);
        good = classifier_close(s->classifier, good ? why : &ignored) && good;
    } else {
        good = false;
    }
    return good;
}

int main(int argc, char **argv)
{
    static server s = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                       .threads = 4,
                       .max_in_flight = 64,
                       .max_connections = 256,
                       .connections = {.deadline_ms = 10000,
                                       .idle_ms = 30000,
                                       .linger_ms = 500}};
    static door d = {.s = &s, .drain_ms = 20000, .listening = -1};
    classifier_options c = {.weights = "fashion-mnist.weights",
                            .driver = "auto"};
    int port = 8080;
    const option_row rows[] = {
        {"port", "TCP port; 0 takes a free one", .number = &port,
         .most = 65535},
        {"threads", "threads that answer", .number = &s.threads, .least = 1,
         .most = MAX_THREADS},
        {"max-connections", "open at once; more wait to be accepted",
         .number = &s.max_connections, .least = 1, .most = MAX_CONNECTIONS},
        {"max-in-flight", "requests received, not answered; more get 503",
         .number = &s.max_in_flight, .least = 1, .most = 100000},
        {"deadline-ms", "a request not complete by then gets 408",
         .number = &s.connections.deadline_ms, .least = 1, .most = MAX_MS},
        {"idle-ms", "a connection without a request is closed then",
         .number = &s.connections.idle_ms, .least = 1, .most = MAX_MS},
        {"tunable", "PUT /watermarks sets the watermarks of memory",
         .flag = &s.tunable},
        {"drain-ms", "after SIGTERM: time to finish what is open",
         .number = &d.drain_ms, .most = MAX_MS},
        {"linger-ms", "after SIGTERM: time to begin a request",
         .number = &s.connections.linger_ms, .most = MAX_MS},
        {"weights", "file that data_parallel wrote", .text = &c.weights},
        {"driver", "auto, cuda or host", .text = &c.driver},
        {"device", "which device", .number = &c.device, .most = 63},
        {"naive", "handles and buffers anew for every request",
         .flag = &c.naive},
        {"graph", "capture the network once for each thread, and replay it",
         .flag = &c.graph},
        {.name = NULL}};
    message why = {.text = ""};
    int status = options_read(argc, argv, rows);

    if (status >= 0) {
        return status;
    }
    if (c.naive && c.graph) {
        fprintf(stderr, "inference_server: --naive or --graph, not both\n");
        return 2;
    }
    notes_to_stderr();
    s.mode = c.naive ? "naive" : c.graph ? "graph" : "warm";
    if (!run(&d, &c, port, &why)) {
        fprintf(stderr, "inference_server: %s\n", why.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
