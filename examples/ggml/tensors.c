/* tensors.c: a graph of ggml whose weights, inputs and results are in buffers
 * of warmpool.
 *
 *   ggml_tensors [--threads N] [--rounds N] [--largest BYTES]
 *
 * On each thread: allocates weights from the buffer type, computes y = W x with
 * ggml's CPU backend, checks y, and frees. Prints what was wrong, and what is
 * live at the end, which should be nothing. BYTES: of a buffer; ggml makes
 * several where the weights need more.
 */
#include <ggml-cpu.h>

#include <warmpool/ggml.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

enum { COLUMNS = 64, ROWS = 32, LAYERS = 8, MOST_THREADS = 64 };

static ggml_backend_buffer_type_t type;

struct worker {
    pthread_t thread;
    unsigned rounds, wrong, foreign, failed, buffers;
};

/* Small whole numbers: sums of floats are exact. */
static float weight_at(unsigned layer, unsigned i)
{
    return (float)((i * 7 + layer) % 5) - 2;
}

static float input_at(unsigned round, unsigned column)
{
    return (float)((round + column) % 3);
}

static float expected(unsigned layer, unsigned round, unsigned row)
{
    float sum = 0;

    for (unsigned c = 0; c < COLUMNS; c++) {
        sum += weight_at(layer, row * COLUMNS + c) * input_at(round, c);
    }
    return sum;
}

/* ---- one round ----------------------------------------------------------- */

struct model {
    struct ggml_context *tensors, *nodes;
    struct ggml_tensor *weight[LAYERS], *x, *y[LAYERS];
    struct ggml_cgraph *graph;
    ggml_backend_buffer_t buffer; /* of weights and x; perhaps several in one */
    ggml_gallocr_t results;       /* allocates the nodes, from the type */
};

static struct ggml_context *context(size_t bytes)
{
    const struct ggml_init_params params = {.mem_size = bytes,
                                            .no_alloc = true};

    return ggml_init(params);
}

static void fill(struct model *m, unsigned round)
{
    float values[ROWS * COLUMNS];

    for (unsigned l = 0; l < LAYERS; l++) {
        for (unsigned i = 0; i < ROWS * COLUMNS; i++) {
            values[i] = weight_at(l, i);
        }
        ggml_backend_tensor_set(m->weight[l], values, 0, sizeof values);
    }
    for (unsigned c = 0; c < COLUMNS; c++) {
        values[c] = input_at(round, c);
    }
    ggml_backend_tensor_set(m->x, values, 0, COLUMNS * sizeof *values);
}

static bool build(struct model *m)
{
    m->tensors = context((LAYERS + 1) * ggml_tensor_overhead());
    m->nodes =
        context(4 * LAYERS * ggml_tensor_overhead() + ggml_graph_overhead());
    m->graph = ggml_new_graph(m->nodes);
    m->x = ggml_new_tensor_1d(m->tensors, GGML_TYPE_F32, COLUMNS);
    for (unsigned l = 0; l < LAYERS; l++) {
        m->weight[l] =
            ggml_new_tensor_2d(m->tensors, GGML_TYPE_F32, COLUMNS, ROWS);
        m->y[l] = ggml_mul_mat(m->nodes, m->weight[l], m->x);
        ggml_set_output(m->y[l]);
        ggml_build_forward_expand(m->graph, m->y[l]);
    }
    m->buffer = ggml_backend_alloc_ctx_tensors_from_buft(m->tensors, type);
    m->results = ggml_gallocr_new(type);
    return m->buffer != NULL && ggml_gallocr_alloc_graph(m->results, m->graph);
}

static void end(struct model *m)
{
    ggml_gallocr_free(m->results);
    ggml_backend_buffer_free(m->buffer);
    ggml_free(m->nodes);
    ggml_free(m->tensors);
}

static void check(const struct model *m, struct worker *w, unsigned round)
{
    for (unsigned l = 0; l < LAYERS; l++) {
        float y[ROWS];

        ggml_backend_tensor_get(m->y[l], y, 0, sizeof y);
        for (unsigned r = 0; r < ROWS; r++) {
            w->wrong +=
                y[r] < expected(l, round, r) || y[r] > expected(l, round, r);
        }
        w->foreign += !warm_owns(m->weight[l]->data);
        w->foreign += !warm_owns(m->y[l]->data);
        w->foreign += m->weight[l]->buffer->buft != type;
        w->buffers +=
            l == 0 || m->weight[l]->buffer != m->weight[l - 1]->buffer;
    }
}

static bool round_of(struct worker *w, ggml_backend_t cpu, unsigned round)
{
    struct model m = {0};
    bool good = build(&m);

    if (good) {
        fill(&m, round);
        good = ggml_backend_graph_compute(cpu, m.graph) == GGML_STATUS_SUCCESS;
    }
    if (good) {
        check(&m, w, round);
    }
    end(&m);
    return good;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    ggml_backend_t cpu = ggml_backend_cpu_init();

    ggml_backend_cpu_set_n_threads(cpu, 1);
    for (unsigned i = 0; i < w->rounds; i++) {
        w->failed += !round_of(w, cpu, i);
    }
    ggml_backend_free(cpu);
    return NULL;
}

/* ---- the program --------------------------------------------------------- */

static bool run_threads(unsigned threads, unsigned rounds)
{
    static struct worker workers[MOST_THREADS];
    struct worker sum = {0};
    unsigned started = 0;

    while (started < threads) {
        workers[started] = (struct worker){.rounds = rounds};
        if (pthread_create(&workers[started].thread, NULL, work,
                           &workers[started]) != 0) {
            break;
        }
        started++;
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        sum.wrong += workers[i].wrong;
        sum.foreign += workers[i].foreign;
        sum.failed += workers[i].failed;
        sum.buffers += workers[i].buffers;
    }
    printf("rounds: %u, failed: %u, with wrong results: %u, with tensors "
           "elsewhere: %u\n",
           started * rounds, sum.failed, sum.wrong, sum.foreign);
    printf("buffers of weights: %u a round\n",
           started * rounds > 0 ? sum.buffers / (started * rounds) : 0);
    return started == threads && sum.failed + sum.wrong + sum.foreign == 0;
}

static size_t option(int argc, char **argv, const char *name, size_t value)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], name) == 0) {
            value = strtoul(argv[i + 1], NULL, 10);
        }
    }
    return value;
}

int main(int argc, char **argv)
{
    size_t threads = option(argc, argv, "--threads", 4);
    size_t rounds = option(argc, argv, "--rounds", 20);
    size_t largest = option(argc, argv, "--largest", 0);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    static warm_ggml_host host;
    warm_runtime *runtime = NULL;
    warm_status status;
    bool good;

    if (threads == 0 || threads > MOST_THREADS) {
        fprintf(stderr, "--threads 1 to %d\n", MOST_THREADS);
        return 1;
    }
    status = warm_runtime_create(NULL, &runtime);
    if (status == WARM_OK) {
        status = warm_ggml_host_init(&host, runtime, largest, &type);
    }
    if (status != WARM_OK) {
        fprintf(stderr, "%s\n",
                status == WARM_UNSUPPORTED
                    ? "ggml-backend-impl.h is not of the ggml that is linked"
                    : warm_last_error_message());
        return 1;
    }
    good = run_threads((unsigned)threads, (unsigned)rounds);
    good = warm_runtime_destroy(runtime, &report) == WARM_OK && good;
    printf("blocks live at the end: %" PRIu64 "\n", report.live);
    return good && report.live == 0 ? 0 : 1;
}
