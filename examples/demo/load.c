/* load.c: see load.h. */
#include "examples/demo/load.h"

#include "examples/common/http.h"
#include "examples/common/json.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_CONNECTIONS = 64 };

typedef struct load {
    int port;
    const image_set *set;
    bool progress;
    unsigned char *classes;
    double *ms;       /* one for each image: written by who sends it */
    atomic_int next;  /* image */
    atomic_int right; /* so far */
    atomic_int answered;
    pthread_mutex_t mutex;
    message why; /* lock mutex: of the first failure */
} load;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool send_image(load *l, http *h, int image, message *why)
{
    const unsigned char *pixels = l->set->pixels + (size_t)image * IMAGE_BYTES;
    http_reply reply;
    double start = now_ms(), class;

    if (!http_ask(h, "POST", "/classify", "", pixels, IMAGE_BYTES, &reply,
                  why)) {
        return false;
    }
    l->ms[image] = now_ms() - start;
    if (reply.status != 200 || !json_valid(reply.body)) {
        return failed(why, "image %d was answered %d: %.200s", image,
                      reply.status, reply.body);
    }
    class = json_number(reply.body, "class", -1);
    if (class < 0 || class >= CLASSES) {
        return failed(why, "no class in %.200s", reply.body);
    }
    if (l->classes != NULL) {
        l->classes[image] = (unsigned char)class;
    }
    /* Relaxed: read after the threads have been joined. */
    atomic_fetch_add_explicit(&l->answered, 1, memory_order_relaxed);
    if ((unsigned char)class == l->set->labels[image]) {
        atomic_fetch_add_explicit(&l->right, 1, memory_order_relaxed);
    }
    return true;
}

static void show(const load *l, int image)
{
    int tenth = l->set->count >= 10 ? l->set->count / 10 : 1;

    if (l->progress && image % tenth == tenth - 1) {
        putchar('.');
        fflush(stdout);
    }
}

static void *send_images(void *argument)
{
    load *l = argument;
    message why = {""};
    http h;
    bool good = http_open(&h, l->port, &why);

    while (good) {
        /* Relaxed: a number that each gets once, nothing more. */
        int image =
            atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);

        if (image >= l->set->count) {
            break;
        }
        good = send_image(l, &h, image, &why);
        show(l, image);
    }
    http_close(&h);
    if (!good) {
        pthread_mutex_lock(&l->mutex);
        if (l->why.text[0] == '\0') {
            l->why = why;
        }
        pthread_mutex_unlock(&l->mutex);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void run_threads(load *l, int connections)
{
    pthread_t threads[MAX_CONNECTIONS];
    int started = 0;

    while (started < connections && started < MAX_CONNECTIONS &&
           pthread_create(&threads[started], NULL, send_images, l) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}

bool load_run(int port, const image_set *set, int connections, bool progress,
              unsigned char *classes, load_result *result, message *why)
{
    load l = {.port = port,
              .set = set,
              .progress = progress,
              .mutex = PTHREAD_MUTEX_INITIALIZER};
    size_t count = (size_t)set->count;
    double start = now_ms();
    bool good;

    l.classes = classes;
    l.ms = calloc(count, sizeof *l.ms);
    if (l.ms == NULL) {
        return failed(why, "out of memory");
    }
    run_threads(&l, connections);
    result->seconds = (now_ms() - start) / 1e3;
    result->answered = atomic_load(&l.answered);
    result->right = atomic_load(&l.right);
    qsort(l.ms, count, sizeof *l.ms, compare);
    result->p50_ms = l.ms[count / 2];
    result->p99_ms = l.ms[count * 99 / 100];
    free(l.ms);
    good = result->answered == set->count;
    if (!good) {
        failed(why, "%d of %d requests were not answered; %s",
               set->count - result->answered, set->count, l.why.text);
    }
    return good;
}
