/* load.h: sends images to the server from several connections at once, all of
 * them driven by one thread with curl's multi interface. */
#ifndef EXAMPLE_LOAD_H
#define EXAMPLE_LOAD_H

#include "examples/common/images.h"

typedef struct load_result {
    int answered; /* with status 200 and a class */
    int right;    /* of those: the class is the label */
    double seconds;
    double p50_ms, p99_ms; /* from sending a request to its whole answer */
} load_result;

/* Sends every image of the set once, one a request; connections are kept.
 * classes: null, or room for a class for each image. progress: print a dot for
 * each tenth. False: some request was not answered with 200; why tells of the
 * first. */
bool load_run(int port, const image_set *set, int connections, bool progress,
              unsigned char *classes, load_result *result, message *why);

#endif
