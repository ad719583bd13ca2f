/* load.h: sends images to the server from several connections at once, all of
 * them driven by one thread with curl's multi interface. */
#ifndef EXAMPLE_LOAD_H
#define EXAMPLE_LOAD_H

#include "examples/common/images.h"

typedef struct load_plan {
    int port;
    const image_set *set; /* every image is sent once */
    int connections;      /* kept; at most 64 */
    int most;             /* images a request: 1, its bytes, to so many, a file
                             of the format IDX3; 0: 1 */
    bool progress;        /* print a dot for each tenth */
    unsigned char *classes; /* null, or room for a class for each image */
    double *ms; /* null, or room for a time for each image: one a request */
} load_plan;

typedef struct load_result {
    int requests, failed; /* sent; of these, not answered with 200 */
    int answered;         /* images, with status 200 and a class */
    int right;            /* of those: the class is the label */
    double seconds;
    double p50_ms, p99_ms; /* from sending a request to its whole answer */
} load_result;

/* False: some request was not answered with 200, and its connection sent no
 * more; why tells of the first. */
bool load_run(const load_plan *plan, load_result *result, message *why);

#endif
