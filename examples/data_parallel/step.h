/* step.h: what the trainer and the threads of one step share. */
#ifndef EXAMPLE_STEP_H
#define EXAMPLE_STEP_H

#include "examples/common/model.h"
#include "examples/data_parallel/ranks.h"

enum { MAX_THREADS = 64 };

/* One slice of a batch: what a fresh thread gets, and what it answers. */
typedef struct slice {
    struct trainer *t;
    const image_set *set;
    const int *order; /* which images, rows of them */
    int rows;
    bool learn; /* or only look */
    /* on the device, while its thread queues */
    model_room room;
    float *y;  /* labels, one-hot: rows × CLASSES */
    float *dh; /* rows × HIDDEN */
    /* answers */
    float *gradient; /* on the device: MODEL_FLOATS, or null. Owned by who
                        started the thread: used on a second stream */
    bool good;
    message why;
    double loss;
    int right;
} slice;

typedef struct trainer {
    warm_runtime *runtime;
    int device, threads, batch;
    /* on the device, for the whole run */
    float *weights; /* MODEL_FLOATS */
    float *speed;   /* MODEL_FLOATS: momentum */
    float *ones;    /* a slice's rows */
    ranks *ranks;   /* or null: one process */
    slice slices[MAX_THREADS];
    uint64_t threads_started;
} trainer;

/* One thread for each slice of count images, all at once; slices differ by
 * one image at most, and there are min(count, threads) of them. False: the
 * first of them that failed says why. */
bool run_slices(trainer *t, const image_set *set, const int *order, int count,
                bool learn, message *why);

#endif
