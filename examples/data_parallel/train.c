/* train.c: trains an image classifier with fresh threads for every step.
 *
 * That is how DataParallel works: each step starts one thread a slice of the
 * batch, and the threads are gone when the step is done. Without a pool each
 * of them would create its library handles and page-lock its buffers anew;
 * with warmpool they find those of the threads before them:
 *
 *   step ──┬── thread: reserve, stage, forward, backward, exit ──┬── update
 *          └── thread: reserve, stage, forward, backward, exit ──┘
 *
 * Weights and gradients stay on the device. The weights do so for the whole
 * run, a gradient from the thread that computes it to the update behind it. */
#include "examples/common/notes.h"
#include "examples/common/options.h"
#include "examples/common/usage.h"
#include "examples/data_parallel/step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The gradient of a slice, which its thread allocated in the order of its own
 * stream, has been used on this one: said before it is freed. */
static void give_gradient(slice *s, maths *m)
{
    if (s->gradient != NULL) {
        warm_record_stream(s->gradient, m->stream);
        maths_free(m, s->gradient);
        s->gradient = NULL;
    }
}

/* The sum of all slices' gradients, of all ranks, in the first slice's. Two by
 * two, as ranks_sum() adds: the result does not depend on how threads are
 * distributed over ranks, as long as both are powers of two. */
static bool add_gradients(trainer *t, maths *m)
{
    void *sum = NULL;
    bool good;

    for (int step = 1; step < t->threads; step *= 2) {
        for (int i = 0; i + step < t->threads; i += 2 * step) {
            maths_axpy(m, MODEL_FLOATS, 1, t->slices[i + step].gradient,
                       t->slices[i].gradient);
            give_gradient(&t->slices[i + step], m);
        }
    }
    if (warm_pinned_alloc(t->runtime, MODEL_FLOATS * sizeof(float), &sum) !=
        WARM_OK) {
        maths_failed(m, "%s", warm_last_error_message());
        return false;
    }
    maths_download(m, sum, t->slices[0].gradient, MODEL_FLOATS);
    good = maths_finish(m) &&
           ranks_sum(t->ranks, t->runtime, sum, MODEL_FLOATS, &m->why);
    if (good) {
        maths_upload(m, t->slices[0].gradient, sum, MODEL_FLOATS);
    }
    warm_free(sum);
    return good;
}

/* speed = 0.9 speed + gradients; weights -= rate speed. */
static bool update(trainer *t, maths *m, float rate)
{
    if (t->ranks != NULL && !add_gradients(t, m)) {
        return false;
    }
    maths_scale(m, MODEL_FLOATS, 0.9f, t->speed);
    for (int i = 0; i < t->threads; i++) {
        if (t->slices[i].gradient != NULL) {
            maths_axpy(m, MODEL_FLOATS, 1, t->slices[i].gradient, t->speed);
            give_gradient(&t->slices[i], m);
        }
    }
    maths_axpy(m, MODEL_FLOATS, -rate, t->speed, t->weights);
    return maths_finish(m);
}

static void shuffle(int *order, int count, uint64_t *state)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(random_next(state) % (uint64_t)(i + 1));
        int keep = order[i];

        order[i] = order[j];
        order[j] = keep;
    }
}

/* Of each batch, the images of this rank: [from, from + count). */
static int rank_part(const trainer *t, int *from)
{
    int to = t->batch;

    *from = 0;
    if (t->ranks != NULL) {
        *from = t->batch * t->ranks->rank / t->ranks->count;
        to = t->batch * (t->ranks->rank + 1) / t->ranks->count;
    }
    return to - *from;
}

/* Once through the training images; the rate falls in a straight line over
 * all epochs, from rate (of the first step) by fall a step. */
static bool train_epoch(trainer *t, const image_set *set, const int *order,
                        float rate, float fall, double *loss, message *why)
{
    int steps = set->count / t->batch, from;
    int part = rank_part(t, &from);
    maths m;
    bool good = maths_begin(&m, t->runtime, t->device);

    if (!good) {
        *why = m.why;
        return false;
    }
    *loss = 0;
    for (int step = 0; good && step < steps; step++) {
        good =
            run_slices(t, set, order + (size_t)step * (size_t)t->batch + from,
                       part, true, why);
        for (int i = 0; good && i < t->threads; i++) {
            *loss += t->slices[i].loss;
        }
        if (good && !update(t, &m, rate - fall * (float)step)) {
            good = failed(why, "%s", m.why.text);
        }
    }
    if (good && t->ranks != NULL) {
        *loss = ranks_total(*loss);
    }
    *loss /= (double)steps * t->batch;
    maths_end(&m);
    return good;
}

static bool test(trainer *t, const image_set *set, const int *in_line,
                 double *accuracy, message *why)
{
    int right = 0;

    for (int next = 0; next < set->count; next += t->batch) {
        int rows = set->count - next < t->batch ? set->count - next : t->batch;

        if (!run_slices(t, set, in_line + next, rows, false, why)) {
            return false;
        }
        for (int i = 0; i < t->threads && i < rows; i++) {
            right += t->slices[i].right;
        }
    }
    *accuracy = (double)right / set->count;
    return true;
}

/* Copies an array of the host to the device, or back. */
static bool move(trainer *t, float *device, float *host, size_t count,
                 bool to_device, message *why)
{
    maths m;

    if (maths_begin(&m, t->runtime, t->device)) {
        if (to_device) {
            maths_upload(&m, device, host, count);
        } else {
            maths_download(&m, host, device, count);
        }
        maths_finish(&m);
        maths_end(&m);
    }
    *why = m.why;
    return !m.bad;
}

static size_t slice_rows(const trainer *t)
{
    return ((size_t)t->batch + (size_t)t->threads - 1) / (size_t)t->threads;
}

/* What stays on the device for the whole run. What a step needs beside it
 * comes and goes with the step. */
static bool allocate(trainer *t, message *why)
{
    maths m;

    for (int i = 0; i < t->threads; i++) {
        t->slices[i].t = t;
    }
    if (maths_begin(&m, t->runtime, t->device)) {
        t->weights = maths_alloc(&m, MODEL_FLOATS);
        t->speed = maths_alloc(&m, MODEL_FLOATS);
        t->ones = maths_alloc(&m, slice_rows(t));
        maths_end(&m);
    }
    *why = m.why;
    return !m.bad;
}

/* Every thread has been waited for. */
static void release(trainer *t)
{
    for (int i = 0; i < t->threads; i++) {
        warm_free(t->slices[i].gradient);
    }
    warm_free(t->ones);
    warm_free(t->speed);
    warm_free(t->weights);
}

/* First weights, no speed, and ones, through one array of the host. */
static bool set_up(trainer *t, uint64_t seed, message *why)
{
    size_t rows = slice_rows(t);
    float *start = calloc((size_t)2 * MODEL_FLOATS + rows, sizeof *start);
    float *speed, *ones;
    bool good;

    if (start == NULL) {
        return failed(why, "out of memory");
    }
    speed = start + MODEL_FLOATS;
    ones = speed + MODEL_FLOATS;
    model_init(start, seed);
    for (size_t i = 0; i < rows; i++) {
        ones[i] = 1;
    }
    good = move(t, t->weights, start, MODEL_FLOATS, true, why) &&
           move(t, t->speed, speed, MODEL_FLOATS, true, why) &&
           move(t, t->ones, ones, rows, true, why);
    free(start);
    return good;
}

static bool save(trainer *t, const char *path, message *why)
{
    float *weights = calloc(MODEL_FLOATS, sizeof *weights);
    bool good = weights != NULL &&
                move(t, t->weights, weights, MODEL_FLOATS, false, why) &&
                model_save(path, weights, why);

    free(weights);
    return good;
}

static void print_handles(const trainer *t)
{
    usage u;

    usage_read(t->runtime, t->device, &u);
    printf("  threads: %" PRIu64 ", handles created: %" PRIu64 "\n",
           t->threads_started, u.handles);
}

static void print_usage(const trainer *t)
{
    usage u;

    usage_read(t->runtime, t->device, &u);
    printf(" threads=%" PRIu64 " handles_created=%" PRIu64 " pinned=%" PRIu64
           " reused=%" PRIu64 " device_blocks=%" PRIu64
           " device_reused=%" PRIu64,
           t->threads_started, u.handles, u.pinned, u.pinned_reused, u.blocks,
           u.blocks_reused);
}

static void print_memory(const trainer *t)
{
    usage u;

    usage_read(t->runtime, t->device, &u);
    printf(" driver=%s device=%d held_bytes=%" PRIu64 " in_use_bytes=%" PRIu64
           " peak_bytes=%" PRIu64 " memory_calls=%" PRIu64
           " driver_calls=%" PRIu64,
           warm_runtime_driver(t->runtime), t->device, u.held, u.in_use,
           u.in_use_peak, u.memory_calls, u.calls);
}

typedef struct plan {
    const char *data, *weights, *driver;
    int epochs, rate, seed;
    bool mpi;
} plan;

/* All ranks have the same weights: the first one looks at them and says so. */
static bool is_first(const trainer *t)
{
    return t->ranks == NULL || t->ranks->rank == 0;
}

static void print_ranks(const trainer *t)
{
    if (t->ranks != NULL) {
        printf(" ranks=%d sums=%" PRIu64 " registrations=%" PRIu64,
               t->ranks->count, t->ranks->sums, t->ranks->registered);
    }
}

static bool train(trainer *t, const plan *p, const image_set *images,
                  const image_set *tests, int *order, const int *in_line,
                  message *why)
{
    uint64_t state = (uint64_t)p->seed;
    float rate = (float)p->rate / 1000;
    int epoch_steps = images->count / t->batch;
    float fall = rate / (float)(p->epochs * epoch_steps + 1);
    double begin = seconds(), accuracy = 0, loss;

    for (int epoch = 0; epoch < p->epochs; epoch++) {
        double start = seconds();
        int steps = epoch * epoch_steps;

        shuffle(order, images->count, &state);
        if (!train_epoch(t, images, order, rate - fall * (float)steps, fall,
                         &loss, why)) {
            return false;
        }
        if (!is_first(t)) {
            continue;
        }
        printf("epoch %2d/%d  loss %.4f  %7.0f images/s", epoch + 1, p->epochs,
               loss, images->count / (seconds() - start));
        if (!test(t, tests, in_line, &accuracy, why)) {
            return false;
        }
        printf("  accuracy %.4f", accuracy);
        print_handles(t);
        fflush(stdout);
    }
    if (!is_first(t)) {
        return true;
    }
    if (!save(t, p->weights, why)) {
        return false;
    }
    printf("train: ok accuracy=%.4f seconds=%.1f", accuracy, seconds() - begin);
    print_ranks(t);
    print_usage(t);
    print_memory(t);
    printf(" weights=%s\n", p->weights);
    return true;
}

/* 0, 1, … count - 1; owned, or null. */
static int *count_up(int count)
{
    int *numbers = malloc((size_t)count * sizeof *numbers);

    for (int i = 0; numbers != NULL && i < count; i++) {
        numbers[i] = i;
    }
    return numbers;
}

static bool run(trainer *t, const plan *p, message *why)
{
    image_set images = {0}, tests = {0};
    int *order = NULL, *in_line = NULL;
    bool good = (!is_first(t) || model_can_save(p->weights, why)) &&
                images_load(p->data, "train", &images, why) &&
                images_load(p->data, "t10k", &tests, why);

    if (good && (images.count < t->batch || tests.count > images.count)) {
        good = failed(why, "too few training images");
    }
    if (good) {
        order = count_up(images.count);
        in_line = count_up(images.count);
        if (order == NULL || in_line == NULL) {
            (void)failed(why, "out of memory");
            good = false;
        }
    }
    good = good && allocate(t, why) && set_up(t, (uint64_t)p->seed, why) &&
           train(t, p, &images, &tests, order, in_line, why);
    release(t);
    free(order);
    free(in_line);
    images_free(&images);
    images_free(&tests);
    return good;
}

static bool run_with(trainer *t, const plan *p, const warm_options *options,
                     message *why)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    bool good;

    if (warm_runtime_create(options, &t->runtime) != WARM_OK) {
        return failed(why, "--driver %s: %s", p->driver,
                      warm_last_error_message());
    }
    good = (t->ranks == NULL || ranks_register(t->ranks, t->runtime, why)) &&
           run(t, p, why);
    if (warm_runtime_destroy(t->runtime, &report) == WARM_OK && good &&
        report.live > 0) {
        good = failed(why, "blocks of memory that were not freed: %" PRIu64,
                      report.live);
    }
    return good;
}

/* Every thread of every rank has a part of each batch, and so a gradient. The
 * least batch there is has an image for each thread of one rank. */
static bool enough_images(const trainer *t, message *why)
{
    return t->ranks == NULL || t->batch / t->ranks->count >= t->threads ||
           failed(why,
                  "--batch %d: fewer images than there are threads, %d on "
                  "each of %d ranks",
                  t->batch, t->threads, t->ranks->count);
}

static bool run_all(trainer *t, const plan *p, int *argc, char ***argv,
                    message *why)
{
    warm_options options = WARM_INIT(warm_options);
    static ranks all; /* until the runtime is destroyed */
    bool good;

    options.device = strcmp(p->driver, "auto") == 0 ? NULL : p->driver;
    if (p->mpi) {
        if (!ranks_begin(&all, argc, argv, why)) {
            return false;
        }
        t->ranks = &all;
    }
    good = enough_images(t, why) && run_with(t, p, &options, why);
    if (p->mpi && !good) { /* others would wait for this rank */
        fprintf(stderr, "data_parallel: rank %d: %s\n", all.rank, why->text);
        ranks_abort(&all);
    }
    if (p->mpi) {
        ranks_end(&all);
    }
    return good;
}

int main(int argc, char **argv)
{
    plan p = {IMAGES_FOLDER, "fashion-mnist.weights", "auto", 8, 100, 1, false};
    static trainer t = {.threads = 2, .batch = 120};
    const option_row rows[] = {
        {"data", "folder of the images", .text = &p.data},
        {"weights", "file to write", .text = &p.weights},
        {"driver", "auto, cuda or host", .text = &p.driver},
        {"device", "which device", .number = &t.device, .most = 63},
        {"threads", "threads a step", .number = &t.threads, .least = 1,
         .most = MAX_THREADS},
        {"batch", "images a step", .number = &t.batch, .least = MAX_THREADS,
         .most = 10000},
        {"epochs", "times through the images", .number = &p.epochs, .least = 1,
         .most = 1000},
        {"rate", "thousandths a step", .number = &p.rate, .least = 1,
         .most = 10000},
        {"seed", "of weights and order", .number = &p.seed, .least = 1,
         .most = 1 << 30},
        {"mpi", "one of several processes: mpirun -n 4 data_parallel_mpi --mpi",
         .flag = &p.mpi},
        {.name = NULL}};
    message why = {.text = ""};
    int status = options_read(argc, argv, rows);
    bool good;

    if (status >= 0) {
        return status;
    }
    notes_to_stderr();
    good = run_all(&t, &p, &argc, &argv, &why);
    if (!good) {
        fprintf(stderr, "data_parallel: %s\n", why.text);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
