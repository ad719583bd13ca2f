/* session.c: sessions of ONNX Runtime whose memory is warmpool's.
 *
 *   ort_session [--threads N] [--runs N]
 *
 * registers an allocator with the environment, and lets two sessions use it, on
 * N threads, while idle memory is returned to the system now and then. The
 * model is made here (model.h), so that the right results are known. Prints
 * what was wrong, how much came from warmpool, and what is held and live at the
 * end, which should be nothing.
 */
#include "model.h"

#include <warmpool/onnxruntime.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SESSIONS = 2, MOST_THREADS = 64, MOST_BATCH = 32 };

static const OrtApi *api;
static warm_ort_allocator memory;
static OrtSession *sessions[SESSIONS];

struct worker {
    pthread_t thread;
    unsigned index, runs, wrong, foreign, failed;
};

static bool ok(OrtStatus *status, const char *what)
{
    if (status != NULL) {
        fprintf(stderr, "%s: %s\n", what, api->GetErrorMessage(status));
        api->ReleaseStatus(status);
    }
    return status == NULL;
}
#define OK(call) ok(api->call, #call)

/* ---- one run ------------------------------------------------------------- */

static float input_at(unsigned run, unsigned row, unsigned column)
{
    return (float)((run + row * 5 + column) % 3);
}

/* Small whole numbers: sums of floats are exact. */
static unsigned count_wrong(const float *y, unsigned run, unsigned batch)
{
    unsigned wrong = 0;

    for (unsigned r = 0; r < batch; r++) {
        for (unsigned o = 0; o < MODEL_OUTPUTS; o++) {
            float sum = model_bias(o);

            for (unsigned i = 0; i < MODEL_INPUTS; i++) {
                sum += input_at(run, r, i) * model_weight(i, o);
            }
            wrong += y[r * MODEL_OUTPUTS + o] < sum ||
                     y[r * MODEL_OUTPUTS + o] > sum;
        }
    }
    return wrong;
}

/* The input is a tensor of warmpool's as well, by the same allocator. */
static OrtValue *make_input(unsigned run, unsigned batch)
{
    const int64_t shape[] = {batch, MODEL_INPUTS};
    OrtValue *x = NULL;
    void *data = NULL;

    if (!OK(CreateTensorAsOrtValue(&memory.base, shape, 2,
                                   ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x)) ||
        !OK(GetTensorMutableData(x, &data)) || data == NULL) {
        api->ReleaseValue(x);
        return NULL;
    }
    for (unsigned i = 0; i < batch * MODEL_INPUTS; i++) {
        ((float *)data)[i] = input_at(run, i / MODEL_INPUTS, i % MODEL_INPUTS);
    }
    return x;
}

static bool run_once(struct worker *w, unsigned run)
{
    const char *const inputs[] = {"x"}, *const outputs[] = {"y"};
    unsigned batch = 1 + run % MOST_BATCH;
    OrtValue *x = make_input(run, batch), *y = NULL;
    OrtSession *session = sessions[(w->index + run) % SESSIONS];
    const OrtValue *const given[] = {x};
    void *data = NULL;
    bool good = x != NULL &&
                OK(Run(session, NULL, inputs, given, 1, outputs, 1, &y)) &&
                OK(GetTensorMutableData(y, &data));

    if (good) {
        w->wrong += count_wrong(data, run, batch);
        w->foreign += !warm_owns(data);
    }
    api->ReleaseValue(y);
    api->ReleaseValue(x);
    return good;
}

static void *work(void *argument)
{
    struct worker *w = argument;

    for (unsigned i = 0; i < w->runs; i++) {
        w->failed += !run_once(w, w->index * 31 + i);
    }
    return NULL;
}

/* ---- the program --------------------------------------------------------- */

static bool open_sessions(const OrtEnv *env)
{
    OrtSessionOptions *options = NULL;
    size_t bytes = 0;
    unsigned char *model = model_make(&bytes);
    bool good =
        model != NULL && OK(CreateSessionOptions(&options)) &&
        OK(SetIntraOpNumThreads(options, 1)) &&
        OK(AddSessionConfigEntry(options, "session.use_env_allocators", "1"));

    for (unsigned i = 0; good && i < SESSIONS; i++) {
        good = OK(
            CreateSessionFromArray(env, model, bytes, options, &sessions[i]));
    }
    if (options != NULL) {
        api->ReleaseSessionOptions(options);
    }
    free(model);
    return good;
}

static void close_sessions(void)
{
    for (unsigned i = 0; i < SESSIONS; i++) {
        if (sessions[i] != NULL) {
            api->ReleaseSession(sessions[i]);
        }
    }
}

/* What ONNX Runtime says of the allocator: keys ends with null. */
static void print_statistics(const char *when, const char *const *keys)
{
    OrtKeyValuePairs *pairs = NULL;

    if (!OK(AllocatorGetStats(&memory.base, &pairs))) {
        return;
    }
    for (; *keys != NULL; keys++) {
        printf("%s%s: %s\n", when, *keys, api->GetKeyValue(pairs, *keys));
    }
    api->ReleaseKeyValuePairs(pairs);
}

/* Memory in use stays where it is. */
static bool shrink(void)
{
    return ok(warm_ort_shrink(&memory.base), "shrink");
}

static bool run_threads(unsigned threads, unsigned runs)
{
    static struct worker workers[MOST_THREADS];
    unsigned wrong = 0, foreign = 0, failed = 0, started = 0;
    bool good = true;

    while (started < threads) {
        struct worker *w = &workers[started];

        *w = (struct worker){.index = started, .runs = runs};
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            break;
        }
        started++;
    }
    for (unsigned i = 0; i < 20; i++) {
        good = shrink() && good;
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
        foreign += workers[i].foreign;
        failed += workers[i].failed;
    }
    printf(
        "runs: %u, failed: %u, with wrong results: %u, with outputs elsewhere: "
        "%u\n",
        started * runs, failed, wrong, foreign);
    return good && started == threads && failed + wrong + foreign == 0;
}

/* That the environment has the allocator, under the name that it was given. */
static bool is_registered(OrtEnv *env)
{
    OrtAllocator *shared = NULL;
    void *block = NULL;
    bool good =
        OK(GetSharedAllocator(env, memory.info, &shared)) && shared != NULL;

    if (good) {
        block = shared->Alloc(shared, 1000);
        good = warm_owns(block);
        shared->Free(shared, block);
    }
    return good;
}

static bool run(OrtEnv *env, unsigned threads, unsigned runs)
{
    const char *const all[] = {"NumAllocs", "NumReserves",    "InUse",
                               "MaxInUse",  "TotalAllocated", NULL};
    bool good = OK(RegisterAllocator(env, &memory.base));

    if (good) {
        good = is_registered(env) && open_sessions(env) &&
               run_threads(threads, runs);
        print_statistics("", all);
        close_sessions();
        good = shrink() && good;
        print_statistics("at the end ", &all[4]);
        good = OK(UnregisterAllocator(env, memory.info)) && good;
    }
    return good;
}

static unsigned option(int argc, char **argv, const char *name, unsigned value)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], name) == 0) {
            value = (unsigned)strtoul(argv[i + 1], NULL, 10);
        }
    }
    return value;
}

int main(int argc, char **argv)
{
    unsigned threads = option(argc, argv, "--threads", 4);
    unsigned runs = option(argc, argv, "--runs", 100);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_runtime *runtime = NULL;
    OrtEnv *env = NULL;
    bool good;

    api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    if (api == NULL || threads == 0 || threads > MOST_THREADS) {
        fprintf(stderr, "ONNX Runtime %s; --threads 1 to %d\n",
                OrtGetApiBase()->GetVersionString(), MOST_THREADS);
        return 1;
    }
    if (warm_runtime_create(NULL, &runtime) != WARM_OK) {
        fprintf(stderr, "%s\n", warm_last_error_message());
        return 1;
    }
    good = OK(CreateEnv(ORT_LOGGING_LEVEL_ERROR, "warmpool", &env)) &&
           ok(warm_ort_host_init(&memory, api, runtime, "Cpu", 0), "init");
    if (good) {
        good = run(env, threads, runs);
        warm_ort_fini(&memory);
    }
    if (env != NULL) {
        api->ReleaseEnv(env);
    }
    good = warm_runtime_destroy(runtime, &report) == WARM_OK && good;
    printf("blocks live at the end: %" PRIu64 "\n", report.live);
    return good && report.live == 0 ? 0 : 1;
}
