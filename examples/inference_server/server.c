/* server.c: an HTTP server that classifies images of clothes.
 *
 *   POST /classify   784 grey bytes, an IDX3 file, or a PNG of 28x28
 *   GET  /health     {"status":"ok"}
 *   GET  /stats      what the server and warmpool did so far
 *
 * libmicrohttpd calls handle() of routes.c on threads of its own pool, which
 * warmpool never saw created. SIGTERM and SIGINT stop listening, let the
 * requests under way finish, and end with status 0. */
#include "examples/common/options.h"
#include "examples/inference_server/routes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { DRAIN_SECONDS = 20, IDLE_SECONDS = 30 };

static bool start(server *s, int port, message *why)
{
    /* This machine only: put a real server in front to face others. */
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const union MHD_DaemonInfo *info;

    /* Not epoll: MHD_quiesce_daemon() and the threads of the pool may then
     * both take the socket out of the set, which ends the process (0.9.75). */
    s->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC,
        (uint16_t)port, NULL, NULL, handle, s, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)s->threads, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_NOTIFY_COMPLETED, completed, s,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_END);
    if (s->daemon == NULL) {
        return failed(why, "could not listen on port %d", port);
    }
    info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    printf("listening on http://127.0.0.1:%u (%s, %d threads)\n", info->port,
           s->mode, s->threads);
    fflush(stdout);
    return true;
}

/* Listens no more, lets what is under way finish, and ends the daemon. */
static bool drain(server *s)
{
    MHD_socket listening = MHD_quiesce_daemon(s->daemon);
    struct timespec until;
    bool done;
    int rc = 0;

    if (listening != MHD_INVALID_SOCKET) {
        /* At once, also while a thread of the pool still waits on it. */
        shutdown(listening, SHUT_RDWR);
        close(listening);
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DRAIN_SECONDS;
    pthread_mutex_lock(&s->mutex);
    s->draining = true;
    printf("draining %d requests\n", s->in_flight);
    fflush(stdout);
    while (s->in_flight > 0 && rc == 0) {
        rc = pthread_cond_timedwait(&s->idle, &s->mutex, &until);
    }
    done = s->in_flight == 0;
    pthread_mutex_unlock(&s->mutex);
    MHD_stop_daemon(s->daemon);
    return done;
}

static bool serve(server *s, int port, message *why)
{
    sigset_t signals;
    int signal;

    /* Blocked here, and so in every thread started from here. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (!start(s, port, why)) {
        return false;
    }
    sigwait(&signals, &signal);
    return drain(s) || failed(why,
                              "requests were under way for more than %d "
                              "seconds after the signal",
                              DRAIN_SECONDS);
}

int main(int argc, char **argv)
{
    server s = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                .idle = PTHREAD_COND_INITIALIZER,
                .threads = 4,
                .max_in_flight = 64};
    classifier_options c = {.weights = "fashion-mnist.weights",
                            .driver = "auto"};
    int port = 8080;
    const option_row rows[] = {
        {"port", "0 takes a free one", .number = &port, .most = 65535},
        {"threads", "threads of the server", .number = &s.threads, .least = 1,
         .most = 256},
        {"max-in-flight", "more requests at once get a 503",
         .number = &s.max_in_flight, .least = 1, .most = 100000},
        {"weights", "file that data_parallel wrote", .text = &c.weights},
        {"driver", "auto, cuda or host", .text = &c.driver},
        {"device", "which device", .number = &c.device, .most = 63},
        {"naive", "handles and buffers anew for every request",
         .flag = &c.naive},
        {"graph", "capture the network once for each thread, and replay it",
         .flag = &c.graph},
        {.name = NULL}};
    message why = {""}, ignored;
    int status = options_read(argc, argv, rows);
    bool good;

    if (status >= 0) {
        return status;
    }
    if (c.naive && c.graph) {
        fprintf(stderr, "inference_server: --naive or --graph, not both\n");
        return 2;
    }
    s.mode = c.naive ? "naive" : c.graph ? "graph" : "warm";
    good = classifier_open(&c, &s.classifier, &why);
    if (good) {
        good = serve(&s, port, &why);
        good = classifier_close(s.classifier, good ? &why : &ignored) && good;
    }
    if (!good) {
        fprintf(stderr, "inference_server: %s\n", why.text);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
