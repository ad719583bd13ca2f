/* classify.c: see classify.h.
 *
 * A request takes one of the rooms on the device, a pinned buffer, and the
 * calling thread's stream and handles. The threads are libmicrohttpd's:
 * warmpool has not seen them created, and gets its handles back from them
 * when they exit. */
#include "examples/inference_server/classify.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_IMAGES = 64 }; /* larger requests go in several turns */

struct classifier {
    warm_runtime *runtime;
    int device;
    bool naive;
    float *weights; /* on the device */
    pthread_mutex_t mutex;
    pthread_cond_t room_free;
    model_room *rooms; /* those from used on are free: lock mutex */
    int used, count;
    atomic_ullong naive_handles, naive_pinned;
};

static model_room take_room(classifier *c)
{
    model_room room;

    pthread_mutex_lock(&c->mutex);
    while (c->used == c->count) {
        pthread_cond_wait(&c->room_free, &c->mutex);
    }
    room = c->rooms[c->used++];
    pthread_mutex_unlock(&c->mutex);
    return room;
}

static void give_room(classifier *c, model_room room)
{
    pthread_mutex_lock(&c->mutex);
    c->rooms[--c->used] = room;
    pthread_cond_signal(&c->room_free);
    pthread_mutex_unlock(&c->mutex);
}

/* A page-locked buffer: from the cache, or fresh from the system. */
static float *take_buffer(classifier *c, maths *m, size_t bytes)
{
    void *buffer = NULL;

    if (!c->naive) {
        return warm_pinned_alloc(c->runtime, bytes, &buffer) == WARM_OK ? buffer
                                                                        : NULL;
    }
    atomic_fetch_add_explicit(&c->naive_pinned, 1, memory_order_relaxed);
    return maths_pin(m, bytes);
}

static void give_buffer(classifier *c, maths *m, void *buffer, size_t bytes)
{
    if (c->naive) {
        maths_unpin(m, buffer, bytes);
    } else {
        warm_free(buffer);
    }
}

/* Up to ROOM_IMAGES images: in, through the network, and out again. */
static bool turn(classifier *c, maths *m, const model_room *room,
                 const unsigned char *pixels, int count, answer *answers)
{
    size_t in = (size_t)count * IMAGE_BYTES, out = (size_t)count * CLASSES;
    size_t bytes = (in + out) * sizeof(float);
    float *x = take_buffer(c, m, bytes);
    float *p;

    if (x == NULL) {
        maths_failed(m, "no pinned memory: %s", warm_last_error_message());
        return false;
    }
    p = x + in;
    images_normalize(pixels, in, x);
    maths_upload(m, room->x, x, in);
    model_forward(m, c->weights, room, count);
    maths_download(m, p, room->p, out);
    if (maths_finish(m)) {
        for (int i = 0; i < count; i++, p += CLASSES) {
            answers[i].class = model_best(p);
            answers[i].probability = p[answers[i].class];
        }
    }
    give_buffer(c, m, x, bytes);
    return !m->bad;
}

static bool begin(classifier *c, maths *m)
{
    bool good;

    if (!c->naive) {
        return maths_begin(m, c->runtime, c->device);
    }
    good = maths_begin_naive(m, c->runtime, c->device);
    /* The stream, one library's handle, and on CUDA the other's. */
    atomic_fetch_add_explicit(&c->naive_handles, m->dnn != NULL ? 3 : 2,
                              memory_order_relaxed);
    return good;
}

bool classify(classifier *c, const unsigned char *pixels, int count,
              answer *answers, message *why)
{
    maths m;
    model_room room;

    if (!begin(c, &m)) {
        *why = m.why;
        return false;
    }
    room = take_room(c);
    for (int i = 0; i < count && !m.bad; i += ROOM_IMAGES) {
        int some = count - i < ROOM_IMAGES ? count - i : ROOM_IMAGES;

        turn(c, &m, &room, pixels + (size_t)i * IMAGE_BYTES, some, answers + i);
    }
    give_room(c, room);
    maths_end(&m);
    *why = m.why;
    return !m.bad;
}

static bool load_weights(classifier *c, const char *path, message *why)
{
    float *weights = malloc(MODEL_FLOATS * sizeof *weights);
    void *on_device;
    maths m;
    bool good = weights != NULL && model_load(path, weights, why);

    if (good && warm_device_alloc_uncached(c->runtime, c->device,
                                           MODEL_FLOATS * sizeof *weights,
                                           &on_device) != WARM_OK) {
        good = failed(why, "%s", warm_last_error_message());
    }
    if (good) {
        c->weights = on_device;
        good = maths_begin(&m, c->runtime, c->device);
        if (good) {
            maths_upload(&m, c->weights, weights, MODEL_FLOATS);
            good = maths_finish(&m);
            maths_end(&m);
        }
        *why = m.why;
    }
    free(weights);
    return good;
}

static bool make_rooms(classifier *c, int count, message *why)
{
    c->rooms = calloc((size_t)count, sizeof *c->rooms);
    if (c->rooms == NULL) {
        return failed(why, "out of memory");
    }
    while (c->count < count) {
        if (!model_room_init(&c->rooms[c->count], c->runtime, c->device,
                             ROOM_IMAGES, why)) {
            return false;
        }
        c->count++;
    }
    return true;
}

bool classifier_open(const classifier_options *options, classifier **out,
                     message *why)
{
    warm_options o = {.size = sizeof o};
    classifier *c = calloc(1, sizeof *c);

    if (c == NULL) {
        return failed(why, "out of memory");
    }
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->room_free, NULL);
    c->device = options->device;
    c->naive = options->naive;
    o.device = strcmp(options->driver, "auto") == 0 ? NULL : options->driver;
    if (warm_runtime_create(&o, &c->runtime) != WARM_OK) {
        failed(why, "%s", warm_last_error_message());
        classifier_close(c);
        return false;
    }
    if (!load_weights(c, options->weights, why) ||
        !make_rooms(c, options->rooms, why)) {
        classifier_close(c);
        return false;
    }
    *out = c;
    return true;
}

void classifier_close(classifier *c)
{
    for (int i = 0; i < c->count; i++) {
        model_room_fini(&c->rooms[i], c->runtime, c->device);
    }
    if (c->weights != NULL) {
        warm_device_free_uncached(c->runtime, c->device, c->weights);
    }
    warm_runtime_destroy(c->runtime, NULL);
    pthread_cond_destroy(&c->room_free);
    pthread_mutex_destroy(&c->mutex);
    free(c->rooms);
    free(c);
}

void classifier_get_stats(classifier *c, classifier_stats *stats)
{
    warm_device_info info = {.size = sizeof info};
    warm_space_stats space = {.size = sizeof space};

    memset(stats, 0, sizeof *stats);
    stats->driver = warm_runtime_driver(c->runtime);
    if (warm_device_get_info(c->runtime, c->device, &info) == WARM_OK) {
        memcpy(stats->device, info.name, sizeof stats->device);
    }
    for (warm_kind kind = 0; kind < WARM_KIND_BUILTIN; kind++) {
        warm_handle_stats handles = {.size = sizeof handles};

        if (warm_handle_get_stats(c->runtime, kind, c->device, &handles) ==
            WARM_OK) {
            stats->handles_created += handles.created;
        }
    }
    if (warm_pinned_get_stats(c->runtime, &space) == WARM_OK) {
        stats->pinned = space.requests.allocated;
        stats->pinned_reused = space.cache_hits;
        stats->pinned_live = space.requests.current;
    }
    stats->handles_created +=
        atomic_load_explicit(&c->naive_handles, memory_order_relaxed);
    stats->pinned +=
        atomic_load_explicit(&c->naive_pinned, memory_order_relaxed);
}

char *classifier_json(classifier *c)
{
    size_t needed = 0;
    char *text = NULL;

    /* What is asked for may grow between the two calls: some room more. */
    if (warm_stats_json(c->runtime, NULL, 0, &needed) == WARM_OK) {
        needed += 4096;
        text = malloc(needed);
    }
    if (text != NULL &&
        warm_stats_json(c->runtime, text, needed, NULL) != WARM_OK) {
        free(text);
        text = NULL;
    }
    return text;
}
