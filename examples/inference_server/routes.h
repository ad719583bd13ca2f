/* routes.h: from a request to its answer. */
#ifndef EXAMPLE_ROUTES_H
#define EXAMPLE_ROUTES_H

#include "examples/inference_server/classify.h"

#include <microhttpd.h>
#include <pthread.h>

typedef struct server {
    classifier *classifier;
    struct MHD_Daemon *daemon;
    const char *mode; /* "warm", "graph" or "naive" */
    int threads, max_in_flight;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t idle;   /* in_flight is 0 */
    int in_flight;         /* classify requests, from head to answer sent */
    bool draining;
    unsigned long long requests, images, refused, bad, errors;
} server;

/* Called by libmicrohttpd, on threads of its pool; context: the server. */
enum MHD_Result handle(void *context, struct MHD_Connection *connection,
                       const char *path, const char *method,
                       const char *version, const char *part,
                       size_t *part_bytes, void **state);
/* The answer has been sent, or the connection was lost. */
void completed(void *context, struct MHD_Connection *connection, void **state,
               enum MHD_RequestTerminationCode code);

#endif
