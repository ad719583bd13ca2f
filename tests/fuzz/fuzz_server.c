/* fuzz_server.c: what the examples' server receives. The first byte says how
 * the server is, the second how many bytes come at a time; the others are the
 * client's, over a socket, to libmicrohttpd and what it calls. In the end the
 * connection and its requests are gone. The first pixel stands for a class. */
#include "fuzz/fuzz.h"

#include "examples/inference_server/decode.h"
#include "examples/inference_server/routes.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TUNABLE = 1, DRAINING = 2, FULL = 4, LATE = 8 }; /* of the first byte */
enum { HOUR_MS = 3600000 };

static server s = {.mode = "fuzz",
                   .connections = {.idle_ms = HOUR_MS, .linger_ms = HOUR_MS}};
static struct MHD_Daemon *http;

bool classify(classifier *c, const unsigned char *pixels, int count,
              answer *answers, message *why)
{
    memset(answers, 0, (size_t)count * sizeof *answers);
    answers[0].class = pixels[(size_t)count * IMAGE_BYTES - 1] % CLASSES;
    why->out_of_memory = pixels[0] == 2;
    return pixels[0] == 0 || failed(why, "the \"first\" pixel\n");
}

void classifier_get_stats(classifier *c, classifier_stats *stats)
{
    *stats = (classifier_stats){.driver = "none"};
}

bool classifier_set_watermarks(classifier *c, uint64_t high, uint64_t low,
                               message *why)
{
    return low <= high || failed(why, "the low watermark is above the high");
}

char *classifier_watermarks(classifier *c)
{
    return strdup("{}");
}

char *classifier_text(classifier *c, classifier_writer *write)
{
    return write == warm_stats_json ? strdup("{}") : NULL;
}

static void begin(void)
{
    message why;

    ck_assert(connections_init(&s.connections, &why));
    http = MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, handle, &s,
                            MHD_OPTION_NOTIFY_CONNECTION, connected, &s,
                            MHD_OPTION_URI_LOG_CALLBACK, requested, &s,
                            MHD_OPTION_NOTIFY_COMPLETED, completed, &s,
                            MHD_OPTION_END);
    ck_assert_ptr_nonnull(http);
}

static void run(int client)
{
    static char answers[1 << 16];

    ck_assert_int_eq(MHD_run(http), MHD_YES);
    (void)connections_expire(&s.connections);
    (void)recv(client, answers, sizeof answers, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t part = bytes > 1 ? 1 + (size_t)data[1] * 16 : 0;
    int ends[2];

    if (part == 0) {
        return -1;
    }
    if (http == NULL) {
        begin();
    }
    s.tunable = (data[0] & TUNABLE) != 0;
    s.connections.draining = (data[0] & DRAINING) != 0;
    s.connections.deadline_ms = (data[0] & LATE) != 0 ? 0 : HOUR_MS;
    s.max_in_flight = (data[0] & FULL) == 0;
    wt_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0,
               "no sockets");
    connections_expect(&s.connections);
    ck_assert_int_eq(MHD_add_connection(http, ends[0], NULL, 0), MHD_YES);
    for (size_t at = 2; at < bytes; at += part) {
        (void)send(ends[1], data + at, part < bytes - at ? part : bytes - at,
                   MSG_NOSIGNAL);
        run(ends[1]);
    }
    shutdown(ends[1], SHUT_WR);
    for (int i = 0; i < 1000 && connections_open(&s.connections) > 0; i++) {
        run(ends[1]);
    }
    close(ends[1]);
    ck_assert_int_eq(connections_open(&s.connections), 0);
    ck_assert_int_eq(s.in_flight, 0);
    return 0;
}
