/* served.h: a server that a test runs, and what it is asked over real sockets;
 * the test fails if that is not possible. What a test waits for is an answer
 * or a line of output, never a time: "Expect: 100-continue" tells that a
 * request is under way without its body. */
#ifndef EXAMPLES_SERVED_H
#define EXAMPLES_SERVED_H

#include "examples/common/http.h"
#include "examples/common/images.h"
#include "examples/common/json.h"
#include "examples/common/process.h"
#include "tests/wt.h"

#include <string.h>

enum { THREADS = 3 }; /* of a server */

typedef struct server {
    process process;
    int port;
} server;

/* The path of a program or file beside this program. */
const char *beside(const char *name, char path[1024]);
/* Starts a server with up to two more arguments; a null ends them. */
server server_start(const char *more, const char *value);
void server_stop(server *s);
/* Runs a program with up to two arguments and returns its status; output gets
 * what it printed, errors included. */
int output_of(const char *name, const char *more, const char *value,
              char output[4096]);
http server_connect(const server *s);
http_reply ask(http *h, const char *method, const char *path, const void *body,
               size_t bytes);
/* Asks on a connection of its own; *status and text are copies. */
void ask_once(const server *s, const char *method, const char *path,
              const void *body, size_t bytes, int *status, char text[4096]);
void send_text(http *h, const char *text);
http_reply receive(http *h);
/* A request that is under way and waits for its body. */
http begin_classify(const server *s);
image_set test_images(int count);
size_t make_png(int width, const unsigned char *pixels, unsigned char *out,
                size_t room);
size_t make_idx(const image_set *set, unsigned char *out);

#endif
