/* check_limits.c: the example server at its watermarks. See check_server.c. */
#include "examples/demo/load.h"
#include "examples/inference_server/raw.h"

#include <stdlib.h>

#define MIB ((double)(1 << 20))

/* Of all memory; 0: off. */
static const answer *set(http *h, const char *high_and_low)
{
    return ask(h, "PUT", "/watermarks", high_and_low, strlen(high_and_low));
}

/* ---- the high watermark -------------------------------------------------- */

WT_CASE("high");

static const char *const modes[] = {"--tunable", "--graph"};

/* By every thread of the server. */
static void refused_with_503(const server *s, const image_set *images,
                             int times)
{
    for (int i = 0; i < times; i++) {
        http h = http_open(s);
        const answer *a = classify(&h, images->pixels);

        ck_assert_int_eq(a->status, 503);
        ck_assert_ptr_nonnull(a->json);
        wt_contains(a->body, "OUT_OF_MEMORY",
                    "the limit of 1 B for all memory");
        wt_contains(a->head, "\r\nRetry-After: ");
        /* And the connection still works. */
        ck_assert_int_eq(ask(&h, "GET", "/health", NULL, 0)->status, 200);
        http_close(&h);
    }
}

/* The same requests, as soon as there is memory. */
WT_LOOP_TEST(test_F7_server_answers_503_until_the_limit_is_raised, 2)
{
    server s = server_start("--tunable", _i == 0 ? NULL : modes[_i]);
    http h = http_open(&s);
    image_set images = test_images(1);

    for (int round = 0; round < 2; round++) {
        const answer *a = set(&h, "1 1");

        ck_assert_int_eq(a->status, 200);
        ck_assert_double_eq(number(a, "high_bytes"), 1);
        if (round == 0 || _i == 0) {
            refused_with_503(&s, &images, 2 * THREADS);
        }
        ck_assert_int_eq(set(&h, "0 0")->status, 200);
        for (int i = 0; i < 2 * THREADS; i++) {
            http other = http_open(&s);

            ck_assert_int_eq(classify(&other, images.pixels)->status, 200);
            http_close(&other);
        }
    }
    ck_assert_double_eq(server_number(&s, "server.out_of_memory"),
                        (_i == 0 ? 4 : 2) * THREADS);
    ck_assert_double_eq(server_number(&s, "server.errors"), 0);
    wt_contains(ask(&h, "GET", "/metrics", NULL, 0)->body,
                "\ninference_out_of_memory_total ");
    http_close(&h);
    images_free(&images);
    server_stop(&s);
}

/* What was answered before stays right, and a refused call sets nothing. */
WT_TEST(test_F7_server_names_what_is_wrong_with_watermarks)
{
    static const char *const wrong[] = {"",     "1",     "1 2 3", "x 1",
                                        "1 -1", "2.5 1", "1 2"};
    server s = server_start("--tunable", NULL);
    http h = http_open(&s);

    ck_assert_int_eq(set(&h, " 4194304000 4194304\n")->status, 200);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(set(&h, wrong[i])->status, 400);
        ck_assert_ptr_nonnull(strstr(h.answer.body, "low watermark"));
    }
    ck_assert_int_eq(ask(&h, "GET", "/watermarks", NULL, 0)->status, 200);
    ck_assert_double_eq(number(&h.answer, "high_bytes"), 4194304000);
    ck_assert_double_eq(number(&h.answer, "low_bytes"), 4194304);
    ck_assert_double_gt(number(&h.answer, "held_bytes"), 0);
    http_close(&h);
    server_stop(&s);
}

WT_TEST(test_F7_server_lets_nobody_set_watermarks_unless_told)
{
    server s = server_start(NULL, NULL);
    http h = http_open(&s);

    ck_assert_int_eq(set(&h, "1 1")->status, 405);
    ck_assert_ptr_nonnull(strstr(h.answer.head, "\r\nAllow: GET, HEAD\r\n"));
    ck_assert_int_eq(ask(&h, "GET", "/watermarks", NULL, 0)->status, 200);
    ck_assert_double_eq(number(&h.answer, "high_bytes"), 0);
    http_close(&h);
    server_stop(&s);
}

/* ---- the low watermark --------------------------------------------------- */

WT_CASE("low");

/* Of handles, on CUDA: they stay. */
static double workspaces(const server *s)
{
    http h = http_open(s);
    const answer *a = ask(&h, "GET", "/stats", NULL, 0);
    const json_t *kinds = wt_json_at(a->json, "warmpool.handles"), *kind;
    double bytes = 0;
    size_t i;

    json_array_foreach (kinds, i, kind) {
        bytes += json_number_value(json_object_get(kind, "workspace_bytes"));
    }
    http_close(&h);
    return bytes;
}

/* A short `make soak-server`: first without limit. Between requests all memory
 * is idle but that of the weights. */
WT_TEST(test_F7_server_at_the_low_watermark_fails_no_request)
{
    enum {
        SEGMENT = 4,
        LOW = 12
    }; /* MiB; the library's default, three of it */
    server s = server_start("--tunable", NULL);
    http h = http_open(&s);
    image_set images = test_images(6000);
    load_plan plan = {
        .port = s.port, .set = &images, .connections = 12, .most = 64};
    load_result result;
    message why;
    const answer *a;
    double beside = 0;
    char marks[64];

    for (int round = 0; round < 3; round++) {
        ck_assert_msg(load_run(&plan, &result, &why), "%s", why.text);
        ck_assert_int_eq(result.failed, 0);
        ck_assert_int_eq(result.answered, images.count);
        if (round == 0) {
            beside = workspaces(&s);
            snprintf(marks, sizeof marks, "0 %.0f", LOW * MIB + beside);
            ck_assert_int_eq(set(&h, marks)->status, 200);
        }
        a = ask(&h, "GET", "/watermarks", NULL, 0);
        ck_assert_double_le(number(a, "held_bytes"),
                            (LOW + SEGMENT) * MIB + beside);
    }
    /* Nothing idle stays above a lower one. */
    a = set(&h, "0 1");
    ck_assert_double_le(number(a, "held_bytes"), SEGMENT * MIB + beside);
    ck_assert_int_eq(classify(&h, images.pixels)->status, 200);
    ck_assert_double_eq(server_number(&s, "server.out_of_memory"), 0);
    http_close(&h);
    images_free(&images);
    server_stop(&s);
}
