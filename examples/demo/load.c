/* load.c: see load.h. */
#include "examples/demo/load.h"

#include "examples/common/local.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_CONNECTIONS = 64, IDX_HEAD = 16 };

/* Most bytes of an answer: what a prediction has, and what is around it. */
enum { PREDICTION = 80, AROUND = 1024 };

/* What one connection is asking. */
typedef struct request {
    CURL *easy;
    int number;        /* of the requests */
    int image, images; /* the first of so many */
    unsigned char *body;
    char *answer;
    size_t bytes; /* of the answer */
} request;

typedef struct load {
    const load_plan *plan;
    double *ms; /* one for each request */
    int sent;   /* requests */
    CURLM *multi;
    request requests[MAX_CONNECTIONS];
    int next; /* image */
    int open; /* requests sent and not answered */
    int answered, right, failed;
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

    if (count > AROUND + (size_t)r->images * PREDICTION - r->bytes) {
        return 0;
    }
    memcpy(r->answer + r->bytes, bytes, count);
    r->bytes += count;
    return one * count;
}

/* A file of several images; one image is its bytes. */
static size_t make_body(const load *l, request *r)
{
    const unsigned char head[IDX_HEAD] = {0,
                                          0,
                                          8,
                                          3,
                                          0,
                                          0,
                                          (unsigned char)(r->images >> 8),
                                          (unsigned char)r->images,
                                          0,
                                          0,
                                          0,
                                          28,
                                          0,
                                          0,
                                          0,
                                          28};
    size_t bytes = r->images > 1 ? IDX_HEAD : 0;

    memcpy(r->body, head, bytes);
    memcpy(r->body + bytes,
           l->plan->set->pixels + (size_t)r->image * IMAGE_BYTES,
           (size_t)r->images * IMAGE_BYTES);
    return bytes + (size_t)r->images * IMAGE_BYTES;
}

/* How many images the next request has: one size after the other, mixed. */
static int images_of(const load *l)
{
    int most = l->plan->most > 1 ? l->plan->most : 1;
    int left = l->plan->set->count - l->next;
    int images = 1 + (int)((unsigned)l->sent * 2654435761U % (unsigned)most);

    return images < left ? images : left;
}

/* Sends the next images, if some are left. */
static void send_images(load *l, request *r)
{
    if (l->next == l->plan->set->count) {
        return;
    }
    r->image = l->next;
    r->images = images_of(l);
    r->number = l->sent++;
    l->next += r->images;
    r->bytes = 0;
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE, (long)make_body(l, r));
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS, r->body);
    l->open += curl_multi_add_handle(l->multi, r->easy) == CURLM_OK;
}

/* False: it is none. */
static bool take_class(load *l, int image, const json_t *answer)
{
    const json_t *value = json_object_get(answer, "class");
    json_int_t class = json_integer_value(value);

    if (!json_is_integer(value) || class < 0 || class >= CLASSES) {
        return false;
    }
    if (l->plan->classes != NULL) {
        l->plan->classes[image] = (unsigned char)class;
    }
    l->right += class == l->plan->set->labels[image];
    return true;
}

static bool take_classes(load *l, const request *r, const json_t *answer)
{
    const json_t *list = json_object_get(answer, "predictions");

    if (r->images == 1) {
        return take_class(l, r->image, answer);
    }
    for (int i = 0; i < r->images; i++) {
        if (!take_class(l, r->image + i, json_array_get(list, (size_t)i))) {
            return false;
        }
    }
    return true;
}

static bool take_answer(load *l, const request *r, CURLcode code, message *why)
{
    long status = 0;
    json_t *json;
    bool good;

    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        return failed(why, "image %d: %s", r->image, curl_easy_strerror(code));
    }
    json = json_loadb(r->answer, r->bytes, 0, NULL);
    good = status == 200 && take_classes(l, r, json);
    if (!good) {
        failed(why, "image %d was answered %ld: %.*s", r->image, status,
               (int)r->bytes, r->answer);
    }
    json_decref(json);
    return good;
}

static void show(const load *l)
{
    int tenth = l->plan->set->count >= 10 ? l->plan->set->count / 10 : 1;

    if (l->plan->progress && l->answered % tenth == 0) {
        putchar('.');
        fflush(stdout);
    }
}

/* False: the connection sends no more. */
static bool count_answer(load *l, const request *r, CURLcode code)
{
    message why = {.text = ""};
    curl_off_t us = 0;

    if (!take_answer(l, r, code, &why)) {
        l->failed++;
        l->why = l->why.text[0] == '\0' ? why : l->why;
        return false;
    }
    curl_easy_getinfo(r->easy, CURLINFO_TOTAL_TIME_T, &us);
    l->ms[r->number] = (double)us / 1e3;
    l->answered += r->images;
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
            send_images(l, r);
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

static bool open_request(load *l, request *r)
{
    size_t most = l->plan->most > 1 ? (size_t)l->plan->most : 1;

    r->easy = local_easy(l->plan->port, "/classify");
    r->body = malloc(IDX_HEAD + most * IMAGE_BYTES);
    r->answer = malloc(AROUND + most * PREDICTION);
    if (r->easy == NULL || r->body == NULL || r->answer == NULL) {
        return false;
    }
    curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
    send_images(l, r);
    return true;
}

static void run(load *l)
{
    l->multi = curl_multi_init();
    for (int i = 0; i < l->plan->connections && i < MAX_CONNECTIONS; i++) {
        if (l->multi == NULL || !open_request(l, &l->requests[i])) {
            failed(&l->why, "out of memory");
            break;
        }
    }
    send_all(l);
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        if (l->requests[i].easy != NULL) {
            curl_multi_remove_handle(l->multi, l->requests[i].easy);
            curl_easy_cleanup(l->requests[i].easy);
        }
        free(l->requests[i].body);
        free(l->requests[i].answer);
    }
    curl_multi_cleanup(l->multi);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

bool load_run(const load_plan *plan, load_result *result, message *why)
{
    load l = {.plan = plan};
    int images = plan->set->count;
    double start = now_ms();

    l.ms = calloc((size_t)images, sizeof *l.ms);
    if (l.ms == NULL) {
        return failed(why, "out of memory");
    }
    run(&l);
    result->seconds = (now_ms() - start) / 1e3;
    result->requests = l.sent;
    result->answered = l.answered;
    result->right = l.right;
    result->failed = l.failed;
    if (plan->ms != NULL) {
        memcpy(plan->ms, l.ms, (size_t)l.sent * sizeof *l.ms);
    }
    qsort(l.ms, (size_t)l.sent, sizeof *l.ms, compare);
    result->p50_ms = l.ms[l.sent / 2];
    result->p99_ms = l.ms[(size_t)l.sent * 99 / 100];
    free(l.ms);
    return l.answered == images ||
           failed(why, "images not answered: %d of %d; %s", images - l.answered,
                  images, l.why.text);
}
