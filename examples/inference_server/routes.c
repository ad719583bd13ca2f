/* routes.c: see routes.h.
 *
 * handle() is called with the head of a request, then with each part of its
 * body, then once more; at that last call the request is admitted, and its
 * answer queued. Slow senders thus take no place from others. */
#include "examples/inference_server/routes.h"

#include "examples/inference_server/decode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One request, from its head until its answer has been sent. */
typedef struct request {
    int status;        /* decided by the head already: what to answer, or 0 */
    const char *allow; /* the header of a 405 */
    bool sets;         /* PUT: what else is read is set */
    bool admitted;     /* counted in in_flight */
    bool classified;   /* with success */
    int64_t line_ns;   /* when the request line had been read */
    int64_t body_ns;   /* and the whole body */
    size_t bytes, room;
    unsigned char *body;
} request;

static const char json_type[] = "application/json";

/* Queues the text, which is taken and freed, as the answer. */
static enum MHD_Result answer_as(server *s, struct MHD_Connection *connection,
                                 int status, const char *allow,
                                 const char *type, char *text)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    if (text == NULL) {
        return MHD_NO; /* out of memory: the connection is closed */
    }
    response = MHD_create_response_from_buffer(strlen(text), text,
                                               MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", type);
    if (allow != NULL) {
        MHD_add_response_header(response, "Allow", allow);
    }
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE) {
        MHD_add_response_header(response, "Retry-After", "1");
    }
    if (connections_draining(&s->connections)) {
        MHD_add_response_header(response, "Connection", "close");
    }
    result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_text(server *s, struct MHD_Connection *connection,
                                   int status, const char *allow, char *text)
{
    return answer_as(s, connection, status, allow, json_type, text);
}

/* An error; the text is plain ASCII but for what libpng may have quoted. */
static enum MHD_Result answer_error(server *s,
                                    struct MHD_Connection *connection,
                                    int status, const char *allow,
                                    const char *text)
{
    char clean[sizeof(message)];
    char *json = NULL;

    snprintf(clean, sizeof clean, "%s", text);
    for (char *at = clean; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\' || *at < ' ' || *at > '~') {
            *at = '\'';
        }
    }
    if (asprintf(&json, "{\"error\":\"%s\"}\n", clean) < 0) {
        json = NULL;
    }
    return answer_text(s, connection, status, allow, json);
}

static const char *error_of(int status)
{
    switch (status) {
    case MHD_HTTP_NOT_FOUND:
        return "there are POST /classify, GET /, /health, /stats, /snapshot, "
               "/metrics and /watermarks";
    case MHD_HTTP_METHOD_NOT_ALLOWED:
        return "this method does not go with this path";
    case MHD_HTTP_CONTENT_TOO_LARGE:
        return "the body is larger than an IDX3 file of 1024 images";
    case MHD_HTTP_SERVICE_UNAVAILABLE:
        return "too many requests at once; try again";
    default:
        return "out of memory";
    }
}

static size_t print_answer(char *text, size_t room, const answer *a)
{
    int length = snprintf(
        text, room, "{\"class\":%d,\"label\":\"%s\",\"probability\":%.4f}",
        a->class, class_names[a->class], (double)a->probability);

    return (size_t)length;
}

/* One object for one image, a list for a file of several. */
static char *print_answers(const answer *answers, int count)
{
    size_t room = (size_t)count * 80 + 64, length = 0;
    char *text = malloc(room);

    if (text == NULL) {
        return NULL;
    }
    if (count > 1) {
        length = (size_t)snprintf(text, room,
                                  "{\"images\":%d,\"predictions\":[", count);
    }
    for (int i = 0; i < count; i++) {
        if (i > 0) {
            text[length++] = ',';
        }
        length += print_answer(text + length, room - length, &answers[i]);
    }
    snprintf(text + length, room - length, "%s\n", count > 1 ? "]}" : "");
    return text;
}

static void count_failure(server *s, unsigned long long *which)
{
    pthread_mutex_lock(&s->mutex);
    *which += 1;
    pthread_mutex_unlock(&s->mutex);
}

static uint64_t us_since(int64_t ns)
{
    return (uint64_t)(clock_ns() - ns) / 1000;
}

static void count_request(server *s, request *r, int images)
{
    r->classified = true;
    pthread_mutex_lock(&s->mutex);
    s->requests++;
    s->images += (unsigned long long)images;
    latency_record(&s->service, us_since(r->body_ns));
    pthread_mutex_unlock(&s->mutex);
}

/* Whether the request finds a place. */
static bool admit(server *s, request *r)
{
    pthread_mutex_lock(&s->mutex);
    r->admitted = s->in_flight < s->max_in_flight;
    s->in_flight += r->admitted;
    s->refused += !r->admitted;
    pthread_mutex_unlock(&s->mutex);
    return r->admitted;
}

/* Memory may be there again when the client tries again. */
static enum MHD_Result
answer_failure(server *s, struct MHD_Connection *connection, const message *why)
{
    count_failure(s, why->out_of_memory ? &s->out_of_memory : &s->errors);
    return answer_error(s, connection,
                        why->out_of_memory ? MHD_HTTP_SERVICE_UNAVAILABLE
                                           : MHD_HTTP_INTERNAL_SERVER_ERROR,
                        NULL, why->text);
}

static enum MHD_Result
answer_classify(server *s, struct MHD_Connection *connection, request *r)
{
    unsigned char png[IMAGE_BYTES];
    const unsigned char *pixels;
    answer answers[MAX_IMAGES];
    message why = {.text = ""};
    int count;

    if (!admit(s, r)) {
        return answer_error(s, connection, MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
                            error_of(MHD_HTTP_SERVICE_UNAVAILABLE));
    }
    if (!decode_images(r->body, r->bytes, png, &pixels, &count, &why)) {
        count_failure(s, &s->bad);
        return answer_error(s, connection, MHD_HTTP_BAD_REQUEST, NULL,
                            why.text);
    }
    if (!classify(s->classifier, pixels, count, answers, &why)) {
        return answer_failure(s, connection, &why);
    }
    count_request(s, r, count);
    return answer_text(s, connection, MHD_HTTP_OK, NULL,
                       print_answers(answers, count));
}

/* Members of an object, without its braces; owned. Null: out of memory. */
static char *print_server(server *s, const classifier_stats *c)
{
    char *text = NULL;
    int open = connections_open(&s->connections), length;
    unsigned long long timed_out = connections_timed_out(&s->connections);

    pthread_mutex_lock(&s->mutex);
    length = asprintf(
        &text,
        "\"mode\":\"%s\",\"driver\":\"%s\",\"device\":\"%s\",\"threads\":%d,"
        "\"max_connections\":%d,\"connections\":%d,\"max_in_flight\":%d,"
        "\"in_flight\":%d,\"requests\":%llu,\"images\":%llu,\"bad\":%llu,"
        "\"refused\":%llu,\"timed_out\":%llu,\"out_of_memory\":%llu,"
        "\"errors\":%llu",
        s->mode, c->driver, c->device, s->threads, s->max_connections, open,
        s->max_in_flight, s->in_flight, s->requests, s->images, s->bad,
        s->refused, timed_out, s->out_of_memory, s->errors);
    pthread_mutex_unlock(&s->mutex);
    return length < 0 ? NULL : text;
}

/* As above. */
static char *print_latency(server *s)
{
    char *service, *total, *text = NULL;

    pthread_mutex_lock(&s->mutex);
    service = latency_json(&s->service);
    total = latency_json(&s->total);
    pthread_mutex_unlock(&s->mutex);
    if (service != NULL && total != NULL &&
        asprintf(&text, "\"latency\":{\"service\":%s,\"total\":%s}", service,
                 total) < 0) {
        text = NULL;
    }
    free(service);
    free(total);
    return text;
}

static char *print_classifier(const classifier_stats *c)
{
    const usage *u = &c->usage;
    char *text = NULL;
    int length = asprintf(
        &text,
        "\"captures\":%llu,\"replays\":%llu,\"handles_created\":%" PRIu64
        ",\"pinned\":%" PRIu64 ",\"pinned_reused\":%" PRIu64
        ",\"pinned_live\":%" PRIu64 ",\"device_blocks\":%" PRIu64
        ",\"device_reused\":%" PRIu64 ",\"device_live\":%" PRIu64
        ",\"driver_calls\":%" PRIu64,
        c->captures, c->replays, u->handles, u->pinned, u->pinned_reused,
        u->pinned_live, u->blocks, u->blocks_reused, u->blocks_live, u->calls);

    return length < 0 ? NULL : text;
}

static enum MHD_Result answer_stats(server *s,
                                    struct MHD_Connection *connection)
{
    classifier_stats c;
    char *warm = classifier_text(s->classifier, warm_stats_json);
    char *text = NULL;
    char *served, *took, *used;
    int length = -1;

    classifier_get_stats(s->classifier, &c);
    served = print_server(s, &c);
    took = print_latency(s);
    used = print_classifier(&c);
    if (served != NULL && took != NULL && used != NULL) {
        length = asprintf(&text, "{\"server\":{%s,%s,%s},\"warmpool\":%s}\n",
                          served, took, used, warm != NULL ? warm : "null");
    }
    free(served);
    free(took);
    free(used);
    free(warm);
    return answer_text(s, connection, MHD_HTTP_OK, NULL,
                       length < 0 ? NULL : text);
}

static enum MHD_Result answer_health(server *s,
                                     struct MHD_Connection *connection)
{
    return answer_text(s, connection, MHD_HTTP_OK, NULL,
                       strdup("{\"status\":\"ok\"}\n"));
}

/* The server's own figures for Prometheus; owned. Null: out of memory. */
static char *print_metrics(server *s)
{
    char *text = NULL;
    int length;

    pthread_mutex_lock(&s->mutex);
    length = asprintf(&text,
                      "# HELP inference_requests_total requests served\n"
                      "# TYPE inference_requests_total counter\n"
                      "inference_requests_total %llu\n"
                      "# HELP inference_images_total images classified\n"
                      "# TYPE inference_images_total counter\n"
                      "inference_images_total %llu\n"
                      "# HELP inference_refused_total requests refused\n"
                      "# TYPE inference_refused_total counter\n"
                      "inference_refused_total %llu\n"
                      "# HELP inference_out_of_memory_total requests for which "
                      "memory was short\n"
                      "# TYPE inference_out_of_memory_total counter\n"
                      "inference_out_of_memory_total %llu\n"
                      "# HELP inference_in_flight requests being served\n"
                      "# TYPE inference_in_flight gauge\n"
                      "inference_in_flight %d\n",
                      s->requests, s->images, s->refused, s->out_of_memory,
                      s->in_flight);
    pthread_mutex_unlock(&s->mutex);
    return length < 0 ? NULL : text;
}

static enum MHD_Result answer_metrics(server *s,
                                      struct MHD_Connection *connection)
{
    char *own = print_metrics(s), *text = NULL;
    char *warm = classifier_text(s->classifier, warm_stats_prometheus);

    if (own != NULL && warm != NULL && asprintf(&text, "%s%s", own, warm) < 0) {
        text = NULL;
    }
    free(own);
    free(warm);
    return answer_as(s, connection, MHD_HTTP_OK, NULL,
                     "text/plain; version=0.0.4; charset=utf-8", text);
}

static enum MHD_Result answer_snapshot(server *s,
                                       struct MHD_Connection *connection)
{
    return answer_text(s, connection, MHD_HTTP_OK, NULL,
                       classifier_text(s->classifier, warm_snapshot_viz));
}

static enum MHD_Result answer_watermarks(server *s,
                                         struct MHD_Connection *connection)
{
    return answer_text(s, connection, MHD_HTTP_OK, NULL,
                       classifier_watermarks(s->classifier));
}

/* Reads "HIGH LOW", bytes. */
static bool read_watermarks(const request *r, uint64_t marks[2])
{
    char text[64], *at = text;

    snprintf(text, sizeof text, "%.*s", (int)r->bytes,
             r->bytes > 0 ? (const char *)r->body : "");
    for (int i = 0; i < 2; i++) {
        at += strspn(at, " ");
        if (*at < '0' || *at > '9') {
            return false;
        }
        errno = 0;
        marks[i] = strtoull(at, &at, 10);
        if (errno != 0) {
            return false;
        }
    }
    at += strspn(at, " \r\n");
    return *at == '\0' && strlen(text) == r->bytes;
}

static enum MHD_Result
set_watermarks(server *s, struct MHD_Connection *connection, const request *r)
{
    uint64_t marks[2];
    message why = {.text = "PUT takes two numbers of bytes, the high and the "
                           "low watermark, 0 for off: 67108864 33554432"};

    if (!read_watermarks(r, marks) ||
        !classifier_set_watermarks(s->classifier, marks[0], marks[1], &why)) {
        count_failure(s, &s->bad);
        return answer_error(s, connection, MHD_HTTP_BAD_REQUEST, NULL,
                            why.text);
    }
    return answer_watermarks(s, connection);
}

/* The page asks for /stats and /snapshot. */
static enum MHD_Result answer_page(server *s, struct MHD_Connection *connection)
{
    return answer_as(s, connection, MHD_HTTP_OK, NULL,
                     "text/html; charset=utf-8", strdup(warm_snapshot_page()));
}

/* What can be read with GET and HEAD. */
static const struct {
    const char *path;
    enum MHD_Result (*answer)(server *s, struct MHD_Connection *connection);
} readable[] = {
    {"/", answer_page},           {"/snapshot", answer_snapshot},
    {"/health", answer_health},   {"/stats", answer_stats},
    {"/metrics", answer_metrics}, {"/watermarks", answer_watermarks}};

/* Its place there, or -1. */
static int find_readable(const char *path)
{
    for (size_t i = 0; i < sizeof readable / sizeof readable[0]; i++) {
        if (strcmp(path, readable[i].path) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* What the head decides: an error, or 0. */
static int judge(const server *s, struct MHD_Connection *connection, request *r,
                 const char *path, const char *method)
{
    const char *length = MHD_lookup_connection_value(
        connection, MHD_HEADER_KIND, "Content-Length");

    if (length != NULL && strtoull(length, NULL, 10) > MAX_BODY) {
        return MHD_HTTP_CONTENT_TOO_LARGE;
    }
    if (find_readable(path) >= 0) {
        bool settable = s->tunable && strcmp(path, "/watermarks") == 0;

        r->allow = settable ? "GET, HEAD, PUT" : "GET, HEAD";
        r->sets = settable && strcmp(method, "PUT") == 0;
        return r->sets || strcmp(method, "GET") == 0 ||
                       strcmp(method, "HEAD") == 0
                   ? 0
                   : MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    if (strcmp(path, "/classify") != 0) {
        return MHD_HTTP_NOT_FOUND;
    }
    r->allow = "POST";
    return strcmp(method, "POST") == 0 ? 0 : MHD_HTTP_METHOD_NOT_ALLOWED;
}

/* Adds a part to the body; that of a refused request is dropped. */
static void collect(request *r, const char *part, size_t bytes)
{
    if (r->status != 0) {
        return;
    }
    if (r->bytes + bytes > MAX_BODY) {
        r->status = MHD_HTTP_CONTENT_TOO_LARGE;
        return;
    }
    if (r->bytes + bytes > r->room) {
        size_t twice = 2 * (r->bytes + bytes);
        size_t room = twice < MAX_BODY ? twice : MAX_BODY;
        unsigned char *body = realloc(r->body, room);

        if (body == NULL) {
            r->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
            return;
        }
        r->body = body;
        r->room = room;
    }
    memcpy(r->body + r->bytes, part, bytes);
    r->bytes += bytes;
}

static enum MHD_Result route(server *s, struct MHD_Connection *connection,
                             const char *path, request *r)
{
    if (r->status != 0) {
        return answer_error(s, connection, r->status,
                            r->status == MHD_HTTP_METHOD_NOT_ALLOWED ? r->allow
                                                                     : NULL,
                            error_of(r->status));
    }
    if (r->sets) {
        return set_watermarks(s, connection, r);
    }
    return strcmp(path, "/classify") == 0
               ? answer_classify(s, connection, r)
               : readable[find_readable(path)].answer(s, connection);
}

/* What connected() made for the connection. */
static peer *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

static enum MHD_Result answer_request(server *s,
                                      struct MHD_Connection *connection,
                                      const char *path, request *r)
{
    enum MHD_Result result;

    if (!peer_works(&s->connections, peer_of(connection), &r->line_ns)) {
        return MHD_NO;
    }
    r->body_ns = clock_ns();
    result = route(s, connection, path, r);
    peer_sends(&s->connections, peer_of(connection));
    return result;
}

void connected(void *context, struct MHD_Connection *connection, void **state,
               enum MHD_ConnectionNotificationCode code)
{
    server *s = context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *state = peer_begin(&s->connections,
                            MHD_get_connection_info(
                                connection, MHD_CONNECTION_INFO_CONNECTION_FD)
                                ->connect_fd);
    } else {
        peer_end(&s->connections, *state);
        *state = NULL;
    }
}

void *requested(void *context, const char *line,
                struct MHD_Connection *connection)
{
    server *s = context;

    (void)line;
    peer_receives(&s->connections, peer_of(connection));
    return NULL;
}

enum MHD_Result handle(void *context, struct MHD_Connection *connection,
                       const char *path, const char *method,
                       const char *version, const char *part,
                       size_t *part_bytes, void **state)
{
    server *s = context;
    request *r = *state;

    (void)version;
    if (r == NULL) {
        r = calloc(1, sizeof *r);
        if (r == NULL) {
            return MHD_NO;
        }
        *state = r;
        r->status = judge(s, connection, r, path, method);
        /* A body that is too large is not even read; the connection ends. */
        return r->status == MHD_HTTP_CONTENT_TOO_LARGE
                   ? answer_request(s, connection, path, r)
                   : MHD_YES;
    }
    if (*part_bytes > 0) {
        collect(r, part, *part_bytes);
        *part_bytes = 0;
        return MHD_YES;
    }
    return answer_request(s, connection, path, r);
}

void completed(void *context, struct MHD_Connection *connection, void **state,
               enum MHD_RequestTerminationCode code)
{
    server *s = context;
    request *r = *state;

    peer_rests(&s->connections, peer_of(connection));
    if (r == NULL) {
        return;
    }
    pthread_mutex_lock(&s->mutex);
    s->in_flight -= r->admitted;
    if (r->classified && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        latency_record(&s->total, us_since(r->line_ns));
    }
    pthread_mutex_unlock(&s->mutex);
    free(r->body);
    free(r);
    *state = NULL;
}
