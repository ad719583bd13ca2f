/* classify.c: see classify.h.
 *
 * A request takes a pinned buffer, memory of the device and the calling
 * thread's stream and handles, and gives the memory back before the device has
 * done anything. The threads are libmicrohttpd's: warmpool has not seen them
 * created, and gets its handles back from them when they exit. With graphs a
 * thread keeps what its graphs work on, until it exits. */
#include "examples/inference_server/classify.h"

#include "examples/inference_server/graphs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct classifier {
    warm_runtime *runtime;
    int device;
    bool naive;
    float *weights;       /* on the device */
    bool graph;           /* and with it, of each thread: */
    pthread_key_t graphs; /* its struct graphs */
    atomic_ullong naive_handles, naive_pinned, captures, replays;
};

/* A page-locked buffer: from the cache, or fresh from the system. Null: an
 * error. */
static float *take_buffer(classifier *c, maths *m, size_t bytes)
{
    void *buffer = NULL;

    if (!c->naive) {
        maths_check(m, warm_pinned_alloc(c->runtime, bytes, &buffer));
        return buffer;
    }
    atomic_fetch_add_explicit(&c->naive_pinned, 1, memory_order_relaxed);
    buffer = maths_pin(m, bytes);
    if (buffer == NULL) {
        maths_failed(m, "no page-locked memory");
    }
    return buffer;
}

static void give_buffer(classifier *c, maths *m, void *buffer, size_t bytes)
{
    if (c->naive) {
        maths_unpin(m, buffer, bytes);
    } else {
        warm_free(buffer);
    }
}

static void read_answers(const float *p, int count, answer *answers)
{
    for (int i = 0; i < count; i++, p += CLASSES) {
        answers[i].class = model_best(p);
        answers[i].probability = p[answers[i].class];
    }
}

/* Up to TURN_IMAGES images: in, through the network, and out again. */
static void turn(classifier *c, maths *m, const unsigned char *pixels,
                 int count, answer *answers)
{
    size_t in = (size_t)count * IMAGE_BYTES, out = (size_t)count * CLASSES;
    size_t bytes = (in + out) * sizeof(float);
    float *x = take_buffer(c, m, bytes);
    model_room room;
    float *p;

    if (x == NULL) {
        return;
    }
    p = x + in;
    images_normalize(pixels, in, x);
    model_room_init(&room, m, count);
    model_run(m, c->weights, &room, count, x, p);
    /* Nobody's work gets in before what has been queued. */
    model_room_fini(&room, m);
    if (maths_finish(m)) {
        read_answers(p, count, answers);
    }
    give_buffer(c, m, x, bytes);
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

/* The calling thread's, made at its first request. */
static graphs *graphs_of_thread(classifier *c, message *why)
{
    graphs *g = pthread_getspecific(c->graphs);

    if (g == NULL) {
        g = graphs_begin(c->runtime, c->device, c->weights, why);
        if (g != NULL && pthread_setspecific(c->graphs, g) != 0) {
            failed(why, "out of memory");
            graphs_end(g);
            g = NULL;
        }
    }
    return g;
}

static void end_graphs(void *g)
{
    graphs_end(g);
}

/* The first of so many images go through one operation after the other. */
static void replay(classifier *c, graphs *g, const unsigned char *pixels,
                   int count, answer *answers)
{
    bool known = graphs_know(g, count);

    if (known) {
        const float *p = graphs_replay(g, pixels, count);

        if (p != NULL) {
            read_answers(p, count, answers);
        }
    } else {
        turn(c, &g->m, pixels, count, answers);
        if (!g->m.bad) {
            graphs_capture(g, count);
        }
    }
    if (!g->m.bad) {
        atomic_fetch_add_explicit(known ? &c->replays : &c->captures, 1,
                                  memory_order_relaxed);
    }
}

static bool classify_by_graphs(classifier *c, const unsigned char *pixels,
                               int count, answer *answers, message *why)
{
    graphs *g = graphs_of_thread(c, why);

    for (int i = 0; g != NULL && !g->m.bad && i < count; i += TURN_IMAGES) {
        int some = count - i < TURN_IMAGES ? count - i : TURN_IMAGES;

        replay(c, g, pixels + (size_t)i * IMAGE_BYTES, some, answers + i);
    }
    if (g != NULL && g->m.bad) {
        /* The thread's next request begins anew. */
        *why = g->m.why;
        pthread_setspecific(c->graphs, NULL);
        graphs_end(g);
        return false;
    }
    return g != NULL;
}

bool classify(classifier *c, const unsigned char *pixels, int count,
              answer *answers, message *why)
{
    maths m;

    if (c->graph) {
        return classify_by_graphs(c, pixels, count, answers, why);
    }
    if (!begin(c, &m)) {
        *why = m.why;
        return false;
    }
    for (int i = 0; i < count && !m.bad; i += TURN_IMAGES) {
        int some = count - i < TURN_IMAGES ? count - i : TURN_IMAGES;

        turn(c, &m, pixels + (size_t)i * IMAGE_BYTES, some, answers + i);
    }
    maths_end(&m);
    *why = m.why;
    return !m.bad;
}

static bool load_weights(classifier *c, const char *path, message *why)
{
    float *weights = malloc(MODEL_FLOATS * sizeof *weights);
    maths m;
    bool good = weights != NULL ? model_load(path, weights, why)
                                : failed(why, "out of memory");

    if (good) {
        good = maths_begin(&m, c->runtime, c->device);
        if (good) {
            c->weights = maths_alloc(&m, MODEL_FLOATS);
            maths_upload(&m, c->weights, weights, MODEL_FLOATS);
            good = maths_finish(&m);
            maths_end(&m);
        }
        *why = m.why;
    }
    free(weights);
    return good;
}

static bool open_runtime(classifier *c, const classifier_options *options,
                         message *why)
{
    warm_options o = WARM_INIT(warm_options);

    o.device = strcmp(options->driver, "auto") == 0 ? NULL : options->driver;
    return warm_runtime_create(&o, &c->runtime) == WARM_OK ||
           failed(why, "--driver %s: %s", options->driver,
                  warm_last_error_message());
}

bool classifier_open(const classifier_options *options, classifier **out,
                     message *why)
{
    classifier *c = calloc(1, sizeof *c);
    message ignored;

    if (c == NULL) {
        return failed(why, "out of memory");
    }
    if (pthread_key_create(&c->graphs, end_graphs) != 0) {
        free(c);
        return failed(why, "no thread-specific key is left");
    }
    c->device = options->device;
    c->naive = options->naive;
    c->graph = options->graph;
    if (!open_runtime(c, options, why) ||
        !load_weights(c, options->weights, why)) {
        classifier_close(c, &ignored);
        return false;
    }
    *out = c;
    return true;
}

bool classifier_close(classifier *c, message *why)
{
    warm_destroy_report left = WARM_INIT(warm_destroy_report);

    pthread_key_delete(c->graphs);
    warm_free(c->weights);
    warm_runtime_destroy(c->runtime, &left);
    free(c);
    return left.live == 0 ||
           failed(why, "blocks of memory that were not freed: %" PRIu64,
                  left.live);
}

void classifier_get_stats(classifier *c, classifier_stats *stats)
{
    warm_device_info info = WARM_INIT(warm_device_info);

    memset(stats, 0, sizeof *stats);
    stats->driver = warm_runtime_driver(c->runtime);
    if (warm_device_get_info(c->runtime, c->device, &info) == WARM_OK) {
        memcpy(stats->device, info.name, sizeof stats->device);
    }
    usage_read(c->runtime, c->device, &stats->usage);
    stats->captures = atomic_load_explicit(&c->captures, memory_order_relaxed);
    stats->replays = atomic_load_explicit(&c->replays, memory_order_relaxed);
    stats->usage.handles +=
        atomic_load_explicit(&c->naive_handles, memory_order_relaxed);
    stats->usage.pinned +=
        atomic_load_explicit(&c->naive_pinned, memory_order_relaxed);
}

bool classifier_set_watermarks(classifier *c, uint64_t high, uint64_t low,
                               message *why)
{
    return warm_watermarks_set(c->runtime, WARM_MEMORY_OF_ALL, high, low) ==
               WARM_OK ||
           failed(why, "%s", warm_last_error_message());
}

char *classifier_watermarks(classifier *c)
{
    warm_watermarks marks = WARM_INIT(warm_watermarks);
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);
    char *text = NULL;

    if (warm_watermarks_get(c->runtime, WARM_MEMORY_OF_ALL, &marks) !=
            WARM_OK ||
        warm_memory_get_totals(c->runtime, WARM_MEMORY_OF_ALL, &totals) !=
            WARM_OK ||
        asprintf(&text,
                 "{\"high_bytes\":%" PRIu64 ",\"low_bytes\":%" PRIu64
                 ",\"held_bytes\":%" PRIu64 ",\"in_use_bytes\":%" PRIu64 "}\n",
                 marks.high_bytes, marks.low_bytes, totals.held_bytes,
                 totals.in_use_bytes) < 0) {
        text = NULL;
    }
    return text;
}

char *classifier_text(classifier *c, classifier_writer *write)
{
    size_t needed = 0, room = 0;
    char *text = NULL;
    warm_status status = WARM_OK;

    /* What streams have done with by now is not shown as pending. */
    (void)warm_poll(c->runtime);
    /* Figures may change between two calls: again, with more room. */
    do {
        char *more = needed > 0 ? realloc(text, needed + needed / 4) : NULL;

        if (needed > 0 && more == NULL) {
            break;
        }
        text = more;
        room = needed + needed / 4;
        status = write(c->runtime, text, room, &needed);
    } while (status == WARM_TRUNCATED || (status == WARM_OK && room == 0));
    if (status != WARM_OK || room == 0) {
        free(text);
        text = NULL;
    }
    return text;
}
