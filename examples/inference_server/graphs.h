/* graphs.h: the way through the network, captured once and then replayed.
 *
 * What one thread of the server keeps for that: handles, buffers, and a graph
 * for every number of images that it has met. */
#ifndef EXAMPLE_GRAPHS_H
#define EXAMPLE_GRAPHS_H

#include "examples/inference_server/classify.h"

typedef struct graphs graphs;

/* For the calling thread. weights: on the device; they stay. Null: why tells
 * the reason. */
graphs *graphs_begin(warm_runtime *runtime, int device, const float *weights,
                     message *why);

/* The probabilities of up to TURN_IMAGES images; borrowed until the next call.
 * Null: an error, which sticks. captured: the first of so many images, which
 * made a graph for the next time. */
const float *graphs_run(graphs *g, const unsigned char *pixels, int count,
                        bool *captured, message *why);

/* By the same thread, at its exit too. Null does nothing. */
void graphs_end(graphs *g);

#endif
