/* check_bench.c: the traces of the bench are those that were published, as far
 * as their description goes, and a tiny run of it leaves every row behind. */
#include "wt.h"

#include "tests/bench/bench.h"
#include "tests/bench/event.h"
#include "tests/bench/plan.h"
#include "tests/bench/trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name;
    uint32_t buffers;
    size_t steps;
    double peak, common;       /* MiB, ours */
    double published, nearest; /* MiB; how near ours is: a share of it */
} traces[] = {
    {"tmixed", 100000, 199488, 363.6, 0, 361.1, 0.01},
    {"tserver", 69703, 139406, 356.1, 47.2, 365.6, 0.03},
};

START_TEST(test_traces_are_as_described)
{
    bench_trace *t = bench_trace_make(traces[_i].name);
    double peak, common;

    ck_assert_ptr_nonnull(t);
    peak = (double)t->peak / 0x1p20;
    common = (double)t->peak_common / 0x1p20;
    ck_assert_uint_eq(t->buffers, traces[_i].buffers);
    ck_assert_uint_eq(t->steps, traces[_i].steps);
    ck_assert_double_eq_tol(peak, traces[_i].peak, 0.05);
    ck_assert_double_eq_tol(common, traces[_i].common, 0.05);
    ck_assert_double_eq_tol(peak, traces[_i].published,
                            traces[_i].published * traces[_i].nearest);
    bench_trace_end(t);
}
END_TEST

/* Every buffer is made once, freed at most once and after that, and the live
 * bytes are what the steps add up to. */
START_TEST(test_traces_are_consistent)
{
    bench_trace *t = bench_trace_make(traces[_i].name);
    unsigned char *seen = calloc(t->buffers, 1);
    uint64_t live = 0;

    ck_assert_ptr_nonnull(seen);
    for (size_t i = 0; i < t->steps; i++) {
        const bench_step *s = &t->step[i];

        wt_require(s->buffer < t->buffers && s->worker < BENCH_WORKERS,
                   "step %zu is out of range", i);
        wt_require(seen[s->buffer] == (s->bytes > 0 ? 0 : 1),
                   "step %zu: buffer %u", i, s->buffer);
        seen[s->buffer]++;
        live += s->bytes;
        live -= s->bytes == 0 ? t->bytes[s->buffer] : 0;
    }
    ck_assert_uint_eq(live, t->live);
    free(seen);
    bench_trace_end(t);
}
END_TEST

START_TEST(test_other_trace_is_refused)
{
    ck_assert_ptr_null(bench_trace_make("other"));
}
END_TEST

START_TEST(test_sizes_are_log_uniform)
{
    uint64_t state = 1;
    unsigned octave[10] = {0};

    for (int i = 0; i < 100000; i++) {
        size_t bytes = bench_log_uniform(&state);

        wt_require(bytes >= 4096 && bytes < 4194304, "%zu bytes", bytes);
        octave[63 - __builtin_clzll(bytes) - 12]++;
    }
    for (int i = 0; i < 10; i++) {
        ck_assert_uint_ge(octave[i], 9500);
        ck_assert_uint_le(octave[i], 10500);
    }
}
END_TEST

START_TEST(test_median)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};

    ck_assert_double_eq(bench_median(odd, 3), 2);
    ck_assert_double_eq(bench_median(even, 4), 2.5);
}
END_TEST

/* Done after _i later records on its own stream, and after none on another. */
START_TEST(test_event_is_done_after_lag)
{
    bench_stream *mine = bench_stream_new(), *other = bench_stream_new();
    bench_event *event = bench_event_new(), *later = bench_event_new();

    bench_event_price(0, 0, (unsigned)_i, false);
    ck_assert(bench_event_done(event)); /* never recorded */
    bench_event_record(event, mine);
    for (int i = 0; i < _i; i++) {
        ck_assert(!bench_event_done(event));
        bench_event_record(later, other);
        ck_assert(!bench_event_done(event));
        bench_event_record(later, mine);
    }
    ck_assert(bench_event_done(event));
    ck_assert_int_eq(bench_event_done(later), _i == 0);
    bench_event_record(event, other); /* again: the new record counts */
    ck_assert_int_eq(bench_event_done(event), _i == 0);
    bench_event_end(event);
    bench_event_end(later);
    bench_stream_end(mine);
    bench_stream_end(other);
}
END_TEST

/* It takes at least as long as told. */
START_TEST(test_event_costs_what_it_is_told)
{
    bench_stream *stream = bench_stream_new();
    bench_event *event = bench_event_new();
    uint64_t start, recorded, asked;

    bench_event_price(2000000, 1000000, 0, false);
    start = bench_now_ns();
    bench_event_record(event, stream);
    recorded = bench_now_ns();
    (void)bench_event_done(event);
    asked = bench_now_ns();
    /* Ticks are measured against the clock to one in a hundred or so. */
    ck_assert_uint_ge(recorded - start, 1800000);
    ck_assert_uint_ge(asked - recorded, 900000);
    bench_event_end(event);
    bench_stream_end(stream);
}
END_TEST

/* ---- a run ----------------------------------------------------------------
 */

static char folder[4096]; /* made by the bench, taken away by the test */
static char *text;        /* of bench.jsonl */

static char *read_all(const char *name)
{
    char path[4352];
    char *all = calloc(1, 1 << 20);
    FILE *in;
    size_t length;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    in = fopen(path, "r");
    wt_require(in != NULL && all != NULL, "%s is not there", path);
    length = fread(all, 1, (1 << 20) - 1, in);
    fclose(in);
    unlink(path);
    ck_assert_uint_gt(length, 0);
    return all;
}

/* Runs the program that was built beside this one. */
static void run(const char *what)
{
    char path[4096], *slash;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    int status = -1;
    pid_t child;

    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    slash = strstr(path, "/unit/check_bench");
    ck_assert_ptr_nonnull(slash);
    strcpy(slash, "/bench/bench");
    snprintf(folder, sizeof folder, "%.4000s-of-test.%d", path, (int)getpid());
    child = fork();
    if (child == 0) {
        execl(path, "bench", what, folder, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

/* One object of names, numbers, texts and objects; as far as the bench goes. */
static const char *value(const char *at);

static const char *skip_object(const char *at)
{
    do {
        at++;
        wt_require(*at == '"', "a name was expected: %.20s", at);
        at = value(at);
        wt_require(*at == ':', "a colon was expected: %.20s", at);
        at = value(at + 1);
    } while (*at == ',');
    wt_require(*at == '}', "an end was expected: %.20s", at);
    return at + 1;
}

static const char *value(const char *at)
{
    char *end;

    if (*at == '{') {
        return at[1] == '}' ? at + 2 : skip_object(at);
    }
    if (*at == '"') {
        at = strchr(at + 1, '"');
        wt_require(at != NULL, "a text without an end");
        return at + 1;
    }
    strtod(at, &end);
    wt_require(end != at, "a value was expected: %.20s", at);
    return end;
}

static unsigned lines(const char *json)
{
    unsigned count = 0;

    for (const char *at = json; *at != '\0'; count++) {
        at = value(at);
        wt_require(*at == '\n', "a line has more than one object");
        at++;
    }
    return count;
}

static void has_row(const bench_row *row)
{
    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        char start[128];

        snprintf(start, sizeof start,
                 "{\"bench\":\"%s\",\"case\":\"%s\",\"threads\":%u,"
                 "\"ns_per_op\":",
                 row->name, row->series[0].label, row->threads[t]);
        wt_require(strstr(text, start) != NULL, "missing: %s", start);
    }
}

START_TEST(test_tiny_run_has_every_row)
{
    char *svg;

    run("smoke");
    text = read_all("bench.jsonl");
    svg = read_all("bench.svg");
    rmdir(folder);
    ck_assert_uint_ge(lines(text), 80);
    for (size_t i = 0; i < bench_row_count; i++) {
        has_row(&bench_rows[i]);
    }
    ck_assert_ptr_nonnull(strstr(text, "\"ratio_to\":{\"floor\":"));
    ck_assert_ptr_nonnull(strstr(text, "\"peak_over_live\":"));
    ck_assert_ptr_nonnull(strstr(text, "\"records_per_free\":"));
    ck_assert_ptr_nonnull(strstr(svg, "</svg>"));
    free(svg);
    free(text);
}
END_TEST

START_TEST(test_tiny_scale_run)
{
    char *svg;

    run("scale-smoke");
    text = read_all("scale.jsonl");
    svg = read_all("scale.svg");
    rmdir(folder);
    ck_assert_uint_eq(lines(text), 2 * 2 + 2 + 2 * 2 + 2);
    ck_assert_ptr_nonnull(strstr(svg, "</svg>"));
    free(svg);
    free(text);
}
END_TEST

/* ---- goals ----------------------------------------------------------------
 */

/* Row hot64k: ns of the library and of the floor at 1, 2, 4 and 8 threads. */
static const struct {
    double mine[4], floor[4];
    bool met;
} hot[] = {
    {{10, 10, 10, 10}, {5, 5, 5, 5}, true},
    {{10, 10, 10, 15}, {5, 5, 5, 6}, true},  /* flat: 1.5 */
    {{10, 10, 10, 16}, {5, 5, 5, 7}, false}, /* not flat */
    {{13, 10, 10, 10}, {5, 5, 5, 5}, false}, /* 2.6 times */
    {{10, 10, 10, 13}, {5, 5, 5, 5}, false},
    {{10, 10, 10, 10}, {5, 5, 5, -1}, false}, /* the floor is missing */
    {{10, -1, 10, 10}, {5, 5, 5, 5}, false},  /* not measured */
};

START_TEST(test_goal_of_a_ratio)
{
    const bench_row *row = &bench_rows[bench_row_find("hot64k")];
    int floor = bench_series_find(row, "floor");
    bench_figures f = {0};
    char measured[160];

    for (int t = 0; t < 4; t++) {
        f.of[0][t].ns = hot[_i].mine[t];
        f.of[floor][t].ns = hot[_i].floor[t];
    }
    ck_assert_int_eq(bench_goal_met(row, &f, measured, sizeof measured),
                     hot[_i].met);
}
END_TEST

static const struct {
    double records, queries, others;
    bool met;
} calls[] = {{0.125, 0.125, 0, true},
             {0.126, 0.1, 0, false},
             {0.1, 0.126, 0, false},
             {0.1, 0.1, 0.01, false},
             {-1, -1, -1, false}};

START_TEST(test_goal_of_calls)
{
    const bench_row *row = &bench_rows[bench_row_find("calls")];
    bench_figures f = {0};
    char measured[160];

    f.of[0][3].records = calls[_i].records;
    f.of[0][3].queries = calls[_i].queries;
    f.of[0][3].others = calls[_i].others;
    ck_assert_int_eq(bench_goal_met(row, &f, measured, sizeof measured),
                     calls[_i].met);
}
END_TEST

START_TEST(test_goal_of_memory)
{
    const bench_row *row = &bench_rows[bench_row_find("tmixed-0")];
    bench_figures f = {0};
    char measured[160];

    f.of[0][0] = BENCH_RESULT_NONE;
    ck_assert(!bench_goal_met(row, &f, measured, sizeof measured));
    f.of[0][0].live = 100;
    f.of[0][0].peak = 115;
    ck_assert(bench_goal_met(row, &f, measured, sizeof measured));
    f.of[0][0].peak = 116;
    ck_assert(!bench_goal_met(row, &f, measured, sizeof measured));
}
END_TEST

/* A difference may be below nothing, but not drown in noise. */
START_TEST(test_goal_of_a_difference)
{
    const bench_row *row = &bench_rows[bench_row_find("churn")];
    bench_figures f = {0};
    char measured[160];

    f.of[0][0] = BENCH_RESULT_NONE;
    ck_assert(!bench_goal_met(row, &f, measured, sizeof measured));
    f.of[0][0].ns = 650;
    f.of[0][0].max = 900;
    ck_assert(bench_goal_met(row, &f, measured, sizeof measured));
    f.of[0][0].max = 1100;
    ck_assert(!bench_goal_met(row, &f, measured, sizeof measured));
    f.of[0][0].ns = 710;
    f.of[0][0].max = 720;
    ck_assert(!bench_goal_met(row, &f, measured, sizeof measured));
}
END_TEST

static Suite *bench_suite(void)
{
    Suite *suite = suite_create("bench");
    TCase *figures = tcase_create("figures"), *runs = tcase_create("runs");
    const int n = sizeof traces / sizeof *traces;

    tcase_add_loop_test(figures, test_traces_are_as_described, 0, n);
    tcase_add_loop_test(figures, test_traces_are_consistent, 0, n);
    tcase_add_test(figures, test_other_trace_is_refused);
    tcase_add_test(figures, test_sizes_are_log_uniform);
    tcase_add_test(figures, test_median);
    tcase_add_loop_test(figures, test_event_is_done_after_lag, 0, 5);
    tcase_add_test(figures, test_event_costs_what_it_is_told);
    tcase_add_loop_test(figures, test_goal_of_a_ratio, 0,
                        sizeof hot / sizeof *hot);
    tcase_add_loop_test(figures, test_goal_of_calls, 0,
                        sizeof calls / sizeof *calls);
    tcase_add_test(figures, test_goal_of_memory);
    tcase_add_test(figures, test_goal_of_a_difference);
    suite_add_tcase(suite, figures);
    tcase_set_timeout(runs, 110);
    tcase_add_test(runs, test_tiny_run_has_every_row);
    tcase_add_test(runs, test_tiny_scale_run);
    suite_add_tcase(suite, runs);
    return suite;
}

int main(void)
{
    return wt_main(bench_suite());
}
