/* graphs.h: the way through the network, captured once and then replayed.
 *
 * What one thread of the server keeps for that: its stream and handles, and a
 * graph for every number of images that it has met. All that graphs work on is
 * memory of a private pool, which nobody else gets while they live. */
#ifndef EXAMPLE_GRAPHS_H
#define EXAMPLE_GRAPHS_H

#include "examples/inference_server/classify.h"

/* From the upload to the download, for so many images. */
typedef struct model_graph {
    maths_graph graph; /* empty: not captured yet */
    float *x;          /* of the host: what is uploaded, */
    float *p;          /* and downloaded; one pinned block, of the pool */
} model_graph;

typedef struct graphs {
    maths m; /* an error sticks here: end them then */
    const float *weights;
    warm_private_pool pool; /* a reference for each graph; number 0: none yet */
    model_graph of[TURN_IMAGES]; /* i + 1 images */
} graphs;

/* For the calling thread. weights: on the device; they stay. Null: why tells
 * the reason. */
graphs *graphs_begin(warm_runtime *runtime, int device, const float *weights,
                     message *why);

/* Whether so many images, up to TURN_IMAGES, can be replayed. */
bool graphs_know(const graphs *g, int count);

/* Captures the way of so many images, which it has gone before without a graph:
 * libraries load code when it is first used. */
void graphs_capture(graphs *g, int count);

/* Their probabilities; borrowed until the next call. Null: an error. */
const float *graphs_replay(graphs *g, const unsigned char *pixels, int count);

/* By the same thread, at its exit too. Null does nothing. */
void graphs_end(graphs *g);

#endif
