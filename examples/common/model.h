/* model.h: the classifier, 784 → 128 (ReLU) → 10 (softmax).
 *
 * Weights are one array, on the device and in the file alike:
 *   w1[784][128]  b1[128]  w2[128][10]  b2[10] */
#ifndef EXAMPLE_MODEL_H
#define EXAMPLE_MODEL_H

#include "examples/common/maths.h"

#include <stdint.h>

enum {
    HIDDEN = 128,
    MODEL_B1 = IMAGE_BYTES * HIDDEN,
    MODEL_W2 = MODEL_B1 + HIDDEN,
    MODEL_B2 = MODEL_W2 + HIDDEN * CLASSES,
    MODEL_FLOATS = MODEL_B2 + CLASSES,
};

/* Small random weights; the same seed gives the same. */
void model_init(float *weights, uint64_t seed);
/* Whether model_save() can write there: to be asked before the work. */
bool model_can_save(const char *path, message *why);
bool model_save(const char *path, const float *weights, message *why);
bool model_load(const char *path, float *weights, message *why);

/* What rows images need on the device, on their way through; by maths_alloc(),
 * so that the room can go as soon as the way is queued. */
typedef struct model_room {
    float *x; /* images, normalized: rows × IMAGE_BYTES */
    float *h; /* hidden layer: rows × HIDDEN */
    float *p; /* probabilities: rows × CLASSES */
} model_room;
void model_room_init(model_room *room, maths *m, int rows);
void model_room_fini(model_room *room, maths *m);

/* Queues room->x → room->p. weights: on the device. */
void model_forward(maths *m, const float *weights, const model_room *room,
                   int rows);
/* Queues that with what comes before and after it, x → p: of the host. */
void model_run(maths *m, const float *weights, const model_room *room, int rows,
               const float *x, float *p);

/* Where the larger of CLASSES probabilities is. */
int model_best(const float *probabilities);

/* xorshift64*; *state is not 0. */
uint64_t random_next(uint64_t *state);

#endif
