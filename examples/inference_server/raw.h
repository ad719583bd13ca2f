/* raw.h: connections on which a test sends bytes as they are: half a request,
 * one that is wrong, or none. Whole requests are curl's: served.h. */
#ifndef EXAMPLES_RAW_H
#define EXAMPLES_RAW_H

#include "examples/inference_server/served.h"

typedef struct raw {
    int fd;
    FILE *in; /* the same, to read from */
    answer answer;
} raw;

raw raw_connect(const server *s);
/* False: nobody listens on the port. */
bool raw_open(raw *r, int port);
void raw_close(raw *r);
/* False: the server has cut the connection. Any thread. */
bool raw_send(const raw *r, const void *bytes, size_t count);
void send_text(const raw *r, const char *text);
/* The next answer, until the one after that. One with status 100 has no body.
 */
const answer *receive(raw *r);
/* The server has closed the connection and sent no more; closes it as well. */
void ends(raw *r);
/* A request that is under way and waits for its body. */
raw begin_classify(const server *s);

#endif
