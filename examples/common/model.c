/* model.c: see model.h. */
#include "examples/common/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_head[] = "warmpool-mlp 784 128 10 float32\n";

uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Uniform with the deviation that keeps a layer of inputs at variance 1
 * (He and others, 2015). */
static void fill(float *weights, int inputs, int outputs, uint64_t *state)
{
    float limit = sqrtf(6.0f / (float)inputs);

    for (int i = 0; i < inputs * outputs; i++) {
        float unit = (float)(random_next(state) >> 40) / (float)(1 << 24);

        weights[i] = (2 * unit - 1) * limit;
    }
}

void model_init(float *weights, uint64_t seed)
{
    uint64_t state = seed != 0 ? seed : 1;

    memset(weights, 0, MODEL_FLOATS * sizeof *weights);
    fill(weights, IMAGE_BYTES, HIDDEN, &state);
    fill(weights + MODEL_W2, HIDDEN, CLASSES, &state);
}

/* The file beside path that is written first: a reader never sees half a file.
 * Null: why says what stops it. */
static FILE *open_part(const char *path, char part[1024], message *why)
{
    struct stat is;
    FILE *file = NULL;
    int code = EISDIR;

    if (stat(path, &is) != 0 || !S_ISDIR(is.st_mode)) {
        int length = snprintf(part, 1024, "%s.part", path);

        errno = ENAMETOOLONG;
        file = length < 1024 ? fopen(part, "wb") : NULL;
        code = errno;
    }
    if (file == NULL) {
        failed(why,
               "could not write the weights to %s: %s; name a file in a folder "
               "that you may write to with --weights",
               path, strerrordesc_np(code));
    }
    return file;
}

bool model_can_save(const char *path, message *why)
{
    char part[1024];
    FILE *file = open_part(path, part, why);

    if (file == NULL) {
        return false;
    }
    fclose(file);
    unlink(part);
    return true;
}

bool model_save(const char *path, const float *weights, message *why)
{
    char part[1024];
    FILE *file = open_part(path, part, why);
    bool good;

    if (file == NULL) {
        return false;
    }
    good = fwrite(file_head, sizeof file_head - 1, 1, file) == 1 &&
           fwrite(weights, sizeof *weights, MODEL_FLOATS, file) == MODEL_FLOATS;
    good = fclose(file) == 0 && good;
    if (!good || rename(part, path) != 0) {
        failed(why, "could not write the weights to %s: %s", path,
               strerrordesc_np(errno));
        unlink(part);
        return false;
    }
    return true;
}

bool model_load(const char *path, float *weights, message *why)
{
    char head[sizeof file_head - 1];
    FILE *file = fopen(path, "rb");
    bool good;

    if (file == NULL) {
        return failed(why,
                      "%s: %s; run data_parallel first, which writes it, or "
                      "name another file with --weights",
                      path, strerrordesc_np(errno));
    }
    good =
        fread(head, sizeof head, 1, file) == 1 &&
        memcmp(head, file_head, sizeof head) == 0 &&
        fread(weights, sizeof *weights, MODEL_FLOATS, file) == MODEL_FLOATS &&
        fgetc(file) == EOF;
    fclose(file);
    return good ? true
                : failed(why,
                         "%s does not hold the weights of a 784-128-10 "
                         "network; data_parallel writes it",
                         path);
}

void model_room_init(model_room *room, maths *m, int rows)
{
    size_t count = (size_t)rows;

    room->x = maths_alloc(m, count * IMAGE_BYTES);
    room->h = maths_alloc(m, count * HIDDEN);
    room->p = maths_alloc(m, count * CLASSES);
}

void model_room_fini(model_room *room, maths *m)
{
    maths_free(m, room->x);
    maths_free(m, room->h);
    maths_free(m, room->p);
}

void model_forward(maths *m, const float *weights, const model_room *room,
                   int rows)
{
    maths_product first = {
        .rows = rows, .columns = HIDDEN, .inner = IMAGE_BYTES, .alpha = 1};
    maths_product second = {
        .rows = rows, .columns = CLASSES, .inner = HIDDEN, .alpha = 1};

    maths_gemm(m, &first, room->x, weights, room->h);
    maths_add_row(m, rows, HIDDEN, weights + MODEL_B1, room->h);
    maths_relu(m, rows, HIDDEN, room->h);
    maths_gemm(m, &second, room->h, weights + MODEL_W2, room->p);
    maths_add_row(m, rows, CLASSES, weights + MODEL_B2, room->p);
    maths_softmax(m, rows, CLASSES, room->p);
}

void model_run(maths *m, const float *weights, const model_room *room, int rows,
               const float *x, float *p)
{
    maths_upload(m, room->x, x, (size_t)rows * IMAGE_BYTES);
    model_forward(m, weights, room, rows);
    maths_download(m, p, room->p, (size_t)rows * CLASSES);
}

int model_best(const float *probabilities)
{
    int best = 0;

    for (int c = 1; c < CLASSES; c++) {
        best = probabilities[c] > probabilities[best] ? c : best;
    }
    return best;
}
