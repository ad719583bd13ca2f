/* check_bench.c: the traces of the bench are those that were published, as far
 * as their description goes, and a tiny run of it leaves every row behind. */
#include "wt.h"
#include "wt_json.h"

#include "tests/bench/bench.h"
#include "tests/bench/event.h"
#include "tests/bench/least.h"
#include "tests/bench/made.h"
#include "tests/bench/plan.h"
#include "tests/bench/sequence.h"

#include <stdatomic.h>
#include <stdio.h>
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

WT_CASE("figures");

WT_LOOP_TEST(test_traces_are_as_described, sizeof traces / sizeof *traces)
{
    bench_trace *t = bench_trace_make(traces[_i].name, NULL);
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

/* Every buffer is made once, freed at most once and after that, and the live
 * bytes are what the steps add up to. */
static const char *const made[] = {"tmixed", "tsmall",  "tlarge",  "tserver",
                                   "tburst", "tphases", "trotate", "tleave"};

WT_LOOP_TEST(test_traces_are_consistent, 2 * sizeof made / sizeof *made)
{
    char name[16];
    bench_trace *t;
    unsigned char *seen;
    uint64_t live = 0;

    snprintf(name, sizeof name, "%s%s", made[_i / 2], _i % 2 != 0 ? "s" : "");
    t = bench_trace_make(name, &(bench_made){.seed = 7, .streams = 2});
    ck_assert_ptr_nonnull(t);
    seen = calloc(t->buffers, 1);
    ck_assert_ptr_nonnull(seen);
    ck_assert_uint_eq(t->streams, _i % 2 != 0 ? 2 * t->workers : 0);
    for (size_t i = 0; i < t->steps; i++) {
        const bench_step *s = &t->step[i];

        wt_require(s->buffer < t->buffers && s->worker < t->workers,
                   "step %zu is out of range", i);
        if (s->op == WM_TRACE_ADOPT || s->op == WM_TRACE_LEAVE) {
            continue;
        }
        wt_require(seen[s->buffer] == (s->op == WM_TRACE_ALLOC ? 0 : 1),
                   "step %zu: buffer %u", i, s->buffer);
        seen[s->buffer] = s->op == WM_TRACE_FREE ? 2 : 1;
        live += s->op == WM_TRACE_ALLOC ? s->value : 0;
        live -= s->op == WM_TRACE_FREE ? t->bytes[s->buffer] : 0;
    }
    ck_assert_uint_eq(live, t->live);
    free(seen);
    bench_trace_end(t);
}

WT_TEST(test_other_trace_is_refused)
{
    ck_assert_ptr_null(bench_trace_make("other", NULL));
    ck_assert_ptr_null(bench_trace_make("tmixedss", NULL));
}

WT_TEST(test_sizes_are_log_uniform)
{
    uint64_t state = 1;
    unsigned octave[10] = {0};

    for (int i = 0; i < 100000; i++) {
        size_t bytes = bench_log_uniform(&state, 4096, 10);

        wt_require(bytes >= 4096 && bytes < 4194304, "%zu bytes", bytes);
        octave[63 - __builtin_clzll(bytes) - 12]++;
    }
    for (int i = 0; i < 10; i++) {
        ck_assert_uint_ge(octave[i], 9500);
        ck_assert_uint_le(octave[i], 10500);
    }
}

WT_TEST(test_median)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};

    ck_assert_double_eq(bench_median(odd, 3), 2);
    ck_assert_double_eq(bench_median(even, 4), 2.5);
}

/* Done after _i later uses of its own stream, whatever is recorded there, and
 * after none of another. */
WT_LOOP_TEST(test_event_is_done_after_lag, 5)
{
    bench_stream *mine = bench_stream_new(), *other = bench_stream_new();
    bench_event *event = bench_event_new(), *later = bench_event_new();

    bench_event_price(0, 0, (unsigned)_i, false);
    ck_assert(bench_event_done(event)); /* never recorded */
    bench_event_record(event, mine);
    for (int i = 0; i < _i; i++) {
        ck_assert(!bench_event_done(event));
        bench_stream_use(other);
        bench_event_record(later, mine);
        ck_assert(!bench_event_done(event));
        bench_stream_use(mine);
    }
    ck_assert(bench_event_done(event));
    bench_event_record(event, other); /* again: the new record counts */
    ck_assert_int_eq(bench_event_done(event), _i == 0);
    bench_event_end(event);
    bench_event_end(later);
    bench_stream_end(mine);
    bench_stream_end(other);
}

/* Lag 2, and two streams; each use is a tick. The first one's work so far has
 * passed at tick 5, what it waits for at tick 7: two ticks later. What has
 * passed before delays nothing. */
WT_TEST(test_B25_a_wait_delays_work_by_what_the_other_stream_is_behind)
{
    bench_stream *mine = bench_stream_new(), *other = bench_stream_new();
    bench_event *event = bench_event_new();

    bench_event_price(0, 0, 2, false);
    bench_stream_use(mine);
    bench_stream_use(other);
    bench_stream_use(other);
    bench_event_record(event, other);
    bench_stream_wait(mine, event);
    bench_stream_use(mine);
    bench_stream_use(mine); /* passed */
    ck_assert_uint_eq(bench_stream_waits().delayed, 0);
    bench_stream_use(other);
    bench_stream_use(other); /* passed */
    ck_assert_uint_eq(bench_stream_waits().delayed, 2);
    bench_stream_wait(mine, event);
    bench_stream_use(mine);
    bench_stream_use(mine);
    ck_assert_uint_eq(bench_stream_waits().delayed, 2);
    ck_assert_uint_eq(bench_stream_waits().waits, 2);
    ck_assert_uint_eq(bench_stream_waits().ticks, 9);
    ck_assert_uint_eq(bench_stream_waits().streams, 2);
    bench_event_end(event);
    bench_stream_end(mine);
    bench_stream_end(other);
}

/* It takes at least as long as told. */
WT_TEST(test_event_costs_what_it_is_told)
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

/* ---- programs ---------------------------------------------------------- */

enum { OUT = 4096 };

/* Where the programs of the bench lie; and what a test leaves there, until it
 * ends: a folder of results, a trace, and the trace of its replay. */
static char programs[4096], folder[4200], file[4300], again[4300];

static void set_up(void)
{
    ssize_t length = readlink("/proc/self/exe", programs, sizeof programs - 32);
    char *slash;

    ck_assert_int_gt(length, 0);
    programs[length] = '\0';
    slash = strstr(programs, "/unit/bench/check_bench");
    ck_assert_ptr_nonnull(slash);
    strcpy(slash, "/bench/");
    snprintf(folder, sizeof folder, "%sof-test.%d", programs, (int)getpid());
    snprintf(file, sizeof file, "%s.trace", folder);
    snprintf(again, sizeof again, "%s.again", folder);
}

static void tear_down(void)
{
    unlink(file);
    unlink(again);
    rmdir(folder);
}

static _Noreturn void run_child(const char *const *words, const int *ends)
{
    char path[4200];

    snprintf(path, sizeof path, "%s%s", programs, words[0]);
    if (ends != NULL) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
    }
    /* The arenas of malloc lie at random distances from each other, and blocks
     * are chosen by address: with one, in the same order always. */
    setenv("MALLOC_ARENA_MAX", "1", 1);
    execv(path, (char *const *)(uintptr_t)words);
    _exit(127);
}

/* Runs a program: words, the first its name, the last one null. What it prints
 * lies in out then, behind the end of a line; null: nobody reads it. */
static void run_words(char out[OUT], const char *const words[])
{
    size_t used = 1;
    ssize_t length = 1;
    int ends[2], status = -1;
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        run_child(words, out != NULL ? ends : NULL);
    }
    close(ends[1]);
    while (out != NULL && length > 0) {
        length = read(ends[0], out + used, OUT - used - 1);
        used += length > 0 ? (size_t)length : 0;
    }
    close(ends[0]);
    if (out != NULL) {
        out[0] = '\n';
        out[used] = '\0';
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
#define run(out, ...) run_words(out, (const char *const[]){__VA_ARGS__, NULL})

static double figure(const char *out, const char *name)
{
    char line[32];
    const char *at;

    snprintf(line, sizeof line, "\n%s=", name);
    at = strstr(out, line);
    wt_require(at != NULL, "no figure %s in: %s", name, out);
    return strtod(at + strlen(line), NULL);
}

/* ---- a run ------------------------------------------------------------- */

/* A file in the folder, which is removed. */
static char *read_all(const char *name, const char *suffix)
{
    char path[4352];
    char *all = calloc(1, 1 << 20);
    FILE *in;
    size_t length;

    snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
    in = fopen(path, "r");
    wt_require(in != NULL && all != NULL, "%s is not there", path);
    length = fread(all, 1, (1 << 20) - 1, in);
    fclose(in);
    unlink(path);
    ck_assert_uint_gt(length, 0);
    return all;
}

/* Each is an object. */
static unsigned lines(const char *text)
{
    unsigned count = 0;

    for (; *text != '\0'; count++) {
        json_error_t end;
        json_t *row = json_loads(text, JSON_DISABLE_EOF_CHECK, &end);

        wt_require(json_is_object(row) && text[end.position] == '\n',
                   "a line is no object: %.60s", text);
        json_decref(row);
        text += end.position + 1;
    }
    return count;
}

static void has_row(const char *text, const bench_row *row)
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

/* On CUDA over the stand-in libraries, where they are built: that it works at
 * all is all that can be known without a GPU. */
static bool with_standin(void)
{
    char path[4200], *bench;

    snprintf(path, sizeof path, "%s", programs);
    bench = strstr(path, "/tests/bench/");
    ck_assert_ptr_nonnull(bench);
    strcpy(bench, "/standin");
    setenv("LD_LIBRARY_PATH", path, 1);
    return access(path, X_OK) == 0;
}

static const struct {
    const char *what, *name;
    unsigned least, most; /* lines */
    bool draws, on_cuda;
    const char *says[3];
} runs[] = {
    {"smoke",
     "bench",
     60,
     1000,
     true,
     false,
     {"\"ratio_to\":{\"floor\":", "\"held_over_least\":",
      "\"records_per_free\":"}},
    {"scale-smoke", "scale", 16, 16, true, false, {"", "", ""}},
    {"gpu-smoke",
     "gpu",
     30,
     1000,
     false,
     true,
     {"{\"bench\":\"gpu-mixeds\",\"case\":\"cuda\",\"threads\":8,",
      "\"case\":\"cuda-request\"", ""}},
    {"kinds",
     "kinds",
     1,
     1000,
     false,
     true,
     {"\"case\":\"stream\"", "\"held_ns\":", ""}},
};

WT_CASE("runs", .setup = set_up, .teardown = tear_down, .tags = "programs");

WT_LOOP_TEST(test_tiny_run_has_every_row, sizeof runs / sizeof *runs)
{
    char *text, *svg;

    if (runs[_i].on_cuda && !with_standin()) {
        wt_skip("needs the stand-ins");
    }
    run(NULL, "bench", runs[_i].what, folder);
    text = read_all(runs[_i].name, ".jsonl");
    ck_assert_uint_ge(lines(text), runs[_i].least);
    ck_assert_uint_le(lines(text), runs[_i].most);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(strstr(text, runs[_i].says[i]));
    }
    for (size_t i = 0; _i == 0 && i < bench_row_count; i++) {
        has_row(text, &bench_rows[i]);
    }
    if (runs[_i].draws) {
        svg = read_all(runs[_i].name, ".svg");
        ck_assert_ptr_nonnull(strstr(svg, "</svg>"));
        free(svg);
    }
    free(text);
}

/* ---- traces as files --------------------------------------------------- */

/* Numbers of two traces that mean the same. */
typedef struct pairing {
    uint32_t of[BENCH_WORKERS + 1];
} pairing;

static bool paired(pairing *p, uint64_t here, uint64_t there)
{
    wt_require(here < BENCH_WORKERS, "number %llu", (unsigned long long)here);
    if (p->of[here] == 0) {
        p->of[here] = (uint32_t)there + 1;
    }
    return p->of[here] == (uint32_t)there + 1;
}

static bool is_request(const bench_step *step)
{
    return bench_step_allocates(step) || step->op == WM_TRACE_FREE ||
           step->op == WM_TRACE_USE || step->op == WM_TRACE_POOL;
}

static bool same_place(const bench_step *x, const bench_step *y,
                       pairing *streams)
{
    return x->value == y->value && x->place == y->place && x->pool == y->pool &&
           x->user == y->user &&
           (!wm_trace_is_device(x->place) ||
            paired(streams, x->stream, y->stream));
}

/* What a replay of file asked for, recorded in again, is what file says: the
 * same requests, by the same threads, in the same order, with the same sizes
 * and streams. */
static void same_requests(size_t steps)
{
    char error[256] = "";
    bench_trace *a = bench_trace_read(file, error, sizeof error);
    bench_trace *b = bench_trace_read(again, error, sizeof error);
    pairing workers = {{0}}, streams = {{0}};
    size_t k = 0, requests = 0;

    wt_require(a != NULL && b != NULL && b->whole, "no trace: %s", error);
    for (size_t i = 0; i < steps && i < a->steps; i++) {
        const bench_step *x = &a->step[i], *y;

        if (!is_request(x)) {
            continue;
        }
        while (k < b->steps && !is_request(&b->step[k])) {
            k++;
        }
        wt_require(k < b->steps, "step %zu is not there", i);
        y = &b->step[k++];
        wt_require(
            x->op == y->op && x->buffer == y->buffer &&
                paired(&workers, x->worker, y->worker) &&
                (!bench_step_allocates(x) || same_place(x, y, &streams)) &&
                (x->op != WM_TRACE_USE || paired(&streams, x->value, y->value)),
            "step %zu is another", i);
        requests++;
    }
    ck_assert_uint_gt(requests, steps / 2);
    bench_trace_end(a);
    bench_trace_end(b);
}

/* The word by which a replay records what it asks for. */
static const char *to_again(const char *more)
{
    static char conf[4400];

    snprintf(conf, sizeof conf, "conf=%strace:%s", more, again);
    return conf;
}

static const struct {
    const char *work, *lag;
} made_files[] = {{"tmixeds", "lag=32/0"}, {"tserver", "lag=0/0"}};

/* A file of a made trace, replayed, gives what its row gives; and what the
 * replay asks for, recorded again, is what was in the file. */
WT_LOOP_TEST(test_a_made_trace_replays_like_its_row,
             sizeof made_files / sizeof *made_files)
{
    static const char *const names[] = {"records", "queries", "obtains", "peak",
                                        "live"};
    const char *work = made_files[_i].work, *lag = made_files[_i].lag;
    char row[OUT], played[OUT];

    run(NULL, "bench", "trace", work, file);
    run(row, "bench", "one", "warmpool", work, "threads=8", "ops=10000", lag);
    run(played, "replay", file, "warmpool", lag, "steps=10000");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ck_assert_double_eq_tol(figure(row, names[i]), figure(played, names[i]),
                                1e-6);
    }
    run(played, "replay", file, "warmpool", lag, "steps=10000", to_again(""));
    same_requests(10000);
}

/* ---- memory of all sorts ----------------------------------------------- */

static void *allocate_any(warm_runtime *runtime, warm_stream *stream,
                          unsigned i)
{
    void *block = NULL;

    switch (i % 5) {
    case 0:
        wt_ok(warm_pinned_alloc(runtime, 1000 + i, &block));
        break;
    case 1:
        wt_ok(warm_pinned_alloc_on(runtime, 64 << 20, WARM_NODE_ANY,
                                   WARM_ALLOC_PAGEABLE_OK, &block));
        break;
    default:
        wt_ok(warm_device_alloc(runtime, i % 5 == 2, stream[i % 5 - 2],
                                10000 * i, &block));
        wt_ok(warm_record_stream(block, stream[0]));
    }
    return block;
}

/* Buffers of the shared space, of each sort, with uses by a list. */
static void record_shared(warm_runtime *runtime, warm_stream stream)
{
    const int64_t value = 7;
    void *buffer[9];

    for (int i = 0; i < 9; i += 3) {
        size_t bytes = (size_t)(i + 1) << 20;

        wt_ok(warm_shared_alloc(runtime, 1, bytes, WARM_USAGE_PRIVATE,
                                &buffer[i]));
        wt_ok(warm_shared_alloc(runtime, i % 2, bytes, WARM_USAGE_SHARED,
                                &buffer[i + 1]));
        wt_ok(warm_shared_alloc_scalar(runtime, 0, &value, sizeof value,
                                       &buffer[i + 2]));
        wt_ok(warm_shared_record(runtime, buffer, (size_t)i + 3, stream, NULL));
    }
    wt_free_all(buffer, 9);
}

/* Streams of two devices and the legacy one, private pools, and memory in the
 * place of page-locked. */
static void record_all_sorts(void)
{
    warm_options options = {.size = sizeof options,
                            .trace = file,
                            .host_devices = 2,
                            .pinned_high = 32 << 20};
    warm_runtime *runtime = wt_runtime(&options);
    warm_stream stream[3] = {NULL};
    warm_private_pool pool[2] = {{0}};
    void *block[40];

    wt_ok(warm_stream_create(runtime, 1, &stream[0]));
    wt_ok(warm_stream_create(runtime, 0, &stream[1]));
    for (unsigned i = 0; i < 40; i++) {
        unsigned k = i / 4 % 2;

        if (i % 4 == 2) {
            wt_ok(warm_private_pool_begin(
                runtime, &pool[k], k == 1 ? WARM_POOL_USER : 0, NULL, NULL));
        }
        block[i] = i % 4 == 2 && i % 5 == 1 ? wt_pinned(runtime, 3000)
                                            : allocate_any(runtime, stream, i);
        if (i % 4 == 2) {
            wt_ok(warm_private_pool_end(runtime, pool[k]));
        }
        if (i > 4) {
            wt_ok(warm_free(block[i - 5]));
        }
    }
    for (unsigned i = 35; i < 40; i++) {
        wt_ok(warm_free(block[i]));
    }
    record_shared(runtime, stream[0]);
    for (unsigned i = 0; i < 10; i++) {
        wt_ok(warm_private_pool_release(runtime, pool[i % 2]));
    }
    wt_ok(warm_stream_destroy(runtime, stream[0]));
    wt_ok(warm_stream_destroy(runtime, stream[1]));
    wt_runtime_end(runtime);
}

/* Recorded, played, recorded again: the same. */
static const struct {
    const char *subject, *says;
} sorted[] = {
    {"warmpool", "complete: until the runtime was destroyed"},
    {"warmpool-host", "(of devices: 24, pageable: 6, shared: 9)"},
    {"malloc", "malloc has no private pools"},
    {"floor", "floor has memory of one sort: blocks of devices, "
              "pageable and shared ones (39)"},
    {"per-request", "per-request has memory of one sort"},
};

WT_LOOP_TEST(test_G8_memory_of_all_sorts_is_played,
             sizeof sorted / sizeof *sorted)
{
    const char *subject = sorted[_i].subject;
    char played[OUT];

    record_all_sorts();
    run(played, "replay", file, subject, to_again("pinned_high:32M,"));
    wt_contains(played, sorted[_i].says);
    ck_assert_double_gt(figure(played, "live"), 64 << 20);
    if (strncmp(subject, "warmpool", 8) == 0) {
        same_requests(200);
        ck_assert_double_gt(figure(played, "peak"), 2 << 20);
    }
}

/* Blocks of several pieces are played as such; rows as a block of their size.
 */
static void record_pieces(void)
{
    warm_options options = {
        .size = sizeof options, .trace = file, .pin_chunk = 1 << 20};
    warm_runtime *runtime = wt_runtime(&options);
    void *block[8];

    for (size_t i = 0; i < 8; i++) {
        if (i % 2 == 0) {
            wt_ok(warm_pinned_alloc_rows(runtime, (i + 1) << 20, 12288,
                                         &block[i]));
        } else {
            block[i] = wt_pinned(runtime, (i + 1) << 20);
        }
        if (i >= 2) {
            wt_ok(warm_free(block[i - 2]));
        }
    }
    wt_free(block[6], block[7]);
    wt_runtime_end(runtime);
}

WT_TEST(test_B19_G8_blocks_in_pieces_are_played)
{
    char played[OUT];

    record_pieces();
    run(played, "replay", file, "warmpool-host", to_again("pin_chunk:1M,"));
    wt_contains(played, "complete: until the runtime");
    same_requests(20);
    /* Six, seven and eight MiB are live at once, and little more is held. */
    ck_assert_double_eq_tol(figure(played, "live"), 21 << 20, 1 << 20);
    ck_assert_double_lt(figure(played, "peak"), 32 << 20);
}

/* The number in the columns of a comparison: 1 or 2, or the ratio, 3. */
static double column(const char *out, const char *name, int which)
{
    char line[32];
    const char *at;

    snprintf(line, sizeof line, "\n%s ", name);
    at = strstr(out, line);
    wt_require(at != NULL, "no line %s in: %s", name, out);
    at += strlen(line);
    for (int i = 1; i < which; i++) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    return atof(at);
}

/* Two runs beside each other are what each run alone is; units are named. */
WT_TEST(test_G8_two_runs_of_a_trace_are_compared)
{
    const char *steps = "steps=2000", *lean = "conf=slack:1";
    char one[OUT], two[OUT], both[OUT];

    run(NULL, "bench", "trace", "tservers", file);
    run(one, "replay", file, "warmpool", steps, lean);
    run(two, "replay", file, "warmpool", steps, "conf=slack:200");
    run(both, "replay", file, "warmpool", steps, lean, "against=slack:200");
    wt_contains(one, " bytes obtained from the driver, at the peak\n",
                " ns a block");
    wt_contains(both, "run 2 on warmpool, conf=slack:200\n");
    ck_assert_double_eq(column(both, "peak", 1), figure(one, "peak"));
    ck_assert_double_eq(column(both, "peak", 2), figure(two, "peak"));
    ck_assert_double_eq_tol(column(both, "peak", 3),
                            figure(two, "peak") / figure(one, "peak"), 1e-3);
    ck_assert_double_eq(column(both, "live", 3), 1);
    run(both, "replay", file, "warmpool", steps, lean, "against=malloc/");
    wt_contains(both, "run 2 on malloc, conf=\n");
    ck_assert_double_gt(column(both, "ns", 2), 0);
}

/* CUB where it was built: its memory is of one device. */
WT_TEST(test_G8_cub_plays_memory_of_devices)
{
    char library[4200], played[OUT];

    snprintf(library, sizeof library, "%slibbench_cub.so", programs);
    if (access(library, R_OK) != 0) {
        printf("skip: CUB plays traces: it is not built here\n");
        return;
    }
    record_all_sorts();
    run(played, "replay", file, "cub");
    wt_contains(played, "in memory of device 0: 16 were of the host, 24 of 2 "
                        "devices");
    ck_assert_double_gt(figure(played, "peak"), 64 << 20);
}

/* Every subject plays a trace, with threads or with one alone. */
static const char *const players[] = {"warmpool",      "floor",
                                      "malloc",        "per-request",
                                      "warmpool-host", "warmpool-device"};

WT_LOOP_TEST(test_a_trace_is_played_by_every_subject,
             sizeof players / sizeof *players)
{
    char many[OUT], one[OUT];

    run(NULL, "bench", "trace", "tservers", file);
    run(many, "replay", file, players[_i], "steps=600");
    run(one, "replay", file, players[_i], "steps=600", "threads=1");
    ck_assert_double_gt(figure(many, "ns"), 0);
    ck_assert_double_gt(figure(many, "live"), 0);
    ck_assert_double_eq(figure(many, "live"), figure(one, "live"));
}

/* ---- goals ------------------------------------------------------------- */

/* Row hot64k: ns of the library and of the floor at 1, 2, 4 and 8 threads. */
static const struct {
    double mine[4], floor[4];
    bool met;
} hot[] = {
    {{10, 10, 10, 10}, {5, 5, 5, 5}, true},
    {{10, 20, 10, 15}, {10, 20, 10, 10}, true},  /* flat: 1.5 x the ratio */
    {{10, 10, 10, 16}, {10, 10, 10, 10}, false}, /* not flat */
    {{10, 10, 10, 10}, {10, 10, 10, 6}, false},  /* nor where the floor is */
    {{10, 20, 20, 20}, {5, 10, 10, 10}, true},   /* the machine is not */
    {{13, 10, 10, 10}, {5, 5, 5, 5}, false},     /* 2.6 times */
    {{10, 10, 10, 13}, {5, 5, 5, 5}, false},
    {{10, 10, 10, 10}, {5, 5, 5, -1}, false}, /* the floor is missing */
    {{10, -1, 10, 10}, {5, 5, 5, 5}, false},  /* not measured */
};

/* The number after a word. */
static double after(const char *out, const char *word)
{
    const char *at = strstr(out, word);

    wt_require(at != NULL, "no '%s' in %s", word, out);
    return strtod(at + strlen(word), NULL);
}

/* What a peak is made of is all of it. */
WT_TEST(test_parts_of_a_peak_add_up)
{
    static const char *const parts[] = {"last",     "live  ", "rounding",
                                        "pending",  "slots",  "idle  ",
                                        "magazines"};
    char out[OUT];
    double sum = 0;

    run(out, "bench", "peak", "tservers", "4");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        sum += after(out, parts[i]);
    }
    ck_assert_double_eq_tol(sum, after(out, "lag 4:"), 0.5);
    ck_assert_double_ge(after(out, "pending"), 1);
    ck_assert_double_ge(after(out, "lag 4:"), after(out, "no less than"));
}

WT_CASE("figures");

static bool met(const bench_row *row, const bench_figures *f)
{
    char measured[160];

    return bench_goal_met(row, f, measured, sizeof measured);
}

WT_LOOP_TEST(test_goal_of_a_ratio, sizeof hot / sizeof *hot)
{
    const bench_row *row = &bench_rows[bench_row_find("hot64k")];
    int floor = bench_series_find(row, "floor");
    bench_figures f = {0};

    for (int t = 0; t < 4; t++) {
        f.of[0][t].ns = hot[_i].mine[t];
        f.of[floor][t].ns = hot[_i].floor[t];
    }
    ck_assert_int_eq(met(row, &f), hot[_i].met);
}

/* Two streams; buffer 0 and 1 on the first, 2 on the other, 3 on none. */
static const bench_step pending_steps[] = {
    {.op = WM_TRACE_ALLOC, .buffer = 0, .value = 100},
    {.op = WM_TRACE_USE, .buffer = 0, .value = 0},
    {.op = WM_TRACE_FREE, .buffer = 0},
    {.op = WM_TRACE_ALLOC, .buffer = 1, .value = 1000},
    {.op = WM_TRACE_USE, .buffer = 1, .value = 0},
    {.op = WM_TRACE_FREE, .buffer = 1},
    {.op = WM_TRACE_ALLOC, .buffer = 2, .value = 40},
    {.op = WM_TRACE_USE, .buffer = 2, .value = 1},
    {.op = WM_TRACE_ALLOC, .buffer = 3, .value = 20},
    {.op = WM_TRACE_FREE, .buffer = 3},
    {.op = WM_TRACE_ALLOC, .buffer = 4, .value = 10},
};

static const struct {
    unsigned lag;
    uint64_t bytes;
} pending[] = {{0, 1000}, {1, 1100}, {2, 1160}};

WT_LOOP_TEST(test_least_that_could_be_held, sizeof pending / sizeof *pending)
{
    enum { STEPS = sizeof pending_steps / sizeof *pending_steps };
    bench_trace *t = bench_trace_new(STEPS, STEPS);

    ck_assert_ptr_nonnull(t);
    for (int i = 0; i < STEPS; i++) {
        wt_require(bench_trace_add(t, pending_steps[i]), "no room");
    }
    ck_assert_uint_eq(bench_least(t, pending[_i].lag), pending[_i].bytes);
    bench_trace_end(t);
}

/* Threads that keep step: what is freed and not done counts, too. */
WT_TEST(test_least_of_sequences)
{
    bench_setup setup = {.threads = 1, .ops = 1, .made = {.slots = 8}};
    bench_sequence sequence;
    uint64_t live;

    ck_assert(!bench_sequence_make("other", &setup, 0, &sequence));
    ck_assert(bench_sequence_make("mixed", &setup, 0, &sequence));
    live = bench_sequence_least(&sequence, &setup, false);
    ck_assert_uint_gt(live, 0);
    ck_assert_uint_le(live, (uint64_t)8 << 22);
    ck_assert_uint_eq(bench_sequence_least(&sequence, &setup, true), live);
    setup.lag = 4;
    ck_assert_uint_eq(bench_sequence_least(&sequence, &setup, false), live);
    ck_assert_uint_gt(bench_sequence_least(&sequence, &setup, true), live);
    free(sequence.turn);
}

static const struct {
    double records, queries, others;
    bool met;
} calls[] = {{0.125, 0.125, 0, true},
             {0.126, 0.1, 0, false},
             {0.1, 0.126, 0, false},
             {0.1, 0.1, 0.01, false},
             {-1, -1, -1, false}};

WT_LOOP_TEST(test_goal_of_calls, sizeof calls / sizeof *calls)
{
    const bench_row *row = &bench_rows[bench_row_find("calls")];
    bench_figures f = {0};

    f.of[0][3].records = calls[_i].records;
    f.of[0][3].queries = calls[_i].queries;
    f.of[0][3].others = calls[_i].others;
    ck_assert_int_eq(met(row, &f), calls[_i].met);
}

/* A difference may be below nothing, but not drown in noise. */
WT_TEST(test_goal_of_a_difference)
{
    const bench_row *row = &bench_rows[bench_row_find("churn")];
    bench_figures f = {0};

    f.of[0][0] = BENCH_RESULT_NONE;
    ck_assert(!met(row, &f));
    f.of[0][0].ns = 650;
    f.of[0][0].max = 900;
    ck_assert(met(row, &f));
    f.of[0][0].max = 1100;
    ck_assert(!met(row, &f));
    f.of[0][0].ns = 710;
    f.of[0][0].max = 720;
    ck_assert(!met(row, &f));
}

/* ---- a measurement ----------------------------------------------------- */

struct counted {
    _Atomic uint64_t ops;
    uint64_t warm; /* of them, when the warm-up was over */
};

static void count_ops(void *context, unsigned thread, uint64_t ops)
{
    struct counted *counted = context;

    counted->ops += ops;
}

static void note_warm(void *context)
{
    struct counted *counted = context;

    counted->warm = counted->ops;
}

/* A round of the warm-up is 1000 / 4 + 1024 operations. */
static const struct {
    uint64_t warm, rounds;
} warm_ups[] = {{0, 1}, {1274, 1}, {1275, 2}, {5000, 4}};

WT_LOOP_TEST(test_measure_warms_up_in_rounds,
             sizeof warm_ups / sizeof *warm_ups)
{
    const uint64_t warm = 1274 * warm_ups[_i].rounds;
    bench_setup setup = {
        .threads = 3, .ops = 1000, .runs = 2, .warm = warm_ups[_i].warm};
    bench_result result = BENCH_RESULT_NONE;
    struct counted counted = {0, 0};

    bench_measure(&setup, count_ops, &counted, NULL, note_warm, &result);
    ck_assert_uint_eq(counted.warm, 3 * warm);
    ck_assert_uint_eq(counted.ops, 3 * (warm + 2 * 1000));
    ck_assert_double_eq(result.warm_ops, (double)warm);
    ck_assert_double_eq(result.ops, 3 * 2 * 1000);
    ck_assert_double_ge(result.warm_ns, 0);
}

/* What a thread has done in how long, and whether it is warm: after 20 ms, and
 * then each time it has doubled; at the second time that nothing was gained. */
typedef struct look {
    uint64_t ms, ops;
    bool warm;
} look;
static const look steady[] = {{19, 100, false},
                              {20, 100, false},
                              {39, 210, false},
                              {40, 200, false},
                              {80, 400, true}};
static const look cheaper[] = {{25, 100, false},   {49, 300, false},
                               {50, 220, false},   {99, 900, false},
                               {110, 530, false},  {220, 1300, false},
                               {440, 2700, false}, {880, 5500, true}};

static void check_warmth(const look *looks, size_t count)
{
    bench_warmth w = {0};

    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(bench_is_warm(&w, looks[i].ms * 1000000, looks[i].ops),
                         looks[i].warm);
    }
}

WT_TEST(test_warm_is_who_gains_no_more)
{
    check_warmth(steady, sizeof steady / sizeof *steady);
    check_warmth(cheaper, sizeof cheaper / sizeof *cheaper);
}

/* Figures of another row are those of the same label at as many threads; it is
 * measured before. */
WT_TEST(test_figures_are_measured_once)
{
    bench_figures *figures = calloc(bench_row_count, sizeof *figures);
    unsigned shared = 0;

    for (size_t i = 0; i < bench_row_count; i++) {
        for (unsigned s = 0; s < bench_series_count(&bench_rows[i]); s++) {
            const bench_series *series = &bench_rows[i].series[s];
            const bench_result *of =
                bench_series_of(&bench_rows[i], s, figures);
            size_t from;

            if (of == NULL) {
                continue;
            }
            from = bench_row_find(series->work);
            ck_assert_uint_lt(from, i);
            ck_assert_ptr_eq(of, figures[from].of[bench_series_find(
                                     &bench_rows[from], series->label)]);
            ck_assert_mem_eq(bench_rows[from].threads, bench_rows[i].threads,
                             sizeof bench_rows[i].threads);
            shared++;
        }
    }
    ck_assert_uint_eq(shared, 5);
    free(figures);
}
