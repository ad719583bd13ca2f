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

server server_start_with(const char *const more[4])
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
                          more[0],
                          more[1],
                          more[2],
                          more[3],
                          NULL};
    const char *head = "listening on http://127.0.0.1:";
    server s;
    message why;

    /* Before there are threads; for plain HTTP alone. */
    ck_assert_int_eq(curl_global_init(CURL_GLOBAL_NOTHING), CURLE_OK);
    ck_assert_msg(process_start(&s.process, argv, &why), "%s", why.text);
    ck_assert(process_line(&s.process, head, false, line, sizeof line));
    s.port = (int)strtol(line + strlen(head), NULL, 10);
    ck_assert_int_gt(s.port, 0);
    return s;
}

server server_start(const char *more, const char *value)
{
    return server_start_with((const char *const[4]){more, value});
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

http http_open(const server *s)
{
    http h = {.easy = local_easy(s->port, "/"), .port = s->port};

    ck_assert_ptr_nonnull(h.easy);
    return h;
}

void http_close(http *h)
{
    curl_easy_cleanup(h->easy);
    answer_free(&h->answer);
}

void answer_free(answer *a)
{
    json_decref(a->json);
    free(a->head);
    free(a->body);
    *a = (answer){0};
}

CURLcode http_ask(http *h, const char *method, const char *path,
                  const void *body, size_t bytes)
{
    answer *a = &h->answer;
    size_t head_bytes, body_bytes;
    FILE *head_out, *body_out;
    CURLcode code;

    answer_free(a);
    head_out = open_memstream(&a->head, &head_bytes);
    body_out = open_memstream(&a->body, &body_bytes);
    local_path(h->easy, h->port, path);
    curl_easy_setopt(h->easy, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(h->easy, CURLOPT_HEADERDATA, head_out);
    curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, body_out);
    if (body != NULL) {
        curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE, (long)bytes);
        curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, body);
    } else {
        curl_easy_setopt(h->easy, CURLOPT_HTTPGET, 1L);
    }
    code = curl_easy_perform(h->easy);
    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &a->status);
    fclose(head_out);
    fclose(body_out);
    a->json = wt_json_read(a->body);
    return code;
}

const answer *ask(http *h, const char *method, const char *path,
                  const void *body, size_t bytes)
{
    CURLcode code = http_ask(h, method, path, body, bytes);

    ck_assert_msg(code == CURLE_OK, "%s %s: %s", method, path,
                  curl_easy_strerror(code));
    return &h->answer;
}

const answer *classify(http *h, const unsigned char *pixels)
{
    return ask(h, "POST", "/classify", pixels, IMAGE_BYTES);
}

double number(const answer *a, const char *path)
{
    const json_t *value = wt_json_at(a->json, path);

    ck_assert_msg(json_is_number(value), "no number %s in %s", path, a->body);
    return json_number_value(value);
}

double server_number(const server *s, const char *path)
{
    http h = http_open(s);
    double value = number(ask(&h, "GET", "/stats", NULL, 0), path);

    http_close(&h);
    return value;
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
