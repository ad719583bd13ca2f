/* load.c: see load.h. */
#include "examples/demo/load.h"

#include "examples/common/local.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_CONNECTIONS = 64 };

/* What one connection is asking. */
typedef struct request {
    CURL *easy;
    int image;
    char answer[1024];
    size_t bytes;
} request;

typedef struct load {
    const image_set *set;
    bool progress;
    unsigned char *classes;
    double *ms; /* one for each image */
    CURLM *multi;
    request requests[MAX_CONNECTIONS];
    int next; /* image */
    int open; /* requests sent and not answered */
    int answered, right;
    message why; /* of the first failure */
} load;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* For curl, which ends the request if not all bytes are taken. */
static size_t receive(char *bytes, size_t one, size_t count, void *argument)
{
    request *r = argument;

    if (count > sizeof r->answer - r->bytes) {
        return 0;
    }
    memcpy(r->answer + r->bytes, bytes, count);
    r->bytes += count;
    return one * count;
}

/* Sends the next image, if one is left. */
static void send_image(load *l, request *r)
{
    if (l->next == l->set->count) {
        return;
    }
    r->image = l->next++;
    r->bytes = 0;
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS,
                     l->set->pixels + (size_t)r->image * IMAGE_BYTES);
    l->open += curl_multi_add_handle(l->multi, r->easy) == CURLM_OK;
}

/* The class in an answer, or -1. */
static int read_class(const request *r, CURLcode code, message *why)
{
    int class = -1;
    long status = 0;
    json_t *json;

    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        failed(why, "image %d: %s", r->image, curl_easy_strerror(code));
        return -1;
    }
    json = json_loadb(r->answer, r->bytes, 0, NULL);
    if (status != 200 || json_unpack(json, "{s:i}", "class", &class) != 0 ||
        class < 0 || class >= CLASSES) {
        failed(why, "image %d was answered %ld: %.*s", r->image, status,
               (int)r->bytes, r->answer);
        class = -1;
    }
    json_decref(json);
    return class;
}

static void show(const load *l)
{
    int tenth = l->set->count >= 10 ? l->set->count / 10 : 1;

    if (l->progress && l->answered % tenth == 0) {
        putchar('.');
        fflush(stdout);
    }
}

/* False: the connection sends no more. */
static bool count_answer(load *l, const request *r, CURLcode code)
{
    message why = {""};
    curl_off_t us = 0;
    int class = read_class(r, code, &why);

    if (class < 0) {
        l->why = l->why.text[0] == '\0' ? why : l->why;
        return false;
    }
    curl_easy_getinfo(r->easy, CURLINFO_TOTAL_TIME_T, &us);
    l->ms[r->image] = (double)us / 1e3;
    if (l->classes != NULL) {
        l->classes[r->image] = (unsigned char)class;
    }
    l->answered++;
    l->right += class == l->set->labels[r->image];
    show(l);
    return true;
}

static void take_answers(load *l)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(l->multi, &left)) != NULL) {
        CURLcode code = m->data.result;
        request *r = NULL;

        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
        curl_multi_remove_handle(l->multi, r->easy);
        l->open--;
        if (count_answer(l, r, code)) {
            send_image(l, r);
        }
    }
}

static void send_all(load *l)
{
    CURLMcode code = CURLM_OK;
    int running;

    while (l->open > 0 && code == CURLM_OK) {
        code = curl_multi_perform(l->multi, &running);
        take_answers(l);
        /* Fewer are running than are open: some were sent just now. */
        if (running > 0 && running == l->open && code == CURLM_OK) {
            code = curl_multi_poll(l->multi, NULL, 0, 1000, NULL);
        }
    }
}

static bool open_request(load *l, request *r, int port)
{
    r->easy = local_easy(port, "/classify");
    if (r->easy == NULL) {
        return false;
    }
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE, (long)IMAGE_BYTES);
    curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
    send_image(l, r);
    return true;
}

static void run(load *l, int port, int connections)
{
    l->multi = curl_multi_init();
    for (int i = 0; i < connections && i < MAX_CONNECTIONS; i++) {
        if (l->multi == NULL || !open_request(l, &l->requests[i], port)) {
            failed(&l->why, "out of memory");
            break;
        }
    }
    send_all(l);
    for (int i = 0; i < MAX_CONNECTIONS && l->requests[i].easy != NULL; i++) {
        curl_multi_remove_handle(l->multi, l->requests[i].easy);
        curl_easy_cleanup(l->requests[i].easy);
    }
    curl_multi_cleanup(l->multi);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

bool load_run(int port, const image_set *set, int connections, bool progress,
              unsigned char *classes, load_result *result, message *why)
{
    load l = {.set = set, .progress = progress, .classes = classes};
    size_t count = (size_t)set->count;
    double start = now_ms();

    l.ms = calloc(count, sizeof *l.ms);
    if (l.ms == NULL) {
        return failed(why, "out of memory");
    }
    run(&l, port, connections);
    result->seconds = (now_ms() - start) / 1e3;
    result->answered = l.answered;
    result->right = l.right;
    qsort(l.ms, count, sizeof *l.ms, compare);
    result->p50_ms = l.ms[count / 2];
    result->p99_ms = l.ms[count * 99 / 100];
    free(l.ms);
    return l.answered == set->count ||
           failed(why, "%d of %d requests were not answered; %s",
                  set->count - l.answered, set->count, l.why.text);
}
