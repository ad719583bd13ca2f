/* kinds.c: `bench kinds FOLDER`: what handles of real libraries cost to make,
 * to take from the pool, and to use again.
 *
 * For each kind that is here, on the CUDA driver: the first one, with the
 * loading of its library; eight at once after it; one that is idle, taken by a
 * thread that has none and given back; one held; one held and bound. */
#include "tests/bench/plan.h"
#include "tests/bench/runtime_on.h"

#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 8, TAKES = 2000, HOLDS = 1000000 };

static const struct {
    warm_kind kind;
    const char *name;
    bool bound;
} kinds[] = {
    {WARM_KIND_STREAM, "stream", false},
    {WARM_KIND_CUBLAS, "cublas", true},
    {WARM_KIND_CUBLASLT, "cublaslt", false},
    {WARM_KIND_CUDNN, "cudnn", true},
    {WARM_KIND_CUSPARSE, "cusparse", true},
    {WARM_KIND_CUSOLVER, "cusolver", true},
};

/* X(field, meaning); nanoseconds, and bytes of the device. */
#define KIND_FIGURES(X)                                                        \
    X(first_ns, "the first one, with its library")                             \
    X(create_ns, "one of the next eight")                                      \
    X(take_ns, "an idle one: reserve, and give back")                          \
    X(held_ns, "held: reserve")                                                \
    X(bound_ns, "held and bound: reserve on the same stream")                  \
    X(device_bytes, "bytes of the device, each")

typedef struct kind_figures {
#define FIELD(name, meaning) double name;
    KIND_FIGURES(FIELD)
#undef FIELD
} kind_figures;

static bool failed(const char *kind, const char *what)
{
    fprintf(stderr, "skip: %s: %s: %s\n", kind, what,
            warm_last_error_message());
    return false;
}

/* Eight on lease at once: with the first one idle, seven are made. */
static bool make_more(warm_runtime *runtime, warm_kind kind, kind_figures *f)
{
    warm_handle_stats before = {.size = sizeof before}, after = before;
    warm_lease lease[AT_ONCE] = {{0}};
    bool made = true;
    double count;

    (void)warm_handle_get_stats(runtime, kind, 0, &before);
    for (int i = 0; made && i < AT_ONCE; i++) {
        void *handle = NULL;

        made =
            warm_handle_lease(runtime, kind, 0, &lease[i], &handle) == WARM_OK;
    }
    for (int i = 0; i < AT_ONCE && lease[i].number != 0; i++) {
        (void)warm_handle_return(runtime, lease[i]);
    }
    (void)warm_handle_get_stats(runtime, kind, 0, &after);
    count = (double)(after.created - before.created);
    if (made && count > 0) {
        f->create_ns = (double)(after.create_ns - before.create_ns) / count;
        f->device_bytes =
            (double)(after.device_bytes - before.device_bytes) / count;
    }
    return made;
}

static bool measure(warm_runtime *runtime, int i, warm_stream stream,
                    kind_figures *f)
{
    warm_kind kind = kinds[i].kind;
    void *handle = NULL;
    uint64_t start = bench_now_ns();

    if (warm_handle_reserve(runtime, kind, 0, &handle) != WARM_OK) {
        return failed(kinds[i].name, "reserve");
    }
    f->first_ns = (double)(bench_now_ns() - start);
    (void)warm_thread_release(runtime);
    if (!make_more(runtime, kind, f)) {
        return failed(kinds[i].name, "lease");
    }
    start = bench_now_ns();
    for (int k = 0; k < TAKES; k++) {
        (void)warm_handle_reserve(runtime, kind, 0, &handle);
        (void)warm_thread_release(runtime);
    }
    f->take_ns = (double)(bench_now_ns() - start) / TAKES;
    (void)warm_handle_reserve(runtime, kind, 0, &handle);
    start = bench_now_ns();
    for (int k = 0; k < HOLDS; k++) {
        (void)warm_handle_reserve(runtime, kind, 0, &handle);
        __asm__ volatile("" : : "r"(handle) : "memory");
    }
    f->held_ns = (double)(bench_now_ns() - start) / HOLDS;
    if (!kinds[i].bound) {
        return true;
    }
    if (warm_handle_reserve_on(runtime, kind, 0, stream, &handle) != WARM_OK) {
        return failed(kinds[i].name, "reserve on a stream");
    }
    start = bench_now_ns();
    for (int k = 0; k < HOLDS; k++) {
        (void)warm_handle_reserve_on(runtime, kind, 0, stream, &handle);
        __asm__ volatile("" : : "r"(handle) : "memory");
    }
    f->bound_ns = (double)(bench_now_ns() - start) / HOLDS;
    return true;
}

static void print(FILE *json, const char *name, const kind_figures *f)
{
    printf("\n%s\n", name);
    fprintf(json, "{\"bench\":\"kind\",\"case\":\"%s\"", name);
#define PRINT(field, meaning)                                                  \
    if (f->field >= 0) {                                                       \
        printf("  %14.1f  %s\n", f->field, meaning);                           \
        fprintf(json, ",\"" #field "\":%.6g", f->field);                       \
    }
    KIND_FIGURES(PRINT)
#undef PRINT
    fprintf(json, "}\n");
    fflush(stdout);
    fflush(json);
}

bool bench_kinds(const char *folder)
{
    warm_options options = {.size = sizeof options, .device = "cuda"};
    warm_runtime *runtime = NULL;
    warm_stream stream = NULL;
    char path[4096];
    unsigned measured = 0;
    FILE *json;

    snprintf(path, sizeof path, "%s/kinds.jsonl", folder);
    json = fopen(path, "we");
    if (json == NULL) {
        fprintf(stderr, "bench: %s cannot be written\n", path);
        return false;
    }
    if (warm_runtime_create(&options, &runtime) != WARM_OK ||
        warm_stream_create(runtime, 0, &stream) != WARM_OK) {
        (void)failed("handles", "no runtime");
    }
    for (int i = 0; stream != NULL && i < (int)(sizeof kinds / sizeof *kinds);
         i++) {
        kind_figures f = {-1, -1, -1, -1, -1, -1};

        if (measure(runtime, i, stream, &f)) {
            print(json, kinds[i].name, &f);
            measured++;
        }
    }
    (void)warm_runtime_destroy(runtime, NULL);
    return fclose(json) == 0 && measured > 0;
}
