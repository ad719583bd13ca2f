/* check_refusals.c: what the example server refuses; wrong options of all
 * examples. See check_server.c. */
#include "examples/inference_server/raw.h"

#include <stdlib.h>

enum { BODY_LIMIT = 16 + 1024 * IMAGE_BYTES };

/* ---- refusals ----------------------------------------------------------- */

static void refused_with_400(http *h, const void *body, size_t bytes)
{
    const answer *a = ask(h, "POST", "/classify", body, bytes);

    ck_assert_int_eq(a->status, 400);
    ck_assert_ptr_nonnull(a->json);
    ck_assert_ptr_nonnull(strstr(a->body, "784 bytes"));
    ck_assert_ptr_nonnull(strstr(a->body, "PNG of 28x28"));
}

WT_CASE("refuse");

WT_TEST(test_bad_images_are_refused_with_what_was_expected)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);
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
    ck_assert_int_eq(classify(&h, set.pixels)->status, 200);
    http_close(&h);
    images_free(&set);
    server_stop(&s);
}

static const struct {
    const char *method, *path;
    int status;
    const char *allow;
} wrong[] = {
    {"GET", "/index.html", 404, NULL},
    {"POST", "/", 405, "GET, HEAD"},
    {"POST", "/classify/", 404, NULL},
    {"GET", "/classifyme", 404, NULL},
    {"GET", "/classify", 405, "POST"},
    {"PUT", "/classify", 405, "POST"},
    {"POST", "/health", 405, "GET, HEAD"},
    {"DELETE", "/stats", 405, "GET, HEAD"},
};

WT_TEST(test_unknown_path_is_404_and_wrong_method_405_with_allow)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const answer *a = ask(&h, wrong[i].method, wrong[i].path, "x", 1);
        char allow[64];

        ck_assert_int_eq(a->status, wrong[i].status);
        ck_assert_ptr_nonnull(a->json);
        snprintf(allow, sizeof allow, "\r\nAllow: %s\r\n",
                 wrong[i].allow != NULL ? wrong[i].allow : "");
        if (wrong[i].allow == NULL) {
            ck_assert_ptr_null(strcasestr(a->head, "\r\nAllow:"));
        } else {
            ck_assert_ptr_nonnull(strstr(a->head, allow));
        }
    }
    http_close(&h);
    server_stop(&s);
}

/* Without a body having been sent: the head is enough. */
WT_TEST(test_too_large_a_body_is_413)
{
    server s = server_start(NULL, NULL);
    raw r = raw_connect(&s);
    char head[256];
    const answer *a;

    snprintf(head, sizeof head,
             "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
             "Content-Length: %d\r\nExpect: 100-continue\r\n\r\n",
             BODY_LIMIT + 1);
    send_text(&r, head);
    a = receive(&r);
    ck_assert_int_eq(a->status, 413);
    ck_assert_ptr_nonnull(a->json);
    raw_close(&r);
    server_stop(&s);
}

WT_TEST(test_too_large_a_chunked_body_is_413)
{
    server s = server_start(NULL, NULL);
    raw r = raw_connect(&s);
    char *zeros = calloc(1, BODY_LIMIT + 1), head[32];
    const answer *a;

    ck_assert_ptr_nonnull(zeros);
    send_text(&r, "POST /classify HTTP/1.1\r\nHost: localhost\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n");
    snprintf(head, sizeof head, "%x\r\n", BODY_LIMIT + 1);
    send_text(&r, head);
    ck_assert(raw_send(&r, zeros, BODY_LIMIT + 1));
    send_text(&r, "\r\n0\r\n\r\n");
    a = receive(&r);
    ck_assert_int_eq(a->status, 413);
    ck_assert_ptr_nonnull(a->json);
    free(zeros);
    raw_close(&r);
    server_stop(&s);
}

/* ---- options and files --------------------------------------------------
 */

static const struct {
    const char *program, *option, *value;
    int status;
    const char *says;
} wrong_options[] = {
    {"inference_server", "--port", "abc", 2,
     "inference_server: --port takes a number from 0 to 65535, not 'abc'"},
    {"inference_server", "--port=80x", NULL, 2,
     "--port takes a number from 0 to 65535, not '80x'"},
    {"inference_server", "--port", "65536", 2,
     "--port takes a number from 0 to 65535, not '65536'"},
    {"inference_server", "--port=-1", NULL, 2,
     "--port takes a number from 0 to 65535, not '-1'"},
    {"inference_server", "--port", NULL, 2,
     "--port takes a number from 0 to 65535, which is missing"},
    {"inference_server", "--port=", NULL, 2, "which is missing"},
    {"inference_server", "--weights=", NULL, 2,
     "--weights takes a value, which is missing"},
    {"inference_server", "--prot", "0", 2, "'--prot' is not an option"},
    {"inference_server", "--por=0", NULL, 2, "'--por=0' is not an option"},
    {"inference_server", "8080", NULL, 2, "'8080' is not an option"},
    {"inference_server", "--naive=1", NULL, 2, "--naive takes no value"},
    {"inference_server", "--graph", "--naive", 2, "not both"},
    {"inference_server", "--weights", "/nowhere", EXIT_FAILURE,
     "/nowhere: No such file or directory; run data_parallel first"},
    {"inference_server", "--driver", "abacus", EXIT_FAILURE,
     "--driver abacus: "},
    {"data_parallel", "--epochs", "none", 2,
     "data_parallel: --epochs takes a number from 1 to 1000, not 'none'"},
    {"data_parallel", "--data", "/nowhere", EXIT_FAILURE, "dataset-fashion"},
    {"data_parallel", "--driver", "abacus", EXIT_FAILURE, "--driver abacus: "},
    {"demo", "--threads=0", NULL, 2,
     "demo: --threads takes a number from 1 to 256, not '0'"},
    {"demo", "--data", "/nowhere", EXIT_FAILURE, "/nowhere"},
};

WT_CASE("options");

WT_TEST(test_wrong_options_are_named_with_what_is_allowed)
{
    char output[4096];

    for (size_t i = 0; i < sizeof wrong_options / sizeof *wrong_options; i++) {
        int status =
            output_of(wrong_options[i].program, wrong_options[i].option,
                      wrong_options[i].value, output);

        ck_assert_msg(status == wrong_options[i].status &&
                          strstr(output, wrong_options[i].says) != NULL,
                      "%s %s: %d: %s", wrong_options[i].program,
                      wrong_options[i].option, status, output);
    }
}

/* The library's, about a GPU that is not there. */
WT_TEST(test_log_lines_fit_into_100_columns)
{
    char output[4096];

    output_of("inference_server", "--weights=/nowhere", NULL, output);
    for (char *line = output; strncmp(line, "inference_server: ", 18) != 0;) {
        size_t length = strcspn(line, "\n");

        ck_assert_msg(length <= 100 && line[length] == '\n', "%s", output);
        line += length + 1;
    }
    /* None of it is lost where lines are broken. */
    if (strstr(output, "CUDA is not used") != NULL) {
        ck_assert_ptr_nonnull(strstr(output, "option device:host silences"));
        ck_assert_ptr_nonnull(strstr(output, "makes it an"));
    }
}

WT_TEST(test_help_by_its_usual_names)
{
    const char *programs[] = {"inference_server", "data_parallel", "demo"};
    char asked[4096], output[4096];

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        ck_assert_int_eq(output_of(programs[i], "--help", NULL, asked), 0);
        ck_assert_ptr_nonnull(strstr(asked, "\n  --driver "));
        ck_assert_ptr_nonnull(strstr(asked, "\n  -h, --help "));
        ck_assert_int_eq(output_of(programs[i], "-h", NULL, output), 0);
        ck_assert_str_eq(asked, output);
    }
}

WT_TEST(test_busy_port_is_named_with_what_to_do)
{
    server s = server_start(NULL, NULL);
    char port[32], weights[1100] = "--weights=", said[64], output[4096];

    snprintf(port, sizeof port, "--port=%d", s.port);
    snprintf(said, sizeof said, "127.0.0.1:%d: Address already in use", s.port);
    beside("check.weights", weights + strlen(weights));
    ck_assert_int_eq(output_of("inference_server", port, weights, output),
                     EXIT_FAILURE);
    ck_assert_msg(strstr(output, said) != NULL, "%s", output);
    ck_assert_msg(strstr(output, "--port 0 takes a free one") != NULL, "%s",
                  output);
    server_stop(&s);
}

/* Before the work whose result they are. */
WT_TEST(test_weights_that_cannot_be_written_stop_the_training)
{
    const char *paths[] = {"--weights=/nowhere/some.weights", "--weights=/tmp",
                           "--weights=/proc/version"};
    char output[4096];

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        ck_assert_int_eq(
            output_of("data_parallel", paths[i], "--epochs=1", output),
            EXIT_FAILURE);
        ck_assert_msg(strstr(output, "epoch") == NULL, "%s", output);
        ck_assert_ptr_nonnull(strstr(output, "could not write the weights"));
        ck_assert_ptr_nonnull(strstr(output, "with --weights"));
    }
}

WT_TEST(test_missing_images_are_named_with_the_package)
{
    image_set set;
    message why;

    ck_assert(!images_load("/nowhere", "t10k", &set, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/t10k-images-idx3-ubyte"));
    ck_assert_ptr_nonnull(strstr(why.text, "dataset-fashion-mnist"));
    ck_assert_ptr_nonnull(strstr(why.text, "--data"));
}
