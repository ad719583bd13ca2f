/* raw.c: see raw.h. Answers carry a Content-Length, as the server's do. */
#include "examples/inference_server/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

bool raw_open(raw *r, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval limit = {.tv_sec = 60};

    *r = (raw){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    ck_assert_int_ge(r->fd, 0);
    if (connect(r->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        ck_assert_int_eq(errno, ECONNREFUSED);
        close(r->fd);
        return false;
    }
    setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    r->in = fdopen(r->fd, "r");
    ck_assert_ptr_nonnull(r->in);
    return true;
}

raw raw_connect(const server *s)
{
    raw r;

    ck_assert(raw_open(&r, s->port));
    return r;
}

void raw_close(raw *r)
{
    fclose(r->in);
    answer_free(&r->answer);
}

bool raw_send(const raw *r, const void *bytes, size_t count)
{
    const char *next = bytes;

    while (count > 0) {
        ssize_t sent = send(r->fd, next, count, MSG_NOSIGNAL);

        if (sent < 0) {
            return false;
        }
        next += sent;
        count -= (size_t)sent;
    }
    return true;
}

void send_text(const raw *r, const char *text)
{
    ck_assert(raw_send(r, text, strlen(text)));
}

const answer *receive(raw *r)
{
    const char length[] = "Content-Length: ";
    size_t room = 0, bytes = 0, head_bytes;
    char *line = NULL;
    ssize_t got;
    FILE *head;

    answer_free(&r->answer);
    head = open_memstream(&r->answer.head, &head_bytes);
    ck_assert_ptr_nonnull(head);
    while ((got = getline(&line, &room, r->in)) > 0 &&
           strcmp(line, "\r\n") != 0) {
        fputs(line, head);
        if (strncasecmp(line, length, strlen(length)) == 0) {
            bytes = strtoul(line + strlen(length), NULL, 10);
        }
    }
    ck_assert_msg(got > 0, "the server closed the connection");
    free(line);
    fclose(head);
    ck_assert_int_eq(strncmp(r->answer.head, "HTTP/1.", 7), 0);
    r->answer.status = strtol(r->answer.head + 8, NULL, 10);
    r->answer.body = calloc(1, bytes + 1);
    ck_assert_ptr_nonnull(r->answer.body);
    ck_assert_uint_eq(fread(r->answer.body, 1, bytes, r->in), bytes);
    r->answer.json = wt_json_read(r->answer.body);
    return &r->answer;
}

void ends(raw *r)
{
    ck_assert_int_eq(fgetc(r->in), EOF);
    ck_assert_msg(feof(r->in) || errno == ECONNRESET, "still open");
    raw_close(r);
}

raw begin_classify(const server *s)
{
    raw r = raw_connect(s);

    send_text(&r, "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Length: 784\r\nExpect: 100-continue\r\n\r\n");
    ck_assert_int_eq(receive(&r)->status, 100);
    return r;
}
