/* served.c: see served.h. */
#include "examples/inference_server/served.h"

#include <png.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

const char *beside(const char *name, char path[1024])
{
    ssize_t length = readlink("/proc/self/exe", path, 900);
    char *slash;

    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    slash = strrchr(path, '/');
    ck_assert_ptr_nonnull(slash);
    snprintf(slash + 1, 100, "%s", name);
    return path;
}

server server_start(const char *more, const char *value)
{
    char program[1024], weights[1024], line[256];
    const char *argv[] = {beside("inference_server", program),
                          "--port",
                          "0",
                          "--threads",
                          "3",
                          "--weights",
                          beside("check.weights", weights),
                          "--driver",
                          wt_on_host() ? "host" : "cuda",
                          more,
                          value,
                          NULL};
    const char *head = "listening on http://127.0.0.1:";
    server s;
    message why;

    ck_assert_msg(process_start(&s.process, argv, &why), "%s", why.text);
    ck_assert(process_line(&s.process, head, false, line, sizeof line));
    s.port = (int)strtol(line + strlen(head), NULL, 10);
    ck_assert_int_gt(s.port, 0);
    return s;
}

void server_stop(server *s)
{
    ck_assert_int_eq(process_end(&s->process, SIGTERM), EXIT_SUCCESS);
}

int output_of(const char *name, const char *more, const char *value,
              char output[4096])
{
    char program[1024];
    const char *argv[] = {
        "/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1", beside(name, program), more,
        value,     NULL};
    process p;
    message why;

    ck_assert_msg(process_start(&p, argv, &why), "%s", why.text);
    output[fread(output, 1, 4095, p.out)] = '\0';
    return process_end(&p, 0);
}

http server_connect(const server *s)
{
    http h;
    message why;

    ck_assert_msg(http_open(&h, s->port, &why), "%s", why.text);
    return h;
}

http_reply ask(http *h, const char *method, const char *path, const void *body,
               size_t bytes)
{
    http_reply reply;
    message why;

    ck_assert_msg(http_ask(h, method, path, "", body, bytes, &reply, &why),
                  "%s %s: %s", method, path, why.text);
    return reply;
}

void ask_once(const server *s, const char *method, const char *path,
              const void *body, size_t bytes, int *status, char text[4096])
{
    http h = server_connect(s);
    http_reply reply = ask(&h, method, path, body, bytes);

    *status = reply.status;
    snprintf(text, 4096, "%s", reply.body);
    http_close(&h);
}

void send_text(http *h, const char *text)
{
    message why;

    ck_assert_msg(http_send(h, text, strlen(text), &why), "%s", why.text);
}

http_reply receive(http *h)
{
    http_reply reply;
    message why;

    ck_assert_msg(http_receive(h, &reply, &why), "%s", why.text);
    return reply;
}

http begin_classify(const server *s)
{
    http h = server_connect(s);

    send_text(&h, "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Length: 784\r\nExpect: 100-continue\r\n\r\n");
    ck_assert_int_eq(receive(&h).status, 100);
    return h;
}

image_set test_images(int count)
{
    const char *folder = getenv("EXAMPLES_DATA");
    image_set set;
    message why;

    ck_assert_msg(images_load(folder != NULL ? folder : IMAGES_FOLDER, "t10k",
                              &set, &why),
                  "%s", why.text);
    set.count = count;
    return set;
}

size_t make_png(int width, const unsigned char *pixels, unsigned char *out,
                size_t room)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = IMAGE_SIDE,
                       .format = PNG_FORMAT_GRAY};
    png_alloc_size_t bytes = room;

    ck_assert_int_ne(
        png_image_write_to_memory(&image, out, &bytes, 0, pixels, 0, NULL), 0);
    return bytes;
}

size_t make_idx(const image_set *set, unsigned char *out)
{
    const unsigned char head[16] = {
        0, 0, 8, 3,  0, 0, 0, (unsigned char)set->count,
        0, 0, 0, 28, 0, 0, 0, 28};
    size_t bytes = (size_t)set->count * IMAGE_BYTES;

    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, set->pixels, bytes);
    return sizeof head + bytes;
}
