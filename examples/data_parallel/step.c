/* step.c: one step of the training: threads that stage, compute and exit.
 *
 * Nothing here creates a handle, page-locks memory or asks a device for any:
 * a thread gets what the threads of the step before have given back, handles
 * by exiting, memory as soon as the work on it was queued. */
#include "examples/data_parallel/step.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* Puts the slice's images and labels into a pinned buffer and queues their
 * way to the device. The buffer is freed at once: nobody gets it before the
 * copies have finished. */
static void stage(slice *s, maths *m)
{
    size_t pixels = (size_t)s->rows * IMAGE_BYTES;
    size_t marks = (size_t)s->rows * CLASSES;
    void *buffer;
    float *x, *y;

    if (warm_pinned_alloc(s->t->runtime, (pixels + marks) * sizeof(float),
                          &buffer) != WARM_OK) {
        maths_failed(m, "%s", warm_last_error_message());
        return;
    }
    x = buffer;
    y = x + pixels;
    memset(y, 0, marks * sizeof *y);
    for (int r = 0; r < s->rows; r++) {
        size_t image = (size_t)s->order[r];

        images_normalize(s->set->pixels + image * IMAGE_BYTES, IMAGE_BYTES,
                         x + (size_t)r * IMAGE_BYTES);
        y[r * CLASSES + s->set->labels[image]] = 1;
    }
    maths_upload(m, s->room.x, x, pixels);
    if (s->learn) {
        maths_upload(m, s->y, y, marks);
    }
    warm_free(buffer);
}

/* From the probabilities to the gradient of every weight; room.p becomes the
 * gradient of the last layer, (p - y) / batch. */
static void backward(slice *s, maths *m)
{
    const float *w2 = s->t->weights + MODEL_W2;
    const model_room *room = &s->room;
    float *g = s->gradient;
    int rows = s->rows;
    maths_product g2 = {.rows = HIDDEN,
                        .columns = CLASSES,
                        .inner = rows,
                        .a_transposed = true,
                        .alpha = 1};
    maths_product back = {.rows = rows,
                          .columns = HIDDEN,
                          .inner = CLASSES,
                          .b_transposed = true,
                          .alpha = 1};
    maths_product g1 = {.rows = IMAGE_BYTES,
                        .columns = HIDDEN,
                        .inner = rows,
                        .a_transposed = true,
                        .alpha = 1};

    maths_axpy(m, rows * CLASSES, -1, s->y, room->p);
    maths_scale(m, rows * CLASSES, 1 / (float)s->t->batch, room->p);
    maths_gemm(m, &g2, room->h, room->p, g + MODEL_W2);
    maths_column_sums(m, rows, CLASSES, s->t->ones, room->p, g + MODEL_B2);
    maths_gemm(m, &back, room->p, w2, s->dh);
    maths_relu_back(m, rows, HIDDEN, room->h, s->dh);
    maths_gemm(m, &g1, room->x, s->dh, g);
    maths_column_sums(m, rows, HIDDEN, s->t->ones, s->dh, g + MODEL_B1);
}

static void score(slice *s, const float *p)
{
    s->loss = 0;
    s->right = 0;
    for (int r = 0; r < s->rows; r++) {
        int label = s->set->labels[s->order[r]];

        s->loss -= logf(p[label] + 1e-9f);
        s->right += model_best(p) == label;
        p += CLASSES;
    }
}

static void take_memory(slice *s, maths *m)
{
    size_t rows = (size_t)s->rows;

    s->y = s->dh = NULL;
    model_room_init(&s->room, m, s->rows);
    if (s->learn) {
        s->y = maths_alloc(m, rows * CLASSES);
        s->dh = maths_alloc(m, rows * HIDDEN);
        s->gradient = maths_alloc(m, MODEL_FLOATS);
    }
}

/* Nothing has been waited for, and nothing need be. */
static void give_memory(slice *s, maths *m)
{
    model_room_fini(&s->room, m);
    maths_free(m, s->y);
    maths_free(m, s->dh);
}

static bool compute(slice *s, maths *m)
{
    size_t count = (size_t)s->rows * CLASSES;
    void *p = NULL;

    take_memory(s, m);
    if (warm_pinned_alloc(s->t->runtime, count * sizeof(float), &p) !=
        WARM_OK) {
        maths_failed(m, "%s", warm_last_error_message());
    }
    stage(s, m);
    model_forward(m, s->t->weights, &s->room, s->rows);
    maths_download(m, p, s->room.p, count);
    if (s->learn) {
        backward(s, m);
    }
    give_memory(s, m);
    if (maths_finish(m)) {
        score(s, p);
    }
    warm_free(p);
    return !m->bad;
}

/* The life of a thread. Nothing gives the handles back: its exit does. */
static void *work(void *argument)
{
    slice *s = argument;
    maths m;

    s->good = maths_begin(&m, s->t->runtime, s->t->device);
    if (s->good) {
        s->good = compute(s, &m);
        maths_end(&m);
    }
    s->why = m.why;
    return NULL;
}

bool run_slices(trainer *t, const image_set *set, const int *order, int count,
                bool learn, message *why)
{
    pthread_t thread[MAX_THREADS];
    bool good = true;
    int used = 0, next = 0;

    while (used < t->threads && next < count) {
        slice *s = &t->slices[used];

        s->set = set;
        s->order = order + next;
        s->rows = (count - next + t->threads - used - 1) / (t->threads - used);
        s->learn = learn;
        if (pthread_create(&thread[used], NULL, work, s) != 0) {
            good = failed(why, "could not start a thread");
            break;
        }
        next += s->rows;
        used++;
    }
    for (int i = 0; i < used; i++) {
        pthread_join(thread[i], NULL);
        if (good && !t->slices[i].good) {
            good = failed(why, "%s", t->slices[i].why.text);
        }
    }
    t->threads_started += (uint64_t)used;
    return good;
}
