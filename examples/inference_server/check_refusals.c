/* check_refusals.c: what the example server refuses, and how it ends; wrong
 * options of all examples. See check_server.c. */
#include "examples/inference_server/served.h"

#include <signal.h>
#include <stdlib.h>

enum { BODY_LIMIT = 16 + 1024 * IMAGE_BYTES };

/* ---- refusals ----------------------------------------------------------- */

static void refused_with_400(http *h, const void *body, size_t bytes)
{
    http_reply reply = ask(h, "POST", "/classify", body, bytes);

    ck_assert_int_eq(reply.status, 400);
    ck_assert(json_valid(reply.body));
    ck_assert_ptr_nonnull(strstr(reply.body, "784 bytes"));
    ck_assert_ptr_nonnull(strstr(reply.body, "PNG of 28x28"));
}

START_TEST(test_bad_images_are_refused_with_what_was_expected)
{
    server s = server_start(NULL, NULL);
    http h = server_connect(&s);
    image_set set = test_images(2);
    unsigned char png[4096], idx[4096];
    size_t bytes = make_png(IMAGE_SIDE, set.pixels, png, sizeof png);

    refused_with_400(&h, "", 0);
    refused_with_400(&h, set.pixels, IMAGE_BYTES - 1);
    refused_with_400(&h, set.pixels, IMAGE_BYTES + 1);
    refused_with_400(&h, png, bytes / 2);
    memset(png + 20, 0x5a, bytes - 20);
    refused_with_400(&h, png, bytes);
    bytes = make_png(IMAGE_SIDE - 1, set.pixels, png, sizeof png);
    refused_with_400(&h, png, bytes);
    bytes = make_idx(&set, idx);
    refused_with_400(&h, idx, bytes - 1);
    refused_with_400(&h, idx, 4);
    idx[7] = 0;
    refused_with_400(&h, idx, 16);
    idx[4] = 0xff;
    refused_with_400(&h, idx, bytes);
    /* And the connection still works. */
    ck_assert_int_eq(
        ask(&h, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 200);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
}
END_TEST

static const struct {
    const char *method, *path;
    int status;
    const char *allow;
} wrong[] = {
    {"GET", "/", 404, NULL},
    {"POST", "/classify/", 404, NULL},
    {"GET", "/classifyme", 404, NULL},
    {"GET", "/classify", 405, "POST"},
    {"PUT", "/classify", 405, "POST"},
    {"POST", "/health", 405, "GET, HEAD"},
    {"DELETE", "/stats", 405, "GET, HEAD"},
};

START_TEST(test_unknown_path_is_404_and_wrong_method_405_with_allow)
{
    server s = server_start(NULL, NULL);
    http h = server_connect(&s);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        http_reply reply = ask(&h, wrong[i].method, wrong[i].path, "x", 1);
        const char *allow = http_header(&reply, "Allow");

        ck_assert_int_eq(reply.status, wrong[i].status);
        ck_assert(json_valid(reply.body));
        if (wrong[i].allow == NULL) {
            ck_assert_ptr_null(allow);
        } else {
            ck_assert_ptr_nonnull(allow);
            ck_assert_int_eq(
                strncmp(allow, wrong[i].allow, strlen(wrong[i].allow)), 0);
            ck_assert_int_eq(allow[strlen(wrong[i].allow)], '\r');
        }
    }
    http_close(&h);
    server_stop(&s);
}
END_TEST

/* Without a body having been sent: the head is enough. */
START_TEST(test_too_large_a_body_is_413)
{
    server s = server_start(NULL, NULL);
    http h = server_connect(&s);
    char head[256];
    http_reply reply;

    snprintf(head, sizeof head,
             "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
             "Content-Length: %d\r\nExpect: 100-continue\r\n\r\n",
             BODY_LIMIT + 1);
    send_text(&h, head);
    reply = receive(&h);
    ck_assert_int_eq(reply.status, 413);
    ck_assert(json_valid(reply.body));
    http_close(&h);
    server_stop(&s);
}
END_TEST

START_TEST(test_too_large_a_chunked_body_is_413)
{
    server s = server_start(NULL, NULL);
    http h = server_connect(&s);
    char *zeros = calloc(1, BODY_LIMIT + 1), head[32];
    message why;
    http_reply reply;

    ck_assert_ptr_nonnull(zeros);
    send_text(&h, "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n");
    snprintf(head, sizeof head, "%x\r\n", BODY_LIMIT + 1);
    send_text(&h, head);
    ck_assert(http_send(&h, zeros, BODY_LIMIT + 1, &why));
    send_text(&h, "\r\n0\r\n\r\n");
    reply = receive(&h);
    ck_assert_int_eq(reply.status, 413);
    ck_assert(json_valid(reply.body));
    free(zeros);
    http_close(&h);
    server_stop(&s);
}
END_TEST

START_TEST(test_overload_is_503_with_retry_after)
{
    server s = server_start("--max-in-flight", "1");
    http slow = begin_classify(&s), other = server_connect(&s);
    image_set set = test_images(1);
    http_reply reply =
        ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES);
    message why;
    int status;

    ck_assert_int_eq(reply.status, 503);
    ck_assert(json_valid(reply.body));
    ck_assert_ptr_nonnull(http_header(&reply, "Retry-After"));
    /* Only classification is bounded. */
    ck_assert_int_eq(ask(&other, "GET", "/health", NULL, 0).status, 200);
    reply = ask(&other, "GET", "/stats", NULL, 0);
    ck_assert_double_eq(json_number(reply.body, "server.refused", -1), 1);
    ck_assert_double_eq(json_number(reply.body, "server.in_flight", -1), 1);

    ck_assert(http_send(&slow, set.pixels, IMAGE_BYTES, &why));
    ck_assert_int_eq(receive(&slow).status, 200);
    /* The place is free a moment after the answer has arrived. */
    do {
        status =
            ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES).status;
    } while (status == 503);
    ck_assert_int_eq(status, 200);
    http_close(&slow);
    http_close(&other);
    images_free(&set);
    server_stop(&s);
}
END_TEST

/* A client that leaves in the middle of its body frees its place. */
START_TEST(test_lost_connection_frees_its_place)
{
    server s = server_start("--max-in-flight", "1");
    http slow = begin_classify(&s), other = server_connect(&s);
    image_set set = test_images(1);
    int status;

    http_close(&slow);
    do {
        status =
            ask(&other, "POST", "/classify", set.pixels, IMAGE_BYTES).status;
    } while (status == 503);
    ck_assert_int_eq(status, 200);
    http_close(&other);
    images_free(&set);
    server_stop(&s);
}
END_TEST

/* ---- end ---------------------------------------------------------------- */

START_TEST(test_sigterm_drains_a_request_in_flight)
{
    server s = server_start(NULL, NULL);
    http slow = begin_classify(&s), late;
    image_set set = test_images(1);
    char line[256];
    message why;
    http_reply reply;

    ck_assert_int_eq(kill(s.process.pid, SIGTERM), 0);
    ck_assert(process_line(&s.process, "draining", false, line, sizeof line));
    ck_assert_str_eq(line, "draining 1 requests");
    ck_assert(!http_open(&late, s.port, &why));
    ck_assert(http_send(&slow, set.pixels, IMAGE_BYTES, &why));
    reply = receive(&slow);
    ck_assert_int_eq(reply.status, 200);
    ck_assert(json_valid(reply.body));
    ck_assert_ptr_nonnull(http_header(&reply, "Connection"));
    http_close(&slow);
    images_free(&set);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}
END_TEST

/* One that has not begun yet is refused while the server drains. */
START_TEST(test_sigterm_refuses_new_requests_on_old_connections)
{
    server s = server_start(NULL, NULL);
    http slow = begin_classify(&s), idle = server_connect(&s);
    image_set set = test_images(1);
    char line[256];
    message why;

    ck_assert_int_eq(ask(&idle, "GET", "/health", NULL, 0).status, 200);
    ck_assert_int_eq(kill(s.process.pid, SIGTERM), 0);
    ck_assert(process_line(&s.process, "draining", false, line, sizeof line));
    ck_assert_int_eq(
        ask(&idle, "POST", "/classify", set.pixels, IMAGE_BYTES).status, 503);
    ck_assert(http_send(&slow, set.pixels, IMAGE_BYTES, &why));
    ck_assert_int_eq(receive(&slow).status, 200);
    http_close(&slow);
    http_close(&idle);
    images_free(&set);
    ck_assert_int_eq(process_end(&s.process, 0), EXIT_SUCCESS);
}
END_TEST

/* Starts a program that is to fail, and returns its status. */
static int status_of(const char *name, const char *option, const char *value)
{
    char program[1024];
    const char *argv[] = {beside(name, program), option, value, NULL};
    process p;
    message why;

    ck_assert_msg(process_start(&p, argv, &why), "%s", why.text);
    return process_end(&p, 0);
}

START_TEST(test_wrong_options_and_missing_files_are_errors)
{
    ck_assert_int_eq(status_of("inference_server", "--weights", "/nowhere"),
                     EXIT_FAILURE);
    ck_assert_int_eq(status_of("inference_server", "--driver", "abacus"),
                     EXIT_FAILURE);
    ck_assert_int_eq(status_of("inference_server", "--port", "65536"), 2);
    ck_assert_int_eq(status_of("inference_server", "--prot", "0"), 2);
    ck_assert_int_eq(status_of("inference_server", "--graph", "--naive"), 2);
    ck_assert_int_eq(status_of("data_parallel", "--data", "/nowhere"),
                     EXIT_FAILURE);
    ck_assert_int_eq(status_of("demo", "--data", "/nowhere"), EXIT_FAILURE);
}
END_TEST

START_TEST(test_missing_images_are_named_with_the_package)
{
    image_set set;
    message why;

    ck_assert(!images_load("/nowhere", "t10k", &set, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/t10k-images-idx3-ubyte"));
    ck_assert_ptr_nonnull(strstr(why.text, "dataset-fashion-mnist"));
    ck_assert_ptr_nonnull(strstr(why.text, "--data"));
}
END_TEST

/* The judge of the tests above is judged here. */
START_TEST(test_json_valid_tells_right_from_wrong)
{
    const char *right[] = {"{}", " [ ] ",
                           "{\"a\":[1,-2.5e-3,true,null,\"\\u00e9\\n\"]}", "0",
                           "{\"a\":{\"b\":{}},\"c\":\"\"}"};
    const char *bad[] = {"",    "{",       "{\"a\":}", "[1,]", "{\"a\" 1}",
                         "01",  "[1 2]",   "\"a",      "{}x",  "{\"a\":1,}",
                         "nul", "\"\\x\"", "1.",       "-"};

    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        ck_assert_msg(json_valid(right[i]), "%s", right[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!json_valid(bad[i]), "%s", bad[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("refusals");

    add(suite, "refuse", test_bad_images_are_refused_with_what_was_expected);
    add(suite, "refuse",
        test_unknown_path_is_404_and_wrong_method_405_with_allow);
    add(suite, "refuse", test_too_large_a_body_is_413);
    add(suite, "refuse", test_too_large_a_chunked_body_is_413);
    add(suite, "refuse", test_overload_is_503_with_retry_after);
    add(suite, "refuse", test_lost_connection_frees_its_place);
    add(suite, "end", test_sigterm_drains_a_request_in_flight);
    add(suite, "end", test_sigterm_refuses_new_requests_on_old_connections);
    add(suite, "end", test_wrong_options_and_missing_files_are_errors);
    add(suite, "end", test_missing_images_are_named_with_the_package);
    add(suite, "json", test_json_valid_tells_right_from_wrong);
    return wt_main(suite);
}
