/* http.h: a small HTTP/1.1 client that keeps its connection. */
#ifndef EXAMPLE_HTTP_H
#define EXAMPLE_HTTP_H

#include "examples/common/images.h"

typedef struct http {
    int fd;
    size_t have;  /* bytes received and not used */
    char *buffer; /* of the reply */
    size_t room;
} http;

typedef struct http_reply {
    int status;
    const char *head; /* borrowed until the next request; ends with NUL */
    const char *body; /* as well; ends with NUL */
    size_t body_bytes;
} http_reply;

/* Connects to a port of this machine (127.0.0.1). */
bool http_open(http *h, int port, message *why);
void http_close(http *h);

/* Sends bytes as they are. */
bool http_send(http *h, const void *bytes, size_t count, message *why);
/* Reads one reply; one with status 100 has no body. */
bool http_receive(http *h, http_reply *reply, message *why);
/* Both, for one request. more: header lines that end with \r\n, or "". */
bool http_ask(http *h, const char *method, const char *path, const char *more,
              const void *body, size_t bytes, http_reply *reply, message *why);

/* The value of a header of the reply, or null; borrowed, ends with \r\n. */
const char *http_header(const http_reply *reply, const char *name);

#endif
