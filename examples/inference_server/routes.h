/* routes.h: from a request to its answer. */
#ifndef EXAMPLE_ROUTES_H
#define EXAMPLE_ROUTES_H

#include "examples/inference_server/classify.h"
#include "examples/inference_server/connections.h"
#include "examples/inference_server/latency.h"

#include <microhttpd.h>
#include <pthread.h>

typedef struct server {
    classifier *classifier;
    const char *mode; /* "warm", "graph" or "naive" */
    int threads, max_in_flight, max_connections;
    bool tunable; /* PUT /watermarks is allowed */
    connections connections;
    pthread_mutex_t mutex; /* guards what follows */
    int in_flight;         /* classify requests, from the whole body received
                              to the answer sent */
    unsigned long long requests, images, refused, bad, errors;
    unsigned long long out_of_memory; /* requests answered with 503 for that */
    latency service; /* from the whole body to the answer queued */
    latency total;   /* from the request line to the answer sent */
} server;

/* What libmicrohttpd calls on its threads; context: the server. */

/* A connection begins or ends. */
void connected(void *context, struct MHD_Connection *connection, void **state,
               enum MHD_ConnectionNotificationCode code);
/* The request line has been read. Returns null. */
void *requested(void *context, const char *line,
                struct MHD_Connection *connection);
/* The head, each part of the body, the end. */
enum MHD_Result handle(void *context, struct MHD_Connection *connection,
                       const char *path, const char *method,
                       const char *version, const char *part,
                       size_t *part_bytes, void **state);
/* The answer has been sent, or the connection was lost. */
void completed(void *context, struct MHD_Connection *connection, void **state,
               enum MHD_RequestTerminationCode code);

#endif
