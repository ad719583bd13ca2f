/* http.c: see http.h. Replies carry a Content-Length, as those of the example
 * server do; chunked ones are not understood. */
#include "examples/common/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_REPLY = 1 << 24 };

bool http_open(http *h, int port, message *why)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval limit = {.tv_sec = 60};
    int on = 1;

    memset(h, 0, sizeof *h);
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (h->fd < 0 ||
        connect(h->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        failed(why, "port %d: %s", port, strerrordesc_np(errno));
        http_close(h);
        return false;
    }
    setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(h->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return true;
}

void http_close(http *h)
{
    if (h->fd >= 0) {
        close(h->fd);
    }
    free(h->buffer);
    *h = (http){.fd = -1};
}

bool http_send(http *h, const void *bytes, size_t count, message *why)
{
    const char *next = bytes;

    while (count > 0) {
        ssize_t sent = send(h->fd, next, count, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            return failed(why, "send: %s", strerrordesc_np(errno));
        }
        if (sent > 0) {
            next += sent;
            count -= (size_t)sent;
        }
    }
    return true;
}

/* Receives some bytes more; there is always room for a NUL behind them. */
static bool receive_more(http *h, message *why)
{
    ssize_t got;

    if (h->have + 1 >= h->room) {
        size_t room = h->room > 0 ? 2 * h->room : 4096;
        char *buffer = room <= MAX_REPLY ? realloc(h->buffer, room) : NULL;

        if (buffer == NULL) {
            return failed(why, "the reply is too large");
        }
        h->buffer = buffer;
        h->room = room;
    }
    do {
        got = recv(h->fd, h->buffer + h->have, h->room - h->have - 1, 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        return failed(why, "the server closed the connection%s%s",
                      got < 0 ? ": " : "",
                      got < 0 ? strerrordesc_np(errno) : "");
    }
    h->have += (size_t)got;
    h->buffer[h->have] = '\0';
    return true;
}

const char *http_header(const http_reply *reply, const char *name)
{
    size_t length = strlen(name);
    const char *line = strstr(reply->head, "\r\n");

    while (line != NULL && line[2] != '\0') {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            return line + strspn(line, " ");
        }
        line = strstr(line, "\r\n");
    }
    return NULL;
}

bool http_receive(http *h, http_reply *reply, message *why)
{
    char *end = NULL;
    const char *length;
    size_t head, body = 0;

    while (h->have == 0 || (end = strstr(h->buffer, "\r\n\r\n")) == NULL) {
        if (!receive_more(h, why)) {
            return false;
        }
    }
    end[2] = '\0';
    head = (size_t)(end - h->buffer) + 4;
    reply->head = h->buffer;
    if (strncmp(h->buffer, "HTTP/1.", 7) != 0 || head < 16) {
        return failed(why, "not a reply of HTTP: %.40s", h->buffer);
    }
    reply->status = (int)strtol(h->buffer + 9, NULL, 10);
    length = http_header(reply, "Content-Length");
    if (length != NULL) {
        body = strtoull(length, NULL, 10);
    }
    while (h->have < head + body) {
        if (!receive_more(h, why)) {
            return false;
        }
    }
    reply->head = h->buffer;
    reply->body = h->buffer + head;
    reply->body_bytes = body;
    /* One request is answered before the next is sent, but a 100 may be
     * followed by the real reply in the same packet: keep what is left. */
    h->have -= head + body;
    if (h->have > 0) {
        memmove(h->buffer, h->buffer + head + body, h->have + 1);
        reply->head = "";
        reply->body = "";
        reply->body_bytes = 0;
    }
    return true;
}

bool http_ask(http *h, const char *method, const char *path, const char *more,
              const void *body, size_t bytes, http_reply *reply, message *why)
{
    char head[1024];
    char *request;
    int length = snprintf(head, sizeof head,
                          "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                          "Content-Length: %zu\r\n%s\r\n",
                          method, path, bytes, more);
    bool good;

    if (length < 0 || (size_t)length >= sizeof head) {
        return failed(why, "the request's head is too long");
    }
    /* One packet: head and body sent apart would wait for each other. */
    request = malloc((size_t)length + bytes);
    if (request == NULL) {
        return failed(why, "out of memory");
    }
    memcpy(request, head, (size_t)length);
    if (bytes > 0) {
        memcpy(request + length, body, bytes);
    }
    good = http_send(h, request, (size_t)length + bytes, why);
    free(request);
    return good && http_receive(h, reply, why);
}
