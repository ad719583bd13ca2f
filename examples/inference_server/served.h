/* served.h: a server that a test runs, and what it is asked by curl; the test
 * fails if that is not possible. What a test waits for is an answer or a line
 * of output, never a time: "Expect: 100-continue" tells that a request is under
 * way without its body. */
#ifndef EXAMPLES_SERVED_H
#define EXAMPLES_SERVED_H

#include "examples/common/images.h"
#include "examples/common/local.h"
#include "examples/common/process.h"
#include "tests/wt.h"
#include "tests/wt_json.h"

#include <string.h>

enum { THREADS = 3 }; /* of a server */

typedef struct server {
    process process;
    int port;
} server;

typedef struct answer {
    long status;
    char *head, *body; /* texts; lines of the head end with \r\n */
    json_t *json;      /* the body, or null: it is not JSON */
} answer;

/* A client that keeps its connection, if the server does. */
typedef struct http {
    CURL *easy;
    int port;
    answer answer;
} http;

/* The path of a program or file beside this program. */
const char *beside(const char *name, char path[1024]);
/* Starts a server with up to two, or four, more arguments; a null ends them. */
server server_start(const char *more, const char *value);
server server_start_with(const char *const more[4]);
void server_stop(server *s);
/* Runs a program with up to two arguments and returns its status; output gets
 * what it printed, errors included. */
int output_of(const char *name, const char *more, const char *value,
              char output[4096]);
/* Connects with the first request. */
http http_open(const server *s);
void http_close(http *h);
/* The answer is in h->answer. Any thread. */
CURLcode http_ask(http *h, const char *method, const char *path,
                  const void *body, size_t bytes);
/* The answer, until the next one of this client. */
const answer *ask(http *h, const char *method, const char *path,
                  const void *body, size_t bytes);
/* An image's answer. */
const answer *classify(http *h, const unsigned char *pixels);
void answer_free(answer *a);
/* The number at a path of the answer's JSON ("server.requests"). */
double number(const answer *a, const char *path);
/* The same of the answer to /stats. */
double server_number(const server *s, const char *path);
image_set test_images(int count);
size_t make_png(int width, const unsigned char *pixels, unsigned char *out,
                size_t room);
size_t make_idx(const image_set *set, unsigned char *out);

#endif
